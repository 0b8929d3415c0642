"""cdec sample with a reward: cdlh, cdlh-approx and cdsl, their options, rewards and bad records."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.samplers.rewards import build_reward
from tests.laws.rounding import near_lines, read_lines

from .conftest import MEMBERS, Runner, refused

pytestmark = pytest.mark.usefixtures("loaded")

METHODS = ("cdlh", "cdlh-approx", "cdsl")
CONCEPTS = (["dog", "run", "park"], ["cat", "sit"], ["water", "boat"])
SHORT = ("--max-new-tokens", 8)
VOWELS = """
def share(texts, records):
    return [sum(c in 'aeiou' for c in text) / max(1, len(text)) for text in texts]

def fails(texts, records):
    if any(record['topic'] == 'bad' for record in records):
        raise RuntimeError('no such topic')
    return [float('nan') if record['topic'] == 'odd' else 1.0 for record in records]
"""


def _line(number: int, concepts: list[str]) -> dict[str, Any]:
    prompt = f"Concepts: {', '.join(concepts)}\nSentence:"
    return {"id": number, "prompt": prompt, "concepts": concepts}


def _jsonl(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


LINES = _jsonl(*(_line(number, concepts) for number, concepts in enumerate(CONCEPTS)))
COVERAGE = ("sample", "--reward", "coverage", *SHORT)


def _records(cdec: Runner, *words: object, stdin: bytes = LINES) -> list[Any]:
    result = cdec(*words, stdin=stdin)
    assert result.status == 0, result.stderr
    return result.records


@pytest.fixture
def own_reward(cdec: Runner) -> Iterator[str]:
    """A module of rewards in the working directory; imported modules are forgotten after."""
    Path("cdec_own_rewards.py").write_text(VOWELS)
    path = list(sys.path)
    yield "cdec_own_rewards"
    sys.path[:] = path
    sys.modules.pop("cdec_own_rewards", None)


@pytest.mark.share(1)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_what_the_reward_was(cdec: Runner, method: str) -> None:
    ratio = () if method == "cdlh" else ("--cost-ratio", 0.4)
    found = _records(cdec, *COVERAGE, "--method", method, *ratio)
    assert [record["id"] for record in found] == [0, 1, 2]
    for record in found:
        assert record["method"] == method
        assert record["exactness"] == "heuristic"
        assert record["log_weight"] is None
        assert record["reward"] == record["satisfaction_soft"]
        assert record["satisfaction_hard"] is (record["reward"] == 1.0)
        assert record["cost_per_token"] > 0
        assert ("draft_calls" in record) == (method != "cdlh")
        assert ("scenario_counts" in record) == (method == "cdsl")
    assert sum(record["reward"] for record in found) > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_constraint_holds_beside_the_reward(cdec: Runner, cities: Path, method: str) -> None:
    words = ("sample", "-a", cities, "--prompt", "A city is", "--reward", "regex:York")
    (record,) = _records(cdec, *words, "--method", method)
    assert record["text"] in MEMBERS
    assert record["valid"] is True
    (wanted,) = _records(cdec, *words, "--method", method, "--branch", 99, "--depth", 9)
    if method != "cdsl":
        assert (wanted["text"], wanted["satisfaction_hard"]) == ("New York", True)


def test_the_reward_gets_what_greedy_decoding_does_not(cdec: Runner) -> None:
    long = ("--max-new-tokens", 16)
    plain = _records(cdec, "sample", "--method", "greedy", *long)
    led = _records(cdec, *COVERAGE, *long, "--method", "cdlh", "--branch", 6)
    texts, inputs = [r["text"] for r in plain], [r["input"] for r in plain]
    covered = build_reward("coverage").scores(texts, inputs)
    assert sum(r["reward"] for r in led) > covered.sum()
    one = _records(cdec, *COVERAGE, *long, "--method", "cdlh", "--branch", 1)
    assert [r["token_ids"] for r in one] == [r["token_ids"] for r in plain]
    assert [r["reward"] for r in one] == covered.tolist()


def test_depth_is_how_far_is_looked_ahead(cdec: Runner) -> None:
    words = (*COVERAGE, "--method", "cdlh-approx", "--depth")
    near, far = (_records(cdec, *words, depth) for depth in (1, 6))
    assert sum(r["draft_calls"] for r in far) > sum(r["draft_calls"] for r in near)


def test_the_options_of_cdsl_decide_its_scenarios(cdec: Runner) -> None:
    def counts(*words: object) -> dict[str, int]:
        found = _records(cdec, *COVERAGE, "--method", "cdsl", *words)
        return {
            name: sum(record["scenario_counts"][name] for record in found)
            for name in ("S1", "S2", "S3", "S4")
        }

    easy = counts("--accept-threshold", 0, "--reward-threshold", 0)
    assert easy["S1"] > 0 == easy["S2"] + easy["S3"] + easy["S4"]
    poor = counts("--accept-threshold", 0, "--reward-threshold", 2)
    assert poor["S4"] > 0 == poor["S1"] + poor["S2"] + poor["S3"]
    picky = counts("--accept-threshold", 1, "--reward-threshold", 0)
    assert picky["S3"] > 0 == picky["S2"] + picky["S4"]


@pytest.mark.slow
def test_target_tries_verify_and_on_reject_change_the_run(cdec: Runner) -> None:
    words = (*COVERAGE, "--method", "cdsl")
    strict = (*words, "--accept-threshold", 1, "--reward-threshold", 0.9)
    none, many = (_records(cdec, *strict, "--target-tries", b) for b in (0, 3))
    assert sum(r["target_calls"] for r in none) < sum(r["target_calls"] for r in many)
    kept, dropped = (_records(cdec, *strict, "--on-reject", what) for what in ("keep", "discard"))
    assert sum(r["target_calls"] for r in kept) < sum(r["target_calls"] for r in dropped)
    easy = (*words, "--accept-threshold", 0, "--reward-threshold", 0, "-n", 6)
    hard, chance = (_records(cdec, *easy, "--verify", how) for how in ("hard", "speculative"))
    assert len({tuple(r["token_ids"]) for r in hard}) == len(CONCEPTS)
    assert len({tuple(r["token_ids"]) for r in chance}) > len(CONCEPTS)


@pytest.mark.slow
def test_batches_give_the_same_records(cdec: Runner) -> None:
    for method in METHODS:
        words = (*COVERAGE, "--method", method, "--batch-size")
        alone, together = (
            [(r["id"], r["token_ids"], r["reward"]) for r in _records(cdec, *words, size)]
            for size in (1, 3)
        )
        assert alone == together


def test_a_record_without_what_the_reward_reads_is_an_error_in_its_place(cdec: Runner) -> None:
    bad = {"id": 9, "prompt": "Concepts:"}
    worse = {"id": 10, "prompt": "Concepts:", "concepts": "dog"}
    lines = _jsonl(_line(1, ["dog"]), bad, worse, _line(2, []))
    result = cdec(*COVERAGE, "--method", "cdlh", stdin=lines)
    assert result.status == 3
    assert [record["id"] for record in result.records] == [1, 9, 10, 2]
    for record in result.records[1:3]:
        assert record["error"]["code"] == "E_FIELD"
        assert "concepts" in record["error"]["message"]
    assert result.records[3]["reward"] == 1.0
    strict = cdec(*COVERAGE, "--method", "cdlh", "--strict", stdin=lines)
    assert (strict.status, strict.error_code) == (65, "E_FIELD")


def test_a_reward_of_ones_own_is_a_function(cdec: Runner, own_reward: str) -> None:
    words = ("sample", "--method", "cdlh-approx", "--branch", 5, *SHORT)
    (led,) = _records(cdec, *words, "--prompt", "Word:", "--reward", f"{own_reward}:share")
    shares = sum(c in "aeiou" for c in led["text"]) / len(led["text"])
    assert led["reward"] == pytest.approx(shares)


def test_a_reward_that_fails_costs_its_record_alone(cdec: Runner, own_reward: str) -> None:
    topics = ("good", "bad", "odd", "fine")
    lines = _jsonl(*({"id": t, "prompt": "Word:", "topic": t} for t in topics))
    words = ("sample", "--method", "cdsl", "--reward", f"{own_reward}:fails", *SHORT)
    result = cdec(*words, stdin=lines)
    assert result.status == 3
    assert [record["id"] for record in result.records] == list(topics)
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_REWARD", "E_REWARD", None]
    assert "no such topic at cdec_own_rewards.py:7" in result.records[1]["error"]["message"]
    assert "Traceback" not in result.stderr
    again = _jsonl(*({"id": n, "prompt": "Word:", "topic": "bad"} for n in range(2)))
    traced = cdec(*words, "--debug", stdin=lines + again)
    assert [record.get("error", {}).get("code") for record in traced.records[:4]] == codes
    assert traced.stderr.count("raise RuntimeError('no such topic')") == 1


def test_fields_that_a_prompt_has_not_are_asked_for_in_one_sentence(cdec: Runner) -> None:
    said = refused(cdec(*COVERAGE, "--method", "cdlh", "--prompt", "Word:"))
    hint = "give JSON records with -i FILE in place of --prompt, which have the field 'concepts'"
    assert f"hint: {hint}\n" in said


def test_code_is_run_only_where_it_was_typed(cdec: Runner, own_reward: str) -> None:
    spec = f"{own_reward}:share"
    words = ("sample", "--method", "cdlh", "--prompt", "Word:", *SHORT)
    Path("cdec.toml").write_text(f'[sample]\nreward = "{spec}"\n')
    said = refused(cdec(*words), "E_CONFIG", 78)
    assert "command line only" in said and f"--reward {spec}" in said
    assert own_reward not in sys.modules
    assert cdec(*words, "--reward", spec).status == 0
    Path("cdec.toml").write_text('[sample]\nreward = "regex:a"\n')
    assert cdec(*words).status == 0
    Path("cdec.toml").unlink()
    line = _jsonl({"id": 1, "prompt": "Word:", "reward": spec, "draft": "some/draft"})
    sys.modules.pop(own_reward)
    (record,) = _records(cdec, *words[:3], "--reward", "regex:zzz", *SHORT, stdin=line)
    assert (record["reward"], record["input"]["reward"]) == (0.0, spec)
    assert own_reward not in sys.modules


PROMPTED = """
def seen(texts, records, prompts):
    return [float(prompt == record['shown']) for prompt, record in zip(prompts, records)]

def fails(texts, records):
    return [1.0 if record['shown'] else float('nan') for record in records]
"""


@pytest.mark.parametrize("method", ["masked", "disc", "cdlh"])
def test_a_reward_sees_prompts_and_messages_as_records_have_them(
    cdec: Runner, letters: Path, method: str
) -> None:
    Path("cdec_prompted.py").write_text(PROMPTED)
    chat = [{"role": "user", "content": "Word?"}]
    begun = [*chat, {"role": "assistant", "content": ""}]
    lines = _jsonl(
        {"id": 1, "prompt": "A word:", "shown": "A word:"},
        {"id": 2, "messages": chat, "shown": chat},
        {"id": 3, "messages": begun, "shown": chat},
        {"id": 4, "prompt": "A word:", "shown": "B"},
    )
    words = ("sample", "-a", letters, "--method", method, "--reward", "cdec_prompted:seen")
    found = _records(cdec, *words, stdin=lines)
    assert [record["reward"] for record in found] == [1.0, 1.0, 1.0, 0.0]


def test_any_method_says_what_the_reward_is_and_keeps_its_draws(
    cdec: Runner, letters: Path
) -> None:
    Path("cdec_prompted.py").write_text(PROMPTED)
    lines = _jsonl(*({"id": n, "prompt": "x", "shown": n} for n in range(3)))
    words = ("sample", "-a", letters, "--method", "disc", "-n", 2)
    plain = _records(cdec, *words, stdin=lines)
    scored = _records(cdec, *words, "--reward", "regex:^.$", stdin=lines)
    added = {"reward", "satisfaction_soft", "satisfaction_hard"}
    assert [{k: v for k, v in r.items() if k not in added} for r in scored] == plain
    assert all(r["reward"] == float(len(r["text"]) == 1) for r in scored)
    failed = cdec(*words, "--reward", "cdec_prompted:fails", stdin=lines)
    assert failed.status == 3
    codes = [record.get("error", {}).get("code") for record in failed.records]
    assert codes == ["E_REWARD", None, None, None, None]


def test_the_reward_is_in_the_manifest_of_any_method(cdec: Runner, letters: Path) -> None:
    Path("p.jsonl").write_bytes(_jsonl({"id": 1, "prompt": "x"}))
    words = ("sample", "-a", letters, "-i", "p.jsonl", "--method", "masked", "-o", "out.jsonl")
    assert cdec(*words, "--reward", "regex:a").status == 0
    assert cdec(*words, "--reward", "regex:a", "--resume").status == 0
    for other in (("--reward", "regex:b"), ()):
        refused(cdec(*words, *other, "--resume"), "E_RESUME_MISMATCH", 65)


def test_a_classifier_scores_on_the_models_device(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdec.core.errors import Notice
    from cdec.samplers import rewards

    seen = []
    notice = Notice("W_REWARD_TRUNCATED", "a text was cut")

    def build(spec: str, **options: Any) -> Any:
        seen.append((spec, options))
        reward = rewards.PatternReward("a")
        reward.notices = [notice]  # type: ignore[attr-defined]
        return reward

    monkeypatch.setattr(rewards, "build_reward", build)
    words = ("sample", "--method", "cdlh", "--prompt", "Word:", *SHORT, "--reward")
    result = cdec(*words, "classifier:some/model")
    assert result.status == 0, result.stderr
    assert "warning W_REWARD_TRUNCATED: a text was cut" in result.stderr
    assert seen == [("classifier:some/model", {"device": "cpu"})]


def test_a_run_is_resumed_with_the_same_reward_only(cdec: Runner) -> None:
    Path("p.jsonl").write_bytes(LINES)
    words = ("sample", "-i", "p.jsonl", "--method", "cdsl", *SHORT, "-o", "out.jsonl", "--reward")
    assert cdec(*words, "coverage").status == 0
    whole = Path("out.jsonl").read_bytes()
    Path("out.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
    assert cdec(*words, "coverage", "--resume").status == 0
    assert read_lines(Path("out.jsonl").read_bytes()) == near_lines(whole)
    for other in (
        ("coverage:past",),
        ("coverage", "--branch", "2"),
        ("coverage", "--verify", "speculative"),
        ("coverage", "--reward-threshold", "0.5"),
    ):
        refused(cdec(*words, *other, "--resume"), "E_RESUME_MISMATCH", 65)


def test_help_shows_sections_of_both_kinds(cdec: Runner) -> None:
    text = cdec("sample", "--help-all").stdout.decode()
    for word in ("--draft", "--reward SPEC", "Drafts:", "Rewards:"):
        assert word in text

"""cdec sample --and and --deny: with artifacts, records' own grammars, candidates and methods."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import compile_grammar, compile_set

from .conftest import MEMBERS, Result, Runner

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child")

PROMPT = ("--prompt", "x")
MASKED = ("--method", "masked")
WORDS = 'start: "yes" | "no" | "maybe"\n'


@pytest.fixture(scope="module")
def artifacts(embedded_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small grammars and a set, for the embedded tokenizer."""
    folder = tmp_path_factory.mktemp("artifacts")
    vocabulary = embedded_model.vocabulary
    sources = {
        "words": WORDS,
        "short": "start: /[a-zA-Z ]{1,5}/\n",
        "p": "start: / ?P.*/\n",
        "ba": "start: /[ab]{1,6}/\n",
        "digits": "start: /[0-9]+/\n",
        "even": 'start: /a{300}/ | "c" | "dab"\n',
        "odd": 'start: /a{301}/ | "c" | "dac"\n',
    }
    for name, source in sources.items():
        compile_grammar(source, vocabulary, folder / f"{name}.arrow")
    compile_set(["Paris", "Rome", "Vienna"], vocabulary, folder / "capitals.arrow")
    return folder


def texts(result: Result) -> set[str]:
    assert result.status == 0, result.stderr
    assert all(record["valid"] for record in result.records)
    return {record["text"] for record in result.records}


def denying(*denied: str) -> tuple[str, Path]:
    path = Path("deny.txt")
    path.write_text("".join(text + "\n" for text in denied), encoding="utf-8")
    return "--deny", path


def jsonl(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"prompt": "x"} | r).encode() + b"\n" for r in records)


@pytest.mark.parametrize(
    "method",
    [
        ("masked",),
        ("masked", "--top-m", "20"),
        ("masked", "--opportunistic"),
        ("masked", "--draft", "counts", "--gamma", "4"),
        ("disc", "--K", "2"),
    ],
)
def test_denied_texts_of_a_grammar_are_never_emitted(
    cdec: Runner, artifacts: Path, method: tuple[str, ...]
) -> None:
    words = ("sample", "-a", artifacts / "words.arrow", "-n", "20", *PROMPT, "--method", *method)
    result = cdec(*words, *denying("yes", "maybe", "never"))
    assert texts(result) == {"no"}
    assert "W_DENY_UNKNOWN" in result.stderr
    assert "1 of 3 denied texts are no members" in result.stderr


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_the_best_text_is_the_best_of_what_is_left(
    cdec: Runner, artifacts: Path, method: str
) -> None:
    words = ("sample", "-a", artifacts / "words.arrow", *PROMPT, "--method", method)
    best: list[str] = []
    for _ in range(3):
        options = denying(*best) if best else ()
        best += texts(cdec(*words, *options)) - set(best)
    assert sorted(best) == ["maybe", "no", "yes"]
    everything = cdec(*words, *denying(*best))
    assert (everything.status, everything.error_code) == (65, "E_EMPTY_SET")


def test_denied_texts_do_not_come_back_by_lookahead_or_healing(
    cdec: Runner, artifacts: Path
) -> None:
    words = ("sample", "-a", artifacts / "words.arrow", "-n", "20", *MASKED, *denying("yes", "no"))
    assert texts(cdec(*words, *PROMPT, "--lookahead", "0")) == {"maybe"}
    assert texts(cdec(*words, "--prompt", "Say it: ", "--heal")) == {"maybe"}


def test_records_with_grammars_of_their_own_are_narrowed_too(cdec: Runner, artifacts: Path) -> None:
    data = jsonl(
        {"id": 0, "grammar": WORDS, "n": 10},
        {"id": 1, "grammar": 'start: "yes"\n'},
        {"id": 2, "grammar": 'start: "yes" | "no" | "perhaps"\n', "n": 10},
        {"id": 3, "grammar": WORDS},
    )
    words = ("sample", *MASKED, "--and", artifacts / "short.arrow", *denying("yes"))
    result = cdec(*words, stdin=data)
    assert result.status == 3
    found = {
        i: {r["text"] for r in result.records if r["id"] == i and "text" in r} for i in range(4)
    }
    assert found[0] == {"no", "maybe"} and found[1] == set()
    assert found[2] == {"no"} and found[3] <= {"no", "maybe"}
    errors = [record["error"]["code"] for record in result.records if "error" in record]
    assert errors == ["E_EMPTY_SET"]
    # Dead ends are warned of once, with the number of constraints that may have them.
    assert result.stderr.count("W_DEAD_ENDS") == 1
    assert "the record's grammar and --and" in result.stderr


def test_a_set_is_held_to_grammars_and_other_sets(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    words = ("sample", "-a", cities, "-n", "30", *MASKED, *PROMPT)
    short = cdec(*words, "--and", artifacts / "short.arrow")
    # The space that the set's members begin with is part of what the grammar judges.
    assert texts(short) == {text for text in MEMBERS if re.fullmatch("[a-zA-Z ]{1,5}", " " + text)}
    assert "warning" not in short.stderr
    assert {record["entity_ids"][0] for record in short.records} == {"Q2", "Q3"}
    both = ("--and", artifacts / "p.arrow", "--and", artifacts / "capitals.arrow")
    assert texts(cdec(*words, *both)) == {"Paris"}
    denied = cdec(*words, *both[2:], *denying("Rome", "Oslo"))
    assert texts(denied) == {"Paris"}
    assert "1 of 2 denied texts are no members" in denied.stderr
    swapped = ("sample", "-a", artifacts / "short.arrow", "--and", cities, *MASKED, *PROMPT)
    assert texts(cdec(*swapped, "-n", "20")) == texts(short)


def test_names_and_candidates_are_held_to_them_too(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    data = jsonl(
        {"id": 0, "constraint": "capitals"},
        {"id": 1, "candidates": ["Paris", "Paris, Texas"]},
        {"id": 2, "candidates": ["Rome", "Paris"]},
        {"id": 3},
    )
    words = ("sample", "-a", cities, "--constraint", f"capitals={artifacts / 'capitals.arrow'}")
    words += ("--and", str(artifacts / "p.arrow"), *MASKED)
    result = cdec(*words, stdin=data)
    assert result.status == 3
    assert result.records[0]["text"] == "Paris"
    assert result.records[1]["text"] in ("Paris", "Paris, Texas")
    assert result.records[2]["error"]["code"] == "E_FIELD"
    assert "'Rome'" in result.records[2]["error"]["message"]
    assert result.records[3]["text"] in ("Paris", "Paris, Texas")


def test_candidates_of_a_set_too_large_to_walk_are_held_to_the_others(
    cdec: Runner, artifacts: Path, cities: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdec.core.combine import conjunction

    plain = conjunction.conjoin
    steps: list[int] = []

    def hurried(first: Any, second: Any) -> Any:
        steps.append(first.n_rows)
        return plain(first, second, max_steps=100 if first.n_rows == 2 else 1)

    monkeypatch.setattr(conjunction, "conjoin", hurried)
    data = jsonl({"id": 0, "candidates": ["Rome", "Paris"]}, {"id": 1, "n": 20})
    result = cdec("sample", "-a", cities, "--and", artifacts / "p.arrow", *MASKED, stdin=data)
    assert steps == [len(MEMBERS), 2]
    assert texts(result) <= {"Paris", "Paris, Texas"} and result.records[0]["text"] == "Paris"
    assert "W_DEAD_ENDS" in result.stderr


@pytest.mark.parametrize(
    "method",
    [
        ("greedy",),
        ("masked", "--opportunistic"),
        ("masked", "--top-m", "20"),
        ("masked", "--draft", "counts", "--gamma", "4"),
        ("disc", "--K", "2"),
        ("beam", "--beams", "2"),
    ],
)
def test_two_grammars_together_under_every_method(
    cdec: Runner, artifacts: Path, method: tuple[str, ...]
) -> None:
    words = ("sample", "-a", artifacts / "short.arrow", "--and", artifacts / "ba.arrow")
    result = cdec(*words, *PROMPT, "--method", *method)
    assert all(re.fullmatch("[ab]{1,5}", text) for text in texts(result))
    assert "W_DEAD_ENDS" in result.stderr
    tight = cdec(*words, *PROMPT, "--lookahead", "0", "--heal", "--method", *method)
    assert all(re.fullmatch("[ab]{1,5}", text) for text in texts(tight))
    assert tight.records[0]["lookahead"] == 0


def test_a_dead_end_shows_in_the_record(cdec: Runner, artifacts: Path) -> None:
    words = ("sample", "-a", artifacts / "even.arrow", "--and", artifacts / "odd.arrow", *MASKED)
    result = cdec(*words, *PROMPT, "-n", "40", "--max-new-tokens", "400")
    assert result.status == 0
    reasons = {record["finish_reason"]: record for record in result.records}
    assert set(reasons) == {"complete", "dead_end"}
    assert {record["text"][0] for record in result.records} == {"a", "c"}
    assert (reasons["complete"]["text"], reasons["complete"]["valid"]) == ("c", True)
    assert (reasons["dead_end"]["valid"], reasons["dead_end"]["log_weight"]) == (False, None)


def test_the_model_alone_is_judged_by_what_is_asked_for(cdec: Runner, artifacts: Path) -> None:
    words = ("sample", "--method", "unconstrained", *PROMPT, "--max-new-tokens", "4")
    record = cdec(*words, "--and", artifacts / "digits.arrow").records[0]
    assert record["valid"] is False
    assert cdec(*words).records[0].get("valid") is None
    greedy = ("sample", "--method", "greedy", *PROMPT, "--and", artifacts / "words.arrow")
    assert texts(cdec(*greedy)) <= {"yes", "no", "maybe"}
    nothing = cdec(*words, *denying("yes"))
    assert nothing.records[0]["error"]["code"] == "E_USAGE"
    assert "--deny leaves texts of a constraint out" in nothing.stdout.decode()


def test_nothing_in_common_is_an_error_before_a_record(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    for first in (cities, artifacts / "words.arrow"):
        run = cdec("sample", "-a", first, "--and", artifacts / "digits.arrow", *MASKED, *PROMPT)
        assert (run.status, run.error_code, run.stdout) == (65, "E_EMPTY_SET", b"")
    run = cdec("sample", "-a", artifacts / "digits.arrow", "--and", cities, *MASKED, *PROMPT)
    assert "the first being ' " in run.stderr and "--leading-space never" in run.stderr


def test_wrong_words_are_refused_before_the_model_loads(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    words = ("sample", "-a", cities, *MASKED, *PROMPT)
    missing = cdec(*words, "--and", "nope.arrow")
    assert (missing.status, missing.error_code) == (66, "E_NOINPUT")
    assert "nope.arrow" in missing.stderr
    assert cdec(*words, "--adn", artifacts / "p.arrow").status == 2
    twice = cdec(*words, *("--and", artifacts / "p.arrow") * 2)
    assert (twice.status, twice.error_code) == (2, "E_USAGE")
    Path("text.arrow").write_text("no artifact")
    assert cdec(*words, "--and", "text.arrow").error_code == "E_ARTIFACT_FORMAT"
    grammar = ("sample", "-a", artifacts / "words.arrow", *MASKED, *PROMPT, "--and", cities)
    for flag in (("--lookahead", "1"), ("--heal",), ("--draft", "counts")):
        refused = cdec(*grammar, *flag)
        assert (refused.status, refused.error_code) == (2, "E_USAGE")
        assert "is a set" in refused.stderr
    assert cdec("sample", *MASKED, *PROMPT, "--and", cities).error_code == "E_USAGE"
    same = cdec(*words, "--and", artifacts / "p.arrow", "-o", artifacts / "p.arrow", "--force")
    assert (same.status, same.error_code) == (2, "E_USAGE")


def test_resuming_with_another_artifact_is_refused(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    words = ("sample", "-a", cities, *MASKED, *PROMPT, "-o", "out.jsonl")
    assert cdec(*words, "--and", artifacts / "p.arrow").status == 0
    assert cdec(*words, "--and", artifacts / "p.arrow", "--resume").status == 0
    for other in (("--and", artifacts / "short.arrow"), ()):
        refused = cdec(*words, *other, "--resume")
        assert refused.error_code == "E_RESUME_MISMATCH"
        assert "and was" in refused.stderr


def test_the_configuration_may_name_them(cdec: Runner, artifacts: Path, cities: Path) -> None:
    Path("cdec.toml").write_text(f'and = ["{artifacts / "p.arrow"}"]\n')
    found = texts(cdec("sample", "-a", cities, *MASKED, *PROMPT, "-n", "10"))
    assert found <= {"Paris", "Paris, Texas"}

"""Constraints made of constraints on the command line: free text, conjunction, denial."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import compile_grammar, compile_set
from tests.cli.conftest import MEMBERS, Result, Runner, jsonl
from tests.laws.rounding import near, near_records

# --- Free text before a constraint on the command line: options, fields of records, refusals.

ASKED = "What is the capital of France?"


@pytest.mark.usefixtures("loaded")
def test_options_and_fields_of_records_say_the_same(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "-n", "2", "--method", "masked")
    typed = ("--after", ":", "--after", " -", "--budget", "3")
    option = cdec(*words, *typed, stdin=jsonl({"id": 1, "prompt": ASKED}))
    own = {"id": 1, "prompt": ASKED, "after": [":", " -"], "budget": 3}
    assert option.status == 0
    for record in option.records:
        assert record["free_text"].endswith((":", " -")) and record["valid"]
        assert record["marker"] in (":", " -") and "input" not in record
    assert cdec(*words, stdin=jsonl(own)).records == option.records
    other = cdec(*words, "--between", "<a>", "</a>", stdin=jsonl(own))
    assert other.records == option.records
    shorter = cdec(*words, *typed, stdin=jsonl({"id": 1, "prompt": ASKED, "budget": 0}))
    assert all(record["forced"] for record in shorter.records)
    assert all(record["free_text"] == ":" for record in shorter.records)


@pytest.mark.usefixtures("loaded")
def test_tagged_regions_stand_in_the_whole_text(cdec: Runner, cities: Path) -> None:
    words = ("--between", "<a>", "</a>", "--regions", "1", "--budget", "2")
    result = cdec("sample", "-a", cities, *words, "--method", "greedy", "--prompt", ASKED)
    (record,) = result.records
    (region, *_) = record["regions"]
    assert record["text"][region["start"] : region["end"]].strip() == region["text"]
    assert "<a>" in record["text"] and region["valid"] is True


@pytest.mark.usefixtures("loaded")
def test_markers_of_records_are_bounded_and_the_bounds_are_raised_by_options(
    cdec: Runner, cities: Path
) -> None:
    words = ("sample", "-a", cities, "--method", "masked", "--max-new-tokens", "30")
    strangers = jsonl(
        {"id": 1, "prompt": ASKED, "after": ":" * 4_097},
        {"id": 2, "prompt": ASKED, "after": [f":{n}" for n in range(257)]},
        {"id": 3, "prompt": ASKED, "between": ["<" * 3_000, ">" * 3_000]},
        {"id": 4, "prompt": ASKED, "after": ":", "budget": 1},
    )
    refused = cdec(*words, stdin=strangers)
    errors = [record["error"] for record in refused.records[:3]]
    assert [error["code"] for error in errors] == ["E_LIMIT"] * 3
    assert refused.status == 3 and refused.records[3]["valid"]
    assert "--max-marker-bytes" in errors[0]["hint"] and "--max-markers" in errors[1]["hint"]
    raised = ("--max-markers", "300", "--max-marker-bytes", "1000000")
    assert not any("error" in record for record in cdec(*words, *raised, stdin=strangers).records)
    typed = cdec(*words, "--prompt", ASKED, "--after", ":" * 4_097)
    assert typed.status == 75 and "--max-marker-bytes" in typed.stderr


@pytest.mark.usefixtures("loaded")
def test_a_records_own_marker_that_no_token_spells_is_its_error_alone(
    cdec: Runner, letters: Path
) -> None:
    records = jsonl({"id": 1, "prompt": "p", "after": "\ue000"}, {"id": 2, "prompt": "p"})
    result = cdec("sample", "-a", letters, "--method", "masked", stdin=records)
    first, second = result.records
    assert (result.status, first["error"]["code"]) == (3, "E_USAGE")
    assert second["valid"]


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_a_long_marker_that_text_is_forced_into_is_spelt_to_its_end(
    cdec: Runner, cities: Path
) -> None:
    record = {"id": 1, "prompt": ASKED, "after": "z" * 600, "budget": 2}
    (drawn,) = cdec("sample", "-a", cities, "--method", "masked", stdin=jsonl(record)).records
    assert drawn["valid"] and drawn["free_text"].endswith("z" * 600)


@pytest.mark.usefixtures("loaded")
def test_free_text_before_nothing_is_refused_before_a_model_loads(
    cdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cdec.cli.runs.models.open_model", lambda options: 1 / 0)
    words = ("sample", "--method", "unconstrained", "--prompt", ASKED, "--after", "x")
    result = cdec(*words)
    assert result.status == 2 and "a constraint begins, and there is none" in result.stderr
    assert "-a" in result.stderr


@pytest.mark.usefixtures("loaded")
def test_a_text_that_never_comes_to_its_marker_is_warned_of(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--prompt", ASKED, "--after", "never", "-n", "2")
    result = cdec(*words, "--max-new-tokens", "3")
    assert result.status == 0 and [r["text"] for r in result.records] == [None, None]
    assert "W_NO_MARKER: 2 of 2 samples never wrote the text of --after" in result.stderr
    assert "give --budget" in result.stderr and "W_CUT" not in result.stderr
    forced = cdec(*words, "--budget", "1", "--max-new-tokens", "12")
    assert "W_NO_MARKER" not in forced.stderr and all(r["text"] for r in forced.records)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    "fields",
    [
        {"after": ""},
        {"after": 3},
        {"after": []},
        {"between": ["a"]},
        {"after": "a", "between": ["a", "b"]},
        {"after": "a", "budget": -1},
        {"budget": 1},
        {"after": "a", "regions": 2},
        {"after": "a", "prefill": "Pa"},
    ],
)
def test_a_bad_record_is_an_error_in_its_place(
    cdec: Runner, cities: Path, fields: dict[str, object]
) -> None:
    result = cdec("sample", "-a", cities, stdin=jsonl({"id": 1, "prompt": ASKED, **fields}))
    assert result.status == 3 and result.records[0]["error"]["code"] == "E_FIELD"


@pytest.mark.usefixtures("loaded")
def test_free_text_is_neither_measured_nor_scored(cdec: Runner, cities: Path) -> None:
    line = {"id": 1, "prompt": ASKED, "after": "x"}
    assert cdec("mass", "-a", cities, stdin=jsonl(line)).records[0]["error"]["code"] == "E_FIELD"
    sample = {"id": 1, "prompt": ASKED, "text": "Paris", "free_tokens": 3}
    result = cdec("score", "-a", cities, stdin=jsonl(sample))
    assert "free text" in result.records[0]["error"]["message"]


@pytest.mark.usefixtures("loaded")
def test_cdec_toml_gives_the_two_texts_of_a_region(
    cdec: Runner, cities: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cdec.toml").write_text('between = ["<a>", "</a>"]\nregions = 1\nbudget = 1\n')
    result = cdec("sample", "-a", cities, "--method", "greedy", "--prompt", ASKED)
    assert "--between '<a>' '</a>'" in result.stderr and result.records[0]["regions"]
    Path("cdec.toml").write_text('between = ["<a>"]\n')
    assert "a list of 2 strings" in cdec("sample", "-a", cities, "--prompt", ASKED).stderr


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("budget", [(), ("--budget", "2")], ids=["as it comes", "forced"])
def test_a_trace_says_which_tokens_are_free(
    cdec: Runner, cities: Path, tmp_path: Path, budget: tuple[str, ...]
) -> None:
    words = ("--after", "a", *budget, "--method", "masked", "-n", "4", "--prompt", ASKED)
    trace = tmp_path / "t.jsonl"
    result = cdec("sample", "-a", cities, *words, "--trace", trace)
    assert result.status == 0, result.stderr
    assert result.records == near_records(cdec("sample", "-a", cities, *words).records)
    lines = [json.loads(line) for line in trace.read_bytes().splitlines()]
    for record in result.records:
        mine = [line for line in lines if line["index"] == record["index"]]
        assert [line["position"] for line in mine] == list(range(len(mine)))
        tokens = [line for line in mine if line["event"] == "token"]
        assert [line["token_id"] for line in tokens] == record["token_ids"]
        free = [line for line in mine if line["free"]]
        assert len([x for x in free if x["event"] == "token"]) == record["free_tokens"]
        assert sum(line["logprob"] for line in free) == near(record["free_logprob"], len(free))
        if not record["forced"]:
            assert sum(x["log_z"] for x in free) == near(record["free_log_z"], len(free))
        held = [line for line in mine if not line["free"]]
        if record["marker"] is not None:
            assert sum(x["log_z"] for x in held) == near(record["log_candidate_weight"], len(held))
        named = [x["position"] for x in mine if "prompt" in x or "method" in x]
        assert named == [0] and (mine[0]["prompt"], mine[0]["method"]) == (ASKED, "masked")
    summary = cdec("trace", trace, "--json").records[0]
    assert summary["free"] == len([x for x in lines if x["free"] and x["index"] == 0])
    assert b" free" in cdec("trace", trace).stdout


@pytest.mark.usefixtures("loaded")
def test_what_restricts_a_constraint_does_so_behind_free_text(
    cdec: Runner, cities: Path, tmp_path: Path
) -> None:
    words = (
        "sample",
        "-a",
        cities,
        "--method",
        "exact",
        "-n",
        "6",
        "--after",
        "a",
        "--budget",
        "3",
    )
    every = {r["text"] for r in cdec(*words, "--prompt", ASKED).records}
    assert "Paris" in every
    (tmp_path / "denied.txt").write_text("Paris\n")
    denied = cdec(*words, "--prompt", ASKED, "--deny", tmp_path / "denied.txt")
    assert denied.status == 0 and all(r["valid"] for r in denied.records)
    assert "Paris" not in {r["text"] for r in denied.records}
    own = {"id": 1, "prompt": ASKED, "candidates": ["Rome", "Berlin"]}
    chosen = cdec(*words, stdin=jsonl(own)).records
    assert {r["text"] for r in chosen} <= {"Rome", "Berlin"} and all(r["valid"] for r in chosen)


@pytest.mark.usefixtures("loaded")
def test_both_of_two_constraints_hold_behind_free_text(
    cdec: Runner, cities: Path, tmp_path: Path, grammar_child: object
) -> None:
    regex = tmp_path / "r.arrow"
    assert cdec("compile-regex", " [A-Q].*", "-o", regex).status == 0
    words = ("--and", regex, "--after", "a", "--budget", "3", "--method", "exact", "-n", "6")
    result = cdec("sample", "-a", cities, *words, "--prompt", ASKED)
    assert result.status == 0, result.stderr
    assert all(r["valid"] and "A" <= r["text"][0] <= "Q" for r in result.records)
    assert any(r["free_text"] != "a" for r in result.records)


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_a_run_with_free_text_goes_on_where_it_was_killed(
    cdec: Runner, cities: Path, tmp_path: Path
) -> None:
    prompts = [{"id": i, "prompt": f"{ASKED} {i}"} for i in range(5)]
    words = (
        "sample",
        "-a",
        cities,
        "--after",
        "a",
        "--budget",
        "3",
        "-n",
        "2",
        "--batch-size",
        "2",
    )
    whole = cdec(*words, stdin=jsonl(*prompts)).records
    out = tmp_path / "o.jsonl"
    cdec(*words, "-o", out, stdin=jsonl(*prompts))
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    other = cdec(*words[:-1], "2", "--budget", "2", "-o", out, "--resume", stdin=jsonl(*prompts))
    assert other.status != 0, "another budget is another run"
    assert cdec(*words, "-o", out, "--resume", stdin=jsonl(*prompts)).status == 0
    found = [json.loads(line) for line in out.read_bytes().splitlines()]
    key = lambda r: (r["id"], r["index"])  # noqa: E731
    assert sorted(found, key=key) == near_records(sorted(whole, key=key))


NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": NOTHING}}
    for name in ("now", "stop")
]


@pytest.mark.usefixtures("loaded")
def test_calls_of_tools_stand_in_tagged_regions(
    cdec: Runner, tmp_path: Path, grammar_child: object
) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    artifact = tmp_path / "tools.arrow"
    compiled = ("compile-schema", "--tools", tmp_path / "tools.json", "--whitespace", "compact")
    assert cdec(*compiled, "-o", artifact).status == 0
    words = ("--between", "<call>", "</call>", "--regions", "1", "--budget", "5", "-n", "2")
    asked = ("--prompt", "What time is it?", "--max-new-tokens", "160", "--method", "masked")
    result = cdec("sample", "-a", artifact, *words, *asked)
    assert result.status == 0, result.stderr
    ended = 0
    for record in result.records:
        for region in record["regions"]:
            if region["finish_reason"] != "complete":
                continue
            ended += 1
            call = json.loads(region["text"])
            assert call["name"] in ("now", "stop") and call["arguments"] == {}
            assert record["text"][region["start"] : region["end"]] == region["text"]
            assert record["text"][: region["start"]].endswith("<call>")
            assert record["text"][region["end"] :].startswith("</call>")
            assert region["valid"] is True
    assert ended >= 2


# --- cdec sample --and and --deny: with artifacts, records' own grammars, candidates and methods.

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


def prompted(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"prompt": "x"} | r).encode() + b"\n" for r in records)


@pytest.mark.usefixtures("loaded", "grammar_child")
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


@pytest.mark.usefixtures("loaded", "grammar_child")
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


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_denied_texts_do_not_come_back_by_lookahead_or_healing(
    cdec: Runner, artifacts: Path
) -> None:
    words = ("sample", "-a", artifacts / "words.arrow", "-n", "20", *MASKED, *denying("yes", "no"))
    assert texts(cdec(*words, *PROMPT, "--lookahead", "0")) == {"maybe"}
    assert texts(cdec(*words, "--prompt", "Say it: ", "--heal")) == {"maybe"}


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_records_with_grammars_of_their_own_are_narrowed_too(cdec: Runner, artifacts: Path) -> None:
    data = prompted(
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


@pytest.mark.usefixtures("loaded", "grammar_child")
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


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_names_and_candidates_are_held_to_them_too(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    data = prompted(
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


@pytest.mark.usefixtures("loaded", "grammar_child")
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
    data = prompted({"id": 0, "candidates": ["Rome", "Paris"]}, {"id": 1, "n": 20})
    result = cdec("sample", "-a", cities, "--and", artifacts / "p.arrow", *MASKED, stdin=data)
    assert steps == [len(MEMBERS), 2]
    assert texts(result) <= {"Paris", "Paris, Texas"} and result.records[0]["text"] == "Paris"
    assert "W_DEAD_ENDS" in result.stderr


@pytest.mark.usefixtures("loaded", "grammar_child")
@pytest.mark.share(3)
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


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_a_dead_end_shows_in_the_record(cdec: Runner, artifacts: Path) -> None:
    words = ("sample", "-a", artifacts / "even.arrow", "--and", artifacts / "odd.arrow", *MASKED)
    result = cdec(*words, *PROMPT, "-n", "40", "--max-new-tokens", "400")
    assert result.status == 0
    reasons = {record["finish_reason"]: record for record in result.records}
    assert set(reasons) == {"complete", "dead_end"}
    assert {record["text"][0] for record in result.records} == {"a", "c"}
    assert (reasons["complete"]["text"], reasons["complete"]["valid"]) == ("c", True)
    assert (reasons["dead_end"]["valid"], reasons["dead_end"]["log_weight"]) == (False, None)


@pytest.mark.usefixtures("loaded", "grammar_child")
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


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_nothing_in_common_is_an_error_before_a_record(
    cdec: Runner, artifacts: Path, cities: Path
) -> None:
    for first in (cities, artifacts / "words.arrow"):
        run = cdec("sample", "-a", first, "--and", artifacts / "digits.arrow", *MASKED, *PROMPT)
        assert (run.status, run.error_code, run.stdout) == (65, "E_EMPTY_SET", b"")
    run = cdec("sample", "-a", artifacts / "digits.arrow", "--and", cities, *MASKED, *PROMPT)
    assert "the first being ' " in run.stderr and "--leading-space never" in run.stderr


@pytest.mark.usefixtures("loaded", "grammar_child")
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


@pytest.mark.usefixtures("loaded", "grammar_child")
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


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_the_configuration_may_name_them(cdec: Runner, artifacts: Path, cities: Path) -> None:
    Path("cdec.toml").write_text(f'and = ["{artifacts / "p.arrow"}"]\n')
    found = texts(cdec("sample", "-a", cities, *MASKED, *PROMPT, "-n", "10"))
    assert found <= {"Paris", "Paris, Texas"}

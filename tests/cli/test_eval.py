"""``cdec eval``: what it reads, prints and refuses."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Result, Runner, jsonl, refused


def sample(id: object, text: str | None, method: str = "masked", **more: Any) -> dict[str, Any]:
    told = {"finish_reason": "complete", "valid": True, "token_ids": [1], "logprob": -1.0}
    return {"id": id, "index": 0, "text": text, "method": method, **told, **more}


REFERENCES = [{"id": name, "answer": right} for name, right in zip("abc", "xyz", strict=True)]


@pytest.fixture
def files(cdec: Runner) -> None:
    """Two files of samples, one of which is right twice, and references."""
    Path("one.jsonl").write_bytes(jsonl(*(sample(name, "x") for name in "abc")))
    right = [sample(n, t, "disc") for n, t in zip("abc", "xyy", strict=True)]
    Path("two.jsonl").write_bytes(jsonl(*right))
    Path("refs.jsonl").write_bytes(jsonl(*REFERENCES))


def evaluated(result: Result) -> dict[str, dict[str, Any]]:
    assert result.status == 0, result.stderr
    (found,) = result.records
    return {system["name"]: system["metrics"] for system in found["systems"]}


@pytest.mark.usefixtures("files")
def test_two_files_are_compared(cdec: Runner) -> None:
    result = cdec("eval", "one.jsonl", "two.jsonl", "--references", "refs.jsonl", "--json")
    found = evaluated(result)
    assert found["one"]["exact_match"]["value"] == pytest.approx(1 / 3)
    assert found["two"]["exact_match"]["value"] == pytest.approx(2 / 3)
    told = [x for x in result.records[0]["comparisons"] if x["metric"] == "exact_match"]
    assert told[0]["difference"] == pytest.approx(1 / 3)
    # One of three records differs: half of the exchanges give as much, the other half as little.
    assert (told[0]["first"], told[0]["second"], told[0]["p_value"]) == ("one", "two", 1.0)


@pytest.mark.usefixtures("files")
def test_a_table_names_systems_metrics_and_differences(cdec: Runner) -> None:
    shown = cdec("eval", "one.jsonl", "two.jsonl", "--references", "refs.jsonl").stdout.decode()
    lines = shown.splitlines()
    assert lines[0].split() == ["one", "two"]
    assert any(line.startswith("exact_match") and "0.6667 [0, 1]" in line for line in lines)
    assert any(line.startswith("minus one") for line in lines)
    assert any(line.startswith("no difference on any record: ") for line in lines)
    Path("same.jsonl").write_bytes(Path("one.jsonl").read_bytes())
    names = ("one.jsonl", "two.jsonl", "same.jsonl")
    shown = cdec("eval", *names, "--references", "refs.jsonl").stdout.decode()
    differ = [line.split()[1] for line in shown.splitlines() if line.startswith("two ")]
    as_much = [line.split()[1] for line in shown.splitlines() if line.startswith("same ")]
    assert as_much == differ and not set(differ) & set(shown.splitlines()[-1].split())


@pytest.mark.usefixtures("files")
def test_rows_hold_the_same_numbers(cdec: Runner) -> None:
    words = ("eval", "one.jsonl", "two.jsonl", "--references", "refs.jsonl")
    found = evaluated(cdec(*words, "--json"))
    rows = list(csv.DictReader(io.StringIO(cdec(*words, "--csv").stdout.decode())))
    assert len(rows) == sum(len(metrics) for metrics in found.values())
    for row in rows:
        assert float(row["value"]) == found[row["system"]][row["metric"]]["value"]
    assert {row["method"] for row in rows} == {"masked", "disc"}


@pytest.mark.usefixtures("files")
def test_metrics_are_chosen_in_their_order(cdec: Runner) -> None:
    words = ("eval", "one.jsonl", "--references", "refs.jsonl", "--json", "--metrics")
    assert list(evaluated(cdec(*words, "valid,hits@3,valid", "--at", "3"))["one"]) == [
        "valid",
        "hits@3",
    ]
    said = refused(cdec(*words, "exact_mach"))
    assert "'exact_match'" in said
    assert "needs a target" in refused(cdec(*words, "kl"))


@pytest.mark.usefixtures("files")
def test_equal_seeds_give_equal_numbers(cdec: Runner) -> None:
    words = ("eval", "one.jsonl", "two.jsonl", "--references", "refs.jsonl", "--json")
    first, again, other = (cdec(*words, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.usefixtures("files")
def test_without_resamples_there_are_no_intervals(cdec: Runner) -> None:
    result = cdec("eval", "one.jsonl", "two.jsonl", "--resamples", 0, "--json")
    assert evaluated(result)["one"]["valid"] == {
        "value": 1.0,
        "lower": None,
        "upper": None,
        "records": 3,
    }
    assert result.records[0]["comparisons"] == []


def test_the_right_answers_may_stand_in_the_samples(cdec: Runner) -> None:
    rows = [sample(1, "x", input={"answer": "x"}), sample(2, "y", input={"answer": "x"})]
    result = cdec("eval", "-", "--json", stdin=jsonl(*rows))
    assert evaluated(result)["stdin"]["exact_match"]["value"] == 0.5


def test_failed_and_missing_records_count_and_are_told(cdec: Runner) -> None:
    Path("refs.jsonl").write_bytes(jsonl(*REFERENCES))
    rows = [sample("a", "x"), {"id": "b", "error": {"code": "E_X", "message": "m"}}]
    rows += [sample("d", "x")]
    result = cdec("eval", "-", "--references", "refs.jsonl", "--json", stdin=jsonl(*rows))
    (system,) = result.records[0]["systems"]
    counts = {key: system[key] for key in ("records", "failed", "missing", "unreferenced")}
    assert counts == {"records": 2, "failed": 1, "missing": 1, "unreferenced": 1}
    assert system["metrics"]["exact_match"] == {
        **system["metrics"]["exact_match"],
        "value": pytest.approx(1 / 3),
        "records": 3,
    }


def test_methods_in_one_file_are_systems_of_their_own(cdec: Runner) -> None:
    rows = [sample("a", "x", "masked"), sample("a", "y", "disc"), sample("a", "y", "disc", index=1)]
    result = cdec("eval", "-", "--json", stdin=jsonl(*rows))
    assert list(evaluated(result)) == ["stdin:masked", "stdin:disc"]


def test_a_law_is_what_topn_wrote(cdec: Runner) -> None:
    law = [sample("a", t, "topn", probability=p, rank=1) for t, p in (("x", 0.75), ("y", 0.25))]
    Path("law.jsonl").write_bytes(jsonl(*law))
    rows = [sample("a", t, log_weight=math.log(w)) for t, w in (("x", 1.0), ("y", 3.0))]
    words = ("eval", "-", "--target", "law.jsonl", "--json", "--metrics", "kl,tv")
    found = evaluated(cdec(*words, stdin=jsonl(*rows)))["stdin"]
    assert found["tv"]["value"] == pytest.approx(0.5)
    assert found["kl"]["value"] == pytest.approx(0.25 * math.log(1 / 3) + 0.75 * math.log(3))
    equal = evaluated(cdec(*words, "--no-weights", stdin=jsonl(*rows)))["stdin"]
    assert equal["tv"]["value"] == pytest.approx(0.25)


def test_a_law_that_lists_too_little_is_told(cdec: Runner) -> None:
    Path("law.jsonl").write_bytes(jsonl(sample("a", "x", probability=0.5)))
    result = cdec("eval", "-", "--target", "law.jsonl", "--json", stdin=jsonl(sample("a", "x")))
    assert "W_PARTIAL_TARGET" in result.stderr and "kl" not in evaluated(result)["stdin"]


def test_an_infinite_divergence_is_a_word_in_json(cdec: Runner) -> None:
    Path("law.jsonl").write_bytes(jsonl(sample("a", "x", probability=1.0)))
    rows = jsonl(sample("a", "z"))
    found = evaluated(cdec("eval", "-", "--target", "law.jsonl", "--json", stdin=rows))["stdin"]
    assert found["kl"]["value"] == found["kl"]["lower"] == "inf"


def test_concepts_and_hooks_are_scored(cdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_metric.py").write_text("def length(texts, records): return [len(t) for t in texts]\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    rows = jsonl(sample("a", "the dog runs", input={"concepts": ["dog", "run", "park"]}))
    found = evaluated(cdec("eval", "-", "--hook", "own_metric:length", "--json", stdin=rows))
    told = {name: found["stdin"][name]["value"] for name in ("concepts_soft", "length")}
    assert told == {"concepts_soft": pytest.approx(2 / 3), "length": 12.0}
    assert found["stdin"]["concepts_hard"]["value"] == 0.0


def test_classifications_are_calibrated(cdec: Runner) -> None:
    labels = [{"text": "p", "id": "1", "probability": 0.7}, {"text": "n", "probability": 0.3}]
    rows = [{"id": i, "label": "p", "labels": labels, "input": {"label": "p"}} for i in range(3)]
    result = cdec("eval", "-", "--json", stdin=jsonl(*rows))
    found = evaluated(result)["stdin"]
    assert found["ece"]["value"] == pytest.approx(0.3)
    assert found["brier"]["value"] == pytest.approx(0.18)
    (bin_,) = result.records[0]["systems"][0]["reliability"]
    told = {"from": 0.6, "to": 0.7, "count": 3, "probability": 0.7, "accuracy": 1.0}
    assert bin_ == pytest.approx(told)


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b'{"id": "a", "te', "E_JSON", "line 1"),
        (jsonl(sample("a", "x")) + b'{"id": "b", "text": "x', "E_JSON", "line 2"),
        (b"a text\n", "E_FIELD", "an object was expected"),
        (jsonl({"id": "a", "prompt": "q"}), "E_FIELD", "'text' is missing: this is no sample"),
        (jsonl({"text": "a"}), "E_FIELD", "'id' is missing"),
        (jsonl(sample(True, "a")), "E_FIELD", "'id' is true"),
        (jsonl(sample("a", "x", log_weight="1")), "E_FIELD", "'log_weight'"),
        (jsonl(sample("a", "x", valid=1)), "E_FIELD", "'valid'"),
        (jsonl({"id": 1, "labels": [{"text": 1}]}), "E_FIELD", "'labels'"),
        (jsonl(sample("a", "x", input={"answers": "x"})), "E_FIELD", "'answers'"),
        (jsonl(sample("a", "x", input={"relevant": {"x": -1}})), "E_FIELD", "'relevant'"),
        (jsonl(sample("a", "x"), sample("b", "x"), sample("a", "y")), "E_ID_ORDER", "line 3"),
    ],
)
def test_a_file_that_holds_no_samples_is_an_error(
    cdec: Runner, data: bytes, code: str, said: str
) -> None:
    assert said in refused(cdec("eval", "-", stdin=data), code, 65)


def test_an_empty_file_is_told_and_no_error(cdec: Runner) -> None:
    result = cdec("eval", "-")
    assert result.status == 0 and result.stdout == b"" and "W_NO_INPUT" in result.stderr


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("one.jsonl", "--json", "--csv"), "--json and --csv"),
        (("-", "--references", "-"), "stdin was given twice"),
        (("one.jsonl", "--at", "0"), "--at has '0'"),
        (("one.jsonl", "--at", "1,x"), "--at has 'x'"),
        (("one.jsonl", "--confidence", "1"), "--confidence"),
        (("one.jsonl", "--hook", "nowhere_at_all:f"), "nowhere_at_all"),
    ],
)
def test_what_makes_no_sense_is_refused(cdec: Runner, words: tuple[str, ...], said: str) -> None:
    assert said in refused(cdec("eval", *words))


def test_references_are_given_once(cdec: Runner) -> None:
    Path("refs.jsonl").write_bytes(jsonl({"id": "a", "answer": "x"}, {"id": "a", "answer": "y"}))
    result = cdec("eval", "-", "--references", "refs.jsonl", stdin=jsonl(sample("a", "x")))
    assert "'a' was there before" in refused(result, "E_DUPLICATE_ID", 65)


def test_every_number_is_json(cdec: Runner) -> None:
    rows = [sample(i, "x", log_weight=-1e308 if i else 1e308) for i in (0, 0, 1)]
    result = cdec("eval", "-", "--json", stdin=jsonl(*rows))
    assert json.loads(result.stdout)["systems"][0]["samples"] == 3

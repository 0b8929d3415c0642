"""Findings of speculative lookahead: who judges, what is chosen, and what a judge must be worth."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.integrations.findings import commongen, judged
from cdec.integrations.findings.commongen import (
    GRID,
    ConceptJudge,
    combinations,
    drafts,
    errors_above,
)
from cdec.integrations.findings.decoding import Prompts
from cdec.integrations.findings.finding import Finding, Found
from cdec.integrations.findings.judged import Judged
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.reproduce import reproduce
from cdec.integrations.findings.table import FINDINGS
from cdec.samplers.rewards import build_reward


def test_the_judge_counts_concepts_and_whole_sets() -> None:
    asked = [{"concepts": ["dog", "run"]}, {"concepts": ["cat"]}]
    records = [{"concepts": ["dog", "run"], "inflections": [["dog"], ["run", "ran"]]}, asked[1]]
    judge = ConceptJudge("coverage", Prompts(["", ""], inputs=asked), records, keeps=True)
    found = judge(["A dog ran.", "A cat."])
    assert found["each"].tolist() == [0.5, 1.0]
    assert (found["soft"], found["hard"], found["hard, lists"]) == (0.75, 0.5, 1.0)


def test_the_grid_of_the_paper_has_its_72_settings() -> None:
    settings = combinations(GRID)
    assert len(settings) == 2 * 3 * 4 * 3
    assert len({tuple(one.items()) for one in settings}) == len(settings)


def test_a_part_of_the_concept_sets_is_taken_or_all(tmp_path: Path) -> None:
    (tmp_path / "commongen").mkdir()
    rows = [{"concepts": [f"c{n}"], "inflections": [[f"c{n}"]]} for n in range(5)]
    with lzma.open(tmp_path / "commongen/dev.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    part = commongen.test_task(Laboratory(data=tmp_path), 3).prompts
    whole = commongen.test_task(Laboratory(data=tmp_path, all_data=True), 3).prompts
    assert [one["concepts"] for one in part.inputs if one] == [["c0"], ["c2"], ["c4"]]
    assert len(whole) == 5


def test_both_task_models_are_taken_or_none(tmp_path: Path) -> None:
    laboratory = Laboratory(tasks=tmp_path)
    for name in ("concepts-large", "concepts-small"):
        assert commongen.concept_models(laboratory) == laboratory
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").touch()
    found = commongen.concept_models(laboratory)
    assert (found.model, found.draft) == (
        str(tmp_path / "concepts-large"),
        str(tmp_path / "concepts-small"),
    )


def test_standard_errors_are_those_of_paired_differences() -> None:
    a, b = np.array([1.0, 2.0, 4.0]), np.array([0.0, 2.0, 2.0])
    # Differences 1, 0, 2: mean 1, standard deviation 1.
    assert math.isclose(errors_above(a, b), math.sqrt(3))
    assert errors_above(a, a) == 0.0


@pytest.mark.slow
def test_drafts_are_ordered_and_a_target_without_layers_is_another_model() -> None:
    found = drafts(Laboratory(), half=True)
    assert list(found) == ["draft", "target, 2 of 5 layers", "target, 4 of 5 layers", "target"]
    laws = set()
    for model in found.values():
        (context,) = model.prefill([[5, 6, 7]])
        laws.add(float(np.asarray(model.next_logprobs([context]))[0, 8]))
    assert len(laws) == len(found)


class Preferring:
    """A classifier of prompt and text that likes what has some word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def scores(self, texts: Sequence[str], records: Any, prompts: Any) -> Any:
        assert len(texts) == len(records) == len(prompts)
        return np.array([float(self.word in text) for text in texts])


@pytest.mark.parametrize(("word", "accuracy"), [("good", 1.0), ("bad", 0.0), ("worse", 0.0)])
def test_a_judge_that_does_not_tell_replies_apart_claims_nothing(
    word: str, accuracy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged, "build_reward", lambda spec, **how: Preferring(word))
    pairs = [Judged("Q:", " good one", " bad one and it is worse")] * 10
    assert judged.Judge(Laboratory(reward="a", judge="b")).accuracy(pairs) == accuracy
    if accuracy < judged.WORTH:
        found = judged._judged(Laboratory(reward="a", judge="b"), pairs)
        assert found.checks == []
        assert "10 held-out pairs" in found.nothing


@pytest.mark.slow
def test_lookahead_is_judged_beside_plain_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "build_reward", lambda spec, **how: build_reward("regex:good"))
    pairs = [Judged(f"Human: {n}\n\nAssistant:", " good", " no") for n in (0, 5, 10)]
    found = judged._judged(Laboratory(reward="a", judge="b"), pairs)
    (table,) = found.tables
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert rows["cdlh"]["reward"] == rows["cdlh"]["judge"] == rows["cdlh"]["judge ≥ .5"]
    assert float(str(rows["cdlh"]["reward"])) > float(str(rows["greedy"]["reward"]))
    assert [check.said for check in found.checks if not math.isfinite(check.value)] == []


def test_a_judge_that_is_not_worth_its_name_stops_every_finding_of_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [Judged("Q:", " good one", " bad one")] * 10
    monkeypatch.setattr(judged, "build_reward", lambda spec, **how: Preferring("bad"))
    monkeypatch.setattr(judged, "conversations", lambda laboratory: pairs)
    monkeypatch.setattr(judged, "_with_drawn", lambda laboratory, held_out: held_out)
    for compute in (judged.own, judged.speculation, judged.thresholds):
        assert "held-out pairs" in compute(Laboratory(reward="a", judge="b")).nothing


@pytest.mark.slow
def test_replies_are_swept_and_speculated_in_the_shapes_of_the_paper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [Judged(f"Human: {n}\n\nAssistant:", " good", " no") for n in range(10)]
    monkeypatch.setattr(judged, "build_reward", lambda spec, **how: build_reward("regex:good"))
    monkeypatch.setattr(judged, "conversations", lambda laboratory: pairs)
    monkeypatch.setattr(judged, "_with_drawn", lambda laboratory, held_out: held_out)
    monkeypatch.setattr(judged, "LENGTH", 6)
    laboratory = Laboratory(reward="a", judge="b")
    found = judged.speculation(laboratory)
    (table,) = found.tables
    tests = {str(row[0]).partition(", ")[0] for row in table.rows}
    assert tests == {"greedy", "masked", "hard", "ratio", "lossless"}
    swept = judged.thresholds(laboratory)
    names = {plot.name for plot in swept.plots}
    assert names == {
        f"{name}-{what}"
        for name in ("reward-threshold", "accept-threshold", "target-tries")
        for what in ("speedup", "judge")
    }
    assert all(math.isfinite(check.value) for check in (*found.checks, *swept.checks))


def test_findings_that_need_a_reward_say_so(tmp_path: Path) -> None:
    harmless = FINDINGS["cdsl-harmless"]
    (row,) = reproduce([harmless], Laboratory(), tmp_path)
    assert (row["state"], row["reason"]) == ("not run", "give `reward` and `judge`")
    (row,) = reproduce([harmless], Laboratory(reward="a", judge="b"), tmp_path)
    assert row["reason"] == "data absent: hh_rlhf"


def test_a_finding_that_claims_nothing_was_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Finding, "compute", lambda finding, laboratory: Found([], nothing="why"))
    (row,) = reproduce([FINDINGS["disc-figure"]], Laboratory(), tmp_path)
    assert (row["state"], row["reason"]) == ("not run", "why")
    assert list(tmp_path.iterdir()) == []

"""Answers of records: drawn and scored under the record sampler, measured draw by draw."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cdec.integrations.findings import answers, enumeration
from cdec.integrations.findings.answers import (
    DISC,
    EXACT,
    GRADE,
    MASKED,
    MICRO_F1,
    Way,
    difference,
    drawn,
    evaluated,
    spread,
    value,
)
from cdec.integrations.findings.worlds import toy_b

TOY = toy_b()
TEXTS = [TOY.vocabulary.decode(row).decode() for row in TOY.members]


def record(text: str | None, number: int = 0, **fields: Any) -> dict[str, Any]:
    reason = "length" if text is None else "complete"
    return {"id": "q", "index": number, "text": text or "", "finish_reason": reason, **fields}


def test_laws_of_records_are_those_of_the_world() -> None:
    (laws,) = answers.laws(TOY.model(), [RECORD], [TEXTS], TOY.constraint)
    found, q = enumeration.masked(TOY), enumeration.target(TOY)
    assert laws.masked == pytest.approx([found.law[row] for row in TOY.members], abs=1e-9)
    assert laws.target == pytest.approx([q[row] for row in TOY.members], abs=1e-9)


RECORD = {"id": "q", "prompt": "", "n": 200}


def test_draws_are_those_of_the_method_and_as_many_as_are_asked_for() -> None:
    samples = drawn(TOY.model(), DISC[2], [RECORD], TOY.constraint)
    assert len(samples) == 200
    assert {sample["text"] for sample in samples} <= set(TEXTS)
    assert {sample["method"] for sample in samples} == {"disc"}
    (best,) = drawn(TOY.model(), Way("beam", "beam", {"beams": 2}, 1), [RECORD], TOY.constraint)
    assert best["text"] == "cb"
    again = drawn(TOY.model(), DISC[2], [RECORD], TOY.constraint)
    assert [s["text"] for s in again] == [s["text"] for s in samples]


def test_micro_f1_counts_every_draw_and_no_answer_where_there_is_no_end() -> None:
    samples = {
        "some": [record("x"), record("y", 1), record(None, 2), record(" x", 3)],
        "none": [record("y")],
    }
    found = evaluated(samples, [{"id": "q", "answers": ["x", "z"]}], MICRO_F1)
    # Two of three answers are right, and four were to be given.
    assert value(found, "some")[0] == pytest.approx(2 * 2 / (4 + 3))
    assert value(found, "none")[0] == 0.0
    assert difference(found, "some", "none").interval.value == pytest.approx(-4 / 7)


def test_records_without_a_reference_count_nowhere() -> None:
    samples = {"one": [record("x"), {**record("y"), "id": "other"}]}
    found = evaluated(samples, [{"id": "q", "answers": ["x"]}], MICRO_F1)
    assert value(found, "one")[0] == 1.0


def test_grades_are_means_over_draws_without_weights() -> None:
    samples = {
        "one": [record("x", log_weight=0.0), record("y", 1, log_weight=-9.0), record("z", 2)]
    }
    found = evaluated(samples, [{"id": "q", "relevant": {"x": 2, "y": 1}}], GRADE)
    assert value(found, "one")[0] == pytest.approx(1.0)


def test_laws_have_the_labels_of_the_methods() -> None:
    (laws,) = answers.laws(TOY.model(), [RECORD], [TEXTS], TOY.constraint)
    far = answers.mean_distances([laws])
    assert list(far) == [MASKED.label, *(way.label for way in DISC.values()), EXACT.label]
    assert far[MASKED.label] == pytest.approx(0.403513, abs=1e-6)
    assert far[EXACT.label] == pytest.approx(0.0, abs=1e-12)
    assert math.isclose(far["disc K=4"], 0.130702, abs_tol=1e-6)


def test_rows_are_spread_evenly() -> None:
    assert spread(range(11), 3) == [0, 5, 10]
    assert spread("ab", 5) == ["a", "b"]

"""Schemas whose instances others have judged: nothing valid is refused, nothing invalid taken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from cdec.core.errors import CdecError
from tests.benchmarks.schemas.cases import Case, benchmark, has_cases, official
from tests.benchmarks.schemas.generated import made_up, walked
from tests.benchmarks.schemas.outcomes import outcome_of
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sizes import heavy_or

pytestmark = pytest.mark.skipif(not has_cases(), reason="no shared data: set CDEC_SHARED")

SLOW = {"Handwritten---notnames10"}
"""Compiling takes seconds."""


def some(cases: Iterator[Case], every: int) -> list[Case]:
    """Return one case of ``every``; all with ``--heavy``."""
    kept = islice(cases, 0, None, heavy_or(every, 1))
    return [case for case in kept if heavy_or(0, 1) or case.name not in SLOW]


@pytest.mark.parametrize(("of", "right"), [("official", 0.85), ("benchmark", 0.95)])
def test_what_compiles_is_right(of: str, right: float) -> None:
    vocabulary = byte_vocabulary()
    cases = some(official(), 7) if of == "official" else some(benchmark(), 12)
    outcomes = {case.name: outcome_of(case, vocabulary) for case in cases}
    wrong = {name: found for name, found in outcomes.items() if found.status == "wrong"}
    assert not wrong
    good = sum(found.status in ("right", "excused") for found in outcomes.values())
    assert good >= right * len(outcomes)


def test_what_is_recorded_explains_every_invalid_instance_that_is_taken() -> None:
    vocabulary = byte_vocabulary()
    cases = [case for case in some(benchmark(), 8) if "uniqueItems" in case.source]
    outcomes = [outcome_of(case, vocabulary, lenient=True) for case in cases]
    assert outcomes
    assert all(found.status in ("right", "excused", "recorded") for found in outcomes)


def test_what_masks_let_through_is_valid() -> None:
    counts = {"valid": 0, "invalid": 0, "undecided": 0, "unfinished": 0}
    for case in some(benchmark(), 45):
        try:
            for status, text in walked(case, heavy_or(1, 10)):
                counts[status] += 1
                assert status != "invalid", (case.name, text)
        except CdecError:
            continue
    assert counts["valid"] > counts["unfinished"]


def test_instances_that_others_make_up_are_taken() -> None:
    seen = 0
    for case in some(benchmark(), 90):
        if "$ref" in case.source or len(case.source) > 800:
            # What hypothesis-jsonschema takes long to read.
            continue
        try:
            found = made_up(case, heavy_or(2, 10))
        except CdecError:
            continue
        assert all(status == "valid" for status, _ in found), (case.name, found)
        seen += len(found)
    assert seen

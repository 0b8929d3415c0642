"""Schemas of the wild, and instances known to be valid or not."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection

import pytest

from cdec.core.errors import CdecError
from cdec.core.schemas.references import Reference
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sizes import heavy_or
from tools.benchmarks.schemas.cases import (
    Case,
    benchmark,
    found_wrong,
    has_cases,
    neighbours,
    official,
    store,
)
from tools.benchmarks.schemas.generated import made_up, walked
from tools.benchmarks.schemas.outcomes import Outcome, outcome_of

# --- The shared half of SchemaStore: what compiles is right; what is refused for a limit is
# known.

pytestmark = pytest.mark.skipif(not has_cases(), reason="no shared data: set CDEC_SHARED")

SECONDS = 45
ONCE_TOO_MANY = {
    *("enonic-xp-cms-8.0.0", "enonic-xp-macro-8.0.0-B4", "function", "vega", "pyrseas-0.8"),
    *("mongodb-atlas-search-index-definition", "libman", "utam-page-object", "minecraft-recipe"),
}
"""Schemas whose alternatives multiplied out to thousands, or would not end."""
LIMITS = {
    "dein": "a pattern that counts to 256 what may hold the dot behind it",
    "drupal-recipe": "nine patterns of names without anchors: 512 kinds of name",
    "opspec-io-0.1.7": "a branch of oneOf must break four others, each by any of ten properties",
}
"""Schemas that are refused for a limit, and why."""


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.name: case for case in store()}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted(ONCE_TOO_MANY))
def test_alternatives_that_once_multiplied_out_stay_few(cases: dict[str, Case], name: str) -> None:
    found = outcome_of(cases[name], byte_vocabulary(), seconds=SECONDS)
    assert found.status in ("right", "excused"), found


@pytest.mark.slow
def test_branches_that_differ_in_optional_keys_are_compiled() -> None:
    found = {case.name: outcome_of(case, byte_vocabulary()) for case in found_wrong()}
    assert found["Github_hard---o36016"].status == "right"
    assert found["Handwritten---notnames9"].status == "right"


_REFUSED = ("E_SCHEMA_REF", "E_SCHEMA_UNSUPPORTED", "E_SCHEMA_INVALID")


def _answer(case: Case, references: tuple[Reference, ...], end: Connection) -> None:
    end.send(outcome_of(case, byte_vocabulary(), seconds=SECONDS, references=references))


def in_child(case: Case, references: tuple[Reference, ...]) -> Outcome:
    """Return what becomes of a case in a process of its own, which is killed if it does not end."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(case, references, there))
    child.start()
    try:
        if here.poll(3 * SECONDS):
            found: Outcome = here.recv()
            return found
        return Outcome("wrong", "no answer")
    finally:
        child.kill()
        child.join()


@pytest.mark.heavy
def test_the_shared_half_of_schemastore_is_right_or_refused_for_known_reasons(
    cases: dict[str, Case],
) -> None:
    references = neighbours()
    outcomes = {name: in_child(case, references) for name, case in cases.items()}
    wrong = {name: found for name, found in outcomes.items() if found.status == "wrong"}
    assert not wrong
    limited = {name for name, found in outcomes.items() if found.error.startswith("E_LIMIT")}
    assert limited == LIMITS.keys()
    codes = Counter(found.error.split(":")[0] for found in outcomes.values())
    slowest = sorted((found.seconds, name) for name, found in outcomes.items())[-5:]
    print(codes, slowest)
    # Others refer to documents of the half that is not there, or to arrays that are not unique.
    assert codes.keys() <= {"", "E_LIMIT", *_REFUSED}
    assert codes[""] >= 446


# --- Schemas whose instances others have judged: nothing valid is refused, nothing invalid taken.

SLOW = {"Handwritten---notnames10"}
"""Compiling takes seconds."""


def some(cases: Iterator[Case], every: int) -> list[Case]:
    """Return one case of ``every``; all with ``--heavy``."""
    kept = islice(cases, 0, None, heavy_or(every, 1))
    return [case for case in kept if heavy_or(0, 1) or case.name not in SLOW]


@pytest.mark.share(1)
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


@pytest.mark.slow
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

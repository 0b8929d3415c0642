"""The shared half of SchemaStore: what compiles is right; what is refused for a limit is known."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from multiprocessing.connection import Connection

import pytest

from tests.benchmarks.schemas.cases import Case, found_wrong, has_cases, store
from tests.benchmarks.schemas.outcomes import Outcome, outcome_of
from tests.laws.grammar_cases import byte_vocabulary

pytestmark = pytest.mark.skipif(not has_cases(), reason="no shared data: set CDEC_SHARED")

SECONDS = 45
ONCE_TOO_MANY = {
    *("enonic-xp-cms-8.0.0", "enonic-xp-macro-8.0.0-B4", "function", "vega", "pyrseas-0.8"),
    *("mongodb-atlas-search-index-definition", "libman", "utam-page-object", "minecraft-recipe"),
}
"""Schemas whose alternatives multiplied out to thousands, or would not end."""
LIMITS = {
    "drupal-recipe": "nine patterns of names without anchors: 512 kinds of name",
    "opspec-io-0.1.7": "a branch of oneOf must break four others, each by any of ten properties",
}
"""Schemas that are refused for a limit, and why."""


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.name: case for case in store()}


@pytest.mark.parametrize("name", sorted(ONCE_TOO_MANY))
def test_alternatives_that_once_multiplied_out_stay_few(cases: dict[str, Case], name: str) -> None:
    found = outcome_of(cases[name], byte_vocabulary(), seconds=SECONDS)
    assert found.status in ("right", "excused"), found


def test_branches_that_differ_in_optional_keys_are_compiled() -> None:
    found = {case.name: outcome_of(case, byte_vocabulary()) for case in found_wrong()}
    assert found["Github_hard---o36016"].status == "right"
    assert found["Handwritten---notnames9"].status == "right"


_REFUSED = ("E_SCHEMA_REF", "E_SCHEMA_UNSUPPORTED", "E_SCHEMA_INVALID")


def _answer(case: Case, end: Connection) -> None:
    end.send(outcome_of(case, byte_vocabulary(), seconds=SECONDS))


def in_child(case: Case) -> Outcome:
    """Return what becomes of a case in a process of its own, which is killed if it does not end."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(case, there))
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
    outcomes = {name: in_child(case) for name, case in cases.items()}
    wrong = {name: found for name, found in outcomes.items() if found.status == "wrong"}
    assert not wrong
    limited = {name for name, found in outcomes.items() if found.error.startswith("E_LIMIT")}
    assert limited == LIMITS.keys()
    codes = Counter(found.error.split(":")[0] for found in outcomes.values())
    slowest = sorted((found.seconds, name) for name, found in outcomes.items())[-5:]
    print(codes, slowest)
    # Others refer to documents that are not there, or ask for items that all differ.
    assert codes.keys() <= {"", "E_LIMIT", *_REFUSED}
    assert codes[""] >= 375

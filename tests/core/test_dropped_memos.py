"""Sessions whose masks and memos are dropped at random moments, beside such as keep all."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.conjunction import ConjunctionConstraint
from cdec.core.combine.denial import deny
from cdec.core.combine.prefill import begin
from cdec.core.errors import CdecError
from cdec.core.schemas.schema_constraint import SchemaConstraint
from tests.core.grammars.engine.plain_engine import case, constraint_of
from tests.core.grammars.test_grammar_session import every_short_text, overlapping_grammar
from tests.core.grammars.test_indentation import SMALL
from tests.core.grammars.test_indentation import constraint_of as indented
from tests.core.schemas.programs import metadata_for
from tests.core.schemas.random_programs import pieces, random_program
from tests.laws.grammar_cases import compiled
from tests.laws.memory import assert_answers_survive_drops, pieces_of, with_fewer_steps
from tests.laws.sizes import heavy_or
from tests.shared import shared_folder
from tools.benchmarks.grammars.fresh_workloads import fresh_workloads
from tools.benchmarks.grammars.workloads import workloads

BUDGETS = [0, 1 << 12, 1 << 15, 1 << 18, 1 << 21]
"""Bytes, of which one is drawn."""
NAMES = sorted(workloads()) if (shared_folder() / "bench").is_dir() else sorted(fresh_workloads())


def tightened(constraint: Any, rng: np.random.Generator, share: float = 1.0) -> Any:
    """Return a grammar with little memory, and with a share of the steps computed ahead."""
    return with_fewer_steps(constraint, share, rng, memo_bytes=int(rng.choice(BUDGETS)))


def assert_survives(
    roomy: Any, tight: Any, rng: np.random.Generator, within: Callable[[Any], Any] | None = None
) -> int:
    """Check the law; ``within`` makes another constraint of each."""

    def made(constraint: Any) -> Any:
        return constraint if within is None else within(constraint)

    def engines() -> list[Any]:
        return [] if tight._engine is None else [tight._engine]

    return assert_answers_survive_drops(made(roomy), made(tight), engines, rng)


@pytest.mark.share(10)
@pytest.mark.parametrize("lookahead", [None, 0, 1])
@pytest.mark.parametrize(
    ("name", "lexer"),
    [("json", "contextual"), ("json", "basic"), ("comments", "dynamic"), ("hidden", "dynamic")],
)
def test_grammars_answer_alike(name: str, lexer: str, lookahead: int | None) -> None:
    constraint = case(name, lexer).with_lookahead(lookahead)
    rng = np.random.default_rng([3, lookahead or 7])
    tight = tightened(constraint, rng, 0.3).with_lookahead(lookahead)
    assert_survives(constraint, tight, rng)


@pytest.mark.slow
@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
def test_random_grammars_answer_alike(lexer: str) -> None:
    vocabulary, asked = every_short_text("abc", 3), 0
    for seed in range(heavy_or(6, 300)):
        rng = np.random.default_rng([seed, 23])
        try:
            constraint = constraint_of(overlapping_grammar(rng), vocabulary, lexer)
        except CdecError:
            continue
        asked += assert_survives(constraint, tightened(constraint, rng, rng.random()), rng)
    assert asked > 30


def test_indented_grammars_answer_alike() -> None:
    constraint, rng = indented(SMALL, "python"), np.random.default_rng(5)
    assert_survives(constraint, tightened(constraint, rng), rng)


def tight_schema(seed: int) -> tuple[SchemaConstraint, SchemaConstraint]:
    vocabulary, rng = pieces(), random.Random(seed)
    arrays, metadata = random_program(rng, vocabulary), metadata_for(vocabulary)
    budget = rng.choice(BUDGETS)
    return (
        SchemaConstraint(arrays, vocabulary, metadata),
        SchemaConstraint(arrays, vocabulary, metadata, memo_bytes=budget),
    )


@pytest.mark.share(12)
@pytest.mark.parametrize("seed", range(heavy_or(30, 1000)))
def test_schemas_answer_alike(seed: int) -> None:
    """In some of them texts must differ: such a state's mask is made of another one's."""
    assert_survives(*tight_schema(seed), np.random.default_rng(seed))


@pytest.mark.parametrize("seed", [11, 27, 35])
def test_a_mask_that_is_made_of_another_needs_no_memory_that_stays(seed: int) -> None:
    """Both fill the rows at once; dropping the first for the second would never end."""
    roomy, tight = tight_schema(seed)
    tight.memo_bytes = 0
    assert_survives(roomy, tight, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", ["denied", "begun", "both", "begun schema"])
def test_constraints_made_of_others_answer_alike(kind: str) -> None:
    constraint, rng = case("json", "contextual"), np.random.default_rng(9)
    tight = tightened(constraint, rng, 0.5)
    if kind == "begun schema":
        constraint, tight = tight_schema(1)  # type: ignore[assignment]
    numbers = constraint_of("start: /[0-9\\[\\], ]+/\n", constraint.vocabulary)
    made = {
        "denied": lambda inner: deny(inner, [b"[1]", b'{"a": 1}', b"true"]),
        "begun": lambda inner: begin(inner, "[1"),
        "both": lambda inner: ConjunctionConstraint(inner, numbers),
        "begun schema": lambda inner: begin(inner, "["),
    }[kind]
    assert_survives(constraint, tight, rng, made)


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["graphql", "sql"])
def test_workloads_answer_alike(name: str) -> None:
    load, rng = fresh_workloads()[name], np.random.default_rng(2)
    vocabulary = pieces_of(load["docs"], 200, rng)
    constraint = constraint_of(load["lark"], vocabulary, "contextual")
    assert_survives(constraint, tightened(constraint, rng, 0.5), rng)


@pytest.mark.heavy
@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic", None])
@pytest.mark.parametrize("name", NAMES)
def test_all_workloads_answer_alike(name: str, lexer: str | None, tmp_path: Path) -> None:
    every = workloads() if name not in fresh_workloads() else fresh_workloads()
    load, asked = every[name], 0
    for seed in range(6):
        rng = np.random.default_rng([seed, 31])
        vocabulary = pieces_of(load["docs"], int(rng.integers(64, 600)), rng)
        options = {"lexer": lexer or load["lexer"], "indenter": load.get("indenter")}
        try:
            constraint = compiled(load["lark"], tmp_path, vocabulary, **options)
        except CdecError:
            pytest.skip(f"{lexer} cannot read this grammar")
        asked += assert_survives(constraint, tightened(constraint, rng, rng.random()), rng)
    assert asked > 20

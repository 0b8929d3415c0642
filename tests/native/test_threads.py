"""Threads that share a constraint get what one gets alone; ``make races`` runs this as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, schema_constraint, set_constraint
from cdec.core.combine.canonical import canonical
from cdec.core.constraint import Constraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.sessions import (
    assert_threads_agree,
    random_prefixes,
    state_masks,
    states_after,
)

NAMES = [first + second + end for first in "abcde" for second in "xyz" for end in ("", "n", "no")]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
JSON = Path(__file__).resolve().parents[2] / "data" / "grammars" / "json.lark"


def constraint_of(kind: str, vocabulary: Vocabulary) -> Constraint:
    if kind == "set":
        return set_constraint(NAMES, vocabulary)
    if kind.startswith("canonical "):
        return canonical(constraint_of(kind.removeprefix("canonical "), vocabulary))
    if kind == "schema":
        return schema_constraint(SCHEMA, vocabulary)
    return grammar_constraint(JSON.read_text(), vocabulary)


@pytest.mark.parametrize(
    "kind", ["set", "grammar", "schema", "canonical grammar", "canonical schema"]
)
def test_threads_that_share_a_session_get_the_masks_that_one_gets(kind: str) -> None:
    constraint = constraint_of(kind, Vocabulary.from_tokenizer("embedded"))
    session = constraint.session("cpu")
    walked = random_prefixes(session, np.random.default_rng(1), n=8, steps=12)
    prefixes = sorted(walked)
    expected = state_masks(session, states_after(session, prefixes), constraint.vocabulary.width)
    for _ in range(3):
        assert_threads_agree(constraint, prefixes, expected)

"""grammar_constraint: a grammar as a constraint without a file, equal to the one compiled to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cdec.compilers import compile_grammar, grammar_constraint
from cdec.core import open_artifact
from cdec.core.errors import DataError
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from tests.laws.grammar_cases import byte_vocabulary

TEXT = 'start: "yes" | "no" | "[" start ("," start)* "]"'


@pytest.mark.parametrize("lexer", [None, "dynamic"])
def test_it_is_what_the_file_opens_as(tmp_path: Path, lexer: str | None) -> None:
    vocabulary = byte_vocabulary()
    path = tmp_path / "g.arrow"
    compile_grammar(TEXT, vocabulary, path, lexer=lexer, precompute=0)  # type: ignore[arg-type]
    opened = open_artifact(tmp_path / "g.arrow", vocabulary=vocabulary)
    mine = grammar_constraint(TEXT, vocabulary, lexer=lexer)  # type: ignore[arg-type]
    assert isinstance(opened, GrammarConstraint) and isinstance(mine, GrammarConstraint)
    for name in mine.arrays._fields:
        assert np.array_equal(getattr(mine.arrays, name), getattr(opened.arrays, name)), name
    assert mine.is_sound == opened.is_sound
    for text in (b"yes", b"[yes,no]", b"[yes,no", b"maybe"):
        assert mine.accepts(text) == opened.accepts(text)
    sessions = [mine.session(), opened.session()]
    states = [session.start(1) for session in sessions]
    for byte in b"[no,":
        states = [session.advance(at, [byte]) for session, at in zip(sessions, states, strict=True)]
        allowed = [
            session.allowed(at)[1].tolist() for session, at in zip(sessions, states, strict=True)
        ]
        assert allowed[0] == allowed[1]


def test_options_are_those_of_compile_grammar() -> None:
    vocabulary = byte_vocabulary()
    constraint = grammar_constraint('root ::= "a" | "b"', vocabulary, format="ebnf")
    assert constraint.accepts(b"a") and not constraint.accepts(b"ab")
    constraint = grammar_constraint('start: "a"\nother: "b"', vocabulary, start="other")
    assert constraint.accepts(b"b")


def test_grammars_in_memory_are_told_apart() -> None:
    vocabulary = byte_vocabulary()
    texts = ['start: "a"', 'start: "b"', 'start: "a"']
    made = [grammar_constraint(text, vocabulary).metadata["cdec.digest"] for text in texts]
    assert made[0] == made[2] != made[1]


def test_a_bad_grammar_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match="line 1"):
        grammar_constraint("start: (", byte_vocabulary())

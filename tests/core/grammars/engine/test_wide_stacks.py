"""Grammars that are ambiguous in all of their rules: hundreds of stacks side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.grammars.columns import arrays_from
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from tests.core.grammars.engine.engine_cases import byte_vocabulary
from tests.core.grammars.walks import walk
from tests.laws.stepping import assert_masks_are_steps

_TOKENS = ("aa", "aaa", "ab", "ba", "aba", "bb", "abc", "cc", "acb")


def chained(count: int, precompute: int) -> GrammarConstraint:
    """Compile rules each of which is the next one, or two of it, or one between letters."""
    rules = [f'r{i}: r{i + 1} | r{i + 1} r{i + 1} | "b" r{i + 1} "c"' for i in range(count)]
    source = "start: r0\n" + "\n".join(rules) + f'\nr{count}: "a"\n'
    vocabulary = byte_vocabulary(_TOKENS)
    arrays, metadata, _ = build_grammar(
        source,
        vocabulary,
        GrammarOptions(lexer="dynamic", precompute=precompute),
        Path("unwritten"),
    )
    return GrammarConstraint(arrays_from(arrays), vocabulary, metadata)


def test_masks_above_very_wide_stacks_are_steps() -> None:
    for precompute in (0, 60):
        constraint = chained(80, precompute)
        session = constraint.session("cpu")
        for text in (b"aaa", b"baac", b"aabaca"):
            for length in range(len(text) + 1):
                states = walk(session, list(text[:length]))
                assert_masks_are_steps(session, states, constraint.vocabulary)


def test_stacks_above_an_ambiguous_text_grow_by_one_state_each_with_its_length() -> None:
    constraint = chained(80, 0)
    session = constraint.session("cpu")
    states, stacks, states_of_parser = session.start(1), [], len(constraint.arrays.action_offsets)
    for _ in range(12):
        states = session.advance(states, np.array([ord("a")]))
        assert session.is_complete(states)[0]
        stacks.append(session.statistics()["stacks"])
    assert np.diff(stacks).max() <= 2 * states_of_parser

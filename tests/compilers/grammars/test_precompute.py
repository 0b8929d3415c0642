"""Masks computed ahead are the masks computed while decoding, however many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cdec.core.errors import CdecError, UsageError
from tests.core.grammars.engine.engine_cases import COMMENTS, JSON
from tests.core.grammars.test_stepping import every_short_text, overlapping_grammar, walked
from tests.laws.grammar_cases import byte_vocabulary, compiled
from tests.laws.sessions import state_masks
from tests.laws.stepping import assert_masks_are_steps

EXTRA = ('{"', '"}', "],", "]]", "/*", "1+", "((", '",')


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_masks_do_not_depend_on_what_was_computed_ahead(lexer: str, tmp_path: Path) -> None:
    vocabulary, compared = every_short_text("abc", 3), 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 14])
        source = overlapping_grammar(rng)
        steps = int(rng.integers(1, 60))
        try:
            none = compiled(source, tmp_path, vocabulary, lexer=lexer, precompute=0)
        except CdecError:
            continue
        some = compiled(source, tmp_path, vocabulary, lexer=lexer, precompute=steps)
        every = compiled(source, tmp_path, vocabulary, lexer=lexer)
        assert none.statistics()["automaton_steps"] == 0
        assert some.statistics()["automaton_steps"] <= steps
        states = walked(every.session(), np.random.default_rng(seed), 6)
        masks = []
        for constraint in (none, some, every):
            session = constraint.session()
            own = walked(session, np.random.default_rng(seed), 6)
            assert_masks_are_steps(session, own, vocabulary)
            masks.append(state_masks(session, own, vocabulary.width))
        np.testing.assert_array_equal(masks[0], masks[1])
        np.testing.assert_array_equal(masks[0], masks[2])
        compared += len(states)
    assert compared > 10


@pytest.mark.parametrize(("source", "text"), [(JSON, b'[[1,"a"],{"b":[]}]'), (COMMENTS, b"a/b")])
def test_what_was_computed_ahead_is_not_computed_again(
    source: str, text: bytes, tmp_path: Path
) -> None:
    vocabulary = byte_vocabulary(EXTRA)
    session = compiled(source, tmp_path, vocabulary).session()
    states = session.start(1)
    for token in text:
        state_masks(session, states, vocabulary.width)
        states = session.advance(states, np.array([token]))
    assert session.statistics()["mask_misses"] == 0
    fresh = compiled(source, tmp_path, vocabulary, precompute=0).session()
    state_masks(fresh, fresh.start(1), vocabulary.width)
    assert fresh.statistics()["mask_misses"] > 0


def test_a_negative_number_of_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="precompute"):
        compiled(JSON, tmp_path, precompute=-1)

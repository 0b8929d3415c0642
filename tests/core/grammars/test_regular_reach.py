"""Distances of regular expressions from the end of a text, against following every token."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, regex_constraint
from cdec.core.combine.distances import distances_of
from cdec.core.combine.fitting import fit
from cdec.core.constraint import CONSERVATIVE, EXACT
from cdec.core.errors import FitError, UsageError
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import assert_session_laws

VOCABULARY = byte_vocabulary(["ab", "abc", "12", "-1", "aa", "aaa", "a-", "bb", '."', "é"])
PATTERNS = (
    *("[A-C]{3}-[0-9]+", "(a|b)*", "a?", "", "[ab]{3,40}", "(?s).{1,6}", '[^"]{0,9}"'),
    *("(ab)+c?", "a{2,300}", "((a{2}|b){2,9}-){3,}", "[0-9]+(-[0-9]+)*", "\\bab\\b", "(?i)abc"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_distances_are_those_of_following_every_token(pattern: str) -> None:
    constraint = regex_constraint(pattern, VOCABULARY)
    session = constraint.session()
    found = distances_of(session, np.array(VOCABULARY.eos_token_ids), most_steps=1 << 26)
    assert found is not None and constraint.facts.reach == EXACT
    np.testing.assert_array_equal(session.fewest_tokens(found.states), found.fewest)
    np.testing.assert_array_equal(session.fewest_ahead(found.states), found.ahead)


@pytest.mark.parametrize("pattern", ["[A-C]{3}-[0-9]+", "a{2,300}", '[^"]{0,9}"'])
def test_fitted_regular_expressions_are_exact(pattern: str) -> None:
    constraint, rng = regex_constraint(pattern, VOCABULARY), np.random.default_rng(2)
    with pytest.raises(FitError) as found:
        fit(constraint, 0)
    fitted = fit(constraint, found.value.details["shortest"] + 2)
    assert (fitted.facts.fit, fitted.facts.is_sound) == (EXACT, True)
    assert_session_laws(fitted, [], rng, walks=6, max_states=60)


def test_only_texts_of_one_terminal_are_measured() -> None:
    assert grammar_constraint("start: /a+b/", VOCABULARY).facts.reach == EXACT
    for source in ('start: "a" "a"', 'start: "a" start | "a"', "start: /a+/\n%ignore /b/"):
        constraint = grammar_constraint(source, VOCABULARY)
        assert constraint.facts.reach == CONSERVATIVE
        constraint = constraint.with_lookahead(0)
        assert constraint.facts.reach is None
        with pytest.raises(UsageError, match="still need"):
            constraint.session().fewest_tokens(constraint.session().start(1))

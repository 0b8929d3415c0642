"""Conjunctions: exactly what both accept, by whichever way they are walked; the laws hold."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.conjunction import ConjunctionConstraint, conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.healing import HealedConstraint
from cdec.core.constraint import DEAD
from cdec.core.errors import CdecError, EmptySetError, TokenizerMismatchError
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.combine.conjunction_cases import (
    BYTES,
    VOCABULARY,
    assert_session_laws_without_soundness,
    common,
    outcomes,
    random_rows,
    random_side,
    words,
)
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.sets.set_cases import make_set
from tests.laws.grammar_cases import compiled, random_grammar
from tests.laws.sessions import assert_session_laws


@pytest.mark.parametrize("seed", range(25))
def test_a_conjunction_is_what_both_accept_however_it_is_walked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = random_rows(rng, 4)
    sides = [random_side(rng, shared) for _ in range(2)]
    expected = common(*(outcomes(side, 5) for side in sides))
    walked = ConjunctionConstraint(*sides)
    assert outcomes(walked, 5) == expected
    assert_session_laws_without_soundness(walked, rng)
    if expected and not any(side.ends_itself for side in sides):
        # So little is there that every dead end is found.
        assert_session_laws(walked, [row for row, _ in expected], rng, max_states=40)
    try:
        chosen = conjoin(*sides)
    except EmptySetError:
        assert not expected
        return
    assert outcomes(chosen, 5) == expected
    kept_rows = isinstance(chosen, SetConstraint)
    if isinstance(chosen, SetConstraint):
        assert chosen.is_sound and chosen.kind == "set"
        assert (chosen.n_rows, chosen.max_tokens) == (
            len(expected),
            max(len(row) for row, _ in expected),
        )
        assert_session_laws(chosen, [row for row, _ in expected], rng, max_states=40)
    else:
        assert {type(side) for side in sides} == {FiniteLanguage} or any(
            side.ends_itself for side in sides
        )
    texts = {VOCABULARY.decode(row) for row, _ in expected}
    for text in {VOCABULARY.decode(row) for row in [*shared, *random_rows(rng, 20)]}:
        # By their texts alone: sets may spell one text in different tokens.
        both = all(side.accepts(text) for side in sides)
        assert walked.accepts(text) == both
        assert chosen.accepts(text) == (text in texts if kept_rows else both)
        assert both or text not in texts


LETTERS = Vocabulary([b"a", b"b", b"c", b"ab", b"ca", b""], eos_token_ids=[5])


def test_random_grammars_have_in_common_what_larks_parsers_both_accept(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    grammars = []
    while len(grammars) < 12:
        folder = tmp_path / str(len(grammars))
        folder.mkdir(exist_ok=True)
        source = random_grammar(rng, nullable=bool(rng.integers(2)))
        try:
            grammars.append(compiled(source, folder, LETTERS, lexer="dynamic"))
        except CdecError:
            continue
    rows = [row for n in range(5) for row in itertools.product(range(5), repeat=n)]
    accepted = [
        {row for row in rows if grammar.accepts(LETTERS.decode(row))} for grammar in grammars
    ]
    pairs = [(i, j) for i in range(12) for j in range(i, 12)]
    met = 0
    for i, j in pairs[::3]:
        walked = ConjunctionConstraint(grammars[i], grammars[j])
        expected = accepted[i] & accepted[j]
        met += bool(expected)
        assert {row for row, _ in outcomes(walked, 4)} == expected
        assert_session_laws_without_soundness(walked, rng, sorted(expected)[:5])
        if rows_of := sorted(accepted[i])[:20]:
            narrowed = make_set(rows_of, LETTERS)
            try:
                both = conjoin(grammars[j], narrowed)
            except EmptySetError:
                assert not set(rows_of) & accepted[j]
                continue
            assert isinstance(both, SetConstraint)
            assert {row for row, _ in outcomes(both, 4)} == set(rows_of) & accepted[j]
    assert met > 5


def test_two_grammars_make_a_grammar_that_lookahead_and_healing_take(tmp_path: Path) -> None:
    first, second = words("/[ab]+/", tmp_path / "1"), words("/a+b*/ | /c+/", tmp_path / "2")
    both: Any = conjoin(first, second)
    assert (both.kind, both.is_sound, both.max_tokens, both.lookahead) == (
        "grammar",
        False,
        None,
        None,
    )
    assert [both.accepts(t) for t in (b"aab", b"ba", b"c")] == [True, False, False]
    assert both.metadata == first.metadata
    assert both.member_text([97, 98]) == both.content(b"ab") == b"ab"
    assert both.annotations(b"ab") == {}
    rng = np.random.default_rng(1)
    assert_session_laws(both, [[97, 98], [97, 97]], rng, max_states=40)
    narrow = both.with_lookahead(0)
    assert narrow.lookahead == 0
    session = HealedConstraint(both, b"c").session()
    _, ids = session.allowed(session.start(1))
    assert {both.vocabulary.token_bytes[token] for token in ids} == {b"c"}
    denied: Any = deny(both, [b"a", b"aa"])
    assert (denied.denied_unknown, denied.accepts(b"aa"), denied.accepts(b"ab")) == (0, False, True)
    assert_session_laws(denied, [[97, 98]], rng, max_states=40)


def test_dead_ends_that_are_near_are_left_out(tmp_path: Path) -> None:
    both = conjoin(words("/aaaaa|ca*/", tmp_path / "1"), words("/(aaa)+|cb*/", tmp_path / "2"))
    session = both.session()
    start = session.start(1)
    assert session.forced(start)[1].tolist() == [ord("c")]
    assert session.advance(start, np.array([97])).tolist() == [DEAD]
    assert session.check(start, np.array([[97, 98, 99]])).tolist() == [[False, False, True]]
    # Endless ones as well: what is read so far comes again and again.
    first, second = words("/(ab)*d|c/", tmp_path / "3"), words("/(ab)*e|c/", tmp_path / "4")
    session = conjoin(first, second).session()
    assert session.allowed(session.start(1))[1].tolist() == [ord("c")]
    walk = ConjunctionConstraint(first, second).session_for_texts()
    assert len(walk.allowed(walk.start(1))[1]) > 1
    assert not both.is_sound


def test_dead_ends_that_are_far_are_possible_and_admitted(tmp_path: Path) -> None:
    both = conjoin(words("/a{100}|c/", tmp_path / "1"), words("/a{101}|c/", tmp_path / "2"))
    session = both.session()
    states, steps = session.start(1), 0
    assert session.check(states, np.array([[97]])).all()
    while len(session.allowed(states)[1]):
        states = session.advance(states, np.array([97]))
        steps += 1
    # From 36 letters on, at most 64 states are left to look at.
    assert states[0] >= 0 and steps == 36


def test_constraints_without_a_common_beginning_are_an_error(tmp_path: Path) -> None:
    first, second = words("/a+/", tmp_path / "1"), words("/b+/", tmp_path / "2")
    with pytest.raises(EmptySetError, match="no text in common"):
        conjoin(first, second)
    rows = make_set([[98], [98, 98]], first.vocabulary)
    with pytest.raises(EmptySetError, match="none of the set's 2 members"):
        conjoin(first, rows)


def test_a_verdict_out_of_time_is_unknown_unless_the_other_refuses() -> None:
    language = FiniteLanguage([b"a", b"b"], VOCABULARY)
    slow = FiniteLanguage([b"a", b"c"], VOCABULARY)
    slow.accepts = lambda text: None  # type: ignore[method-assign,assignment,return-value]
    for both in (ConjunctionConstraint(language, slow), ConjunctionConstraint(slow, language)):
        assert (both.accepts(b"a"), both.accepts(b"c")) == (None, False)


def test_constraints_of_two_vocabularies_are_refused() -> None:
    other = Vocabulary([*BYTES[:8], b"x"], eos_token_ids=[6], width=40)
    with pytest.raises(TokenizerMismatchError, match="different vocabularies"):
        conjoin(FiniteLanguage([b"a"], VOCABULARY), FiniteLanguage([b"a"], other))


def test_speculation_counts_by_the_first_grammar() -> None:
    rows = make_set([(0, 1)], VOCABULARY)
    language = FiniteLanguage([b"ab"], VOCABULARY)
    both = ConjunctionConstraint(rows, language)
    assert both.metadata == language.metadata
    session: Any = both.session()
    plain = language.session()
    assert session.speculation_keys(session.start(1)).tolist() == plain.start(1).tolist()
    sets: Any = ConjunctionConstraint(rows, rows).session()
    assert sets.speculation_keys(sets.start(1)).tolist() == rows.session().start(1).tolist()

"""Conjunctions of constraints."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.conjunction import ConjunctionConstraint, conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.healing import HealedConstraint
from cdec.core.combine.restriction import Restriction
from cdec.core.combine.wrapped import PairTable
from cdec.core.constraint import DEAD
from cdec.core.errors import CdecError, EmptySetError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
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
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_session_laws
from tests.laws.worlds import toy_set

# --- Conjunctions: exactly what both accept, by whichever way they are walked; the laws hold.


@pytest.mark.share(16)
@pytest.mark.parametrize("seed", range(25))
def test_a_conjunction_is_what_both_accept_however_it_is_walked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = random_rows(rng, 4)
    sides = [random_side(rng, shared) for _ in range(2)]
    expected = common(*(outcomes(side, 5) for side in sides))
    walked = ConjunctionConstraint(*sides)
    assert outcomes(walked, 5) == expected
    assert_session_laws_without_soundness(walked, rng)
    if expected and not any(side.facts.ends_itself for side in sides):
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
        assert chosen.facts.is_sound and chosen.facts.kind == "set"
        assert (chosen.n_rows, chosen.max_tokens) == (
            len(expected),
            max(len(row) for row, _ in expected),
        )
        assert_session_laws(chosen, [row for row, _ in expected], rng, max_states=40)
    else:
        assert {type(side) for side in sides} == {FiniteLanguage} or any(
            side.facts.ends_itself for side in sides
        )
    texts = {VOCABULARY.decode(row) for row, _ in expected}
    for text in {VOCABULARY.decode(row) for row in [*shared, *random_rows(rng, 20)]}:
        # By their texts alone: sets may spell one text in different tokens.
        both = all(side.accepts(text) for side in sides)
        assert walked.accepts(text) == both
        assert chosen.accepts(text) == (text in texts if kept_rows else both)
        assert both or text not in texts


LETTERS = Vocabulary([b"a", b"b", b"c", b"ab", b"ca", b""], eos_token_ids=[5])


@pytest.mark.slow
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
    assert (both.facts.kind, both.facts.is_sound, both.max_tokens, both.facts.lookahead) == (
        "grammar",
        False,
        None,
        None,
    )
    assert [both.accepts(t) for t in (b"aab", b"ba", b"c")] == [True, False, False]
    assert both.facts.metadata == first.metadata
    assert both.member_text([97, 98]) == both.content(b"ab") == b"ab"
    assert both.annotations(b"ab") == {}
    rng = np.random.default_rng(1)
    assert_session_laws(both, [[97, 98], [97, 97]], rng, max_states=40)
    narrow = both.with_lookahead(0)
    assert narrow.facts.lookahead == 0
    session = HealedConstraint(both, b"c").session()
    _, ids = session.allowed(session.start(1))
    assert {both.vocabulary.token_bytes[token] for token in ids} == {b"c"}
    denied: Any = deny(both, [b"a", b"aa"])
    assert (denied.facts.denied_unknown, denied.accepts(b"aa"), denied.accepts(b"ab")) == (
        0,
        False,
        True,
    )
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
    assert not both.facts.is_sound


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
    assert both.facts.metadata == language.facts.metadata
    session: Any = both.session()
    plain = language.session()
    assert session.speculation_keys(session.start(1)).tolist() == plain.start(1).tolist()
    sets: Any = ConjunctionConstraint(rows, rows).session()
    assert sets.speculation_keys(sets.start(1)).tolist() == rows.session().start(1).tolist()


# --- Draws from a conjunction: dead ends are reported by masked decoding and rejected by disc.

FAR = (2,) + (1,) * 80
LETTER_ROWS = [
    [(0, 1), (0, 2), (1, 0, 2), (*FAR, 0), (1,)],
    [(0, 1), (0, 0), (1, 0, 2), (*FAR, 1), (1,)],
]
"""They have three rows in common, and begin another one alike for longer than is looked ahead."""
COMMON = {(0, 1), (1, 0, 2), (1,)}
THREE = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3])


def three_letters(prefix: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a law over a, b, c and the end that depends on the whole prefix."""
    weights = 1.0 + np.random.default_rng([5, *prefix]).random(4)
    return np.asarray(weights / weights.sum())


def masked_law() -> dict[tuple[int, ...] | None, float]:
    """Return the law of masked decoding by definition; None stands for what gets stuck."""
    begun = {row[:n] for row in (*COMMON, FAR) for n in range(len(row) + 1)}
    law: dict[tuple[int, ...] | None, float] = {None: 0.0}
    level = {(): 1.0}
    while level:
        following: dict[tuple[int, ...], float] = {}
        for prefix, mass in level.items():
            given = three_letters(prefix)
            allowed = [t for t in range(3) if (*prefix, t) in begun]
            ends = prefix in COMMON
            z = given[allowed].sum() + given[3] * ends
            if z == 0:
                law[None] += mass
            if ends:
                law[prefix] = mass * given[3] / z
            following |= {(*prefix, t): mass * given[t] / z for t in allowed}
        level = following
    return law


def drawn(method: str, n: int, **options: Any) -> list[tuple[int, ...] | None]:
    sides = [make_set(rows, THREE) for rows in LETTER_ROWS]
    samples = SAMPLERS[method](**options).draw(
        TabularModel(three_letters, THREE),
        ConjunctionConstraint(*sides),
        "",
        n=n,
        rng=np.random.default_rng(2),
    )
    assert {sample.finish_reason for sample in samples} <= {"complete", "dead_end"}
    for sample in samples:
        assert sample.valid == (sample.finish_reason == "complete")
    return [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]


def test_masked_draws_say_where_they_ran_into_a_dead_end() -> None:
    law = masked_law()
    assert law[None] > 0.1
    assert g_test(drawn("masked", 4000), law) >= 1e-4


# --- Conjunctions with sets: rows kept exactly, forced parts, and sets too large to walk.


def test_a_set_too_large_to_walk_is_walked_with_the_other_at_run_time() -> None:
    rng = np.random.default_rng(3)
    rows = [(0, *row) for row in random_rows(rng, 60)]
    first = make_set(rows[:50], VOCABULARY, ids=[["x"]] * len(set(rows[:50])))
    second = FiniteLanguage([VOCABULARY.decode(row) for row in rows[10:]], VOCABULARY)
    exact, walked = conjoin(first, second), conjoin(first, second, max_steps=20)
    assert isinstance(exact, SetConstraint) and isinstance(walked, ConjunctionConstraint)
    assert outcomes(exact, 6) == outcomes(walked, 6)
    assert (walked.facts.kind, walked.max_tokens) == ("set", first.max_tokens)
    text = VOCABULARY.decode(rows[20])
    assert walked.annotations(text) == exact.annotations(text) == {"entity_ids": ["x"]}
    smaller: Any = deny(walked, [text, b"nothing"])
    assert (smaller.facts.denied_unknown, smaller.accepts(text)) == (1, False)
    assert outcomes(smaller, 6) == outcomes(deny(exact, [text]), 6)
    nested: Any = deny(ConjunctionConstraint(walked, second), [text])
    assert nested.accepts(text) is False and outcomes(nested, 6) == outcomes(smaller, 6)


def test_a_walk_that_would_fill_the_memory_is_given_up(tmp_path: Path) -> None:
    grammar = words("/a+b?/", tmp_path / "1")
    rows = make_set([[97] * n for n in range(1, 9)] + [[98]], grammar.vocabulary)
    for other in (deny(grammar, [b"aa", b"aaa"]), ConjunctionConstraint(grammar, grammar)):
        exact = conjoin(rows, other, max_states=40)
        assert isinstance(exact, SetConstraint)
        walked = conjoin(rows, other, max_states=2)
        assert isinstance(walked, ConjunctionConstraint)
        assert outcomes(exact, 9) == outcomes(walked, 9)
    assert ((97, 97), False) in outcomes(exact, 9)
    assert ((97, 97), False) not in outcomes(conjoin(rows, deny(grammar, [b"aa"])), 9)


def test_a_filter_of_the_set_stays_and_more_may_follow() -> None:
    rows = [(0,), (0, 1), (0, 2), (1, 2), (2,)]
    first = make_set(rows, VOCABULARY).deny_texts([b"ab"])
    second = FiniteLanguage([b"a", b"ab", b"ac", b"c"], VOCABULARY)
    third = make_set([(0,), (0, 1), (0, 2)], VOCABULARY)
    both: Any = conjoin(first, second)
    assert outcomes(both, 3) == {((0,), False), ((0, 2), False), ((2,), False)}
    three: Any = conjoin(both, third)
    assert outcomes(three, 3) == {((0,), False), ((0, 2), False)}
    assert len(three.others) == 2
    assert [three.accepts(text) for text in (b"a", b"ab", b"c")] == [True, False, False]
    assert outcomes(three.candidates(["ac"]), 3) == {((0, 2), False)}
    assert outcomes(deny(three, [b"ac"]), 3) == {((0,), False)}
    only_first = np.arange(first.arrays.n_rows) == 0
    assert outcomes(three.restrict(only_first), 3) == {((0,), False)}


def test_forced_parts_belong_to_what_the_other_judges() -> None:
    # The set forces "c" before its members and "cc" after them; texts are shown without.
    rows = [(2, 0, 7), (2, 1, 7), (2, 0, 1, 7)]
    framed = toy_set(rows, VOCABULARY, ends_itself=True, head=b"c", tail=b"cc")
    language = FiniteLanguage([b"cacc", b"cabcc", b"cb"], VOCABULARY)
    for both in (conjoin(language, framed), ConjunctionConstraint(language, framed)):
        assert outcomes(both, 6) == {((2, 0, 7), True), ((2, 0, 1, 7), True)}
        assert both.member_text([2, 0, 1, 7]) == b"ab"
        assert (both.content(b"cacc"), both.content(b"ca")) == (b"a", None)
        assert [both.accepts(text) for text in (b"a", b"ab", b"b")] == [True, True, False]
        assert both.whole_texts(b"ab") == [b"cabcc"]


# --- What is asked of constraints alike: others to satisfy too, texts to leave out.

A, B, C = 0, 1, 2
CITIES = make_set([[A], [B], [A, B], [C]], VOCABULARY)
SHORT = FiniteLanguage([b"a", b"b", b"bc"], VOCABULARY)


def test_what_is_left_satisfies_the_others_and_is_not_denied() -> None:
    restriction = Restriction({"short": SHORT}, ["b"])
    assert restriction
    assert outcomes(restriction.of(CITIES, "cities"), 4) == {((A,), False)}
    assert outcomes(restriction.of(None, "the record"), 4) >= {((A,), False), ((B, C), False)}
    assert ((B,), False) not in outcomes(restriction.of(None, "the record"), 4)


def test_nothing_asked_is_nothing_changed() -> None:
    nothing = Restriction()
    assert not nothing
    assert nothing.of(CITIES, "cities") is CITIES
    assert nothing.take_notices() == []


def test_warnings_name_what_they_are_about_and_are_counted() -> None:
    restriction = Restriction({"short": SHORT}, ["zzz"])
    for name in ("one", "two", "three"):
        restriction.of(FiniteLanguage([b"a"], VOCABULARY), name)
    notices = {notice.code: notice.message for notice in restriction.take_notices()}
    assert notices.keys() == {"W_DEAD_ENDS", "W_DENY_UNKNOWN"}
    assert notices["W_DEAD_ENDS"].startswith("one and short: ")
    assert all(message.endswith("(and 2 more constraints)") for message in notices.values())
    assert restriction.take_notices() == []


def test_denied_texts_need_a_constraint_and_must_leave_something() -> None:
    with pytest.raises(UsageError, match="`deny`"):
        Restriction(denied=["a"]).of(None, "the record")
    with pytest.raises(EmptySetError):
        Restriction(denied=["a", "b", "ab", "c"]).of(CITIES, "cities")


# --- Pairs as numbers: equal pairs have equal numbers, in the order in which they are first seen.


def test_equal_pairs_have_equal_numbers() -> None:
    rng = np.random.default_rng(0)
    table, known = PairTable(), dict[tuple[int, int], int]()
    for _ in range(40):
        n = int(rng.integers(0, 400))
        left = rng.integers(-3, 30, n) << rng.integers(0, 40)
        right = rng.integers(-3, 30, n) << rng.integers(0, 40)
        numbers = table.intern(left, right)
        for pair in zip(left.tolist(), right.tolist(), strict=True):
            known.setdefault(pair, len(known))
        assert numbers.tolist() == [
            known[pair] for pair in zip(left.tolist(), right.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(np.stack(table.pairs(numbers)), [left, right])
    assert len(table) == len(known)
    with pytest.raises(IndexError):
        table.pairs(np.array([len(known)]))

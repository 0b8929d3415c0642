"""Conjunctions with sets: rows kept exactly, forced parts, and sets too large to walk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cdec.core.combine.conjunction import ConjunctionConstraint, conjoin
from cdec.core.combine.denial import deny
from cdec.core.sets.set_constraint import SetConstraint
from tests.core.combine.conjunction_cases import VOCABULARY, outcomes, random_rows, words
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.sets.set_cases import make_set
from tests.laws.toys import toy_set


def test_a_set_too_large_to_walk_is_walked_with_the_other_at_run_time() -> None:
    rng = np.random.default_rng(3)
    rows = [(0, *row) for row in random_rows(rng, 60)]
    first = make_set(rows[:50], VOCABULARY, ids=[["x"]] * len(set(rows[:50])))
    second = FiniteLanguage([VOCABULARY.decode(row) for row in rows[10:]], VOCABULARY)
    exact, walked = conjoin(first, second), conjoin(first, second, max_steps=20)
    assert isinstance(exact, SetConstraint) and isinstance(walked, ConjunctionConstraint)
    assert outcomes(exact, 6) == outcomes(walked, 6)
    assert (walked.kind, walked.max_tokens) == ("set", first.max_tokens)
    text = VOCABULARY.decode(rows[20])
    assert walked.annotations(text) == exact.annotations(text) == {"entity_ids": ["x"]}
    smaller: Any = deny(walked, [text, b"nothing"])
    assert (smaller.denied_unknown, smaller.accepts(text)) == (1, False)
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

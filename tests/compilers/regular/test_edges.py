"""Edges of automata: what is said of each state is so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers.regular.automaton import everything
from cdec.compilers.regular.edges import Edges, automaton_edges, pooled
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.compilers.regular.strings import Strings, labelled, partition
from tests.compilers.regular.reading import label, reached, texts, walk
from tests.laws.sizes import heavy_or

ALL = texts("aé1", 4)
PATTERNS = st.sampled_from(["^a", "1$", "é", "^(aé)*$", "^.$", "a.a", "^[^1]{2,3}$", "", "^x-"])


@settings(max_examples=heavy_or(8, 500), deadline=None)
@given(st.sets(PATTERNS, max_size=3), st.sets(st.sampled_from(ALL), max_size=4))
def test_keys_are_told_apart_by_words_and_cells(patterns: set[str], words: set[str]) -> None:
    languages = [Strings.pattern(pattern) for pattern in sorted(patterns)]
    cells = partition([*languages, Strings.words(words)])
    for text in ALL:
        held = frozenset(i for i, s in enumerate([*languages, Strings.words(words)]) if text in s)
        assert [members for members, strings in cells if text in strings] == [held]
    named = sorted(words, key=str.encode)
    regions = [strings - Strings.words(words) for _, strings in cells]
    edges = labelled(named, regions)
    for text in ALL:
        expected = [j for j, region in enumerate(regions) if text in region]
        place = named.index(text) if text in words else len(named) + expected[0]
        assert label(edges, text) == place
    _check(edges, len(named))


@settings(max_examples=heavy_or(8, 300), deadline=None)
@given(PATTERNS, st.sets(st.sampled_from(ALL), max_size=4))
def test_closed_objects_have_their_words_and_one_region(pattern: str, words: set[str]) -> None:
    named = sorted(words, key=str.encode)
    for regions in ([], [Strings.pattern(pattern) - Strings.words(words)]):
        regions = [region for region in regions if not region.is_empty]
        edges = labelled(named, regions)
        for text in ALL:
            is_region = bool(regions) and text in regions[0]
            expected = named.index(text) if text in words else len(named) if is_region else -1
            assert label(edges, text) == expected
        _check(edges, len(named))


def test_regions_may_take_words_out_of_one_another() -> None:
    out = Strings.words(["ab", "ac"])
    regions = [Strings.pattern("^a") - out, out - Strings.words(["ac"]), Strings.pattern("^b")]
    edges = labelled(["c"], regions)
    assert [label(edges, text) for text in ("c", "a", "ab", "ac", "b", "d")] == [0, 1, 2, -1, 3, -1]


@pytest.mark.parametrize("pattern", ["^a", "a$", "^[^é]*$", "^é{2}", "", "^(?!a)", "^..$"])
def test_states_say_how_far_the_end_is_and_what_is_free(pattern: str) -> None:
    edges = automaton_edges(pattern_automaton(pattern))
    _check(edges, None)
    for text in ALL:
        state = walk(edges, text.encode())
        if state < 0:
            continue
        ends = [len(t) for t in ALL if label(edges, text + t) == 0]
        assert not ends or edges.state_shortest[state] == min(ends)


def test_pooled_automata_lie_side_by_side() -> None:
    parts = [automaton_edges(pattern_automaton(p)) for p in ("^a$", "", "^b+$")]
    joined, starts = pooled(parts)
    assert len(joined.state_edges) == len(joined.state_label) + 1
    for part, start in zip(parts, starts, strict=True):
        for text in texts("ab", 3):
            state, own = walk(joined, text.encode(), start), walk(part, text.encode())
            assert state == (own + start if own >= 0 else -1)
    assert pooled([])[1] == []


def _check(edges: Edges, singles: int | None) -> None:
    """Hold the columns against their definitions."""
    universe = automaton_edges(everything())
    for state in range(len(edges.state_label)):
        at = slice(edges.state_edges[state], edges.state_edges[state + 1])
        lows, highs = edges.edge_low[at].tolist(), edges.edge_high[at].tolist()
        assert all(low <= high for low, high in zip(lows, highs, strict=True))
        assert all(high < low for high, low in zip(highs, lows[1:], strict=False))
        labels = {int(edges.state_label[s]) for s in reached(edges, state)} - {-1}
        assert labels or state == 0
        if singles is not None:
            named = [found for found in labels if found < singles]
            assert edges.state_open[state] == any(found >= singles for found in labels)
            assert edges.state_high[state] == max(named, default=-1) + 1
            assert edges.state_low[state] == min(named, default=0)
        within = bool(lows) and 0x80 <= lows[0] < 0xC0
        assert edges.state_free[state] == (0 if within else _freedom(edges, state, universe))


def _freedom(edges: Edges, state: int, universe: Edges) -> int:
    """Follow any text; say whether there always is a way on, and whether all of them are in."""
    seen, todo, is_absorbing = {(state, 0)}, [(state, 0)], True
    while todo:
        own, other = todo.pop()
        if other == 0:
            is_absorbing = is_absorbing and -1 != edges.state_label[own] == edges.state_label[state]
        for edge in range(universe.state_edges[other], universe.state_edges[other + 1]):
            for byte in range(universe.edge_low[edge], universe.edge_high[edge] + 1):
                following = walk(edges, bytes((byte,)), own), int(universe.edge_target[edge])
                if following[0] < 0:
                    return 0
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
    return 2 if is_absorbing else 1

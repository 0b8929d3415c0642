"""A set of strings as automata with bounds on the number of characters."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cdec.compilers.regular.automaton import Automaton
from cdec.compilers.regular.bands import Band, spans
from cdec.compilers.regular.edges import Edges, automaton_edges, ranges_of, with_words
from cdec.compilers.regular.lengths import all_lengths, lengths_between
from cdec.compilers.regular.words import words_automaton

Part = tuple[Edges, int, int]
"""Automaton, fewest characters, most or -1."""


def string_parts(
    bands: tuple[Band, ...], extra: frozenset[str], missing: frozenset[str]
) -> list[Part]:
    """Return parts whose union is a set of strings; see ``Strings.parts``.

    Args:
        bands: Automata by lengths. extra: Words besides. missing: Words of the bands that are out.
    """
    bounded = list(spans(bands))
    if not bounded:
        return [_words_part(extra)] if extra else []
    if len(bounded) == 1 and bounded[0][:2] == (0, -1) and (extra or missing):
        return [_part_with_words(bounded[0][2], extra, missing)]
    found = [_words_part(extra)] if extra else []
    for low, high, automaton in bounded:
        rest = automaton - words_automaton(missing) if missing else automaton
        if low and not all_lengths(rest):
            rest, low = rest & lengths_between(low, -1), 0
        if not rest.is_empty:
            found.append((_known_edges(rest), low, high))
    return found


@lru_cache(maxsize=1024)
def _known_edges(automaton: Automaton) -> Edges:
    """Return an automaton's edges; known ones again."""
    return automaton_edges(automaton)


def _words_part(words: frozenset[str]) -> Part:
    spelled = sorted(word.encode() for word in words)
    return with_words(spelled, np.zeros(len(spelled), np.int32)), 0, -1


def _part_with_words(automaton: Automaton, extra: frozenset[str], missing: frozenset[str]) -> Part:
    spelled = sorted([*(w.encode() for w in extra), *(w.encode() for w in missing)])
    out = {word.encode() for word in missing}
    labels = np.array([-1 if word in out else 0 for word in spelled], np.int32)
    return with_words(spelled, labels, *ranges_of(automaton)), 0, -1

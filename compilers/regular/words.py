"""The automata of lists of words."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from cdec.compilers.grammars.automata.words import words_automaton as built
from cdec.compilers.regular.automaton import Automaton, nothing


def words_automaton(words: Iterable[str]) -> Automaton:
    """Return the smallest automaton of some words."""
    return _words_automaton(frozenset(words))


@lru_cache(maxsize=256)
def _words_automaton(words: frozenset[str]) -> Automaton:
    if not words:
        return nothing()
    byte_class, delta, accepts = built(sorted(words))
    return Automaton(byte_class, delta, accepts)

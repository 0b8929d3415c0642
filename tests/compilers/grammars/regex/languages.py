"""Follows a regular expression as the compiler reads it, byte by byte, without an artifact."""

from __future__ import annotations

from collections.abc import Callable

from cdec.compilers.grammars.automata.terminal import compile_terminal, packed
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.regex import read_regex


def language_of(pattern: str, limits: GrammarLimits | None = None) -> Callable[[str], bool]:
    """Return whether a text is one of a regular expression."""
    limits = limits or GrammarLimits()
    grammar = read_regex(pattern, limits)
    has_empty = any(rule.rhs == () for rule in grammar.rules)
    automaton = compile_terminal(grammar.terminals[0], prioritised=False, limits=limits)
    delta = packed(automaton)

    def accepts(text: str) -> bool:
        state = 0
        for byte in text.encode():
            state = int(delta[state, byte])
            if state < 0:
                return False
        return bool(automaton.accepting[state]) if text else has_empty

    return accepts

"""Automata of strings as the grammar compiler takes a terminal's."""

from __future__ import annotations

from cdec.compilers.grammars.automata.terminal import PackedDelta
from cdec.compilers.grammars.definition import ByteAutomaton
from cdec.compilers.regular.automaton import Automaton


def byte_automaton(automaton: Automaton) -> ByteAutomaton:
    """Return an automaton as that of a terminal, whose texts it accepts whole."""
    delta = PackedDelta(automaton.byte_class, automaton.rows)
    return ByteAutomaton(delta, automaton.accepts.tolist())

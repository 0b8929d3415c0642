"""What several regular expressions leave of one: texts of some of them, and of none of others."""

from __future__ import annotations

import numpy as np

from cdec.compilers.grammars.automata.terminal import compile_terminal, packed
from cdec.compilers.grammars.definition import ByteAutomaton, GrammarLimits, Terminal
from cdec.compilers.grammars.regex.read import whole_terminal
from cdec.compilers.regular.automaton import Automaton, smallest
from cdec.compilers.regular.terminals import byte_automaton


def compile_conjoined(terminal: Terminal, limits: GrammarLimits) -> ByteAutomaton:
    """Return the automaton of a terminal that other patterns narrow.

    Args:
        terminal: All of a text, with ``conjoined`` and ``denied``.
        limits: max_states, max_nesting and max_repeat hold for every pattern.

    Returns:
        The smallest automaton. Cost: of each pattern's, counted repetitions written out, and of the
        pairs of states that texts can come to.

    Raises:
        CdecError: As ``compile_terminal``.
        LimitError: The patterns together have too many states.
    """
    found = _automaton(terminal.pattern, limits)
    for pattern in terminal.conjoined:
        found &= _automaton(pattern, limits)
    for pattern in terminal.denied:
        found -= _automaton(pattern, limits)
    return byte_automaton(found)


def _automaton(pattern: str, limits: GrammarLimits) -> Automaton:
    automaton = compile_terminal(whole_terminal(pattern), prioritised=False, limits=limits)
    delta = packed(automaton)
    return smallest(delta.byte_class, delta.rows, np.array(automaton.accepting, np.int32))

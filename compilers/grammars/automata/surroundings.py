"""A pattern with look-around -> a plain automaton, and whether that says it all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdec.compilers.grammars.automata.anchors import END_OF_TEXT, START_OF_TEXT
from cdec.compilers.grammars.automata.look_distance import outer_looks
from cdec.compilers.grammars.automata.looking import (
    Looking,
    Threads,
    in_order,
    without_weaker,
)
from cdec.compilers.grammars.automata.naming import place
from cdec.compilers.grammars.automata.refusals import too_many_states
from cdec.compilers.grammars.automata.regex import MATCH, Program, parse_program
from cdec.compilers.grammars.automata.threads import CharacterAutomaton
from cdec.compilers.grammars.automata.utf8 import Atoms, partition
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.core.grammars.errors import RegexUnsupportedError

_LISTED_ALLOWED = 8
"""Threads and transitions of all states for each state that is allowed: a bound on memory."""


def determinise_looking(
    program: Program,
    atoms: Atoms,
    *,
    prioritised: bool,
    terminal: Terminal,
    limits: GrammarLimits,
) -> tuple[CharacterAutomaton, bool]:
    """Return the automaton of a program that looks around, as ``determinise`` does of others.

    Args:
        program, atoms, prioritised, terminal, limits: As there. What stands around a terminal that
            is all of a text is its start and its end, and then nothing is left open.

    Returns:
        The automaton, and whether what stands before or behind the text decides, too. If so, the
        automaton's texts are those that match in some surroundings, or more.

    Raises:
        LimitError: More than max_states states.
    """
    whole = terminal.is_whole
    looking = Looking(program, atoms, blind=not whole)
    real = [
        atom
        for atom in range(atoms.number)
        if not any(low in (END_OF_TEXT, START_OF_TEXT) for low, _, a in atoms.runs if a == atom)
    ]
    is_open = not whole and bool(outer_looks(program))

    def kept(threads: Threads) -> Threads:
        return in_order(threads)[0] if prioritised else tuple(sorted(without_weaker(threads)))

    begun = looking.first if whole else looking.unknown
    first = kept(looking.begin(program.start, begun)), begun
    states, todo = {first: 0}, [first]
    rows: list[list[int]] = []
    accepting, listed = [], 0
    for threads, history in todo:  # grows
        ends = [wants for node, wants in threads if node == MATCH]
        if whole:
            accepting.append(any(looking.may_end(wants, history) for wants in ends))
            # What matched before the text's end is no match of it.
            threads = tuple(thread for thread in threads if thread[0] > MATCH)
        else:
            accepting.append(bool(ends))
            is_open = is_open or any(ends)
        row = [-1] * atoms.number
        for atom in real:
            after = looking.history_after(history, atom)
            moved = kept(tuple(looking.after(threads, atom, after)))
            if moved:
                row[atom] = states.setdefault((moved, after), len(states))
                if row[atom] == len(todo):
                    todo.append((moved, after))
        rows.append(row)
        listed += len(threads) + atoms.number
        if len(states) > limits.max_states or listed > _LISTED_ALLOWED * limits.max_states:
            raise too_many_states(terminal, limits)
    delta = np.array(rows, np.int32).reshape(len(rows), atoms.number)
    return CharacterAutomaton(delta, np.array(accepting, np.bool_)), is_open


class LeftLinear(NamedTuple):
    """A regular language as rules: a state is what was read, and then one character.

    Attributes:
        sets: First and last code points of sets of characters, ascending.
        rules: State, set, state after it; state 0 is the empty text.
        ends: States whose texts are in the language.
    """

    sets: list[tuple[int, ...]]
    rules: list[tuple[int, int, int]]
    ends: list[int]


def left_linear(terminal: Terminal, limits: GrammarLimits) -> LeftLinear:
    """Return rules for all texts that a pattern with look-around matches.

    Raises:
        RegexUnsupportedError: What stands around a text decides whether it matches.
    """
    program = parse_program(terminal, limits)
    atoms = partition(program.charsets)
    automaton, is_open = determinise_looking(
        program, atoms, prioritised=False, terminal=terminal, limits=limits
    )
    if is_open:
        raise open_terminal(terminal)
    spans: list[list[int]] = [[] for _ in range(atoms.number)]
    for low, high, atom in atoms.runs:
        spans[atom] += (low, high)
    rules = np.argwhere(automaton.delta >= 0).tolist()
    return LeftLinear(
        [tuple(span) for span in spans],
        [(state, atom, int(automaton.delta[state, atom])) for state, atom in rules],
        np.flatnonzero(automaton.accepting).tolist(),
    )


def open_terminal(terminal: Terminal) -> RegexUnsupportedError:
    """Return the error of a terminal that its surroundings decide, where that is not followed."""
    line = f"line {terminal.line}: " if terminal.line else ""
    return RegexUnsupportedError(
        f"{line}terminal {terminal.name} looks at what stands before or behind it, which `lexer` "
        "dynamic does not follow",
        hint="leave that to the rules: what may follow a terminal is what they name next; `lexer` "
        "contextual and basic follow look-around where the grammar is LALR(1)",
        feature="look-around",
        **place(terminal),
    )

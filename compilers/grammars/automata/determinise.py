"""Subset constructions: programs of ordered threads as automata over classes of characters.

A state is the list of threads in the order in which Python's matcher would try them, everything
behind the first match cut off: that match would be taken first. So the last accepting state on a
path is where the matcher ends. Without priorities the list is a sorted set. Patterns that look
around have plain automata as well, and whether these say it all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.characters import Atoms, partition
from cdec.compilers.grammars.automata.looking import (
    Looking,
    Threads,
    in_order,
    outer_looks,
    without_weaker,
)
from cdec.compilers.grammars.automata.pattern_checks import place, too_many_states
from cdec.compilers.grammars.automata.program import (
    END_OF_TEXT,
    ENTER,
    LEAVE,
    MATCH,
    START_OF_TEXT,
    Program,
    parse_program,
)
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.compilers.grammars.states import (
    Construction,
    CounterStates,
    Numbering,
    allowed,
    constructed,
    copies_of_rows,
)
from cdec.core.grammars.errors import RegexUnsupportedError
from cdec.core.native import library

_FOLLOW_LIMIT = 4
"""Entries of all lists of followers for each state that is allowed."""
_LISTED_ALLOWED = 8
"""Threads and transitions of all states for each state that is allowed: a bound on memory."""


class CharacterAutomaton(NamedTuple):
    """Deterministic, over atoms (classes of characters); state 0 is the start.

    delta: int32[n, A], -1 dead. accepting: bool[n]. copies: Of counted repetitions, if any.
    """

    delta: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    copies: CounterStates | None = None


class Followers(NamedTuple):
    """The threads that go on behind each node that reads.

    list_of: int32[nodes], number of the list, -1 where nothing is read. offsets: int64[lists + 1].
    nodes: int32, the lists one behind the other; the first is that of the start.
    """

    list_of: NDArray[np.int32]
    offsets: NDArray[np.int64]
    nodes: NDArray[np.int32]

    @property
    def first(self) -> NDArray[np.int32]:
        """Threads of the start."""
        return self.nodes[: self.offsets[1]]


def determinise(
    program: Program,
    atoms: Atoms,
    *,
    prioritised: bool,
    terminal: Terminal,
    limits: GrammarLimits,
    counts: CounterStates | None = None,
) -> CharacterAutomaton:
    """Return the automaton of ``program``; cost: threads of all states x atoms they read.

    Args:
        atoms: Of the program's charsets.
        prioritised: Keep the order of threads and cut behind the first match.
        terminal, limits: For the error.
        counts: Of the program's nodes.

    Raises:
        UncountableError: Copies that were left out cannot be put in afterwards.
        LimitError: More than max_states states.
    """
    followers = _followers(program, terminal, limits)
    first = _state_row(followers.first, prioritised)
    found = subsets(program, atoms, followers, first, limits, prioritised=prioritised)
    if found is None:
        raise too_many_states(terminal, limits)
    copies = None
    if counts is not None:
        copies = copies_of_rows(found, counts, flagged=False, ordered=prioritised)
    return CharacterAutomaton(found.delta, found.holding(MATCH), copies)


def subsets(
    program: Program,
    atoms: Atoms,
    followers: Followers,
    first: NDArray[np.int32],
    limits: GrammarLimits,
    *,
    prioritised: bool,
) -> Construction | None:
    """Do the subset construction: every list of threads that characters lead to.

    Args:
        atoms: Of the program's charsets.
        first: int32 threads of the start.
        limits: max_states holds.
        prioritised: Keep the order of threads and cut behind the first match.

    Returns:
        The lists, one a state, and the state after each by atom; None: more than max_states.
    """
    reads = np.array(program.reads, np.int32)
    threads = (reads, *followers, atoms.offsets, atoms.members, atoms.number, int(prioritised))
    return constructed(library.determinise_threads(threads, first), allowed(limits.max_states))


def _state_row(nodes: NDArray[np.int32], prioritised: bool) -> NDArray[np.int32]:
    if not prioritised:
        return np.sort(nodes)
    match = np.flatnonzero(nodes == MATCH)
    return nodes[: match[0] + 1] if len(match) else nodes


def _followers(program: Program, terminal: Terminal, limits: GrammarLimits) -> Followers:
    number_of: dict[int, int] = {program.start: 0}
    for reads, goes in zip(program.reads, program.goes, strict=True):
        if reads >= 0 and goes[0] not in number_of:
            number_of[goes[0]] = len(number_of)
    offsets = np.zeros(len(number_of) + 1, np.int64)
    nodes: list[int] = []
    for target, number in number_of.items():
        nodes.extend(_closure(program, target))
        offsets[number + 1] = len(nodes)
        if len(nodes) > _FOLLOW_LIMIT * limits.max_states:
            raise too_many_states(terminal, limits)
    list_of = np.array(
        [
            number_of[goes[0]] if reads >= 0 else -1
            for reads, goes in zip(program.reads, program.goes, strict=True)
        ],
        np.int32,
    )
    return Followers(list_of, offsets, np.array(nodes, np.int32))


def _closure(program: Program, start: int) -> list[int]:
    """Return the nodes that read, and MATCH, in the order a backtracking matcher comes to them.

    subtle: where a path stands is a node and how many of the guarded iterations around it were
    entered since the last character; those are the innermost ones, for they were entered last.
    """
    reads, goes, guard = program.reads, program.goes, program.guard
    if reads[start] >= 0 or start == MATCH:
        return [start]
    found: dict[int, None] = {}
    seen: set[tuple[int, int]] = set()
    todo = [(start, 0)]
    while todo:
        node, entered = todo.pop()
        if reads[node] >= 0 or node == MATCH:
            found[node] = None
            continue
        if (node, entered) in seen:
            continue
        seen.add((node, entered))
        if guard[node] == ENTER:
            todo.append((goes[node][0], entered + 1))
        elif guard[node] == LEAVE:
            empty, otherwise = goes[node]
            todo.append((empty, entered - 1) if entered else (otherwise, 0))
        else:
            todo.extend((target, entered) for target in reversed(goes[node]))
    return list(found)


def determinise_looking(
    program: Program,
    atoms: Atoms,
    limits: GrammarLimits,
    *,
    whole: bool,
    prioritised: bool = False,
    most: int | None = None,
) -> tuple[CharacterAutomaton, bool] | None:
    """Return the automaton of a program that looks around, as ``determinise`` does of others.

    Args:
        program, atoms, prioritised, limits: As there.
        whole: What stands around is the start and the end of the text: nothing is left open.
        most: Threads and transitions of all states; None: as many as states are allowed, and more.

    Returns:
        The automaton, and whether what stands before or behind the text decides, too. If so, the
        automaton's texts are those that match in some surroundings, or more. None: more than
        max_states states.
    """
    most = _LISTED_ALLOWED * limits.max_states if most is None else most
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
    states = Numbering([first])
    rows: list[list[int]] = []
    accepting, listed = [], 0
    for threads, history in states.keys:  # grows
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
                row[atom] = states((moved, after))
        rows.append(row)
        listed += len(threads) + atoms.number
        if len(states.keys) > limits.max_states or listed > most:
            return None
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
        LimitError: More than max_states states.
    """
    program = parse_program(terminal, limits)
    atoms = partition(program.charsets)
    found = determinise_looking(program, atoms, limits, whole=terminal.is_whole)
    if found is None:
        raise too_many_states(terminal, limits)
    automaton, is_open = found
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

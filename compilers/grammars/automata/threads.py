"""Programs of ordered threads -> deterministic automata over classes of characters.

A state is the list of threads in the order in which Python's matcher would try them, everything
behind the first match cut off: that match would be taken first. So the last accepting state on a
path is where the matcher ends. Without priorities the list is a sorted set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.refusals import too_many_states
from cdec.compilers.grammars.automata.regex import ENTER, LEAVE, MATCH, Program
from cdec.compilers.grammars.automata.utf8 import Atoms
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.compilers.grammars.states.construction import Construction, allowed, constructed
from cdec.compilers.grammars.states.copies import Copies, copies_of_rows
from cdec.core.native import library

_FOLLOW_LIMIT = 4
"""Entries of all lists of followers for each state that is allowed."""


class CharacterAutomaton(NamedTuple):
    """Deterministic, over atoms (classes of characters); state 0 is the start.

    delta: int32[n, A], -1 dead. accepting: bool[n]. copies: Of counted repetitions, if any.
    """

    delta: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    copies: Copies | None = None


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
    counts: Copies | None = None,
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
    found = subsets(
        program, atoms, followers, first, prioritised=prioritised, terminal=terminal, limits=limits
    )
    copies = None
    if counts is not None:
        copies = copies_of_rows(found, counts, flagged=False, ordered=prioritised)
    return CharacterAutomaton(found.delta, found.holding(MATCH), copies)


def subsets(
    program: Program,
    atoms: Atoms,
    followers: Followers,
    first: NDArray[np.int32],
    *,
    prioritised: bool,
    terminal: Terminal,
    limits: GrammarLimits,
) -> Construction:
    """Do the subset construction: every list of threads that characters lead to.

    Args:
        atoms: Of the program's charsets.
        first: int32 threads of the start.
        prioritised: Keep the order of threads and cut behind the first match.
        terminal, limits: For the error.

    Returns:
        The lists, one a state, and the state after each by atom.

    Raises:
        LimitError: More than max_states states.
    """
    reads = np.array(program.reads, np.int32)
    threads = (reads, *followers, atoms.offsets, atoms.members, atoms.number, int(prioritised))
    begun = library.determinise_threads(threads, first)
    found = constructed(begun, allowed(limits.max_states))
    if found is None:
        raise too_many_states(terminal, limits)
    return found


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

"""Scanner states where terminals look around: what competes, and what the text is still to bring.

Between two terminals stands a *boundary*: what the text around it says, besides the parser's stack.
A *row* lists the competing terminals in lark's order: those that do not look around as states of
their automata, the others as threads (``automata.looking``). Which terminal lark's lexer takes, and
how far, depends on the text behind it where a look-ahead is open; so each end of a terminal goes
with exactly what that text must be, and of all readings that are followed at most one comes true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cdec.compilers.grammars.automata.characters import EVERYTHING, byte_tree, partition
from cdec.compilers.grammars.automata.looking import (
    CERTAIN,
    NEVER,
    Looking,
    Threads,
    in_order,
    looks_ahead,
    outer_looks,
)
from cdec.compilers.grammars.automata.program import MATCH, Program, parse_program
from cdec.compilers.grammars.automata.terminal import packed
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits
from cdec.compilers.grammars.scanner.competition import Keywords, read_copies
from cdec.compilers.grammars.states import Numbering

COMPETES, FOLLOWED, LOOKS = 0, 1, 2
"""Kinds of entries: a terminal; one that is only followed as a keyword; one that looks around."""
_NONE = -1
Entry = tuple[int, int, int]
"""Terminal, kind, and its state or the number of its threads."""


class Boundary(NamedTuple):
    """Between two terminals.

    Attributes:
        history: Of ``automata.looking``: what look-behind will ask of the text before.
        wants: What look-ahead still wants of the text behind.
        rivals: States of terminals that were under way when this reading began another; if one
            completes, the reading is void. Ascending.
    """

    history: int
    wants: tuple[int, ...]
    rivals: tuple[int, ...]

    @property
    def is_settled(self) -> bool:
        """True where no text that follows can make the reading void."""
        return not self.wants and not self.rivals


class Programs(NamedTuple):
    """The patterns of several terminals as one program.

    Attributes:
        program: All nodes.
        starts: First node of each terminal.
        far: Patterns of the look-behind that may see what stands before its terminal.
    """

    program: Program
    starts: Mapping[int, int]
    far: frozenset[int]


def join_programs(grammar: Grammar, numbers: list[int], limits: GrammarLimits) -> Programs:
    """Join the programs of some terminals; sets of characters that are equal are one."""
    joined = Program()
    starts: dict[int, int] = {}
    far: set[int] = set()
    charsets: dict[object, int] = {}
    for number in numbers:
        own = parse_program(grammar.terminals[number], limits)
        shift = len(joined.reads) - 1

        def moved(node: int, shift: int = shift) -> int:
            return MATCH if node == MATCH else node + shift

        for ranges in own.charsets:
            if charsets.setdefault(ranges, len(charsets)) == len(joined.charsets):
                joined.charsets.append(ranges)
        for node in range(1, len(own.reads)):
            reads = own.reads[node]
            joined.reads.append(reads if reads < 0 else charsets[own.charsets[reads]])
            joined.goes.append(tuple(map(moved, own.goes[node])))
            joined.guard.append(own.guard[node])
        for node, look in own.looks.items():
            joined.looks[moved(node)] = look._replace(body=moved(look.body))
        far.update(moved(own.looks[node].body) for node in outer_looks(own))
        starts[number] = moved(own.start)
    return Programs(joined, starts, frozenset(far))


class Row(NamedTuple):
    """A scanner state.

    Attributes:
        entries: What competes, in lark's order.
        node: Of the tree of bytes: 0 between characters.
        around: History, wants and rivals here.
        origin: Boundary that the row began at, while an ignored terminal is under way; else -1.
    """

    entries: tuple[Entry, ...]
    node: int
    around: Boundary
    origin: int


class End(NamedTuple):
    """A terminal that may have ended, the boundary behind it, and where an ignored one began."""

    terminal: int
    after: Boundary
    origin: int = -1


class Ahead(NamedTuple):
    """Rivals that come before an end in lark's order, and would win.

    Attributes:
        wants: Of look-ahead; among them that what may yet match does not.
        quiet: Wants of the same kind that no look-ahead decides.
        rivals: States of terminals under way that do not look around.
    """

    wants: tuple[int, ...]
    quiet: tuple[int, ...]
    rivals: tuple[int, ...]

    def wanting(self, wants: tuple[int, ...]) -> Ahead:
        """Return this with more wants."""
        return self._replace(wants=(*self.wants, *wants))


class Rows:
    """Moves rows byte by byte.

    Args:
        grammar: Terminals in the order in which they compete.
        automata: One a terminal; those of terminals that look around are not used.
        keywords: Among them.

    Attributes:
        byte_class: int32[256].
        first: Boundary at the start of a text.
        plain: Boundary that says nothing.
    """

    def __init__(
        self,
        grammar: Grammar,
        automata: Sequence[ByteAutomaton],
        keywords: Keywords,
        limits: GrammarLimits,
    ) -> None:
        self._ignored = grammar.ignored
        self._retyped = {
            keyword: frozenset(numbers) - grammar.ignored
            for keyword, numbers in keywords.retyped.items()
        }
        self._embedding = keywords.embedding
        self._copies = read_copies(grammar)
        looking = [number for number, automaton in enumerate(automata) if automaton.is_open]
        self._programs = join_programs(grammar, looking, limits)
        atoms = partition([*self._programs.program.charsets, EVERYTHING])
        self.looking = Looking(self._programs.program, atoms)
        tree = byte_tree(atoms.runs).children
        deltas = [packed(automaton) for automaton in automata]
        signature = np.concatenate([tree, *(delta.byte_class[None] for delta in deltas)])
        _, firsts, classes = np.unique(signature, axis=1, return_index=True, return_inverse=True)
        self.byte_class = classes.reshape(-1).astype(np.int32)
        self._children = np.ascontiguousarray(tree[:, firsts])
        self._bases = np.cumsum([0, *map(len, deltas)])
        self._delta = np.concatenate(
            [
                np.where((own := d.rows[:, d.byte_class[firsts]]) >= 0, own + base, -1)
                for d, base in zip(deltas, self._bases.tolist(), strict=False)
            ]
        ).astype(np.int32)
        self._accepts = [end for automaton in automata for end in automaton.accepting]
        self._goes_on = (self._delta >= 0).any(axis=1).tolist()
        self._undecided = looks_ahead(self._programs.program)
        self._number = Numbering[Threads]()
        self._threads = self._number.keys
        self._moves: dict[tuple[int, int, int], tuple[int, bool]] = {}
        self.first = self._boundary(self.looking.first, (), ())
        self.plain = self._boundary(self.looking.unknown, (), ())

    def begin(self, context: frozenset[int], boundary: Boundary, origin: int) -> Row:
        """Return the row in which a context's terminals begin, after a boundary."""
        entries: list[Entry] = []
        for number in sorted(context):
            if number in self._programs.starts:
                threads = self.looking.begin(self._programs.starts[number], boundary.history)
                kept = tuple(t for t in in_order(threads)[0] if t[0] != MATCH)
                if kept:
                    entries.append((number, LOOKS, self._number(kept)))
                continue
            is_keyword = not context.isdisjoint(self._embedding.get(number, ()))
            entries.append((number, is_keyword * FOLLOWED, int(self._bases[number])))
        return Row(self._kept(entries), 0, boundary, self._origin(entries, origin))

    def after(self, row: Row) -> Iterator[tuple[list[int], Row, list[End]]]:
        """Yield where bytes lead: byte classes, the row after them, and what ends there."""
        states = [value for _, kind, value in row.entries if kind != LOOKS]
        moved = self._delta[[*states, *row.around.rivals]]
        columns = np.concatenate([self._children[row.node][None], moved])
        table = np.ascontiguousarray(columns.T)
        groups: dict[bytes, list[int]] = {}
        for kind, column in enumerate(table):
            groups.setdefault(column.tobytes(), []).append(kind)
        for kinds in groups.values():
            child, *values = table[kinds[0]].tolist()
            if child == _NONE:
                continue
            found = self._step(row, child, values[: len(states)], values[len(states) :])
            if found is not None and (found[0].entries or found[1]):
                yield kinds, *found

    def _step(
        self, row: Row, child: int, states: list[int], rivals: list[int]
    ) -> tuple[Row, list[End]] | None:
        following = iter(states)
        entries = [
            (number, kind, value if kind == LOOKS else next(following))
            for number, kind, value in row.entries
        ]
        alive = tuple(sorted({rival for rival in rivals if rival >= 0}))
        around = row.around
        if child >= 0:
            left = tuple(entry for entry in entries if entry[2] >= 0)
            moved = around._replace(rivals=alive)
            return Row(left, child, moved, self._origin(left, row.origin)), []
        if any(self._accepts[rival] for rival in alive):
            return None
        atom = -2 - child
        history = self.looking.history_after(around.history, atom)
        wants = self.looking.wants_after(around.wants, atom, history)
        if wants is None:
            return None
        alive = tuple(rival for rival in alive if self._goes_on[rival])
        here = Boundary(history, wants, alive)
        left, ends = self._compete([e for e in entries if e[2] >= 0], atom, here)
        return Row(left, 0, here, self._origin(left, row.origin)), ends

    def _compete(
        self, entries: list[Entry], atom: int, here: Boundary
    ) -> tuple[tuple[Entry, ...], list[End]]:
        """Move what looks around, find the ends, and drop what a certain end beats."""
        kept: list[Entry] = []
        found: list[tuple[int, Ahead]] = []
        ahead = Ahead((), (), ())
        is_over = False
        for number, kind, value in entries:
            if kind == LOOKS:
                if is_over:
                    continue
                value, is_over = self._moved(value, atom, here.history)
                threads = self._threads[value]
                for place, (node, own) in enumerate(threads):
                    if node == MATCH:
                        found.append((number, self._beside(ahead, threads[:place]).wanting(own)))
                if threads:
                    kept.append((number, LOOKS, value))
                    ahead = self._beside(ahead, threads)
                continue
            if kind == COMPETES and not is_over:
                if self._goes_on[value]:
                    ahead = ahead._replace(rivals=(*ahead.rivals, value))
                if self._accepts[value]:
                    is_over = True
                    found.append((number, ahead))
                kept.append((number, kind, value))
            else:
                kept.append((number, FOLLOWED, value))
        ends = []
        for number, ahead in found:
            after = self._settled(here, ahead)
            if after is not None:
                ends.append(End(self._retype(number, kept), after))
        return self._kept(kept), ends

    def _beside(self, ahead: Ahead, threads: Threads) -> Ahead:
        """Add threads that come before an end, and must not match after all."""
        if not threads:
            return ahead
        want = ~self.looking.run_of(threads)
        if any(wants or node in self._undecided for node, wants in threads):
            return ahead.wanting((want,))
        return ahead._replace(quiet=(*ahead.quiet, want))

    def _settled(self, here: Boundary, ahead: Ahead) -> Boundary | None:
        """Return the boundary behind an end; None where it asks for what cannot be.

        subtle: where nothing is open, that a terminal under way completes later needs no watching:
        such an end makes this one void, as everywhere else.
        """
        asked = self._asked({*here.wants}, ahead.wants)
        if asked is None:
            return None
        if not asked and not here.rivals:
            return self._boundary(here.history, (), ())
        asked = self._asked(asked, ahead.quiet)
        if asked is None:
            return None
        return self._boundary(here.history, tuple(sorted(asked)), (*here.rivals, *ahead.rivals))

    @staticmethod
    def _asked(asked: set[int], more: tuple[int, ...]) -> set[int] | None:
        for want in more:
            run = max(want, ~want)
            if run not in (NEVER, CERTAIN):
                asked.add(want)
            elif (run == CERTAIN) != (want >= 0):
                return None
        return None if any(~want in asked for want in asked) else asked

    def _boundary(self, history: int, wants: tuple[int, ...], rivals: tuple[int, ...]) -> Boundary:
        """Return a boundary that remembers no more than is asked for."""
        if not wants:
            history = self.looking.forget(history, self._programs.far)
        return Boundary(history, wants, tuple(sorted(set(rivals))))

    def _moved(self, number: int, atom: int, history: int) -> tuple[int, bool]:
        key = (number, atom, history)
        if key not in self._moves:
            moved = self.looking.after(self._threads[number], atom, history)
            threads, is_certain = in_order(moved)
            self._moves[key] = self._number(threads), is_certain
        return self._moves[key]

    def _kept(self, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Leave out keywords that no expression becomes any more."""
        present = {number for number, kind, _ in entries if kind != FOLLOWED}
        return tuple(
            entry
            for entry in entries
            if entry[1] != FOLLOWED or not present.isdisjoint(self._retyped.get(entry[0], ()))
        )

    def _retype(self, number: int, entries: Sequence[Entry]) -> int:
        """Return the first keyword that an expression's text is, or the expression."""
        for keyword, kind, value in entries:
            is_whole = kind != LOOKS and self._accepts[value]
            if is_whole and number in self._retyped.get(keyword, ()):
                return self._copies.get(keyword, keyword)
        return number

    def _origin(self, entries: Sequence[Entry], origin: int) -> int:
        return origin if any(e[0] in self._ignored and e[1] != FOLLOWED for e in entries) else -1

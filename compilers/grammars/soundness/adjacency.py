"""Which terminals a deterministic lexer can read next, given the longer matches still pending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.lalr import digraph
from cdec.compilers.grammars.soundness.pending import NOTHING_PENDING, TAKEN, PendingMatches
from cdec.core.errors import LimitError
from cdec.core.native import library

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner

MAX_NODES = 200_000
"""Nodes (scanner state, set of pending matches) before the question is left open."""

Node = tuple[int, int]


class Letter(NamedTuple):
    """A terminal that ends, and the set of matches that are pending when it does (``pending``)."""

    terminal: int
    pending: int


class Adjacency:
    """From (context, pending matches) at the end of a terminal: the letters that can follow.

    Attributes:
        letters: All letters met; sets of letters are bits over their numbers.
        matches: The pending matches.
        ignored: Ignored terminals.
    """

    def __init__(self, scanner: Scanner, ignored: frozenset[int], shiftable: Sequence[int]) -> None:
        """Prepare; ``ignored`` and ``shiftable`` as for ``PendingMatches``."""
        self.matches = PendingMatches(scanner, ignored, shiftable)
        self.letters: list[Letter] = []
        self._numbers: dict[Letter, int] = {}
        self._scanner = scanner
        self.ignored = ignored
        self._delta = np.ascontiguousarray(scanner.delta, dtype=np.int32)
        self._match = np.full(len(self._delta), -1, dtype=np.int32)
        completes = np.flatnonzero(np.diff(scanner.match_offsets))
        self._match[completes] = scanner.match_terminals[scanner.match_offsets[completes]]
        # The letter of every scanner state that completes a terminal, nothing pending before.
        self._letter = np.full(len(self._delta), -1, dtype=np.int32)
        kinds = np.stack([self._match[completes], self.matches.left_by()[completes]])
        _, first, which = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
        numbers = np.empty(len(first), np.int32)
        for kind in np.argsort(first).tolist():
            state = int(completes[first[kind]])
            letter = Letter(int(self._match[state]), self.matches.after(NOTHING_PENDING, state))
            numbers[kind] = self._letter_number(letter)
        self._letter[completes] = numbers[which.ravel()]
        self._stamps = np.zeros(len(self._delta), dtype=np.int32)
        self._stamp = 0
        self._plain: dict[tuple[int, ...], int] = {}
        self._successors: dict[Node, list[Node]] = {}
        self._known_ahead: dict[Node, tuple[int, list[Node]]] = {}
        self._completes: dict[Node, int] = {}
        self._direct: dict[tuple[int, int], int] = {}
        self._left: dict[tuple[int, int], list[int]] = {}
        self._skipped = 0
        self._looked_at = 0

    def _letter_number(self, letter: Letter) -> int:
        number = self._numbers.setdefault(letter, len(self.letters))
        if number == len(self.letters):
            self.letters.append(letter)
        return number

    def direct(self, context: int, pending: int) -> int:
        """Return the letters that one terminal, begun in ``context`` with ``pending``, can be.

        Args:
            context: Context number.
            pending: Set of pending matches when it begins.

        Returns:
            Bits over ``letters``.

        Raises:
            LimitError: More than ``MAX_NODES`` nodes; the caller leaves the question open.
        """
        key = (context, pending)
        if key not in self._direct:
            start = int(self._scanner.context_start[context])
            if pending == NOTHING_PENDING:
                self._direct[key] = self._with_nothing_pending((start,), begun=False)
            else:
                self._direct[key] = self._with_pending((start, pending))
        return self._direct[key]

    def _with_nothing_pending(self, sources: tuple[int, ...], *, begun: bool) -> int:
        """Return the letters ahead of scanner states; of those themselves too if ``begun``."""
        if sources not in self._plain:
            self._stamp += 1
            found = np.zeros(len(self.letters), dtype=np.bool_)
            states = np.array(sources, dtype=np.int32)
            library.mark_ahead(self._delta, self._letter, states, self._stamps, self._stamp, found)
            self._plain[sources] = sum(1 << int(number) for number in np.flatnonzero(found))
        letters = self._plain[sources]
        if begun:
            for state in sources:
                if self._letter[state] >= 0:
                    letters |= 1 << int(self._letter[state])
        return letters

    def _with_pending(self, start: Node) -> int:
        """Return the letters ahead of a node, pending matches considered until they are over."""
        letters = 0
        exits = set()
        reached: set[Node] = set()
        ready = [start]
        while ready:
            for node in self.successors(ready.pop()):
                state, pending = node
                if pending == NOTHING_PENDING:
                    exits.add(state)
                    continue
                if node not in reached:
                    reached.add(node)
                    ready.append(node)
                    letters |= self._completed(node)
        return letters | self._with_nothing_pending(tuple(sorted(exits)), begun=True)

    def _completed(self, node: Node) -> int:
        """Return the letter that ends at a node, as a bit."""
        if node not in self._completes:
            state, pending = node
            terminal, bit = int(self._match[state]), 0
            if terminal >= 0:
                letter = Letter(terminal, self.matches.after(pending, state))
                bit = 1 << self._letter_number(letter)
            self._completes[node] = bit
        return self._completes[node]

    def successors(self, node: Node) -> list[Node]:
        """Return where one more byte leads, unless it completes a pending match."""
        known = self._successors.get(node)
        if known is not None:
            return known
        if len(self._successors) >= MAX_NODES:
            raise LimitError(f"more than {MAX_NODES} pairs of readings", limit="max_states")
        row, after = self.step(node)
        possible = row >= 0
        pairs = set(zip(row[possible].tolist(), after[possible].tolist(), strict=True))
        found = sorted(pairs)
        self._successors[node] = found
        return found

    def step(self, node: Node) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the scanner state (-1: none) and the set of matches after each byte class.

        int32[K] and int64[K]; what completes a pending match leads nowhere.
        """
        state, pending = node
        after = self.matches.step(pending)
        return np.where(after != TAKEN, self._delta[state], np.int32(-1)), after

    def completed(self, node: Node) -> int:
        """Return the number of the letter that ends at a node, -1 for none."""
        return self._completed(node).bit_length() - 1

    def left_by_ignored(self, context: int, pending: int) -> list[int]:
        """Return the sets of matches that can be pending after one ignored terminal."""
        key = (context, pending)
        if key not in self._left:
            letters = self.direct(context, pending) & self._ignored_letters()
            self._left[key] = sorted({self.letters[number].pending for number in bits(letters)})
        return self._left[key]

    def _ignored_letters(self) -> int:
        """Return the letters of ignored terminals, those met so far."""
        for number in range(self._looked_at, len(self.letters)):
            if self.letters[number].terminal in self.ignored:
                self._skipped |= 1 << number
        self._looked_at = len(self.letters)
        return self._skipped

    def closure(
        self, context: int, pending: int, known: Mapping[tuple[int, int], int]
    ) -> dict[tuple[int, int], int]:
        """Return the letters that can follow, ignored terminals between.

        Args:
            context: Context number.
            pending: Set of pending matches to begin with.
            known: Results for (context, pending) of earlier calls.

        Returns:
            Bits over ``letters`` for (context, pending), and for every set of pending matches that
            ignored terminals lead to from there and that is not in ``known``.
        """
        order: dict[int, int] = {}
        own: list[int] = []
        edges: list[list[int]] = []
        ready = [pending]
        while ready:
            current = ready.pop()
            if current in order:
                continue
            order[current] = len(own)
            own.append(self.direct(context, current))
            edges.append([])
            for left in self.left_by_ignored(context, current):
                if (context, left) in known:
                    own[-1] |= known[context, left]
                else:
                    edges[-1].append(left)
                    ready.append(left)
        places = [[order[left] for left in following] for following in edges]
        every = digraph(places, own)
        return {(context, current): every[place] for current, place in order.items()}

    def blocked(self, context: int, pending: int) -> dict[Node, tuple[int, int]]:
        """Return the nodes inside a terminal from which pending matches bar a terminal's every end.

        Args:
            context, pending: Where the terminal began.

        Returns:
            Node -> (terminals that the scanner could complete and pending matches forbid, terminals
            that remain), as bits. Nodes whose pending matches can all still end as terminals are
            left out: there the text can go on as the longer match.
        """
        start = (int(self._scanner.context_start[context]), pending)
        nodes = {start: 0}
        is_inside = False  # the start itself
        ready = [start]
        while ready:
            for node in self._ahead(ready.pop())[1]:
                is_inside |= node == start
                if node not in nodes:
                    nodes[node] = len(nodes)
                    ready.append(node)
        values = [self._ahead(node)[0] for node in nodes]
        edges = [[nodes[after] for after in self._ahead(node)[1]] for node in nodes]
        found = {}
        for node, possible in zip(nodes, digraph(edges, values), strict=True):
            barred = self.matches.live(node[0]) & ~possible
            if barred and not self.matches.viable[node[1]] and (is_inside or node != start):
                found[node] = (barred, possible)
        return found

    def _ahead(self, node: Node) -> tuple[int, list[Node]]:
        """Return the terminals that can end ahead, and the nodes where matches are pending still.

        What is ahead of those nodes is left out.
        """
        if node not in self._known_ahead:
            ahead = 0
            for state, left in self.successors(node):
                if self._match[state] >= 0:
                    ahead |= 1 << int(self._match[state])
                if left == NOTHING_PENDING:
                    ahead |= self.matches.live(state)
            pending = [after for after in self.successors(node) if after[1] != NOTHING_PENDING]
            self._known_ahead[node] = ahead, pending
        return self._known_ahead[node]

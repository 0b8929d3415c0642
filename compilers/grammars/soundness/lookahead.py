"""Longest-match lookahead of a deterministic lexer, and the terminals that can follow one another.

After ``1`` in ``1..2`` the lexer waits: ``.5`` would make the number longer. The reading in which
NUMBER has ended holds only if the longer match fails. Seen from the terminals that follow, that
longer match is *pending*: a scanner state that moves along with them. If it completes a terminal,
their reading of the text is void; it is over when the scanner has no next state, or the text ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.analysis import union_reached
from cdec.compilers.grammars.parser.tables import bits
from cdec.compilers.grammars.states import Construction, Most, Numbering, constructed
from cdec.core.errors import LimitError
from cdec.core.native import library

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner

NOTHING_PENDING = 0
"""The empty set of pending matches; also the class of those that can never complete anything."""
TAKEN = 1
"""A pending match completes: the reading that it moves along with is void."""
_STOPS, _PLAIN, _COMPLETES = 0, 1, 2
"""Meanings of entering a scanner state: nothing more can complete; later only; a terminal ends."""
_MAX_STEPS = 50_000_000
"""Pending matches times byte classes before the question is left open."""
_MAX_WORK = 500_000_000
"""Scanner transitions to follow in order to know which contexts lead where."""
MAX_NODES = 200_000
"""Nodes (scanner state, set of pending matches) before the question is left open."""
Node = tuple[int, int]


class LongestMatchLookahead:
    """Classes of pending matches that behave alike, and numbered sets of these classes.

    A pending match is a scanner state in which more terminals can end, together with those of them
    that the parser would certainly take. Two are alike if the same bytes make them complete
    something, whatever that is.

    Attributes:
        viable: Per set: every match in it can still end as a terminal that the parser would
            certainly take there, so the text can go on with it.
    """

    def __init__(self, scanner: Scanner, ignored: frozenset[int], shiftable: Sequence[int]) -> None:
        """Find the pending matches of a scanner. Cost: as ``refine`` on matches x classes.

        Args:
            scanner: Of a deterministic lexer.
            ignored: Ignored terminals, which are taken everywhere.
            shiftable: Per context: terminals that are shifted at once in every LR state with
                that context, as bits.

        Raises:
            LimitError: Too many pending matches to compare.
        """
        self._ignored = sum(1 << terminal for terminal in ignored)
        self._delta = np.ascontiguousarray(scanner.delta, dtype=np.int32)
        self._live_row = scanner.live_row
        self._live_rows: list[int] = [
            sum(1 << terminal for terminal in scanner.live_terminals[begin:stop].tolist())
            for begin, stop in zip(
                scanner.live_offsets[:-1].tolist(), scanner.live_offsets[1:].tolist(), strict=True
            )
        ]
        completes = np.diff(scanner.match_offsets) > 0
        lives = np.array([bool(row) for row in self._live_rows])[scanner.live_row]
        self._meaning = np.where(completes, _COMPLETES, np.where(lives, _PLAIN, _STOPS)).astype(
            np.uint8
        )
        self._ends: dict[int, int] = {0: 0}
        origins = np.flatnonzero(completes & lives).astype(np.int32)
        found = self._follow(origins, self._origin_ends(scanner, shiftable, origins))
        classes, self._class_steps, self._class_viable = self._classes(found)
        self._class_at = np.zeros(len(self._delta), np.int64)
        self._class_at[origins] = classes[: len(origins)]
        self._sets: dict[frozenset[int], int] = {
            frozenset(): NOTHING_PENDING,
            frozenset({TAKEN}): TAKEN,
        }
        self._members: list[frozenset[int]] = list(self._sets)
        self._steps: dict[int, NDArray[np.int64]] = {}
        self.viable: list[bool] = [True, False]

    def step(self, pending: int) -> NDArray[np.int64]:
        """Return the set after each byte class: int64[K], ``TAKEN`` where a match completes.

        Rows are made when they are asked for: most are never needed.
        """
        if pending not in self._steps:
            rows = [self._class_steps[member] for member in self._members[pending]]
            if not rows:
                return self._class_steps[NOTHING_PENDING]
            row = np.empty(rows[0].size, dtype=np.int64)
            known: dict[tuple[int, ...], int] = {}
            for place, targets in enumerate(zip(*(row.tolist() for row in rows), strict=True)):
                if targets not in known:
                    alive = frozenset(target for target in targets if target != NOTHING_PENDING)
                    known[targets] = TAKEN if TAKEN in alive else self._intern(alive)
                row[place] = known[targets]
            self._steps[pending] = row
        return self._steps[pending]

    def live(self, state: int) -> int:
        """Return the terminals that can complete after more bytes, as bits."""
        return self._live_rows[int(self._live_row[state])]

    def left_by(self) -> NDArray[np.int64]:
        """Return which match a terminal that ends in each state leaves, int64[C]; 0: none.

        States of equal numbers leave the same.
        """
        return self._class_at

    def after(self, pending: int, state: int) -> int:
        """Return ``pending`` and the match that the terminal ending in a scanner state leaves."""
        left = int(self._class_at[state])
        return pending if left == NOTHING_PENDING else self._intern(self._members[pending] | {left})

    def _origin_ends(
        self, scanner: Scanner, shiftable: Sequence[int], origins: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Return as what the terminals that end in ``origins`` may end again, as numbered sets.

        As itself, as what is ignored, as what is shifted at once wherever it may have begun.
        """
        taken, sets = self._taken_everywhere(scanner, shiftable, origins)
        terminals = scanner.match_terminals[scanner.match_offsets[origins]]
        kinds = np.stack([self._live_row[origins], terminals, taken])
        distinct, which = np.unique(kinds, axis=1, return_inverse=True)
        numbers = [
            self._ends_number(self._live_rows[row] & (sets[set_] | self._ignored | 1 << terminal))
            for row, terminal, set_ in distinct.T.tolist()
        ]
        return np.array(numbers, np.int32)[which.ravel()]

    def _ends_number(self, terminals: int) -> int:
        """Return the number of a set of terminals, given as bits."""
        return self._ends.setdefault(terminals, len(self._ends))

    def _taken_everywhere(
        self, scanner: Scanner, shiftable: Sequence[int], origins: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Return what all contexts that lead to each origin shift: numbers of sets, and the sets.

        Sets of terminals as bits; set 0 is empty.
        """
        numbers = np.zeros(origins.size, np.int64)
        sets: dict[int | None, int] = {0: 0}
        if not origins.size or self._delta.size * len(shiftable) > _MAX_WORK:
            return numbers, [0]
        place = np.full(len(self._delta), -1, dtype=np.int32)
        place[origins] = np.arange(origins.size)
        stamps = np.zeros(len(self._delta), dtype=np.int32)
        starts = scanner.context_start.astype(np.int32)
        reached = np.zeros(origins.size, np.bool_)
        for context, terminals in enumerate(shiftable):
            met = np.zeros(origins.size, dtype=np.bool_)
            start = starts[context : context + 1]
            library.mark_ahead(self._delta, place, start, stamps, context + 1, met)
            known = list(sets)
            after = [sets.setdefault((old or 0) & terminals, len(sets)) for old in known]
            again = met & reached
            numbers[again] = np.array(after, np.int64)[numbers[again]]
            numbers[met & ~reached] = sets.setdefault(terminals, len(sets))
            reached |= met
        return numbers, [found or 0 for found in sets]

    def _intern(self, members: frozenset[int]) -> int:
        """Return the number of a set of classes."""
        number = self._sets.setdefault(members, len(self._members))
        if number == len(self._members):
            self._members.append(members)
            self.viable.append(all(self._class_viable[member] for member in members))
        return number

    def _follow(self, origins: NDArray[np.int32], ends: NDArray[np.int32]) -> Construction:
        """Number the pending matches and follow them by every byte class.

        Args:
            origins: int32[n] states where terminals end and may go on.
            ends: int32[n] as what, numbers of sets.

        Returns:
            States are pairs of a scanner state and a set of ends, of which set 0 is empty. State 0
            is a match that has completed, the next n ones are the origins.

        Raises:
            LimitError: More than ``_MAX_STEPS`` pairs times classes.
        """
        words = 1 + max(map(int.bit_length, (*self._ends, *self._live_rows))) // 64
        live, sets = _packed(self._live_rows, words), _packed(list(self._ends), words)
        scanner = self._delta, self._meaning, self._live_row, live
        begun = library.follow_pending(scanner, sets, origins, ends)
        found = constructed(begun, Most(cells=_MAX_STEPS))
        if found is None:
            most = _MAX_STEPS // self._delta.shape[1]
            raise LimitError(f"{most} pending matches, too many to compare", limit="max_states")
        return found

    def _classes(
        self, found: Construction
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]], list[bool]]:
        """Return the class of each pair, the steps of each class, and whether each is viable.

        Steps are int64[K] classes; classes 0 and 1 are NOTHING_PENDING and TAKEN.
        """
        delta, viable = found.delta, found.items.reshape(-1, 2)[1:, 1] != 0
        kinds = np.concatenate([[0], np.where(viable, 1, 2)])
        blocks = np.unique(kinds, return_inverse=True)[1].ravel().astype(np.int32)
        library.refine(delta, blocks)
        _, first, classes = np.unique(blocks[1:], return_index=True, return_inverse=True)
        class_of = np.concatenate([[TAKEN], classes.ravel() + 2])
        follow = delta[1:][first]
        steps = np.where(follow >= 0, class_of[follow], NOTHING_PENDING)
        nothing = np.zeros(delta.shape[1], dtype=np.int64)
        rows = [nothing, nothing + TAKEN, *steps]
        return class_of[1:], rows, [True, False, *viable[first].tolist()]


def _packed(sets: list[int], words: int) -> NDArray[np.uint64]:
    """Return sets of bits as uint64[n, words]."""
    joined = b"".join(bits.to_bytes(8 * words, "little") for bits in sets)
    return np.frombuffer(joined, "<u8").reshape(-1, words)


class TerminalInContext(NamedTuple):
    """Input letter of the parser: a terminal, and the set of matches pending at its end."""

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
        """Prepare; ``ignored`` and ``shiftable`` as for ``LongestMatchLookahead``."""
        self.matches = LongestMatchLookahead(scanner, ignored, shiftable)
        self._letter_number = Numbering[TerminalInContext]()
        self.letters = self._letter_number.keys
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
            letter = TerminalInContext(
                int(self._match[state]), self.matches.after(NOTHING_PENDING, state)
            )
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
                letter = TerminalInContext(terminal, self.matches.after(pending, state))
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
        every = union_reached(places, own)
        return {(context, current): every[place] for current, place in order.items()}

    def blocked(self, context: int, pending: int) -> dict[Node, tuple[int, int]]:
        """Return the nodes inside a terminal from which pending matches bar a terminal's every end.

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
        for node, possible in zip(nodes, union_reached(edges, values), strict=True):
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

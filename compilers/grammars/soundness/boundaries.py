"""All situations in which a terminal ends: pairs of LR state and matches still pending."""

from __future__ import annotations

from collections.abc import Sequence

from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.soundness.adjacency import Adjacency
from cdec.compilers.grammars.soundness.completions import Boundary
from cdec.compilers.grammars.soundness.pending import NOTHING_PENDING


def find_boundaries(
    tables: ParseTables, adjacency: Adjacency, lr_context: Sequence[int]
) -> dict[Boundary, int]:
    """Return every boundary that can occur, with the letters that can follow it.

    A few that cannot occur may be among them: a letter on which the parser reduces first is taken
    to be shifted wherever its terminal can be.

    Args:
        tables: LALR(1) tables.
        adjacency: Letters and pending matches; it meets its letters here.
        lr_context: Context of each LR state.

    Returns:
        Boundary -> letters as bits, ignored terminals between left out of account.
    """
    return _Search(tables, adjacency, lr_context).run()


class _Search:
    def __init__(
        self, tables: ParseTables, adjacency: Adjacency, lr_context: Sequence[int]
    ) -> None:
        self._tables = tables
        self._adjacency = adjacency
        self._context = lr_context
        self._closures: dict[tuple[int, int], int] = {}
        self._everywhere = 0  # letters that have been shifted wherever they can be
        self._by_terminal = [0] * len(tables.contexts_after)
        self._seen_letters = 0
        self._accepted: dict[tuple[frozenset[int], int], int] = {}

    def run(self) -> dict[Boundary, int]:
        found: dict[Boundary, int] = {}
        waiting: list[Boundary] = [(0, NOTHING_PENDING)]
        while waiting:
            boundary = waiting.pop()
            if boundary in found:
                continue
            state, pending = boundary
            key = (self._context[state], pending)
            if key not in self._closures:
                self._closures.update(self._adjacency.closure(*key, self._closures))
            found[boundary] = self._closures[key]
            waiting.extend((state, left) for left in self._adjacency.left_by_ignored(*key))
            waiting.extend(self._after(state, found[boundary]))
        return found

    def _after(self, state: int, ahead: int) -> list[Boundary]:
        """Return the boundaries at the ends of the terminals that can follow."""
        letters = self._adjacency.letters
        shifts, shifted = self._shifts(state)
        after = [
            (shifts[letters[number].terminal], letters[number].pending)
            for number in bits(ahead & shifted)
        ]
        reduced = ahead & self._accepted_letters(state) & ~shifted & ~self._everywhere
        self._everywhere |= reduced
        for number in bits(reduced):
            terminal, pending = letters[number]
            after.extend(
                (target, pending) for target in self._tables.contexts_after[terminal].tolist()
            )
        return after

    def _shifts(self, state: int) -> tuple[dict[int, int], int]:
        """Return where a state's own shifts lead, and their letters as bits."""
        self._sort_letters()
        begin, stop = self._tables.action_offsets[state : state + 2].tolist()
        values = self._tables.action_values[begin:stop]
        chosen = values >= 0
        terminals = self._tables.action_terminals[begin:stop][chosen].tolist()
        shifts = dict(zip(terminals, values[chosen].tolist(), strict=True))
        shifts.pop(len(self._by_terminal), None)  # the end of the text
        shifted = 0
        for terminal in shifts:
            shifted |= self._by_terminal[terminal]
        return shifts, shifted

    def _accepted_letters(self, state: int) -> int:
        """Return the letters of all terminals on which a state has an action."""
        accepts = self._tables.accepts[state]
        key = (accepts, self._seen_letters)
        if key not in self._accepted:
            letters = 0
            for terminal in accepts:
                letters |= self._by_terminal[terminal]
            self._accepted[key] = letters
        return self._accepted[key]

    def _sort_letters(self) -> None:
        """Take up the letters that were met since the last call."""
        letters = self._adjacency.letters
        for number in range(self._seen_letters, len(letters)):
            if letters[number].terminal not in self._adjacency.ignored:
                self._by_terminal[letters[number].terminal] |= 1 << number
        self._seen_letters = len(letters)

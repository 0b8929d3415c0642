"""Which boundaries terminals can have behind them, and LR states before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cdec.compilers.grammars.lookaround.rows import End
from cdec.compilers.grammars.parser.tables import ParseTables

Pair = tuple[int, int]
"""An LR state, or a terminal, and the number of a boundary."""


class Ahead(NamedTuple):
    """What can come behind a boundary.

    Attributes:
        may_end: Says of a boundary whether the text may end there.
        live: Of each start of the scanner: terminals that can end after it.
    """

    may_end: Callable[[int], bool]
    live: Sequence[frozenset[int]]


@dataclass(slots=True)
class Variants:
    """Which boundaries can stand where, while they are being found.

    Attributes:
        plain, first: The boundary that says nothing; that at the start of a text.
        starts: LR states at boundaries -> number of the scanner's context.
        waiting: Those that have none yet.
        ends: Terminals with a boundary, which get numbers of their own behind all others.
        dropped: For each boundary what ignored terminals may change it to.
        returns: Whether something may be dropped that leaves the plain boundary, as line breaks
            within brackets are by an indenter.
    """

    plain: int
    first: int
    starts: dict[Pair, int] = field(default_factory=dict)
    waiting: list[Pair] = field(default_factory=list)
    ends: list[Pair] = field(default_factory=list)
    dropped: dict[int, dict[Pair, None]] = field(default_factory=dict)
    returns: bool = False
    _met: set[Pair] = field(default_factory=set)
    _numbers: dict[End, int] = field(default_factory=dict)
    _places: dict[Pair, int] = field(default_factory=dict)

    def add(self, state: int, boundary: int) -> None:
        """Note that an LR state is met at a boundary, and behind what is ignored there."""
        pending = [boundary, self.plain] if self.returns else [boundary]
        while pending:
            pair = state, pending.pop()
            if pair not in self._met:
                self._met.add(pair)
                self.waiting.append(pair)
                pending += (after for _, after in self.dropped.get(pair[1], ()))

    def end(
        self, tables: ParseTables, ignored: frozenset[int], origin: int, end: End, after: int
    ) -> None:
        """Note that a terminal ends with a boundary; ``origin`` is where an ignored one began."""
        if end in self._numbers:
            return
        is_ignored = end.terminal in ignored
        if after == (origin if is_ignored else self.plain):
            self._numbers[end] = end.terminal
        else:
            variant = end.terminal, after
            place = self._places.setdefault(variant, len(self.ends))
            if place == len(self.ends):
                self.ends.append(variant)
            self._numbers[end] = len(tables.contexts_after) + place
        if not is_ignored:
            for state in tables.contexts_after[end.terminal].tolist():
                self.add(state, after)
        elif after != origin:
            self.dropped.setdefault(origin, {})[end.terminal, after] = None
            for state, boundary in list(self._met):
                if boundary == origin:
                    self.add(state, after)

    def number(self, end: End) -> int:
        """Return the number of the terminal that ends so."""
        return self._numbers[end]

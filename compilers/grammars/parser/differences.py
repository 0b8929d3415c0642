"""Whether shifting where a rule could end loses texts: a search for one that is lost.

That a conflict is resolved for shifting may leave the language as it is: an ``else`` that could
belong to either of two statements is taken by the inner one, and no text is refused. Or it may not:
with ``start: atom (bond? atom)*``, ``atom: "C" (bond? DIGIT)*``, ``bond: "="`` the ``=`` of ``C=C``
is taken for a digit's. Which of the two it is cannot be decided in general. Here the parser goes on
both ways at once, from a shortest text that leads to the conflict: as the tables do, and as if the
rule had ended. A text that the second way goes on reading and the first does not is lost. Where
none is found with so much work, it is taken that there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from cdec.compilers.grammars.parser.derivations import Derivations, Place, Stack
from cdec.compilers.grammars.parser.tables import ParseTables

_PLACES = 200
_TERMINALS = 3
"""Of each conflict are tried, and so many conflicts."""
_WORK = 30_000
"""Stacks that are made in all; about a quarter of a second."""
_ITEMS = 100_000
"""Items that are looked at in all on the way to conflicts; about as much."""


def lost_texts(derivations: Derivations, tables: ParseTables) -> Iterator[tuple[int, ...]]:
    """Look for texts that the rules allow and that the tables refuse.

    Args:
        derivations: Of the tables.
        tables: LALR(1), with the conflicts in which the shift was taken.

    Yields:
        Terminals in order. Cost: at most half a second in all.
    """
    places: dict[int, set[Place]] = {}
    for conflict in tables.resolved[:_PLACES]:
        for terminal in conflict.terminals[:_TERMINALS]:
            found = places.setdefault(terminal, set())
            found.update(Place(conflict.state, rule, terminal) for rule in conflict.rules)
    searches = [
        _Search(derivations, place, stack, symbols)
        for terminal, found in sorted(places.items())
        for place, stack, symbols in derivations.reach(found, terminal, _ITEMS // len(places))
    ]
    # Each gets a little, and what is left is shared among those that have not come to an end.
    share = 200
    while searches and derivations.work < _WORK:
        for search in searches:
            yield from search.go_on(derivations.work + share)
        searches = [search for search in searches if not search.is_over]
        share *= 2


class _Search:
    """Texts from one conflict on, shortest first, that are read in both ways."""

    def __init__(
        self, derivations: Derivations, place: Place, stack: Stack, symbols: list[int]
    ) -> None:
        self.is_over = False
        self._derivations = derivations
        self._steps = self._run(derivations, place, stack, symbols)

    def go_on(self, work: int) -> Iterator[tuple[int, ...]]:
        """Read on until so much work is done; yield the lost texts that are met."""
        while self._derivations.work < work:
            lost = next(self._steps, ())
            if lost == ():
                self.is_over = True
                return
            if lost is not None:
                yield lost

    def _run(
        self, derivations: Derivations, place: Place, stack: Stack, symbols: list[int]
    ) -> Iterator[tuple[int, ...] | None]:
        """Yield None after every step, or a lost text."""
        before = derivations.text_of(symbols)
        if before is None:
            return
        taken: Stack | None = (0,)
        for terminal in before:
            taken = None if taken is None else derivations.read(taken, terminal)
        after = derivations.ends_here(stack, place)
        met: set[tuple[Stack, Stack]] = set()
        ahead: deque[tuple[tuple[int, ...], list[Stack], Stack | None]] = deque()
        ahead.append(((*before, place.terminal), after, taken))
        while ahead:
            text, readings, taken = ahead.popleft()
            taken = None if taken is None else derivations.read(taken, text[-1])
            for reading in readings:
                if taken is None:
                    yield _whole(derivations, text, reading)
                elif reading != taken and (reading, taken) not in met:
                    met.add((reading, taken))
                    for terminal in derivations.ahead(reading):
                        following = derivations.readings(reading, terminal)
                        if following:
                            ahead.append(((*text, terminal), following, taken))
                        yield None


def _whole(derivations: Derivations, text: tuple[int, ...], stack: Stack) -> tuple[int, ...] | None:
    """Return a text with what ends it; None where that is long."""
    if text[-1] == derivations.end:
        return text[:-1]
    rest = derivations.completion(stack)
    return None if rest is None else (*text, *rest)

"""What a decoding state means to people: readings, stacks of symbols, terminals that may come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cdec.core.grammars.loops import count_states, row_of_state
from cdec.core.grammars.names import Names
from cdec.core.grammars.session import GrammarSession

__all__ = ["Reading", "StateView", "describe_state"]

_SHOWN = 64
"""Symbols of a stack that are shown, counted from the top."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the bytes so far.

    Attributes:
        under_way: Terminals that the bytes since the last one ended may become; empty at a start.
        viable: Those of them, or of those that may begin, that the parser takes.
        stack: Symbols from the bottom; the first ones are left out of a deep stack.
        hidden: Symbols left out.
        items: Rules under way at the top, with a dot where the parser stands.
        lr_states: The LR states of the topmost vertices.
    """

    under_way: list[str]
    viable: list[str]
    stack: list[str]
    hidden: int
    items: list[str]
    lr_states: list[int]


@dataclass(frozen=True, slots=True)
class StateView:
    """A decoding state: its readings, by precedence, and whether the text may end."""

    readings: list[Reading]
    complete: bool


def describe_state(session: GrammarSession, state: int, names: Names) -> StateView:
    """Return a state as plain data; DONE, DEAD and numbers that are no states have no readings."""
    symbols = names.access_symbols
    readings = [
        _reading(session, names, symbols, at, stack) for at, stack in session.readings(state)
    ]
    return StateView(readings, bool(session.is_complete(np.array([state]))[0]))


def _live(names: Names, at: int) -> list[int]:
    arrays = names.arrays
    row = int(arrays.live_row[row_of_state(arrays, at % count_states(arrays))])
    first, stop = arrays.live_offsets[row : row + 2].tolist()
    live: list[int] = arrays.live_terminals[first:stop].tolist()
    return live


def _viable(session: GrammarSession, names: Names, at: int, stack: int) -> list[int]:
    ignored = names.arrays.ignored
    return [t for t in _live(names, at) if ignored[t] or session.can_shift(stack, t)]


def _reading(
    session: GrammarSession, names: Names, symbols: Mapping[int, str], at: int, stack: int
) -> Reading:
    fresh = at >= count_states(names.arrays)
    top_states, path, depth = session.stack(stack, _SHOWN)
    return Reading(
        under_way=[] if fresh else names.each(_live(names, at)),
        viable=names.each(_viable(session, names, at, stack)),
        stack=[symbols.get(state, "?") for state in reversed(path)],
        hidden=depth - len(path),
        items=[item for state in top_states for item in names.items(state)],
        lr_states=top_states,
    )

"""What a decoding state means to people: readings, stacks of symbols, terminals that may come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.grammars.engine import fields as f

if TYPE_CHECKING:
    from cdec.core.grammars.columns import GrammarArrays
    from cdec.core.grammars.session import GrammarSession

__all__ = ["Names", "Reading", "StateView", "describe_state", "viable_terminals"]

_SHOWN = 64
"""Symbols of a stack that are shown, counted from the top."""


@dataclass(frozen=True)
class Names:
    """Names of a grammar's symbols, from the metadata of its artifact.

    Attributes:
        arrays: The compiled grammar.
        terminals: By number.
        nonterminals: By number.
        rules: (left side, right side) as names, by number.
    """

    arrays: GrammarArrays
    terminals: tuple[str, ...]
    nonterminals: tuple[str, ...]
    rules: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def from_metadata(cls, arrays: GrammarArrays, metadata: Mapping[str, str]) -> Names:
        """Read ``cdec.names``; numbers stand for names that are missing."""
        try:
            stored = json.loads(metadata.get("cdec.names", "{}"))
            terminals = tuple(map(str, stored.get("terminals", ())))
            nonterminals = tuple(map(str, stored.get("nonterminals", ())))
            rules = tuple((str(a), tuple(map(str, b))) for a, b in stored.get("rules", ()))
        except (ValueError, TypeError, AttributeError, RecursionError):
            terminals, nonterminals, rules = (), (), ()
        return cls(arrays, terminals, nonterminals, rules)

    def terminal(self, number: int) -> str:
        """Return the name of a terminal; the end of the text is ``$END``."""
        if number == len(self.arrays.ignored):
            return "$END"
        known = 0 <= number < len(self.terminals)
        return self.terminals[number] if known else f"terminal {number}"

    def nonterminal(self, number: int) -> str:
        """Return the name of a nonterminal."""
        known = 0 <= number < len(self.nonterminals)
        return self.nonterminals[number] if known else f"nonterminal {number}"

    def item(self, rule: int, dot: int) -> str:
        """Return a rule with a dot where the parser stands."""
        if not 0 <= rule < len(self.rules):
            return f"rule {rule}, position {dot}"
        lhs, rhs = self.rules[rule]
        return f"{lhs} → {' '.join([*rhs[:dot], '•', *rhs[dot:]])}"

    @cached_property
    def access_symbols(self) -> dict[int, str]:
        """Return the symbol that leads to each LR state."""
        symbols: dict[int, str] = {0: "$START"}
        arrays = self.arrays
        for at in np.flatnonzero(arrays.action_values >= 0).tolist():
            symbols.setdefault(
                int(arrays.action_values[at]), self.terminal(int(arrays.action_terminals[at]))
            )
        for symbol, state in zip(
            arrays.goto_symbols.tolist(), arrays.goto_states.tolist(), strict=True
        ):
            symbols.setdefault(state, self.nonterminal(symbol))
        return symbols

    def items(self, state: int) -> list[str]:
        """Return the kernel items of an LR state."""
        first, stop = self.arrays.item_offsets[state : state + 2].tolist()
        rules, dots = self.arrays.item_rules[first:stop], self.arrays.item_dots[first:stop]
        return [self.item(*item) for item in zip(rules.tolist(), dots.tolist(), strict=True)]


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
        _reading(session, names, symbols, at, stack) for at, stack in _items(session, state)
    ]
    return StateView(readings, bool(session.is_complete(np.array([state]))[0]))


def viable_terminals(session: GrammarSession, state: int) -> list[int]:
    """Return the terminals that may be under way or begin at a state, as the parser sees it."""
    found: set[int] = set()
    for at, stack in _items(session, state):
        found.update(_viable(session, at, stack))
    return sorted(found)


def _items(session: GrammarSession, state: int) -> list[tuple[int, int]]:
    memory = session._memory
    if not 0 <= state < memory.used(f.STATE_OFFSETS) - 1:
        return []
    first, stop = memory.arrays[f.STATE_OFFSETS][state : state + 2].tolist()
    flat = memory.arrays[f.STATE_ITEMS][first:stop].tolist()
    return list(zip(flat[::2], flat[1::2], strict=True))


def _live(session: GrammarSession, at: int) -> list[int]:
    arrays = session._names.arrays
    row = int(arrays.live_row[at % len(arrays.live_row)])
    first, stop = arrays.live_offsets[row : row + 2].tolist()
    live: list[int] = arrays.live_terminals[first:stop].tolist()
    return live


def _viable(session: GrammarSession, at: int, stack: int) -> list[int]:
    ignored = session._names.arrays.ignored
    live = _live(session, at)
    return [t for t in live if ignored[t] or session.can_shift(stack, t)]


def _reading(
    session: GrammarSession, names: Names, symbols: Mapping[int, str], at: int, stack: int
) -> Reading:
    fresh = at >= len(names.arrays.live_row)
    tops = _members(session, stack)
    states, belows = (session._engine.memory.arrays[i] for i in (f.VERTEX_STATE, f.VERTEX_BELOW))
    path, depth, below = [], 0, tops[0] if tops else f.NONE
    while below != f.NONE:
        vertex = _members(session, below)[0]
        depth += 1
        if depth <= _SHOWN:
            path.append(symbols.get(int(states[vertex]), "?"))
        below = int(belows[vertex])
    top_states = [int(states[vertex]) for vertex in tops]
    return Reading(
        under_way=[] if fresh else [names.terminal(t) for t in _live(session, at)],
        viable=[names.terminal(t) for t in _viable(session, at, stack)],
        stack=path[::-1],
        hidden=max(depth - _SHOWN, 0),
        items=[item for state in top_states for item in names.items(state)],
        lr_states=top_states,
    )


def _members(session: GrammarSession, stack: int) -> list[int]:
    """Return the vertices of a stack value."""
    if stack >= 0:
        return [stack]
    arrays = session._engine.memory.arrays
    first, stop = arrays[f.SET_OFFSETS][-2 - stack : -stack].tolist()
    members: list[int] = arrays[f.SET_ITEMS][first:stop].tolist()
    return members

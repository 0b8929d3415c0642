"""Shortest texts around a place of a parser: how it is reached, how what is begun there ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from cdec.compilers.grammars.parser.tables import ParseTables, action_rows, goto_rows, rows_of

Stack = tuple[int, ...]
"""LR states, the start first."""
_MAX_TEXT = 200
"""Terminals of one text at most; longer ones show nothing."""
_MAX_REDUCTIONS = 400
_MAX_READINGS = 16


class Place(NamedTuple):
    """A rule that ends in a state before a terminal."""

    state: int
    rule: int
    terminal: int


class _Item(NamedTuple):
    """A rule under way in a state; ``followed``: the terminal wanted can follow the rule there."""

    state: int
    rule: int
    dot: int
    followed: bool


class StackParser:
    """The deterministic parser on stacks of its own.

    Args:
        tables: LALR(1).
        max_reductions: Before one terminal, beyond which it is taken for refused.
    """

    def __init__(self, tables: ParseTables, max_reductions: int) -> None:
        self._rules = tables.rules
        self._max_reductions = max_reductions
        self._actions, self._gotos = action_rows(tables), goto_rows(tables)

    def read(self, stack: Stack, terminal: int) -> Stack | None:
        """Return the stack after a terminal, None where the tables refuse it.

        subtle: where a rule's priority prefers reducing an empty rule the stack can grow for ever;
        by more states than there are it does.
        """
        highest = len(stack) + len(self._actions)
        for _ in range(self._max_reductions):
            action = self._actions[stack[-1]].get(terminal)
            if action is None or len(stack) > highest:
                return None
            if action >= 0:
                return (*stack, action)
            stack = self._reduced(stack, ~action)
        return None

    def _reduced(self, stack: Stack, rule: int) -> Stack:
        below = stack[: len(stack) - len(self._rules[rule].rhs)]
        return (*below, self._gotos[below[-1]][self._rules[rule].lhs])


class Derivations(StackParser):
    """Actions of LALR tables, those that their rules allow besides, and shortest texts of both.

    Args:
        tables: LALR(1), their conflicts resolved for shifting.

    Attributes:
        work: Stacks that were made so far, long ones counted more.
    """

    def __init__(self, tables: ParseTables) -> None:
        super().__init__(tables, _MAX_REDUCTIONS)
        self.work = 0
        self.end = len(tables.contexts_after)
        self._kernels = rows_of(tables.item_offsets, tables.item_rules, tables.item_dots)
        self._lost: dict[tuple[int, int], list[int]] = {}
        for conflict in tables.resolved:
            for terminal in conflict.terminals:
                self._lost.setdefault((conflict.state, terminal), []).extend(conflict.rules)
        self._of: dict[int, list[int]] = {}
        for number, rule in enumerate(self._rules):
            self._of.setdefault(rule.lhs, []).append(number)
        self._starts = set(self._of) & {
            symbol
            for symbol, state in self._gotos[0].items()
            if self._actions[state].get(self.end, -1) >= 0
        }
        self._shortest = self._measure()
        self._first = self._begin()

    def stacks_after(self, stack: Stack, terminal: int) -> list[Stack]:
        """Return the stacks after a terminal, whichever of the possible actions are taken."""
        self.work += 3
        found, met, todo = [], {stack}, [stack]
        while todo and len(met) < _MAX_READINGS:
            stack = todo.pop()
            action = self._actions[stack[-1]].get(terminal)
            ended = list(self._lost.get((stack[-1], terminal), ()))
            if action is not None and action >= 0:
                found.append((*stack, action))
            elif action is not None:
                ended.append(~action)
            for after in (self._reduced(stack, rule) for rule in ended):
                if after not in met:
                    met.add(after)
                    todo.append(after)
        return found

    def ends_here(self, stack: Stack, place: Place) -> list[Stack]:
        """Return the stacks after the place's rule has ended and its terminal was read."""
        return self.stacks_after(self._reduced(stack, place.rule), place.terminal)

    def ahead(self, stack: Stack) -> list[int]:
        """Return the terminals that can follow, the end of the text among them."""
        return list(self._actions[stack[-1]])

    def text_of(self, symbols: Sequence[int]) -> list[int] | None:
        """Return a shortest text of symbols, as terminals; None where it is long or none."""
        text: list[int] = []
        todo = list(reversed(symbols))
        if sum(self._length(symbol) for symbol in todo) > _MAX_TEXT:
            return None
        while todo:
            symbol = todo.pop()
            if symbol >= 0:
                text.append(symbol)
            else:
                todo += reversed(self._rules[self._shortest[~symbol][1]].rhs)
        return text

    def completion(self, stack: Stack) -> list[int] | None:
        """Return terminals that end what the stack has begun; None where they are many."""
        text: list[int] = []
        met = {stack}
        while self._actions[stack[-1]].get(self.end, -1) < 0:
            own = [(self._rules[rule].rhs[dot:], rule) for rule, dot in self._kernels[stack[-1]]]
            for rest, rule in sorted(own, key=lambda found: sum(map(self._length, found[0]))):
                after = stack
                for symbol in rest:
                    after = (*after, self._target(after[-1], symbol))
                after = self._reduced(after, rule)
                if after not in met:
                    break
            else:
                return None
            written = self.text_of(rest)
            if written is None or len(text) + len(written) > _MAX_TEXT:
                return None
            text += written
            stack = after
            met.add(stack)
        return text

    def reach(
        self, places: set[Place], terminal: int, steps: int
    ) -> Iterator[tuple[Place, Stack, list[int]]]:
        """Yield a way to each place on which its terminal can follow its rule.

        Isradisaikul and Myers (2015, section 4) look for a shortest path over items with their
        exact look-ahead sets; one terminal at a time, a yes or no stands for the set.

        Args:
            places: All before ``terminal``.
            terminal: What follows.
            steps: Items to look at, at most.

        Yields:
            The place, the stack there and the symbols shifted on the way.
        """
        wanted = {(place.state, place.rule): place for place in places}
        heap: list[tuple[int, int, _Item]] = []
        came: dict[_Item, tuple[_Item | None, int | None]] = {}

        def meet(cost: int, item: _Item, before: _Item | None, symbol: int | None) -> None:
            if item not in came and cost <= _MAX_TEXT:
                came[item] = before, symbol
                heappush(heap, (cost, len(came), item))

        for start in self._starts:
            for rule in self._of[start]:
                meet(0, _Item(0, rule, 0, terminal == self.end), None, None)
        while heap and wanted and steps > 0:
            steps -= 1
            cost, _, item = heappop(heap)
            rhs = self._rules[item.rule].rhs
            if item.dot == len(rhs):
                place = wanted.pop((item.state, item.rule), None) if item.followed else None
                if place is not None:
                    yield place, *_way(came, item)
                continue
            symbol = rhs[item.dot]
            after = self._target(item.state, symbol)
            if after >= 0:
                moved = _Item(after, item.rule, item.dot + 1, item.followed)
                meet(cost + self._length(symbol), moved, item, symbol)
            if symbol < 0:
                followed = self._begins(rhs[item.dot + 1 :], terminal, item.followed)
                for rule in self._of.get(~symbol, ()):
                    if self._length(symbol) <= _MAX_TEXT:
                        meet(cost, _Item(item.state, rule, 0, followed), item, None)

    def _reduced(self, stack: Stack, rule: int) -> Stack:
        self.work += 1 + len(stack) // 32
        return super()._reduced(stack, rule)

    def _target(self, state: int, symbol: int) -> int:
        if symbol < 0:
            return self._gotos[state].get(~symbol, -1)
        return max(self._actions[state].get(symbol, -1), -1)

    def _length(self, symbol: int) -> int:
        return 1 if symbol >= 0 else self._shortest.get(~symbol, (_MAX_TEXT + 1, 0))[0]

    def _begins(self, symbols: Sequence[int], terminal: int, followed: bool) -> bool:
        """Say whether a terminal can come first in symbols and what follows them."""
        for symbol in symbols:
            if symbol >= 0:
                return symbol == terminal
            if self._first.get(~symbol, 0) >> terminal & 1:
                return True
            if self._length(symbol):
                return False
        return followed

    def _measure(self) -> dict[int, tuple[int, int]]:
        """Return per nonterminal the length of its shortest text and the first rule of it."""
        users: dict[int, list[int]] = {}
        for number, rule in enumerate(self._rules):
            for symbol in {symbol for symbol in rule.rhs if symbol < 0}:
                users.setdefault(~symbol, []).append(number)
        missing = [sum(symbol < 0 for symbol in set(rule.rhs)) for rule in self._rules]
        found: dict[int, tuple[int, int]] = {}
        heap = [(len(self._rules[n].rhs), n) for n, count in enumerate(missing) if not count]
        heap.sort()
        while heap:
            length, number = heappop(heap)
            lhs = self._rules[number].lhs
            if lhs in found:
                continue
            found[lhs] = length, number
            for user in users.get(lhs, ()):
                missing[user] -= 1
                if not missing[user]:
                    rhs = self._rules[user].rhs
                    total = sum(1 if s >= 0 else found[~s][0] for s in rhs)
                    heappush(heap, (min(total, 1 << 40), user))
        return found

    def _begin(self) -> dict[int, int]:
        """Return per nonterminal the terminals that can come first, as bits."""
        first: dict[int, int] = {}
        todo = list(range(len(self._rules)))
        users: dict[int, set[int]] = {}
        for number, rule in enumerate(self._rules):
            for symbol in rule.rhs:
                if symbol >= 0:
                    break
                users.setdefault(~symbol, set()).add(number)
                if self._length(symbol):
                    break
        while todo:
            rule = self._rules[todo.pop()]
            seen = first.get(rule.lhs, 0)
            for symbol in rule.rhs:
                seen |= 1 << symbol if symbol >= 0 else first.get(~symbol, 0)
                if symbol >= 0 or self._length(symbol):
                    break
            if seen != first.get(rule.lhs, 0):
                first[rule.lhs] = seen
                todo += users.get(rule.lhs, ())
        return first


def _way(
    came: dict[_Item, tuple[_Item | None, int | None]], item: _Item
) -> tuple[Stack, list[int]]:
    """Return the states and the symbols on the way to an item."""
    states, symbols = [item.state], []
    step: _Item | None = item
    while step is not None:
        before, symbol = came[step]
        if symbol is not None and before is not None:
            symbols.append(symbol)
            states.append(before.state)
        step = before
    return tuple(reversed(states)), symbols[::-1]

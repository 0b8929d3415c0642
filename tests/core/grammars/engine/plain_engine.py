"""The semantics of a compiled grammar in plain Python: every token stepped, stacks as tuples.

Written from the text of ``cdec.core.grammars.columns`` alone. Trees, masks and memos are not used;
only the scanner and the parse tables are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from cdec.core.grammars.columns import GrammarArrays

Stack = tuple[int, ...]
"""LR states, the top last."""


@dataclass(frozen=True)
class Reading:
    """One reading: scanner state, whether it is at a terminal's start, possible stacks."""

    at: int
    fresh: bool
    stack: Stack
    depth: int = 0
    """Terminals that have ended within the token."""


@dataclass(frozen=True)
class PlainEngine:
    """Walks a grammar by definition.

    Attributes:
        arrays: The compiled grammar.
        general: Lexer ``dynamic``.
        end_ids: End-of-sequence ids.
        lookahead: As the session's.
    """

    arrays: GrammarArrays
    general: bool
    end_ids: tuple[int, ...]
    lookahead: int | None = None

    @cached_property
    def token_bytes(self) -> list[bytes]:
        offsets, flat = (
            self.arrays.vocabulary_offsets.tolist(),
            self.arrays.vocabulary_bytes.tobytes(),
        )
        return [flat[a:b] for a, b in pairwise(offsets)]

    @cached_property
    def delta(self) -> np.ndarray:
        return self.arrays.delta.reshape(len(self.arrays.live_row), -1)

    def _slice(self, offsets: str, values: str, at: int) -> list[int]:
        first, stop = getattr(self.arrays, offsets)[at : at + 2]
        return getattr(self.arrays, values)[first:stop].tolist()

    def actions(self, state: int, terminal: int) -> list[int]:
        terminals = self._slice("action_offsets", "action_terminals", state)
        values = self._slice("action_offsets", "action_values", state)
        return [v for t, v in zip(terminals, values, strict=True) if t == terminal]

    def goto(self, state: int, symbol: int) -> int | None:
        symbols = self._slice("goto_offsets", "goto_symbols", state)
        states = self._slice("goto_offsets", "goto_states", state)
        return states[symbols.index(symbol)] if symbol in symbols else None

    def shift(self, stack: Stack, terminal: int) -> set[Stack]:
        """Return all stacks after a terminal: every order of reductions is tried."""
        seen, todo, shifted = {stack}, [stack], set()
        while todo:
            stack = todo.pop()
            for value in self.actions(stack[-1], terminal):
                if value >= 0:
                    shifted.add((*stack, value))
                    continue
                length = int(self.arrays.rule_length[~value])
                if length >= len(stack):
                    continue
                base = stack[: len(stack) - length]
                target = self.goto(base[-1], int(self.arrays.rule_lhs[~value]))
                if target is not None and (*base, target) not in seen:
                    seen.add((*base, target))
                    todo.append((*base, target))
        return shifted

    def start(self) -> tuple[Reading, ...]:
        context = self.arrays.lr_context[0]
        return (Reading(int(self.arrays.context_start[context]), True, (0,)),)

    def _fresh(self, stack: Stack, terminal: int, depth: int) -> Reading:
        arrays = self.arrays
        context = (
            arrays.terminal_context[terminal] if self.general else arrays.lr_context[stack[-1]]
        )
        return Reading(int(arrays.context_start[context]), True, stack, depth)

    def _ended(self, reading: Reading, terminal: int) -> list[Reading]:
        ignored = self.arrays.ignored[terminal]
        stacks = {reading.stack} if ignored else self.shift(reading.stack, terminal)
        return [self._fresh(stack, terminal, reading.depth + 1) for stack in sorted(stacks)]

    def _live(self, at: int) -> list[int]:
        return self._slice("live_offsets", "live_terminals", int(self.arrays.live_row[at]))

    def step(self, readings: tuple[Reading, ...], byte: int) -> tuple[Reading, ...]:
        after: list[Reading] = []
        for reading in readings:
            at = int(self.delta[reading.at, self.arrays.byte_class[byte]])
            if at < 0:
                continue
            if self._live(at):
                after.append(Reading(at, False, reading.stack, reading.depth))
            for terminal in self._slice("match_offsets", "match_terminals", at):
                after += self._ended(reading, terminal)
            if not self.general and self._slice("match_offsets", "match_terminals", at):
                break
        return tuple(dict.fromkeys(after))

    def is_viable(self, reading: Reading) -> bool:
        return reading.fresh or any(
            self.arrays.ignored[t] or self.shift(reading.stack, t) for t in self._live(reading.at)
        )

    def advance(self, readings: tuple[Reading, ...], text: bytes) -> tuple[Reading, ...]:
        """Return the readings after a token's bytes; none if it is not allowed."""
        for byte in text:
            readings = self.step(readings, byte)
        limit = float("inf") if self.lookahead is None else self.lookahead
        if not any(
            self.is_viable(reading) and reading.depth - reading.fresh <= limit
            for reading in readings
        ):
            return ()
        return tuple(Reading(r.at, r.fresh, r.stack) for r in readings)

    def may_end(self, readings: tuple[Reading, ...]) -> bool:
        end = len(self.arrays.ignored)
        return any(reading.fresh and self.shift(reading.stack, end) for reading in readings)

    def after(self, tokens: tuple[int, ...]) -> tuple[Reading, ...]:
        readings = self.start()
        for token in tokens:
            ended = token in self.end_ids
            readings = () if ended else self.advance(readings, self.token_bytes[token])
        return readings

    def allowed(self, tokens: tuple[int, ...]) -> set[int]:
        """Return the allowed token ids after a prefix of tokens."""
        readings = self.after(tokens)
        allowed = {
            token
            for token, text in enumerate(self.token_bytes)
            if text and self.advance(readings, text)
        }
        return allowed | (set(self.end_ids) if self.may_end(readings) else set())

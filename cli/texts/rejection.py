"""Where a constraint refuses a text: the first byte at which no member goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdec.core.constraint import DONE

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint, Session

_MAX_VISITS = 100_000
"""(state, position) pairs walked for one text: a bound for constraints with many tokenisations."""


@dataclass(slots=True)
class Rejection:
    """The furthest place that a walk over a refused text reached.

    Attributes:
        byte: Offset in the walked bytes of the first byte that no member continues with; their
            length where a member continues but none ends.
        continuations: Bytes with which members go on there, sorted, shortest first where equal.
        may_end: Whether a member ends there.
    """

    byte: int = 0
    continuations: frozenset[bytes] = frozenset()
    may_end: bool = False


def first_rejected_byte(constraint: Constraint, target: bytes) -> Rejection:
    """Walk ``target`` byte by byte through every tokenisation that the constraint allows.

    Tokens cut a text where the tokenizer likes, so the place where token ids go wrong is not the
    place where the text does: tokens are compared by their bytes.

    Args:
        constraint: Any opened artifact.
        target: The whole text that would be emitted, forced prefix and suffix included.

    Returns:
        The furthest place reached. Cost: one scan of the allowed tokens at each state visited.
    """
    walk = _Walk(constraint, target)
    walk.run()
    return walk.best


class _Walk:
    """A depth-first walk over (state, position) pairs."""

    def __init__(self, constraint: Constraint, target: bytes) -> None:
        self._vocabulary = constraint.vocabulary
        self._session: Session = constraint.session("cpu")
        self._target = target
        self.best = Rejection()

    def run(self) -> None:
        start = (int(self._session.start(1)[0]), 0)
        stack, seen = [start], {start}
        while stack and len(seen) < _MAX_VISITS:
            state, position = stack.pop()
            for pair in self._visit(state, position):
                if pair not in seen:
                    seen.add(pair)
                    stack.append(pair)

    def _visit(self, state: int, position: int) -> Iterable[tuple[int, int]]:
        """Note how far each allowed token goes; return the states after whole tokens."""
        import numpy as np

        states = np.array([state], np.int64)
        if state == DONE:
            self._reached(position, None, may_end=True)
            return []
        rest = self._target[position:]
        if bool(self._session.is_complete(states)[0]):
            self._reached(position, None, may_end=True)
        _, token_ids = self._session.allowed(states)
        whole = []
        table = self._vocabulary.token_bytes
        for token_id in token_ids.tolist():
            token = table[token_id]
            if not token:
                continue
            if rest.startswith(token):
                whole.append(token_id)
            else:
                common = _common_prefix(rest, token)
                self._reached(position + common, token[common:])
        if not whole:
            return []
        nexts = self._session.advance(np.repeat(states, len(whole)), np.array(whole, np.int64))
        return [
            (int(after), position + len(table[token_id]))
            for after, token_id in zip(nexts.tolist(), whole, strict=True)
        ]

    def _reached(self, byte: int, continuation: bytes | None, *, may_end: bool = False) -> None:
        if byte < self.best.byte:
            return
        if byte > self.best.byte:
            self.best = Rejection(byte)
        if continuation is not None:
            self.best.continuations |= {continuation}
        self.best.may_end = self.best.may_end or may_end


def _common_prefix(a: bytes, b: bytes) -> int:
    length = min(len(a), len(b))
    for i in range(length):
        if a[i] != b[i]:
            return i
    return length

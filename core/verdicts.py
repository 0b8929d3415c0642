"""Verdicts on texts and token rows: where the first place is that a constraint refuses.

Tokens cut a text where the tokenizer likes, so the place where token ids go wrong is not the place
where the text does: here tokens are compared by their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.core.session import DEAD, DONE, Session

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_MAX_VISITS = 100_000
"""(state, position) pairs walked for one text: a bound for constraints with many tokenisations."""


@dataclass(slots=True)
class Rejection:
    """The furthest place that a walk over a refused text reached.

    Attributes:
        byte: Offset in the walked bytes of the first byte that no member continues with; their
            length where a member continues but none ends.
        continuations: Bytes with which members go on there.
        may_end: Whether a member ends there.
    """

    byte: int = 0
    continuations: frozenset[bytes] = frozenset()
    may_end: bool = False

    def to_json(self, shown: int) -> dict[str, Any]:
        """Return it as JSON-ready data with ``shown`` continuations, the shortest first."""
        continuations = sorted(self.continuations, key=lambda piece: (len(piece), piece))
        return {
            "byte": self.byte,
            "allowed": [piece.decode("utf-8", "replace") for piece in continuations[:shown]],
            "allowed_count": len(continuations),
            "may_end": self.may_end,
        }


def first_rejected_byte(
    session: Session,
    vocabulary: Vocabulary,
    text: bytes,
    frames: Sequence[tuple[bytes, bytes]] = ((b"", b""),),
) -> Rejection:
    """Walk a text byte by byte through every tokenisation that a session allows.

    Args:
        session: On the host.
        vocabulary: Its constraint's.
        text: Without forced parts.
        frames: What may be forced before and after a text, as (head, tail) pairs; each is tried.

    Returns:
        The furthest place reached, counted in ``text``. Cost: one scan of the allowed tokens at
        each state visited.
    """
    best = Rejection(byte=-1)
    for head, tail in frames:
        walk = _TokenisationWalk(session, vocabulary, head + text + tail)
        walk.run()
        where = walk.best
        where.byte = max(where.byte - len(head), 0)
        if where.byte > best.byte:
            best = where
        elif where.byte == best.byte:
            best.continuations |= where.continuations
            best.may_end = best.may_end or where.may_end
    return best


class _TokenisationWalk:
    """A depth-first walk over (state, position) pairs."""

    def __init__(self, session: Session, vocabulary: Vocabulary, target: bytes) -> None:
        self._vocabulary = vocabulary
        self._session = session
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
        states = np.array([state], np.int64)
        if state == DONE:
            self._reached(position, None, may_end=True)
            return []
        left = self._target[position:]
        if bool(self._session.is_complete(states)[0]):
            self._reached(position, None, may_end=True)
        _, token_ids = self._session.allowed(states)
        whole = []
        table = self._vocabulary.token_bytes
        for token_id in token_ids.tolist():
            token = table[token_id]
            if not token:
                continue
            if left.startswith(token):
                whole.append(token_id)
            else:
                common = _common_prefix(left, token)
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


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Place at which a session refuses a row of tokens.

    Attributes:
        position: Of the first token that is not allowed; the row's length where it may not end.
        byte: Bytes of the tokens before it.
        state: Of the session, before that token.
    """

    position: int
    byte: int
    state: int

    def to_json(self, session: Session, shown: int) -> dict[str, Any]:
        """Return it as JSON-ready data with ``shown`` of the token ids that were allowed."""
        states = np.array([self.state], np.int64)
        ids = session.allowed(states)[1]
        return {
            "position": self.position,
            "byte": self.byte,
            "allowed_ids": ids[:shown].tolist(),
            "allowed_count": len(ids),
            "may_end": bool(session.is_complete(states)[0]),
        }


def first_refused_token(
    session: Session, vocabulary: Vocabulary, token_ids: Sequence[int]
) -> TokenRefusal | None:
    """Follow a row of tokens, which end ids may close; None where it is a member."""
    states = session.start(1)
    for position, token_id in enumerate(token_ids):
        after = session.advance(states, np.array([token_id], np.int64))
        if int(after[0]) == DEAD:
            byte = len(vocabulary.decode(token_ids[:position]))
            return TokenRefusal(position, byte, int(states[0]))
        states = after
    if bool(session.is_complete(states)[0]):
        return None
    return TokenRefusal(len(token_ids), len(vocabulary.decode(token_ids)), int(states[0]))


_STRIDE = 1024


@dataclass(frozen=True, slots=True)
class ViablePrefix:
    """Longest prefix of a text that could be followed.

    Attributes:
        state: The state after its first ``byte`` bytes, which is not DEAD.
        byte: Bytes that some text of the language begins with.
    """

    state: int
    byte: int


def follow(session: Session, state: int, data: bytes) -> ViablePrefix:
    """Follow bytes as far as the language goes.

    Args:
        session: Of a constraint that takes bytes.
        state: Where to begin.
        data: The text.

    Returns:
        The furthest place. Cost: O(bytes).
    """
    at, width = 0, _STRIDE
    while at < len(data):
        after = _step(session, state, data[at : at + width])
        if after != DEAD:
            state, at = after, at + width
        elif width == 1:
            break
        else:
            # The first byte that is refused lies in this piece: look at it in smaller ones.
            width = max(width // 8, 1)
    return ViablePrefix(state, min(at, len(data)))


def _step(session: Session, state: int, data: bytes) -> int:
    return int(session.advance_bytes(np.array([state], np.int64), [data])[0])


def line_and_column(data: bytes, byte: int) -> tuple[int, int]:
    """Return where a byte offset lies: line and column (in characters), both from 1."""
    before = data[:byte]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode("utf-8", "ignore")) + 1

"""Where a text leaves a grammar: how far its bytes can be followed, and what may stand there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdec.core.grammars.names import Names
from cdec.core.grammars.session import GrammarSession
from cdec.core.grammars.state_view import StateView, describe_state
from cdec.core.session import DEAD, Session
from cdec.core.tokens.vocabulary import Vocabulary

_STRIDE = 1024
_SHOWN_SYMBOLS = 12
_SHOWN_ITEMS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """How far a text could be followed.

    Attributes:
        state: The state after its first ``byte`` bytes, which is not DEAD.
        byte: Bytes that some text of the language begins with.
    """

    state: int
    byte: int


def follow(session: Session, state: int, data: bytes) -> Place:
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
    return Place(state, min(at, len(data)))


def _step(session: Session, state: int, data: bytes) -> int:
    return int(session.advance_bytes(np.array([state], np.int64), [data])[0])


def describe_place(
    session: GrammarSession, vocabulary: Vocabulary, names: Names, place: Place, shown: int
) -> dict[str, Any]:
    """Return what a state allows, as JSON-ready data.

    Args:
        session: Of a grammar.
        vocabulary: Of the model.
        names: Of terminals and rules.
        place: A state of the session.
        shown: How many example tokens to list, the shortest first.

    Returns:
        ``allowed`` (texts of tokens), ``allowed_count``, ``may_end``, ``terminals`` (under way or
        next), ``stack`` (symbols, the top last) and ``rules`` (under way, a dot where they stand).
    """
    states = np.array([place.state], np.int64)
    ids = session.allowed(states)[1]
    table = vocabulary.token_bytes
    ends = frozenset(vocabulary.eos_token_ids)
    pieces = sorted({table[i] for i in ids.tolist() if i not in ends}, key=lambda b: (len(b), b))
    view = describe_state(session, place.state, names)
    return {
        "allowed": [piece.decode("utf-8", "replace") for piece in pieces[:shown]],
        "allowed_count": len(ids),
        "may_end": bool(session.is_complete(states)[0]),
        "terminals": _unique([name for reading in view.readings for name in reading.viable]),
        **shown_stack(view),
    }


def shown_stack(view: StateView) -> dict[str, list[str]]:
    """Return the stack and the rules under way of a state's first reading."""
    if not view.readings:
        return {"stack": [], "rules": []}
    first = view.readings[0]
    stack = first.stack[-_SHOWN_SYMBOLS:]
    if first.hidden or len(first.stack) > len(stack):
        stack = ["...", *stack]
    return {"stack": stack, "rules": _unique(first.items)[:_SHOWN_ITEMS]}


def _unique(names: list[str]) -> list[str]:
    """Return names once each, in their order."""
    return list(dict.fromkeys(names))


def line_and_column(data: bytes, byte: int) -> tuple[int, int]:
    """Return where a byte offset lies: line and column (in characters), both from 1."""
    before = data[:byte]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode("utf-8", "ignore")) + 1

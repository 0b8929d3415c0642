"""Where a text leaves a schema: how far its bytes can be followed, and what may stand there."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.grammars.places import follow, line_and_column
from cdec.core.schemas.levels import json_pointer
from cdec.core.schemas.session import SchemaSession
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["text_refusal"]


def text_refusal(
    session: SchemaSession, vocabulary: Vocabulary, text: bytes, shown: int
) -> dict[str, Any] | None:
    """Return where a text leaves the schema and what may stand there; None for members.

    Args:
        session: Of the schema.
        vocabulary: Of the model.
        text: Any bytes.
        shown: How many continuations to list.

    Returns:
        ``byte`` (from 0), ``line`` and ``column`` (from 1), ``json_path`` (of the value, or of the
        object or array between whose parts it is), ``schema_path`` (of all schemas that what stands
        there must satisfy), ``expected`` (in words), ``allowed`` (texts of tokens, the shortest
        first), ``allowed_count`` and ``may_end``.
    """
    place = follow(session, int(session.start(1)[0]), text)
    states = np.array([place.state], np.int64)
    may_end = bool(session.is_complete(states)[0])
    if place.byte == len(text) and may_end:
        return None
    level = session.level(place.state).at(text[place.byte : place.byte + 1])
    line, column = line_and_column(text, place.byte)
    ids, ends = session.allowed(states)[1], frozenset(vocabulary.eos_token_ids)
    table = vocabulary.token_bytes
    pieces = sorted({table[i] for i in ids.tolist() if i not in ends}, key=lambda b: (len(b), b))
    return {
        "byte": place.byte,
        "line": line,
        "column": column,
        "json_path": json_pointer(text[: place.byte], within=level.is_within),
        "schema_path": level.places,
        "expected": level.expected(shown),
        "allowed": [piece.decode("utf-8", "replace") for piece in pieces[:shown]],
        "allowed_count": len(ids),
        "may_end": may_end,
    }

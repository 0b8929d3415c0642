"""Numbers of tokens that strings of a schema may have: read, checked, and why a text is refused.

A token counts for a string where a byte of it stands between the string's quotes. So ``"`` that
opens or closes it counts for nothing, ``x"}`` counts, and ``a","b`` once for each of two strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdec.core.constraint import CONSERVATIVE, EXACT
from cdec.core.errors import FitError
from cdec.core.schemas.json_tokens import json_tokens
from cdec.core.schemas.levels import Level, Phase, json_pointer
from cdec.core.schemas.own_keywords import MAX_TOKENS
from cdec.core.schemas.program import USUAL_ESCAPES, SchemaArrays
from cdec.core.schemas.session import Engine, SchemaSession
from cdec.core.session import FAR
from cdec.core.token_budgets import budgets_of, spelled_furthest
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import follow, line_and_column

_PART = 1
"""Column of an alternative: which string it is."""
_ESCAPED = b'"\\/bfnrtu'


def require_budgets(
    arrays: SchemaArrays, metadata: Mapping[str, str], vocabulary: Vocabulary
) -> None:
    """Check that strings can be written with as many tokens as they may have.

    Raises:
        FitError: One needs more; it says which, and how many.
    """
    most = budgets_of(metadata, len(arrays.string_start))
    if most is None:
        return
    few = bool(arrays.indent[0] & USUAL_ESCAPES)
    engine = Engine(arrays, json_tokens(vocabulary, few_escapes=few), (), 0, budgets=most)
    offsets = arrays.string_offsets
    limited = np.flatnonzero(most >= 0)
    values = np.searchsorted(offsets, limited, "right") - 1
    fewest = engine.fewest_of_strings(limited)
    for value in np.unique(values).tolist():
        own = np.flatnonzero(values == value)
        nearest = own[np.argmin(fewest[own] - most[limited[own]])]
        shortest, number = int(fewest[nearest]), int(most[limited[nearest]])
        if number < shortest < FAR:
            begin, end = arrays.place_offsets[value : value + 2].tolist()
            place = arrays.place_bytes[begin:end].tobytes().decode().split("\n")[0]
            part = f"the string at {place}" if place else "the string"
            raise FitError.of_part(part, MAX_TOKENS, number, shortest)


def how_exact(vocabulary: Vocabulary) -> str:
    """Say whether strings held to numbers of tokens are all that have so many.

    They are EXACT where what stands in a token before a quote that ends a string is a token, too:
    whether a string can still end in time is found by tokens that hold nothing but content.
    """
    known = set(vocabulary.token_bytes)
    for piece in known:
        if b'"' in piece[1:]:
            ends = {_end(piece, 0), _end(piece, 1) if piece[0] in _ESCAPED else -1}
            if any(at > 0 and piece[:at] not in known for at in ends):
                return CONSERVATIVE
    return EXACT


def _end(piece: bytes, at: int) -> int:
    """Return where a token ends a string, read as content from ``at`` on; -1: nowhere."""
    while at < len(piece):
        if piece[at] == 0x22:
            return at
        at += 2 if piece[at] == 0x5C else 1
    return -1


def budget_refusal(
    session: SchemaSession, free: SchemaSession, vocabulary: Vocabulary, text: bytes
) -> dict[str, Any] | None:
    """Return where a text of the schema has too many tokens, however it is spelled; None: nowhere.

    Args:
        session: Of the schema. free: The same without numbers of tokens.
        vocabulary: Of both.
        text: A member but for these.
    """
    ids = {piece: token for token, piece in enumerate(vocabulary.token_bytes) if piece}
    byte, may_end = spelled_furthest(session, text, ids)
    if byte == len(text) and may_end:
        return None
    place = follow(free, int(free.start(1)[0]), text[:byte])
    level = Level.of(free, place.state)
    line, column = line_and_column(text, byte)
    most = []
    if level.phase == Phase.STRING and session.engine.budgets is not None:
        most = [n for n in session.engine.budgets[level.items[:, _PART]].tolist() if n >= 0]
    said = f"in {max(most)} tokens" if most else "in as few tokens as its strings may have"
    return {
        "byte": byte,
        "line": line,
        "column": column,
        "json_path": json_pointer(text[:byte], within=level.is_within),
        "schema_path": level.places,
        **({"max_tokens": max(most)} if most else {}),
        "reason": f"no way to spell it {said} leads further",
    }

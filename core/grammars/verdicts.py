"""Where a grammar refuses a text or a row of tokens, and for want of what."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.grammars.names import Names
from cdec.core.grammars.places import Place, describe_place, follow, line_and_column
from cdec.core.grammars.session import GrammarSession
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import TokenRefusal


def text_refusal(
    session: GrammarSession, vocabulary: Vocabulary, names: Names, text: bytes, shown: int
) -> dict[str, Any] | None:
    """Return where a text leaves the language and what may stand there; None for members.

    Args:
        session: Of the grammar.
        vocabulary: Of the model.
        names: Of terminals and rules.
        text: Any bytes.
        shown: How many continuations to list.

    Returns:
        ``byte`` (from 0), ``line`` and ``column`` (from 1), and what ``describe_place`` says.
    """
    place = follow(session, int(session.start(1)[0]), text)
    is_complete = bool(session.is_complete(np.array([place.state], np.int64))[0])
    if place.byte == len(text) and is_complete:
        return None
    line, column = line_and_column(text, place.byte)
    here = describe_place(session, vocabulary, names, place, shown)
    return {"byte": place.byte, "line": line, "column": column, **here}


def token_refusal(
    session: GrammarSession, vocabulary: Vocabulary, names: Names, refusal: TokenRefusal, shown: int
) -> dict[str, Any]:
    """Return where a row of tokens is refused, and what ``describe_place`` says of that place."""
    ids = session.allowed(np.array([refusal.state], np.int64))[1]
    place = Place(refusal.state, refusal.byte)
    return {
        "position": refusal.position,
        "byte": refusal.byte,
        "allowed_ids": ids[:shown].tolist(),
        **describe_place(session, vocabulary, names, place, shown),
    }

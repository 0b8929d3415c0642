"""A text token by token: what each token was read as, and what it left open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cdec.core.grammars.names import Names
from cdec.core.grammars.places import describe_place, follow, shown_stack
from cdec.core.grammars.session import GrammarSession
from cdec.core.grammars.state_view import describe_state
from cdec.core.session import DEAD
from cdec.core.tokens.vocabulary import Vocabulary

_SHOWN_READINGS = 4


def explain(
    session: GrammarSession,
    vocabulary: Vocabulary,
    names: Names,
    token_ids: Sequence[int],
    shown: int,
) -> Iterator[dict[str, Any]]:
    """Step through tokens until one is not allowed.

    Args:
        session: Of a grammar, perhaps with a lookahead.
        vocabulary: Of the model.
        names: Of terminals and rules.
        token_ids: Tokens of a text; end ids may close it.
        shown: How many continuations to list where a token is refused.

    Yields:
        One object a token. ``byte`` is where it begins, ``allowed_count`` and ``forced`` are those
        before it, all else holds after it: ``readings`` (terminals under way, those that the parser
        takes, the stack, the rules), ``may_end``. For a refused token ``is_allowed`` is false and
        the other fields say where in it the language was left.
    """
    state, byte = int(session.start(1)[0]), 0
    for index, token_id in enumerate(token_ids):
        states = np.array([state], np.int64)
        token = vocabulary.decode([token_id])
        step = {
            "index": index,
            "byte": byte,
            "token_id": token_id,
            "token": token.decode("utf-8", "backslashreplace"),
            "allowed_count": len(session.allowed(states)[1]),
            "forced": bool(session.forced(states)[0][1]),
        }
        after = int(session.advance(states, np.array([token_id], np.int64))[0])
        if after == DEAD:
            place = follow(session, state, token)
            here = describe_place(session, vocabulary, names, place, shown)
            # The count is that of the tokens in the place of this one, not of those after its head.
            here["allowed_after_head"] = here.pop("allowed_count")
            yield {**step, "is_allowed": False, "refused_byte": byte + place.byte, **here}
            return
        state, byte = after, byte + len(token)
        view = describe_state(session, state, names)
        yield {
            **step,
            "is_allowed": True,
            "may_end": bool(session.is_complete(np.array([state], np.int64))[0]),
            "readings": [
                {"under_way": reading.under_way, "viable": reading.viable, "stack": reading.stack}
                for reading in view.readings[:_SHOWN_READINGS]
            ],
            "readings_count": len(view.readings),
            **shown_stack(view),
        }

"""``check --explain``: a text token by token, what each token was read as and what it left open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.cli.texts.grammar_walk import describe_place, follow, shown_stack, unique
from cdec.core.constraint import DEAD
from cdec.core.errors import UntokenizableError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary

HEADER = ("byte", "token", "allowed", "forced", "ends", "reading", "stack")
_SHOWN_READINGS = 4
_SHOWN_TERMINALS = 4


def explain(
    constraint: Constraint, token_ids: Sequence[int], shown: int
) -> Iterator[dict[str, Any]]:
    """Step through tokens until one is not allowed.

    Args:
        constraint: A grammar, perhaps with a lookahead.
        token_ids: Tokens of a text; end ids may close it.
        shown: How many continuations to list where a token is refused.

    Yields:
        One object a token. ``byte`` is where it begins, ``allowed_count`` and ``forced`` are those
        before it, all else holds after it: ``readings`` (terminals under way, those that the parser
        takes, the stack, the rules), ``may_end``. For a refused token ``is_allowed`` is false and
        the rest says where in it the language was left.
    """
    session: Any = constraint.session("cpu")
    state, byte = int(session.start(1)[0]), 0
    for index, token_id in enumerate(token_ids):
        states = np.array([state], np.int64)
        token = constraint.vocabulary.decode([token_id])
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
            here = describe_place(constraint, session, place, shown)
            # The count is that of the tokens in the place of this one, not of those after its head.
            here["allowed_after_head"] = here.pop("allowed_count")
            yield {**step, "is_allowed": False, "refused_byte": byte + place.byte, **here}
            return
        state, byte = after, byte + len(token)
        view = session.describe(state)
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


def explained_row(step: Mapping[str, Any]) -> list[str]:
    """Return a step as cells under ``HEADER``."""
    cells = [str(step["byte"]), f'"{step["token"]}"', f"{step['allowed_count']:,}"]
    cells += ["yes" if step["forced"] else "", "yes" if step["may_end"] else ""]
    if not step["is_allowed"]:
        allowed = ", ".join(f'"{piece}"' for piece in step["allowed"])
        wanted = " ".join(step["terminals"])
        reading = f"refused at byte {step['refused_byte']}; expected {wanted}; such as {allowed}"
    else:
        reading = " | ".join(_shown_reading(reading) for reading in step["readings"])
        if step["readings_count"] > _SHOWN_READINGS:
            reading += f" | ... {step['readings_count'] - _SHOWN_READINGS} more"
    return [*cells, reading, " ".join(step["stack"])]


def _shown_reading(reading: Mapping[str, Any]) -> str:
    """Return the terminals that a reading may be inside of; those that begin next, if none."""
    names = unique(reading["under_way"])
    lead = "in" if names else "before"
    names = unique([name for name in reading["viable"] if not names or name in names])
    more = " ..." if len(names) > _SHOWN_TERMINALS else ""
    return f"{lead} {' '.join(names[:_SHOWN_TERMINALS]) or '(end)'}{more}"


def longest_tokens(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Cut a text into the longest tokens from the left, where no tokenizer says how.

    Raises:
        UntokenizableError: At some byte no token fits.
    """
    ids: dict[bytes, int] = {}
    for token_id, token in enumerate(vocabulary.token_bytes):
        ids.setdefault(token, token_id)
    ids.pop(b"", None)
    longest = max(map(len, ids), default=0)
    found, at = [], 0
    while at < len(text):
        sizes = range(min(longest, len(text) - at), 0, -1)
        size = next((size for size in sizes if text[at : at + size] in ids), 0)
        if not size:
            raise UntokenizableError(
                f"no token begins like byte {at + 1} of the text",
                hint="name the tokenizer with --tokenizer",
                byte_offset=at + 1,
            )
        found.append(ids[text[at : at + size]])
        at += size
    return found

"""White space and escapes that masks write in another way: verdicts of texts that have them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.grammars.places import Place, follow, line_and_column
from cdec.core.schemas.engine import Phase
from cdec.core.schemas.forms import described_whitespace, escapes_of, whitespace_of
from cdec.core.schemas.session import SchemaSession

__all__ = ["form_refusal"]

Refusal = dict[str, Any]
_BLANKS = b" \t\n\r"
_PART = re.compile(rb'"(?:[^"\\]|\\.)*"?|[ \t\n\r]+|[^" \t\n\r]+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_APART = re.compile(rb"[\w.+-]")
"""What numbers and words consist of: blanks between two of these part them."""
_MOST = 2000
"""Places behind white space that are tried."""


def form_refusal(
    session: SchemaSession,
    text: bytes,
    refusal: Refusal,
    options: Mapping[str, Any],
    refused: Callable[[bytes], Refusal | None],
) -> Refusal:
    """Return a refusal that tells texts of another form from those that break the schema.

    Args:
        session: Of the schema.
        text: Any bytes.
        refusal: Of the text.
        options: Of the artifact.
        refused: Returns the refusal of another text.

    Returns:
        With ``valid`` true and ``written`` false where nothing is the matter but what writers of
        JSON do otherwise, with a ``reason``; else where the text leaves the schema behind that. A
        text of other white space than was asked for by ``compact``, ``pretty`` or a bound is
        refused, with a ``reason``, too.
    """
    reason = _reason(session, text, refusal["byte"], options)
    plain = _plain(
        text,
        strips=whitespace_of(options) == "usual",
        escapes=escapes_of(options) == "usual",
    )
    if plain.text == text:
        return reason | refusal
    behind = refused(plain.text)
    if behind is None:
        return refusal | {"valid": True, "written": False} | reason
    byte = plain.origin(behind["byte"])
    line, column = line_and_column(text, byte)
    same = reason if byte == refusal["byte"] else {}
    return same | behind | {"byte": byte, "line": line, "column": column}


class _Plain(NamedTuple):
    """A text as masks write it, and from which byte of it on bytes of which place stand there."""

    text: bytes
    shifts: list[tuple[int, int]]

    def origin(self, byte: int) -> int:
        """Return the byte of the given text that a byte of this one comes from."""
        own, given = max(pair for pair in self.shifts if pair[0] <= byte)
        return given + byte - own


def _plain(text: bytes, *, strips: bool, escapes: bool) -> _Plain:
    """Return a text without white space between its parts, or escapes of what needs none."""
    made, shifts, last = bytearray(), [(0, 0)], b""
    for part in _PART.finditer(text):
        whole = part[0]
        if strips and whole[:1] in _BLANKS:
            following = text[part.end() : part.end() + 1]
            if not (_APART.fullmatch(last) and _APART.fullmatch(following)):
                shifts.append((len(made), part.end()))
                continue
        at = 0
        for escape in _ESCAPE.finditer(whole) if escapes and whole[:1] == b'"' else ():
            made += whole[at : escape.start()] + _needed(escape[0])
            at = escape.end()
            shifts.append((len(made), part.start() + at))
        made += whole[at:]
        last = whole[-1:]
    return _Plain(bytes(made), shifts)


def _needed(escape: bytes) -> bytes:
    """Return how an escape's character is written: as it is, if it is printable ASCII."""
    try:
        meant = json.loads(b'"' + escape + b'"')
    except ValueError:
        return escape
    is_printable = len(meant) == 1 and " " <= meant <= "~"
    return json.dumps(meant)[1:-1].encode() if is_printable else escape


def _reason(
    session: SchemaSession, text: bytes, byte: int, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return the ``reason`` where a text could go on with other white space, or another escape."""
    place = follow(session, int(session.start(1)[0]), text[:byte])
    if session.level(place.state).phase not in (Phase.KEY, Phase.STRING):
        if not _goes_on_behind_blanks(session, place, text[byte:].lstrip(_BLANKS)):
            return {}
        said = described_whitespace(options)
        return {"reason": f"white space that is not written here, where it is {said}"}
    found = next((each for each in _ESCAPE.finditer(text) if each.end() > byte), None)
    if found is None or found.start() > byte or _needed(found[0]) == found[0]:
        return {}
    spelled, written = found[0].decode(), _needed(found[0]).decode()
    return {"reason": f"{spelled} is an escape that is not written here; {written} is"}


def _goes_on_behind_blanks(session: SchemaSession, place: Place, rest: bytes) -> bool:
    """Say whether a text goes on as it does with other blanks in a place, or with none."""
    if session.level(place.state).phase == Phase.RAW and rest[:1] not in b",]}":
        # What stands behind blanks does not go on with a number.
        return False
    states = _behind_blanks(session, place.state)
    if not rest:
        return bool(session.is_complete(states).any())
    return bool((session.advance_bytes(states, [rest[:1]] * len(states)) >= 0).any())


def _behind_blanks(session: SchemaSession, state: int) -> NDArray[np.int64]:
    """Return the states in which a text may be after any white space, int64[n]."""
    known = latest = np.array([state], np.int64)
    while len(latest) and len(known) < _MOST:
        after = [session.advance_bytes(latest, [bytes([blank])] * len(latest)) for blank in _BLANKS]
        found = np.unique(np.concatenate(after))
        latest = np.setdiff1d(found[found >= 0], known)
        known = np.concatenate([known, latest])
    return known

"""Numbers that masks would write in another way: which one, and how."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from cdec.core.grammars.places import follow, line_and_column
from cdec.core.schemas.places import text_refusal
from cdec.core.schemas.session import SchemaSession
from cdec.core.schemas.validity.instances import is_finite
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["spelling_refusal"]

_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:[eE][+-]?[0-9]{1,6})?")
_SYMBOLS = b"+-.0123456789eE"
_MOST = 32
"""Numbers of one text that are tried in another spelling."""


class _Respelled(NamedTuple):
    """A text in which some numbers are spelled as masks write them.

    text: All of it. until: Bytes of it that replace the first bytes of the given text, shift: how
    many more they are. given, written: The first of the numbers.
    """

    text: bytes
    until: int
    shift: int
    given: str
    written: str


def spelling_refusal(
    session: SchemaSession, vocabulary: Vocabulary, text: bytes, refusal: dict[str, Any], shown: int
) -> dict[str, Any]:
    """Return a refusal that tells numbers that are spelled otherwise from those that are wrong.

    Args:
        session: Of the schema.
        vocabulary: Of the model.
        text: Any bytes.
        refusal: Of ``text_refusal``.
        shown: How many continuations to list.

    Returns:
        With ``reason`` where a number's value may stand there, and with ``written`` false where
        nothing else is the matter; else where the text leaves the schema behind such numbers.
    """
    found, place = _Respelled(text, 0, 0, "", ""), refusal
    for _ in range(_MOST):
        following = _respelled(session, found, place["byte"])
        if following is None:
            break
        found = following
        behind = text_refusal(session, vocabulary, found.text, shown)
        if behind is None:
            reason = f"{found.given} is a spelling of this number that is not written here"
            return refusal | {"written": False, "reason": f"{reason}; {found.written} is"}
        place = behind
    byte = place["byte"] - found.shift
    line, column = line_and_column(text, byte)
    return place | {"byte": byte, "line": line, "column": column} | _range(text, byte)


def _range(text: bytes, byte: int) -> dict[str, str]:
    """Say where a number that is refused is none that doubles can hold."""
    begin, end = _span(text, byte)
    if not _NUMBER.fullmatch(text, begin, end) or is_finite(text[begin:end].decode()):
        return {}
    return {"reason": f"{text[begin:end].decode()} is no number that doubles can hold"}


def _respelled(session: SchemaSession, given: _Respelled, byte: int) -> _Respelled | None:
    """Return the text with the number at a byte spelled in a way that leads further."""
    text, (begin, end) = given.text, _span(given.text, byte)
    place = follow(session, int(session.start(1)[0]), text[:begin])
    if begin < given.until or place.byte < begin or not _NUMBER.fullmatch(text, begin, end):
        return None
    if not session.level(place.state).at(text[begin : begin + 1]).awaits_value:
        # Digits within a string are no number.
        return None
    number = text[begin:end].decode()
    for written in _spellings(number):
        after = follow(session, place.state, written.encode() + text[end : end + 1])
        is_last = end == len(text)
        if after.byte < len(written) + (not is_last):
            continue
        if is_last and not session.is_complete(np.array([after.state], np.int64))[0]:
            continue
        first = (given.given, given.written) if given.given else (number, written)
        until, shift = begin + len(written), given.shift + len(written) - (end - begin)
        respelled = text[:begin] + written.encode() + text[end:]
        return _Respelled(respelled, until, shift, *first)
    return None


def _span(text: bytes, byte: int) -> tuple[int, int]:
    """Return where the symbols of numbers around a byte begin and end."""
    begin = end = byte
    while begin > 0 and text[begin - 1] in _SYMBOLS:
        begin -= 1
    while end < len(text) and text[end] in _SYMBOLS:
        end += 1
    return begin, end


def _spellings(number: str) -> list[str]:
    """Return the usual spellings of a number: normalised with an exponent, and with none."""
    sign, digits, power = Decimal(number).as_tuple()
    assert isinstance(power, int)
    figures = "".join(map(str, digits)).lstrip("0")
    power += len(figures) - 1
    figures = figures.rstrip("0")
    if not figures:
        return ["0"]
    minus, rest = "-" * sign, f".{figures[1:]}" if figures[1:] else ""
    found = [f"{minus}{figures[0]}{rest}e{power}"]
    if abs(power) < 400:
        found.append(format(Decimal(found[0]), "f"))
    return found

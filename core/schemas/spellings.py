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

__all__ = ["range_reason", "spelling_refusal"]

_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SYMBOLS = b"+-.0123456789eE"
_LONGEST = 6
"""Digits of exponents that are computed with."""
_MOST = 32
"""Numbers of one text that are tried in another spelling."""


class _Number(NamedTuple):
    """A number of a text: its bytes, and the state of a session before it."""

    begin: int
    end: int
    state: int


class _Respelled(NamedTuple):
    """A text in which some numbers are spelled as masks write them.

    text: All of it. until: Bytes of it that replace the first bytes of the given text; shift: how
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
        With ``reason`` and with ``written`` false where nothing is the matter but how numbers are
        spelled; else where the text leaves the schema behind such numbers.
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
    return place | {"byte": byte, "line": line, "column": column}


def range_reason(session: SchemaSession, text: bytes, byte: int) -> dict[str, str]:
    """Return the ``reason`` where the number at a byte is none that doubles can hold."""
    number = _number(session, text, byte)
    if number is None or is_finite(text[number.begin : number.end].decode()):
        return {}
    shown = text[number.begin : number.end].decode()
    return {"reason": f"{shown} is no number that doubles can hold"}


def _number(session: SchemaSession, text: bytes, byte: int) -> _Number | None:
    """Return the number at a byte of a text, None where there is none."""
    begin = end = byte
    while begin > 0 and text[begin - 1] in _SYMBOLS:
        begin -= 1
    while end < len(text) and text[end] in _SYMBOLS:
        end += 1
    if not _NUMBER.fullmatch(text, begin, end):
        return None
    place = follow(session, int(session.start(1)[0]), text[:begin])
    # Digits within a string are no number.
    is_value = session.level(place.state).at(text[begin : begin + 1]).awaits_value
    return _Number(begin, end, place.state) if place.byte == begin and is_value else None


def _respelled(session: SchemaSession, given: _Respelled, byte: int) -> _Respelled | None:
    """Return the text with the number at a byte spelled in a way that leads further."""
    text, found = given.text, _number(session, given.text, byte)
    if found is None or found.begin < given.until:
        return None
    number, behind = text[found.begin : found.end].decode(), text[found.end :]
    for written in _spellings(number):
        after = follow(session, found.state, written.encode() + behind[:1])
        if after.byte < len(written) + len(behind[:1]):
            continue
        if not behind and not session.is_complete(np.array([after.state], np.int64))[0]:
            continue
        first = (given.given, given.written) if given.given else (number, written)
        until = found.begin + len(written)
        respelled = text[: found.begin] + written.encode() + behind
        return _Respelled(respelled, until, given.shift + len(written) - len(number), *first)
    return None


def _spellings(number: str) -> list[str]:
    """Return the usual spellings of a number: normalised with an exponent, and with none."""
    exponent = re.split("[eE]", number)[1:]
    if exponent and len(exponent[0].lstrip("+-0")) > _LONGEST:
        return []
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

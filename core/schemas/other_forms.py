"""Other forms of valid texts: numbers, white space and escapes that masks write in another way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.schemas.levels import Level, Phase, text_refusal
from cdec.core.schemas.session import SchemaSession
from cdec.core.schemas.validity import is_finite
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import ViablePrefix, follow, line_and_column

_WHITESPACE = {
    "usual": "usual: none, one blank behind : and ,, or lines indented by 2 or 4 blanks or a tab, "
    "one style a text",
    "compact": "compact: none",
    "pretty": "pretty: lines indented by 2 blanks",
}


def whitespace_of(options: Mapping[str, Any]) -> str:
    """Return the white space of the texts of an artifact, given its options."""
    return str(options.get("whitespace", "any"))


def escapes_of(options: Mapping[str, Any]) -> str:
    """Return the escapes of the texts of an artifact; all where it does not know the option."""
    return str(options.get("escapes", "any"))


def described_whitespace(options: Mapping[str, Any]) -> str:
    """Return the white space of texts in words."""
    most = options.get("max_whitespace")
    bound = f"at most {most:,} in a row" if isinstance(most, int) else "?"
    return _WHITESPACE.get(whitespace_of(options), f"any: {bound}")


def described_escapes(options: Mapping[str, Any]) -> str:
    """Return the escapes of texts in words."""
    if escapes_of(options) == "usual":
        return 'usual: of printable ASCII only " and \\ are escaped'
    return "any"


_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SYMBOLS = b"+-.0123456789eE"
_LONGEST = 6
"""Digits of exponents that are computed with."""
_MOST_NUMBERS = 32
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
    for _ in range(_MOST_NUMBERS):
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
    is_value = Level.of(session, place.state).at(text[begin : begin + 1]).awaits_value
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


Refusal = dict[str, Any]
_BLANKS = b" \t\n\r"
_PART = re.compile(rb'"(?:[^"\\]|\\.)*"?|[ \t\n\r]+|[^" \t\n\r]+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_APART = re.compile(rb"[\w.+-]")
"""What numbers and words consist of: blanks between two of these part them."""
_MOST_PLACES = 2000
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
    if Level.of(session, place.state).phase not in (Phase.KEY, Phase.STRING):
        if not _goes_on_behind_blanks(session, place, text[byte:].lstrip(_BLANKS)):
            return {}
        said = described_whitespace(options)
        return {"reason": f"white space that is not written here, where it is {said}"}
    found = next((each for each in _ESCAPE.finditer(text) if each.end() > byte), None)
    if found is None or found.start() > byte or _needed(found[0]) == found[0]:
        return {}
    spelled, written = found[0].decode(), _needed(found[0]).decode()
    return {"reason": f"{spelled} is an escape that is not written here; {written} is"}


def _goes_on_behind_blanks(session: SchemaSession, place: ViablePrefix, rest: bytes) -> bool:
    """Say whether a text goes on as it does with other blanks in a place, or with none."""
    if Level.of(session, place.state).phase == Phase.RAW and rest[:1] not in b",]}":
        # What stands behind blanks does not go on with a number.
        return False
    states = _behind_blanks(session, place.state)
    if not rest:
        return bool(session.is_complete(states).any())
    return bool((session.advance_bytes(states, [rest[:1]] * len(states)) >= 0).any())


def _behind_blanks(session: SchemaSession, state: int) -> NDArray[np.int64]:
    """Return the states in which a text may be after any white space, int64[n]."""
    known = latest = np.array([state], np.int64)
    while len(latest) and len(known) < _MOST_PLACES:
        after = [session.advance_bytes(latest, [bytes([blank])] * len(latest)) for blank in _BLANKS]
        found = np.unique(np.concatenate(after))
        latest = np.setdiff1d(found[found >= 0], known)
        known = np.concatenate([known, latest])
    return known

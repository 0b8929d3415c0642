"""Tokens of `::=` grammars with their positions, and what literals and character classes spell."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cdec.compilers.grammars.automata.characters import (
    EVERYTHING,
    MAX_CODE_POINT,
    Ranges,
    complement,
    normalised,
)
from cdec.core.errors import CdecError
from cdec.core.grammars.errors import GrammarSyntaxError, GrammarUnsupportedError

# subtle: possessive loops; a loop that may give back keeps 200 bytes for every character.
_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n\f\v]+)
    | (?P<comment>\#[^\r\n]*)
    | (?P<define>::=)
    | (?P<literal>"(?:[^"\\\r\n]++|\\[^\r\n])*+" | '(?:[^'\\\r\n]++|\\[^\r\n])*+')
    | (?P<class>\[(?:[^\]\\\r\n]++|\\[^\r\n])*+\])
    | (?P<but>!"[\U0010ff80-\U0010ffbf]"[ \t]*[*+])
    | (?P<counts>\{[ \t]*[0-9]*[ \t]*(?:,[ \t]*[0-9]*[ \t]*)?\})
    | (?P<name>[\w\-](?:[\w.\-]*[\w\-])?)
    | (?P<mark>[()|*+?.])
    """,
    re.VERBOSE,
)

_UNSUPPORTED = (
    (
        re.compile(r"!?<\[?[^<>\s]*\]?>"),
        "a name in angle brackets",
        "write rule names without brackets",
    ),
    (re.compile(r"/\*"), "a comment /* */", "begin comments with #"),
    (re.compile(r"//"), "a comment //", "begin comments with #"),
    (
        re.compile(r"/(?:[^/\\\n]|\\.)+/"),
        "a regular expression /.../",
        "write character classes and repetitions, or the grammar in Lark's dialect",
    ),
    (re.compile(r"%\w+"), "a directive", "directives belong to Lark's dialect: `format` lark"),
    (re.compile(r"@\w*"), "an annotation", "leave it out"),
    (re.compile(r"[&!=]"), "look-ahead", "say what is allowed instead of what is not"),
)

_UNFINISHED = {
    '"': ("a literal without its closing quote", 'end it with ", and write a line end as \\n'),
    "'": ("a literal without its closing quote", "end it with ', and write a line end as \\n"),
    "[": ("a character class without its ]", "end it with ], and write a line end as \\n"),
    "{": ("a bad count", "write {m}, {m,}, {,n} or {m,n}"),
    ":": ("a colon", "a rule is NAME ::= ...; for Lark's dialect use `format` lark"),
}
_SURROGATES = (0xD800, 0xDFFF)
_PIECE = re.compile(
    r"\\x(?P<x>[0-9a-fA-F]{2})|\\u(?P<u>[0-9a-fA-F]{4})|\\U(?P<U>[0-9a-fA-F]{8})"
    r"|\\(?P<escape>.)|(?P<plain>[^\\])",
    re.DOTALL,
)
_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "b": 8, "a": 7, "0": 0}
_SHORTHANDS = frozenset("dDwWsSpPhHRXN")


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: ``define``, ``literal``, ``class``, ``counts``, ``name``, a mark itself, ``but`` (any
            tokens but a special one: ``!"X"*``), or ``end``.
        text: As written.
        offset: Of its first character in the source.
    """

    kind: str
    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Source:
    """A grammar text that knows its lines.

    Attributes:
        text: The source.
        line_starts: Offset of the first character of each line.
    """

    text: str
    line_starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Source:
        """Return ``text`` with its lines counted."""
        return cls(text, (0, *(m.end() for m in re.finditer("\r\n|\n|\r", text))))

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def first_on_line(self, offset: int) -> bool:
        """Return whether only blanks precede the offset on its line."""
        column = self.position(offset)[1]
        return not self.text[offset - column + 1 : offset].strip(" \t\f\v")

    def error(
        self, kind: type[CdecError], offset: int, message: str, hint: str, **details: object
    ) -> CdecError:
        """Return an error of ``kind`` that names the place of ``offset``."""
        line, column = self.position(offset)
        place = f"line {line}, column {column}: {message}"
        return kind(place, hint=hint, line=line, column=column, **details)


def tokens_of(source: Source) -> Iterator[Token]:
    """Yield the tokens of a grammar, and one of kind ``end``.

    Raises:
        GrammarSyntaxError: Text that begins no token.
        GrammarUnsupportedError: A construct of another dialect, named.
    """
    offset, text = 0, source.text
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise _no_token(source, offset)
        kind = str(match.lastgroup)
        if kind not in ("space", "comment"):
            yield Token(match.group() if kind == "mark" else kind, match.group(), offset)
        offset = match.end()
    yield Token("end", "", len(text))


def unsupported(source: Source, offset: int, what: str, text: str, hint: str) -> CdecError:
    """Return the error of a construct of another dialect."""
    message = f"{what} is not supported: {text!r}"
    return source.error(GrammarUnsupportedError, offset, message, hint, construct=text)


def _no_token(source: Source, offset: int) -> CdecError:
    found = source.text[offset]
    if found in _UNFINISHED:
        message, hint = _UNFINISHED[found]
        return source.error(GrammarSyntaxError, offset, message, hint)
    for pattern, construct, hint in _UNSUPPORTED:
        match = pattern.match(source.text, offset)
        if match:
            return unsupported(source, offset, construct, match.group()[:40], hint)
    message = f"{found!r} begins no part of a grammar"
    return source.error(
        GrammarSyntaxError,
        offset,
        message,
        "expected a rule name, a literal, a class, a bracket or one of | * + ? {m,n}",
    )


def literal_text(source: Source, token: Token) -> str:
    """Return the text a literal stands for.

    Raises:
        GrammarSyntaxError: An unknown or unfinished escape, or one of no Unicode character.
    """
    if "\\" not in token.text:
        return token.text[1:-1]
    pieces = _pieces(source, token.offset + 1, token.text[1:-1])
    return "".join(chr(code) for code, _, _ in pieces)


def class_ranges(source: Source, token: Token) -> Ranges:
    """Return the characters of a class as sorted ranges that neither touch nor overlap.

    A ``-`` between two characters makes a range; first, last or escaped it is itself.

    Raises:
        GrammarSyntaxError: A bad escape, a range whose ends are swapped, a class of nothing.
        GrammarUnsupportedError: A shorthand such as ``\\d``.
    """
    negated = token.text.startswith("[^")
    begin = 2 if negated else 1
    pieces = _pieces(source, token.offset + begin, token.text[begin:-1])
    ranges: list[tuple[int, int]] = []
    index = 0
    while index < len(pieces):
        low, offset, _ = pieces[index]
        high = low
        if index + 2 < len(pieces) and pieces[index + 1][2]:
            high = pieces[index + 2][0]
            index += 2
        if high < low:
            raise source.error(
                GrammarSyntaxError,
                offset,
                f"the range {chr(low)!r} to {chr(high)!r} is swapped",
                "write the smaller character first, or escape - as \\-",
            )
        ranges.append((low, high))
        index += 1
    if not ranges:
        message, hint = "an empty character class", "to match ] itself write \\]"
        raise source.error(GrammarSyntaxError, token.offset, message, hint)
    merged = normalised(ranges)
    merged = _complement(merged) if negated else merged
    if not merged:
        message, hint = "a character class that matches nothing", "leave a character in it"
        raise source.error(GrammarSyntaxError, token.offset, message, hint)
    return merged


def class_pattern(ranges: Ranges) -> str:
    """Return the pattern of one character out of sorted ranges, as ``re`` reads it."""
    if ranges == EVERYTHING:
        return "(?s:.)"
    if ranges[0][0] == 0 and ranges[-1][1] == MAX_CODE_POINT:
        return f"[^{_spell(_complement(ranges))}]"
    return f"[{_spell(ranges)}]"


def _complement(ranges: Ranges) -> Ranges:
    # subtle: characters only; a gap of nothing but surrogates is no gap in UTF-8.
    first, last = _SURROGATES
    return tuple(gap for gap in complement(ranges) if not (first <= gap[0] and gap[1] <= last))


def _spell(ranges: Ranges) -> str:
    parts = []
    for low, high in ranges:
        parts.append(_escaped(low))
        if high > low:
            parts.append(("-" if high > low + 1 else "") + _escaped(high))
    return "".join(parts)


def _escaped(code: int) -> str:
    character = chr(code)
    if (character.isascii() and character.isalnum()) or character in " _":
        return character
    if code < 0x21 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if code < 0x7F:
        return "\\" + character
    if character.isprintable() and character.isalnum():
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _pieces(source: Source, offset: int, body: str) -> list[tuple[int, int, bool]]:
    """Return (code, offset, is a bare ``-``) of each character that ``body`` spells."""
    pieces = []
    for match in _PIECE.finditer(body):
        at = offset + match.start()
        code = _code(source, at, match)
        if code > MAX_CODE_POINT or _SURROGATES[0] <= code <= _SURROGATES[1]:
            raise source.error(
                GrammarSyntaxError,
                at,
                f"{match.group()} is no Unicode character",
                "write a code point up to \\U0010FFFF that is no surrogate",
            )
        pieces.append((code, at, match.group() == "-"))
    return pieces


def _code(source: Source, at: int, match: re.Match[str]) -> int:
    if match["plain"]:
        return ord(match["plain"])
    if match["escape"] is None:
        return int(match["x"] or match["u"] or match["U"], 16)
    letter = match["escape"]
    if letter in _CONTROLS:
        return _CONTROLS[letter]
    if letter in _SHORTHANDS:
        raise source.error(
            GrammarUnsupportedError,
            at,
            f"the shorthand \\{letter} is not supported",
            "write the characters themselves, as [0-9] for digits",
            construct=f"\\{letter}",
        )
    if letter in "xuU" or letter.isalnum():
        raise source.error(
            GrammarSyntaxError,
            at,
            f"\\{letter} is no escape, or has too few digits",
            'write \\n \\t \\r \\\\ \\" \\xHH \\uXXXX or \\UXXXXXXXX',
        )
    return ord(letter)

"""Lexer of `::=` grammars: text to tokens with positions, and the errors of what is no token."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    | (?P<counts>\{[ \t]*[0-9]*[ \t]*(?:,[ \t]*[0-9]*[ \t]*)?\})
    | (?P<name>[\w\-](?:[\w.\-]*[\w\-])?)
    | (?P<mark>[()|*+?.])
    """,
    re.VERBOSE,
)

_UNSUPPORTED = (
    (
        re.compile(r"!?<\[?[^<>\s]*\]?>"),
        "a token reference or a name in angle brackets",
        "write the token's text as a literal, and rule names without brackets",
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


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: ``define``, ``literal``, ``class``, ``counts``, ``name``, a mark itself, or ``end``.
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
        return not self.text[offset - column + 1 : offset].strip(" \t\f\v\ufeff")

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

"""Outline of a grammar in Lark's dialect, read before Lark sees it, and Lark's errors placed in it.

Lark keeps no positions and knows no limits. One pass over the tokens gives both: where every name,
literal and count stands, and which statement it belongs to. A statement ends at the end of a line
that the next one does not continue with ``|``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from lark.exceptions import GrammarError as LarkGrammarError
from lark.exceptions import LarkError, UnexpectedInput
from lark.lexer import Token as LarkToken
from lark.load_grammar import _literal_to_pattern

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    TerminalRecursionError,
)

_TOKEN = re.compile(
    r"""
      (?P<SKIP>    [ \t\f\r]+ | //[^\n]* | \#[^\n]* | \\[ ]*\n )
    | (?P<NL>      \n\s* )
    | (?P<STRING>  "(?:[^"\\\n]|\\[^\n])*"i? )
    | (?P<REGEXP>  /(?!/)(?:[^/\\]|\\[\s\S])*/[imslux]* )
    | (?P<RULE>    _?[a-z][_a-z0-9]* )
    | (?P<TERMINAL> _?[A-Z][_A-Z0-9]* )
    | (?P<NUMBER>  [+-]?[0-9]+ )
    | (?P<DIRECTIVE> %(?:ignore|override|declare|extend|import)(?![a-z]) )
    | (?P<MARK>    -> | \.\. | [.|~:,()\[\]{}?*+!] )
    """,
    re.VERBOSE,
)
_GBNF = re.compile(r"^[ \t]*[\w-][\w.-]*[ \t]*::=", re.MULTILINE)
_Error = TypeVar("_Error", bound=CdecError)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
GBNF_HINT = "looks like GBNF; use `format` gbnf"
_KINDS: tuple[tuple[str, type[GrammarError]], ...] = (
    ("defined more than once", GrammarDuplicateError),
    ("Symbol already defined", GrammarDuplicateError),
    ("not defined", GrammarUndefinedError),
    ("nonexisting", GrammarUndefinedError),
    ("wasn't defined", GrammarUndefinedError),
    ("Recursion in terminal", TerminalRecursionError),
)
_COUNTED = re.compile(r"\{[ ]*(?P<low>[0-9]*)[ ]*(?P<comma>,?)[ ]*(?P<high>[0-9]*)[ ]*\}")
"""A repetition as regular expressions write it."""
_LONGEST_COUNT = 20
_NAME = re.compile(r"\b_?[A-Za-z][A-Za-z0-9_]*\b")


class Token(NamedTuple):
    """One token: its kind (a group of the pattern above), text and place in the source."""

    kind: str
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A definition or a directive.

    Attributes:
        directive: ``%import`` and so on; empty for a plain definition.
        name: What is defined; None where nothing is, or where the statement is malformed.
        parameters: Of a template.
        body: Tokens after the colon, or after the directive.
    """

    directive: str
    name: Token | None
    parameters: tuple[str, ...]
    body: Sequence[Token]

    @property
    def is_terminal(self) -> bool:
        """True where it defines a terminal."""
        return self.name is not None and self.name.kind == "TERMINAL"


@dataclass(slots=True)
class Outline:
    """A grammar's statements and where they stand.

    Attributes:
        text: The source.
        tokens: All tokens, without white space and comments.
        statements: In the source's order.
        is_well_formed: Every statement begins as one should; otherwise Lark says what is wrong.
        broken: Regular expressions within terminals that are none without their neighbours, by
            their text, and those of imported files: the errors that they would be alone.
    """

    text: str
    tokens: list[Token]
    statements: list[Statement]
    is_well_formed: bool
    line_starts: list[int] = field(default_factory=list)
    broken: dict[str, GrammarError] = field(default_factory=dict)

    def place(self, position: int) -> dict[str, int]:
        """Return line and column of a place in the source, from 1, as details of an error."""
        if not self.line_starts:
            self.line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self.line_starts, position)
        return {"line": line, "column": position - self.line_starts[line - 1] + 1}

    def where(self, position: int) -> str:
        """Return a place in words."""
        place = self.place(position)
        return f"line {place['line']}, column {place['column']}"

    def error(
        self, kind: type[_Error], position: int, message: str, hint: str, **details: object
    ) -> _Error:
        """Return an error of ``kind`` that names a place in the source."""
        text = f"{self.where(position)}: {message}"
        return kind(text, hint=hint, **details, **self.place(position))

    @property
    def declared(self) -> list[str]:
        """Names that are declared: terminals without a text."""
        bodies = [s.body for s in self.statements if s.directive == "%declare"]
        return list(dict.fromkeys(token.text for body in bodies for token in body))

    def definitions(self) -> Iterator[Statement]:
        """Yield the statements that define a rule or a terminal."""
        return (s for s in self.statements if s.name is not None)


def read_outline(text: str) -> Outline:
    """Read tokens and statements.

    Args:
        text: The grammar, line ends as line feeds.

    Returns:
        The outline; the cost is linear in the text.

    Raises:
        GrammarSyntaxError: A character that begins no token, an unterminated literal.
    """
    outline = Outline(text, [], [], True)
    lines: list[list[Token]] = [[]]
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() != position:
            break
        kind = match.lastgroup or ""
        if kind == "NL":
            lines.append([])
        elif kind != "SKIP":
            lines[-1].append(Token(kind, match.group(), position))
        position = match.end()
    if position < len(text):
        raise _bad_character(outline, position)
    for tokens in _joined(lines):
        outline.tokens += tokens
        statement = _statement(tokens)
        outline.statements.append(statement)
        if statement.name is None and statement.directive in ("", "%override", "%extend"):
            outline.is_well_formed = False
    return outline


def looks_like_gbnf(text: str) -> bool:
    """Say whether a line begins as a rule of ``::=`` EBNF does."""
    return _GBNF.search(text) is not None


def mixed_name(outline: Outline, position: int) -> GrammarSyntaxError | None:
    """Return the error of a name that Lark takes for several, a rule and a terminal side by side.

    Args:
        position: Of a token that is wrong: a part of the name, or a modifier before it.

    Returns:
        None where no name of small and capital letters stands there.
    """
    while outline.text[position : position + 1] in ("?", "!"):
        position += 1
    start = outline.text.rfind("\n", 0, position) + 1
    words = _WORD.finditer(outline.text, start)
    word = next((word for word in words if word.end() > position), None)
    if word is None or word.start() > position:
        return None
    name = word.group()
    if name in (name.lower(), name.upper()):
        return None
    return outline.error(
        GrammarSyntaxError,
        word.start(),
        f"the name {name!r} mixes small and capital letters",
        f"write {name.lower()} for a rule, {name.upper()} for a terminal",
        name=name,
    )


def _joined(lines: list[list[Token]]) -> Iterator[list[Token]]:
    statement: list[Token] = []
    for tokens, following in pairwise([*(line for line in lines if line), []]):
        statement += tokens
        if not following or following[0].text != "|":
            yield statement
            statement = []


def _statement(tokens: list[Token]) -> Statement:
    directive, rest = "", tokens
    if tokens[0].kind == "DIRECTIVE":
        directive, rest = tokens[0].text, tokens[1:]
        if directive not in ("%override", "%extend"):
            return Statement(directive, None, (), rest)
    head = 0
    while head < len(rest) and rest[head].text in ("!", "?"):
        head += 1
    colon = next((i for i, token in enumerate(rest) if token.text == ":"), None)
    if colon is None or head >= colon or rest[head].kind not in ("RULE", "TERMINAL"):
        return Statement(directive, None, (), rest)
    parameters = tuple(token.text for token in rest[head + 1 : colon] if token.kind == "RULE")
    return Statement(directive, rest[head], parameters, rest[colon + 1 :])


def _bad_character(outline: Outline, position: int) -> GrammarSyntaxError:
    character = outline.text[position]
    hint = "see the Lark grammar reference for what may stand in a grammar"
    if looks_like_gbnf(outline.text):
        message, hint = f"unexpected {character!r}", GBNF_HINT
    elif character == '"':
        message, hint = "a string without end", 'close it with " on the same line'
    elif character == "/":
        message, hint = "a regular expression without end", "close it with /, write / inside as \\/"
    elif character == "%":
        message = "an unknown directive"
        hint = "expected one of %ignore, %import, %override, %extend"
    else:
        message = f"unexpected {character!r}"
    return outline.error(GrammarSyntaxError, position, message, hint)


def imports_of(outline: Outline) -> list[tuple[list[Token], list[tuple[str, str]]]]:
    """Return the ``%import`` statements: tokens of the path, and (name there, name here) pairs."""
    found = []
    for statement in outline.statements:
        if statement.directive != "%import" or not statement.body:
            continue
        path = list(statement.body)
        marks = [token.text for token in path]
        names = [t for t in path if t.kind in ("RULE", "TERMINAL")]
        if "(" in marks:
            inside = [t for t in path[marks.index("(") :] if t in names]
            found.append((path[: marks.index("(")], [(t.text, t.text) for t in inside]))
        elif names:
            cut = marks.index("->") if "->" in marks else len(path)
            before = [t for t in path[:cut] if t in names]
            pair = [(before[-1].text, names[-1].text)] if before else []
            found.append((path[:cut], pair))
    return found


def read_literal(token: Token) -> Any:
    """Return Lark's pattern of a literal; ValueError where it is none."""
    try:
        pattern = _literal_to_pattern(LarkToken(token.kind, token.text))
        pattern.value.encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate, which has no UTF-8 form") from None
    except LarkGrammarError as error:
        raise ValueError(_reason(error)) from None
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"an escape that cannot be read ({error})") from None
    return pattern


def _reason(error: LarkGrammarError) -> str:
    cause = next((a for a in error.args if isinstance(a, SyntaxError)), None)
    if cause is not None:
        return f"an escape that cannot be read ({cause.msg})"
    return str(error)


def translate(error: Exception, outline: Outline) -> GrammarError:
    """Return the error that says what Lark's exception says.

    Args:
        error: Raised by Lark while it read the grammar.

    Returns:
        An error with the place of the unexpected token, else of the definition that is named.
    """
    message = str(error).split("\n", 1)[0]
    cause: UnexpectedInput | None = None
    link: BaseException | None = error
    while link is not None:  # the first one raised is of the grammar, later ones of Lark's examples
        cause = link if isinstance(link, UnexpectedInput) else cause
        link = link.__context__
    if cause is not None:
        return _unexpected(message if isinstance(error, LarkError) else "", cause, outline)
    kind = next((kind for text, kind in _KINDS if text in message), GrammarSyntaxError)
    positions = {s.name.text: s.name.position for s in outline.definitions() if s.name}
    named = [name for name in _NAME.findall(message) if name in positions]
    if not named:
        return kind(message, hint="see the Lark grammar reference")
    position = positions[named[-1]]
    return outline.error(kind, position, message, "see the Lark grammar reference", name=named[-1])


def _unexpected(message: str, cause: UnexpectedInput, outline: Outline) -> GrammarSyntaxError:
    message = re.sub(r",? at line .*|Unexpected token.*", "", message).strip() or "misplaced token"
    position = cause.pos_in_stream
    if not isinstance(position, int) or not 0 <= position < len(outline.text):
        position = max(len(outline.text) - 1, 0)
    if (mixed := mixed_name(outline, position)) is not None:
        return mixed
    found = outline.text[position : position + 20].split("\n", 1)[0]
    shown = repr(found) if found else "the end of the line"
    hint = _hint(outline, position)
    return outline.error(GrammarSyntaxError, position, f"{message}, found {shown}", hint)


def _hint(outline: Outline, position: int) -> str:
    """Say what to write instead of what stands at a place."""
    if looks_like_gbnf(outline.text):
        return GBNF_HINT
    counted = _COUNTED.search(outline.text, max(position - _LONGEST_COUNT, 0), len(outline.text))
    if counted is not None and counted.start() <= position < counted.end():
        low, comma, high = counted["low"] or "0", counted["comma"], counted["high"]
        if not comma:
            return f"write ~{low}, a count of Lark's"
        return f"write ~{low}..{high}, counts of Lark's" if high else f"write ~{low} and (...)*"
    return "one definition a line: name: alternative | alternative"


def too_deep(where: str, limits: GrammarLimits, place: dict[str, int]) -> LimitError:
    """Return the error of brackets that nest deeper than the limit."""
    return LimitError(
        f"{where}: brackets nest deeper than {limits.max_nesting}, or than Python's re can follow",
        hint="give the inner parts names of their own, or raise `max_nesting`",
        limit="max_nesting",
        **place,
    )


def too_many(where: str, limits: GrammarLimits, place: dict[str, int]) -> LimitError:
    """Return the error of a count beyond the limit."""
    return LimitError(
        f"{where}: a repetition counts further than {limits.max_repeat:,}",
        hint="raise `max_repeat`, or repeat without a bound",
        limit="max_repeat",
        **place,
    )

"""Checks of the literals of a Lark grammar where they stand: strings, ranges, patterns."""

from __future__ import annotations

import re
from typing import Any

from lark.exceptions import GrammarError as LarkGrammarError
from lark.lexer import Token as LarkToken
from lark.load_grammar import _literal_to_pattern

from cdec.compilers.grammars.automata.pattern_checks import check_depth, examine
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.scan import Outline, Token
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import (
    EmptyTerminalError,
    GrammarSyntaxError,
    RegexSyntaxError,
)


def check_literals(outline: Outline, limits: GrammarLimits) -> None:
    """Check every literal of a grammar.

    A regular expression within the definition of a terminal may be a piece of one, which only
    makes sense with its neighbours: ``/(?!/ RESERVED /)/ NAME``. Whether all of it is one is seen
    where the terminal is read; until then it is noted in ``outline.broken``.

    Args:
        outline: The grammar.
        limits: ``max_nesting`` and ``max_repeat`` hold within regular expressions.

    Raises:
        EmptyTerminalError: The empty string.
        GrammarSyntaxError: A string that cannot be read, a bad range.
        RegexSyntaxError: A regular expression of a rule that ``re`` refuses.
        LimitError: A limit is passed.
    """
    seen: set[tuple[str, bool]] = set()
    for statement in outline.statements:
        body = statement.body
        is_terminal = statement.is_terminal or statement.directive == "%ignore"
        for i, token in enumerate(body):
            if token.kind == "STRING" and i + 1 < len(body) and body[i + 1].text == "..":
                _check_range(outline, body[i : i + 3])
            if token.kind not in ("STRING", "REGEXP") or (token.text, is_terminal) in seen:
                continue
            seen.add((token.text, is_terminal))
            if token.kind == "STRING":
                _check_string(outline, token)
            else:
                _check_regex(outline, token, limits, is_piece=is_terminal)


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


def _check_string(outline: Outline, token: Token) -> None:
    if token.text in ('""', '""i'):
        raise EmptyTerminalError(
            f"{outline.where(token.position)}: an empty literal matches no text",
            hint="leave it out, or write an empty alternative",
            **outline.place(token.position),
        )
    if "\\" not in token.text and token.text.isascii():
        return
    try:
        read_literal(token)
    except ValueError as error:
        raise GrammarSyntaxError(
            f"{outline.where(token.position)}: {error}",
            hint="escapes are those of Python strings",
            **outline.place(token.position),
        ) from None


def _check_range(outline: Outline, tokens: Any) -> None:
    values = []
    for token in (tokens[0], *tokens[2:]):
        if token.kind != "STRING" or token.text.endswith("i"):
            break
        _check_string(outline, token)
        values.append(read_literal(token).value)
    if len(values) != 2 or any(len(value) != 1 for value in values) or values[0] > values[1]:
        place = outline.place(tokens[0].position)
        raise GrammarSyntaxError(
            f"{outline.where(tokens[0].position)}: a range goes from one character to a later one",
            hint='write "a".."z"',
            **place,
        )


def _check_regex(outline: Outline, token: Token, limits: GrammarLimits, *, is_piece: bool) -> None:
    place, where = outline.place(token.position), outline.where(token.position)
    if not check_depth(token.text, limits):
        raise too_deep(where, limits, place)
    try:
        # subtle: in a group, as the lexer has it: there "(?i)" may not stand any more.
        facts = examine(f"(?:{read_literal(token).to_regexp()})")
    except RecursionError:
        raise too_deep(where, limits, place) from None
    except OverflowError:
        raise too_many(where, limits, place) from None
    except re.error as error:
        alone = RegexSyntaxError(
            f"{where}: {token.text[:80]} is no regular expression: {error.msg}",
            hint="patterns are those of Python's re; flags come after the pattern: /abc/i",
            **place,
        )
        if not is_piece:
            raise alone from None
        outline.broken[token.text] = alone
        return
    except ValueError as error:
        raise RegexSyntaxError(
            f"{where}: {error}", **place, hint=r"write \n for a line feed"
        ) from None
    if facts.largest_count > limits.max_repeat:
        raise too_many(where, limits, place)


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

"""read_regex: a regular expression -> a grammar of one terminal, which is all of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cdec.compilers.deep_calls import deep_calls
from cdec.compilers.grammars.automata.naming import place, where
from cdec.compilers.grammars.automata.pattern_checks import (
    facts_of,
    matches_empty,
    parse_pattern,
)
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.regex.ecma import python_pattern
from cdec.core.errors import Notice
from cdec.core.grammars.errors import RegexUnsupportedError

_SIGNS = re.compile(r"[\\.^$*+?{}\[\]()]")
_PROPERTY = re.compile(r"\\[pP]")
REGEX = "REGEX"
"""Name of the terminal."""


def read_regex(
    text: str,
    limits: GrammarLimits,
    *,
    conjoined: Sequence[str] = (),
    denied: Sequence[str] = (),
) -> Grammar:
    """Read a regular expression as ``re.fullmatch`` does.

    Args:
        text: In the syntax of Python's ``re``, flags inside (``(?i)``); no lone surrogates.
        limits: max_nesting holds.
        conjoined: Others that texts match as well.
        denied: Others that texts do not match.

    Returns:
        ``start: REGEX``, and an empty alternative where the empty text matches: the terminal is
        then about the others. Notices: ``W_LAZY_IGNORED``.

    Raises:
        RegexSyntaxError: ``re`` refuses one.
        RegexUnsupportedError: Look-around.
        LimitError: Brackets nest too deep.
    """
    read = [_read(whole_terminal(pattern), limits) for pattern in (text, *conjoined)]
    others = [_read(whole_terminal(pattern), limits) for pattern in denied]
    is_nullable = all(one.is_nullable for one in read) and not any(
        one.is_nullable for one in others
    )
    terminal = replace(
        whole_terminal(text),
        conjoined=tuple(whole_terminal(pattern).pattern for pattern in conjoined),
        denied=tuple(whole_terminal(pattern).pattern for pattern in denied),
    )
    return Grammar(
        terminals=(terminal,),
        nonterminals=("start",),
        rules=(Rule(0, (0,)), *([Rule(0, ())] if is_nullable else [])),
        start=0,
        ignored=frozenset(),
        lexer=None,
        source=text,
        dialect="regex",
        plain="" if terminal.pattern == text else terminal.pattern,
        notices=tuple(notice for one in (*read, *others) for notice in one.notices),
    )


def whole_terminal(pattern: str) -> Terminal:
    r"""Return a terminal that is all of a text; alternatives without any other sign are words.

    General categories of Unicode, such as ``\p{Lu}``, become classes that ``re`` reads.

    Raises:
        RegexUnsupportedError: Another property of Unicode.
    """
    words = () if _SIGNS.search(pattern) else tuple(pattern.split("|"))
    written = python_pattern(pattern) if _PROPERTY.search(pattern) else pattern
    return Terminal(REGEX, written, pattern, is_string=False, is_whole=True, words=words)


class _Read(NamedTuple):
    """What a pattern says of the empty text, and what is to be said of the pattern."""

    is_nullable: bool
    notices: tuple[Notice, ...]


def _read(terminal: Terminal, limits: GrammarLimits) -> _Read:
    """Look at one pattern.

    Raises:
        CdecError: As ``read_regex``.
    """
    if terminal.words:
        return _Read("" in terminal.words, ())
    parsed = parse_pattern(terminal, limits)
    with deep_calls(limits.max_nesting):
        facts, is_nullable = facts_of(parsed), matches_empty(parsed)
    if facts.looks_aside:
        raise RegexUnsupportedError(
            f"{where(terminal)} looks ahead or behind (look-around)",
            hint="say what else holds of the whole text with `conjoined`, and what does not with "
            r"`deny_regex`; the anchors ^ $ \A \Z \b \B may stand anywhere",
            feature="look-around",
            **place(terminal),
        )
    return _Read(is_nullable, (_lazy_notice(terminal),) if facts.is_lazy else ())


def _lazy_notice(terminal: Terminal) -> Notice:
    return Notice(
        "W_LAZY_IGNORED",
        f"{where(terminal)} has lazy quantifiers, which read as greedy ones do: it is matched "
        "against the whole text",
    )

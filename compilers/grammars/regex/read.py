"""read_regex: a regular expression -> a grammar of one terminal, which is all of a text."""

from __future__ import annotations

from cdec.compilers.grammars.automata.deep_calls import deep_calls
from cdec.compilers.grammars.automata.naming import place, where
from cdec.compilers.grammars.automata.pattern_checks import (
    facts_of,
    matches_empty,
    parse_pattern,
)
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule, Terminal
from cdec.core.errors import Notice
from cdec.core.grammars.errors import RegexUnsupportedError

REGEX = "REGEX"
"""Name of the terminal."""


def read_regex(text: str, limits: GrammarLimits) -> Grammar:
    """Read a regular expression as ``re.fullmatch`` does.

    Args:
        text: In the syntax of Python's ``re``, flags inside (``(?i)``); no lone surrogates.
        limits: max_nesting holds.

    Returns:
        ``start: REGEX``, and an empty alternative where the empty text matches: the terminal is
        then about the others. Notices: ``W_LAZY_IGNORED``.

    Raises:
        RegexSyntaxError: ``re`` refuses it.
        RegexUnsupportedError: Look-around.
        LimitError: Brackets nest too deep.
    """
    terminal = Terminal(REGEX, text, text, is_string=False, is_whole=True)
    parsed = parse_pattern(terminal, limits)
    with deep_calls(limits.max_nesting):
        facts, is_nullable = facts_of(parsed), matches_empty(parsed)
    if facts.looks_aside:
        raise RegexUnsupportedError(
            f"{where(terminal)} looks ahead or behind (look-around)",
            hint="describe the whole text itself, with alternatives, classes and repetitions; the "
            r"anchors ^ $ \A \Z \b \B may stand anywhere",
            feature="look-around",
            **place(terminal),
        )
    notices = (_lazy_notice(terminal),) if facts.is_lazy else ()
    rules = (Rule(0, (0,)), *([Rule(0, ())] if is_nullable else []))
    return Grammar(
        terminals=(terminal,),
        nonterminals=("start",),
        rules=rules,
        start=0,
        ignored=frozenset(),
        lexer=None,
        source=text,
        dialect="regex",
        notices=notices,
    )


def _lazy_notice(terminal: Terminal) -> Notice:
    return Notice(
        "W_LAZY_IGNORED",
        f"{where(terminal)} has lazy quantifiers, which read as greedy ones do: it is matched "
        "against the whole text",
    )

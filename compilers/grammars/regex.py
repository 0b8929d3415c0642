"""Regular expressions as grammars of one terminal, which is all of a text.

``python_pattern`` writes what JSON Schema (ECMA-262) reads in the syntax of Python's ``re``.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from cdec.compilers.deep_calls import deep_calls
from cdec.compilers.grammars.automata.characters import Ranges, complement, normalised
from cdec.compilers.grammars.automata.pattern_checks import (
    facts_of,
    matches_empty,
    parse_pattern,
    place,
    where,
)
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits, Rule, Terminal
from cdec.core.errors import Notice
from cdec.core.grammars.errors import EmptyLanguageError, RegexUnsupportedError

_TOKEN = re.compile(
    r"\\u\{(?P<braced>[0-9A-Fa-f]+)\}"
    r"|\\u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2})"
    r"|\\c(?P<control>[A-Za-z])"
    r"|\\(?P<sign>[pP])(?:\{(?P<property>[^{}]*)\}|(?P<letter>[A-Z]))"
    r"|\(\?<(?P<name>[A-Za-z_$][\w$]*)>"
    r"|\\k<(?P<back>[A-Za-z_$][\w$]*)>"
    r"|\\.|\[|\]|.",
    re.S,
)
_LONG_NAMES = {
    "letter": "L", "uppercase_letter": "Lu", "lowercase_letter": "Ll", "titlecase_letter": "Lt",
    "cased_letter": "LC", "modifier_letter": "Lm", "other_letter": "Lo", "mark": "M",
    "nonspacing_mark": "Mn", "spacing_mark": "Mc", "enclosing_mark": "Me", "number": "N",
    "decimal_number": "Nd", "digit": "Nd", "letter_number": "Nl", "other_number": "No",
    "punctuation": "P", "connector_punctuation": "Pc", "dash_punctuation": "Pd",
    "open_punctuation": "Ps", "close_punctuation": "Pe", "initial_punctuation": "Pi",
    "final_punctuation": "Pf", "other_punctuation": "Po", "symbol": "S", "math_symbol": "Sm",
    "currency_symbol": "Sc", "modifier_symbol": "Sk", "other_symbol": "So", "separator": "Z",
    "space_separator": "Zs", "line_separator": "Zl", "paragraph_separator": "Zp", "other": "C",
    "control": "Cc", "format": "Cf", "surrogate": "Cs", "private_use": "Co", "unassigned": "Cn",
}  # fmt: skip
_NAMED: dict[str, tuple[str, ...]] = {"LC": ("Lu", "Ll", "Lt"), "L&": ("Lu", "Ll", "Lt")}
_SIGNS = re.compile(r"[\\.^$*+?{}\[\]()]")
_PROPERTY = re.compile(r"\\[pP]")
REGEX = "REGEX"
"""Name of the terminal."""


def python_pattern(pattern: str) -> str:
    """Return ``pattern`` as ``re`` reads it.

    What both read alike stays as it is; ``\\cX``, ``\\u{...}``, surrogate pairs, general categories
    (``\\p{Lu}``) and named groups are rewritten.

    Raises:
        RegexUnsupportedError: A property that is no general category.
    """
    if "\\" not in pattern and "(?<" not in pattern:
        return pattern
    out: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text in ("[", "]"):
            in_class = text == "[" or (in_class and out[-1] in ("[", "[^"))
        if token["braced"]:
            out.append(_escaped(min(int(token["braced"], 16), sys.maxunicode)))
        elif token["high"]:
            high, low = int(token["high"], 16), int(token["low"], 16)
            out.append(_escaped(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)))
        elif token["control"]:
            out.append(_escaped(ord(token["control"]) & 31))
        elif token["sign"]:
            name = token["property"] if token["letter"] is None else token["letter"]
            members = _members(_category(name, pattern), token["sign"] == "P")
            out.append(members if in_class else f"[{members}]")
        elif token["name"] and not in_class:
            out.append(f"(?P<{token['name'].replace('$', '_')}>")
        elif token["back"] and not in_class:
            out.append(f"(?P={token['back'].replace('$', '_')})")
        else:
            out.append(text)
    return "".join(out)


def _members(ranges: Ranges, negated: bool) -> str:
    kept = complement(ranges) if negated else ranges
    return "".join(f"{_escaped(low)}-{_escaped(high)}" for low, high in kept)


def _category(name: str, pattern: str) -> Ranges:
    """Return the characters of a general category, by its short or its long name."""
    plain = name.split("=", 1)[1] if name.split("=")[0] in ("gc", "General_Category") else name
    if plain in ("Any", "ASCII"):
        return ((0, sys.maxunicode if plain == "Any" else 127),)
    short = _LONG_NAMES.get(plain.lower(), plain)
    found = [c for c in _categories() if c in _NAMED.get(short, (short,)) or c[0] == short]
    if not found:
        raise RegexUnsupportedError(
            f"pattern {pattern!r}: property {name!r} is no general category of Unicode",
            hint="write the characters out as a class, or use a general category as \\p{L} or "
            "\\p{Lu}",
            feature="property",
        )
    return normalised(span for c in found for span in _categories()[c])


@cache
def _categories() -> dict[str, Ranges]:
    found: dict[str, list[tuple[int, int]]] = {}
    first, last = 0, unicodedata.category("\0")
    for code in range(1, sys.maxunicode + 1):
        kind = unicodedata.category(chr(code))
        if kind != last:
            found.setdefault(last, []).append((first, code - 1))
            first, last = code, kind
    found.setdefault(last, []).append((first, sys.maxunicode))
    return {kind: tuple(spans) for kind, spans in found.items()}


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


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
    """Findings about a pattern: whether the empty text matches, and notices."""

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


def require_texts(grammar: Grammar, automata: Sequence[ByteAutomaton]) -> tuple[Notice, ...]:
    """Refuse a regular expression that no text matches; of another grammar nothing is said.

    Args:
        grammar: As it was read.
        automata: One a terminal, without the empty text.

    Returns:
        ``W_EMPTY_STRING_ONLY`` where there is one text, and that is empty.

    Raises:
        EmptyLanguageError: There is none.
    """
    if grammar.dialect != "regex" or any(automata[0].accepting):
        return ()
    terminal = grammar.terminals[0]
    left = where(terminal)
    if terminal.conjoined or terminal.denied:
        left += " and what `conjoined` and `deny_regex` ask"
    if not any(rule.rhs == () for rule in grammar.rules):
        raise EmptyLanguageError(
            f"no text matches {left}",
            hint="an empty class or an anchor within the text can make it so: a^b matches nothing",
            **place(terminal),
        )
    return (Notice("W_EMPTY_STRING_ONLY", f"the empty text matches {left}, and no other does"),)

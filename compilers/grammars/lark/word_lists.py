"""Long lists of literals, cut out of a grammar before Lark reads it and read here instead.

Lark takes 0.2 ms a literal, and the parse tables of a rule with n literals that repeats have n * n
actions. Literals that occur once in a grammar, as alternatives side by side, are alike to its
rules; so Lark is shown one terminal in their place. What they are to the lexer is decided where the
terminals are put in order (``terminals``).
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cdec.compilers.grammars.definition import Terminal
from cdec.compilers.grammars.lark.outline import Outline, Statement, Token, read_literal

_LEAST = 100
"""Literals of a list that is cut out; a shorter one is left to Lark."""

Order: TypeAlias = tuple[int, int, int, str]
"""What Lark orders terminals by: less priority, width and length come later; then the name."""


@dataclass(frozen=True, slots=True)
class WordList:
    """A list of literals.

    Attributes:
        name: Of the terminal that Lark is shown in their place.
        words: The literals, none twice.
        is_terminal: They are a terminal's whole definition; else alternatives of a rule.
        position: Of the first one in the source.
    """

    name: str
    words: tuple[str, ...]
    is_terminal: bool
    position: int


class MixedListError(Exception):
    """A list cannot be set apart from the other terminals; Lark has to read the whole text."""


def find_word_lists(outline: Outline) -> tuple[str, dict[str, WordList]]:
    """Cut long lists of literals out of a grammar.

    Args:
        outline: A well-formed grammar whose literals have been checked.

    Returns:
        The text for Lark, in which all that is left stands where it stood, and the lists by name.
        Cost: linear.
    """
    runs = long_runs(outline)
    if not runs:
        return outline.text, {}
    tokens = [token for statement in outline.statements for token in statement.body]
    used = Counter(token.text for token in tokens if token.kind == "STRING")
    # What is written with escapes may be one of the words in other letters.
    used.update(
        f'"{read_literal(t).value}"' for t in tokens if t.kind == "STRING" and "\\" in t.text
    )
    within = {
        token.text
        for statement in outline.statements
        if statement.is_terminal
        for token in statement.body
        if token.kind == "TERMINAL"
    }
    names = {token.text for token in outline.tokens}
    pieces: list[str] = []
    lists: dict[str, WordList] = {}
    done = 0
    for statement, run in runs:
        chosen = _chosen(statement, run, used, within)
        if len(chosen) < _LEAST:
            continue
        name = _fresh(statement, names)
        first, last = run[0].position, run[-1].position + len(run[-1].text)
        shown = run[0].text
        if not statement.is_terminal:
            shown = " | ".join([name, *(token.text for token in run if token not in chosen)])
        instead = _in_place(shown, outline.text[first:last])
        if instead is None:
            continue
        words = tuple(dict.fromkeys(token.text[1:-1] for token in run if token in chosen))
        lists[name] = WordList(name, words, statement.is_terminal, first)
        pieces += [outline.text[done:first], instead]
        done = last
    pieces.append(outline.text[done:])
    pieces += [f'\n{w.name}: "{w.words[0]}"\n' for w in lists.values() if not w.is_terminal]
    return "".join(pieces), lists


def long_runs(outline: Outline) -> list[tuple[Statement, list[Token]]]:
    """Return the long runs of alternatives that are one literal each, with their definitions."""
    return [
        (statement, run)
        for statement in outline.definitions()
        if not statement.directive and len(statement.body) > _LEAST
        for run in _runs(statement)
    ]


def pattern_of(words: Sequence[str]) -> str:
    """Return the regular expression that Lark makes of a list of literals."""
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"


def _runs(statement: Statement) -> Iterator[list[Token]]:
    body = statement.body
    run: list[Token] = []
    before = "|"
    for i, token in enumerate(body):
        after = body[i + 1].text if i + 1 < len(body) else "|"
        if token.kind == "STRING" and before in ("|", "(", "[") and after in ("|", ")", "]"):
            run.append(token)
        elif token.text != "|":
            if len(run) >= _LEAST:
                yield run
            run = []
        before = token.text
    if len(run) >= _LEAST:
        yield run


def _chosen(
    statement: Statement, run: list[Token], used: Mapping[str, int], within: Collection[str]
) -> frozenset[Token]:
    """Return the literals of a run that can be cut out."""
    plain = [t for t in run if "\\" not in t.text and not t.text.endswith("i")]
    if not statement.is_terminal:
        return frozenset(token for token in plain if used[token.text] == 1)
    is_whole = 2 * len(run) - 1 == len(statement.body) and len(plain) == len(run)
    is_inner = statement.name is None or statement.name.text in within
    return frozenset() if is_inner or not is_whole else frozenset(plain)


def _fresh(statement: Statement, names: set[str]) -> str:
    """Return the name of a list: the terminal's own, or one that the grammar does not use."""
    if statement.is_terminal and statement.name is not None:
        return statement.name.text
    number = 0
    while f"_WORDS_{number}" in names:
        number += 1
    names.add(f"_WORDS_{number}")
    return f"_WORDS_{number}"


def _in_place(shown: str, cut: str) -> str | None:
    """Return ``shown`` filled up to the length and the lines of what was cut; None: no room."""
    # subtle: Lark reads a backslash before a line's end as nothing at all.
    ends = "\\\n" * cut.count("\n")
    last = " " * (len(cut) - cut.rindex("\n") - 1) if ends else ""
    room = len(cut) - len(shown) - len(ends) - len(last)
    return None if room < 0 else shown + " " * room + ends + last


def grouped(
    lists: Sequence[WordList], others: Sequence[tuple[Order, Terminal]]
) -> list[tuple[int, str, tuple[str, ...]]]:
    """Divide the literals of lists among terminals, so that each competes as it would alone.

    Literals between which no other terminal stands in the order of competition can be one: the
    longest that matches wins, as it would among them. Where lists meet there, or a regular
    expression matches some of the literals, which makes keywords of these, literals of equal length
    are one: no two of them match at one place.

    Args:
        lists: Of literals that are alternatives of rules.
        others: The other terminals in order.

    Returns:
        Place among ``others``, list, and literals, in order. Cost: literals x regular expressions.

    Raises:
        MixedListError: The order depends on the names that Lark would give the literals.
    """
    regular = [
        re.compile(terminal.pattern)
        for order, terminal in others
        if lists and not terminal.is_string and order[0] == 0
    ]
    orders = [order[:3] for order, _ in others]
    unnamed = {
        order for order, (_, other) in zip(orders, others, strict=True) if not other.is_string
    }
    places: dict[int, dict[tuple[str, tuple[bool, ...]], list[str]]] = {}
    for words in lists:
        for word in words.words:
            order = (0, -len(word), -len(word))
            if order in unnamed:
                raise MixedListError
            matched = tuple(_is_whole(pattern, word) for pattern in regular)
            here = places.setdefault(bisect(orders, order), {})
            here.setdefault((words.name, matched), []).append(word)
    found = []
    for place, kinds in sorted(places.items()):
        parts: dict[tuple[int, int], list[str]] = {}
        for number, members in enumerate(kinds.values()):
            for word in members:
                parts.setdefault((-len(word) if len(kinds) > 1 else 0, number), []).append(word)
        named = [name for name, _ in kinds]
        found += [(place, named[number], tuple(own)) for (_, number), own in sorted(parts.items())]
    return found


def _is_whole(pattern: re.Pattern[str], word: str) -> bool:
    match = pattern.match(word)
    return match is not None and match.end() == len(word)

"""Which literals are keywords of which regular expressions, as lark's lexer decides it.

A literal K is a keyword of a regular expression R of equal priority if R's match on K's text is all
of it (``_create_unless`` in lark's lexer). Where both compete, a text that R matched and K matches
in full is a K. If moreover K's flags are among R's, K is embedded: it does not compete by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cdec.compilers.grammars.automata.terminal import packed
from cdec.compilers.grammars.definition import ByteAutomaton, Terminal


class Keywords(NamedTuple):
    """Regular expressions by keyword: terminal numbers, ascending.

    retyped: Those whose matches become the keyword. embedding: Those that keep it from competing.
    """

    retyped: dict[int, tuple[int, ...]]
    embedding: dict[int, tuple[int, ...]]


def find_keywords(terminals: Sequence[Terminal], automata: Sequence[ByteAutomaton]) -> Keywords:
    """Return the keywords among ``terminals``.

    Args:
        terminals: In the order in which they compete.
        automata: Prioritised, one a terminal.

    Returns:
        The relation over all terminals; it holds in a context where both are. Cost: regular
        expressions x bytes of literals of the same priority.
    """
    literals: dict[int, list[tuple[int, bytes]]] = {}
    for number, terminal in enumerate(terminals):
        # Of the literals of a list all or none are keywords, so one speaks for all.
        spelled = _spelled(terminal.literals[0]) if terminal.is_string else b""
        if spelled:
            literals.setdefault(terminal.priority, []).append((number, spelled))
    retyped: dict[int, list[int]] = {}
    embedding: dict[int, list[int]] = {}
    for number, terminal in enumerate(terminals):
        if terminal.is_string or terminal.priority not in literals:
            continue
        for keyword in _matched(automata[number], literals[terminal.priority]):
            retyped.setdefault(keyword, []).append(number)
            if terminals[keyword].flags <= terminal.flags:
                embedding.setdefault(keyword, []).append(number)
    return Keywords(
        {keyword: tuple(numbers) for keyword, numbers in retyped.items()},
        {keyword: tuple(numbers) for keyword, numbers in embedding.items()},
    )


def _spelled(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # no UTF-8 text holds a lone surrogate
        return b""


def _matched(automaton: ByteAutomaton, literals: Sequence[tuple[int, bytes]]) -> list[int]:
    """Return the literals on which the automaton's match is the whole text."""
    delta = packed(automaton)
    rows, byte_class = delta.rows.tolist(), delta.byte_class.tolist()
    accepting = automaton.accepting
    found = []
    for number, text in literals:
        state = 0
        for byte in text:
            state = rows[state][byte_class[byte]]
            if state < 0:
                break
        if state >= 0 and accepting[state]:
            found.append(number)
    return found

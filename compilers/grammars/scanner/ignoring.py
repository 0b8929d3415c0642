"""Ignored terminals that may yet reach the parser get a copy, so that one is read, one dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdec.compilers.grammars.definition import NOTHING, ByteAutomaton, Grammar
from cdec.compilers.grammars.scanner.keywords import find_keywords


def with_ignored_copies(grammar: Grammar) -> Grammar:
    """Give every ignored terminal that a rule uses an ignored copy, and stop ignoring itself.

    In ``start: A "c" A`` with ``%ignore "c"`` each ``c`` may be dropped or read. Only ``dynamic``
    follows both: the other lexers drop such a terminal wherever they meet it, as lark does.

    Args:
        grammar: Analysed, so that every rule is in use.

    Returns:
        A grammar for the same texts in which no rule uses an ignored terminal; the copies have the
        last numbers and the names of their originals. Cost: linear in the rules.
    """
    used = {symbol for rule in grammar.rules for symbol in rule.rhs if symbol >= 0}
    both = sorted(grammar.ignored & used)
    if not both:
        return grammar
    first = len(grammar.terminals)
    return replace(
        grammar,
        terminals=grammar.terminals + tuple(grammar.terminals[number] for number in both),
        ignored=(grammar.ignored - used) | set(range(first, first + len(both))),
    )


def with_keyword_copies(grammar: Grammar, automata: Sequence[ByteAutomaton]) -> Grammar:
    """Give every ignored keyword a copy for the places where lark's lexer does not ignore it.

    Lark drops what an ignored terminal matched; a text that another expression matched and that
    then becomes an ignored keyword is handed to the parser. So under ``%ignore " "`` beside
    ``TEXT: /[^<]+/`` a lone space, where TEXT competes, is a token that the rules must name.

    Args:
        grammar: Any; for ``contextual`` and ``basic``.
        automata: One a terminal, prioritised.

    Returns:
        The grammar with rules that name the copies; these match nothing by themselves, and have the
        last numbers and their originals' names. Cost: as ``find_keywords``.
    """
    if not any(grammar.terminals[number].is_string for number in grammar.ignored):
        return grammar
    retyped = find_keywords(grammar.terminals, automata).retyped
    handed = [
        number
        for number in sorted(grammar.ignored & retyped.keys())
        if not grammar.ignored.issuperset(retyped[number])
    ]
    if not handed:
        return grammar
    copy = {number: len(grammar.terminals) + i for i, number in enumerate(handed)}
    copies = [
        replace(grammar.terminals[number], pattern=NOTHING, is_string=False) for number in handed
    ]
    rules = [
        replace(rule, rhs=tuple(copy.get(symbol, symbol) for symbol in rule.rhs))
        for rule in grammar.rules
    ]
    return replace(grammar, terminals=(*grammar.terminals, *copies), rules=tuple(rules))


def read_copies(grammar: Grammar) -> dict[int, int]:
    """Return, of ignored terminals that have one, the copy that is not ignored."""
    read = {
        terminal.name: number
        for number, terminal in enumerate(grammar.terminals)
        if number not in grammar.ignored
    }
    names = {number: grammar.terminals[number].name for number in grammar.ignored}
    return {number: read[name] for number, name in names.items() if name in read}

"""Terminals that are both ignored and used in rules: read both ways where every reading counts."""

from __future__ import annotations

from dataclasses import replace

from cdec.compilers.grammars.definition import Grammar


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

"""Grammars read through lark without our front end, and lark's own parse tables of them."""

from __future__ import annotations

from typing import Any

from lark import Lark

from cdec.compilers.grammars.definition import Grammar, Rule, Terminal


def lark_of(text: str, **options: Any) -> Lark:
    """Return lark's parser of a grammar, LALR(1) unless told otherwise."""
    return Lark(text, **{"parser": "lalr", **options})


def grammar_of(lark: Lark, start: str = "start") -> Grammar:
    """Return what lark read as our intermediate form; a declared terminal gets its name as text."""
    names = [terminal.name for terminal in lark.terminals]
    used = {symbol.name for rule in lark.rules for symbol in rule.expansion if symbol.is_term}
    declared = sorted(used.difference(names))
    names += declared
    numbers = {name: number for number, name in enumerate(names)}
    nonterminals: dict[str, int] = {}
    rules: dict[tuple[int, tuple[int, ...]], Rule] = {}
    for rule in lark.rules:
        lhs = nonterminals.setdefault(rule.origin.name, len(nonterminals))
        rhs = tuple(
            numbers[symbol.name]
            if symbol.is_term
            else ~nonterminals.setdefault(symbol.name, len(nonterminals))
            for symbol in rule.expansion
        )
        rules.setdefault((lhs, rhs), Rule(lhs, rhs, rule.options.priority or 0))
    return Grammar(
        terminals=tuple(
            Terminal(
                terminal.name,
                terminal.pattern.to_regexp(),
                terminal.pattern.value,
                terminal.pattern.type == "str",
                frozenset(terminal.pattern.flags),
                terminal.priority,
            )
            for terminal in lark.terminals
        )
        + tuple(Terminal(name, name, name, True) for name in declared),
        nonterminals=tuple(nonterminals),
        rules=tuple(rules.values()),
        start=nonterminals[start],
        ignored=frozenset(numbers[name] for name in lark.ignore_tokens),
        lexer=None,
        source="",
        dialect="lark",
    )


def plain_grammar(
    rules: list[tuple[str, str]], start: str = "S", names: str | None = None
) -> Grammar:
    """Return a grammar written as ``[("S", "a S b"), ("S", "")]``; lower case is a terminal."""
    nonterminals = list(dict.fromkeys(lhs for lhs, _ in rules))
    words = {word for _, rhs in rules for word in rhs.split()}
    terminals = names.split() if names else sorted(word for word in words if word[0].islower())
    for word in sorted(words):
        if not word[0].islower() and word not in nonterminals:
            nonterminals.append(word)
    return Grammar(
        terminals=tuple(Terminal(word, word, word, True) for word in terminals),
        nonterminals=tuple(nonterminals),
        rules=tuple(
            dict.fromkeys(
                Rule(
                    nonterminals.index(lhs),
                    tuple(
                        terminals.index(word) if word[0].islower() else ~nonterminals.index(word)
                        for word in rhs.split()
                    ),
                )
                for lhs, rhs in rules
            )
        ),
        start=nonterminals.index(start),
        ignored=frozenset(),
        lexer=None,
        source="",
        dialect="lark",
    )

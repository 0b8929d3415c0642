"""Assemble a Grammar from what Lark loaded: expand, drop what Lark drops, number, warn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lark.load_grammar import PrepareAnonTerminals, PrepareLiterals, ValidateSymbols

from cdec.compilers.grammars.analysis import unreachable_notice
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.lark.bnf import EMPTY, AliasError, Expander
from cdec.compilers.grammars.lark.definitions import Loaded, RuleDefinition, at_rule
from cdec.compilers.grammars.lark.limits import too_many_rules
from cdec.compilers.grammars.lark.render import render
from cdec.compilers.grammars.lark.scan import Outline
from cdec.compilers.grammars.lark.templates import LimitedTemplates
from cdec.compilers.grammars.lark.terminals import TerminalReader, terminal_definitions
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUndefinedError,
)


@dataclass(frozen=True, slots=True)
class Production:
    """A plain alternative: ``symbols`` are nodes of the expander."""

    origin: str
    symbols: tuple[int, ...]
    priority: int


def assemble(
    loaded: Loaded, outline: Outline, limits: GrammarLimits, *, start: str, is_closed: bool
) -> Grammar:
    """Expand and number a loaded grammar.

    Args:
        loaded: Its definitions.
        outline: The source.
        limits: Limits.
        start: The start rule.
        is_closed: The source alone says it all: nothing was imported from files.

    Returns:
        The grammar.

    Raises:
        GrammarError, LimitError: As ``read_lark``.
    """
    definitions = terminal_definitions(loaded.terminals)
    expander = Expander(limits)
    productions = _productions(loaded.rules, definitions, expander, outline, limits)
    kept = _used(productions, start, expander)
    names = {expander.symbol(s)[1] for p in kept for s in p.symbols if expander.symbol(s)[0]}
    names.update(loaded.ignored)
    terminals = TerminalReader(outline, limits).read([d for d in definitions if d.name in names])
    grammar = _numbered(kept, terminals, expander, start, outline)
    ignored = frozenset(i for i, t in enumerate(terminals) if t.name in loaded.ignored)
    unused = _unused_names(productions, kept, outline)
    return Grammar(
        terminals=terminals,
        nonterminals=grammar[0],
        rules=grammar[1],
        start=grammar[0].index(start),
        ignored=ignored,
        lexer=None,
        source=outline.text if is_closed else render(terminals, *grammar, start, ignored),
        dialect="lark",
        notices=(unreachable_notice(unused),) if unused else (),
    )


def _productions(
    rule_defs: list[RuleDefinition],
    definitions: list[Any],
    expander: Expander,
    outline: Outline,
    limits: GrammarLimits,
) -> list[Production]:
    anonymous = PrepareAnonTerminals(definitions)
    templates = LimitedTemplates(rule_defs, limits)
    transformer = PrepareLiterals() * ValidateSymbols() * anonymous * templates
    nodes: list[tuple[str, int, int]] = []
    for name, parameters, tree, options in rule_defs:  # grows while templates are used
        if parameters:
            continue
        anonymous.rule_options = options if options and options.keep_all_tokens else None
        try:
            node = expander.expand(
                str(name), transformer.transform(tree), anonymous.rule_options is not None
            )
        except AliasError as error:
            raise _alias_error(str(name), str(error), outline) from None
        nodes.append((str(name), node, (options and options.priority) or 0))
    nodes += [(name, node, 0) for name, node in expander.helpers]
    count = sum(len(expander.alternatives(node)) for _, node, _ in nodes)
    if count > limits.max_rules:
        raise too_many_rules(count, limits)
    return [p for named in nodes for p in _alternatives(*named, expander, outline)]


def _alternatives(
    name: str, node: int, priority: int, expander: Expander, outline: Outline
) -> list[Production]:
    """Return a rule's alternatives; equal ones that Lark tells apart are its error and ours."""
    found: dict[tuple[int, ...], Production] = {}
    for symbols, alias in expander.alternatives(node):
        if alias is not None and name.startswith("_"):
            raise _alias_error(name, alias, outline)
        symbols = tuple(symbol for symbol in symbols if symbol != EMPTY)
        if symbols in found and symbols:
            text = " ".join(expander.symbol(symbol)[1] for symbol in symbols)
            raise at_rule(
                GrammarDuplicateError,
                f"two alternatives of rule {name} are the same: {text}",
                "remove one; where two [...] make them, write (...)? instead",
                name,
                outline,
            )
        found.setdefault(symbols, Production(name, symbols, priority))
    return list(found.values())


def _used(productions: list[Production], start: str, expander: Expander) -> list[Production]:
    """Drop rules that no other kept rule uses, as Lark does: a circle that nothing enters stays."""
    by_name: dict[str, list[Production]] = {}
    for production in productions:
        by_name.setdefault(production.origin, []).append(production)
    uses = {
        name: {
            expander.symbol(symbol)[1]
            for production in own
            for symbol in production.symbols
            if not expander.symbol(symbol)[0]
        }
        - {name}
        for name, own in by_name.items()
    }
    users = Counter(used for names in uses.values() for used in names)
    unused = [name for name in by_name if not users[name] and name != start]
    dropped = set()
    while unused:
        name = unused.pop()
        dropped.add(name)
        for used in uses[name]:
            users[used] -= 1
            if not users[used] and used in by_name and used != start:
                unused.append(used)
    return [production for production in productions if production.origin not in dropped]


def _numbered(
    productions: list[Production],
    terminals: Sequence[Terminal],
    expander: Expander,
    start: str,
    outline: Outline,
) -> tuple[tuple[str, ...], tuple[Rule, ...]]:
    """Return the names of the nonterminals and the rules over numbers."""
    names = list(dict.fromkeys(production.origin for production in productions))
    numbers: Mapping[tuple[bool, str], int] = {
        **{(True, terminal.name): i for i, terminal in enumerate(terminals)},
        **{(False, name): ~i for i, name in enumerate(names)},
    }
    rules = []
    for production in productions:
        symbols = [expander.symbol(symbol) for symbol in production.symbols]
        missing = next((name for key in symbols if key not in numbers for name in key[1:]), None)
        if missing is not None:
            raise at_rule(
                GrammarUndefinedError,
                f"rule {production.origin} uses {missing}, which is a template",
                "give its arguments in braces",
                production.origin,
                outline,
            )
        rhs = tuple(numbers[symbol] for symbol in symbols)
        rules.append(Rule(~numbers[False, production.origin], rhs, production.priority))
    return tuple(names), tuple(rules)


def _alias_error(name: str, alias: str, outline: Outline) -> GrammarError:
    return at_rule(
        GrammarSyntaxError,
        f"alias {alias} of rule {name} may not stand there",
        "an alias names a whole alternative of a rule whose name begins with no underscore; "
        "here aliases change nothing and can be left out",
        name,
        outline,
    )


def _unused_names(
    productions: list[Production], kept: list[Production], outline: Outline
) -> list[str]:
    """Return rules of the source, helpers and imports aside, that were dropped."""
    own = {s.name.text for s in outline.definitions() if s.name is not None and not s.parameters}
    left = {production.origin for production in kept}
    dropped = dict.fromkeys(p.origin for p in productions if p.origin not in left)
    return [name for name in dropped if name in own and not name.startswith("_")]

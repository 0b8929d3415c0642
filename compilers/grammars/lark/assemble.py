"""Grammar of what Lark loaded: expanded, without what Lark drops, numbered; and its text.

The text is one of Lark's dialect without imports, templates or helpers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lark.load_grammar import PrepareAnonTerminals, PrepareLiterals, ValidateSymbols

from cdec.compilers.grammars.analysis import unreachable_notice
from cdec.compilers.grammars.definition import NOTHING, Grammar, GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.lark.checks import too_many_rules
from cdec.compilers.grammars.lark.expansion import (
    EMPTY,
    AliasError,
    EqualAlternativesError,
    Expander,
    factored,
)
from cdec.compilers.grammars.lark.loading import LimitedTemplates, Loaded, RuleDefinition, at_rule
from cdec.compilers.grammars.lark.outline import Outline
from cdec.compilers.grammars.lark.terminals import (
    MixedListError,
    TerminalReader,
    WordList,
    declared_terminal,
    set_terminal,
    terminal_definitions,
)
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUndefinedError,
)
from cdec.core.grammars.special import is_stand_in

_LARK_WRITES = 1000
"""Alternatives that Lark may write out of what is factored: it takes 0.1 seconds for so many, and
twice that for each optional more."""


def render(
    terminals: Sequence[Terminal],
    nonterminals: Sequence[str],
    rules: Sequence[Rule],
    start: str,
    ignored: Collection[int],
    kept: Collection[str] = (),
) -> str:
    """Write a grammar down.

    Names are replaced by numbered ones, since helpers and anonymous terminals have names that may
    not be written; terminals keep the order in which they compete, which ends at the name. Each
    nonterminal's name stands in a comment; the start rule keeps its own.

    Args:
        terminals: In the order of competition.
        nonterminals: Names by number.
        start: Name of the start rule.
        kept: Names of terminals that stay as they are.

    Returns:
        Text that ``lark.Lark`` loads to the same language.
    """
    names = [terminal.name for terminal in terminals]
    symbols = {t: name if name in kept else f"T{t:06d}" for t, name in enumerate(names)}
    symbols |= {~n: f"n{n}" if f"n{n}" != start else f"n{n}_" for n in range(len(nonterminals))}
    symbols[~list(nonterminals).index(start)] = start
    bodies: dict[int, list[Rule]] = {}
    for rule in rules:
        bodies.setdefault(rule.lhs, []).append(rule)
    lines = []
    for lhs, own in bodies.items():
        alternatives = " | ".join(" ".join(symbols[s] for s in rule.rhs) for rule in own)
        priority = f".{own[0].priority}" if own[0].priority else ""
        lines.append(f"{symbols[~lhs]}{priority}: {alternatives} // {nonterminals[lhs]}")
    for t, terminal in enumerate(terminals):
        if terminal.value == NOTHING:
            lines.append(f"%declare {symbols[t]}")
            continue
        priority = f".{terminal.priority}" if terminal.priority else ""
        lines.append(f"{symbols[t]}{priority}: {_literal(terminal)} // {terminal.name}")
    lines += [f"%ignore {symbols[t]}" for t in sorted(ignored)]
    return "\n".join(lines) + "\n"


def _literal(terminal: Terminal) -> str:
    flags = "".join(sorted(terminal.flags))
    if terminal.is_string or is_stand_in(terminal.value):
        return f'"{_escaped(terminal.value, chr(34))}"{flags}'
    return f"/{_regex(terminal.value)}/{flags}"


def _escaped(text: str, quote: str) -> str:
    """Escape a string so that Lark's reader gives it back."""
    text = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


def _regex(pattern: str) -> str:
    """Escape what may not stand between slashes; ``re`` reads the escapes as the characters."""
    pieces: list[str] = []
    escaped = False
    for character in pattern:
        if not character.isprintable():
            # subtle: Lark resolves the escape itself, and would not after another backslash; that
            # one said nothing, since none of these characters has a meaning of its own.
            pieces[-1:] = [] if escaped else pieces[-1:]
            pieces.append(f"\\U{ord(character):08x}")
        elif character == "/" and not escaped:
            pieces.append("\\/")
        else:
            pieces.append(character)
        escaped = character == "\\" and not escaped
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Production:
    """A plain alternative.

    Attributes:
        origin: The rule it is of.
        symbols: Nodes of the expander.
        priority: Of the rule.
        written_for: The rule that Lark would write it in: not ``origin`` where rules are factored.
    """

    origin: str
    symbols: tuple[int, ...]
    priority: int
    written_for: str


def assemble(
    loaded: Loaded,
    outline: Outline,
    limits: GrammarLimits,
    lists: Mapping[str, WordList],
    *,
    start: str,
    is_closed: bool,
) -> Grammar:
    """Expand and number a loaded grammar.

    Args:
        lists: Lists of literals that Lark was shown as terminals, by name.
        is_closed: The source alone says it all: nothing was imported from files.

    Returns:
        The grammar.

    Raises:
        GrammarError, LimitError: As ``read_lark``.
        MixedListError: A list cannot be set apart.
    """
    reader = TerminalReader(outline, limits, lists)
    definitions = terminal_definitions(loaded.terminals, reader.refused)
    _check_lists(lists, definitions)
    expander = Expander(limits)
    productions, written_out = _productions(loaded.rules, definitions, expander, outline, limits)
    kept = _used(productions, start, expander)
    names = {expander.symbol(s)[1] for p in kept for s in p.symbols if expander.symbol(s)[0]}
    names.update(loaded.ignored)
    kept_names = frozenset[str]()
    if loaded.indenter is not None:
        names.add(loaded.indenter.NL_type)
        kept_names = loaded.indenter.names
    terminals = reader.read([d for d in definitions if d.name in names])
    if loaded.indenter is not None:
        terminals += tuple(map(declared_terminal, sorted(loaded.indenter.declared)))
    else:
        sets = [name for name in outline.declared if name in names]
        terminals += tuple(set_terminal(name, number) for number, name in enumerate(sets))
    grammar = _numbered(kept, terminals, expander, start, outline, reader.terminals_of)
    ignored = frozenset(i for i, t in enumerate(terminals) if t.name in loaded.ignored)
    unused = _unused_names(productions, kept, outline)
    is_readable = is_closed and written_out <= _LARK_WRITES
    if lists and not is_readable:
        raise MixedListError
    rendered = "" if is_readable else render(terminals, *grammar, start, ignored, kept_names)
    return Grammar(
        terminals=terminals,
        nonterminals=grammar[0],
        rules=grammar[1],
        start=grammar[0].index(start),
        ignored=ignored,
        lexer=None,
        source=outline.text if is_closed else rendered,
        dialect="lark",
        notices=(unreachable_notice(unused),) if unused else (),
        plain=rendered if is_closed else "",
        indenter=loaded.indenter,
    )


def _check_lists(lists: Mapping[str, WordList], definitions: Sequence[Any]) -> None:
    """Refuse lists with a literal that is a named terminal, which an import may have brought."""
    named = {
        d.pattern.value for d in definitions if d.name not in lists and d.pattern.type == "str"
    }
    if any(not (words.is_terminal or named.isdisjoint(words.words)) for words in lists.values()):
        raise MixedListError


def _productions(
    rule_defs: list[RuleDefinition],
    definitions: list[Any],
    expander: Expander,
    outline: Outline,
    limits: GrammarLimits,
) -> tuple[list[Production], int]:
    """Return the alternatives, and how many Lark would write out of those that are factored."""
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
    productions = [p for named in nodes for p in _alternatives(*named, expander, outline, limits)]
    if len(productions) > limits.max_rules:
        raise too_many_rules(len(productions), limits)
    counts = [
        node.count for node in (expander.node(n) for _, n, _ in nodes) if node.written is None
    ]
    return productions, sum(counts)


def _alternatives(
    name: str,
    number: int,
    priority: int,
    expander: Expander,
    outline: Outline,
    limits: GrammarLimits,
) -> list[Production]:
    """Return a rule's alternatives; equal ones that Lark tells apart are its error and ours."""
    node = expander.node(number)
    if node.alias is not None and name.startswith("_"):
        raise _alias_error(name, node.alias, outline)
    if node.written is None:
        try:
            rules = factored(expander, name, number, limits)
        except EqualAlternativesError:
            raise _equal_alternatives(name, "", outline) from None
        return [Production(origin, symbols, priority, name) for origin, symbols in rules]
    found: dict[tuple[int, ...], Production] = {}
    for symbols, _ in node.written:
        symbols = tuple(symbol for symbol in symbols if symbol != EMPTY)
        if symbols in found and symbols:
            text = " ".join(expander.symbol(symbol)[1] for symbol in symbols)
            raise _equal_alternatives(name, f": {text}", outline)
        found.setdefault(symbols, Production(name, symbols, priority, name))
    return list(found.values())


def _equal_alternatives(name: str, text: str, outline: Outline) -> GrammarError:
    return at_rule(
        GrammarDuplicateError,
        f"two alternatives of rule {name} are the same{text}",
        "remove one; where two [...] make them, write (...)? instead",
        name,
        outline,
    )


def _used(productions: list[Production], start: str, expander: Expander) -> list[Production]:
    """Drop rules that no other kept rule uses, as Lark does: a circle that nothing enters stays."""
    by_name: dict[str, list[Production]] = {}
    written_for: dict[str, str] = {}
    for production in productions:
        by_name.setdefault(production.written_for, []).append(production)
        written_for[production.origin] = production.written_for
    uses = {
        name: {
            written_for.get(used, used)
            for production in own
            for is_terminal, used in map(expander.symbol, production.symbols)
            if not is_terminal
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
    return [production for production in productions if production.written_for not in dropped]


def _numbered(
    productions: list[Production],
    terminals: Sequence[Terminal],
    expander: Expander,
    start: str,
    outline: Outline,
    terminals_of: Mapping[str, Sequence[str]],
) -> tuple[tuple[str, ...], tuple[Rule, ...]]:
    """Return the names of the nonterminals and the rules over numbers.

    ``terminals_of``: lists of literals, with their terminals; several are a rule of their own.
    """
    names = list(dict.fromkeys(production.origin for production in productions))
    divided = {name: parts for name, parts in terminals_of.items() if len(parts) > 1}
    names += [f"__{name.strip('_').lower()}" for name in divided]
    numbers: dict[tuple[bool, str], int] = {
        **{(True, terminal.name): i for i, terminal in enumerate(terminals)},
        **{(False, name): ~i for i, name in enumerate(names)},
    }
    rules = []
    for at, (name, parts) in enumerate(divided.items(), len(names) - len(divided)):
        rules += [Rule(at, (numbers[True, part],)) for part in parts]
        numbers[True, name] = ~at
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
    left = {production.written_for for production in kept}
    dropped = dict.fromkeys(p.written_for for p in productions if p.written_for not in left)
    return [name for name in dropped if name in own and not name.startswith("_")]

"""Front end of `::=` grammars (EBNF, and GBNF as llama.cpp documents it)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from cdec.compilers.grammars.analysis import reachable, unreachable_notice
from cdec.compilers.grammars.definition import Grammar, GrammarLimits
from cdec.compilers.grammars.ebnf.lex import Source, unsupported
from cdec.compilers.grammars.ebnf.lower import Lowering, RuleBuilder, lower_all, references
from cdec.compilers.grammars.ebnf.parse import NamedRule, Node, parse_rules
from cdec.core.errors import CdecError
from cdec.core.grammars.errors import GrammarStartError, GrammarSyntaxError, GrammarUndefinedError

_STARTS = ("root", "start")


def read_ebnf(
    text: str,
    *,
    start: str | None = None,
    limits: GrammarLimits = GrammarLimits(),
    apart: Collection[str] = (),
) -> Grammar:
    """Read a grammar whose rules are ``name ::= ...``.

    Literals in double or single quotes, classes ``[a-z]`` and ``[^a-z]``, ``.`` for any character,
    groups, ``|``, ``* + ? {m} {m,} {,n} {m,n}``, comments ``#``; an alternative may be empty, and
    a rule goes on until a line begins the next one. The meaning is the language of characters, so
    the lexer is ``dynamic`` and terminals are whatever parts happen to be regular.

    Args:
        text: The grammar, as ``decode_source`` returns it.
        start: Start rule; ``root``, else ``start``, if not given.
        limits: What it may cost.
        apart: Names of rules that stay rules, though they are regular.

    Returns:
        The grammar, rules that the start does not need left out with a notice.

    Raises:
        GrammarSyntaxError: Text that is no grammar.
        GrammarUnsupportedError: A construct of another dialect, named in ``construct``.
        GrammarStartError: No rule of the start's name.
        GrammarUndefinedError: A rule that is used and not defined.
        GrammarDuplicateError: A rule that is defined twice.
        LimitError: A limit that is passed, by its name.
    """
    source = Source.of(text)
    parsed, nodes = parse_rules(source, limits)
    rules = {rule.name: rule for rule in parsed}
    name = _start(start, rules)
    uses = references(parsed, nodes)
    _check_defined(source, rules, nodes, uses)
    needed = reachable(name, uses)
    kept = {rule.name: rule for rule in parsed if rule.name in needed}
    stray = [rule.name for rule in parsed if rule.name not in needed]
    builder = RuleBuilder(source, limits)
    lowering = Lowering(builder, nodes, apart)
    root = lowering.symbol(name)
    lower_all(lowering, kept, uses)
    lowering.write(kept)
    return Grammar(
        terminals=tuple(builder.terminals),
        nonterminals=tuple(builder.nonterminals),
        rules=tuple(dict.fromkeys(builder.rules)),
        start=~root,
        ignored=frozenset(),
        lexer="dynamic",
        source=text,
        dialect="ebnf",
        notices=(unreachable_notice(stray),) if stray else (),
    )


def _start(start: str | None, rules: Mapping[str, NamedRule]) -> str:
    if not rules:
        raise GrammarSyntaxError(
            "line 1: no rule, so nothing to start from", hint="write root ::= ...", line=1, column=1
        )
    for name in _STARTS if start is None else (start,):
        if name in rules:
            return name
    wanted = "root or start" if start is None else repr(start)
    first = next(iter(rules))
    raise GrammarStartError(
        f"no rule {wanted} to start from; the grammar begins with {first!r}",
        hint=f"`start` {first}",
    )


def _check_defined(
    source: Source,
    rules: Mapping[str, NamedRule],
    nodes: Sequence[Node],
    uses: Mapping[str, Mapping[str, int]],
) -> None:
    for used in uses.values():
        for name, number in used.items():
            if name not in rules:
                raise _undefined(source, name, nodes[number].offset, list(rules))


def _undefined(source: Source, name: str, offset: int, known: list[str]) -> CdecError:
    if name.startswith("-"):  # names may, and other dialects have A - B
        hint = "list what is allowed instead"
        return unsupported(source, offset, "an exclusion A - B", "-", hint)
    near = get_close_matches(name, known[:10_000], 1)
    return source.error(
        GrammarUndefinedError,
        offset,
        f"the rule {name!r} is used and not defined",
        f"did you mean {near[0]!r}?" if near else f"add {name} ::= ..., or quote it",
        name=name,
    )

"""Analysis of a grammar's rules before there are tables: useless ones, recursion, empty ones.

Directed graphs of small integers are what it counts with.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from cdec.compilers.grammars.definition import Grammar, Rule
from cdec.core.errors import Notice
from cdec.core.grammars.errors import EmptyLanguageError

_Node = TypeVar("_Node", int, str)
_SHOWN = 5
"""Names that a message lists; its details list all."""
_MAX_OPTIONAL = 2
"""Symbols of one rule that may be left out before the rule is cut in two: at most four variants."""


def reachable(first: _Node, successors: Any) -> set[_Node]:
    """Return the nodes that can be reached from one, itself included.

    Args:
        first: A number, or a name.
        successors: Of each node, by index or by name.
    """
    found, pending = {first}, [first]
    while pending:
        fresh = [node for node in successors[pending.pop()] if node not in found]
        found.update(fresh)
        pending += fresh
    return found


def components(successors: Sequence[Collection[int]]) -> list[int]:
    """Number the strongly connected components (Tarjan, SIAM J. Comput. 1972), iteratively.

    Returns:
        Component of each node; a component's number is above those of what it leads to. Cost:
        linear in nodes and edges.
    """
    count = len(successors)
    order = [-1] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    clock = found = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        path = [(root, iter(successors[root]))]
        while path:
            node, following = path[-1]
            if order[node] < 0:
                order[node] = low[node] = clock
                clock += 1
                stack.append(node)
            for other in following:
                if order[other] < 0:
                    path.append((other, iter(successors[other])))
                    break
                if component[other] < 0:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[stack.pop()] = found
                    found += 1
    return component


def closed_nonterminals(rules: Sequence[Rule], terminals: frozenset[int] | None) -> frozenset[int]:
    """Return the nonterminals that derive a text of the given terminals only.

    Nullable symbols are those that derive a text of no terminals; productive ones those that
    derive a text of any. One counter a rule: linear in the length of the rules.

    Args:
        rules: Plain BNF.
        terminals: Terminals that count as done; None: all of them.

    Returns:
        Nonterminal numbers.
    """
    open_symbols = [0] * len(rules)
    users: dict[int, list[int]] = {}
    found: set[int] = set()
    ready: deque[int] = deque()
    for number, rule in enumerate(rules):
        for symbol in rule.rhs:
            if symbol < 0:
                users.setdefault(~symbol, []).append(number)
            if symbol < 0 or (terminals is not None and symbol not in terminals):
                open_symbols[number] += 1
        if not open_symbols[number]:
            ready.append(rule.lhs)
    while ready:
        nonterminal = ready.popleft()
        if nonterminal in found:
            continue
        found.add(nonterminal)
        for number in users.get(nonterminal, ()):
            open_symbols[number] -= 1
            if not open_symbols[number]:
                ready.append(rules[number].lhs)
    return frozenset(found)


def union_reached(successors: Sequence[Sequence[int]], values: Sequence[int]) -> list[int]:
    """Return, per node, the union of its own value and those of all nodes it reaches.

    DeRemer and Pennello's algorithm ``Digraph`` (1982).

    Args:
        successors: Per node: nodes whose values it includes.
        values: Per node: a set as the bits of an integer.
    """
    component = components(successors)
    unions = [0] * (max(component, default=-1) + 1)
    # What a component leads to has a smaller number, and so is whole before it.
    for node in sorted(range(len(component)), key=component.__getitem__):
        union = values[node]
        for other in successors[node]:
            union |= unions[component[other]]
        unions[component[node]] |= union
    return [unions[number] for number in component]


def used_rules(rules: Sequence[Rule], start: int) -> tuple[Rule, ...]:
    """Return the rules that derivations from ``start`` can use, in their order."""
    uses = defaultdict[int, set[int]](set)
    for rule in rules:
        uses[rule.lhs].update(~symbol for symbol in rule.rhs if symbol < 0)
    reached = reachable(start, uses)
    return tuple(rule for rule in rules if rule.lhs in reached)


def nullable_nonterminals(grammar: Grammar) -> frozenset[int]:
    """Return the nonterminals that can be empty; linear in the rules."""
    return closed_nonterminals(grammar.rules, frozenset())


def analyse(grammar: Grammar, *, keep_unproductive: bool = False) -> Grammar:
    """Remove nonterminals that produce no text or that the start does not reach.

    Terminals keep their numbers, used or not: under ``basic`` all of them compete.

    Args:
        grammar: From a front end.
        keep_unproductive: Remove only what the start does not reach.

    Returns:
        The grammar with its remaining nonterminals renumbered in order, and notices
        ``W_UNPRODUCTIVE_RULE`` and ``W_UNREACHABLE_RULE``. Cost: linear in the rules.

    Raises:
        EmptyLanguageError: The start produces no text.
    """
    productive = closed_nonterminals(grammar.rules, None)
    if grammar.start not in productive:
        raise _empty(grammar)
    rules = [rule for rule in grammar.rules if all(s >= 0 or ~s in productive for s in rule.rhs)]
    written = reachable(grammar.start, _uses(grammar, grammar.rules))
    reached = reachable(grammar.start, _uses(grammar, rules))
    if keep_unproductive:
        rules, reached = list(grammar.rules), written
    kept = sorted(reached)
    number = {old: new for new, old in enumerate(kept)}
    names = grammar.nonterminals
    dead = [names[n] for n in range(len(names)) if n not in productive]
    # What only unproductive alternatives lead to goes with them: their warning is enough.
    stray = [names[n] for n in range(len(names)) if n in productive and n not in written]
    return replace(
        grammar,
        nonterminals=tuple(names[old] for old in kept),
        rules=tuple(
            Rule(
                number[rule.lhs],
                tuple(s if s >= 0 else ~number[~s] for s in rule.rhs),
                rule.priority,
            )
            for rule in rules
            if rule.lhs in reached
        ),
        start=number[grammar.start],
        notices=_with_warnings(grammar.notices, _shown_names(dead), _shown_names(stray)),
    )


def _uses(grammar: Grammar, rules: Iterable[Rule]) -> list[set[int]]:
    uses: list[set[int]] = [set() for _ in grammar.nonterminals]
    for rule in rules:
        uses[rule.lhs].update(~symbol for symbol in rule.rhs if symbol < 0)
    return uses


def unreachable_notice(names: Sequence[str]) -> Notice:
    """Return the warning of rules that nothing reaches from the start."""
    return Notice(
        "W_UNREACHABLE_RULE",
        f"the start reaches no rule {_listed(names)}",
        {"rules": list(names)},
    )


def _with_warnings(
    notices: Sequence[Notice], dead: Sequence[str], stray: Sequence[str]
) -> tuple[Notice, ...]:
    """Add the warnings; rules that the front end found unreachable are named in the same one."""
    earlier = [
        n for notice in notices if notice.code == "W_UNREACHABLE_RULE" for n in _names_of(notice)
    ]
    kept = [notice for notice in notices if notice.code != "W_UNREACHABLE_RULE"]
    if dead:
        kept.append(
            Notice(
                "W_UNPRODUCTIVE_RULE",
                f"no text satisfies rule {_listed(dead)}, so alternatives that use it are dropped",
                {"rules": list(dead)},
            )
        )
    if earlier or stray:
        kept.append(unreachable_notice([*dict.fromkeys([*earlier, *stray])]))
    return tuple(kept)


def _names_of(notice: Notice) -> Iterator[str]:
    names = notice.details.get("rules", [])
    yield from names if isinstance(names, list) else []


def _shown_names(names: Iterable[str]) -> list[str]:
    """Leave out helpers and uses of templates: their rule is named by itself."""
    return [name for name in names if not name.startswith("_") and "{" not in name]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _empty(grammar: Grammar) -> EmptyLanguageError:
    name = grammar.nonterminals[grammar.start]
    return EmptyLanguageError(
        f"no text satisfies rule {name}: every alternative of it needs itself or another such rule",
        hint="give the recursion an end: an alternative without it",
        name=name,
    )


def hidden_left_recursive(grammar: Grammar) -> list[str]:
    """Return the nonterminals that can begin with themselves behind something empty.

    Such a grammar is LR(k) for no k: the parser must guess how many empty things to put down
    before it has seen what would tell.

    Args:
        grammar: Its rules are looked at.

    Returns:
        Names, in the grammar's order. Cost: linear in the length of the rules.
    """
    nullable = nullable_nonterminals(grammar)
    begins: list[set[int]] = [set() for _ in grammar.nonterminals]
    hidden: list[tuple[int, int]] = []
    for rule in grammar.rules:
        for place, symbol in enumerate(rule.rhs):
            if symbol >= 0:
                break
            begins[rule.lhs].add(~symbol)
            if place:
                hidden.append((rule.lhs, ~symbol))
            if ~symbol not in nullable:
                break
    component = components(begins)
    found = {lhs for lhs, first in hidden if component[lhs] == component[first]}
    return [grammar.nonterminals[number] for number in sorted(found)]


class EpsilonFree(NamedTuple):
    """A grammar's rules without empty ones.

    Attributes:
        rules: No ``rhs`` is empty; all are reachable and productive; no rule ``A -> A``.
        nonterminals: Names: those of the grammar, then those of the rests of long rules.
        start_nullable: The empty text belongs to the language and needs saying apart.
    """

    rules: tuple[Rule, ...]
    nonterminals: tuple[str, ...]
    start_nullable: bool


def epsilon_free(
    grammar: Grammar,
    nullable_terminals: frozenset[int] = frozenset(),
    barren_terminals: frozenset[int] = frozenset(),
) -> EpsilonFree:
    """Remove empty rules: every occurrence of a nullable symbol becomes optional.

    Rules with many nullable symbols are cut first (``A -> B C D E`` into ``A -> B R`` and
    ``R -> C D E``), so that the result is linear in the grammar and not exponential.

    Args:
        nullable_terminals: Terminals that can match the empty text; afterwards they do not.
        barren_terminals: Terminals that can match nothing but, perhaps, the empty text.

    Returns:
        Rules for the same language over nonempty terminals, less the empty text.
    """
    nullable = closed_nonterminals(grammar.rules, nullable_terminals)
    optional = {~nonterminal for nonterminal in nullable} | set(nullable_terminals)
    names = list(grammar.nonterminals)
    variants: dict[Rule, None] = {}
    for rule in grammar.rules:
        for piece in _cut(rule, optional, names):
            for rhs in _choices(piece.rhs, optional):
                if rhs and rhs != (~piece.lhs,):
                    variants.setdefault(Rule(piece.lhs, rhs, piece.priority))
    every = frozenset(range(len(grammar.terminals)))
    productive = closed_nonterminals(tuple(variants), every - barren_terminals)
    rules = [
        rule
        for rule in variants
        if all(
            (~symbol in productive) if symbol < 0 else (symbol not in barren_terminals)
            for symbol in rule.rhs
        )
    ]
    return EpsilonFree(used_rules(rules, grammar.start), tuple(names), grammar.start in nullable)


def _cut(rule: Rule, optional: set[int], names: list[str]) -> Iterator[Rule]:
    """Yield rules equal to ``rule`` with at most ``_MAX_OPTIONAL`` symbols that can be left out.

    Adds the names of new nonterminals to ``names`` and, where the rest of a rule can be empty,
    the new nonterminal to ``optional``.
    """
    places = [place for place, symbol in enumerate(rule.rhs) if symbol in optional]
    # subtle: a rest is optional only if all its symbols are, so it is known before it is cut.
    all_optional_from = len(rule.rhs)
    while all_optional_from and rule.rhs[all_optional_from - 1] in optional:
        all_optional_from -= 1
    lhs, begin = rule.lhs, 0
    for place in places[:-_MAX_OPTIONAL]:
        cut = place + 1
        rest = len(names)
        names.append(f"__{names[rule.lhs]}_from_{cut + 1}")
        if cut >= all_optional_from:
            optional.add(~rest)
        yield Rule(lhs, (*rule.rhs[begin:cut], ~rest), rule.priority)
        lhs, begin = rest, cut
    yield Rule(lhs, rule.rhs[begin:], rule.priority)


def _choices(rhs: tuple[int, ...], optional: set[int]) -> list[tuple[int, ...]]:
    """Return ``rhs`` with every subset of its optional symbols left out."""
    places = [place for place, symbol in enumerate(rhs) if symbol in optional]
    found = []
    for subset in range(1 << len(places)):
        gone = {place for bit, place in enumerate(places) if subset >> bit & 1}
        found.append(tuple(symbol for place, symbol in enumerate(rhs) if place not in gone))
    return found

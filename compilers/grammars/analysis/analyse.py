"""Remove the rules of a grammar that no text can use; describe its recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import and_, or_

from cdec.compilers.grammars.analysis.graphs import components, longest_way, on_cycles, reachable
from cdec.compilers.grammars.analysis.nullable import closed_nonterminals, nullable_nonterminals
from cdec.compilers.grammars.definition import Grammar, Rule
from cdec.core.errors import Notice
from cdec.core.grammars.errors import EmptyLanguageError

_SHOWN = 5
"""Names that a message lists; its details list all."""


@dataclass(frozen=True, slots=True)
class GrammarFacts:
    """What shape the rules have; names are of nonterminals, in the grammar's order.

    Attributes:
        nullable: They can be empty.
        nullable_loops: They can repeat the empty text without bound, as ``("a"*)*`` can.
        left_recursive: They can begin with themselves, perhaps after something empty.
        cyclic: They can consist of nothing but themselves, so texts have infinitely many trees.
        self_embedding: They can contain themselves with text on both sides: true nesting.
        nesting: Rules within rules at most; None where something is recursive.
    """

    nullable: tuple[str, ...]
    nullable_loops: tuple[str, ...]
    left_recursive: tuple[str, ...]
    cyclic: tuple[str, ...]
    self_embedding: tuple[str, ...]
    nesting: int | None


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


def grammar_facts(grammar: Grammar) -> GrammarFacts:
    """Describe the recursion of a grammar.

    Args:
        grammar: Analysed: every nonterminal is productive.

    Returns:
        The facts. Cost: linear in the rules.
    """
    nullable, visible = nullable_nonterminals(grammar), _visible(grammar)
    uses = _uses(grammar, grammar.rules)
    component = components(uses)
    unit: list[set[int]] = [set() for _ in uses]
    left: list[set[int]] = [set() for _ in uses]
    with_text_before: set[int] = set()
    with_text_after: set[int] = set()
    for rule in grammar.rules:
        empty = [s < 0 and ~s in nullable for s in rule.rhs]
        text = [s >= 0 or ~s in visible for s in rule.rhs]
        nothing_before, nothing_after = _outside(empty, and_, True)
        text_before, text_after = _outside(text, or_, False)
        for i, symbol in enumerate(rule.rhs):
            if symbol >= 0:
                continue
            if nothing_before[i]:
                left[rule.lhs].add(~symbol)
                if nothing_after[i]:
                    unit[rule.lhs].add(~symbol)
            if component[~symbol] == component[rule.lhs]:
                with_text_before.update({component[~symbol]} if text_before[i] else ())
                with_text_after.update({component[~symbol]} if text_after[i] else ())
    cyclic, nested = on_cycles(unit), with_text_before & with_text_after

    def named(numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(grammar.nonterminals[n] for n in sorted(numbers))

    return GrammarFacts(
        nullable=named(nullable),
        nullable_loops=named(cyclic & nullable),
        left_recursive=named(on_cycles(left)),
        cyclic=named(cyclic),
        self_embedding=named(n for n in range(len(uses)) if component[n] in nested),
        nesting=None if nested else longest_way(grammar.start, uses),
    )


def _visible(grammar: Grammar) -> set[int]:
    """Return the nonterminals that can produce some text that is not empty."""
    used_by: list[set[int]] = [set() for _ in grammar.nonterminals]
    pending = []
    for rule in grammar.rules:
        for symbol in rule.rhs:
            if symbol < 0:
                used_by[~symbol].add(rule.lhs)
        if any(symbol >= 0 for symbol in rule.rhs):
            pending.append(rule.lhs)
    found = set(pending)
    while pending:
        fresh = used_by[pending.pop()] - found
        found |= fresh
        pending += fresh
    return found


def _uses(grammar: Grammar, rules: Iterable[Rule]) -> list[set[int]]:
    uses: list[set[int]] = [set() for _ in grammar.nonterminals]
    for rule in rules:
        uses[rule.lhs].update(~symbol for symbol in rule.rhs if symbol < 0)
    return uses


def _outside(
    flags: Sequence[bool], combine: Callable[[bool, bool], bool], initial: bool
) -> tuple[list[bool], list[bool]]:
    """Combine, for every place, the flags before it and the flags after it."""
    before = list(accumulate(flags, combine, initial=initial))[:-1]
    after = list(accumulate(reversed(flags), combine, initial=initial))[:-1]
    return before, after[::-1]


def unreachable_notice(names: Sequence[str]) -> Notice:
    """Return the warning of rules that nothing reaches from the start."""
    return Notice(
        "W_UNREACHABLE_RULE",
        f"the start reaches no rule {_listed(names)}",
        {"rules": list(names)},
    )


def _unproductive_notice(names: Sequence[str]) -> Notice:
    return Notice(
        "W_UNPRODUCTIVE_RULE",
        f"no text satisfies rule {_listed(names)}, so alternatives that use it are dropped",
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
        kept.append(_unproductive_notice(dead))
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

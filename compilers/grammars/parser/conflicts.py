"""Which action a parse table takes where several are possible, as lark decides it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cdec.compilers.grammars.definition import Grammar, Rule
from cdec.core.grammars.errors import GrammarConflictError

_MAX_NAMES = 8


class Conflict(NamedTuple):
    """A place where one action was taken and another was possible.

    Attributes:
        state: LR state.
        terminals: Before which terminals (the end of the text is ``len(grammar.terminals)``).
        rules: What could be reduced there, ascending.
        shift: A shift was possible as well, and taken.
    """

    state: int
    terminals: tuple[int, ...]
    rules: tuple[int, ...]
    shift: bool


def bits(numbers: int) -> list[int]:
    """Return the positions of the bits that are set, ascending."""
    text = bin(numbers)[:1:-1]
    found = []
    place = text.find("1")
    while place >= 0:
        found.append(place)
        place = text.find("1", place + 1)
    return found


def resolve(
    state: int, shifted: int, reductions: dict[int, int], rules: Sequence[Rule]
) -> tuple[dict[int, int], list[Conflict]]:
    """Leave at most one action a terminal: higher rule priority first, then shift before reduce.

    Args:
        state: LR state, for the conflicts.
        shifted: Terminals that can be shifted, as bits.
        reductions: Rule -> terminals before which it can be reduced, as bits.
        rules: The grammar's rules.

    Returns:
        ``reductions`` without what lost; the conflicts. Those without ``shift`` are between rules
        of equal priority and have no resolution: their terminals are left out.
    """
    conflicts: list[Conflict] = []
    seen = clash = 0
    for terminals in reductions.values():
        clash |= seen & terminals
        seen |= terminals
    if not (clash or seen & shifted):
        return reductions, conflicts
    kept = dict(reductions)
    undecided: dict[tuple[int, ...], list[int]] = {}
    for terminal in bits(clash):
        rivals = sorted(rule for rule, terminals in kept.items() if terminals >> terminal & 1)
        ranked = sorted(rivals, key=lambda rule: -rules[rule].priority)
        # subtle: lark asks this before it looks for a shift, so rules of equal priority clash
        # even where a shift would beat them both.
        decided = rules[ranked[0]].priority > rules[ranked[1]].priority
        if not decided:
            undecided.setdefault(tuple(rivals), []).append(terminal)
        for rule in ranked[1:] if decided else ranked:
            kept[rule] &= ~(1 << terminal)
    for rivals_key, terminals_list in undecided.items():
        conflicts.append(Conflict(state, tuple(terminals_list), rivals_key, shift=False))
    for rule, terminals in kept.items():
        if terminals & shifted:
            conflicts.append(Conflict(state, tuple(bits(terminals & shifted)), (rule,), shift=True))
            kept[rule] = terminals & ~shifted
    return kept, conflicts


def conflict_error(
    grammar: Grammar,
    rules: Sequence[Rule],
    conflicts: Sequence[Conflict],
    items: Iterable[tuple[int, int]],
) -> GrammarConflictError:
    """Return the error for conflicts without resolution.

    Args:
        grammar: The grammar, for names.
        rules: The rules that conflicts refer to.
        conflicts: At least one.
        items: Kernel items (rule, dot) of the first conflict's state.
    """
    first = conflicts[0]
    names = [terminal_name(grammar, terminal) for terminal in first.terminals]
    shown = ", ".join(names[:_MAX_NAMES]) + (", ..." if len(names) > _MAX_NAMES else "")
    reduced = [rule_text(grammar, rules[rule]) for rule in first.rules]
    after = [rule_text(grammar, rules[rule], dot) for rule, dot in items]
    more = f" ({len(conflicts) - 1} more such places)" if len(conflicts) > 1 else ""
    return GrammarConflictError(
        f"the grammar is not LALR(1): before {shown} both {' and '.join(reduced[:_MAX_NAMES])} "
        f"could end{more}",
        hint="use `lexer` dynamic, which parses every grammar, or give one rule a higher priority",
        terminals=names,
        rules=reduced,
        state_items=after,
        conflicts=len(conflicts),
    )


def terminal_name(grammar: Grammar, terminal: int) -> str:
    """Return a terminal as it is shown to users: its text in quotes, or its name."""
    if terminal == len(grammar.terminals):
        return "the end of the text"
    found = grammar.terminals[terminal]
    return f'"{found.value}"' if found.is_string and not found.words else found.name


def rule_text(grammar: Grammar, rule: Rule, dot: int | None = None) -> str:
    """Return a rule as ``a -> b C``, with a dot where one is given."""
    names = [
        grammar.nonterminals[~symbol] if symbol < 0 else terminal_name(grammar, symbol)
        for symbol in rule.rhs
    ]
    if dot is not None:
        names.insert(dot, ".")
    return f"{grammar.nonterminals[rule.lhs]} -> {' '.join(names) or '(nothing)'}"

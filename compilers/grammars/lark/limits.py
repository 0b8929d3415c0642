"""Limits that must hold before Lark sees a grammar: nesting, counts, rules, sizes of terminals."""

from __future__ import annotations

from itertools import pairwise

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.scan import Outline, Statement
from cdec.compilers.grammars.lark.word_lists import long_runs
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import GrammarSyntaxError, TerminalRecursionError

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_EXPANDED_BYTES = 4
"""Terminals may expand to so many times ``max_grammar_bytes`` characters of regular expressions."""


def check_limits(outline: Outline, limits: GrammarLimits) -> None:
    """Check what Lark would otherwise spend unbounded time, memory or recursion on.

    Args:
        outline: The grammar.
        limits: Limits.

    Raises:
        LimitError: ``max_nesting``, ``max_repeat``, ``max_rules`` or ``max_grammar_bytes`` is
            passed; the last one where terminals within terminals multiply out.
        GrammarSyntaxError: A repetition with swapped or negative bounds.
        TerminalRecursionError: A terminal within itself.
    """
    _check_nesting(outline, limits)
    _check_counts(outline, limits)
    _check_rules(outline, limits)
    _check_terminals(outline, limits)


def _check_nesting(outline: Outline, limits: GrammarLimits) -> None:
    for statement in outline.statements:
        depth = 0
        for token in statement.body:
            if token.text in _OPEN:
                depth += 1
                if depth > limits.max_nesting:
                    raise LimitError(
                        f"{outline.where(token.position)}: brackets nest deeper than "
                        f"{limits.max_nesting}",
                        hint="give the inner parts names of their own, or raise `max_nesting`",
                        limit="max_nesting",
                        **outline.place(token.position),
                    )
            elif token.text in _CLOSE:
                depth -= 1


def _check_counts(outline: Outline, limits: GrammarLimits) -> None:
    tokens = outline.tokens
    for i, token in enumerate(tokens):
        if token.text != "~" or i + 1 >= len(tokens) or tokens[i + 1].kind != "NUMBER":
            continue
        # subtle: int() of very many digits is refused, so long numbers are cut first.
        counts = [int(tokens[i + 1].text[:20])]
        if i + 3 < len(tokens) and tokens[i + 2].text == ".." and tokens[i + 3].kind == "NUMBER":
            counts.append(int(tokens[i + 3].text[:20]))
        place = outline.place(token.position)
        if counts[0] < 0 or counts[-1] < counts[0]:
            raise GrammarSyntaxError(
                f"{outline.where(token.position)}: cannot repeat from {counts[0]} to {counts[-1]} "
                "times",
                hint="write ~n, or ~n..m with n no more than m",
                **place,
            )
        if counts[-1] > limits.max_repeat:
            raise LimitError(
                f"{outline.where(token.position)}: {counts[-1]:,} repetitions, the limit is "
                f"{limits.max_repeat:,}",
                hint="raise `max_repeat`, or repeat without a bound",
                limit="max_repeat",
                **place,
            )


def _check_rules(outline: Outline, limits: GrammarLimits) -> None:
    rules = [s for s in outline.definitions() if not s.is_terminal]
    alternatives = sum(token.text == "|" for rule in rules for token in rule.body) + len(rules)
    alternatives -= sum(len(run) for _, run in long_runs(outline))
    if alternatives > limits.max_rules:
        raise too_many_rules(alternatives, limits)


def too_many_rules(count: int, limits: GrammarLimits, where: str = "the grammar") -> LimitError:
    """Return the error of a grammar with more alternatives than the limit."""
    return LimitError(
        f"{where} has at least {count:,} alternatives, the limit is {limits.max_rules:,}",
        hint="write alternatives of literals as one terminal, give groups that multiply out names "
        "of their own, or raise `max_rules`",
        limit="max_rules",
    )


def _check_terminals(outline: Outline, limits: GrammarLimits) -> None:
    """Find recursion, depth and expanded size of terminals within terminals, without recursion."""
    terminals: dict[str, list[Statement]] = {}
    for statement in outline.definitions():
        if statement.is_terminal and statement.name is not None:
            terminals.setdefault(statement.name.text, []).append(statement)
    sizes: dict[str, tuple[int, int]] = {}
    for name in terminals:
        _measure(outline, name, terminals, sizes, limits)
    if sum(size for size, _ in sizes.values()) > _EXPANDED_BYTES * limits.max_grammar_bytes:
        raise LimitError(
            "terminals within terminals multiply out to more than "
            f"{_EXPANDED_BYTES * limits.max_grammar_bytes:,} characters",
            hint="make rules of the outer terminals, or raise `max_grammar_bytes`",
            limit="max_grammar_bytes",
        )


def _measure(
    outline: Outline,
    first: str,
    terminals: dict[str, list[Statement]],
    sizes: dict[str, tuple[int, int]],
    limits: GrammarLimits,
) -> None:
    """Set ``sizes[first]`` and of all it needs: (characters when expanded, levels)."""
    if first in sizes:
        return
    path, under_way = [first], {first}
    used = {first: _terminals_used(terminals[first], terminals)}
    pending = {first: list(used[first])}
    while path:
        name = path[-1]
        while pending[name] and pending[name][-1] in sizes:
            pending[name].pop()
        if pending[name]:
            inner = pending[name][-1]
            if inner in under_way:
                raise _recursion(outline, terminals[inner][0], path[path.index(inner) :])
            used[inner] = _terminals_used(terminals[inner], terminals)
            pending[inner] = list(used[inner])
            path.append(inner)
            under_way.add(inner)
            continue
        parts = [sizes[inner] for inner in used[name]]
        own = sum(len(token.text) for statement in terminals[name] for token in statement.body)
        levels = 1 + max((level for _, level in parts), default=0)
        if levels > limits.max_nesting:
            raise _too_many_levels(outline, terminals[name][0], limits)
        sizes[name] = own + sum(size for size, _ in parts), levels
        under_way.discard(path.pop())


def _terminals_used(
    statements: list[Statement], terminals: dict[str, list[Statement]]
) -> list[str]:
    tokens = [token for statement in statements for token in statement.body]
    return [t.text for t in tokens if t.kind == "TERMINAL" and t.text in terminals]


def _recursion(outline: Outline, statement: Statement, cycle: list[str]) -> TerminalRecursionError:
    assert statement.name is not None
    position = statement.name.position
    steps = ", ".join(f"{a} uses {b}" for a, b in pairwise([*cycle, cycle[0]]))
    return TerminalRecursionError(
        f"{outline.where(position)}: terminal {statement.name.text} is defined by itself ({steps})",
        hint="recursion is for rules: write the name in lower case",
        name=statement.name.text,
        **outline.place(position),
    )


def _too_many_levels(outline: Outline, statement: Statement, limits: GrammarLimits) -> LimitError:
    assert statement.name is not None
    position = statement.name.position
    return LimitError(
        f"{outline.where(position)}: terminal {statement.name.text} is built of terminals more "
        f"than {limits.max_nesting} levels deep",
        hint="make rules of the outer terminals, or raise `max_nesting`",
        limit="max_nesting",
        **outline.place(position),
    )

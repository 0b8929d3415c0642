"""Order in which `::=` rules are lowered: those that need no recursion first, loops resolved."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from cdec.compilers.grammars.ebnf import regular
from cdec.compilers.grammars.ebnf.lower import Lowering
from cdec.compilers.grammars.ebnf.parse import NamedRule, Node
from cdec.compilers.grammars.ebnf.regular import Regular, TooLargeError

Linear = tuple[Regular | None, Regular | None]
"""(A, B) of ``A rule | B`` or ``rule A | B``; None is the empty language."""


def references(rules: Iterable[NamedRule], nodes: Sequence[Node]) -> dict[str, dict[str, int]]:
    """Return, for each rule, the names it refers to and the first node that does."""
    found: dict[str, dict[str, int]] = {}
    for rule in rules:
        names = found.setdefault(rule.name, {})
        for number in range(rule.first, rule.body + 1):
            if nodes[number].kind == "reference":
                names.setdefault(nodes[number].text, number)
    return found


def reachable(start: str, uses: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the names that ``start`` needs, itself included."""
    seen, waiting = {start}, [start]
    while waiting:
        for name in uses[waiting.pop()]:
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def lower_all(
    lowering: Lowering, rules: Mapping[str, NamedRule], uses: Mapping[str, Mapping[str, int]]
) -> None:
    """Lower every rule, after those it refers to unless they lead back to it.

    A rule whose only recursion is its own, at one end (``ws ::= ([ \\t] ws)?``), is regular by
    Arden's lemma. Cost: linear in the nodes.
    """
    users: dict[str, list[str]] = {name: [] for name in rules}
    missing = {}
    for name in rules:
        others = [used for used in uses[name] if used != name]
        missing[name] = len(others)
        for used in others:
            users[used].append(name)
    ready = deque(name for name in rules if not missing[name])
    left = dict.fromkeys(rules)
    while ready:
        name = ready.popleft()
        if name in uses[name]:
            solved = solve_linear(rules[name], lowering)
            if solved is None:
                continue
            lowering.set_regular(name, solved)
        else:
            lowering.lower(rules[name])
        del left[name]
        for user in users[name]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    for name in left:
        lowering.lower(rules[name])


def solve_linear(rule: NamedRule, lowering: Lowering) -> Regular | None:
    """Return the language of a rule that recurs only to itself and only at one end, or None."""
    for at_end in (True, False):
        try:
            again, base = _linear(rule, lowering, at_end)
            if again is None or base is None:
                return None
            loop = regular.repeat(again, 0, None)
            return regular.concatenate(*((loop, base) if at_end else (base, loop)))
        except (TooLargeError, _NotLinearError):
            continue
    return None


class _NotLinearError(Exception):
    pass


def _linear(rule: NamedRule, lowering: Lowering, at_end: bool) -> Linear:
    values: dict[int, Linear] = {}
    for number in range(rule.first, rule.body + 1):
        node = lowering.nodes[number]
        parts = [values.pop(part) for part in node.parts]
        if node.kind == "literal":
            values[number] = None, regular.literal(node.text)
        elif node.kind == "class":
            values[number] = None, regular.one_of(node.ranges)
        elif node.kind == "reference":
            values[number] = _reference(node.text, rule.name, lowering)
        elif node.kind == "sequence":
            values[number] = _sequence(parts, at_end)
        elif node.kind == "choice":
            values[number] = _either([p[0] for p in parts]), _either([p[1] for p in parts])
        else:
            values[number] = _repeat(parts[0], node)
    return values[rule.body]


def _reference(name: str, own: str, lowering: Lowering) -> Linear:
    if name == own:
        return regular.EMPTY, None
    if name not in lowering.regular:
        raise _NotLinearError
    return None, lowering.regular[name]


def _sequence(parts: list[Linear], at_end: bool) -> Linear:
    again: Regular | None = None
    base: Regular | None = regular.EMPTY
    ordered = parts if at_end else parts[::-1]
    for index, (loop, plain) in enumerate(ordered):
        if loop is not None and index < len(ordered) - 1:
            raise _NotLinearError
        again, base = _join(base, loop, at_end), _join(base, plain, at_end)
    return again, base


def _join(done: Regular | None, part: Regular | None, at_end: bool) -> Regular | None:
    if done is None or part is None:
        return None
    return regular.concatenate(*((done, part) if at_end else (part, done)))


def _either(parts: list[Regular | None]) -> Regular | None:
    present = [part for part in parts if part is not None]
    return regular.choose(present) if present else None


def _repeat(part: Linear, node: Node) -> Linear:
    loop, plain = part
    if loop is None:
        return None, None if plain is None else regular.repeat(plain, node.least, node.most)
    if (node.least, node.most) != (0, 1):
        raise _NotLinearError
    return loop, regular.EMPTY if plain is None else regular.repeat(plain, 0, 1)

"""Plain BNF of `::=` rules: whatever is regular becomes part of a terminal.

Rules that need no recursion are lowered first, those that recur at one end alone are loops.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cdec.compilers.grammars.definition import GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.ebnf import regular
from cdec.compilers.grammars.ebnf.lex import Source
from cdec.compilers.grammars.ebnf.parse import NamedRule, Node
from cdec.compilers.grammars.ebnf.regular import Regular, TooLargeError
from cdec.core.errors import LimitError
from cdec.core.grammars.special import is_stand_in

Symbols = tuple[int, ...]
_LONG_NAME = 60
Value = Regular | list[Symbols]
"""A node's meaning: a regular language, or alternatives of symbols."""
Linear = tuple[Regular | None, Regular | None]
"""(A, B) of ``A rule | B`` or ``rule A | B``; None is the empty language."""


class RuleBuilder:
    """Collects terminals, nonterminals and rules; symbols are numbered as in ``Rule.rhs``."""

    def __init__(self, source: Source, limits: GrammarLimits) -> None:
        self.source = source
        self.limits = limits
        self.terminals: list[Terminal] = []
        self.nonterminals: list[str] = []
        self.rules: list[Rule] = []
        self._terminal_of: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._helpers: dict[tuple[str, int, int], int] = {}

    def nonterminal(self, name: str) -> int:
        """Return the symbol of a new nonterminal."""
        self.nonterminals.append(name)
        return ~(len(self.nonterminals) - 1)

    def add(self, lhs: int, rhs: Symbols) -> None:
        """Add the rule ``lhs -> rhs``.

        Raises:
            LimitError: More rules than the limit.
        """
        if len(self.rules) >= self.limits.max_rules:
            raise LimitError(
                f"the grammar expands to more than {self.limits.max_rules} rules",
                hint="raise `max_rules`, or split the grammar",
                limit="max_rules",
            )
        self.rules.append(Rule(~lhs, rhs))

    def terminal(self, regular: Regular, offset: int) -> int:
        """Return the terminal of a pattern, the empty text left out; equal patterns share one."""
        known = self._terminal_of.get(regular.pattern)
        if known is not None:
            return known
        number = len(self.terminals)
        line, column = self.source.position(offset)
        text = regular.literal
        self.terminals.append(
            Terminal(
                name=self._name_of(regular),
                pattern=regular.pattern,
                value=regular.pattern if text is None else text,
                is_string=text is not None and not is_stand_in(text),
                line=line,
                column=column,
            )
        )
        self._terminal_of[regular.pattern] = number
        return number

    def symbols(self, regular: Regular, offset: int) -> Symbols:
        """Return the symbols that read a regular language: a terminal, optional if nullable."""
        if not regular.pattern:
            return ()
        terminal = self.terminal(regular, offset)
        return self.between(terminal, 0, 1) if regular.nullable else (terminal,)

    def group(self, alternatives: list[Symbols]) -> int:
        """Return one symbol that stands for any of the alternatives."""
        if len(alternatives) == 1 and len(alternatives[0]) == 1:
            return alternatives[0][0]
        symbol = self.nonterminal(f"__group_{len(self.nonterminals)}")
        for alternative in dict.fromkeys(alternatives):
            self.add(symbol, alternative)
        return symbol

    def between(self, symbol: int, least: int, most: int | None) -> Symbols:
        """Return symbols that read ``symbol`` at least ``least`` and at most ``most`` times.

        Counts become doublings, so O(log of the count) rules; they follow the binary digits from
        the highest, so a parser that sees whether another one begins never has to guess.
        """
        if most is None:
            if least <= 1:
                return (self._unbounded(symbol, least),)
            return (*self._exactly(symbol, least - 1), self._unbounded(symbol, 1))
        return self._exactly(symbol, least) + self._up_to(symbol, most - least)

    def _unbounded(self, symbol: int, least: int) -> int:
        made, is_new = self._helper("many", symbol, least)
        if is_new:
            self.add(made, (symbol,) if least else ())
            self.add(made, (made, symbol))
        return made

    def _exactly(self, symbol: int, count: int) -> Symbols:
        digits = range(count.bit_length() - 1, -1, -1)
        return tuple(self._doubled(symbol, digit) for digit in digits if count >> digit & 1)

    def _doubled(self, symbol: int, times: int) -> int:
        """Return a symbol for exactly 2**times."""
        made = symbol
        for power in range(1, times + 1):
            half = made
            made, is_new = self._helper("twice", symbol, power)
            if is_new:
                self.add(made, (half, half))
        return made

    def _up_to(self, symbol: int, most: int) -> Symbols:
        """Return symbols for 0 to ``most``: below the highest power of 2, or it and the rest."""
        if most == 0:
            return ()
        digits = [d for d in range((most + 1).bit_length()) if (most + 1) >> d & 1]
        rest: Symbols = ()
        total = 0
        for index, digit in enumerate(digits):
            below = self._below(symbol, digit)
            total += 1 << digit
            if index == 0:
                rest = below
                continue
            made, is_new = self._helper("upto", symbol, total - 1)
            if is_new:
                self.add(made, below)
                self.add(made, (self._doubled(symbol, digit), *rest))
            rest = (made,)
        return rest

    def _below(self, symbol: int, power: int) -> Symbols:
        """Return symbols for 0 to 2**power - 1."""
        shorter: Symbols = ()
        for digit in range(1, power + 1):
            made, is_new = self._helper("upto", symbol, (1 << digit) - 1)
            if is_new:
                self.add(made, shorter)
                self.add(made, (self._doubled(symbol, digit - 1), *shorter))
            shorter = (made,)
        return shorter

    def _helper(self, kind: str, symbol: int, count: int) -> tuple[int, bool]:
        key = (kind, symbol, count)
        if key in self._helpers:
            return self._helpers[key], False
        of = self.terminals[symbol].name if symbol >= 0 else self.nonterminals[~symbol]
        made = self.nonterminal(f"__{kind}_{count}_{of}")
        self._helpers[key] = made
        return made, True

    def _name_of(self, regular: Regular) -> str:
        if regular.literal is not None:
            name = json.dumps(regular.literal, ensure_ascii=False)
        else:
            name = regular.name or f"/{regular.pattern}/"
        if len(name) > _LONG_NAME:
            name = f"{name[: _LONG_NAME - 2]}…{name[-1]}"
        seen = self._names.get(name, 0)
        self._names[name] = seen + 1
        return name if not seen else f"{name}#{seen + 1}"


class Lowering:
    """Turns rules into BNF, one after the other; rules that stay regular dissolve into terminals.

    Under ``dynamic`` every segmentation of the text counts, so it does not matter where one
    terminal ends and the next begins, and fewer and longer terminals are cheaper. A terminal never
    matches the empty text: a part that may be empty becomes an optional terminal.
    """

    def __init__(
        self, builder: RuleBuilder, nodes: Sequence[Node], apart: Collection[str] = ()
    ) -> None:
        self.builder = builder
        self.nodes = nodes
        self._apart = apart
        self.regular: dict[str, Regular] = {}
        self._values: dict[str, Value] = {}
        self._symbols: dict[str, int] = {}

    def symbol(self, name: str) -> int:
        """Return the nonterminal of a rule."""
        if name not in self._symbols:
            self._symbols[name] = self.builder.nonterminal(name)
        return self._symbols[name]

    def lower(self, rule: NamedRule) -> None:
        """Find what a rule means; rules it refers to are nonterminals unless already regular.

        Cost: O(nodes of the rule), children first, no recursion.
        """
        values: dict[int, Value] = {}
        for number in range(rule.first, rule.body + 1):
            values[number] = self._value(self.nodes[number], values)
        value = values[rule.body]
        if isinstance(value, Regular):
            self.set_regular(rule.name, value)
        else:
            self._values[rule.name] = value

    def set_regular(self, name: str, value: Regular) -> None:
        """Say that a rule is the regular language ``value``."""
        value = self._values[name] = replace(value, name=name)
        if name not in self._apart:
            self.regular[name] = value

    def write(self, rules: Mapping[str, NamedRule]) -> None:
        """Give the builder the rules of every nonterminal in use; call it after all ``lower``."""
        for name, symbol in list(self._symbols.items()):
            for alternative in dict.fromkeys(
                self._alternatives(self._values[name], rules[name].offset)
            ):
                self.builder.add(symbol, alternative)

    def _value(self, node: Node, values: dict[int, Value]) -> Value:
        if node.kind == "literal" and is_stand_in(node.text):
            return [(self.builder.terminal(regular.literal(node.text), node.offset),)]
        if node.kind == "literal":
            return regular.literal(node.text)
        if node.kind == "class":
            return regular.one_of(node.ranges)
        if node.kind == "reference":
            return self.regular.get(node.text) or [(self.symbol(node.text),)]
        parts = [(values.pop(part), self.nodes[part].offset) for part in node.parts]
        if node.kind == "sequence":
            return self._sequence(parts)
        if node.kind == "choice":
            return self._choice(parts)
        return self._repeat(*parts[0], node.least, node.most)

    def _sequence(self, parts: list[tuple[Value, int]]) -> Value:
        """Join what is regular side by side, as far as the terminals stay small."""
        symbols: list[int] = []
        run, run_offset, is_regular = regular.EMPTY, 0, True
        for value, offset in parts:
            joined = _joined(run, value) if isinstance(value, Regular) else None
            if joined is not None:
                run, run_offset = joined, run_offset if run.pattern else offset
                continue
            symbols += self.builder.symbols(run, run_offset)
            is_regular = False
            if isinstance(value, Regular):
                run, run_offset = value, offset
                continue
            run = regular.EMPTY
            symbols += value[0] if len(value) == 1 else (self.builder.group(value),)
        if is_regular:
            return run
        return [(*symbols, *self.builder.symbols(run, run_offset))]

    def _choice(self, parts: list[tuple[Value, int]]) -> Value:
        """Join the regular alternatives, as far as the terminals stay small; keep the others."""
        chunks: list[tuple[list[Regular], int]] = []
        size, alternatives = 0, []
        for value, offset in parts:
            if not isinstance(value, Regular):
                alternatives += value
                continue
            size += len(value.pattern) + 1
            if not chunks or size > regular.MAX_PATTERN:
                chunks.append(([], offset))
                size = len(value.pattern) + 1
            chunks[-1][0].append(value)
        chosen = [(part, at) for chunk, at in chunks for part in _chosen(chunk)]
        if len(chosen) == 1 and not alternatives:
            return chosen[0][0]
        if any(part.nullable for part, _ in chosen):
            alternatives.append(())
        for part, offset in chosen:
            if part.pattern:
                alternatives.append((self.builder.terminal(part, offset),))
        return alternatives

    def _repeat(self, value: Value, offset: int, least: int, most: int | None) -> Value:
        if most == 0:
            return regular.EMPTY
        if isinstance(value, Regular):
            try:
                return regular.repeat(value, least, most)
            except TooLargeError:
                least = 0 if value.nullable else least
                return [self.builder.between(self.builder.terminal(value, offset), least, most)]
        if (least, most) == (1, 1):
            return value
        if (least, most) == (0, 1):
            return [(), *value]
        return [self.builder.between(self.builder.group(value), least, most)]

    def _alternatives(self, value: Value, offset: int) -> list[Symbols]:
        if not isinstance(value, Regular):
            return value
        empty: list[Symbols] = [()] if value.nullable else []
        return [*empty, (self.builder.terminal(value, offset),)] if value.pattern else empty


def _joined(left: Regular, right: Regular) -> Regular | None:
    try:
        return regular.concatenate(left, right)
    except TooLargeError:
        return None


def _chosen(parts: list[Regular]) -> list[Regular]:
    try:
        return [regular.choose(parts)]
    except TooLargeError:
        return parts


def references(rules: Iterable[NamedRule], nodes: Sequence[Node]) -> dict[str, dict[str, int]]:
    """Return, for each rule, the names it refers to and the first node that does."""
    found: dict[str, dict[str, int]] = {}
    for rule in rules:
        names = found.setdefault(rule.name, {})
        for number in range(rule.first, rule.body + 1):
            if nodes[number].kind == "reference":
                names.setdefault(nodes[number].text, number)
    return found


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
        if node.kind == "literal" and is_stand_in(node.text):
            raise _NotLinearError
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

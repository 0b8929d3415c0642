"""From the nodes of `::=` rules to plain BNF: whatever is regular becomes part of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cdec.compilers.grammars.ebnf import regular
from cdec.compilers.grammars.ebnf.parse import NamedRule, Node
from cdec.compilers.grammars.ebnf.regular import Regular, TooLargeError
from cdec.compilers.grammars.ebnf.rules import RuleBuilder, Symbols

Value = Regular | list[Symbols]
"""A node's meaning: a regular language, or alternatives of symbols."""


class Lowering:
    """Turns rules into BNF, one after the other; rules that stay regular dissolve into terminals.

    Under ``dynamic`` every segmentation of the text counts, so it does not matter where one
    terminal ends and the next begins, and fewer and longer terminals are cheaper. A terminal never
    matches the empty text: a part that may be empty becomes an optional terminal.

    Args:
        builder: Takes terminals and rules.
        nodes: Of all rules.
    """

    def __init__(self, builder: RuleBuilder, nodes: Sequence[Node]) -> None:
        self.builder = builder
        self.nodes = nodes
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
            value = replace(value, name=rule.name)
            self.regular[rule.name] = value
        self._values[rule.name] = value

    def set_regular(self, name: str, value: Regular) -> None:
        """Say that a rule is the regular language ``value``."""
        self.regular[name] = self._values[name] = replace(value, name=name)

    def write(self, rules: Mapping[str, NamedRule]) -> None:
        """Give the builder the rules of every nonterminal in use; call it after all ``lower``."""
        for name, symbol in list(self._symbols.items()):
            for alternative in dict.fromkeys(
                self._alternatives(self._values[name], rules[name].offset)
            ):
                self.builder.add(symbol, alternative)

    def _value(self, node: Node, values: dict[int, Value]) -> Value:
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

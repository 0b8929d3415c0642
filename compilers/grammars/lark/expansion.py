"""Expansion of Lark's extended rules to plain alternatives, or to helper rules where they multiply.

What Lark does in ``EBNF_to_BNF`` and ``SimplifyRule_Visitor``, tree by tree, is done here on
interned nodes: equal parts are one node, which is what decides whether two repetitions share a
helper rule, and every node knows its alternatives. So the cost is that of the result, brackets may
nest, and the alternatives are counted before they are made.

Lark writes ``a? b? c?`` out as all eight alternatives. Here the alternatives of such a rule are the
words of a minimal automaton over symbols, and each of its states becomes a helper rule for what
can follow: ``s: a s1 | a | s1``, ``s1: b s2 | b | s2``, ``s2: c``. The parser never has to guess
more than with Lark's alternatives: the automaton is deterministic and nothing is reduced before the
end of the rule, so where Lark's tables hold the alternatives with one beginning, these hold the one
helper rule that follows that beginning, and both shift, end and conflict before the same terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from lark import Tree
from lark.grammar import Symbol
from lark.utils import small_factors

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.checks import too_many_rules
from cdec.core.errors import LimitError

EMPTY = 0
"""Node that stands where an optional ``[...]`` was left out; it matters only for duplicates."""
WRITTEN_OUT = 32
"""Sequences with so many alternatives are written out as Lark does; larger ones are factored."""
_UNROLLED = 50
"""Repetitions up to here are written out; above, helper rules repeat in factors, as in Lark."""
_FACTOR = 5
_MOST = 1 << 40
"""Larger counts of alternatives are not told apart."""
_SYMBOLS = 2
"""Rules may be written out to so many times ``max_grammar_bytes`` symbols."""

Alternative: TypeAlias = tuple[tuple[int, ...], str | None]
"""Symbol nodes, and the alias of the alternative."""
_STEPS = 20
"""Making an automaton may take so many times ``max_rules`` steps; its rules share most edges."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a rule.

    Attributes:
        kind: ``symbol``, ``choice``, ``sequence`` or ``alias``.
        parts: Nodes; of a symbol itself.
        alias: The first in it.
        count: Alternatives, at most: equal ones count once where they are written out.
        size: Symbols, every repetition counted.
        written: Alternatives in Lark's order, all different; None where they multiply out.
    """

    kind: str
    parts: tuple[int, ...]
    alias: str | None
    count: int
    size: int
    written: list[Alternative] | None


class AliasError(ValueError):
    """An alias inside brackets, which Lark cannot expand."""


class Expander:
    """Expands rules one after the other; helper rules are shared among all of them.

    Args:
        limits: ``max_rules`` bounds the alternatives of one rule.

    Attributes:
        helpers: Helper rules made so far: name and node.
        prefix: Name of the rule being expanded.
        keeps_all: The rule keeps all tokens (``!rule``), which decides what ``[...]`` leaves out.
    """

    def __init__(self, limits: GrammarLimits) -> None:
        self.limits = limits
        self.helpers: list[tuple[str, int]] = []
        self.prefix = ""
        self.keeps_all = False
        self._names: dict[int, tuple[bool, str]] = {}
        self._nodes = [Node("symbol", (EMPTY,), None, 1, 1, [((EMPTY,), None)])]
        self._interned: dict[object, int] = {}
        self._shared: dict[object, int] = {}
        self._symbols_left = _SYMBOLS * limits.max_grammar_bytes

    def expand(self, name: str, tree: Any, keeps_all: bool) -> int:
        """Expand one rule.

        Args:
            tree: Lark's tree of it, its literals and templates resolved.
            keeps_all: Of ``!rule``.

        Returns:
            Its node.

        Raises:
            LimitError: More alternatives than ``max_rules``.
            AliasError: An alias inside brackets.
        """
        self.prefix, self.keeps_all = name, keeps_all
        done: dict[int, tuple[int, int]] = {}
        for subtree in tree.iter_subtrees():
            children = [
                done[id(child)] if isinstance(child, Tree) else self._leaf(child)
                for child in subtree.children
                if isinstance(child, Tree | Symbol)
            ]
            done[id(subtree)] = self._node(subtree, children)
        return done[id(tree)][0]

    def node(self, number: int) -> Node:
        """Return a node; its parts have smaller numbers."""
        return self._nodes[number]

    def symbol(self, node: int) -> tuple[bool, str]:
        """Return whether a symbol node is a terminal, and its name."""
        return self._names[node]

    def nonterminal(self, name: str) -> int:
        """Return the symbol node of a nonterminal."""
        return self._symbol(False, name)

    def _leaf(self, symbol: Any) -> tuple[int, int]:
        if symbol.is_term:
            size = int(self.keeps_all or not symbol.filter_out)
        else:
            size = int(not symbol.name.startswith("_"))
        return self._symbol(symbol.is_term, str(symbol.name)), size

    def _node(self, tree: Any, children: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return a tree's node, and how many tokens it keeps at most (Lark's rule size)."""
        nodes = [node for node, _ in children]
        if tree.data == "expansions":
            return self._choice(nodes), max((size for _, size in children), default=0)
        if tree.data == "expansion":
            return self._sequence(nodes), sum(size for _, size in children)
        if tree.data == "alias":
            return self._alias(nodes[0], str(tree.children[1].name)), 0
        if tree.data == "maybe":
            (node, size) = children[0]
            return self._choice([node, self._sequence([EMPTY] * size)]), size
        return self._repetition(children[0], tree.children[1:])

    def _repetition(self, child: tuple[int, int], arguments: Sequence[Any]) -> tuple[int, int]:
        (node, size), operator = child, str(arguments[0])
        if operator == "?":
            return self._choice([node, self._sequence([])]), size
        if operator == "+":
            return self._recursive("plus", node), 0
        if operator == "*":
            return self._choice([self._recursive("star", node), self._sequence([])]), 0
        least, most = int(arguments[1]), int(arguments[-1])
        return self._counted(node, least, most), size * most if most < _UNROLLED else 0

    def _counted(self, node: int, least: int, most: int) -> int:
        if most < _UNROLLED:
            return self._choice([self._sequence([node] * n) for n in range(least, most + 1)])
        target = node
        for a, b in small_factors(least, _FACTOR):
            target = self._multiple(a, b, target, node)
        if most == least:
            return target
        *factors, (last_a, last_b) = small_factors(most - least + 1, _FACTOR)
        full, up_to = node, self._sequence([])
        for a, b in factors:
            up_to = self._up_to(a, b, full, up_to, node)
            full = self._multiple(a, b, full, node)
        up_to = self._up_to(last_a, last_b, full, up_to, node)
        return self._choice([self._sequence([target, up_to])])

    def _recursive(self, kind: str, node: int) -> int:
        def body(own: int) -> list[list[int]]:
            return [[node], [own, node]]

        return self._helper(node, kind, body)

    def _multiple(self, a: int, b: int, target: int, atom: int) -> int:
        return self._helper(
            (a, b, target, atom), f"repeat_a{a}_b{b}", lambda _: [[target] * a + [atom] * b]
        )

    def _up_to(self, a: int, b: int, target: int, target_up_to: int, atom: int) -> int:
        """Return a helper for 0 to a * n + b - 1 atoms, n those of ``target``; no conflicts."""

        def body(_: int) -> list[list[int]]:
            fewer = [[target] * i + [target_up_to] for i in range(a)]
            return fewer + [[target] * a + [atom] * i for i in range(b)]

        return self._helper((a, b, target, atom, "opt"), f"repeat_a{a}_b{b}_opt", body)

    def _helper(self, key: object, kind: str, body: Callable[[int], list[list[int]]]) -> int:
        if key in self._shared:
            return self._shared[key]
        name = f"__{self.prefix}_{kind}_{len(self.helpers)}"
        own = self._symbol(False, name)
        sequences = [self._sequence(nodes) for nodes in body(own)]
        self.helpers.append((name, self._choice(sequences)))
        self._shared[key] = own
        return own

    def _symbol(self, is_terminal: bool, name: str) -> int:
        key = is_terminal, name
        if key not in self._interned:
            node = self._interned[key] = len(self._nodes)
            self._names[node] = key
            self._nodes.append(Node("symbol", (node,), None, 1, 1, [((node,), None)]))
        return self._interned[key]

    def _choice(self, parts: Sequence[int]) -> int:
        def made() -> Node:
            nodes = [self._nodes[part] for part in parts]
            alias = next((node.alias for node in nodes if node.alias is not None), None)
            count = sum(node.count for node in nodes)
            return self._made("choice", parts, alias, count, False, _merged)

        return self._intern(("choice", *parts), made)

    def _sequence(self, parts: Sequence[int]) -> int:
        def made() -> Node:
            nodes = [self._nodes[part] for part in parts]
            for node in nodes:
                if node.alias is not None:
                    raise AliasError(node.alias)
            count = prod(node.count for node in nodes)
            is_product = count > max((node.count for node in nodes), default=1)
            return self._made("sequence", parts, None, count, is_product, self._joined)

        return self._intern(("sequence", *parts), made)

    def _alias(self, part: int, name: str) -> int:
        def made() -> Node:
            node = self._nodes[part]
            if node.alias is not None:
                raise AliasError(name)
            written: list[Alternative] | None = None
            if node.written is not None:
                written = [(symbols, name) for symbols, _ in node.written]
            return Node("alias", (part,), name, node.count, node.size, written)

        return self._intern(("alias", part, name), made)

    def _intern(self, key: object, node: Callable[[], Node]) -> int:
        if key not in self._interned:
            made = node()
            self._interned[key] = len(self._nodes)
            self._nodes.append(made)
        return self._interned[key]

    def _made(
        self,
        kind: str,
        parts: Sequence[int],
        alias: str | None,
        count: int,
        is_product: bool,
        write: Callable[[list[list[Alternative]]], list[Alternative]],
    ) -> Node:
        """Return a node, written out where that is how Lark's rules are best left."""
        nodes = [self._nodes[part] for part in parts]
        size = sum(node.size for node in nodes)
        own = [node.written for node in nodes if node.written is not None]
        if len(own) < len(nodes) or (is_product and count > WRITTEN_OUT):
            self._spend(size)
            return Node(kind, tuple(parts), alias, min(count, _MOST), size, None)
        self._check(count)
        written = write(own)
        return Node(kind, tuple(parts), alias, len(written), size, written)

    def _joined(self, parts: list[list[Alternative]]) -> list[Alternative]:
        """Multiply the alternatives of a sequence out, the first part varying slowest."""
        count = prod(map(len, parts))
        own = [[symbols for symbols, _ in part] for part in parts]
        self._spend(sum(sum(map(len, part)) * count // len(part) for part in own))
        if count == 1:
            return [(tuple(chain.from_iterable(part[0] for part in own)), None)]
        sequences = (tuple(chain.from_iterable(choice)) for choice in product(*own))
        return [(symbols, None) for symbols in dict.fromkeys(sequences)]

    def _check(self, count: int) -> None:
        if count > self.limits.max_rules:
            raise too_many_rules(count, self.limits, f"rule {self.prefix}")

    def _spend(self, symbols: int) -> None:
        self._symbols_left -= symbols
        if self._symbols_left < 0:
            raise LimitError(
                f"rule {self.prefix}: repetitions within repetitions multiply out to more than "
                f"{_SYMBOLS * self.limits.max_grammar_bytes:,} symbols",
                hint="give the inner repetition a name of its own",
                limit="max_repeat",
            )


def _merged(parts: list[list[Alternative]]) -> list[Alternative]:
    return parts[0] if len(parts) == 1 else list(dict.fromkeys(chain.from_iterable(parts)))


class EqualAlternativesError(ValueError):
    """Two alternatives that only a left-out ``[...]`` or an alias tells apart."""


class _Words(NamedTuple):
    """A minimal acyclic automaton over symbol nodes; every state reaches an accepting one.

    Attributes:
        edges: Per state: symbol -> state. Targets have smaller numbers; the last is the start.
        accepting: Per state.
    """

    edges: list[dict[int, int]]
    accepting: list[bool]

    def size(self, labels: Callable[[int], bool] = lambda _: True) -> int:
        """Return the number of words of such labels alone."""
        counts: list[int] = []
        for own, accepting in zip(self.edges, self.accepting, strict=True):
            counts.append(
                accepting + sum(counts[target] for label, target in own.items() if labels(label))
            )
        return counts[-1]


def factored(
    expander: Expander, name: str, number: int, limits: GrammarLimits
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the alternatives of a rule and of its helper rules.

    Args:
        expander: Made the node; it is told the names of helper rules.
        limits: ``max_rules`` bounds the symbols of the rule, and in proportion the work.

    Returns:
        Names of rules and their symbols, all different. Cost: of the automaton's edges, as many
        as there are pairs of symbols that can follow each other.

    Raises:
        EqualAlternativesError: As Lark refuses two equal alternatives.
        LimitError: ``max_rules``.
    """
    size = expander.node(number).size
    if size > limits.max_rules:
        raise too_many_rules(size, limits, f"rule {name}")
    parts = _Parts(expander, number)
    words = _minimal(parts, _is_symbol, name, limits)
    if parts.is_marked:
        marked = _minimal(parts, lambda _: True, name, limits)
        unmarked = marked.size() - marked.size(lambda label: not _is_symbol(label))
        if unmarked > words.size() - words.accepting[-1]:
            raise EqualAlternativesError(name)
    return list(_rules(words, name, expander.nonterminal))


def _is_symbol(label: int) -> bool:
    return label > EMPTY


class _Parts:
    """The alternatives as an automaton that may choose: state 0 starts, state 1 accepts.

    Attributes:
        edges: Per state: symbols (``EMPTY``; an alias is a negative number) and targets.
        silent: Per state: targets without symbol.
        is_marked: There are labels that are no symbols.
    """

    def __init__(self, expander: Expander, number: int) -> None:
        self.edges: list[list[tuple[int, int]]] = [[], []]
        self.silent: list[list[int]] = [[], []]
        self.is_marked = False
        aliases: dict[str | None, int] = {}
        todo = [(number, 0, 1)]
        while todo:
            part, begin, end = todo.pop()
            node = expander.node(part)
            if node.kind == "symbol":
                self.edges[begin].append((part, end))
                self.is_marked |= part == EMPTY
            elif node.kind == "choice":
                todo += [(inner, begin, end) for inner in node.parts]
            elif node.kind == "alias":
                self.is_marked = True
                label = aliases.setdefault(node.alias, -1 - len(aliases))
                between = self._state()
                self.edges[between].append((label, end))
                todo.append((node.parts[0], begin, between))
            else:
                states = [begin, *(self._state() for _ in node.parts[1:]), end]
                todo += zip(node.parts, states, states[1:], strict=False)
                if not node.parts:
                    self.silent[begin].append(end)

    def _state(self) -> int:
        self.edges.append([])
        self.silent.append([])
        return len(self.edges) - 1

    def leaving(
        self, states: Collection[int], reads: Callable[[int], bool]
    ) -> tuple[dict[int, frozenset[int]], bool, int]:
        """Return what can be read from any of the states, whether all may be over, and the steps.

        Args:
            reads: Which labels are read; others are passed over.
        """
        found: dict[int, set[int]] = {}
        met = set(states)
        todo = list(states)
        while todo:
            state = todo.pop()
            passed = list(self.silent[state])
            for label, target in self.edges[state]:
                if reads(label):
                    found.setdefault(label, set()).add(target)
                else:
                    passed.append(target)
            todo += [target for target in dict.fromkeys(passed) if target not in met]
            met.update(passed)
        steps = len(met) + len(found)
        return {label: frozenset(targets) for label, targets in found.items()}, 1 in met, steps


def _minimal(
    parts: _Parts, reads: Callable[[int], bool], name: str, limits: GrammarLimits
) -> _Words:
    """Return the minimal automaton of the labels that are read, deepest states first."""
    words = _Words([], [])
    known: dict[object, int] = {}
    numbers: dict[frozenset[int], int] = {}
    left = _STEPS * limits.max_rules
    path: list[_Subset] = []
    following: frozenset[int] | None = frozenset({0})
    while path or following is not None:
        if following is not None:
            leaving, accepting, steps = parts.leaving(following, reads)
            path.append(_Subset(following, leaving, accepting, iter(leaving.values())))
            left -= steps
            if left < 0:
                raise too_many_rules(_STEPS * limits.max_rules, limits, f"rule {name}")
        last = path[-1]
        following = next((targets for targets in last.ahead if targets not in numbers), None)
        if following is None:
            path.pop()
            edges = {label: numbers[targets] for label, targets in last.leaving.items()}
            key = (last.accepting, frozenset(edges.items()))
            if key not in known:
                known[key] = len(words.edges)
                words.edges.append(edges)
                words.accepting.append(last.accepting)
            numbers[last.states] = known[key]
    return words


class _Subset(NamedTuple):
    """A state of the deterministic automaton under way, and those that are still to be made."""

    states: frozenset[int]
    leaving: dict[int, frozenset[int]]
    accepting: bool
    ahead: Iterator[frozenset[int]]


def _rules(
    words: _Words, name: str, nonterminal: Callable[[str], int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the rules of the start and of every helper rule that they use."""
    start = len(words.edges) - 1
    entered = [0] * len(words.edges)
    for edges in words.edges:
        for target in edges.values():
            entered[target] += 1
    if words.accepting[start]:
        yield name, ()
    names = {start: name}
    todo = [start]

    def rest(state: int) -> int:
        if state not in names:
            names[state] = f"__{name}_rest_{len(names)}"
            todo.append(state)
        return nonterminal(names[state])

    for state in todo:  # grows
        own, others = _shared(words, state)
        for label, target in own:
            symbols = [label]
            while entered[target] == 1 and not words.accepting[target]:
                if len(words.edges[target]) > 1:
                    break
                ((label, target),) = words.edges[target].items()
                symbols.append(label)
            if words.edges[target]:
                yield names[state], (*symbols, rest(target))
            if words.accepting[target]:
                yield names[state], tuple(symbols)
        for other in others:
            yield names[state], (rest(other),)


def _shared(words: _Words, state: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return a state's own edges, and states that have the others: no edge twice.

    Of a sequence of optionals each state has the first edge alone, and shares the others with the
    next one; else there would be as many rules as edges.
    """
    own = dict(words.edges[state])
    others = []
    targets = sorted(set(own.values()), key=lambda target: -len(words.edges[target]))
    for target in targets:
        edges = words.edges[target]
        if len(own) < 2:
            break
        if 2 <= len(edges) <= len(own) and edges.items() <= own.items():
            others.append(target)
            for label in edges:
                del own[label]
    return list(own.items()), others

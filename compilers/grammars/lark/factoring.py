"""Rules whose alternatives multiply out, written in helper rules instead.

Lark writes ``a? b? c?`` out as all eight alternatives. Here the alternatives of such a rule are the
words of a minimal automaton over symbols, and each of its states becomes a helper rule for what
can follow: ``s: a s1 | a | s1``, ``s1: b s2 | b | s2``, ``s2: c``.

The parser never has to guess more than with Lark's alternatives: the automaton is deterministic and
nothing is reduced before the end of the rule, so where Lark's tables hold the alternatives with one
beginning, these hold the one helper rule that follows that beginning, and both shift, end and
conflict before the same terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.bnf import EMPTY, Expander
from cdec.compilers.grammars.lark.checks import too_many_rules

_STEPS = 20
"""Making an automaton may take so many times ``max_rules`` steps; its rules share most edges."""


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

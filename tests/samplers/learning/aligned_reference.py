"""A plain reference of the aligned methods, and replays of it."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from tests.laws.worlds import Row, Toy
from tests.samplers.enumeration import Law, target

# --- ASAp and exact adaptive rejection on a toy: plain dictionaries, no code of cdec's own.
#
# ``Memory`` is the tree of visited prefixes with its bounds c, and what they say: the law of the
# next candidate, the weight of each text. ``simulate`` and ``count_calls`` draw from it.
# ``tree_law``
# reads the same law off the columns of cdec's tree, without its descent.

END = -1
"""The end event, all end ids together."""


class Rules:
    """What a toy allows after a prefix, within a length limit; looked up once a prefix."""

    def __init__(self, toy: Toy, limit: int | None = None) -> None:
        self.toy = toy
        self.limit = limit
        self.members = set(toy.members)
        self._following: dict[Row, set[int]] = defaultdict(set)
        for row in toy.members:
            for depth, token in enumerate(row):
                self._following[row[:depth]].add(token)
        self._events: dict[Row, dict[int, float]] = {}

    def has_ended(self, prefix: Row) -> bool:
        """Say whether the text ends itself here."""
        return self.toy.ends_itself and prefix in self.members

    def is_cut(self, prefix: Row) -> bool:
        """Say whether the limit is reached and no end is possible: nothing is evaluated here."""
        at_limit = self.limit is not None and len(prefix) >= self.limit
        return at_limit and prefix not in self.members

    def beyond(self, prefix: Row) -> float:
        """Return the share of the mass at a valid prefix that the limit cuts off there."""
        if self.limit is None or len(prefix) < self.limit or self.has_ended(prefix):
            return 0.0
        given = self.toy.probabilities(prefix)
        following = self._following.get(prefix, set())
        return 1.0 if self.is_cut(prefix) else float(sum(given[token] for token in following))

    def probability(self, prefix: Row) -> float:
        """Return P of the tokens of a prefix, no end event."""
        return math.prod(
            float(self.toy.probabilities(prefix[:depth])[token])
            for depth, token in enumerate(prefix)
        )

    def events(self, prefix: Row) -> dict[int, float]:
        """Return P of every allowed event of positive probability, by token or END."""
        if prefix not in self._events:
            given = self.toy.probabilities(prefix)
            ends = sum(given[e] for e in self.toy.vocabulary.eos_token_ids)
            following = self._following.get(prefix, set())
            if self.limit is not None and len(prefix) >= self.limit:
                following = set()
            events = {token: float(given[token]) for token in sorted(following)}
            events[END] = float(ends) if prefix in self.members else 0.0
            self._events[prefix] = {event: p for event, p in events.items() if p > 0}
        return self._events[prefix]


class Memory:
    """The prefixes visited so far, each with its bound c; 1 elsewhere."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.bounds: dict[Row, float] = {}
        self.known: dict[Row, dict[int, float]] = {}

    def bound(self, prefix: Row) -> float:
        """Return c of a valid prefix."""
        return self.bounds.get(prefix, 1.0)

    def weights(self, prefix: Row) -> dict[int, float]:
        """Return P * c of every event, which candidates are drawn in proportion to."""
        if prefix not in self.known:
            return self.rules.events(prefix)
        return self.known[prefix]

    def learn(self, prefixes: Iterable[Row]) -> None:
        """Visit prefixes, then carry the bounds of all they touch upwards."""
        stale = {prefix[:n] for prefix in prefixes for n in range(len(prefix) + 1)}
        for prefix in sorted(stale, key=len, reverse=True):
            if self.rules.has_ended(prefix):
                self.bounds[prefix] = 1.0
            elif self.rules.is_cut(prefix):
                self.bounds[prefix] = 0.0
            else:
                self.known[prefix] = {
                    event: p * (1.0 if event == END else self.bound((*prefix, event)))
                    for event, p in self.rules.events(prefix).items()
                }
                self.bounds[prefix] = sum(self.known[prefix].values())

    def law(self) -> Law:
        """Return the law Q̃ of the next masked candidate; None is a walk that finds no end."""
        law: Law = defaultdict(float)
        walks: list[tuple[Row, float]] = [((), 1.0)]
        while walks:
            prefix, p = walks.pop()
            if self.rules.has_ended(prefix):
                law[prefix] += p
                continue
            weights = {} if self.rules.is_cut(prefix) else self.weights(prefix)
            total = sum(weights.values())
            if total <= 0:
                law[None] += p
                continue
            for event, weight in weights.items():
                if event == END:
                    law[prefix] += p * weight / total
                elif weight > 0:
                    walks.append(((*prefix, event), p * weight / total))
        return dict(law)

    def found(self) -> float:
        """Return the mass of the texts among the visited prefixes, a lower bound of P(S)."""
        ends = ((p, self.rules.events(p).get(END, 0.0)) for p in self.known)
        own = sum(self.rules.probability(p) for p in self.bounds if self.rules.has_ended(p))
        return own + sum(self.rules.probability(p) * end for p, end in ends if end > 0)

    def beyond(self) -> float:
        """Return the mass that the limit cuts off at the visited prefixes."""
        shares = ((p, self.rules.beyond(p)) for p in self.bounds)
        return sum(self.rules.probability(p) * share for p, share in shares if share > 0)

    def weight(self, prefixes: Sequence[Row]) -> float:
        """Return x of a candidate: c(root) times Z of the prefixes of its path not visited yet."""
        rules = self.rules
        new = [p for p in prefixes if p not in self.bounds and not rules.has_ended(p)]
        masses = [sum(rules.events(prefix).values()) for prefix in new]
        return self.bound(()) * math.prod(masses)

    def draw(self, rng: random.Random, *, aborting: bool = False) -> tuple[Row | None, list[Row]]:
        """Draw a candidate: its row, None where no end was found, and the prefixes evaluated."""
        prefix: Row = ()
        path: list[Row] = []
        while not self.rules.has_ended(prefix):
            path.append(prefix)
            if self.rules.is_cut(prefix):
                return None, path
            weights = self.weights(prefix)
            free = aborting and prefix not in self.bounds
            event = _pick(weights, rng.random() * (1.0 if free else sum(weights.values())))
            if event is None:
                return None, path
            if event == END:
                return prefix, path
            prefix = (*prefix, event)
        return prefix, [*path, prefix]


def _pick(weights: dict[int, float], number: float) -> int | None:
    """Return the event at ``number`` of the running sum of weights; None past all of them."""
    for event, weight in weights.items():
        if weight > number:
            return event
        number -= weight
    return None


def divergence(law: Law, other: Law) -> float:
    """Return KL(law ‖ other) in nats."""
    return sum(p * math.log(p / other[row]) for row, p in law.items() if p > 0)


def divergence_after_one(toy: Toy) -> float:
    """Return the mean of KL(Q̃ ‖ Q) after one candidate, over all of its outcomes."""
    rules, q = Rules(toy), target(toy)
    mean = 0.0
    for row, p in Memory(rules).law().items():
        assert row is not None
        memory = Memory(rules)
        memory.learn([row])
        mean += p * divergence(memory.law(), q)
    return mean


def simulate(toy: Toy, counts: Sequence[int], runs: int, seed: int) -> list[list[float]]:
    """Return KL(Q̃ ‖ Q) after each of ``counts`` candidates drawn one by one, a list a run."""
    rules, q = Rules(toy), target(toy)
    rng = random.Random(seed)
    found = []
    for _ in range(runs):
        memory = Memory(rules)
        values = []
        for number in range(max(counts) + 1):
            if number in counts:
                values.append(divergence(memory.law(), q))
            row, _ = memory.draw(rng)
            assert row is not None
            memory.learn([row])
        found.append(values)
    return found


def count_calls(toy: Toy, samples: int, size: int, seed: int, *, aborting: bool) -> float:
    """Return evaluations along all paths, per exact sample, of one record drawn in rounds."""
    memory, rng = Memory(Rules(toy)), random.Random(seed)
    calls = taken = 0
    while taken < samples:
        drawn = [memory.draw(rng, aborting=aborting) for _ in range(size)]
        for row, path in drawn:
            if taken == samples:
                break
            calls += len(path)
            share = 1.0 if aborting else memory.weight(path) / memory.bound(())
            taken += row is not None and rng.random() < share
        memory.learn(prefix for _, path in drawn for prefix in path)
    return calls / samples


def children_of(tree: Any) -> dict[tuple[int, int], int]:
    """Return the visited nodes of cdec's tree, of all records, by parent and token."""
    nodes = tree.visited()
    keys = zip(tree["parent"][nodes].tolist(), tree["token"][nodes].tolist(), strict=True)
    return dict(zip(keys, nodes.tolist(), strict=True))


def tree_law(rules: Rules, tree: Any, root: int, children: dict[tuple[int, int], int]) -> Law:
    """Return the law of the next masked candidate as the columns of cdec's tree give it.

    Args:
        tree: A ``PrefixTree``, whose bounds are up to date. root: Node of the prompt.
        children: Of ``tree``.
    """
    law: Law = defaultdict(float)
    start = root if tree["flags"][root] & 1 else None
    walks: list[tuple[Row, int | None, float]] = [((), start, 1.0)]
    while walks:
        prefix, node, p = walks.pop()
        if rules.has_ended(prefix):
            law[prefix] += p
            continue
        weights = {} if rules.is_cut(prefix) else dict(rules.events(prefix))
        total = sum(weights.values())
        below: dict[int, int | None] = dict.fromkeys(weights)
        if node is not None:
            total = math.exp(tree["bound"][node])
            below = {event: children.get((node, event)) for event in weights}
        for event, child in below.items():
            if child is not None:
                weights[event] = math.exp(tree["edge"][child] + tree["bound"][child])
        if total <= 0:
            law[None] += p
            continue
        for event, weight in weights.items():
            if event == END:
                law[prefix] += p * weight / total
            elif weight > 0:
                walks.append(((*prefix, event), below[event], p * weight / total))
    return dict(law)


# --- What rounds of cdec's tree say, compared number by number with the plain reference.

CLOSE = 1e-9
"""Sums of at most 100 float64 terms in another order, and kernels' exp to 1e-15, differ by less."""


@contextmanager
def opened(
    toy: Toy, records: int, size: int, *, limit: int | None = None, **options: Any
) -> Iterator[tuple[Batch, Rounds]]:
    """Open ``records`` equal requests that differ in their seeds, and their rounds."""
    seeds = np.random.default_rng(options.pop("seed", 5)).integers(0, 1 << 53, records).tolist()
    requests = [Request("", toy.constraint, [s], max_new_tokens=limit) for s in seeds]
    chosen = {"max_walks": 1 << 15, "tree_cache": 1 << 24} | options
    with Batch(toy.model(), requests) as batch:
        yield batch, Rounds(batch, size=size, **chosen)


def rounds_of_all(batch: Batch, rounds: Rounds, size: int) -> list[Round]:
    """Draw one round of every record."""
    requests = np.arange(len(batch.requests))
    return list(rounds.draw(requests, np.full(len(requests), size)))


def path_of(drawn: Round, row: int) -> Row:
    """Return the tokens of a candidate: it visited all of their prefixes."""
    candidates = drawn.candidates
    return tuple(candidates.tokens[row, : candidates.lengths[row]].tolist())


def replay(rules: Rules, *, rounds: int, size: int, **options: Any) -> None:
    """Draw rounds of one record and let the reference follow; every number must agree."""
    memory = Memory(rules)
    with opened(rules.toy, 1, size, limit=rules.limit, **options) as (batch, drawing):
        for _ in range(rounds):
            (drawn,) = rounds_of_all(batch, drawing, size)
            check_candidates(memory, drawn, aborting=drawing.aborting)
            memory.learn(path_of(drawn, row) for row in range(size))
            check_tree(memory, batch)


def check_candidates(memory: Memory, drawn: Round, *, aborting: bool) -> None:
    """Compare log P, log x and the evaluations of a round's candidates, and what is accepted."""
    rules, root = memory.rules, memory.bound(())
    with np.errstate(divide="ignore"):
        assert drawn.log_root == pytest.approx(np.log(root), abs=CLOSE)
    known, law = memory.beyond(), memory.law()
    for row in range(len(drawn.tests)):
        path = path_of(drawn, row)
        prefixes = [path[:n] for n in range(len(path) + 1)]
        log_p, log_x = (float(getattr(drawn.candidates, c)[row]) for c in ("log_p", "log_x"))
        x = root if aborting else memory.weight(prefixes)
        cut = 0.0 if path in memory.bounds else rules.beyond(path)
        above = root if aborting else memory.weight(prefixes[:-1])
        assert math.exp(drawn.log_truncated[row]) == pytest.approx(known + cut * above, abs=CLOSE)
        silent = rules.has_ended(path) or rules.is_cut(path)
        # Where nothing has any mass, it does not matter who looks at the prompt once more.
        assert root == 0 or drawn.candidates.evaluations[row] == len(prefixes) - silent
        if not drawn.candidates.is_complete[row]:
            assert log_x == -math.inf and not drawn.passed[row]
            continue
        own = 1.0 if rules.has_ended(path) else rules.events(path)[-1]
        assert math.exp(log_p) == pytest.approx(rules.probability(path) * own, rel=CLOSE)
        assert math.exp(log_x) == pytest.approx(x, rel=CLOSE)
        # The weight is P / Q̃ exactly, which is what makes weighted records unbiased.
        assert aborting or law[path] * x == pytest.approx(math.exp(log_p), rel=CLOSE)
        assert drawn.passed[row] == (drawn.tests[row] < x / root)


def check_tree(memory: Memory, batch: Batch) -> None:
    """Compare the bracket and the law of the next candidate, after a round."""
    tree, root = batch.tree, int(batch.roots[0])
    assert math.exp(tree.log_upper(root)) == pytest.approx(memory.bound(()), rel=CLOSE, abs=1e-300)
    assert math.exp(tree.log_found[0]) == pytest.approx(memory.found(), rel=CLOSE)
    assert math.exp(tree.log_truncated[0]) == pytest.approx(memory.beyond(), rel=CLOSE)
    law = tree_law(memory.rules, tree, root, children_of(tree))
    assert_same_law(law, memory.law())


def assert_same_law(found: Law, expected: Law) -> None:
    """Compare two laws, outcome by outcome."""
    for outcome in {*found, *expected}:
        p = expected.get(outcome, 0.0)
        assert found.get(outcome, 0.0) == pytest.approx(p, abs=CLOSE), outcome

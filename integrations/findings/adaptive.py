"""ASAp and exact adaptive rejection by enumeration: plain dictionaries, no code of cdec's own.

``Memory`` is the tree of visited prefixes with its bounds c, and what they say: the law of the next
candidate, and the weight of each text (Park et al. 2024, arXiv 2405.21047, Algorithm 1).
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from cdec.integrations.findings.enumeration import Law, target
from cdec.integrations.findings.worlds import Row, Toy

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

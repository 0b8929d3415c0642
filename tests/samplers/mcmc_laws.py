"""Laws of mcmc by enumeration: plain dictionaries, no code of cdec's own.

A state is a row, or None where no text was found.
"""

from __future__ import annotations

import math
from collections import defaultdict

from cdec.integrations.findings.enumeration import Law, log_prob
from tests.laws.worlds import Row, Toy

Kernel = dict[Row | None, Law]
"""From a state to the law of the next one."""


def events(toy: Toy, prefix: Row, limit: int | None = None) -> dict[int, float]:
    """Return P of each event that is allowed after a prefix, -1 the end; only that at the limit."""
    given = toy.probabilities(prefix)
    longer = [row for row in toy.members if row[: len(prefix)] == prefix and row != prefix]
    tokens = {row[len(prefix)] for row in longer}
    found = {}
    if limit is None or len(prefix) < limit:
        found = {token: float(given[token]) for token in sorted(tokens)}
    if prefix in toy.members:
        found[-1] = float(sum(given[end] for end in toy.vocabulary.eos_token_ids))
    return {event: p for event, p in found.items() if p > 0}


def completions(toy: Toy, prefix: Row, limit: int | None = None) -> Law:
    """Return the law of what masked decoding makes of a prefix."""
    if toy.ends_itself and prefix in toy.members:
        return {prefix: 1.0}
    allowed = events(toy, prefix, limit)
    law: Law = defaultdict(float)
    for event, p in allowed.items():
        rest = {prefix: 1.0} if event < 0 else completions(toy, (*prefix, event), limit)
        for row, q in rest.items():
            law[row] += q * p / sum(allowed.values())
    return dict(law) or {None: 1.0}


def prefixes(toy: Toy, row: Row) -> list[Row]:
    """Return what stands before each event of a text."""
    return [row[:i] for i in range(len(row) + (not toy.ends_itself))]


def cuts(toy: Toy, proposal: str, row: Row, limit: int | None = None) -> list[float]:
    """Return the probability of a cut before each event of a text."""
    weights = []
    for i, prefix in enumerate(prefixes(toy, row)):
        allowed = events(toy, prefix, limit)
        shares = [p / sum(allowed.values()) for p in allowed.values()]
        perplexity = math.exp(-sum(p * math.log(p) for p in shares))
        weights.append({"prefix": 1.0, "restart": float(i == 0)}.get(proposal, perplexity - 1))
    if sum(weights) < 1e-15:
        weights[0] = 1.0
    return [weight / sum(weights) for weight in weights]


def proposals(toy: Toy, proposal: str, row: Row, limit: int | None = None) -> Law:
    """Return the law of what is proposed for a text."""
    law: Law = defaultdict(float)
    for prefix, p in zip(prefixes(toy, row), cuts(toy, proposal, row, limit), strict=True):
        for other, q in completions(toy, prefix, limit).items():
            law[other] += p * q
    return dict(law)


def kernel(toy: Toy, proposal: str, limit: int | None = None) -> Kernel:
    """Return the law of one step from every state."""
    first = completions(toy, (), limit)
    proposed = {row: proposals(toy, proposal, row, limit) for row in first if row is not None}
    found: Kernel = {None: first}
    for row, law in proposed.items():
        moves: Law = defaultdict(float)
        for other, q in law.items():
            taken = 0.0
            if other is not None:
                gain = math.exp(log_prob(toy, other) - log_prob(toy, row))
                taken = min(1.0, gain * proposed[other][row] / q)
                moves[other] += q * taken
            moves[row] += q * (1 - taken)
        found[row] = dict(moves)
    return found


def mcmc(toy: Toy, proposal: str, steps: int, limit: int | None = None) -> Law:
    """Return the law of a text after some steps."""
    law, step = completions(toy, (), limit), kernel(toy, proposal, limit)
    for _ in range(steps):
        after: Law = defaultdict(float)
        for row, p in law.items():
            for other, q in step[row].items():
                after[other] += p * q
        law = dict(after)
    return law

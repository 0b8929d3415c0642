"""The exact law of decoding with a draft, by enumeration of its rounds; checks against it.

Plain dictionaries and no code of the samplers: at a drafted position an event of law pi is taken
with the proposal (mass min(p, pi)) or without (the rest), and which positions are drafted at all
depends on what was taken before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cdec.core.models.language_model import LanguageModel
from cdec.samplers.base import Sampler
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import FINISH_REASONS
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row
from tests.samplers.drafts.draft_toys import END, Law, Pair

DRAWS = heavy_or(15_000, 100_000)
FIRST_GAMMA, LARGEST_GAMMA = 4, 16
"""Of an adaptive draft."""
Outcome = tuple[Row, str]
Proposer = Callable[[Row], Law | None]


@dataclass(frozen=True)
class Path:
    """A text in the making.

    Attributes:
        probability: Of all that led here.
        gamma: Proposals of this round; taken: How many of them were accepted.
        log_weight: Sum of log Z and of log q / pi. kl_spent: Sum of min(D, KL(q || p)).
        left: What is left of a divergence for the whole text.
    """

    prefix: Row = ()
    probability: float = 1.0
    gamma: int = FIRST_GAMMA
    taken: int = 0
    log_weight: float = 0.0
    kl_spent: float = 0.0
    left: float = math.inf


@dataclass(frozen=True)
class Rounds:
    """The rounds of decoding with a draft.

    Attributes:
        propose: The draft's law by prefix; None where it proposes nothing.
        gamma: Proposals of a round, or ``auto``.
        divergence: Nats a position. total: Nats a text, instead.
    """

    pair: Pair
    propose: Proposer
    gamma: int | str = FIRST_GAMMA
    divergence: float = 0.0
    total: float | None = None

    def texts(self) -> Iterator[tuple[Outcome, Path]]:
        """Yield every way to every text, and how each ended."""
        first = FIRST_GAMMA if self.gamma == "auto" else int(self.gamma)
        left = math.inf if self.total is None else self.total
        waiting = [Path(gamma=first, left=left)]
        while waiting:
            path = waiting.pop()
            reason = self._ended(path.prefix)
            if reason is not None:
                yield (path.prefix, reason), path
                continue
            for event, after in self._steps(path):
                if event == END:
                    yield (path.prefix, "complete"), after
                elif not self.pair.is_masked and len(path.prefix) >= self.pair.longest:
                    yield (path.prefix, "length"), after
                else:
                    waiting.append(replace(after, prefix=(*path.prefix, event)))

    def law(self) -> dict[Outcome, float]:
        """Return the probability of every outcome."""
        found: dict[Outcome, float] = defaultdict(float)
        for outcome, path in self.texts():
            found[outcome] += path.probability
        return dict(found)

    def joint_law(self) -> dict[Any, float]:
        """Return the law of what ``Drawn.joint`` lists: outcome, log_weight and kl_spent."""
        found: dict[Any, float] = defaultdict(float)
        for outcome, path in self.texts():
            is_complete = outcome[1] == "complete"
            weight = rounded(path.log_weight) if is_complete else None
            found[outcome, weight, rounded(path.kl_spent)] += path.probability
        return dict(found)

    def _ended(self, prefix: Row) -> str | None:
        pair = self.pair
        if pair.is_masked and pair.toy.ends_itself and pair.is_member(prefix):
            return "complete"
        if pair.is_masked and len(prefix) >= pair.longest and not pair.is_member(prefix):
            return "length"
        return None if pair.target_law(prefix)[1] > 0 else "dead_end"

    def _steps(self, path: Path) -> Iterator[tuple[int, Path]]:
        """Yield each next event and what it makes of the path."""
        q, z = self.pair.target_law(path.prefix)
        path = replace(path, log_weight=path.log_weight + math.log(z))
        if self.pair.forced(path.prefix) is not None:
            # Proposed for nothing: the round goes on as it was.
            yield from ((event, path) for event in q)
            return
        p = None
        if path.taken < path.gamma and len(path.prefix) < self.pair.longest:
            p = self.propose(path.prefix)
        if p is None:
            for event, mass in q.items():
                yield event, self._closed(path, mass, refused=False)
            return
        yield from self._tested(path, p, q)

    def _tested(self, path: Path, p: Law, q: Law) -> Iterator[tuple[int, Path]]:
        allowed = self.divergence if self.total is None else path.left
        aim = mentored(p, q, allowed)
        charge = divergence(q, aim)
        spent = min(allowed, divergence(q, p))
        for event, mass in aim.items():
            after = replace(
                path,
                log_weight=path.log_weight + math.log(q[event] / mass),
                kl_spent=path.kl_spent + spent,
                left=max(0.0, path.left - charge),
            )
            kept = min(p.get(event, 0.0), mass)
            if kept > 0:
                more = replace(after, taken=after.taken + 1)
                yield event, replace(more, probability=path.probability * kept)
            if mass > kept:
                yield event, self._closed(after, mass - kept, refused=True)

    def _closed(self, path: Path, mass: float, *, refused: bool) -> Path:
        """Return the path at the beginning of the next round."""
        gamma = path.gamma
        if self.gamma == "auto" and (refused or path.taken):
            gamma = min(LARGEST_GAMMA, path.taken + 1 if refused else gamma + 1)
        return replace(path, probability=path.probability * mass, gamma=gamma, taken=0)


@dataclass(frozen=True)
class RatioRounds(Rounds):
    """The same, the draft's most probable event tested as if it had been drawn."""

    def _tested(self, path: Path, p: Law, q: Law) -> Iterator[tuple[int, Path]]:
        best = min(p, key=lambda event: (-p[event], event == END, event))
        kept = min(1.0, q.get(best, 0.0) / p[best])
        if kept > 0:
            yield best, replace(path, taken=path.taken + 1, probability=path.probability * kept)
        rest = {event: max(0.0, mass - p.get(event, 0.0)) for event, mass in q.items()}
        for event, mass in rest.items():
            if kept < 1 and mass > 0:
                share = (1 - kept) * mass / math.fsum(rest.values())
                yield event, self._closed(path, share, refused=True)


def divergence(q: Mapping[Any, float], p: Mapping[Any, float]) -> float:
    """Return KL(q || p) in nats."""
    if any(p.get(event, 0.0) <= 0 for event in q):
        return math.inf
    return max(0.0, math.fsum(mass * math.log(mass / p[event]) for event, mass in q.items()))


def mentored(p: Law, q: Law, limit: float) -> Law:
    """Return the law of most acceptance within KL(q || it) <= limit: clip(p, q / beta, q / alpha).

    By bisection: of beta for every alpha, and of alpha for the divergence.
    """
    if limit <= 0:
        return q
    if set(p) <= set(q) and divergence(q, p) <= limit:
        return p
    least = _clipped(p, q, 0.0)
    if divergence(q, least) <= limit:
        return least
    low, high = math.log(1e-9), 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if divergence(q, _clipped(p, q, math.exp(middle))) <= limit:
            high = middle
        else:
            low = middle
    return _clipped(p, q, math.exp(high))


def _clipped(p: Law, q: Law, alpha: float) -> Law:
    """Return clip(p, q b, q / alpha) with the b = 1 / beta in [0, 1] that makes it sum to 1."""
    drafted, target = np.array([p.get(e, 0.0) for e in q]), np.array(list(q.values()))
    capped = np.minimum(drafted, target / alpha) if alpha > 0 else drafted
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if np.maximum(capped, target * middle).sum() <= 1:
            low = middle
        else:
            high = middle
    values = np.maximum(capped, target * high)
    return dict(zip(q, (values / values.sum()).tolist(), strict=True))


def rounded(value: float) -> float:
    """Return a sum as both sides round it for comparison."""
    return round(float(value), 5) + 0.0


@dataclass(frozen=True)
class Drawn:
    """What a sampler drew: an outcome, log_weight, logprob and the further fields of every draw."""

    outcomes: list[Outcome]
    log_weight: list[float]
    log_p: list[float]
    fields: dict[str, Sequence[Any]]
    per_request: dict[str, Any]

    def joint(self) -> list[Any]:
        """Return outcome, log_weight and kl_spent of every draw, rounded."""
        spent = self.fields.get("kl_spent", [0.0] * len(self.outcomes))
        weights = [None if math.isnan(w) else rounded(w) for w in self.log_weight]
        return list(zip(self.outcomes, weights, map(rounded, spent), strict=True))


def drawn(
    sampler: Sampler,
    pair: Pair,
    n: int = DRAWS,
    *,
    seed: int = 0,
    prompt: Any = "",
    model: LanguageModel | None = None,
) -> Drawn:
    """Draw from a pair's target, as ``Sampler.draw`` does, without making records."""
    seeds = draw_seeds(np.random.default_rng(seed), n)
    request = Request(prompt, pair.constraint, seeds, max_new_tokens=pair.limit)
    with Batch(model or pair.toy.model(), [request]) as batch:
        outcome = sampler.outcome_of(batch)
    chosen = outcome.chosen
    rows = [tuple(row[:k]) for row, k in zip(chosen.tokens.tolist(), chosen.lengths, strict=True)]
    reasons = [FINISH_REASONS[code] for code in chosen.finish.tolist()]
    return Drawn(
        outcomes=list(zip(rows, reasons, strict=True)),
        log_weight=outcome.log_weight.tolist(),
        log_p=chosen.log_p.tolist(),
        fields=dict(outcome.per_draw),
        per_request=dict(outcome.per_request.get(0, {})),
    )


def p_value(outcomes: Iterable[Any], law: dict[Any, float]) -> float:
    """Return the G-test's p-value, after a look at whether the law is one."""
    if not math.isclose(math.fsum(law.values()), 1.0, abs_tol=1e-9):
        raise ValueError(f"the law sums to {math.fsum(law.values())}")
    return g_test(outcomes, law)

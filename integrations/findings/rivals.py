"""Methods at equal numbers of model calls: how near to Q their draws come.

Beside cdec's own methods stand those of other papers: CARS, which is ``exact`` with ``abort``; the
MCMC of arXiv 2506.05754 by its three proposals; SMC (arXiv 2504.13139); the weights of AWRS (arXiv
2504.05410), which masked decoding has with ``opportunistic``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core import CdecError, LanguageModel, Sample
from cdec.core.sample import FINISH_COMPLETE
from cdec.integrations.findings.enumeration import disc, masked, target
from cdec.integrations.findings.equal_calls import (
    Distances,
    Drawn,
    distances,
    sampling_divergence,
)
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.worlds import Row, toy_a, toy_b
from cdec.samplers.mcmc import PREFIX, PRIORITY, RESTART
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.request import Request

PROPOSALS = (PREFIX, PRIORITY, RESTART)
_SEED = 2506
_FIRST = 4
"""Draws from which it is guessed how many a budget of calls has room for."""
_POINTS = 5
_STEPS = 8
_TRIES = 4
_DISC = f"disc, K={_TRIES}"
ERRORS = 4
"""Standard errors that are allowed to chance."""
DRAWN_FROM_Q = ("exact", "exact, abort (CARS)")


@dataclass(frozen=True)
class Rival:
    """A method with its options.

    Attributes:
        method: Name in ``SAMPLERS``.
        is_weighted: Whether draws count by their ``log_weight``.
    """

    method: str
    options: Mapping[str, Any]
    is_weighted: bool = False

    @property
    def key(self) -> str:
        """What decides the draws."""
        return f"{self.method} {sorted(self.options.items())}"


def rivals(size: int, proposals: Sequence[str] = PROPOSALS) -> dict[str, Rival]:
    """Return what is compared, by name.

    Args:
        size: Of the rounds of methods that learn. proposals: Of mcmc.
    """
    learning: dict[str, Any] = {"round": size, "max_draws": 64, "fallback": "none"}
    chain: dict[str, Any] = {"steps": _STEPS}
    return {
        "masked": Rival("masked", {}),
        "masked, weighted": Rival("masked", {}, True),
        "masked, AWRS weights": Rival("masked", {"opportunistic": True}, True),
        _DISC: Rival("disc", {"K": _TRIES}),
        "asap": Rival("asap", {"burn_in": 0, "round": size}),
        "exact": Rival("exact", learning),
        "exact, abort (CARS)": Rival("exact", learning | {"abort": True}),
        "smc, N=8, weighted": Rival("smc", {"particles": 8}, True),
        **{
            f"mcmc, {name}, k={_STEPS}": Rival("mcmc", chain | {"proposal": name})
            for name in proposals
        },
    }


@dataclass(frozen=True)
class Arena:
    """What is drawn from, how often and for how much.

    Attributes:
        budget: Calls of a run. runs: R.
        limit: Most tokens of a text; None as in ``Request``.
    """

    model: LanguageModel
    constraint: Any
    prompt: str
    budget: int
    runs: int
    limit: int | None = None

    @property
    def calls(self) -> list[float]:
        """Numbers of calls after which methods are compared, each twice the one before."""
        return [self.budget / 2**i for i in reversed(range(_POINTS))]

    def found(self, rivals: Mapping[str, Rival]) -> dict[str, list[list[Sample]]]:
        """Return the samples of all runs by the name of the method; equal ones are drawn once."""
        drawn: dict[str, list[list[Sample]]] = {}
        for rival in rivals.values():
            if rival.key not in drawn:
                drawn[rival.key] = self.samples(rival)
        return {name: drawn[rival.key] for name, rival in rivals.items()}

    def samples(self, rival: Rival) -> list[list[Sample]]:
        """Draw as many texts in each run as the budget has room for, and some more."""
        most, runs = _FIRST, self.drawn(rival, _FIRST)
        while (spent := float(np.mean([path_calls(run).sum() for run in runs]))) <= self.budget:
            most = max(2 * most, math.ceil(1.1 * most * self.budget / spent))
            runs = self.drawn(rival, most)
        return runs

    def drawn(self, rival: Rival, n: int) -> list[list[Sample]]:
        """Draw n texts in each run."""
        seeds = np.random.default_rng(_SEED).integers(1 << 53, size=(self.runs, n)).tolist()
        requests = [
            Request(self.prompt, self.constraint, own, max_new_tokens=self.limit) for own in seeds
        ]
        runs = []
        for drawn in SAMPLERS[rival.method](**rival.options).draw_batch(self.model, requests):
            if isinstance(drawn, CdecError):
                raise drawn
            runs.append(drawn)
        return runs


def path_calls(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return what each sample cost, float64[n] calls, nothing cached."""
    return np.array([sample.diagnostics["path_calls"] for sample in samples], np.float64)


def texts(samples: Sequence[Sample], *, is_weighted: bool) -> Drawn:
    """Return samples as a run of draws."""
    weights = [sample.log_weight if is_weighted else 0.0 for sample in samples]
    return Drawn(
        rows=[row_of(sample) for sample in samples],
        log_weights=np.array([-math.inf if w is None else w for w in weights], np.float64),
        calls=path_calls(samples),
    )


def row_of(sample: Sample) -> Row | None:
    """Return the tokens of a text; None where none came out."""
    is_text = sample.finish_reason == FINISH_COMPLETE
    return tuple(int(token) for token in sample.token_ids) if is_text else None


@dataclass(frozen=True)
class Result:
    """Distances of all methods in one arena.

    Attributes:
        name: Of the arena. calls: M numbers of calls.
        q: Q of every text that is known.
        unknown: Most nats that log P(S) lies above the log of the mass of these texts.
        found: By method.
        ideal: Mean and standard deviation of KL of draws from Q that take a call an event and no
            more, float64[M] each.
        runs: R.
    """

    name: str
    calls: Sequence[float]
    q: Mapping[Row, float]
    unknown: float
    found: Mapping[str, Distances]
    ideal: tuple[NDArray[np.float64], NDArray[np.float64]]
    runs: int


def result(
    name: str,
    arena: Arena,
    compared: Mapping[str, Rival],
    samples: Mapping[str, Sequence[Sequence[Sample]]],
    known: tuple[Mapping[Row, float], float],
) -> Result:
    """Return the distances of what was drawn in an arena.

    Args:
        name: Of the arena. compared: Methods. samples: Of each method's runs.
        known: Q of texts, and nats that log P(S) may lie above their mass.
    """
    q, unknown = known
    log_q = {row: math.log(p) for row, p in q.items()}
    found = {
        label: distances(
            [texts(run, is_weighted=rival.is_weighted) for run in samples[label]],
            log_q,
            arena.calls,
        )
        for label, rival in compared.items()
    }
    each = sum(p * (len(row) + 1) for row, p in q.items())
    ideal = sampling_divergence(q, q, [int(calls / each) for calls in arena.calls])
    return Result(name, arena.calls, q, unknown, found, ideal, arena.runs)


def toys(laboratory: Laboratory) -> Found:
    """Compute distances from the enumerated Q of toys A and B, by calls."""
    checks: list[Check] = []
    results = []
    for name, toy in {"A": toy_a(), "B": toy_b()}.items():
        arena = Arena(toy.model(), toy.constraint, "", budget=1_600, runs=20)
        compared = rivals(1)
        q = {row: p for row, p in target(toy).items() if row is not None}
        own = result(f"Toy {name}", arena, compared, arena.found(compared), (q, 0.0))
        laws = {"masked": masked(toy).law, _DISC: disc(toy, _TRIES)}
        checks += [_as_drawn(own, label, law) for label, law in laws.items()]
        checks += _checks(own)
        results.append(own)
    return Found(checks, [table_of(each) for each in results], [plot_of(each) for each in results])


def _as_drawn(own: Result, label: str, law: Mapping[Any, float]) -> Check:
    """Hold a method to its law: the KL of its n draws is that of n independent ones."""
    said = "KL after any number of calls, s.e. from that of as many independent draws of its law"
    gap = distance_from_law(own, label, law)
    return Check(f"{own.name}: {label}, {said}", gap, at_most=ERRORS)


def distance_from_law(own: Result, label: str, law: Mapping[Any, float]) -> float:
    """Return how far the KL of a method's draws is from that of as many of a law, in s.e. of it.

    The largest of all numbers of calls at which every run has a text; what is unknown of P(S) is
    taken off before.
    """
    there = own.found[label]
    rows = {row: p for row, p in law.items() if row is not None}
    mean, deviation = sampling_divergence(rows, own.q, there.draws.tolist())
    gaps = np.maximum(0.0, np.abs(there.kl - mean) - own.unknown)
    return float(np.nanmax(gaps / (deviation / math.sqrt(own.runs) + 1e-12)))


def _checks(own: Result) -> list[Check]:
    """Hold exact to Q, others to be nearer than masked decoding, and none nearer than Q's draws."""
    checks = [_as_drawn(own, label, own.q) for label in DRAWN_FROM_Q]
    there, local = own.found["exact"], own.found["masked"]
    slope = np.log(there.kl[-1] / there.kl[1]) / np.log(there.draws[-1] / there.draws[1])
    checks.append(
        Check(f"{own.name}: power of n by which the KL of n exact draws falls", float(slope),
              at_least=-1.4, at_most=-0.7)
    )  # fmt: skip
    checks += [
        Check(f"{own.name}: {label}, KL after all calls over that of masked decoding, {ERRORS} "
              "s.e. against it", _end(other, ERRORS) / _end(local, -ERRORS), at_most=1.0)
        for label, other in own.found.items()
        if label != "masked"
    ]  # fmt: skip
    least = min(_end(other, ERRORS) for other in own.found.values())
    checks.append(
        Check(f"{own.name}: least KL after all calls over that of as many events drawn from Q, "
              f"{ERRORS} s.e. for it", least / float(own.ideal[0][-1]), at_least=1.0)
    )  # fmt: skip
    return checks


def _end(there: Distances, errors: float) -> float:
    """Return KL after all calls, some standard errors away."""
    return float(there.kl[-1] + errors * there.kl_error[-1])


def table_of(own: Result) -> Table:
    """Return distances by method and calls."""
    heads = [f"{calls:.0f} calls" for calls in own.calls]
    columns = ("method", "draws", *heads, "± s.e.", "TV at the end", "± s.e.")
    rows: list[tuple[object, ...]] = [
        (label, int(d.draws[-1]), *_cells([*d.kl, d.kl_error[-1], d.tv[-1], d.tv_error[-1]]))
        for label, d in own.found.items()
    ]
    rows.append(("draws from Q, a call an event", None, *_cells(own.ideal[0]), None, None, None))
    title = f"{own.name}: mean KL(draws || Q) of {own.runs} runs, nats"
    return Table(title, columns, rows)


def _cells(values: Iterable[float]) -> list[float | None]:
    """Return numbers; None where a run had no text."""
    return [None if math.isnan(value) else float(value) for value in values]


def plot_of(own: Result) -> Plot:
    """Return distances by calls, a line a method."""
    calls = np.array(own.calls)
    lines = []
    for label, there in own.found.items():
        kept = ~np.isnan(there.kl)
        low, high = there.kl - 2 * there.kl_error, there.kl + 2 * there.kl_error
        low = np.maximum(low, there.kl / 4)  # a logarithmic axis has no place for less than 0
        band = (low[kept].tolist(), high[kept].tolist())
        lines.append(Line(label, calls[kept].tolist(), there.kl[kept].tolist(), *band))
    ideal = own.ideal[0]
    kept = ~np.isnan(ideal)
    lines.append(Line("draws from Q", calls[kept].tolist(), ideal[kept].tolist()))
    caption = f"{own.name}: mean KL(draws || Q) of {own.runs} runs, 2 standard errors around it."
    name = own.name.lower().replace(" ", "-")
    return Plot(name, caption, "calls of the model", "nats", lines, log_x=True, log_y=True)

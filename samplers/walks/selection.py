"""Candidates of draws, in parts that fit in memory, and the mass fields of a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import decode
from cdec.samplers.walks.mass import UNKNOWN, distinct_ess, estimate, length_mass_upper
from cdec.samplers.walks.randomness import CandidateUniforms

SLACK = 1e-4
"""Nats: rounding moves the sum of a text's log Z by less."""


def chunks(n: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Yield ``0..n-1`` in runs of at most ``size`` (at least 1)."""
    step = max(1, size)
    for start in range(0, n, step):
        yield np.arange(start, min(n, start + step))


def log_below(tests: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logs of weights that surely fail acceptance tests, float64[n] each.

    A weight that sums up to more on another device than on this one is not given up for it.
    """
    with np.errstate(divide="ignore"):
        return np.log(tests) - SLACK


def waves(tries: int, fixed: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first number and the size of each wave of candidates, ``tries`` in all or more.

    The first wave has the ``fixed`` ones, whole; each other one as many as all before it together,
    at most ``most``: with 1 these are 1, 1, 2, 4, ... So fewer than twice as many are drawn as are
    needed, in about log2(tries) waves.
    """
    done, size = 0, fixed
    while done < tries:
        yield done, size
        done += size
        size = min(done, most, tries - done)


def candidate_uniforms(
    batch: Batch, draws: NDArray[np.int64], tries: int, first: int = 0
) -> CandidateUniforms:
    """Return the uniforms of candidates ``first..first+tries-1`` of each draw, draws first."""
    longest = int(batch.limits[batch.draw_request[draws]].max(initial=0))
    return CandidateUniforms(
        [batch.seeds[draw] for draw in draws.tolist() for _ in range(tries)],
        np.tile(np.arange(first, first + tries), len(draws)),
        longest + 1,
    )


def draw_candidates(
    batch: Batch,
    draws: NDArray[np.int64],
    uniforms: CandidateUniforms,
    top_m: int | None = None,
    log_floor: NDArray[np.float64] | None = None,
) -> Candidates:
    """Decode the candidates that ``uniforms`` belong to, the same number for each draw.

    Args:
        batch: The open requests.
        draws: int64[n] rows of the batch's draws.
        uniforms: Of n * K candidates.
        top_m: As in ``events``.
        log_floor: float64[n * K], as in ``decode``.

    Returns:
        n * K candidates, those of one draw adjacent.
    """
    walks = np.repeat(draws, len(uniforms) // max(1, len(draws)))
    request, draw = batch.draw_request[walks], batch.draw_index[walks]
    return decode(batch, request, draw, uniforms, top_m=top_m, log_floor=log_floor)


@dataclass(frozen=True, slots=True)
class Wave:
    """Candidates of n draws, equally many of each, those of one adjacent.

    Attributes:
        candidates: n * size of them.
        tests: float64[n, size] uniforms of their acceptance tests, passed by weights above them.
    """

    candidates: Candidates
    tests: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Candidates of a draw."""
        return int(self.tests.shape[1])

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Whether each is accepted, bool[n, size]."""
        x = np.exp(self.candidates.log_x).reshape(self.tests.shape)
        return np.asarray(self.tests < x)

    def first(self, size: int) -> Wave:
        """Return the first candidates of each draw, at most ``size``."""
        if size >= self.size:
            return self
        rows = np.arange(self.tests.size).reshape(self.tests.shape)[:, :size]
        return Wave(self.candidates.take(rows.reshape(-1)), self.tests[:, :size])

    def take(self, draws: NDArray[np.int64]) -> Wave:
        """Return the candidates of some of the draws."""
        rows = np.arange(self.tests.size).reshape(self.tests.shape)[draws]
        return Wave(self.candidates.take(rows.reshape(-1)), self.tests[draws])


def joined(parts: Sequence[Wave]) -> Wave:
    """Return the candidates of the same draws as one wave, those of a draw in the given order."""
    if len(parts) == 1:
        return parts[0]
    owners = [np.repeat(np.arange(len(part.tests)), part.size) for part in parts]
    order = np.argsort(np.concatenate(owners), kind="stable")
    candidates = concatenate([part.candidates for part in parts]).take(order)
    return Wave(candidates, np.concatenate([part.tests for part in parts], axis=1))


class Tally:
    """Candidates' weights of every record, for its mass fields.

    Args:
        batch: The open requests.
        unbiased: Whether x has mean P(S), so that the mass can be estimated.
        bounded: Whether x is at most Z at the prompt, as that of masked candidates is.
    """

    def __init__(self, batch: Batch, *, unbiased: bool, bounded: bool = True) -> None:
        self._batch = batch
        self._unbiased = unbiased
        self._bounded = bounded
        self._weighed: list[tuple[NDArray[Any], ...]] = []

    def weigh(self, draws: NDArray[np.int64], candidates: Candidates) -> None:
        """Add candidates of a number fixed in advance.

        Args:
            draws: int64[n] rows of the batch's draws that they belong to.
            candidates: n of them; their tokens do not matter here.
        """
        owners = self._batch.draw_request[draws]
        self._weighed.append((owners, candidates.log_x, candidates.log_beyond, candidates.last))

    def fields(self, *, bounds: bool = True, weights: bool = True) -> dict[int, dict[str, object]]:
        """Return the mass fields of each request: the estimate, its bracket, and what was cut off.

        Args:
            bounds: Whether the record's visits bound the mass; they do where masks led the walks.
            weights: Whether the candidates' weights are known; else nothing is estimated.
        """
        batch = self._batch
        columns = (np.concatenate(part) for part in zip(*self._weighed, strict=True))
        request, log_x, log_beyond, texts = columns
        fields: dict[int, dict[str, object]] = {}
        for number in np.unique(batch.draw_request).tolist():
            if batch.session_of[number] == FREE:
                continue
            mine = request == number
            bracket = Bracket()
            if bounds:
                bracket = batch.tree.bounds(number, int(batch.roots[number]))
            if not self._bounded:
                bracket = replace(bracket, log_most=np.inf)
            known = self._unbiased
            fields[number] = estimate(log_x[mine], bracket).fields() if known else dict(UNKNOWN)
            if bounds:
                fields[number] |= bracket.fields()
                share = length_mass_upper(log_x[mine], log_beyond[mine]) if known else None
                fields[number]["length_mass_upper"] = share
            fields[number]["ess"] = distinct_ess(log_x[mine], texts[mine]) if weights else None
        return fields

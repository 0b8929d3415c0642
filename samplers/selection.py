"""Helpers that samplers share: chunks of draws, rounds of candidates, record-level mass fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.batch import FREE, Batch
from cdec.samplers.candidates import Candidates
from cdec.samplers.decoding import decode
from cdec.samplers.mass import bracket, estimate
from cdec.samplers.randomness import CandidateUniforms
from cdec.samplers.visits import log_mass_upper


def chunks(n: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Yield ``0..n-1`` in runs of at most ``size`` (at least 1)."""
    step = max(1, size)
    for start in range(0, n, step):
        yield np.arange(start, min(n, start + step))


def candidate_uniforms(
    batch: Batch, draws: NDArray[np.int64], tries: int, first: int = 0, *, again: bool = False
) -> CandidateUniforms:
    """Return the uniforms of candidates ``first..first+tries-1`` of each draw, draws first.

    With ``again`` they are those of second draws (``opportunistic``).
    """
    longest = int(batch.limits[batch.draw_request[draws]].max(initial=0))
    return CandidateUniforms(
        [batch.seeds[draw] for draw in draws.tolist() for _ in range(tries)],
        np.tile(np.arange(first, first + tries), len(draws)),
        longest + 1,
        again=again,
    )


def draw_candidates(
    batch: Batch,
    draws: NDArray[np.int64],
    uniforms: CandidateUniforms,
    top_m: int | None,
    **options: Any,
) -> Candidates:
    """Decode the candidates that ``uniforms`` belong to, the same number for each draw.

    Args:
        draws: int64[n] rows of the batch's draws.
        options: Passed to ``decode``.

    Returns:
        n * K candidates, those of one draw adjacent.
    """
    walks = np.repeat(draws, len(uniforms) // max(1, len(draws)))
    request, draw = batch.draw_request[walks], batch.draw_index[walks]
    return decode(batch, request, draw, uniforms, top_m=top_m, **options)


class Tally:
    """Candidates' weights and found texts of every record, for its mass fields.

    Args:
        batch: The open requests.
        unbiased: Whether x has mean P(S), so that the mass can be estimated.
    """

    def __init__(self, batch: Batch, *, unbiased: bool) -> None:
        self._batch = batch
        self._unbiased = unbiased
        self._weights: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self._texts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def weigh(self, draws: NDArray[np.int64], log_x: NDArray[np.float64]) -> None:
        """Add candidates of a number fixed in advance: their draws int64[n], log_x float64[n]."""
        self._weights.append((self._batch.draw_request[draws], log_x))

    def find(self, draws: NDArray[np.int64], candidates: Candidates) -> None:
        """Add what was found by candidates of ``draws``, int64[n]."""
        rows = np.flatnonzero(candidates.is_text)
        keys = np.stack([self._batch.draw_request[draws[rows]], candidates.last[rows]])
        # Repetitions are dropped at once: what is kept is bounded by the distinct texts.
        keys, first = np.unique(keys, axis=1, return_index=True)
        self._texts.append((keys[0], keys[1], candidates.log_p[rows[first]]))

    def fields(self, *, bounds: bool = True, weights: bool = True) -> dict[int, dict[str, object]]:
        """Return ``log_mass``, its standard error and bracket, and ``ess`` by request.

        Args:
            bounds: Whether the record's visits bound the mass; they do where masks led the walks.
            weights: Whether the candidates' weights are known; else nothing is estimated.
        """
        batch = self._batch
        upper = log_mass_upper(batch.visits.rows()) if bounds else {}
        request, log_x = (np.concatenate(part) for part in zip(*self._weights, strict=True))
        found, texts, log_p = (np.concatenate(part) for part in zip(*self._texts, strict=True))
        fields: dict[int, dict[str, object]] = {}
        for number in np.unique(batch.draw_request).tolist():
            if batch.session_of[number] == FREE:
                continue
            mass = estimate(log_x[request == number])
            known = self._unbiased
            fields[number] = {
                "log_mass": mass.log_mass if known else None,
                "log_mass_se": mass.log_mass_se if known else None,
            }
            if bounds:
                mine = found == number
                fields[number] |= bracket(upper.get(number, 0.0), texts[mine], log_p[mine])
            fields[number]["ess"] = mass.ess if weights else None
        return fields

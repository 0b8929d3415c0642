"""Candidates of draws, in parts that fit in memory, and the mass fields of a record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.candidates import Candidates
from cdec.samplers.walks.decoding import decode
from cdec.samplers.walks.mass import estimate, length_mass
from cdec.samplers.walks.randomness import CandidateUniforms


def chunks(n: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Yield ``0..n-1`` in runs of at most ``size`` (at least 1)."""
    step = max(1, size)
    for start in range(0, n, step):
        yield np.arange(start, min(n, start + step))


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
) -> Candidates:
    """Decode the candidates that ``uniforms`` belong to, the same number for each draw.

    Args:
        batch: The open requests.
        draws: int64[n] rows of the batch's draws.
        uniforms: Of n * K candidates.
        top_m: As in ``events``.

    Returns:
        n * K candidates, those of one draw adjacent.
    """
    walks = np.repeat(draws, len(uniforms) // max(1, len(draws)))
    request, draw = batch.draw_request[walks], batch.draw_index[walks]
    return decode(batch, request, draw, uniforms, top_m=top_m)


class Tally:
    """Candidates' weights of every record, for its mass fields.

    Args:
        batch: The open requests.
        unbiased: Whether x has mean P(S), so that the mass can be estimated.
    """

    def __init__(self, batch: Batch, *, unbiased: bool) -> None:
        self._batch = batch
        self._unbiased = unbiased
        self._weights: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []

    def weigh(
        self,
        draws: NDArray[np.int64],
        log_x: NDArray[np.float64],
        log_beyond: NDArray[np.float64] | None = None,
    ) -> None:
        """Add candidates of a number fixed in advance.

        Args:
            draws: int64[n] rows of the batch's draws that they belong to.
            log_x: float64[n]. log_beyond: float64[n] as in ``Candidates``; None for nothing.
        """
        beyond = np.full(len(log_x), -np.inf) if log_beyond is None else log_beyond
        self._weights.append((self._batch.draw_request[draws], log_x, beyond))

    def fields(self, *, bounds: bool = True, weights: bool = True) -> dict[int, dict[str, object]]:
        """Return the mass fields by request: estimate, error, bracket, ``ess``, ``length_mass``.

        Args:
            bounds: Whether the record's visits bound the mass; they do where masks led the walks.
            weights: Whether the candidates' weights are known; else nothing is estimated.
        """
        batch = self._batch
        columns = (np.concatenate(part) for part in zip(*self._weights, strict=True))
        request, log_x, log_beyond = columns
        fields: dict[int, dict[str, object]] = {}
        for number in np.unique(batch.draw_request).tolist():
            if batch.session_of[number] == FREE:
                continue
            mine = request == number
            mass = estimate(log_x[mine])
            known = self._unbiased
            fields[number] = {
                "log_mass": mass.log_mass if known else None,
                "log_mass_se": mass.log_mass_se if known else None,
            }
            if bounds:
                fields[number] |= batch.tree.bracket(number, int(batch.roots[number]))
                share = length_mass(log_x[mine], log_beyond[mine]) if known else None
                fields[number]["length_mass"] = share
            fields[number]["ess"] = mass.ess if weights else None
        return fields

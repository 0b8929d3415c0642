"""Learning: which candidates of a shared tree became samples, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.candidates import LENGTH, STUCK, Candidates, Recorder, concatenate
from cdec.samplers.walks.mass import distinct_ess, estimate, length_mass_upper, rising
from cdec.samplers.walks.selection import candidate_uniforms, chunks, draw_candidates

if TYPE_CHECKING:
    from cdec.samplers.drafts.base import Draft


class Learning:
    """Candidates and taken samples of every record of a batch, D draws in all.

    Args:
        batch: The open requests.
        rounds: Where candidates come from.
        estimated: int64[R] candidates, the first ones of each record, from which the mass is
            estimated: numbers fixed in advance, however many are drawn.

    Attributes:
        constrained: int64[...] requests with a constraint and at least one draw.
        wanted: int64[R] draws of each request. taken: int64[R] samples taken so far.
        iteration: int64[D] number of the candidate taken in this run, from 1; 0 for none.
    """

    def __init__(self, batch: Batch, rounds: Rounds, estimated: NDArray[np.int64]) -> None:
        self._batch = batch
        self._rounds = rounds
        count = len(batch.requests)
        self.wanted = wanted_of(batch)
        self.taken = np.zeros(count, np.int64)
        self.constrained = np.flatnonzero((self.wanted > 0) & (batch.session_of != FREE))
        self._first = np.cumsum(self.wanted) - self.wanted
        self._estimated = estimated
        self._drawn: dict[int, list[Round]] = {}
        self._parts: list[Candidates] = []
        self._rows: list[NDArray[np.int64]] = []
        self.iteration = np.zeros(len(batch.seeds), np.int64)
        self._spent = np.zeros(len(batch.seeds), np.int64)

    def add(self, drawn: Round) -> None:
        """Remember the weights of a round's candidates; their tokens only if they are taken."""
        self._drawn.setdefault(drawn.request, []).append(drawn.slim())

    def take(
        self, drawn: Round, rows: NDArray[np.int64], *, whole: bool = False
    ) -> NDArray[np.int64]:
        """Take candidates of a round as the record's next samples.

        Args:
            drawn: The round.
            rows: int64[n] candidates, in order.
            whole: Whether all of the round was spent on them, not only what comes before.

        Returns:
            int64[m] the draws they became, m <= n: never more than the record still wants.
        """
        r = drawn.request
        rows = rows[: self.wanted[r] - self.taken[r]]
        draws: NDArray[np.int64] = self._first[r] + self.taken[r] + np.arange(len(rows))
        self.taken[r] += len(rows)
        self.iteration[draws] = drawn.first + rows + 1
        self._spent[draws] = drawn.first + (len(drawn.tests) if whole else rows + 1)
        self._parts.append(drawn.candidates.take(rows))
        self._rows.append(draws)
        return draws

    def take_nothing(self, request: int, n: int) -> NDArray[np.int64]:
        """Fill the next ``n`` samples of a record with no text; return the draws they became.

        They end as dead ends, or by the length limit where that is what cut valid texts off.
        """
        draws: NDArray[np.int64] = self._first[request] + self.taken[request] + np.arange(n)
        record = Recorder(n)
        is_cut = self._batch.tree.log_beyond[request] > -np.inf
        record.finish(np.arange(n), LENGTH if is_cut else STUCK, np.full(n, -1, np.int64))
        self.taken[request] += n
        self._parts.append(record.candidates())
        self._rows.append(draws)
        return draws

    def draw_free(self, max_walks: int, draft: Draft | None = None) -> None:
        """Draw the samples of the requests without a constraint, from the model itself."""
        batch = self._batch
        rows = np.flatnonzero(batch.session_of[batch.draw_request] == FREE)
        for chunk in chunks(len(rows), max_walks):
            draws = rows[chunk]
            uniforms = candidate_uniforms(batch, draws, 1)
            if draft is None:
                self._parts.append(draw_candidates(batch, draws, uniforms))
            else:
                self._parts.append(draft.draw_candidates(batch, draws, uniforms))
            self._rows.append(draws)
            self.iteration[draws] = 1

    def chosen(self) -> Candidates:
        """Return the D samples."""
        return concatenate(self._parts).take(np.argsort(np.concatenate(self._rows)))

    def spent(self, request: int) -> dict[str, NDArray[np.int64]]:
        """Return what the samples of a request cost, int64[n] each.

        Returns:
            ``draws``, the candidates after the one taken before, up to this one; and
            ``path_evaluations``, the prefixes evaluated along all their paths, as if there were no
            caches.
        """
        until = self._until(request)
        evaluations = self._column(request, "evaluations")
        running = np.concatenate([[0], np.cumsum(evaluations)])
        before = np.concatenate([[0], until[:-1]])
        return {"draws": until - before, "path_evaluations": running[until] - running[before]}

    def owners(self) -> dict[int, NDArray[np.int64]]:
        """Return for each constrained request the draw that each candidate was drawn for."""
        found = {}
        for r in self.constrained.tolist():
            numbers = np.arange(self._rounds.drawn[r])
            owner = np.searchsorted(self._until(r), numbers, side="right")
            found[r] = np.minimum(owner, self.wanted[r] - 1)
        return found

    def fields(self) -> dict[int, dict[str, object]]:
        """Return the mass fields that all samples of a record share, by request."""
        fields: dict[int, dict[str, object]] = {}
        for r in self.constrained.tolist():
            first = slice(int(self._estimated[r]))
            log_x = self._column(r, "log_x")[first]
            weights = rising(len(log_x), int(self._rounds.before[r]))
            bracket = self._batch.tree.bounds(r, int(self._batch.roots[r]))
            fields[r] = {
                **estimate(log_x, bracket, weights).fields(),
                **bracket.fields(),
                "length_mass_upper": length_mass_upper(log_x, self._column(r, "log_beyond")[first]),
                "ess": distinct_ess(log_x, self._column(r, "last")[first]),
                "round": self._rounds.size,
            }
        return fields

    def iterations(self) -> list[int]:
        """Return how many candidates the tree had seen with each draw's own, 0 for none, D ints.

        Candidates of earlier runs on the same tree count.
        """
        before = self._rounds.before[self._batch.draw_request]
        numbers: list[int] = np.where(self.iteration > 0, before + self.iteration, 0).tolist()
        return numbers

    def seeds(self) -> list[int]:
        """Return the seed each draw's candidates come from, D of them."""
        return [self._rounds.seed(r) for r in self._batch.draw_request.tolist()]

    def per_draw(self, names: tuple[str, ...]) -> dict[str, list[Any]]:
        """Return fields of ``spent`` for all draws, D each; null without a constraint."""
        columns: dict[str, list[Any]] = {name: [None] * len(self.iteration) for name in names}
        for r in self.constrained.tolist():
            spent = self.spent(r)
            rows = slice(int(self._first[r]), int(self._first[r] + self.wanted[r]))
            for name in names:
                columns[name][rows] = spent[name].tolist()
        return columns

    def _until(self, request: int) -> NDArray[np.int64]:
        """Return how many candidates were drawn when each sample was taken, rising, int64[n]."""
        rows = slice(int(self._first[request]), int(self._first[request] + self.wanted[request]))
        until = self._spent[rows]
        return np.where(until > 0, until, self._rounds.drawn[request])

    def _column(self, request: int, name: str) -> NDArray[Any]:
        drawn = self._drawn.get(request, [])
        parts = [
            drawing.log_beyond if name == "log_beyond" else getattr(drawing.candidates, name)
            for drawing in drawn
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def wanted_of(batch: Batch) -> NDArray[np.int64]:
    """Return the draws of each request, int64[R]."""
    return np.bincount(batch.draw_request, minlength=len(batch.requests))

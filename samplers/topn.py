"""Top n: the n most probable members, found best first, with certified bounds on rank and Q.

Best-first search over the prefix tree (design, ALGORITHMS section 3): what is found and what is
left bound P(S) from both sides, and so Q(w) = P(w) / P(S) of every member found. Where all members
are found both bounds are the exact Q, and the members' probabilities sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.learning.bookkeeping import wanted_of
from cdec.samplers.learning.filling import filled
from cdec.samplers.learning.rounds import SavedTree
from cdec.samplers.method import Method
from cdec.samplers.options import DEFAULT_EVALUATIONS
from cdec.samplers.registry import METHODS
from cdec.samplers.search.best_first import Search
from cdec.samplers.search.members import Member, SearchResult, ranked
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import COMPLETE, LENGTH, STUCK, Candidates, TrajectoryBuffer
from cdec.samplers.walks.outcome import Outcome


class TopnSampler(Sampler):
    """Returns the n most probable members: draw i is the i-th best, ``rank`` i + 1.

    The search ends when no text that was not found can be more probable than the n-th best, or
    when the budget is spent. A draw is ``proved`` where it is certain that no token sequence that
    was not found is more probable; with ``by="sequence"`` it is then the i-th best, and its
    exactness ``exact``. What is not proved is the i-th best of what was found, a whole text all
    the same: its true rank lies between ``rank`` and ``rank_upper``, and no text that was not found
    has a log P above ``log_unfound_upper``. ``probability_lower`` and ``probability_upper`` bound
    its Q, or with ``by="text"`` that of its text. Ties are listed by tokens; which of several that
    tie for the last place is listed depends on ``round``.

    With ``by="text"`` members of equal text are one draw, ranked by ``log_text``, the log of the
    summed P of the ``tokenisations`` found, of which tokens and ``logprob`` show the best one. What
    is certain: the sum is a lower bound of the text's P, Q of the text lies within the bounds, and
    where ``proved``, no single tokenisation that was not found has more than the sum. What is not:
    many small tokenisations together may lift a text above its rank, or one unseen into the list.
    So exactness is ``exact`` only where all the mass left could not change the rank; elsewhere
    ``rank_upper`` is null.

    Where fewer than n members exist there are fewer draws: ``exhausted`` says of the last one that
    none is left. Without any member the one draw ends as ``dead_end``, its rank None. Where the
    length limit cut texts off the missing draws end as ``length``. Where the budget ended the
    search before n were found, the others are records without a text: ``text`` and ``valid`` are
    null, and their ``finish_reason`` is "budget". Without a constraint the members are the model's
    texts, and Q is P.

    Args:
        by: ``sequence`` or ``text``.
        round: Prefixes of one length that a record looks at together; decides in which order.
        max_evaluations: Most prefixes looked at for a record, those that others force not counted;
            None for ``DEFAULT_EVALUATIONS``, or no limit where ``proved``.
        proved: Search until all draws are proved.
        tree: Takes what the search looked at; ``asap`` and ``exact`` begin with it.

    Raises:
        UsageError: An option out of range, or a budget although all is to be proved.
    """

    method: ClassVar[Method] = METHODS["topn"]
    exactness = "exact"
    takes_most_probable = True
    by: str
    round: int
    max_evaluations: int | None
    proved: bool
    tree: SavedTree | None
    max_walks: int

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse a budget where all is to be proved."""
        if options["proved"] and options["max_evaluations"] is not None:
            raise UsageError(
                "`proved` searches until the list is proved, and `max_evaluations` ends it before",
                hint="Give one of them.",
                option="max_evaluations",
            )

    @property
    def budget(self) -> int | None:
        """Most prefixes looked at for a record; None for no limit."""
        if self.proved or self.max_evaluations is not None:
            return self.max_evaluations
        return DEFAULT_EVALUATIONS

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Search the members of every request of ``batch``."""
        by_text = self.by == "text"
        wanted = wanted_of(batch)
        search = Search(
            batch,
            wanted,
            by_text=by_text,
            round=self.round,
            max_evaluations=self.budget,
            max_walks=self.max_walks,
        )
        with filled(batch, self.tree, self.round):
            search.run()
        members: list[Member] = []
        fields: dict[int, dict[str, object]] = {}
        for r in search.requests.tolist():
            known = SearchResult.of(batch, r, search.queues[r])
            members += ranked(search.found[r], known, by_text=by_text)
            fields[r] = known.fields(batch, r)
            if known.is_constrained:
                fields[r] = {**fields[r], "round": self.round}
        nothing = np.full(len(members), np.nan)
        rows = [member.fields(by_text=by_text) for member in members]
        names = rows[0] if rows else ()
        return Outcome(
            chosen=_candidates(batch, members),
            exactness=["exact" if member.is_certain else "heuristic" for member in members],
            log_weight=nothing,
            log_candidate_weight=nothing,
            per_draw={name: [row[name] for row in rows] for name in names},
            per_request=fields,
            over_budget=np.array([member.is_unknown for member in members], np.bool_),
            absent=np.array([member.is_absent for member in members], np.bool_),
        )


def _candidates(batch: Batch, members: list[Member]) -> Candidates:
    """Return the D draws as candidates; one without a member ends like those of ``Learning``."""
    buffer = TrajectoryBuffer(len(members))
    is_cut = batch.tree.log_truncated[batch.draw_request] > -np.inf
    for i, member in enumerate(members):
        row, entry = np.array([i]), member.entry
        if entry is None:
            buffer.finish(row, LENGTH if is_cut[i] else STUCK, np.array([-1]))
            continue
        tokens = np.array(batch.model.tokens(entry.context), np.int64)
        buffer.append(np.full(len(tokens), i), tokens, np.arange(len(tokens)))
        buffer.log_p[i] = entry.log_p
        buffer.finish(row, COMPLETE, np.array([entry.context]), True)
    return buffer.candidates()

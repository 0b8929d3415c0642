"""Top n: the n most probable members, found best first, with certified bounds on their Q.

Best-first search over the prefix tree (design, ALGORITHMS section 3): what is found and what is
left bound P(S) from both sides, and so Q(w) = P(w) / P(S) of every member found. Where all members
are found both bounds are the exact Q, and the members' probabilities sum to one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.learning.bookkeeping import wanted_of
from cdec.samplers.options import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.search.best_first import Search
from cdec.samplers.search.members import Known, Member, ranked
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import COMPLETE, LENGTH, STUCK, Candidates, Recorder
from cdec.samplers.walks.outcome import Outcome


class TopnSampler(Sampler):
    """Returns the n most probable members: draw i is the i-th best, ``rank`` i + 1.

    With ``by="sequence"`` a draw is ``proved`` where it is certain that no token sequence that was
    not found is more probable: then it is the i-th best and its exactness is ``exact``. All draws
    are proved unless the budget ends the search. ``log_q_lower`` and ``log_q_upper`` bound its log
    Q. Ties are listed by tokens; which of several that tie for the last place is listed depends on
    ``round``.

    With ``by="text"`` members of equal text are one draw, ranked by ``log_text``, the log of the
    summed P of the ``tokenisations`` found, of which tokens and ``logprob`` show the best one. What
    is certain: the sum is a lower bound of the text's P, Q of the text lies within the bounds, and
    where ``proved``, no single tokenisation that was not found has more than the sum. What is not:
    many small tokenisations together may lift a text above its rank, or one unseen into the list.
    So exactness is ``exact`` only where all the mass left could not change the rank.

    Where fewer than n members exist the others are records that ended as ``dead_end`` (``length``
    where the limit cut texts off), and proved. Past the budget, what is not proved has
    ``finish_reason`` "budget", with the best text found or none. Without a constraint the members
    are the model's texts, and Q is P.

    Args:
        by: ``sequence`` or ``text``.
        round: Prefixes of a record looked at together; more may look at some in vain.
        max_evaluations: Most prefixes evaluated for a record; None searches to the end.
        max_walks: Prefixes evaluated together; changes no result.

    Raises:
        UsageError: An option out of range.
    """

    method: ClassVar[Method] = METHODS["topn"]
    exactness = "exact"
    by: str
    round: int
    max_evaluations: int | None
    max_walks: int

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Search the members of every request of ``batch``."""
        by_text = self.by == "text"
        wanted = wanted_of(batch)
        search = Search(
            batch,
            wanted,
            by_text=by_text,
            round=self.round,
            max_evaluations=self.max_evaluations,
            max_walks=self.max_walks,
        )
        search.run()
        members: list[Member] = []
        fields: dict[int, dict[str, object]] = {}
        for r in search.requests.tolist():
            is_whole = not search.has_dropped[r]
            known = Known.of(batch, r, search.queues[r].bound, is_whole)
            members += ranked(search.found[r], known, by_text=by_text)
            if known.is_constrained:
                fields[r] = {**known.fields(batch, r), "round": self.round}
        nothing = np.full(len(members), np.nan)
        names = ["rank", "proved", "log_q_lower", "log_q_upper"]
        names += ["log_text", "tokenisations"] if by_text else []
        return Outcome(
            chosen=_candidates(batch, members),
            exactness=["exact" if member.is_certain else "heuristic" for member in members],
            log_weight=nothing,
            log_candidate_weight=nothing,
            per_draw={name: [getattr(member, name) for member in members] for name in names},
            per_request=fields,
            over_budget=np.array([not member.proved for member in members], np.bool_),
        )


def _candidates(batch: Batch, members: list[Member]) -> Candidates:
    """Return the D draws as candidates; one without a member ends like those of ``Learning``."""
    record = Recorder(len(members))
    is_cut = batch.tree.log_beyond[batch.draw_request] > -np.inf
    for i, member in enumerate(members):
        row, entry = np.array([i]), member.entry
        if entry is None:
            record.finish(row, LENGTH if is_cut[i] else STUCK, np.array([-1]))
            continue
        tokens = np.array(batch.model.tokens(entry.context), np.int64)
        record.append(np.full(len(tokens), i), tokens, np.arange(len(tokens)))
        record.log_p[i] = entry.log_p
        record.finish(row, COMPLETE, np.array([entry.context]), True)
    return record.candidates()

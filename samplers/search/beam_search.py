"""Beam search of many groups at once, over distinct texts, with exact stopping.

A *group* is one search: a prompt, or one candidate of ``disc`` with ``beams``. Hypotheses of all
groups take their step together. An end event finishes a hypothesis and never uses up beam width; a
search stops when no live hypothesis can still beat its worst kept text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import COMPLETE, LENGTH, LOOP, STUCK, Candidates, concatenate
from cdec.samplers.walks.decoding import note_step
from cdec.samplers.walks.events import BestEvents, SampledEvents
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step
from cdec.samplers.walks.randomness import CandidateUniforms

if TYPE_CHECKING:
    from cdec.samplers.loops import LoopWatch


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """H partial or whole texts.

    Attributes:
        group: int64[H]. tokens: int32[H, depth]. log_p, log_x, log_kept: float64[H] as Candidates.
        loops: Sees whether they loop; None where nobody asks.
    """

    group: NDArray[np.int64]
    tokens: NDArray[np.int32]
    log_p: NDArray[np.float64]
    log_x: NDArray[np.float64]
    log_kept: NDArray[np.float64]
    loops: LoopWatch | None

    def take(self, rows: NDArray[np.int64]) -> Hypotheses:
        """Return some of them, in the given order, repetitions welcome."""
        return Hypotheses(
            self.group[rows],
            self.tokens[rows],
            self.log_p[rows],
            self.log_x[rows],
            self.log_kept[rows],
            None if self.loops is None else self.loops.take(rows),
        )

    def plus(
        self, log_p: NDArray[np.float64], log_z: NDArray[np.float64], missed: NDArray[np.float64]
    ) -> Hypotheses:
        """Return these after one event each, its token not yet written."""
        return Hypotheses(
            self.group,
            self.tokens,
            self.log_p + log_p,
            self.log_x + log_z,
            self.log_kept + np.log1p(-missed),
            self.loops,
        )


_CERTAIN = -1e-12
"""log P(event) - log Z above which an event was the only one: no choice was made."""


class Ranking(NamedTuple):
    """Hypotheses that are kept of each group.

    Attributes:
        beams: Live hypotheses of a group.
        keep: Texts returned of each group, best first.
        length_penalty: Texts are ranked by log P / events ** length_penalty.
        log_floor: float64[G]: a group is given up where all that it has weighs no more; None gives
            up none.
    """

    beams: int
    keep: int = 1
    length_penalty: float = 0.0
    log_floor: NDArray[np.float64] | None = None


def beam_search(
    batch: Batch,
    request: NDArray[np.int64],
    draw: NDArray[np.int64],
    ranking: Ranking,
    *,
    uniforms: CandidateUniforms | None = None,
    top_m: int | None = None,
) -> Candidates:
    """Search the best texts of each group.

    Args:
        request: int64[G] request of each group. draw: int64[G] draw its evaluations belong to.
        ranking: What is kept of each group.
        uniforms: Of the G groups; given, a group draws its events, one hypothesis wide, until it
            has made one draw among several events, and only then searches.
        top_m: As in ``events``.

    Returns:
        G * keep candidates, those of one group adjacent; a group with fewer texts is filled up with
        its best texts cut at the limit, then with dead ends without tokens.
    """
    search = _Beams(batch, ranking, request)
    n = len(request)
    live = Hypotheses(
        np.arange(n),
        np.zeros((n, 0), np.int32),
        *(np.zeros(n), np.zeros(n), np.zeros(n)),
        batch.loop_watch(request),
    )
    frontier = Frontier.at_start(batch, request, draw)
    waiting = np.full(n, uniforms is not None)
    while live.group.size:
        cut = frontier.is_cut()
        search.finish(live.take(np.flatnonzero(cut)), LENGTH, frontier.context[cut])
        going = ~cut & search.is_open(live, frontier.depth)
        if ranking.log_floor is not None:
            going &= search.has_hope(live, ranking.log_floor)
        if not going.any():
            break
        rows = np.flatnonzero(going)
        live, frontier = live.take(rows), frontier.take(rows)
        batch.count_calls(frontier.request, frontier.draw)
        step = Step.of(frontier)
        drawn = None
        if uniforms is not None and waiting[live.group].any():
            drawn = events.sample(step, uniforms.at(frontier.depth, live.group), top_m=top_m)
        found = events.best(step, ranking.beams, top_m=top_m)
        note_step(step, found)
        live, frontier = search.expand(live, frontier, step, found, drawn, waiting)
    return search.candidates()


class _Beams:
    """Finished texts and how the next hypotheses are chosen."""

    def __init__(self, batch: Batch, ranking: Ranking, request: NDArray[np.int64]) -> None:
        self._batch = batch
        self._beams, self._keep, self._penalty, _ = ranking
        self._request = request
        self._groups = len(request)
        self._worst = np.full(self._groups, -np.inf)
        self._pool: list[tuple[NDArray[np.int64], NDArray[np.float64], Candidates]] = []

    def finish(
        self,
        texts: Hypotheses,
        reason: int,
        context: NDArray[np.int64],
        *,
        ended_itself: bool = False,
    ) -> None:
        """Add finished hypotheses, and keep the best of each group."""
        n, length = texts.tokens.shape
        if not n:
            return
        is_complete = reason == COMPLETE
        events_counted = length + (0 if ended_itself else 1)
        score = texts.log_p / float(max(1, events_counted)) ** self._penalty
        candidates = Candidates(
            tokens=texts.tokens,
            lengths=np.full(n, length),
            log_p=texts.log_p,
            log_x=texts.log_x if is_complete else np.full(n, -np.inf),
            log_kept=texts.log_kept,
            finish=np.full(n, reason),
            is_text=np.full(n, is_complete),
            last=context,
            log_truncated=np.full(n, -np.inf),
        )
        self._pool.append((texts.group, score, candidates))
        self._prune()

    def is_open(self, live: Hypotheses, depth: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which hypotheses can still reach a text that would be kept, bool[H].

        log P only falls; dividing it by the largest possible power of the length bounds the score.
        """
        longest = np.maximum(depth, self._batch.limits[self._request[live.group]]) + 1
        # A text that ends itself by its next token has as many events as one that ends here.
        counts = longest if self._penalty >= 0 else depth + 1
        bound = live.log_p / counts.astype(np.float64) ** self._penalty
        return np.asarray(bound > self._worst[live.group])

    def has_hope(self, live: Hypotheses, log_floor: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say whose group may still come to a text that weighs more than its floor, bool[H].

        Weights only fall, so no text does where no live hypothesis and no text kept does.
        """
        hopeful = np.zeros(self._groups, np.bool_)
        hopeful[live.group[live.log_x > log_floor[live.group]]] = True
        for group, _, texts in self._pool:
            hopeful[group[texts.log_x > log_floor[group]]] = True
        return hopeful[live.group]

    def expand(
        self,
        live: Hypotheses,
        frontier: Frontier,
        step: Step,
        found: BestEvents,
        drawn: SampledEvents | None,
        waiting: NDArray[np.bool_],
    ) -> tuple[Hypotheses, Frontier]:
        """Take one step: finish what ended, and return the best continuations of each group."""
        at = step.walk_node
        log_z, missed = found.log_z[at], found.missed[at]
        is_drawn = waiting[live.group]
        tokens, log_p, log_end = found.tokens[at], found.log_p[at], found.log_end[at]
        if drawn is not None:
            tokens, log_p, log_end = _only_drawn(tokens, log_p, log_end, is_drawn, drawn)
            made_choice = is_drawn & (drawn.log_p - drawn.log_z[at] < _CERTAIN)
            waiting[live.group[made_choice]] = False
        ended = np.flatnonzero(log_end > -np.inf)
        self.finish(
            live.take(ended).plus(log_end[ended], log_z[ended], missed[ended]),
            COMPLETE,
            frontier.context[ended],
        )
        is_cut = self._batch.is_unconstrained(frontier.request) & (
            frontier.depth >= self._batch.limits[frontier.request]
        )
        self.finish(live.take(np.flatnonzero(is_cut)), LENGTH, frontier.context[is_cut])
        rows, columns = np.nonzero((tokens != NONE) & ~is_cut[:, None])
        chosen = self._best_continuations(live, rows, log_p[rows, columns], tokens[rows, columns])
        rows, columns = rows[chosen], columns[chosen]
        if not rows.size:
            return live.take(rows), frontier
        return self._advance(
            live.take(rows).plus(log_p[rows, columns], log_z[rows], missed[rows]),
            frontier.advance(rows, tokens[rows, columns], log_p[rows, columns]),
            tokens[rows, columns],
        )

    def candidates(self) -> Candidates:
        """Return ``keep`` candidates a group, best first."""
        count = self._groups * self._keep
        filler = Candidates(
            tokens=np.zeros((count, 0), np.int32),
            lengths=np.zeros(count, np.int64),
            log_p=np.zeros(count),
            log_x=np.full(count, -np.inf),
            log_kept=np.zeros(count),
            finish=np.full(count, STUCK),
            is_text=np.zeros(count, np.bool_),
            last=np.full(count, -1),
            log_truncated=np.full(count, -np.inf),
        )
        owners = np.repeat(np.arange(self._groups), self._keep)
        self._pool.append((owners, np.full(count, -np.inf), filler))
        self._prune()
        return self._pool[0][2]

    def _best_continuations(
        self,
        live: Hypotheses,
        rows: NDArray[np.int64],
        log_p: NDArray[np.float64],
        tokens: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Choose the ``beams`` best continuations of each group; ties by hypothesis, then token."""
        total = live.log_p[rows] + log_p
        order = np.lexsort((tokens, rows, -total, live.group[rows]))
        best: NDArray[np.int64] = order[_rank(live.group[rows][order]) < self._beams]
        return best

    def _advance(
        self, live: Hypotheses, frontier: Frontier, tokens: NDArray[np.int64]
    ) -> tuple[Hypotheses, Frontier]:
        written = np.concatenate([live.tokens, tokens[:, None].astype(np.int32)], axis=1)
        live = replace(live, tokens=written)
        done = frontier.is_done()
        if done.any():
            self.finish(
                live.take(np.flatnonzero(done)), COMPLETE, frontier.context[done], ended_itself=True
            )
            rows = np.flatnonzero(~done)
            live, frontier, tokens = live.take(rows), frontier.take(rows), tokens[rows]
        if live.loops is None:
            return live, frontier
        return self._without_loops(live, live.loops, frontier, tokens)

    def _without_loops(
        self,
        live: Hypotheses,
        loops: LoopWatch,
        frontier: Frontier,
        tokens: NDArray[np.int64],
    ) -> tuple[Hypotheses, Frontier]:
        """Finish the hypotheses that loop by their last token; return the others."""
        everyone = np.arange(len(tokens))
        loops.append(everyone, tokens)
        looping = loops.is_looping(everyone)
        rows = np.flatnonzero(looping)
        frontier.take(rows).give_up()
        self.finish(live.take(rows), LOOP, frontier.context[rows])
        rows = np.flatnonzero(~looping)
        return live.take(rows), frontier.take(rows)

    def _prune(self) -> None:
        """Keep the best of each group: whole texts before cut ones, then by score, oldest first."""
        group = np.concatenate([part[0] for part in self._pool])
        score = np.concatenate([part[1] for part in self._pool])
        candidates = concatenate([part[2] for part in self._pool])
        order = np.lexsort((np.arange(len(group)), -score, candidates.finish, group))
        rank = _rank(group[order])
        kept = order[rank < self._keep]
        self._pool = [(group[kept], score[kept], candidates.take(kept))]
        full = order[(rank == self._keep - 1) & candidates.is_complete[order]]
        self._worst[group[full]] = score[full]


def _only_drawn(
    tokens: NDArray[np.int64],
    log_p: NDArray[np.float64],
    log_end: NDArray[np.float64],
    is_drawn: NDArray[np.bool_],
    drawn: SampledEvents,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Replace the best events of the hypotheses ``is_drawn`` (bool[H]) by the event they drew."""
    tokens, log_p = tokens.copy(), log_p.copy()
    tokens[is_drawn], log_p[is_drawn] = NONE, -np.inf
    is_token = is_drawn & (drawn.tokens >= 0)
    tokens[is_token, 0] = drawn.tokens[is_token]
    log_p[is_token, 0] = drawn.log_p[is_token]
    drawn_end = np.where(drawn.tokens == END, drawn.log_p, -np.inf)
    return tokens, log_p, np.where(is_drawn, drawn_end, log_end)


def _rank(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each entry's position within its run of equal, sorted ``groups``, int64[n]."""
    n = len(groups)
    starts = np.ones(n, np.bool_)
    starts[1:] = groups[1:] != groups[:-1]
    first = np.maximum.accumulate(np.where(starts, np.arange(n), 0))
    return np.asarray(np.arange(n) - first)

"""Lockstep decoding: many walks from their prompts to their ends, one model evaluation a step.

A *walk* is one candidate of one draw. All walks of all prompts take their step together; equal
prefixes are evaluated and masked once, finished walks leave. With ``uniforms`` a walk draws each
event with probability P(event | prefix) / Z(prefix); without, it takes the most probable event.

Opportunistic masking (DOMINO, arXiv 2403.06988, section 3.5) draws from the model first and asks
for the mask only if that was forbidden. The law is that of masked sampling: with Z the allowed
mass, an allowed t comes with P(t) + (1 - Z) P(t) / Z = P(t) / Z. The second draw has a number of
its own. Where no mask was computed Z is unknown; ``log_z`` is then 0, its upper bound, and Z is
estimated from one event more, u, drawn from all but t (adaptive weighted rejection sampling, Lipkin
et al. 2025, arXiv 2504.05410): 1 if u is allowed, else P(t), whose mean is, given t,
P(t) + (1 - P(t)) (Z - P(t)) / (1 - P(t)) = Z. So products of these have the mean of those of Z.
Deviation: where t was refused the paper goes on drawing without replacement; here the mask is
computed, and Z is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.prefix_tree import Visit
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import (
    COMPLETE,
    LENGTH,
    LOOP,
    STUCK,
    Candidates,
    TrajectoryBuffer,
    listener,
)
from cdec.samplers.walks.events import BestEvents, SampledEvents
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step
from cdec.samplers.walks.randomness import CandidateUniforms

Chooser: TypeAlias = Callable[[Step, NDArray[np.int64]], SampledEvents]
"""Draws one event for every walk of a step; int64[W] are the walks' rows in the recorder."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """Facts of walks and of how their events are chosen, for all their steps.

    Attributes:
        look_ahead: Walks will surely follow forced runs, which are evaluated ahead.
        weighed: Masks are known, so that what the length limit cuts off can be weighed.
        masked: All that is allowed is asked for at every node.
        asks: A step is a call of the model for each walk; False where such a call came before it.
    """

    look_ahead: bool = True
    weighed: bool = True
    masked: bool = True
    asks: bool = True


_LIKE_MASKED = Stepping()


def decode(
    batch: Batch,
    request: NDArray[np.int64],
    draw: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
    *,
    top_m: int | None = None,
    retries: CandidateUniforms | None = None,
    is_opportunistic: bool = False,
    log_floor: NDArray[np.float64] | None = None,
) -> Candidates:
    """Walk from the prompts to the ends.

    Args:
        batch: The open requests.
        request: int64[W] request of each walk. draw: int64[W] its draw's position there.
        uniforms: Of the W walks; None takes the most probable event everywhere.
        top_m, retries, is_opportunistic: As in ``chooser``.
        log_floor: float64[W] log of the weight at which each walk is given up, as one that is
            stuck; None gives up none.

    Returns:
        W candidates; ``log_x`` is known under full masks only. Cost: one forward pass a step over
        the distinct prefixes that no pass has evaluated ahead.
    """
    told = listener(batch, request, draw)
    buffer = TrajectoryBuffer(len(request), log_floor, batch.loop_watch(request), told)
    choose = chooser(uniforms, top_m=top_m, retries=retries, is_opportunistic=is_opportunistic)
    frontier = Frontier.at_start(batch, request, draw)
    how = Stepping(
        weighed=uniforms is not None and retries is None,
        masked=top_m is None and retries is None and not is_opportunistic,
    )
    walk_on(buffer, np.arange(len(request)), frontier, choose, how)
    return buffer.candidates()


def chooser(
    uniforms: CandidateUniforms | None,
    *,
    top_m: int | None = None,
    retries: CandidateUniforms | None = None,
    is_opportunistic: bool = False,
) -> Chooser:
    """Return how masked or greedy decoding draws its events.

    Args:
        uniforms: Of all walks; None takes the most probable event everywhere.
        top_m: As in ``events``.
        retries: Uniforms of the second draws, where the first was not allowed: makes sampling
            opportunistic. Without ``uniforms`` it is ``is_opportunistic`` that does.
        is_opportunistic: Ask for the mask only where the most probable event is not allowed.
    """

    def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
        depth = step.depth
        if uniforms is None and is_opportunistic:
            return _most_probable_opportunistic(step)
        if uniforms is None:
            return events.most_probable(step, top_m=top_m)
        if retries is not None:
            numbers = [source.at(depth, alive) for source in (uniforms, retries)]
            return _sample_opportunistic(step, *numbers)
        return events.sample(step, uniforms.at(depth, alive), top_m=top_m)

    return choose


def walk_on(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    frontier: Frontier,
    choose: Chooser,
    how: Stepping = _LIKE_MASKED,
) -> None:
    """Walk from where walks stand to their ends, and record the prefixes in the batch's tree.

    Args:
        buffer: Written.
        alive: int64[n] rows of ``buffer``. frontier: The n walks.
        choose: Draws the events of a step; with ``log_residual`` if the tree is to be walked again.
        how: What is known of the walks and of ``choose``.
    """
    while alive.size:
        alive, frontier = step_on(buffer, alive, frontier, choose, how)


def step_on(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    frontier: Frontier,
    choose: Chooser,
    how: Stepping = _LIKE_MASKED,
) -> tuple[NDArray[np.int64], Frontier]:
    """Take one step of ``walk_on`` and return the walks that go on."""
    batch = frontier.batch
    if frontier.deepest >= batch.least_limit:
        cut = frontier.is_cut()
        buffer.overrun(alive[cut])
        buffer.finish(alive[cut], LENGTH, frontier.context[cut])
        alive, frontier = _keep(alive, frontier, ~cut)
    alive, frontier = give_up(buffer, alive, frontier)
    if not alive.size:
        return alive, frontier
    if how.asks:
        batch.count_calls(frontier.request, frontier.draw)
    step = Step.of(frontier, look_ahead=how.look_ahead, masked=how.masked)
    chosen = choose(step, alive)
    log_truncated = log_truncated_mass(step) if how.weighed else None
    if log_truncated is not None:
        buffer.overrun(alive, log_truncated[step.walk_node])
    note_step(step, chosen, log_truncated)
    return follow_events(buffer, alive, frontier, step, chosen)


def give_up(
    buffer: TrajectoryBuffer, alive: NDArray[np.int64], frontier: Frontier
) -> tuple[NDArray[np.int64], Frontier]:
    """Finish the walks that weigh too little to be carried on; return the others."""
    if not buffer.has_floor or not alive.size:
        return alive, frontier
    # A run that the pass of a prefix above has evaluated is followed to its end.
    given_up = buffer.is_hopeless(alive) & ~frontier.in_run
    buffer.finish(alive[given_up], STUCK, frontier.context[given_up])
    return _keep(alive, frontier, ~given_up)


def note_step(
    step: Step, chosen: SampledEvents | BestEvents, log_truncated: NDArray[np.float64] | None = None
) -> None:
    """Record the nodes of a step as evaluated, with bounds of their allowed mass.

    Args:
        step: Evaluated. chosen: What was found there.
        log_truncated: float64[N] log of the mass that the length limit cuts off at each node.
    """
    exact = False
    if isinstance(chosen, SampledEvents) and chosen.log_residual.size:
        exact, mass = True, chosen.log_residual
    else:
        mass = chosen.log_z
        if chosen.missed.any():
            # Under top-M it is at most what was verified plus all that was not looked at.
            with np.errstate(divide="ignore"):
                mass = np.logaddexp(mass, np.log(chosen.missed))
        mass = np.minimum(0.0, mass)
    step.nodes.batch.tree.visit(step.nodes, Visit(mass, chosen.log_end, log_truncated, exact=exact))


def log_truncated_mass(step: Step) -> NDArray[np.float64] | None:
    """Return the log mass of the tokens allowed at nodes but for the length limit, float64[N].

    None where no node is at its limit.
    """
    if step.nodes.deepest < step.nodes.batch.least_limit:
        return None
    beyond = np.full(len(step.rows), -np.inf)
    nodes = np.flatnonzero(step.nodes.at_limit())
    if nodes.size:
        unlimited = step.of_nodes(nodes).without_limit()
        # The end is no token that the limit cuts off.
        ends = step.nodes.batch.end_ids.tolist()
        beyond[nodes] = events.log_residual(unlimited, [ends] * len(nodes))
    return beyond


def follow_events(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    frontier: Frontier,
    step: Step,
    chosen: SampledEvents,
) -> tuple[NDArray[np.int64], Frontier]:
    """Apply one event a walk: record what ended, advance the others."""
    batch = frontier.batch
    goes_on = chosen.tokens >= 0
    cut = np.zeros(len(goes_on), np.bool_)
    if frontier.deepest >= batch.least_limit:
        cut = batch.is_unconstrained(frontier.request) & (chosen.tokens != END)
        cut &= frontier.depth >= batch.limits[frontier.request]
        goes_on &= ~cut
    buffer.add(alive, step.walk_node, chosen)
    if goes_on.all():
        buffer.append(alive, chosen.tokens, frontier.depth)
        return finish_done(buffer, alive, frontier.advance(None, chosen.tokens, chosen.log_p))
    stuck, ended = chosen.tokens == NONE, chosen.tokens == END
    buffer.finish(alive[stuck], STUCK, frontier.context[stuck])
    is_text = batch.is_member(frontier.request[ended], frontier.state[batch.index_of(ended)])
    buffer.finish(alive[ended], COMPLETE, frontier.context[ended], is_text)
    buffer.finish(alive[cut], LENGTH, frontier.context[cut])
    rows = np.flatnonzero(goes_on)
    if not rows.size:
        return alive[:0], frontier
    tokens = chosen.tokens[rows]
    alive = alive[rows]
    buffer.append(alive, tokens, frontier.depth[rows])
    return finish_done(buffer, alive, frontier.advance(rows, tokens, chosen.log_p[rows]))


def finish_done(
    buffer: TrajectoryBuffer, alive: NDArray[np.int64], frontier: Frontier
) -> tuple[NDArray[np.int64], Frontier]:
    """Finish the walks whose constraint has ended them, and those that loop; return the others."""
    done = frontier.is_done()
    if done.any():
        rows = np.flatnonzero(done)
        seen = Visit(np.zeros(rows.size), evaluated=False, exact=True, terminal=True)
        frontier.batch.tree.visit(frontier.take(rows), seen)
        buffer.finish(alive[done], COMPLETE, frontier.context[done], True)
        alive, frontier = _keep(alive, frontier, ~done)
    looping = buffer.looping(alive)
    if not looping.size:
        return alive, frontier
    # No text goes on from here: what is cut off is no part of S, as if it were forbidden.
    frontier.take(looping).give_up()
    buffer.finish(alive[looping], LOOP, frontier.context[looping])
    goes_on = np.ones(len(alive), np.bool_)
    goes_on[looping] = False
    return _keep(alive, frontier, goes_on)


def _keep(
    alive: NDArray[np.int64], frontier: Frontier, kept: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Frontier]:
    if kept.all():
        return alive, frontier
    rows = np.flatnonzero(kept)
    return alive[rows], frontier.take(rows)


def _sample_opportunistic(
    step: Step, uniforms: NDArray[np.float64], retries: NDArray[np.float64]
) -> SampledEvents:
    """Draw one event for every walk, as ``events.sample`` does in law.

    Args:
        step: An evaluated frontier of W walks at N nodes.
        uniforms, retries: float64[W] in [0, 1), independent: of the first draw and of the second.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    first = _of_the_model(step, events.sample(step, uniforms, masked=False))
    allowed = _is_allowed(step, first.tokens)
    bound = ~step.nodes.batch.is_unconstrained(step.nodes.request)[step.walk_node]
    log_weight = np.zeros(len(allowed))
    taken = np.flatnonzero(allowed & bound)
    log_weight[taken] = _log_estimates(step, taken, first, retries[taken])
    refused = np.flatnonzero(~allowed)
    if refused.size:
        part, nodes = step.of_walks(refused)
        second = events.sample(part, retries[refused])
        log_weight[refused] = second.log_z[part.walk_node]
        first = _replaced(first, refused, nodes, second)
    return replace(first, log_weight=log_weight)


_SCORES_BYTES = 64 << 20
"""Bytes of scores that are copied at once."""


def _log_estimates(
    step: Step,
    walks: NDArray[np.int64],
    first: SampledEvents,
    uniforms: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return log of the estimates of Z at walks whose first draw was allowed, float64[n].

    Args:
        step: Evaluated. walks: int64[n]. first: The events of all walks.
        uniforms: float64[n] of one draw more, from all other events.

    Cost: a copy of a walk's scores and a pass over it, and one token to be checked.
    """
    batch, found = step.nodes.batch, np.zeros(len(walks))
    for some in chunks(len(walks), _SCORES_BYTES // (4 * batch.model.vocabulary.width)):
        mine = walks[some]
        tokens, node, own = first.tokens[mine], step.walk_node[mine], np.arange(len(mine))
        known = events.host_scores(step) if batch.on_host else (step.scores, step.log_normalizer)
        scores, normalizer = (each[batch.index(step.rows[node])] for each in known)
        ended = np.flatnonzero(tokens == END)
        scores[batch.index(ended[:, None]), batch.index(batch.end_ids[None])] = -np.inf
        went = np.flatnonzero(tokens != END)
        scores[batch.index(went), batch.index(tokens[went])] = -np.inf
        others = Step(
            nodes=step.nodes.take(node),
            walk_node=own,
            walk_starts=np.arange(len(mine) + 1),
            walk_order=own,
            scores=scores,
            log_normalizer=normalizer,
            rows=own,
        )
        second = events.sample_others(others, uniforms[some]).tokens
        # Where there is nothing else, what was drawn is all that there is.
        is_one = (second == NONE) | _is_allowed(others, second)
        found[some] = np.where(is_one, 0.0, first.log_p[mine])
    return found


def _most_probable_opportunistic(step: Step) -> SampledEvents:
    """Choose the most probable event of every walk, as ``events.most_probable`` does.

    If the model's own choice is allowed, it is the best of what is allowed, ties included.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    first = _of_the_model(step, events.most_probable(step, masked=False))
    refused = np.flatnonzero(~_is_allowed(step, first.tokens))
    if not refused.size:
        return first
    part, nodes = step.of_walks(refused)
    return _replaced(first, refused, nodes, events.most_probable(part))


def _of_the_model(step: Step, first: SampledEvents) -> SampledEvents:
    """Return unmasked events with no end where a text may not end: none is found there."""
    nodes, batch = step.nodes, step.nodes.batch
    may_end = batch.is_unconstrained(nodes.request) | batch.is_complete(nodes.request, nodes.state)
    return replace(first, log_end=np.where(may_end, first.log_end, -np.inf))


def _is_allowed(step: Step, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which events (int64[W]) the constraints allow, bool[W]; only ends at the length limit."""
    nodes, batch = step.nodes, step.nodes.batch
    allowed = np.ones(len(tokens), np.bool_)
    request = nodes.request[step.walk_node]
    # All end ids are allowed together: one stands for them.
    ids = np.where(tokens == END, batch.end_ids[:1] if len(batch.end_ids) else -1, tokens)
    for session, walks in batch.groups(request) if batch.masks else []:
        states = nodes.state[batch.index(step.walk_node[walks])]
        allowed[walks] = batch.to_host(session.check(states, batch.index(ids[walks, None])))[:, 0]
    at_limit = nodes.at_limit()[step.walk_node]
    within: NDArray[np.bool_] = ~at_limit | (tokens == END)
    return allowed & within


def _replaced(
    first: SampledEvents,
    walks: NDArray[np.int64],
    nodes: NDArray[np.int64],
    second: SampledEvents,
) -> SampledEvents:
    """Put the second events of ``walks`` and what is known of their ``nodes`` into the first."""
    first.tokens[walks] = second.tokens
    first.log_p[walks] = second.log_p
    first.log_z[nodes] = second.log_z
    first.log_end[nodes] = second.log_end
    return first


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

"""Lockstep decoding: many walks from their prompts to their ends, one model evaluation a step.

A *walk* is one candidate of one draw. All walks of all prompts take their step together; equal
prefixes are evaluated and masked once, finished walks leave. With ``uniforms`` a walk draws each
event with probability P(event | prefix) / Z(prefix); without, it takes the most probable event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers import events, opportunistic
from cdec.samplers.batch import Batch
from cdec.samplers.candidates import COMPLETE, LENGTH, STUCK, Candidates, Recorder
from cdec.samplers.events import END, NONE, SampledEvents
from cdec.samplers.frontier import Frontier
from cdec.samplers.randomness import CandidateUniforms
from cdec.samplers.step import Step

if TYPE_CHECKING:
    from cdec.samplers.speculation import Speculator


def decode(
    batch: Batch,
    request: NDArray[np.int64],
    draw: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
    *,
    top_m: int | None = None,
    retries: CandidateUniforms | None = None,
    is_opportunistic: bool = False,
    speculator: Speculator | None = None,
) -> Candidates:
    """Walk from the prompts to the ends.

    Args:
        batch: The open requests.
        request: int64[W] request of each walk. draw: int64[W] its draw's position there.
        uniforms: Of the W walks; None takes the most probable event everywhere.
        top_m: As in ``events``.
        retries: Uniforms of the second draws, where the first was not allowed: makes sampling
            opportunistic. Without ``uniforms`` it is ``is_opportunistic`` that does.
        is_opportunistic: Ask for the mask only where the most probable event is not allowed.
        speculator: Guesses which prefixes to evaluate ahead.

    Returns:
        W candidates; ``log_x`` is known under full masks only. Cost: one forward pass a step over
        the distinct prefixes that no pass has evaluated ahead.
    """
    record = Recorder(len(request))
    frontier = Frontier.at_start(batch, request, draw)
    alive = np.arange(len(request))
    while alive.size:
        cut = frontier.is_cut()
        record.finish(alive[cut], LENGTH, frontier.context[cut])
        alive, frontier = _keep(alive, frontier, ~cut)
        if not alive.size:
            break
        step = Step.of(frontier, look_ahead=True, speculator=speculator)
        if uniforms is None and is_opportunistic:
            chosen = opportunistic.most_probable(step)
        elif uniforms is None:
            chosen = events.most_probable(step, top_m=top_m)
        elif retries is not None:
            numbers = [source.at(frontier.depth, alive) for source in (uniforms, retries)]
            chosen = opportunistic.sample(step, *numbers)
        else:
            chosen = events.sample(step, uniforms.at(frontier.depth, alive), top_m=top_m)
        if speculator is not None:
            speculator.learn(step, chosen)
        note_step(step, chosen.log_z, chosen.missed)
        alive, frontier = _follow(record, alive, frontier, step, chosen)
    return record.candidates()


def note_step(step: Step, log_z: NDArray[np.float64], missed: NDArray[np.float64]) -> None:
    """Record the nodes of a step as evaluated, with bounds of their allowed mass."""
    # Under top-M the allowed mass is at most what was verified plus all that was not looked at.
    with np.errstate(divide="ignore"):
        bound = np.minimum(0.0, np.logaddexp(log_z, np.log(missed)))
    step.nodes.record(bound, evaluated=True)


def _follow(
    record: Recorder,
    alive: NDArray[np.int64],
    frontier: Frontier,
    step: Step,
    chosen: SampledEvents,
) -> tuple[NDArray[np.int64], Frontier]:
    """Apply one event a walk: record what ended, advance the rest."""
    batch = frontier.batch
    stuck = chosen.tokens == NONE
    ended = chosen.tokens == END
    cut = (
        batch.is_free(frontier.request)
        & ~ended
        & (frontier.depth >= batch.limits[frontier.request])
    )
    live = ~stuck
    record.log_p[alive[live]] += chosen.log_p[live]
    record.log_x[alive[live]] += chosen.log_z[step.walk_node[live]]
    record.log_kept[alive[live]] += np.log1p(-chosen.missed[step.walk_node[live]])
    record.finish(alive[stuck], STUCK, frontier.context[stuck])
    is_text = batch.is_member(frontier.request[ended], frontier.state[batch.index_of(ended)])
    record.finish(alive[ended], COMPLETE, frontier.context[ended], is_text)
    record.finish(alive[cut], LENGTH, frontier.context[cut])
    rows = np.flatnonzero(live & ~ended & ~cut)
    if not rows.size:
        return alive[:0], frontier
    tokens = chosen.tokens[rows]
    alive = alive[rows]
    record.append(alive, tokens, frontier.depth[rows])
    after = frontier.advance(rows, tokens, chosen.log_p[rows])
    done = after.is_done()
    record.finish(alive[done], COMPLETE, after.context[done], True)
    return _keep(alive, after, ~done)


def _keep(
    alive: NDArray[np.int64], frontier: Frontier, kept: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Frontier]:
    if kept.all():
        return alive, frontier
    rows = np.flatnonzero(kept)
    return alive[rows], frontier.take(rows)

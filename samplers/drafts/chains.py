"""Chains of guesses that the target agrees with, followed in one step.

A guess is accepted where the target chooses the same, and what it chooses at one prefix does not
depend on what it chose at another. So it chooses at all prefixes of the chains at once; each walk
goes as far as it agrees, and its next event is one of an ordinary step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.proposals import FORCED, Ahead, Judge, Proposal
from cdec.samplers.walks.decoding import note_step
from cdec.samplers.walks.frontier import Frontier, Step
from cdec.samplers.walks.groups import distinct

if TYPE_CHECKING:
    from cdec.samplers.drafts.proposals import Drafting
    from cdec.samplers.walks.candidates import TrajectoryBuffer
    from cdec.samplers.walks.events import SampledEvents


@dataclass(frozen=True, slots=True)
class Chains:
    """The prefixes that n walks have ahead, each with the token that leads to the next one.

    Attributes:
        every: All prefixes, level by level: those the walks stand at, then those ahead.
        place: int64[n, L + 1] each walk's prefix of each level in ``every``, -1 for none.
        rows: int64[m] prefixes with a next one, level by level. walk, level: int64[m].
        tokens: int64[m] guessed there. is_free: bool[m] whether the constraint left a choice.
    """

    every: Frontier
    place: NDArray[np.int64]
    rows: NDArray[np.int64]
    walk: NDArray[np.int64]
    level: NDArray[np.int64]
    tokens: NDArray[np.int64]
    is_free: NDArray[np.bool_]

    @classmethod
    def of(cls, start: Frontier, ahead: Ahead) -> Chains:
        """Return the chains of the walks of ``start`` (n of them)."""
        n, depth = len(start.depth), len(ahead.levels)
        walks = [np.arange(n), *ahead.walks]
        begins = np.cumsum([0, *map(len, walks)])
        place = np.full((n, depth + 1), -1, np.int64)
        for number, those in enumerate(walks):
            place[those, number] = begins[number] + np.arange(len(those))
        at = [
            np.searchsorted(proposal.walks, those)
            for proposal, those in zip(ahead.levels, ahead.walks, strict=True)
        ]
        level = np.repeat(np.arange(depth), [len(those) for those in ahead.walks])
        walk = np.concatenate(ahead.walks)
        events = [proposal.events[i] for proposal, i in zip(ahead.levels, at, strict=True)]
        kinds = [proposal.kinds[i] for proposal, i in zip(ahead.levels, at, strict=True)]
        return cls(
            every=start.joined(*ahead.reached),
            place=place,
            rows=place[walk, level],
            walk=walk,
            level=level,
            tokens=np.concatenate(events),
            is_free=np.concatenate(kinds) != FORCED,
        )


@dataclass(frozen=True, slots=True)
class Followed:
    """How far n walks went.

    Attributes:
        frontier: Where they stand now.
        went: int64[n] tokens that each took. verified: int64[n] those that were no forced ones.
        proposal: What is proposed there.
    """

    frontier: Frontier
    went: NDArray[np.int64]
    verified: NDArray[np.int64]
    proposal: Proposal


def follow(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    start: Frontier,
    ahead: Ahead,
    judge: Judge,
    drafting: Drafting,
) -> Followed:
    """Go on along guesses for as long as the target chooses them.

    The last token of a chain, or one after which a text may be over, is left to an ordinary step.

    Args:
        buffer: Written.
        alive: int64[n] rows of ``buffer``. start: The n walks, evaluated with all that is ahead.
        ahead: Guesses, none of them drawn from a law.
        judge: One that compares. drafting: Told what was chosen.
    """
    chains = Chains.of(start, ahead)
    n, depth = chains.place.shape
    walk, level = chains.walk, chains.level
    flat = replace(chains.every.take(chains.rows), in_run=np.ones(len(walk), np.bool_))
    step = Step.of(flat, masked=judge.masked)
    chosen = judge.choose(step, alive[walk])
    agrees = np.zeros((n, depth), np.bool_)
    agrees[walk, level] = chosen.tokens == chains.tokens
    went = np.logical_and.accumulate(agrees, axis=1).sum(axis=1)
    kept = np.flatnonzero(level < went[walk])
    log_edges = np.zeros((n, depth))
    log_edges[:, 0] = start.log_prefix
    log_edges[walk[kept], level[kept] + 1] = chosen.log_p[kept]
    log_prefixes = np.cumsum(log_edges, axis=1)
    log_edges[:, 0] = start.log_edge
    if kept.size:
        here = replace(
            flat.take(kept),
            log_edge=log_edges[walk[kept], level[kept]],
            log_prefix=log_prefixes[walk[kept], level[kept]],
        )
        taken = replace(
            chosen,
            tokens=chosen.tokens[kept],
            log_p=chosen.log_p[kept],
            log_weight=None if chosen.log_weight is None else chosen.log_weight[kept],
        )
        where = replace(step, walk_node=step.walk_node[kept])
        _record(buffer, alive[walk[kept]], here, where, taken)
        drafting.learn(replace(step, nodes=here, walk_node=np.arange(len(kept))), taken)
    everyone = np.arange(n)
    frontier = replace(
        chains.every.take(chains.place[everyone, went]),
        log_edge=log_edges[everyone, went],
        log_prefix=log_prefixes[everyone, went],
    )
    verified = np.bincount(walk[kept][chains.is_free[kept]], minlength=n)
    return Followed(frontier, went, verified, _next(ahead, went))


def _record(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    here: Frontier,
    step: Step,
    taken: SampledEvents,
) -> None:
    """Record events that walks took ``here``, level by level, as steps of their own would.

    Args:
        buffer: Written.
        alive: int64[k] its rows. here: The k prefixes.
        step: Where they were evaluated, with the node of each. taken: The events.
    """
    group = distinct(here.context, here.request, here.draw)
    first = np.arange(len(alive)) if group is None else group.first
    # A prefix is linked to the one above it, which has to be there.
    first = first[np.argsort(here.depth[first], kind="stable")]
    at = step.walk_node[first]
    seen = replace(taken, log_z=taken.log_z[at], missed=taken.missed[at], log_end=taken.log_end[at])
    note_step(replace(step, nodes=here.take(first)), seen)
    buffer.add(alive, step.walk_node, taken)
    buffer.append(alive, taken.tokens, here.depth)


def _next(ahead: Ahead, went: NDArray[np.int64]) -> Proposal:
    """Return what is proposed to walks that each took ``went`` (int64[n]) tokens."""
    here = [went[level.walks] == i for i, level in enumerate(ahead.levels)]
    walks, events, kinds = (
        np.concatenate([getattr(p, name)[rows] for p, rows in zip(ahead.levels, here, strict=True)])
        for name in ("walks", "events", "kinds")
    )
    order = np.argsort(walks)
    nowhere = np.full(len(walks), -1, np.int64)
    return Proposal(
        walks[order], events[order], kinds[order], nowhere, np.zeros((0, 1)), np.zeros(0)
    )

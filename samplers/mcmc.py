"""MCMC: a masked text changed k times by Metropolis and Hastings' rule, each time from a cut on.

Paper: Gonzalez et al. 2025, arXiv 2506.05754. A step cuts the text before one of its events, the
end of the text counted as one, and proposes what masked decoding makes of the prefix; the proposal
w' of a text w is accepted with probability min(1, P(w') q(w | w') / (P(w) q(w' | w))). A proposal
may come by every cut up to the first event in which it differs, so q sums over all of these:

    q(w' | w) = sum over i of cut(i | w) * prod over events j >= i of w' of P_j / Z_j

A text of n tokens and an end has n + 1 cuts: how likely each is depends on the text, so it enters
forwards and backwards. Chains converge to Q since each text can follow from each other one.
Deviations: where no event has a choice, a text is cut at its beginning (the paper's priorities are
0 / 0 there); a proposal without an end is refused, and where the first text has none, texts are
drawn anew until one has: both have probability 0 under Q.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.prefix_tree import TERMINAL
from cdec.samplers.registry import METHODS
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.candidates import Candidates, TrajectoryBuffer, concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, walk_on
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step
from cdec.samplers.walks.mass import MassAccumulator
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import AGAIN, CandidateUniforms, resample

PREFIX, PRIORITY, RESTART = "prefix", "priority", "restart"
"""Proposals: cut anywhere alike, where much was open, or at the beginning."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Texts event by event, n of at most L events; event i follows prefix i.

    Attributes:
        nodes: int64[n, L] context of each prefix; what stands behind the last event means nothing.
        events: int64[n, L] tokens; END, and NONE behind the last event.
        log_p: float64[n, L] log P of each event. log_z: float64[n, L] log of the allowed mass at
            each prefix. Both 0 behind the last event.
        log_cut: float64[n, L] log of the probability of a cut before each event.
    """

    nodes: NDArray[np.int64]
    events: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_z: NDArray[np.float64]
    log_cut: NDArray[np.float64]

    @property
    def log_rest(self) -> NDArray[np.float64]:
        """Log of the probability that masked decoding goes on from each prefix as the text does."""
        steps = self.log_p - self.log_z
        rest: NDArray[np.float64] = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
        return rest

    def take(self, rows: NDArray[np.int64]) -> Paths:
        """Return some of the texts, int64[m]."""
        return Paths(*(getattr(self, column.name)[rows] for column in fields(self)))


def log_cuts(
    proposal: str, counts: NDArray[np.int64], entropy: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log of the probability of each cut, float64[n, L], -inf where there is none.

    Args:
        proposal: PREFIX: all alike. PRIORITY: by exp(H) - 1, H the entropy of the event's masked
            law, so that none is cut off that was forced. RESTART: before the first event.
        counts: int64[n] events of each text.
        entropy: float64[n, L] nats; PRIORITY alone looks at it.
    """
    places = np.arange(entropy.shape[1])
    weights = np.where(places < counts[:, None], 1.0, 0.0)
    if proposal == PRIORITY:
        weights *= np.expm1(entropy)
    if proposal == RESTART:
        weights[:, 1:] = 0.0
    weights[weights.sum(axis=1) == 0, 0] = 1.0
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(weights / weights.sum(axis=1, keepdims=True))
    return logs


def log_proposed(now: Paths, then: Paths) -> NDArray[np.float64]:
    """Return log q(w' | w) of n texts w', ``then``, proposed for as many w, ``now``; float64[n].

    All cuts of w count up to the first event in which w' differs, whichever was made. Both have
    columns for the same number of events.
    """
    differs = now.events != then.events
    width = differs.shape[1]
    first = np.where(differs.any(axis=1), np.argmax(differs, axis=1), width)
    ways = np.where(np.arange(width) <= first[:, None], now.log_cut + then.log_rest, -np.inf)
    total: NDArray[np.float64] = np.logaddexp.reduce(ways, axis=1)
    return total


def log_accepted(now: Paths, then: Paths) -> NDArray[np.float64]:
    """Return the log of the probability that ``then`` takes the place of ``now``, float64[n]."""
    gain = then.log_p.sum(axis=1) - now.log_p.sum(axis=1)
    gain += log_proposed(then, now) - log_proposed(now, then)
    log_ratio: NDArray[np.float64] = np.minimum(0.0, gain)
    return log_ratio


def entropies(step: Step) -> NDArray[np.float64]:
    """Return the entropy of the masked law at each node in nats, float64[N]; 0 at dead ends.

    Unconstrained nodes are not looked at and have 0. Cost: the scores of all allowed ids, once.
    """
    if not step.nodes.batch.on_host:
        return _entropies_on_device(step)
    scores, log_normalizer = events.host_scores(step)
    allowed = events.allowed_ids(step, scores, log_normalizer)
    is_end, found = step.nodes.batch.is_end, np.zeros(len(step.rows))
    for node, which in zip(allowed.which.tolist(), allowed.lists.tolist(), strict=True):
        ids = allowed.ids[allowed.offsets[which] : allowed.offsets[which + 1]]
        row = step.rows[node]
        log_p = scores[row, ids].astype(np.float64) - log_normalizer[row]
        # The end is one event, by whichever id.
        ends = is_end[ids]
        log_p = np.append(log_p[~ends], np.logaddexp.reduce(log_p[ends], initial=-np.inf))
        log_p = log_p[log_p > -np.inf]
        if log_p.size:
            log_p -= log_p.max()
            weights = np.exp(log_p)
            found[node] = np.log(weights.sum()) - weights @ log_p / weights.sum()
    return found


def _entropies_on_device(step: Step) -> NDArray[np.float64]:
    import torch

    from cdec.samplers.walks.events_torch import Options, masked_log_p, slices

    ends = step.nodes.batch.index(step.nodes.batch.end_ids)
    parts = []
    for start, stop in slices(step):
        masked, _ = masked_log_p(step, start, stop, Options(None))
        log_end = torch.logsumexp(masked[:, ends], 1, keepdim=True)
        masked[:, ends] = -torch.inf
        law = torch.softmax(torch.cat([masked, log_end], 1), 1)
        parts.append(torch.special.entr(law).nansum(1))
    found: NDArray[np.float64] = torch.cat(parts).cpu().numpy()
    return found


class Chains:
    """One text for each of D draws, which steps change.

    Numbers (``randomness``): the first text is candidate 0, what step s proposes is candidate s.
    The opening number of its stream AGAIN decides the cut, that of FIRST whether it is accepted.

    Args:
        batch: The open requests; its tree has columns ``state`` and ``entropy``.
        draws: int64[D] rows of the batch's draws.
        proposal: PREFIX, PRIORITY or RESTART.

    Attributes:
        texts: D candidates, the present ones.
        moves: int64[D] how many steps changed each.
    """

    def __init__(self, batch: Batch, draws: NDArray[np.int64], proposal: str) -> None:
        self._batch, self._draws, self._proposal = batch, draws, proposal
        self._request = batch.draw_request[draws]
        start = Frontier.at_start(batch, self._request, batch.draw_index[draws])
        self.texts = self._walk(start, self._buffer(), candidate_uniforms(batch, draws, 1))
        self.moves = np.zeros(len(draws), np.int64)

    def step(self, number: int) -> None:
        """Take step ``number``, from 1 on, with all texts.

        Cost: masked decoding of what is behind the cuts; known prefixes are evaluated once.
        """
        texts, uniforms = self.texts, candidate_uniforms(self._batch, self._draws, 1, number)
        is_text = texts.is_complete
        width = int(texts.lengths.max(initial=0)) + 1
        now = self._paths(texts, width)
        cut = resample(now.log_cut, uniforms.stream(AGAIN).acceptance())
        proposed = self._proposed(now, np.where(is_text, cut, 0), uniforms)
        # Nothing is kept for a text's sake where there is none yet.
        accepted = proposed.is_complete & ~is_text
        both = np.flatnonzero(proposed.is_complete & is_text)
        width = max(width, int(proposed.lengths.max(initial=0)) + 1)
        now, then = (self._paths(each.take(both), width) for each in (texts, proposed))
        accepted[both] = uniforms.acceptance()[both] < np.exp(log_accepted(now, then))
        self.moves += accepted & (proposed.last != texts.last)
        rows = np.flatnonzero(accepted)
        self.texts = texts.replaced(rows, proposed.take(rows))

    def _proposed(
        self, now: Paths, cut: NDArray[np.int64], uniforms: CandidateUniforms
    ) -> Candidates:
        """Return what masked decoding makes of the prefixes of ``cut`` (int64[D]) events."""
        buffer, width = self._buffer(), int(cut.max(initial=0))
        is_kept = np.arange(now.events.shape[1]) < cut[:, None]
        for depth in range(width):
            rows = np.flatnonzero(is_kept[:, depth])
            buffer.append(rows, now.events[rows, depth], np.full(len(rows), depth))
        buffer.log_p += np.where(is_kept, now.log_p, 0.0).sum(axis=1)
        buffer.log_x += np.where(is_kept, now.log_z, 0.0).sum(axis=1)
        frontier = replace(
            Frontier.at_visited(self._batch, now.nodes[np.arange(len(cut)), cut]),
            draw=self._batch.draw_index[self._draws],
            log_prefix=buffer.log_p.copy(),
        )
        return self._walk(frontier, buffer, uniforms)

    def _paths(self, texts: Candidates, width: int) -> Paths:
        """Return texts event by event; of those without an end only that they begin at a prompt.

        Args:
            texts: n candidates. width: L. Cost: as many look-ups a text as it has tokens.
        """
        tree, places = self._batch.tree, np.arange(width)
        nodes = np.zeros((len(texts.lengths), width), np.int64)
        at, depth, left = texts.last.copy(), texts.lengths.copy(), np.arange(len(nodes))
        while left.size:
            nodes[left, depth[left]] = at[left]
            left = left[depth[left] > 0]
            depth[left] -= 1
            at[left] = tree["parent"][at[left]]
        ends_itself = tree["flags"][texts.last] & TERMINAL > 0
        is_token = places < texts.lengths[:, None]
        is_end = (places == texts.lengths[:, None]) & ~ends_itself[:, None]
        is_event = is_token | is_end
        tokens, edges = (np.roll(tree[name][nodes], -1, axis=1) for name in ("token", "edge"))
        log_p = np.where(is_token, edges, 0.0)
        log_p += np.where(is_end, (texts.log_p - log_p.sum(axis=1))[:, None], 0.0)
        entropy = np.where(is_event, tree["entropy"][nodes], 0.0)
        return Paths(
            nodes=nodes,
            events=np.where(is_token, tokens, np.where(is_end, END, NONE)),
            log_p=log_p,
            log_z=np.where(is_event, tree["mass"][nodes], 0.0),
            log_cut=log_cuts(self._proposal, is_event.sum(axis=1), entropy),
        )

    def _buffer(self) -> TrajectoryBuffer:
        return TrajectoryBuffer(len(self._draws), loops=self._batch.loop_watch(self._request))

    def _walk(
        self, frontier: Frontier, buffer: TrajectoryBuffer, uniforms: CandidateUniforms
    ) -> Candidates:
        """Decode under masks from where D walks stand."""
        tree = self._batch.tree

        def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
            if self._proposal == PRIORITY:
                tree.reserve(int(step.nodes.context.max()) + 1)
                tree["entropy"][step.nodes.context] = entropies(step)
            return events.sample(step, uniforms.at(step.depth, alive))

        walk_on(buffer, np.arange(len(self._draws)), frontier, choose)
        return buffer.candidates()


class McmcSampler(Sampler):
    """Draws the text that a chain of k steps has come to; the law tends to Q as k grows.

    The first text is a masked one. The law after k steps has no closed form, so ``log_weight`` is
    null; ``log_mass`` is estimated by the first texts alone. A record says how many steps changed
    its text (``moves``): few moves mean that the law is still near that of masked decoding, or that
    little else is allowed.

    Args:
        steps: k.
        proposal: Where texts are cut: ``priority`` where much was open, ``prefix`` anywhere alike,
            ``restart`` at the beginning, which makes proposals independent of the text.
    """

    method: ClassVar[Method] = METHODS["mcmc"]
    exactness = "asymptotic"
    steps: int
    proposal: str
    max_walks: int

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        batch.tree.add_column("state", np.int64, 0)
        batch.tree.add_column("entropy", np.float64, 0)
        masses = MassAccumulator(batch, unbiased=True)
        is_free = batch.session_of[batch.draw_request] == UNCONSTRAINED
        order, parts = [], []
        # Without a constraint the first text has the law Q already.
        for rows, steps in ((np.flatnonzero(~is_free), self.steps), (np.flatnonzero(is_free), 0)):
            for chunk in chunks(len(rows), self.max_walks):
                chains = Chains(batch, rows[chunk], self.proposal)
                masses.weigh(rows[chunk], chains.texts)
                for number in range(1, steps + 1):
                    chains.step(number)
                order.append(rows[chunk])
                parts.append(chains)
        place = np.argsort(np.concatenate(order))
        chosen = concatenate([part.texts for part in parts]).take(place)
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.where(is_free, log_x, np.nan),
            log_candidate_weight=log_x,
            per_draw={"moves": np.concatenate([part.moves for part in parts])[place].tolist()},
            per_request=masses.fields(),
        )

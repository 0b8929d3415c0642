"""Frontiers: the walks of one step in lockstep, and the distinct prefixes (nodes) they stand at.

A ``Step`` is a frontier evaluated, with the runs that begin at its nodes. A *run* is a chain of
prefixes each with one possible token: the tail of a set's member, a forced prefix or suffix, the
fixed parts of a grammar. All its tokens go through the model in one pass. Nothing is chosen here:
``events`` chooses, ``decoding`` and ``beam_search`` loop.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.prefix_tree import Visit
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.groups import distinct
from cdec.samplers.walks.masks import AllowedIds, full_lists

ANY_DEPTH = 1 << 62
"""Bound of the tokens of walks of which none is known."""
END = -1
"""Chosen event: the end of the text, by any end id."""
NONE = -2
"""No event has positive mass: a dead end."""
_Scalar = TypeVar("_Scalar", bound=np.generic)


def with_room(column: NDArray[_Scalar], nodes: NDArray[np.int64], fill: float) -> NDArray[_Scalar]:
    """Return ``column`` ([C, ...]) with a row for each of ``nodes``, new rows holding ``fill``."""
    highest = int(nodes.max(initial=0))
    if highest < len(column):
        return column
    grown = np.full((2 * highest + 2, *column.shape[1:]), fill, column.dtype)
    grown[: len(column)] = column
    return grown


@dataclass(frozen=True, slots=True)
class Frontier:
    """Walks that take their next step together, W of them.

    Attributes:
        batch: What they belong to.
        depth: int64[W] tokens drawn so far.
        request: int64[W]. draw: int64[W] position in the request.
        context: int64[W] node of the model's tree. parent: int64[W] the node before, -1 at first.
        token: int64[W] the last token, -1 at first.
        log_edge: float64[W] log P of the last token. log_prefix: float64[W] of all tokens.
        state: int64[W] constraint states, on the model's device; 0 where unconstrained.
        in_run: bool[W] whether a forced run covered this prefix; ahead: int64[W] how many of the
            following ones it covers.
        deepest: No walk has more tokens; a bound that may be far too high.
    """

    batch: Batch
    depth: NDArray[np.int64]
    request: NDArray[np.int64]
    draw: NDArray[np.int64]
    context: NDArray[np.int64]
    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    log_prefix: NDArray[np.float64]
    state: Any
    in_run: NDArray[np.bool_]
    ahead: NDArray[np.int64]
    deepest: int = ANY_DEPTH

    @classmethod
    def at_start(
        cls, batch: Batch, request: NDArray[np.int64], draw: NDArray[np.int64]
    ) -> Frontier:
        """Return one walk a row, at the prompts."""
        n = len(request)
        return cls(
            batch=batch,
            depth=np.zeros(n, np.int64),
            request=request,
            draw=draw,
            context=batch.roots[request],
            parent=np.full(n, -1, np.int64),
            token=np.full(n, -1, np.int64),
            log_edge=np.zeros(n),
            log_prefix=np.zeros(n),
            state=batch.start_states(request),
            in_run=np.zeros(n, np.bool_),
            ahead=np.zeros(n, np.int64),
            deepest=0,
        )

    @classmethod
    def at_visited(cls, batch: Batch, nodes: NDArray[np.int64]) -> Frontier:
        """Return one walk a visited prefix (int64[n]) of a tree that keeps states.

        Its draw and its ``log_prefix`` are not known here: both are 0.
        """
        tree, n = batch.tree, len(nodes)
        return cls(
            batch=batch,
            depth=tree["depth"][nodes].astype(np.int64),
            request=tree["request"][nodes].astype(np.int64),
            draw=np.zeros(n, np.int64),
            context=nodes,
            parent=tree["parent"][nodes].astype(np.int64),
            token=tree["token"][nodes].astype(np.int64),
            log_edge=tree["edge"][nodes],
            log_prefix=np.zeros(n),
            state=batch.index(tree["state"][nodes]),
            in_run=np.zeros(n, np.bool_),
            ahead=np.zeros(n, np.int64),
        )

    def take(self, rows: NDArray[np.int64]) -> Frontier:
        """Return some of the walks, in the given order, repetitions welcome."""
        return replace(
            self,
            depth=self.depth[rows],
            request=self.request[rows],
            draw=self.draw[rows],
            context=self.context[rows],
            parent=self.parent[rows],
            token=self.token[rows],
            log_edge=self.log_edge[rows],
            log_prefix=self.log_prefix[rows],
            state=self.state[self.batch.index(rows)],
            in_run=self.in_run[rows],
            ahead=self.ahead[rows],
        )

    def nodes(self) -> Frontier:
        """Return one walk for every distinct (request, context), of the lowest draw there."""
        group = distinct(self.context, self.request, self.draw)
        return self if group is None else self.take(group.first)

    def joined(self, *others: Frontier) -> Frontier:
        """Return these walks and those of ``others``, of the same batch, one after the other."""
        batch, parts = self.batch, (self, *others)
        columns = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in fields(self)
            if column.name not in ("batch", "state", "deepest")
        }
        states = np.concatenate([batch.to_host(part.state) for part in parts])
        deepest = max(part.deepest for part in parts)
        return Frontier(batch=batch, state=batch.index(states), deepest=deepest, **columns)

    def advance(
        self, rows: NDArray[np.int64] | None, tokens: NDArray[np.int64], log_p: NDArray[np.float64]
    ) -> Frontier:
        """Return the walks ``rows`` (None: all) after a token each, int64[n]; log_p float64[n]."""
        batch = self.batch
        here = self if rows is None else self.take(rows)
        context = batch.model.advance(here.context, tokens)
        # Walks that went the same way share a state, so the constraint takes each way once.
        group = distinct(context, here.request)
        if group is None:
            states = batch.advance_states(here.request, here.state, batch.index(tokens))
        else:
            first = group.first
            states = batch.advance_states(
                here.request[first], here.state[batch.index(first)], batch.index(tokens[first])
            )[batch.index(group.of)]
        return Frontier(
            batch=batch,
            depth=here.depth + 1,
            request=here.request,
            draw=here.draw,
            context=context,
            parent=here.context,
            token=tokens,
            log_edge=log_p,
            log_prefix=here.log_prefix + log_p,
            state=states,
            in_run=here.ahead > 0,
            ahead=np.maximum(here.ahead - 1, 0),
            deepest=self.deepest + 1,
        )

    def host_states(self) -> NDArray[np.int64]:
        """Return the constraint states as numpy, int64[W]."""
        return self.batch.to_host(self.state)

    def allowed(self) -> AllowedIds:
        """Return the allowed ids of the walks, which are nodes; only end ids at the limit."""
        return full_lists(self.batch, self.request, self.state, self.at_limit())

    def is_done(self) -> NDArray[np.bool_]:
        """Say which walks their constraint has ended, bool[W]."""
        return self.batch.is_done(self.request, self.state)

    def is_cut(self) -> NDArray[np.bool_]:
        """Say which walks are too long to go on, bool[W], and record them as prefixes of mass 0.

        At the length limit a constrained text may still take its end event, if it is a member; an
        unconstrained one takes its next event as it comes (see ``events``).
        """
        cut = self.is_overlong()
        gone = np.flatnonzero(cut)
        if gone.size:
            self.take(gone).give_up(np.zeros(gone.size))
        return cut

    def give_up(self, log_truncated: NDArray[np.float64] | None = None) -> None:
        """Record the walks as prefixes of mass 0; ``log_truncated`` is that of ``Visit``."""
        nothing = np.full(len(self.context), -np.inf)
        seen = Visit(nothing, log_truncated=log_truncated, evaluated=False, exact=True)
        self.batch.tree.visit(self, seen)

    def is_overlong(self) -> NDArray[np.bool_]:
        """Say which walks have all their tokens and are no members, bool[W]."""
        overlong = self.at_limit()
        rows = np.flatnonzero(overlong)
        if rows.size:
            states = self.state[self.batch.index(rows)]
            overlong[rows] = ~self.batch.is_complete(self.request[rows], states)
        return overlong

    def at_limit(self) -> NDArray[np.bool_]:
        """Say which walks are constrained and have all their tokens, bool[W]."""
        batch = self.batch
        if self.deepest < batch.least_limit:
            return np.zeros(len(self.depth), np.bool_)
        at_limit: NDArray[np.bool_] = self.depth >= batch.limits[self.request]
        return at_limit & ~batch.is_unconstrained(self.request)


_RUN_BYTES = 64 << 20
"""Bytes of distributions that runs may fill in one step; what is left over is evaluated later."""
_HOST_NODES = 32
"""Most nodes of a step whose runs are evaluated ahead on the CPU, if most of these end their texts.
A small batch waits for memory, so a run is nearly free; a large one computes."""
_CLOSING_SHARE = 4
"""One in so many nodes must begin such a run: the other rows of the pass are padded for it."""
_FEW_NODES = 4
"""The same where texts go on behind the runs. Other rows are padded for them, and leave the buffers
of rows that only append: a sixth to a quarter of a step of JSON of 8 walks or more (measured)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A frontier evaluated: its N nodes and the model's distributions there.

    Attributes:
        nodes: One walk for every distinct (request, context), of the lowest draw there.
        walk_node: int64[W] node of each walk.
        walk_starts: int64[N + 1], walk_order: int64[W]: the walks by node.
        scores: float[M, V], log_normalizer: float64[M], rows: int64[N]: log P(t | node i) is
            ``scores[rows[i], t] - log_normalizer[rows[i]]``.
        allowed: What full masks allow at the nodes; None where it has not been asked for.
    """

    nodes: Frontier
    walk_node: NDArray[np.int64]
    walk_starts: NDArray[np.int64]
    walk_order: NDArray[np.int64]
    scores: Any
    log_normalizer: Any
    rows: NDArray[np.int64]
    allowed: AllowedIds | None = None

    @classmethod
    def of(cls, frontier: Frontier, *, look_ahead: bool = False, masked: bool = False) -> Step:
        """Find the nodes of ``frontier`` and evaluate them in one batch of distinct prefixes.

        Args:
            frontier: Live walks; ``ahead`` is written.
            look_ahead: Evaluate the forced runs that begin at the nodes in the same forward pass;
                for walks that will surely follow them.
            masked: List what is allowed at the nodes before they are evaluated; forced tokens are
                then read off the lists.
        """
        group = distinct(frontier.context, frontier.request, frontier.draw)
        numbers = np.arange(len(frontier.context) + 1)
        order = walk_node = numbers[:-1]
        starts, nodes = numbers, frontier
        if group is not None:
            order, walk_node = group.order, group.of
            starts, nodes = np.append(group.starts, len(order)), frontier.take(group.first)
        allowed = nodes.allowed() if masked and frontier.batch.on_host else None
        if look_ahead:
            lengths = cover_runs(nodes, allowed)
            if lengths is not None:
                np.copyto(frontier.ahead, lengths[walk_node], where=~frontier.in_run)
        distributions = frontier.batch.model.evaluate(nodes.context)
        return cls(
            nodes=nodes,
            walk_node=walk_node,
            walk_starts=starts,
            walk_order=order,
            scores=distributions.scores,
            log_normalizer=distributions.log_normalizer,
            rows=distributions.rows,
            allowed=allowed,
        )

    @property
    def depth(self) -> NDArray[np.int64]:
        """Tokens drawn so far by each walk, int64[W]."""
        return self.nodes.depth[self.walk_node]

    def of_nodes(self, nodes: NDArray[np.int64]) -> Step:
        """Return this step for some of its nodes (int64[n], ascending) and the walks there."""
        return self.of_walks(np.flatnonzero(np.isin(self.walk_node, nodes)))[0]

    def without_limit(self) -> Step:
        """Return this step as if no text had a length limit."""
        unlimited = replace(self.nodes, depth=np.full(len(self.rows), -1), deepest=-1)
        return replace(self, nodes=unlimited, allowed=None)

    def of_walks(self, walks: NDArray[np.int64]) -> tuple[Step, NDArray[np.int64]]:
        """Return this step for some of its walks (int64[n]) alone, and their nodes here."""
        used, node = np.unique(self.walk_node[walks], return_inverse=True)
        node = node.reshape(-1)
        order = np.argsort(node, kind="stable")
        part = Step(
            nodes=self.nodes.take(used),
            walk_node=node,
            walk_starts=np.searchsorted(node[order], np.arange(len(used) + 1)),
            walk_order=order,
            scores=self.scores,
            log_normalizer=self.log_normalizer,
            rows=self.rows[used],
        )
        return part, used


def cover_runs(nodes: Frontier, allowed: AllowedIds | None) -> NDArray[np.int64] | None:
    """Find the forced runs that begin at ``nodes``; evaluate them with the nodes if it pays.

    Args:
        nodes: Distinct prefixes; those a run already covers are left out.
        allowed: What full masks allow there; None where the constraints are still to be asked.

    Returns:
        int64[N] prefixes of each node's run, 0 where there is none; None where no node has one.
    """
    batch = nodes.batch
    if not batch.masks or not batch.sessions:
        return None
    if allowed is None:
        tokens = batch.forced(nodes.request, nodes.state)
    else:
        tokens = allowed.only(batch.is_end)
    rows = np.flatnonzero((tokens >= 0) & ~nodes.in_run)
    if not rows.size:
        return None
    lengths = np.zeros(len(nodes.request), np.int64)
    alive, walk, tokens = rows, nodes.take(rows), tokens[rows]
    levels: list[Frontier] = []
    closing = 0
    while True:
        goes_on = (tokens >= 0) & (walk.depth < batch.limits[walk.request])
        if levels and not goes_on.all():
            halted = np.flatnonzero(~goes_on)
            states = walk.state[batch.index(halted)]
            closing += int(batch.is_complete(walk.request[halted], states).sum())
        rows = np.flatnonzero(goes_on)
        if not rows.size:
            break
        alive = alive[rows]
        walk = walk.advance(rows, tokens[rows], np.zeros(len(rows)))
        done = walk.is_done()
        closing += int(done.sum())
        going = np.flatnonzero(~done & ~walk.is_overlong())
        alive, walk = alive[going], walk.take(going)
        lengths[alive] += 1
        levels.append(walk)
        tokens = batch.forced(walk.request, walk.state)
    runs = np.sum(lengths > 0)
    ends_texts = 2 * closing >= runs and _CLOSING_SHARE * runs >= len(lengths)
    pays = len(lengths) <= (_HOST_NODES if ends_texts else _FEW_NODES)
    if levels and (not batch.on_host or pays):
        _evaluate_ahead(nodes, levels)
    return lengths


def _evaluate_ahead(nodes: Frontier, levels: list[Frontier]) -> None:
    """Evaluate nodes and the prefixes of their runs, level by level, in one forward pass."""
    batch = nodes.batch
    room = _RUN_BYTES // (4 * batch.model.vocabulary.width)
    contexts = [nodes.context]
    for walk in levels:
        # Breadth first: a cut leaves every run without a gap.
        contexts.append(walk.context[:room])
        room -= len(contexts[-1])
    batch.model.evaluate(np.concatenate(contexts))

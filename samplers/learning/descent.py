"""Descent: walks that go down the visited part of a prefix tree, each event by P * c.

The tree is frozen meanwhile. A walk ends where a text ended before, or leaves at a token that
nobody took: from there it goes on as masked decoding (``decoding.walk_on``), since c is 1 where
nobody was. Compiled walks pause where a node's vector is missing; all such nodes are evaluated
together (ASAp, arXiv 2405.21047, equation 5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.native import library
from cdec.samplers.learning import descent_kernels as kernels
from cdec.samplers.learning.descent_kernels import DRY, ENDED, LEFT, MISSING
from cdec.samplers.learning.descent_kernels import STUCK as NO_MASS
from cdec.samplers.learning.tree.kernels import EVALUATED, EXACT, NIL, TERMINAL, VISITED
from cdec.samplers.learning.tree.prefix_tree import NOBODY
from cdec.samplers.learning.vectors import Vectors
from cdec.samplers.walks.allowed import allowed_ids, host_scores
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import COMPLETE, LENGTH, STUCK, Recorder
from cdec.samplers.walks.categorical_kernels import Ends
from cdec.samplers.walks.decoding import finish_done
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.randomness import CandidateUniforms
from cdec.samplers.walks.step import Step

_SCORES_BYTES = 128 << 20
"""Bytes of scores that one evaluation of missing vectors may ask for."""


@dataclass(slots=True)
class Walks:
    """W walks on their way down, as columns.

    Attributes:
        request: int64[W]. draw: int64[W] number of the candidate.
        node: int64[W] context. depth: int64[W] tokens drawn. log_p: float64[W].
        token: int64[W], log_edge: float64[W]: the unvisited token that a walk leaves by.
        status: uint8[W] as in ``descent_kernels``.
    """

    request: NDArray[np.int64]
    draw: NDArray[np.int64]
    node: NDArray[np.int64]
    depth: NDArray[np.int64]
    log_p: NDArray[np.float64]
    token: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    status: NDArray[np.uint8]

    @property
    def descending(self) -> kernels.Descending:
        """The columns that a descent reads and writes."""
        return kernels.Descending(*(getattr(self, name) for name in kernels.Descending._fields))

    @classmethod
    def at_roots(cls, batch: Batch, request: NDArray[np.int64], draw: NDArray[np.int64]) -> Walks:
        """Return one walk a row, at the prompts."""
        n = len(request)
        return cls(
            request=request,
            draw=draw,
            node=batch.roots[request],
            depth=np.zeros(n, np.int64),
            log_p=np.zeros(n),
            token=np.full(n, NIL, np.int64),
            log_edge=np.zeros(n),
            status=np.full(n, MISSING, np.uint8),
        )


class Descent:
    """Goes down the tree of a batch; keeps the nodes' vectors from one round to the next.

    Args:
        batch: The open requests.
        budget: Bytes of vectors.
    """

    def __init__(self, batch: Batch, budget: int) -> None:
        self._batch = batch
        self._tree = batch.tree
        self._tree.add_column("state", np.int64, 0)
        self.vectors = Vectors(batch.tree, budget)
        self._faint: list[NDArray[np.int64]] = []

    def start(
        self,
        record: Recorder,
        request: NDArray[np.int64],
        draw: NDArray[np.int64],
        uniforms: CandidateUniforms,
    ) -> tuple[NDArray[np.int64], Frontier]:
        """Take W walks down; return those that go on beyond the tree, and where they stand.

        Args:
            record: Of W walks, written.
            request: int64[W], constrained ones. draw: int64[W] number of the candidate.
            uniforms: Of the W walks.

        Returns:
            int64[n] rows of ``record``, and their n places: contexts nobody visited.
        """
        batch, tree = self._batch, self._tree
        walks = Walks.at_roots(batch, request, draw)
        tree.reserve(int(batch.roots.max(initial=-1)) + 1)
        known = tree["flags"][walks.node] & VISITED > 0
        outside, inside = np.flatnonzero(~known), np.flatnonzero(known)
        # subtle: a root without mass may never have been evaluated; nothing leads on from it.
        hopeless = tree["bound"][walks.node[inside]] == -np.inf
        walks.status[inside[hopeless]] = NO_MASS
        self._descend(walks, inside[~hopeless], uniforms)
        record.log_p[:] = walks.log_p
        self._write_paths(record, walks, inside)
        ended = inside[walks.status[inside] == ENDED]
        record.finish(ended, COMPLETE, walks.node[ended], True)
        stuck = walks.status == NO_MASS
        is_cut = tree.log_beyond[request] > -np.inf
        record.finish(np.flatnonzero(stuck & is_cut), LENGTH, walks.node[stuck & is_cut])
        record.finish(np.flatnonzero(stuck & ~is_cut), STUCK, walks.node[stuck & ~is_cut])
        leaving = inside[walks.status[inside] == LEFT]
        self._leave(walks, leaving)
        alive, frontier = self._beyond(record, walks, leaving)
        if not outside.size:
            return alive, frontier
        first = Frontier.at_start(batch, request[outside], draw[outside])
        return np.concatenate([outside, alive]), first.joined(frontier)

    def _descend(self, walks: Walks, rows: NDArray[np.int64], uniforms: CandidateUniforms) -> None:
        """Walk ``rows`` until each has ended or left."""
        tree, vectors = self._tree, self.vectors
        ends = Ends(self._batch.end_ids, self._batch.is_end)
        while rows.size:
            uniforms.at(walks.depth[rows], rows)
            numbers = uniforms.values, uniforms.blocks, uniforms.width
            library.descend(
                *(rows, walks.descending, numbers, tree.nodes, tree["slot"]),
                *(vectors.slots, vectors.pool, ends),
            )
            status = walks.status[rows]
            rows = rows[(status == MISSING) | (status == DRY)]
            missing = rows[walks.status[rows] == MISSING]
            if missing.size:
                nodes, first = np.unique(walks.node[missing], return_index=True)
                self._charge(nodes, walks.draw[missing[first]])
                self._build(nodes)

    def settle(self) -> None:
        """Weigh anew what is left at nodes of which this round took nearly all the mass.

        What was taken must be in the tree by now: it is told from what is left by that.
        """
        nodes = np.unique(np.concatenate([np.zeros(0, np.int64), *self._faint]))
        self._faint = []
        tree, vectors = self._tree, self.vectors
        tree["slot"][nodes] = NIL
        while nodes.size:
            self._build(nodes)
            has_vector = tree["slot"][nodes] != NIL
            ready, nodes = nodes[has_vector], nodes[~has_vector]
            is_faint = np.empty(len(ready), np.bool_)
            library.vectors_sum(
                ready, tree["slot"], vectors.slots, vectors.pool, tree["mass"], is_faint
            )

    def _charge(self, nodes: NDArray[np.int64], draws: NDArray[np.int64]) -> None:
        """Let ``draws`` (int64[n]) pay for the nodes among ``nodes`` that nobody has paid for."""
        tree = self._tree
        unpaid = np.flatnonzero(tree["draw"][nodes] == NOBODY)
        tree["draw"][nodes[unpaid]] = draws[unpaid]
        tree["flags"][nodes[unpaid]] |= np.uint8(EVALUATED)

    def _build(self, nodes: NDArray[np.int64]) -> None:
        """Evaluate nodes (int64[n] distinct) and store vectors of as many of them as fit."""
        room = _SCORES_BYTES // (4 * self._batch.model.vocabulary.width)
        nodes = nodes[: max(1, room)]
        step = Step.of(self._nodes(nodes))
        scores, log_normalizer = host_scores(step)
        allowed = allowed_ids(step, scores, log_normalizer)
        # Lists come in an order of their own.
        place = np.empty(len(nodes), np.int64)
        place[allowed.which] = np.arange(len(nodes))
        lists = allowed.lists[place]
        lengths = np.diff(allowed.offsets)[lists]
        fitting = slice(self.vectors.fitting(lengths))
        known = scores, log_normalizer, step.rows[fitting]
        mine = lists[fitting], allowed.offsets, allowed.ids
        asked = kernels.Asked(step.nodes.context[fitting], *known, *mine)
        normal = self.vectors.build(asked, lengths[fitting])
        if not normal:
            raise ModelError(
                "the model's scores hold NaN",
                hint="Load the model with another dtype, such as float32 or bfloat16.",
            )

    def _leave(self, walks: Walks, rows: NDArray[np.int64]) -> None:
        """Take the tokens that walks leave by out of the unvisited masses of their nodes."""
        keys = np.unique(np.stack([walks.node[rows], walks.token[rows]]), axis=1)
        nodes, tokens = keys[0], keys[1]
        tree = self._tree
        left = np.arange(len(nodes))
        while left.size:
            has_vector = tree["slot"][nodes[left]] != NIL
            ready = left[has_vector]
            held = tree["slot"], self.vectors.slots, self.vectors.pool
            library.vectors_leave(nodes[ready], tokens[ready], *held)
            is_faint = np.empty(len(ready), np.bool_)
            library.vectors_sum(nodes[ready], *held, tree["mass"], is_faint)
            self._faint.append(nodes[ready[is_faint]])
            # subtle: exact from now on, whatever the mass held before.
            tree["flags"][nodes[ready]] |= np.uint8(EXACT)
            tree.touch(nodes[ready])
            left = left[~has_vector]
            if left.size:
                self._build(np.unique(nodes[left]))

    def _write_paths(self, record: Recorder, walks: Walks, rows: NDArray[np.int64]) -> None:
        """Write the tokens that walks took inside the tree, and count what they passed."""
        tree = self._tree
        at_text = tree["flags"][walks.node[rows]] & TERMINAL > 0
        record.evaluations[rows] += walks.depth[rows] + 1 - at_text
        at, depth = walks.node[rows].copy(), walks.depth[rows].copy()
        levels = []
        while rows.size:
            going = np.flatnonzero(depth > 0)
            rows, at, depth = rows[going], at[going], depth[going] - 1
            levels.append((rows, tree["token"][at].astype(np.int64), depth))
            at = tree["parent"][at].astype(np.int64)
        for level in reversed(levels):
            record.append(*level)

    def _nodes(self, nodes: NDArray[np.int64]) -> Frontier:
        """Return a frontier at visited nodes, one walk each."""
        tree, n = self._tree, len(nodes)
        return Frontier(
            batch=self._batch,
            depth=tree["depth"][nodes].astype(np.int64),
            request=tree["request"][nodes].astype(np.int64),
            draw=np.zeros(n, np.int64),
            context=nodes,
            parent=tree["parent"][nodes].astype(np.int64),
            token=tree["token"][nodes].astype(np.int64),
            log_edge=tree["edge"][nodes],
            log_prefix=np.zeros(n),
            state=self._batch.index(tree["state"][nodes]),
            in_run=np.zeros(n, np.bool_),
            ahead=np.zeros(n, np.int64),
        )

    def _beyond(
        self, record: Recorder, walks: Walks, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Frontier]:
        """Take ``rows`` one token out of the tree; those whose text ends by it are finished."""
        tokens, log_edge = walks.token[rows], walks.log_edge[rows]
        record.append(rows, tokens, walks.depth[rows])
        record.log_p[rows] += log_edge
        places = replace(
            self._nodes(walks.node[rows]), draw=walks.draw[rows], log_prefix=walks.log_p[rows]
        )
        return finish_done(record, rows, places.advance(np.arange(len(rows)), tokens, log_edge))

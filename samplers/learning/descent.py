"""Descents: walks that go down the visited part of a prefix tree, each event by P * c.

The tree is frozen meanwhile. A walk ends where a text ended before, or leaves at a token that
nobody took: from there it goes on as masked decoding (``decoding.walk_on``), since c is 1 where
nobody was. Compiled walks pause where a node's vector is missing; all such nodes are evaluated
together (ASAp, arXiv 2405.21047, equation 5).

A vector holds the mass of each allowed id of a node times exp(-shift), zero where the id leads to a
visited child, and the sums of its blocks. The shift is such that their sum is above 1e-250, if
anything is left: once the likeliest ids are children, what is left may be e^-2000 of them and all
the valid mass there is. Vectors are kept in a byte-bounded cache: two halves of an arena take
turns: when one is full the other is emptied and filled next, so what was built last stays. Whatever
is dropped can be built again; the tree's bounds do not need it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.native import library
from cdec.samplers.prefix_tree import EVALUATED, EXACT, NIL, NOBODY, TERMINAL, VISITED, PrefixTree
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import COMPLETE, LENGTH, STUCK, TrajectoryBuffer
from cdec.samplers.walks.decoding import finish_done
from cdec.samplers.walks.events import allowed_ids, host_scores
from cdec.samplers.walks.frontier import Frontier, Step
from cdec.samplers.walks.randomness import CandidateUniforms

BLOCK = 256
"""Entries whose sum is kept, so that a draw looks into one block only."""
MISSING, ENDED, LEFT, DRY, NO_MASS = 0, 1, 2, 3, 4
"""Pauses and ends of a descent: no vector here; the end event or a terminal child; an unvisited
token; no uniforms left in the block; no mass."""


class Slots(NamedTuple):
    """Place of each slot's vector in the pool, int64, and its shift, float64."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    first_block: NDArray[np.int64]
    shift: NDArray[np.float64]


class Pool(NamedTuple):
    """The vectors one after the other: allowed ids (int32), masses and sums of blocks (float64)."""

    ids: NDArray[np.int32]
    masses: NDArray[np.float64]
    blocks: NDArray[np.float64]


class VectorRequest(NamedTuple):
    """Nodes whose vectors are to be stored, n of them, and what the model and the mask say there.

    nodes, rows, lists: int64[n] contexts, their rows in the scores, and their lists. scores:
    float[M, V]. log_normalizer: float64[M]. offsets: int64[L + 1] and allowed: int32[...]: the
    lists, each sorted.
    """

    nodes: NDArray[np.int64]
    scores: Any
    log_normalizer: NDArray[np.float64]
    rows: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    allowed: NDArray[np.int32]


class Descending(NamedTuple):
    """Columns of W walks: node, tokens drawn and log P so far; how they leave the tree, and status.

    node, depth, token: int64[W]. log_p, log_edge: float64[W]. status: uint8[W], MISSING, ENDED,
    LEFT, DRY or STUCK.
    """

    node: NDArray[np.int64]
    depth: NDArray[np.int64]
    log_p: NDArray[np.float64]
    token: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    status: NDArray[np.uint8]


_IDS_PER_BLOCK = 16
"""Allowed ids for which one block sum is set aside: short vectors have a block as well."""
_BLOCKS_PER_VECTOR = 2
_ID_BYTES = 12 + (8 + 32 / _BLOCKS_PER_VECTOR) / _IDS_PER_BLOCK
"""Bytes of one allowed id: its number, its mass, its share of block sums and slots."""


class Vectors:
    """The cache, and the column ``slot`` of the tree that finds a node's vector in it.

    Args:
        tree: Whose nodes.
        budget: Bytes of both halves together; a single vector may always be held.

    Attributes:
        slots: ``start``, ``length``, ``first_block`` (int64) and ``shift`` (float64) by slot.
        pool: ``ids`` int32, ``values`` and ``blocks`` float64: the arena.
    """

    def __init__(self, tree: PrefixTree, budget: int) -> None:
        self._tree = tree
        self._owners: list[list[NDArray[np.int64]]] = [[], []]
        self._half = 0
        tree.add_column("slot", np.int32, NIL)
        self._allot(max(1024, int(budget / _ID_BYTES / 2)))

    @property
    def nbytes(self) -> int:
        """Bytes of the arena and of the slots; the system gives them as they are written to."""
        arrays: tuple[NDArray[Any], ...] = (*self.slots, *self.pool)
        return sum(array.nbytes for array in arrays)

    def fitting(self, lengths: NDArray[np.int64]) -> int:
        """Return how many vectors of these lengths, the first ones, half the arena can take."""
        by_ids = np.searchsorted(np.cumsum(lengths), self._sizes[0], side="right")
        by_blocks = np.searchsorted(np.cumsum(_blocks(lengths)), self._sizes[1], side="right")
        return max(1, int(min(by_ids, by_blocks)))

    def build(self, asked: VectorRequest, lengths: NDArray[np.int64]) -> bool:
        """Store vectors of nodes that have none; older ones are dropped where needed.

        Args:
            asked: Distinct nodes, no more than ``fitting`` says, and what is known there.
            lengths: int64[n] allowed ids of each.

        Returns:
            False if the scores hold NaN.
        """
        numbers = self._reserve(asked.nodes, lengths)
        tree = self._tree
        tree["slot"][asked.nodes] = numbers
        stored = library.vectors_build(
            asked, numbers, tree.nodes, tree["token"], self.slots, self.pool
        )
        return bool(stored)

    def _reserve(self, nodes: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give each node a slot and a place in the arena."""
        blocks = _blocks(lengths)
        wanted = np.array([lengths.sum(), blocks.sum(), len(nodes)])
        if np.any(wanted > self._sizes):
            # One vector longer than half the arena: a larger arena.
            self._drop()
            self._drop()
            self._allot(2 * int(wanted[0]))
        elif np.any(self._used + wanted > self._sizes):
            self._drop()
        ids, first, slot = (self._half * self._sizes + self._used).tolist()
        self._used += wanted
        numbers: NDArray[np.int64] = slot + np.arange(len(nodes))
        start, length, first_block, _ = self.slots
        start[numbers] = ids + np.cumsum(lengths) - lengths
        first_block[numbers] = first + np.cumsum(blocks) - blocks
        length[numbers] = lengths
        self._owners[self._half].append(nodes)
        return numbers

    def _drop(self) -> None:
        """Turn to the other half, emptied."""
        self._half = 1 - self._half
        for nodes in self._owners[self._half]:
            self._tree["slot"][nodes] = NIL
        self._owners[self._half] = []
        self._used = np.zeros(3, np.int64)

    def _allot(self, ids: int) -> None:
        """Allot an arena of two halves of ``ids`` allowed ids each."""
        blocks = ids // _IDS_PER_BLOCK + _BLOCKS_PER_VECTOR
        # Of each half: allowed ids, block sums, slots.
        self._sizes = np.array([ids, blocks, blocks // _BLOCKS_PER_VECTOR])
        self._used = np.zeros(3, np.int64)
        self._half = 0
        slots = 2 * int(self._sizes[2])
        self.slots = Slots(
            start=np.empty(slots, np.int64),
            length=np.empty(slots, np.int64),
            first_block=np.empty(slots, np.int64),
            shift=np.empty(slots),
        )
        self.pool = Pool(np.empty(2 * ids, np.int32), np.empty(2 * ids), np.empty(2 * blocks))


def _blocks(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block sums of vectors of these lengths, and room for the kernel's last one."""
    return lengths // BLOCK + _BLOCKS_PER_VECTOR


_SCORES_BYTES = 128 << 20
"""Bytes of scores that one evaluation of missing vectors may ask for."""


@dataclass(slots=True)
class Walks:
    """W walks on their way down, as columns.

    Attributes:
        request: int64[W]. draw: int64[W] number of the candidate.
        node: int64[W] context. depth: int64[W] tokens drawn. log_p: float64[W].
        token: int64[W], log_edge: float64[W]: the unvisited token that a walk leaves by.
        status: uint8[W] as in ``Descending``.
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
    def descending(self) -> Descending:
        """The columns that a descent reads and writes."""
        return Descending(*(getattr(self, name) for name in Descending._fields))

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
        buffer: TrajectoryBuffer,
        request: NDArray[np.int64],
        draw: NDArray[np.int64],
        uniforms: CandidateUniforms,
    ) -> tuple[NDArray[np.int64], Frontier]:
        """Take W walks down; return those that go on beyond the tree, and where they stand.

        Args:
            buffer: Of W walks, written.
            request: int64[W], constrained ones. draw: int64[W] number of the candidate.
            uniforms: Of the W walks.

        Returns:
            int64[n] rows of ``buffer``, and their n places: contexts nobody visited.
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
        buffer.log_p[:] = walks.log_p
        self._write_paths(buffer, walks, inside)
        ended = inside[walks.status[inside] == ENDED]
        buffer.finish(ended, COMPLETE, walks.node[ended], True)
        stuck = walks.status == NO_MASS
        is_cut = tree.log_truncated[request] > -np.inf
        buffer.finish(np.flatnonzero(stuck & is_cut), LENGTH, walks.node[stuck & is_cut])
        buffer.finish(np.flatnonzero(stuck & ~is_cut), STUCK, walks.node[stuck & ~is_cut])
        leaving = inside[walks.status[inside] == LEFT]
        self._leave(walks, leaving)
        alive, frontier = self._beyond(buffer, walks, leaving)
        if not outside.size:
            return alive, frontier
        first = Frontier.at_start(batch, request[outside], draw[outside])
        return np.concatenate([outside, alive]), first.joined(frontier)

    def _descend(self, walks: Walks, rows: NDArray[np.int64], uniforms: CandidateUniforms) -> None:
        """Walk ``rows`` until each has ended or left."""
        tree, vectors = self._tree, self.vectors
        ends = self._batch.end_ids, self._batch.is_end
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
        self.weigh(nodes)

    def weigh(self, nodes: NDArray[np.int64]) -> None:
        """Find the exact mass of what nobody took at evaluated nodes, int64[n] distinct."""
        tree, vectors = self._tree, self.vectors
        tree["flags"][nodes] |= np.uint8(EXACT)
        tree.touch(nodes)
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
        step = Step.of(Frontier.at_visited(self._batch, nodes))
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
        asked = VectorRequest(step.nodes.context[fitting], *known, *mine)
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

    def _write_paths(self, buffer: TrajectoryBuffer, walks: Walks, rows: NDArray[np.int64]) -> None:
        """Write the tokens that walks took inside the tree, and count what they passed."""
        tree = self._tree
        at_text = tree["flags"][walks.node[rows]] & TERMINAL > 0
        passed = walks.depth[rows] + 1 - at_text
        self._batch.count_calls(walks.request[rows], walks.draw[rows], passed)
        at, depth = walks.node[rows].copy(), walks.depth[rows].copy()
        levels = []
        while rows.size:
            going = np.flatnonzero(depth > 0)
            rows, at, depth = rows[going], at[going], depth[going] - 1
            levels.append((rows, tree["token"][at].astype(np.int64), depth))
            at = tree["parent"][at].astype(np.int64)
        for level in reversed(levels):
            buffer.append(*level)

    def _beyond(
        self, buffer: TrajectoryBuffer, walks: Walks, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Frontier]:
        """Take ``rows`` one token out of the tree; those whose text ends by it are finished."""
        tokens, log_edge = walks.token[rows], walks.log_edge[rows]
        buffer.append(rows, tokens, walks.depth[rows])
        buffer.log_p[rows] += log_edge
        places = replace(
            Frontier.at_visited(self._batch, walks.node[rows]),
            draw=walks.draw[rows],
            log_prefix=walks.log_p[rows],
        )
        return finish_done(buffer, rows, places.advance(np.arange(len(rows)), tokens, log_edge))

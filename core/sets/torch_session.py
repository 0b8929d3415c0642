"""TorchSetSession: the walk over a set's trie as plain torch operations, arrays on the device.

``advance``, ``fill_mask``, ``check`` and ``is_complete`` have static shapes and never wait for the
device (no item, no nonzero, no indexing by booleans); ``allowed`` and ``forced``, whose results are
ragged, do. States mean what they mean in ``view``. Indices are clamped into their arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cdec.core.errors import ArtifactInvalidError, UsageError
from cdec.core.mask import WORD_BITS, allocate_mask, mask_words, unpack_mask
from cdec.core.native import library
from cdec.core.session import DEAD, DONE, Session, require_tensor_mask
from cdec.core.sets.rows import RowFilter
from cdec.core.sets.session import TAIL, TAIL_SHIFT, SetCompletions, TrieView
from cdec.core.sets.trie import DENSE_DEGREE, END, SetArrays

_KEY_SHIFT = 31
"""An edge's key is ``parent << 31 | token + 1``: edges in level order have rising keys."""


@dataclass(frozen=True, eq=False)
class TorchTrie:
    """A set's arrays on one device; shared by all sessions and restrictions there.

    Attributes:
        keys: int64[N] keys of the edges to nodes 1, 2, ..., and a last one above them all.
        tokens: int32[T + 1] with END after the last, so that no row is without a next place.
        columns: int64[C] 0, 1, ...: C is the largest number of children without a dense mask.
    """

    token: Tensor
    link: Tensor
    degree: Tensor
    row: Tensor
    count: Tensor
    keys: Tensor
    tokens: Tensor
    row_offsets: Tensor
    dense_nodes: Tensor
    dense_masks: Tensor
    columns: Tensor

    @classmethod
    def from_arrays(cls, arrays: SetArrays, device: str) -> TorchTrie:
        """Copy the arrays to a device; O(N) there.

        Raises:
            ArtifactInvalidError: The nodes' degrees do not add up, so no tree has them.
        """
        _require_tree(arrays)

        def put(array: np.ndarray[Any, Any]) -> Tensor:
            # subtle: a copy, since torch tensors cannot be views of read-only memory.
            return torch.tensor(array, device=device.removeprefix("torch:"))

        degree, token = put(arrays.node_degree), put(arrays.node_token)
        nodes = torch.arange(len(degree), device=degree.device)
        parent = torch.repeat_interleave(nodes, degree, output_size=len(degree) - 1)
        keys = torch.full((len(degree),), torch.iinfo(torch.int64).max, device=degree.device)
        keys[:-1] = (parent << _KEY_SHIFT) | (token[1:].long() + 1)
        sparse = arrays.node_degree[arrays.node_degree < DENSE_DEGREE]
        dense = arrays.dense_masks.reshape(len(arrays.dense_nodes), arrays.dense_words)
        return cls(
            token=token,
            link=put(arrays.node_link),
            degree=degree,
            row=put(arrays.node_row),
            count=put(arrays.node_count),
            keys=keys,
            tokens=put(np.append(arrays.tokens, np.int32(END))),
            row_offsets=put(arrays.row_offsets),
            dense_nodes=put(arrays.dense_nodes.astype(np.int64)),
            dense_masks=put(dense),
            columns=torch.arange(int(sparse.max(initial=0)), device=degree.device),
        )


class _Positions(NamedTuple):
    """Where a batch of states stands, all [n]."""

    node: Tensor
    """int64, clamped into the trie."""
    is_node: Tensor
    row: Tensor
    """int64 row of a tail, clamped."""
    depth: Tensor
    tail_token: Tensor
    """int64 next token of a tail, END where there is none."""
    complete: Tensor


class TorchSetSession(Session):
    """A walk over the trie on a torch device; takes and gives tensors there.

    Args:
        trie: The arrays on the device.
        view: End ids, width, ending and filter; the CPU kernels read it too.
        row_filter: The filter of ``view``.
        device: As the caller named it.
    """

    def __init__(
        self, trie: TorchTrie, view: TrieView, row_filter: RowFilter | None, device: str
    ) -> None:
        self.device = device
        self._trie = trie
        self._view = view
        self._width = view.width
        self.words = mask_words(view.width)
        self._ends_itself = view.ends_itself
        self._start = 0 if view.degree[0] > 0 else TAIL
        self._on = trie.token.device
        self._end_ids = torch.tensor(view.end_ids, device=self._on)
        shifted = [1 << bit for bit in range(WORD_BITS - 1)] + [-(1 << (WORD_BITS - 1))]
        self._bits = torch.tensor(shifted, dtype=torch.int32, device=self._on)
        end_mask = np.zeros((1, mask_words(view.width)), np.uint32)
        for end in view.end_ids.tolist():
            end_mask[0, end // WORD_BITS] |= np.uint32(1 << end % WORD_BITS)
        self._end_mask = torch.tensor(end_mask.view(np.int32), device=self._on)
        self._dense_masks = trie.dense_masks
        self._kept_before: Tensor | None = None
        if row_filter is not None:
            before = np.zeros(row_filter.n_rows + 1, np.int32)
            np.cumsum(row_filter.kept, out=before[1:], dtype=np.int32)
            self._kept_before = torch.tensor(before, device=self._on)
            self._dense_masks = self._filtered_masks(view)

    def completions(
        self, scores: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]
    ) -> SetCompletions:
        """Find the members that are best by scores of single tokens, on the host."""
        return SetCompletions(self._view, scores, ends)

    def start(self, n: int) -> Tensor:
        return torch.full((n,), self._start, dtype=torch.int64, device=self._on)

    def advance(self, states: Any, token_ids: Any) -> Tensor:
        at, tokens = self._integers(states, 1), self._integers(token_ids, 1)
        _require_rows(at, tokens)
        trie, places = self._trie, self._places(at)
        child, is_child = self._children(places, tokens[:, None])
        child, is_child = child[:, 0], is_child[:, 0]
        ordinary = self._ordinary(tokens)
        in_tail = ordinary & (tokens == places.tail_token)
        rows = trie.row_offsets.shape[0] - 2
        row = torch.where(in_tail, places.row, trie.row[child].long().clamp(0, rows))
        depth = torch.where(in_tail, places.depth + 1, trie.link[child] - trie.row_offsets[row])
        after = ((row + 1) << TAIL_SHIFT) | depth
        if self._ends_itself:
            at_end = trie.row_offsets[row] + depth >= trie.row_offsets[row + 1]
            after = torch.where(at_end, DONE, after)
        after = torch.where(~in_tail & (trie.degree[child] > 0), child, after)
        after = torch.where(in_tail | (is_child & ordinary), after, DEAD)
        return torch.where(places.complete & self._is_end(tokens), DONE, after)

    def fill_mask(self, states: Any, mask: Tensor) -> None:
        """Overwrite ``mask`` int32[n, ceil(width / 32)] with the exact masks of ``states``.

        Dense nodes gather a precomputed mask; the others, with fewer than 256 children, add one
        bit a child: distinct bits, so addition is union.
        """
        at = self._integers(states, 1)
        shape = require_tensor_mask(mask, at.shape[0], self.words)
        trie, places = self._trie, self._places(at)
        mask.zero_()
        sparse = places.is_node
        if trie.dense_nodes.shape[0]:
            slot = torch.searchsorted(trie.dense_nodes, places.node)
            slot = slot.clamp(max=trie.dense_nodes.shape[0] - 1)
            dense = places.is_node & (trie.dense_nodes[slot] == places.node)
            sparse = sparse & ~dense
            words = min(self._dense_masks.shape[1], shape[1])
            mask[:, :words] = torch.where(dense[:, None], self._dense_masks[slot, :words], 0)
        child = trie.link[places.node][:, None] + trie.columns
        child = child.clamp(0, trie.token.shape[0] - 1)
        inside = sparse[:, None] & (trie.columns < trie.degree[places.node][:, None])
        tokens = torch.where(inside & self._is_kept(child), trie.token[child].long(), END)
        tokens = torch.cat([tokens, places.tail_token[:, None]], dim=1)
        valid = (tokens >= 0) & (tokens < self._width)
        words_at = torch.where(valid, tokens >> 5, 0)
        mask.scatter_add_(1, words_at, torch.where(valid, self._bits[tokens & 31], 0))
        mask.bitwise_or_(torch.where(places.complete[:, None], self._end_mask, 0))

    def check(self, states: Any, token_ids: Any) -> Tensor:
        at, tokens = self._integers(states, 1), self._integers(token_ids, 2)
        _require_rows(at, tokens)
        places = self._places(at)
        _, is_child = self._children(places, tokens)
        follows = self._ordinary(tokens) & (is_child | (tokens == places.tail_token[:, None]))
        return follows | (self._is_end(tokens) & places.complete[:, None])

    def allowed(self, states: Any) -> tuple[Tensor, Tensor]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...]; waits for the device."""
        bits = self._unpacked(self._integers(states, 1))
        offsets = torch.zeros(bits.shape[0] + 1, dtype=torch.int64, device=self._on)
        torch.cumsum(bits.sum(1), 0, out=offsets[1:])
        return offsets, bits.nonzero()[:, 1].int()

    def is_complete(self, states: Any) -> Tensor:
        at = self._integers(states, 1)
        return self._places(at).complete | (at == DONE)

    def forced(self, states: Any) -> tuple[Tensor, Tensor]:
        """Return the only possible next events, as ``SetSession.forced``; waits for the device."""
        bits = self._unpacked(self._integers(states, 1))
        # Several end ids are one event: leave the first.
        bits[:, self._end_ids[1:]] = False
        is_forced = bits.sum(1) == 1
        offsets = torch.zeros(bits.shape[0] + 1, dtype=torch.int64, device=self._on)
        torch.cumsum(is_forced, 0, out=offsets[1:])
        return offsets, bits.int().argmax(1)[is_forced].int()

    def _unpacked(self, at: Tensor) -> Tensor:
        if not at.shape[0]:
            return torch.empty((0, self._width), dtype=torch.bool, device=self._on)
        self.fill_mask(at, mask := allocate_mask(at.shape[0], self._width, self.device))
        bits: Tensor = unpack_mask(mask, self._width)
        return bits

    def _places(self, at: Tensor) -> _Positions:
        trie = self._trie
        nodes, rows = trie.token.shape[0], trie.row_offsets.shape[0] - 1
        row = ((at >> TAIL_SHIFT) - 1).clamp(0, rows - 1)
        depth = at & (TAIL - 1)
        in_tail = at >= TAIL
        position, stop = trie.row_offsets[row] + depth, trie.row_offsets[row + 1]
        next_token = trie.tokens[position.clamp(0, trie.tokens.shape[0] - 1)].long()
        tail_token = torch.where(in_tail & (position < stop), next_token, END)
        node = at.clamp(0, nodes - 1)
        is_node = (at >= 0) & (at < nodes)
        first = trie.link[node].clamp(0, nodes - 1)
        ends = is_node & (trie.degree[node] > 0) & (trie.token[first] == END)
        complete = (ends & self._is_kept(first)) | (in_tail & (position == stop))
        return _Positions(node, is_node, row, depth, tail_token, complete)

    def _children(self, places: _Positions, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Look tokens int64[n, M] up: child ids (clamped) and whether they exist, [n, M]."""
        trie = self._trie
        sought = (places.node[:, None] << _KEY_SHIFT) | (tokens + 1)
        edge = torch.searchsorted(trie.keys, sought).clamp(max=trie.keys.shape[0] - 1)
        child = (edge + 1).clamp(max=trie.token.shape[0] - 1)
        found = places.is_node[:, None] & (trie.keys[edge] == sought) & self._ordinary(tokens)
        return child, found & self._is_kept(child)

    def _is_kept(self, node: Tensor) -> Tensor:
        if self._kept_before is None:
            return torch.ones_like(node, dtype=torch.bool)
        first, last = self._trie.row[node].long(), self._kept_before.shape[0] - 1
        stop = (first + self._trie.count[node]).clamp(0, last)
        return self._kept_before[stop] > self._kept_before[first.clamp(0, last)]

    def _is_end(self, tokens: Tensor) -> Tensor:
        return (tokens[..., None] == self._end_ids).any(-1)

    def _ordinary(self, tokens: Tensor) -> Tensor:
        return (tokens >= 0) & (tokens < self._width) & ~self._is_end(tokens)

    def _filtered_masks(self, view: TrieView) -> Tensor:
        """Compute the filtered masks of all dense nodes once, on the CPU."""
        masks = np.empty((len(view.dense_nodes), mask_words(view.width)), np.uint32)
        library.trie_fill_mask(view, view.dense_nodes.astype(np.int64), masks)
        return torch.tensor(masks.view(np.int32), device=self._on)

    def _integers(self, values: Any, dimensions: int) -> Tensor:
        tensor = torch.as_tensor(values, device=self._on)
        if tensor.dim() != dimensions or tensor.is_floating_point():
            raise UsageError(
                f"expected integers in {dimensions} dimension(s), not "
                f"{tensor.dtype}{list(tensor.shape)}"
            )
        return tensor.long()


def _require_tree(arrays: SetArrays) -> None:
    """Require degrees that add up.

    subtle: without this check, a damaged one would ask the device for gigabytes of edges.
    """
    edges = int(arrays.node_degree.sum(dtype=np.int64))
    if arrays.node_degree.min() < 0 or edges != arrays.n_nodes - 1:
        raise ArtifactInvalidError(
            f"the degrees of {arrays.n_nodes} trie nodes sum to {edges}, expected "
            f"{arrays.n_nodes - 1}",
            hint="Compile the set again.",
            column="node_degree",
        )


def _require_rows(states: Tensor, others: Tensor) -> None:
    n, m = states.shape[0], others.shape[0]
    if n != m:
        raise UsageError(f"{n} states and token ids of {m}: expected as many of both")

"""PooledModel: causal models whose keys and values are kept in a pool of slots by context.

One forward pass is a list of rows, a row is a path of contexts: ``plan_waves`` chooses them,
``kv_pool`` finds their slots and is what the module sees. Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.errors import ModelError
from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.language_model import Contexts, Prompt
from cdec.core.models.transformers.base import TransformersModel
from cdec.core.models.transformers.kv_pool import (
    EMPTY_SLOT,
    KeyValuePool,
    PassCache,
    PassSlots,
    RowBuffers,
    SlotTable,
)

if TYPE_CHECKING:
    from cdec.core.models.warping import Warping


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One sequence of a forward pass.

    Attributes:
        nodes: The contexts it computes, a path from just below what is cached to the head.
        length: Tokens of the head's whole prefix.
        new: Tokens that are computed; more than ``len(nodes)`` if the first node is a root.
    """

    nodes: list[int]
    length: int
    new: int


def plan_waves(
    tree: ContextTree,
    targets: NDArray[np.int64],
    is_cached: NDArray[np.bool_],
    copied: Callable[[int], int] = lambda root: 0,
) -> list[list[PlannedRow]]:
    """Split the uncached ancestors of ``targets`` into rows, and the rows into waves.

    Contexts without branches make one row (``extend`` is one pass). Where uncached contexts
    branch, the shared part is a row of an earlier wave, so no token is computed twice.

    Args:
        tree: The contexts; its roots' column ``start`` holds the tokens of their prompts.
        targets: int64[M] distinct contexts whose distributions are needed; computed anew even
            where their keys are cached.
        is_cached: bool[capacity], contexts whose keys are cached.
        copied: How many tokens of an uncached root have their keys all the same.

    Returns:
        Waves, to be run in order. Cost: Python steps a node that is computed.
    """
    needed = set(targets.tolist())
    children: dict[int, list[int]] = {}
    tops: list[int] = []
    stack = list(needed)
    while stack:
        node = stack.pop()
        parent = int(tree.parent[node])
        if parent == NONE or (is_cached[parent] and parent not in needed):
            tops.append(node)
            continue
        children.setdefault(parent, []).append(node)
        if parent not in needed:
            needed.add(parent)
            stack.append(parent)
    waves: list[list[PlannedRow]] = []
    level = sorted(tops)
    while level:
        wave, below = [], []
        for top in level:
            path = [top]
            while len(following := children.get(path[-1], [])) == 1:
                path.append(following[0])
            wave.append(_row(tree, path, is_cached, copied))
            below += following
        waves.append(wave)
        level = sorted(below)
    return waves


def group_rows(rows: list[PlannedRow], max_tokens: int, exact: bool) -> list[list[PlannedRow]]:
    """Split a wave's rows into passes of similar new lengths, to waste little on padding.

    Args:
        rows: Of one wave.
        max_tokens: New tokens a pass, padding included; passed by a single longer row only.
        exact: Rows of a pass must agree in length and new tokens (models without positions).
    """
    ordered = sorted(rows, key=lambda row: (-row.new, -row.length))
    groups: list[list[PlannedRow]] = []
    for row in ordered:
        last = groups[-1] if groups else []
        if last and (len(last) + 1) * last[0].new <= max_tokens and _fits(last[0], row, exact):
            last.append(row)
        else:
            groups.append([row])
    return groups


def _fits(longest: PlannedRow, row: PlannedRow, exact: bool) -> bool:
    if exact:
        return (row.new, row.length) == (longest.new, longest.length)
    return 2 * row.new >= longest.new or longest.new - row.new <= 8


def _row(
    tree: ContextTree,
    path: list[int],
    is_cached: NDArray[np.bool_],
    copied: Callable[[int], int],
) -> PlannedRow:
    head, top = path[-1], path[0]
    start = int(tree.of_root("start", head))
    length = start + int(tree.depth[head])
    # A cached root of which only the distribution is gone repeats its last token alone.
    is_new_root = tree.parent[top] == NONE and not is_cached[top]
    above = start - 1 - copied(top) if is_new_root else 0
    return PlannedRow(path, length, len(path) + above)


_RELATIVE = ("t5", "mt5", "umt5")
"""Decoders that know distances only, so that rows of one pass may be padded on the left."""


class PooledModel(TransformersModel):
    """A causal model with a key-value cache, kept in a pool of slots by context.

    Args:
        module: Called as transformers calls a causal model; what it is given as its cache is a
            ``PassCache``.
        args, options: As in ``TransformersModel``.
    """

    def __init__(self, module: Any, *args: Any, **options: Any) -> None:
        super().__init__(module, *args, **options)
        self._pool = KeyValuePool(self.budget.key_value_bytes)
        self._slots = SlotTable(self._tree, self._pool)
        self._buffers = RowBuffers(self.budget.key_value_bytes // 4)
        self._has_positions = "position_ids" in self._accepts
        # Others count positions from the left of the padded row: their rows must agree in length.
        self._takes_ragged = self._has_positions or module.config.model_type in _RELATIVE

    def prefill(
        self,
        prompts: Sequence[Prompt],
        warping: Warping | Sequence[Warping | None] | None = None,
        begun: Sequence[Sequence[int]] | None = None,
    ) -> Contexts:
        """As ``LanguageModel.prefill``: of a begun text, what a live context holds is copied."""
        roots = super().prefill(prompts, warping, begun)
        for root in roots.tolist():
            if self._begun[root]:
                found = self._slots.nearest(root, self._prompt_ids, self._begun)
                if found is not None:
                    self._take_over(root, found)
        return roots

    def _take_over(self, root: int, context: int) -> None:
        """Copy what is cached of a context whose tokens a prompt and its begun text begin with."""
        length, whole = int(self._lengths(np.array([context]))[0]), len(self._fixed_tokens(root))
        copied = min(length, whole - 1)
        self._slots.copy(root, context, copied)
        self._table.set("prompt_length", root, whole - copied)

    def _forget(self, nodes: Contexts) -> None:
        super()._forget(nodes)
        self._slots.release(nodes)
        self._buffers.clear()

    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        parents = self._tree.parent[nodes].astype(np.int64)
        lengths = self._lengths(nodes)
        if (
            (parents != NONE).all()
            and self._slots.is_cached(parents).all()
            and not np.isin(parents, nodes).any()
            and (self._takes_ragged or (lengths == lengths[0]).all())
        ):
            return self._step(nodes, parents, lengths)
        return self._run_waves(nodes)

    def _lengths(self, nodes: Contexts) -> NDArray[np.int64]:
        """Return the tokens of whole prefixes, int64[n]."""
        start: NDArray[np.int64] = self._tree.of_root("start", nodes)
        return start + self._tree.depth[nodes]

    def _step(self, nodes: Contexts, parents: Contexts, lengths: NDArray[np.int64]) -> Tensor:
        """One new token a row: the plain decoding step, without Python work a row."""
        uncached = nodes[~self._slots.is_cached(nodes)]
        if len(uncached):
            self._slots.assign(uncached, nodes)
        width = int(lengths.max())
        table = np.empty((len(nodes), width), np.int64)
        table[:, :-1] = self._slots.rows(parents, width - 1)
        table[:, -1] = self._tree.columns["slot"][nodes]
        tokens = self._tree.token[nodes].astype(np.int64)[:, None]
        self._count(nodes, 1, 1)
        self._buffers.begin(parents, nodes, width, self._pool.slot_bytes)
        with self._undone_on_failure(uncached):
            logits = self._pass(nodes, table, lengths, tokens, None, keep=1)
        self._slots.remember(nodes, table)
        return logits[:, 0].float()

    def _run_waves(self, nodes: Contexts) -> Tensor:
        """Rows of any lengths: prompts, several new tokens, contexts that were evicted."""
        cached = self._tree.columns["slot"] != NONE
        waves = plan_waves(self._tree, nodes, cached, self._slots.copied)
        exact = not self._takes_ragged
        place = {node: row for row, node in enumerate(nodes.tolist())}
        scores: Tensor | None = None
        for wave in waves:
            for rows in group_rows(wave, self.budget.max_batch_tokens, exact):
                found, logits = self._run_rows(rows, place, nodes)
                if len(found) == len(nodes) and (found == np.arange(len(nodes))).all():
                    return logits
                if scores is None:
                    shape = (len(nodes), logits.shape[-1])
                    scores = torch.empty(shape, dtype=torch.float32, device=self._device)
                scores[self._tensor(found)] = logits
        if scores is None:  # no pass gave a row: there are always targets in the last wave
            raise RuntimeError("a forward plan without rows")
        return scores

    def _run_rows(
        self, rows: list[PlannedRow], place: dict[int, int], targets: Contexts
    ) -> tuple[NDArray[np.int64], Tensor]:
        """Run one pass; return which targets it answers, int64[m], and their logits [m, V]."""
        heads = np.array([row.nodes[-1] for row in rows], np.int64)
        lengths = np.array([row.length for row in rows], np.int64)
        news = np.array([row.new for row in rows], np.int64)
        assigned = self._assign(rows, targets)
        table = self._slots.rows(heads, int(lengths.max()))
        tokens = np.zeros((len(rows), int(news.max())), np.int64)
        for i, row in enumerate(rows):
            tokens[i, tokens.shape[1] - row.new :] = self._new_tokens(row)
        asked = [
            (i, len(row.nodes) - 1 - j, place[node])
            for i, row in enumerate(rows)
            for j, node in enumerate(row.nodes)
            if node in place
        ]
        batch, back, found = np.array(asked, np.int64).reshape(-1, 3).T
        keep = int(back.max(initial=0)) + 1
        self._count(heads, 1, news)
        self._buffers.begin(None, heads, table.shape[1], self._pool.slot_bytes)
        with self._undone_on_failure(assigned):
            logits = self._pass(heads, table, lengths, tokens, news, keep=keep)
        self._slots.remember(heads, table)
        order = np.argsort(found, kind="stable")
        picked = logits[self._tensor(batch[order]), self._tensor(keep - 1 - back[order])]
        return found[order], picked.float()

    @contextmanager
    def _undone_on_failure(self, assigned: Contexts) -> Iterator[None]:
        """Take new slots back if their pass fails, out of memory for one: nothing is in them."""
        try:
            yield
        except BaseException:
            self._slots.release(assigned)
            self._buffers.clear()
            raise

    def _assign(self, rows: list[PlannedRow], targets: Contexts) -> Contexts:
        """Give slots to the contexts of a pass that have none, and return these.

        The slots of the targets are kept.
        """
        slot = self._tree.columns["slot"]
        wanted: list[int] = []
        for row in rows:
            for node in row.nodes:
                if slot[node] == NONE:
                    is_root = self._tree.parent[node] == NONE
                    length = len(self._fixed_tokens(node)) if is_root else 1
                    wanted += [node] * (length - self._slots.copied(node))
        nodes = np.array(wanted, np.int64)
        if wanted:
            self._slots.assign(nodes, targets)
        return np.unique(nodes)

    def _new_tokens(self, row: PlannedRow) -> list[int]:
        top = row.nodes[0]
        if self._tree.parent[top] != NONE:
            return [int(token) for token in self._tree.token[row.nodes]]
        fixed = self._fixed_tokens(top)
        below = row.nodes[1:]
        repeated = fixed[len(fixed) - (row.new - len(below)) :]
        return repeated + (self._tree.token[below].tolist() if below else [])

    def _fixed_tokens(self, root: int) -> list[int]:
        """Return the tokens of ``root`` itself, those before the first generated one."""
        return [*self._prompt_ids[root], *self._begun[root]]

    def _pass(
        self,
        heads: Contexts,
        table: NDArray[np.int64],
        lengths: NDArray[np.int64],
        tokens: NDArray[np.int64],
        news: NDArray[np.int64] | None,
        keep: int,
    ) -> Tensor:
        """Run the module once.

        Args:
            heads: int64[B] last contexts of the rows.
            table: int64[B, K] slots, right-aligned.
            lengths: int64[B] tokens of each row.
            tokens: int64[B, Q] new tokens, right-aligned.
            news: int64[B] numbers of new tokens; None if all rows have Q.
            keep: Columns of logits that are needed, from the right.

        Returns:
            float[B, keep, V] logits, padding columns holding anything.
        """
        queries, width = tokens.shape[1], table.shape[1]
        arguments: dict[str, Any] = self._keep(keep)
        if self._has_positions:
            positions = np.arange(width - queries, width) - (width - lengths)[:, None]
            arguments["position_ids"] = self._tensor(np.maximum(positions, 0))
        if (lengths < width).any():
            arguments["attention_mask"] = self._tensor((table != EMPTY_SLOT).astype(np.int64))
        slots = self._pass_slots(table, queries, news)
        cache = PassCache(self._pool, slots, self._buffers)
        with torch.no_grad():
            logits = self._call(heads, self._tensor(tokens), cache, arguments)
        if not cache.touched:
            raise ModelError(
                f"{type(self._module).__name__} does not use the key-value cache it was given",
                hint="Load the model with key_value_bytes=0, which computes every prefix whole.",
            )
        return logits[:, logits.shape[1] - keep :]

    def _pass_slots(
        self, table: NDArray[np.int64], queries: int, news: NDArray[np.int64] | None
    ) -> PassSlots:
        """Say where a pass reads and writes; arguments as of ``_pass``."""
        columns = None
        new_slots = table[:, table.shape[1] - queries :].reshape(-1)
        if news is not None and (news < queries).any():
            columns = np.flatnonzero(np.arange(queries) >= (queries - news)[:, None])
            new_slots = new_slots[columns]
        return PassSlots(
            self._tensor(table),
            self._tensor(np.ascontiguousarray(new_slots)),
            None if columns is None else self._tensor(columns),
            queries,
        )

    def _call(
        self, heads: Contexts, tokens: Tensor, cache: PassCache, arguments: dict[str, Any]
    ) -> Tensor:
        """Call the module; return its logits [B, >= keep, V]."""
        output = self._module(
            input_ids=tokens,
            past_key_values=self._as_seen(cache),
            use_cache=True,
            return_dict=True,
            **arguments,
        )
        logits: Tensor = output.logits
        return logits.to(self._device)

    def _as_seen(self, cache: PassCache) -> Any:
        """Return the cache of a pass as the module takes it."""
        return cache

"""PooledModel: causal models whose keys and values are kept in a pool of slots by context.

One forward pass is a list of rows, a row is a path of contexts: ``plan_waves`` chooses them,
``kv_pool`` finds their slots and is what the module sees. Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.errors import ModelError, UsageError
from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.language_model import Contexts, Prompt
from cdec.core.models.transformers.base import TransformersModel
from cdec.core.models.transformers.kv_pool import (
    EMPTY_SLOT,
    KeyValuePool,
    PassCache,
    PassSlots,
    PoolPass,
    RowBuffers,
)
from cdec.core.models.transformers.llama import FAMILY, Llama
from cdec.core.models.transformers.prefixes import Piece, Rows
from cdec.core.models.transformers.slot_table import SlotTable

if TYPE_CHECKING:
    from cdec.core.models.transformers.compiled import CompiledStep
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


@dataclass(frozen=True, slots=True)
class PieceRow(PlannedRow):
    """One sequence of a forward pass that computes what prompts share, and no context."""

    piece: Piece


class PassRows(NamedTuple):
    """The rows of a pass over the pool, B of them.

    Attributes:
        table: int64[B, K] slots, right-aligned. lengths: int64[B] tokens of each row.
        tokens: int64[B, Q] new tokens, right-aligned.
        news: int64[B] numbers of new tokens; None if all rows have Q.
    """

    table: NDArray[np.int64]
    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]
    news: NDArray[np.int64] | None


_Row = TypeVar("_Row", bound=PlannedRow)


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


_FREE_PADDING = 128
"""Tokens of padding that cost no more than another pass does beside its tokens, about."""
_PADDED_SHARE = 0.1
"""Part of a pass that padding may be."""


def group_rows(rows: list[_Row], max_tokens: int, exact: bool) -> list[list[_Row]]:
    """Split a wave's rows into passes of similar new lengths, to waste little on padding.

    Args:
        rows: Of one wave.
        max_tokens: New tokens a pass, padding included; passed by a single longer row only.
        exact: Rows of a pass must agree in length and new tokens (models without positions).
    """
    ordered = sorted(rows, key=lambda row: (-row.new, -row.length))
    groups: list[list[_Row]] = []
    padding = 0
    for row in ordered:
        last = groups[-1] if groups else []
        if last and _fits(last[0], row, exact):
            padding += last[0].new - row.new
            size = (len(last) + 1) * last[0].new
            if size <= max_tokens and padding <= max(_FREE_PADDING, _PADDED_SHARE * size):
                last.append(row)
                continue
        groups.append([row])
        padding = 0
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


_PADDING = (1 << 16, 1 << 13)
"""Columns of padding beside long rows that cost what a pass does, about: on a device, on a host."""
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
        kept = self.budget.prefix_cache_bytes
        self._pool = KeyValuePool(self.budget.key_value_bytes + kept)
        self._slots = SlotTable(self._tree, self._pool, kept, self._before_eviction)
        self._has_positions = "position_ids" in self._accepts
        # Others count positions from the left of the padded row: their rows must agree in length.
        self._takes_ragged = self._has_positions or module.config.model_type in _RELATIVE
        self._short, self._long = (
            RowBuffers(
                self._pool,
                self.budget.key_value_bytes // 4,
                is_ragged=self._takes_ragged,
                device=self._device,
            )
            for _ in range(2)
        )
        self._rows = self._short
        self._compiled: CompiledStep | None = None
        self._padding = _PADDING[self._device.type == "cpu"]

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
        length, whole = self._lengths(np.array([context]))[1], len(self._fixed_tokens(root))
        copied = min(length, whole - 1)
        self._leave_rows()
        self._slots.copy(root, context, copied)
        self._table.set("prompt_length", root, whole - copied)

    def _forget(self, nodes: Contexts) -> None:
        super()._forget(nodes)
        self._short.forget(nodes)
        self._long.forget(nodes)
        self._slots.release(nodes)

    def _settle(self) -> None:
        """Bring the pool up to date, before it is read or slots change hands."""
        self._short.settle()
        self._long.settle()

    def _before_eviction(self) -> None:
        """Bring the pool up to date, and give up the rows that nothing keeps from being evicted.

        subtle: rows in use end with parents of what is evaluated. A child of an evicted one would
        be linked to no slot.
        """
        self._settle()
        idle = self._long if self._rows is self._short else self._short
        idle.clear()

    def _leave_rows(self) -> None:
        """Give up the rows in use, which begin anew from the pool."""
        self._settle()
        self._rows.clear()

    def _forward(self, nodes: Contexts) -> Tensor:
        is_long = self._far_longer(nodes)
        if is_long is None:
            return super()._forward(nodes)
        scores = torch.empty((len(nodes), self.vocabulary.width), device=self._device)
        for rows, chosen in ((self._short, ~is_long), (self._long, is_long)):
            self._rows = rows
            try:
                scores[self._tensor(np.flatnonzero(chosen))] = super()._forward(nodes[chosen])
            finally:
                self._rows = self._short
        return scores

    def _far_longer(self, nodes: Contexts) -> NDArray[np.bool_] | None:
        """Say which contexts are so long that a pass of their own costs less than padding the rest.

        Returns:
            bool[n]; None where one pass is best.
        """
        if len(nodes) < 2:
            return None
        lengths, longest = self._lengths(nodes)
        if len(nodes) * longest - int(lengths.sum()) < self._padding:
            return None
        ordered = np.sort(lengths)
        counts = np.arange(1, len(nodes))
        saved = counts * (longest - ordered[:-1])
        best = int(saved.argmax())
        return lengths > ordered[best] if saved[best] >= self._padding else None

    def _arranged(self, nodes: Contexts) -> Contexts:
        order = self._rows.arranged(self._tree.parent[nodes].astype(np.int64))
        return nodes if order is None else nodes[order]

    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        parents = self._tree.parent[nodes].astype(np.int64)
        if self._rows.take(parents, 1):
            return self._append(nodes)
        lengths, width = self._lengths(nodes)
        if (
            (parents != NONE).all()
            and self._slots.is_cached(parents).all()
            and not np.isin(parents, nodes).any()
            and (self._takes_ragged or (lengths == width).all())
        ):
            return self._step(nodes, parents, lengths)
        return self._run_waves(nodes)

    def _lengths(self, nodes: Contexts) -> tuple[NDArray[np.int64], int]:
        """Return the tokens of whole prefixes, int64[n], and the most."""
        return self._tree.lengths("start", nodes)

    def _append(self, nodes: Contexts) -> Tensor:
        """One new token behind each of the rows: the plain decoding step."""
        uncached = self._tree.missing("slot", nodes)
        if len(uncached):
            self._slots.assign(uncached, nodes)
        slots = self._tree.columns["slot"][nodes]
        tokens = self._tree.token[nodes].astype(np.int64)
        self._count(nodes, 1, 1)
        with self._undone_on_failure(uncached):
            if self._compiled is not None:
                return self._compiled_append(nodes, slots[:, None], tokens[:, None])
            logits = self._appended(nodes, slots[:, None], tokens[:, None], keep=1)
        return logits[:, 0].float()

    def compile_steps(self, backend: str = "inductor") -> None:
        """Run plain decoding steps compiled from now on: the same to rounding.

        Args:
            backend: Of torch.compile.

        Raises:
            UsageError: The module is no decoder of Llama's family on one device.
        """
        if not isinstance(self._module, Llama):
            raise UsageError(
                f"`compile` knows decoders of Llama's family ({', '.join(FAMILY)}) on one device, "
                f"with the usual attention; the model is a {type(self._module).__name__}",
                hint="Leave out `compile`.",
            )
        from cdec.core.models.transformers.compiled import CompiledStep

        self._compiled = CompiledStep(self._module, backend)
        self._short.is_static = self._long.is_static = True

    def _compiled_append(
        self, heads: Contexts, slots: NDArray[np.int32], tokens: NDArray[np.int64]
    ) -> Tensor:
        """As ``_appended``, of one new column, by the compiled step."""
        assert self._compiled is not None
        layers, bias = self._rows.static()
        positions = self._tensor(self._rows.lengths[:, None])
        with torch.no_grad():
            scores = self._compiled(self._tensor(tokens), positions, layers, bias, self._rows.past)
        self._rows.append(heads, slots)
        self._slots.touch(heads)
        return scores.float()

    def _appended(
        self,
        heads: Contexts,
        slots: NDArray[np.int32],
        tokens: NDArray[np.int64],
        keep: int,
    ) -> Tensor:
        """Run the module over new columns of the rows; arguments as of ``_pass``, slots [B, Q]."""
        queries = slots.shape[1]
        positions = self._rows.lengths[:, None]
        if queries > 1:
            positions = positions + np.arange(queries)
        mask = self._rows.open(queries)
        logits = self._pass(heads, tokens, positions, mask, self._rows, keep)
        self._rows.append(heads, slots)
        self._slots.touch(heads)
        return logits

    def _step(self, nodes: Contexts, parents: Contexts, lengths: NDArray[np.int64]) -> Tensor:
        """One new token a row, rows from the pool: without Python work a row."""
        self._leave_rows()
        uncached = nodes[~self._slots.is_cached(nodes)]
        if len(uncached):
            self._slots.assign(uncached, nodes)
        table = self._slots.rows(nodes, int(lengths.max()))
        tokens = self._tree.token[nodes].astype(np.int64)[:, None]
        self._count(nodes, 1, 1)
        with self._undone_on_failure(uncached):
            logits = self._pooled(nodes, PassRows(table, lengths, tokens, None), keep=1)
        return logits[:, 0].float()

    def _run_waves(self, nodes: Contexts) -> Tensor:
        """Rows of any lengths: prompts, several new tokens, contexts that were evicted."""
        roots = self._uncached_roots(nodes)
        if roots:
            self._share(roots, nodes)
        cached = self._tree.columns["slot"] != NONE
        waves = plan_waves(self._tree, nodes, cached, self._slots.copied)
        exact = not self._takes_ragged
        place = {node: row for row, node in enumerate(nodes.tolist())}
        first = group_rows(waves[0], self.budget.max_batch_tokens, exact)
        if len(waves) == len(first) == 1 and self._continues(first[0]):
            return self._run_rows(first[0], place, nodes, appends=True)[1]
        self._leave_rows()
        scores: Tensor | None = None
        for wave in waves:
            for rows in group_rows(wave, self.budget.max_batch_tokens, exact):
                found, logits = self._run_rows(rows, place, nodes)
                if len(found) == len(nodes) and (found == np.arange(len(nodes))).all():
                    self._keep_prompts(roots)
                    return logits
                if scores is None:
                    shape = (len(nodes), logits.shape[-1])
                    scores = torch.empty(shape, dtype=torch.float32, device=self._device)
                scores[self._tensor(found)] = logits
        self._keep_prompts(roots)
        if scores is None:  # no pass gave a row: there are always targets in the last wave
            raise RuntimeError("a forward plan without rows")
        return scores

    def _uncached_roots(self, nodes: Contexts) -> list[int]:
        """Return the prompts of ``nodes`` of which nothing is cached."""
        roots = np.unique(self._tree.roots(nodes))
        roots = roots[~self._slots.is_cached(roots)]
        return [root for root in roots.tolist() if not self._slots.copied(root)]

    def _share(self, roots: list[int], targets: Contexts) -> None:
        """Let prompts that begin alike, or as one did before, share what is computed of it."""
        prefixes = self._slots.prefixes
        groups: dict[Piece | None, Rows] = {}
        for root in roots:
            # The last token is the prompt's own: its distribution is asked for.
            tokens = np.array(self._fixed_tokens(root)[:-1], np.int64)
            found = prefixes.find(tokens)
            if found is not None:
                self._slots.share(root, found)
            groups.setdefault(found, []).append((tokens, root))
        for above, rows in groups.items():
            made, last = prefixes.divide(above, rows)
            for root, piece in last.items():
                self._slots.share(root, piece)
            try:
                for piece in made:
                    self._slots.place(piece, targets)
                self._run_pieces(made)
            except BaseException:
                for root in last:
                    self._slots.unshare(root)
                prefixes.discard(made)
                raise

    def _run_pieces(self, pieces: list[Piece]) -> None:
        """Compute the keys and values of pieces, those first that others go on from."""
        self._leave_rows()
        level: list[Piece] = [piece for piece in pieces if piece.above not in pieces]
        while level:
            rows = [PieceRow([], piece.end, len(piece.tokens), piece) for piece in level]
            for group in group_rows(rows, self.budget.max_batch_tokens, not self._takes_ragged):
                self._run_group(group)
            level = [piece for piece in pieces if piece.above in level]

    def _run_group(self, group: list[PieceRow]) -> None:
        """Compute some pieces in one pass."""
        lengths = np.array([row.length for row in group], np.int64)
        news = np.array([row.new for row in group], np.int64)
        tokens = np.zeros((len(group), int(news.max())), np.int64)
        for row, planned in zip(tokens, group, strict=True):
            row[len(row) - planned.new :] = planned.piece.tokens
        last = np.array([row.piece.last for row in group], np.int64)
        table = self._slots.rows_to(last, int(lengths.max()))
        self._table.add_to_total("calls", len(group))
        self._table.add_to_total("tokens", int(news.sum()))
        self._scattered(np.empty(0, np.int64), PassRows(table, lengths, tokens, news), keep=1)

    def _keep_prompts(self, roots: list[int]) -> None:
        """Let what was computed of prompts outlive them, where beginnings are kept."""
        if self._slots.prefixes.is_kept:
            for root in roots:
                if self._slots.is_cached(np.array([root])).all():
                    self._slots.keep(root, np.array(self._fixed_tokens(root), np.int64))

    def _continues(self, rows: list[PlannedRow]) -> bool:
        """Take rows of the last pass, if planned ones go on from them by equally many tokens."""
        new = rows[0].new
        parents = self._tree.parent[[row.nodes[0] for row in rows]].astype(np.int64)
        is_even = (parents != NONE).all() and all(row.new == new for row in rows)
        return bool(is_even and self._rows.take(parents, new))

    def _run_rows(
        self,
        rows: list[PlannedRow],
        place: dict[int, int],
        targets: Contexts,
        *,
        appends: bool = False,
    ) -> tuple[NDArray[np.int64], Tensor]:
        """Run one pass; return which targets it answers, int64[m], and their logits [m, V].

        Args:
            rows: Of the pass.
            place: Of each target among ``targets``.
            targets: Asked for.
            appends: Whether the rows are those of the buffers, and longer.
        """
        heads = np.array([row.nodes[-1] for row in rows], np.int64)
        lengths = np.array([row.length for row in rows], np.int64)
        news = np.array([row.new for row in rows], np.int64)
        shared = [self._slots.shared(row.nodes[0]) for row in rows]
        assigned = self._assign(rows, targets)
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
        self._count(heads, 1, news + shared)
        # A prompt's own count is that of it alone; what it shares was computed once, before.
        self._table.add_to_total("tokens", -sum(shared))
        with self._undone_on_failure(assigned):
            if appends:
                slots = self._tree.columns["slot"][[row.nodes for row in rows]]
                logits = self._appended(heads, slots, tokens, keep)
            else:
                table = self._slots.rows(heads, int(lengths.max()))
                logits = self._pooled(heads, PassRows(table, lengths, tokens, news), keep)
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

    def _pooled(self, heads: Contexts, rows: PassRows, keep: int) -> Tensor:
        """Run the module over rows of the pool, which are those of contexts; as ``_pass``."""
        logits = self._scattered(heads, rows, keep)
        self._rows.begin(heads, rows.table, rows.lengths)
        self._slots.touch(heads)
        return logits

    def _scattered(self, heads: Contexts, rows: PassRows, keep: int) -> Tensor:
        """Run the module over rows of the pool, of contexts or of pieces; as ``_pass``."""
        queries, width = rows.tokens.shape[1], rows.table.shape[1]
        positions = np.arange(width - queries, width) - (width - rows.lengths)[:, None]
        mask = None
        if (rows.lengths < width).any():
            mask = self._tensor((rows.table != EMPTY_SLOT).astype(np.int64))
        cache = PoolPass(self._pool, self._pass_slots(rows.table, queries, rows.news))
        return self._pass(heads, rows.tokens, np.maximum(positions, 0), mask, cache, keep)

    def _pass(
        self,
        heads: Contexts,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        mask: Tensor | None,
        cache: PassCache,
        keep: int,
    ) -> Tensor:
        """Run the module once.

        Args:
            heads: int64[B] last contexts of the rows.
            tokens: int64[B, Q] new tokens, right-aligned.
            positions: int64[B, Q] their places in the prefixes.
            mask: int64[B, K] 0 in padding; None where there is none.
            cache: Of whole rows.
            keep: Columns of logits that are needed, from the right.

        Returns:
            float[B, keep, V] logits, padding columns holding anything.
        """
        arguments: dict[str, Any] = self._keep(keep)
        if self._has_positions:
            arguments["position_ids"] = self._tensor(positions)
        if mask is not None:
            arguments["attention_mask"] = mask
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
        """Say where a pass of so many columns reads and writes; arguments as of ``PassRows``."""
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

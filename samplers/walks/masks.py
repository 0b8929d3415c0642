"""Allowed ids of the nodes of a step: ragged lists, which nodes of one state share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import offsets_of
from cdec.samplers.walks.groups import distinct

if TYPE_CHECKING:
    from cdec.core.session import Session
    from cdec.samplers.walks.batch import Batch


@dataclass(frozen=True, slots=True)
class AllowedIds:
    """Allowed ids of the nodes of a step, N of them.

    Attributes:
        which: int64[S] constrained nodes. lists: int64[S] list of each: nodes of equal state share
            one. offsets: int64[L + 1] and ids: int32[...]: the L lists, each sorted.
        unconstrained: int64[...] the other nodes, which allow everything.
        missed: float64[N] mass outside the top M; 0 under a full mask.
    """

    which: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    unconstrained: NDArray[np.int64]
    missed: NDArray[np.float64]

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """The lists as the compiled library takes them."""
        return self.which, self.lists, self.offsets, self.ids

    @classmethod
    def everything(cls, n: int) -> AllowedIds:
        """Return what ``n`` unconstrained nodes allow."""
        none = np.zeros(0, np.int64)
        offsets, ids = np.zeros(1, np.int64), np.zeros(0, np.int32)
        return cls(none, none, offsets, ids, np.arange(n), np.zeros(n))

    def only(self, is_end: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the only id allowed at each node, int64[N]; -1 for a choice, none or an end.

        Args:
            is_end: bool[V] end ids.
        """
        only = np.full(len(self.missed), -1, np.int64)
        single = np.flatnonzero(self.offsets[1:] - self.offsets[:-1] == 1)
        if single.size:
            of_list = np.full(len(self.offsets) - 1, -1, np.int64)
            ids = self.ids[self.offsets[single]]
            of_list[single] = np.where(is_end[ids], -1, ids)
            only[self.which] = of_list[self.lists]
        return only


def full_lists(
    batch: Batch, request: NDArray[np.int64], state: Any, at_limit: NDArray[np.bool_]
) -> AllowedIds:
    """Ask each session for the ids allowed at N nodes; only end ids at the length limit.

    Args:
        batch: Of the nodes. request: int64[N].
        state: int64[N] constraint states, on the model's device. at_limit: bool[N].
    """
    found, missed = Lists(batch), np.zeros(len(request))
    if not batch.masks or not batch.sessions:
        return AllowedIds.everything(len(missed))
    is_open = not at_limit.any()
    for session, group in batch.groups(request):
        open_nodes = group if is_open else group[~at_limit[group]]
        if open_nodes.size:
            found.ask(session, state, open_nodes)
    found.end(at_limit)
    return found.allowed(np.flatnonzero(batch.is_unconstrained(request)), missed)


class Lists:
    """Ragged lists of allowed ids in the making, and which nodes have them.

    Args:
        batch: Of the nodes.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._parts: list[tuple[Any, Any, Any, Any]] = []
        self._count = 0

    def ask(self, session: Session, state: Any, which: NDArray[np.int64]) -> None:
        """Add what a session allows at some nodes (int64[n]) of states int64[N]: a list a state."""
        batch = self._batch
        states = np.ascontiguousarray(batch.to_host(state[batch.index(which)]))
        group = distinct(states, states)
        own = np.arange(len(states)) if group is None else group.of
        states = states if group is None else states[group.first]
        offsets, ids = map(batch.to_host, session.allowed(batch.index(states)))
        self.add(which, own, offsets, ids)

    def end(self, at_limit: NDArray[np.bool_]) -> None:
        """Add the end ids alone where nodes are at the length limit, bool[N]."""
        if at_limit.any():
            which, ends = np.flatnonzero(at_limit), self._batch.end_ids
            self.add(which, np.zeros_like(which), np.array([0, len(ends)]), ends)

    def add(
        self,
        which: NDArray[np.int64],
        own: NDArray[np.int64],
        offsets: NDArray[np.int64],
        ids: NDArray[np.integer[Any]],
    ) -> None:
        """Give nodes ``which`` (int64[n]) the lists ``own`` (int64[n]) of those now added."""
        if not which.size:
            return
        self._parts.append((which, own + self._count if self._count else own, offsets, ids))
        self._count += len(offsets) - 1

    def allowed(self, unconstrained: NDArray[np.int64], missed: NDArray[np.float64]) -> AllowedIds:
        """Return all lists."""
        which, lists, offsets, ids = zip(*self._parts, strict=True) if self._parts else [()] * 4
        if len(offsets) != 1:
            offsets = (offsets_of(_joined([np.diff(each) for each in offsets], np.int64)),)
        return AllowedIds(
            which=_joined(which, np.int64),
            lists=_joined(lists, np.int64),
            offsets=offsets[0],
            ids=_joined(ids, np.int32),
            unconstrained=unconstrained,
            missed=missed,
        )


def _joined(parts: Sequence[Any], dtype: Any) -> Any:
    """Concatenate, without a copy where there is one part only."""
    if len(parts) == 1:
        return np.asarray(parts[0], dtype)
    return np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype)

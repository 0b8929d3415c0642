"""Timed models and sessions: views whose passes and calls are counted by the clock of a run."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from cdec.core.session import Completions, Session, States

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cdec.core.models.language_model import LanguageModel
    from cdec.core.run_clock import RunClock

ModelT = TypeVar("ModelT", bound="LanguageModel")


def timed(model: ModelT, clock: RunClock) -> ModelT:
    """Return a view of a model: a clock counts its passes, and what constraints are asked beside.

    Args:
        model: Or a view of it; what else stands around its passes is left out.
        clock: Of the run.
    """
    view = copy.copy(model)
    view.watch = lambda contexts: clock.model
    view.asking = clock.masks
    view.beside = lambda session: TimedSession(session, clock)
    return view


class TimedSession(Session):
    """A session whose calls count as masks.

    Args:
        inner: Is asked.
        clock: Of the run.
    """

    def __init__(self, inner: Session, clock: RunClock) -> None:
        self._inner, self._masks = inner, clock.masks
        self.device, self.words = inner.device, inner.words

    def start(self, n: int) -> States:
        with self._masks:
            return self._inner.start(n)

    def advance(self, states: States, token_ids: Any) -> States:
        with self._masks:
            return self._inner.advance(states, token_ids)

    def fill_mask(self, states: States, mask: Any) -> None:
        with self._masks:
            self._inner.fill_mask(states, mask)

    def check(self, states: States, token_ids: Any) -> Any:
        with self._masks:
            return self._inner.check(states, token_ids)

    def allowed(self, states: States) -> tuple[Any, Any]:
        with self._masks:
            return self._inner.allowed(states)

    def is_complete(self, states: States) -> Any:
        with self._masks:
            return self._inner.is_complete(states)

    def forced(self, states: States) -> tuple[Any, Any]:
        with self._masks:
            return self._inner.forced(states)

    def advance_bytes(self, states: States, texts: Sequence[bytes]) -> States:
        with self._masks:
            return self._inner.advance_bytes(states, texts)

    def speculation_keys(self, states: States) -> Any:
        with self._masks:
            return self._inner.speculation_keys(states)

    def completions(
        self, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> Completions | None:
        with self._masks:
            return self._inner.completions(scores, ends)

    def statistics(self) -> Mapping[str, int]:
        return self._inner.statistics()

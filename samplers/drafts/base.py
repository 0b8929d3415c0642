"""Drafts as samplers see them: what proposes tokens; samplers need no other file of this room."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import Self

    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.candidates import Candidates, TrajectoryBuffer
    from cdec.samplers.walks.frontier import Frontier
    from cdec.samplers.walks.outcome import Outcome
    from cdec.samplers.walks.randomness import CandidateUniforms


class Draft(ABC):
    """A draft opened for a batch; a context manager that releases its contexts."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    @property
    @abstractmethod
    def rows(self) -> int:
        """Most prefixes of a walk that one pass of the target evaluates."""

    @abstractmethod
    def decode(
        self,
        batch: Batch,
        request: NDArray[np.int64],
        draw: NDArray[np.int64],
        uniforms: CandidateUniforms | None,
        *,
        repeats: Mapping[str, Any] | None = None,
        weighed: bool = True,
    ) -> Candidates:
        """Walk from the prompts to the ends, as ``decoding.decode``, with fewer passes.

        Args:
            batch: The open requests.
            request: int64[W] request of each walk. draw: int64[W] its draw's position there.
            uniforms: Of the W walks; None takes the most probable event everywhere.
            repeats: Take a proposal only where the target draws the same with these options of
                ``decoding.chooser``: the same texts. None compares laws instead: the same law.
            weighed: Whether masks are known, so that what the length limit cuts off can be weighed.
        """

    @abstractmethod
    def learn_on(
        self,
        buffer: TrajectoryBuffer,
        alive: NDArray[np.int64],
        frontier: Frontier,
        uniforms: CandidateUniforms,
    ) -> None:
        """Walk on to the ends, as ``decoding.walk_on``, and note the residual mass of prefixes.

        Args:
            buffer: Written.
            alive: int64[n] rows of ``buffer``. frontier: The n walks.
            uniforms: Of all walks.
        """

    @abstractmethod
    def account(self, outcome: Outcome) -> Outcome:
        """Add what the draft cost and gained to an outcome."""

    @abstractmethod
    def draw_candidates(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        uniforms: CandidateUniforms,
        log_floor: NDArray[np.float64] | None = None,
    ) -> Candidates:
        """Decode candidates as ``decoding.draw_candidates`` does; the law is the same.

        Args:
            batch: The open requests.
            draws: int64[n] rows of the batch's draws. uniforms: Of n * K candidates.
            log_floor: float64[n * K], as in ``decoding.decode``.
        """


class DraftOptions(ABC):
    """Options of a draft that is not opened yet: what proposes tokens, and how many."""

    @abstractmethod
    def on(self, batch: Batch) -> Draft:
        """Open the draft for a batch.

        Raises:
            TokenizerMismatchError, UsageError: The draft does not fit the model.
        """

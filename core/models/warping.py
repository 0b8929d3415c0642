"""Warping of next-token distributions: temperature, top-k and top-p on unnormalised log scores.

Applied to logits before they are normalised, so that every weight refers to the warped model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError

_NUCLEUS_FIRST_TRY = 1024
"""Tokens that are ranked before a whole row is sorted for top-p."""
_COLD = 1e-6
"""Temperature below which the largest score is taken off before the division."""


@dataclass(frozen=True, slots=True)
class Warping:
    """Temperature first, then top-k, then top-p, as transformers orders them.

    Attributes:
        temperature: Divides the logits; > 0 and finite.
        top_k: Keep the k best tokens, and those that tie with the k-th; None keeps all.
        top_p: Keep the smallest set of best tokens whose mass reaches top_p; in (0, 1];
            None keeps all.

    Raises:
        UsageError: A value out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.temperature, bool) or not isinstance(self.temperature, (int, float)):
            raise UsageError(f"`temperature` must be a number, not {self.temperature!r}")
        if self.temperature == 0:
            raise UsageError(
                "`temperature` 0 is not a distribution",
                hint="Use the greedy method for the most probable token at each step.",
            )
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise UsageError(f"`temperature` must be positive and finite, not {self.temperature!r}")
        if self.top_k is not None and (
            isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 1
        ):
            raise UsageError(f"`top_k` must be an integer of at least 1, not {self.top_k!r}")
        if self.top_p is not None and not (
            isinstance(self.top_p, (int, float)) and 0 < self.top_p <= 1
        ):
            raise UsageError(f"`top_p` must lie in (0, 1], not {self.top_p!r}")

    @property
    def is_identity(self) -> bool:
        """True where nothing is changed."""
        return self.temperature == 1 and self.top_k is None and self.top_p in (None, 1)

    def apply(self, scores: Any) -> Any:
        """Warp a block of log scores, in place where that is possible.

        Args:
            scores: float[M, V] logits or log probabilities, numpy or torch.

        Returns:
            float[M, V] of the same kind, -inf where a token was cut off; not normalised.
            Cost: O(M V); for a nucleus wider than 1,024 tokens a sort of the row.
        """
        if self.temperature < _COLD:
            # subtle: quotients may overflow, and a row whose best score is infinite would be NaN.
            scores -= _best(scores)[..., None]
            _divide(scores, self.temperature)
        elif self.temperature != 1:
            scores /= self.temperature
        if isinstance(scores, np.ndarray):
            return self._cut_numpy(scores)
        return self._cut_torch(scores)

    def _cut_numpy(self, scores: NDArray[Any]) -> NDArray[Any]:
        width = scores.shape[-1]
        if self.top_k is not None and self.top_k < width:
            kth = np.partition(scores, width - self.top_k, axis=-1)[:, width - self.top_k]
            scores[scores < kth[:, None]] = -np.inf
        if self.top_p is not None and self.top_p < 1:
            order = np.argsort(-scores, axis=-1, kind="stable")
            ranked = np.exp(scores - scores.max(-1, keepdims=True), dtype=np.float64)
            ranked /= ranked.sum(-1, keepdims=True)
            ranked = np.take_along_axis(ranked, order, -1)
            # A token goes if the better ones hold top_p already; the best one always stays.
            cut = np.cumsum(ranked, -1) - ranked >= self.top_p
            cut[:, 0] = False
            dropped = np.zeros_like(cut)
            np.put_along_axis(dropped, order, cut, -1)
            scores[dropped] = -np.inf
        return scores

    def _cut_torch(self, scores: Any) -> Any:
        width = scores.shape[-1]
        if self.top_k is not None and self.top_k < width:
            kth = scores.topk(self.top_k, dim=-1).values[:, -1:]
            scores.masked_fill_(scores < kth, -math.inf)
        if self.top_p is not None and self.top_p < 1:
            _nucleus_torch(scores, self.top_p, _NUCLEUS_FIRST_TRY)
        return scores


IDENTITY = Warping()
"""The model's own distribution."""


def _divide(scores: Any, by: float) -> None:
    """Divide in place by a number that may be too small for the scores' own precision."""
    if isinstance(scores, np.ndarray):
        with np.errstate(over="ignore"):
            scores[...] = scores.astype(np.float64) / by
    else:
        scores.copy_(scores.double() / by)


def _best(scores: Any) -> Any:
    """Return the largest score of each row, [M], of the same kind as ``scores``."""
    return scores.max(-1) if isinstance(scores, np.ndarray) else scores.amax(-1)


def normalizers(scores: Any) -> Any:
    """Return log Σ exp of each row in float64, [M], of the same kind as ``scores``.

    The largest score is taken off first and added back in float64, so the error of Σ P stays below
    1e-6 for float32 scores of any magnitude (3e-7 measured); torch.logsumexp in float32 would round
    its result to 2e-6 at a log-sum of 30. subtle: torch sums float32 in pairs, which costs no
    precision here; asking it for a float64 sum costs seven times the whole call.
    """
    if isinstance(scores, np.ndarray):
        best = _best(scores).astype(np.float64)
        return best + np.log(np.exp(scores - best[:, None]).sum(-1))

    best = scores.amax(-1, keepdim=True)
    mass = (scores - best).exp_().sum(-1)
    return mass.double().log_() + best[:, 0].double()


def _nucleus_torch(scores: Any, top_p: float, ranked: int) -> None:
    """Set what lies outside each row's nucleus to -inf, in place.

    Args:
        scores: float[M, V].
        top_p: In (0, 1).
        ranked: Rank this many tokens first; rows that need more are ranked whole.
    """
    import torch

    width = scores.shape[-1]
    best, order = _ranked(scores, min(ranked, width))
    mass = (best.double() - normalizers(scores)[:, None]).exp_()
    before = mass.cumsum(-1) - mass
    keep = before < top_p
    keep[:, 0] = True
    wide = keep[:, -1] if best.shape[-1] < width else torch.zeros_like(keep[:, -1])
    # Rows whose nucleus reaches past the ranked tokens are redone with all of them.
    whole = scores[wide]
    result = torch.full_like(scores, -math.inf)
    result.scatter_(-1, order, best.masked_fill(~keep, -math.inf))
    if whole.shape[0]:
        _nucleus_torch(whole, top_p, width)
        result[wide] = whole
    scores.copy_(result)


def _ranked(scores: Any, n: int) -> tuple[Any, Any]:
    """Return the n best scores of each row and their ids, best first, lower id first on ties."""
    if n == scores.shape[-1]:
        values, order = scores.sort(dim=-1, descending=True, stable=True)
        return values, order
    values, order = scores.topk(n, dim=-1)
    return values, order

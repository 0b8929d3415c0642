"""The public solver of mentored decoding: the law of most acceptance within a divergence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.native import library
from cdec.samplers.mentored.torch_solver import solve_rows, values

TOLERANCE = 1e-5
"""How far from 1 a distribution's sum may be."""
_EXACT = 1e-14
"""A sum this near to 1 is left as it is, so that a divergence of 0 returns the target itself."""


def mentored_distribution(draft: Any, target: Any, divergence: Any) -> Any:
    """Return the law pi of largest sum(min(draft, pi)) with KL(target || pi) <= divergence.

    Tran-Thien, *Mentored decoding* (2023); see ``native/sampling/mentored.cc`` for the form of the
    solution and the deviations. pi is 0 wherever the target is 0, the target where the divergence
    is 0, and the draft where KL(target || draft) <= divergence and the target has all of the
    draft's support.

    Args:
        draft, target: Probabilities over the last axis: both arrays, or both torch tensors of one
            device, of one shape [..., V]. Rows are normalised; their sums may be off by 1e-5.
        divergence: Nats, >= 0, inf allowed: a number, or anything that broadcasts to [...].

    Returns:
        float64[..., V], a tensor on the same device if tensors were given. Below a millisecond a
        row of 131,072 on one CPU core.

    Raises:
        UsageError: Shapes that differ; values that are negative, NaN or do not sum to 1; a
            negative or NaN divergence.
    """
    tensors = isinstance(draft, torch.Tensor)
    if tensors != isinstance(target, torch.Tensor):
        raise UsageError(
            "the draft and the target are of two kinds, expected two arrays or two tensors",
            hint="Convert one of them.",
            field="target",
        )
    if not tensors:
        return _on_host(np.asarray(draft), np.asarray(target), divergence)
    if isinstance(divergence, torch.Tensor):
        divergence = divergence.detach().cpu().numpy()
    if draft.device.type == "cpu" and target.device.type == "cpu":
        found = _on_host(_host(draft), _host(target), divergence)
        return torch.from_numpy(found)
    return _on_device(draft, target, divergence)


def _host(tensor: torch.Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = tensor.detach().to(torch.float64).numpy()
    return array


def _on_host(draft: NDArray[Any], target: NDArray[Any], divergence: Any) -> NDArray[np.float64]:
    _require_shapes(draft.shape, target.shape)
    limits = _limits(divergence, draft.shape[:-1])
    width = draft.shape[-1]
    p, q = _normalised("draft", draft, width), _normalised("target", target, width)
    return solve(p, q, limits.reshape(-1))[0].reshape(draft.shape)


def solve(
    draft: NDArray[np.float64], target: NDArray[np.float64], limits: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solve rows of laws that are known to be normalised, on the host.

    Cost: O(V) a row, below a millisecond for 131,072 events (``tests/benchmarks/drafts``).

    Args:
        draft, target: float64[B, V], rows of sum 1.
        limits: float64[B] divergences in nats, >= 0; inf is allowed.

    Returns:
        The laws, float64[B, V]; alpha, beta and KL(target || law) of each, float64[B, 3]: the law
        is clip(p, q / beta, q / alpha), where alpha 0 sets no upper bound and beta inf no lower
        one; (1, 1) is q. KL(target || law) <= limit.
    """
    laws, found = np.empty_like(draft), np.empty((len(draft), 3))
    library.mentored_rows(draft, target, limits, laws, found)
    return laws, found


def _on_device(draft: torch.Tensor, target: torch.Tensor, divergence: Any) -> torch.Tensor:
    _require_shapes(tuple(draft.shape), tuple(target.shape))
    if draft.device != target.device:
        raise UsageError(
            f"the draft is on {draft.device} and the target on {target.device}, expected one "
            "device",
            hint="Move one of them.",
            field="target",
        )
    limits = _limits(divergence, tuple(draft.shape[:-1])).reshape(-1)
    p, q = _normalised_rows("draft", draft), _normalised_rows("target", target)
    alpha, beta, _ = solve_rows(p, q, torch.from_numpy(limits).to(p.device))
    return values(p, q, alpha, beta).reshape(draft.shape)


def _require_shapes(draft: tuple[int, ...], target: tuple[int, ...]) -> None:
    if draft != target or not draft or draft[-1] == 0:
        raise UsageError(
            f"the draft has shape {draft} and the target {target}, expected one shape [..., V] "
            "with V >= 1",
            hint="Give both distributions over the same vocabulary, position by position.",
            field="target",
        )


def _limits(divergence: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the divergences as float64 of the leading shape."""
    try:
        limits = np.broadcast_to(np.asarray(divergence, dtype=np.float64), shape)
    except (TypeError, ValueError):
        raise UsageError(
            f"the divergence {divergence!r} is neither a number nor numbers that broadcast to "
            f"{shape}",
            hint="Give one number of nats, or one for every position.",
            option="divergence",
        ) from None
    wrong = ~(limits >= 0)
    if wrong.any():
        raise UsageError(
            f"a divergence of {limits[wrong].flat[0]}, expected at least 0 nats",
            hint="0 is lossless speculation; inf allows any law within the target's support.",
            option="divergence",
        )
    return np.ascontiguousarray(limits)


def _normalised(name: str, given: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Return float64[B, V], rows that sum to 1; raise UsageError on anything else."""
    rows = np.ascontiguousarray(given, dtype=np.float64).reshape(-1, width)
    sums = rows.sum(axis=1)
    _require_laws(name, sums, np.min(rows, axis=1, initial=0.0))
    off = np.abs(sums - 1.0) > _EXACT
    return rows / np.where(off, sums, 1.0)[:, None] if off.any() else rows


def _normalised_rows(name: str, given: torch.Tensor) -> torch.Tensor:
    rows = given.detach().to(torch.float64).reshape(-1, given.shape[-1])
    sums = rows.sum(dim=1)
    if len(rows):
        _require_laws(name, sums.cpu().numpy(), rows.amin(dim=1).cpu().numpy())
    off = (sums - 1.0).abs() > _EXACT
    return rows / torch.where(off, sums, 1.0)[:, None]


def _require_laws(name: str, sums: NDArray[np.float64], least: NDArray[np.float64]) -> None:
    wrong = ~((np.abs(sums - 1.0) <= TOLERANCE) & (least >= 0.0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UsageError(
            f"row {row + 1} of the {name} sums to {sums[row]:.9g} and its least value is "
            f"{min(least[row], 0.0):.9g}, expected probabilities >= 0 that sum to 1 within "
            f"{TOLERANCE:g}",
            hint="Give probabilities after the mask and its renormalisation, not logits.",
            field=name,
        )

"""The solver of mentored decoding: the law of most acceptance within a divergence.

``mentored_distribution`` is the public surface. On the host the compiled library solves; on a
device one sort a row and a fixed number of vector operations do: nothing waits for the device,
nothing depends on the values, so that a captured graph can replay it. The divergence is evaluated,
exactly, with alpha and then with beta at every ratio; that fixes the events at either bound, and
the rest is one equation in log beta, cut into parts ``_ROUNDS`` times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cdec.core.errors import UsageError
from cdec.core.native import library

SLACK = 1e-13
"""Share of 1 + limit that is left for rounding: it costs an acceptance of 3e-7 at most."""
HUGE = 1e100
FINEST = 5e-324
TINY = 1e-290
"""A positive target probability counts as at least this: quotients by it do not overflow."""
LARGEST = 1e290
"""Largest finite beta; a ratio beyond it counts as infinite."""
_ROUNDS = 3
_PARTS = 1 << 15
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class _Side:
    """Running sums of one side, at V + 1 places between the ratios of a row in rising order.

    Attributes:
        edges: float64[B, V] ratios, cut at 1 beyond the side's own.
        p, q: float64[B, V + 1] sums over the events outward of the place: below it on side 0,
            above it on side 1 (where p counts in what is lost outside the target's support).
        rest: float64[B, V + 1] sum of q log ratio over the side's events inward of the place.
        moved, cost: float64[B, V] as in the compiled library, with alpha or beta at the edge.
        sign: 1 on side 0, -1 on side 1.
    """

    edges: torch.Tensor
    p: torch.Tensor
    q: torch.Tensor
    rest: torch.Tensor
    moved: torch.Tensor
    cost: torch.Tensor
    sign: float

    def bounds(self, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the edges around each place."""
        last = self.edges.shape[1] - 1
        lower = self.edges.gather(1, (place - 1).clamp_min(0))
        return lower, self.edges.gather(1, place.clamp_max(last))

    def cost_at(self, x: torch.Tensor) -> torch.Tensor:
        """Return the side's exact cost at each moved mass of float64[B, N]."""
        knots = self.moved if self.sign > 0 else -self.moved
        place = torch.searchsorted(knots.contiguous(), (self.sign * x).contiguous())
        q, p = self.q.gather(1, place), self.p.gather(1, place)
        lower, upper = self.bounds(place)
        value = q / (p - self.sign * x).clamp_min(TINY)
        value = torch.clamp(value, lower, upper)
        return self.rest.gather(1, place) + q * value.log()


def solve_rows(
    p: torch.Tensor, q: torch.Tensor, limits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return alpha, beta and KL(q || pi) of each row, as ``solver.solve`` does.

    Args:
        p, q: float64[B, V] draft and target probabilities, rows normalised, on one device.
        limits: float64[B] divergences in nats on that device, >= 0, inf allowed.

    Returns:
        alpha, beta, spent: float64[B] each, on the device; spent <= limits.
    """
    slack = SLACK * (1.0 + limits.clamp_max(HUGE))
    goal = limits.clamp_max(HUGE) - slack
    lost = torch.where(q > 0, 0.0, p).sum(dim=1)
    low, high = _sides(p, q, lost)
    alpha, beta = _solve(low, high, goal[:, None])
    spent = measure(p, q, alpha, beta)
    strict = (spent > limits) | (goal <= 0)
    whole = _divergence(q, p)
    free = (lost == 0) & ((whole <= limits - slack) | torch.isinf(limits))
    free &= limits > 0
    alpha = torch.where(free, 0.0, torch.where(strict, 1.0, alpha))
    beta = torch.where(free, torch.inf, torch.where(strict, 1.0, beta))
    return alpha, beta, torch.where(free, whole, torch.where(strict, 0.0, spent))


def values(
    p: torch.Tensor, q: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    """Return pi, float64[B, V], of rows p and q and their alpha and beta, float64[B] each."""
    alpha, beta = alpha[:, None], beta[:, None]
    least = q.clamp_min(TINY)
    found = torch.maximum(p, least / beta)
    found = torch.where(alpha > 0, torch.minimum(found, least / alpha), found)
    found = torch.where((found > 0) | torch.isinf(beta), found, FINEST)
    found = torch.where(alpha < 1, found, q)
    return torch.where(q > 0, found, 0.0)


def measure(
    p: torch.Tensor, q: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    """Return KL(q || pi) of each row in nats, float64[B]; inf where pi = 0 < q."""
    return _divergence(q, values(p, q, alpha, beta))


def _divergence(q: torch.Tensor, pi: torch.Tensor) -> torch.Tensor:
    terms = q * (q.log() - pi.log())
    return torch.where(q > 0, terms, 0.0).sum(dim=1).clamp_min(0.0)


def _sides(p: torch.Tensor, q: torch.Tensor, lost: torch.Tensor) -> tuple[_Side, _Side]:
    """Sort every row by its ratio q / p and sum from both ends."""
    inside = q > 0
    share = q.clamp_min(TINY)
    # Events outside the target's support come first and weigh nothing.
    ratio = torch.where(inside, (share / p).clamp_max(LARGEST), 0.5 * TINY)
    ratio, order = ratio.sort(dim=1)
    share = torch.where(inside, share, 0.0).gather(1, order)
    p = torch.where(inside, p, 0.0).gather(1, order)
    columns = torch.stack([p, share, share * ratio.log()])
    below = ratio < 1
    low, high = columns * below, columns * ~below
    low_p, low_q, high_rest = _running(torch.stack([low[0], low[1], high[2]]))
    high_p, high_q, low_rest = _from_end(torch.stack([high[0], high[1], low[2]]))
    high_p = high_p + lost[:, None]
    return (
        _side(ratio.clamp_max(1.0), low_p, low_q, low_rest, 1.0),
        _side(ratio.clamp_min(1.0), high_p, high_q, high_rest, -1.0),
    )


def _side(
    edges: torch.Tensor, p: torch.Tensor, q: torch.Tensor, rest: torch.Tensor, sign: float
) -> _Side:
    # With the bound at an event's own ratio it does not matter on which side the event counts.
    outward = slice(0, -1) if sign < 0 else slice(1, None)
    p_here, q_here, rest_here = p[:, outward], q[:, outward], rest[:, outward]
    moved = sign * (p_here - q_here / edges)
    # Rounding must not turn the order of edges around.
    moved = moved.cummax(dim=1).values if sign > 0 else -(-moved).cummax(dim=1).values
    return _Side(edges, p, q, rest, moved, rest_here + q_here * edges.log(), sign)


def _solve(low: _Side, high: _Side, goal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return alpha and beta, float64[B], of cost at most ``goal``, float64[B, 1]."""
    cost_low = low.cost + high.cost_at(low.moved)
    place_low = (cost_low > goal).sum(dim=1, keepdim=True)
    cost_high = high.cost + low.cost_at(high.moved)
    met = (cost_high <= goal) & (high.moved > 0)
    # Where even the largest ratio met it, beta is that ratio: a cut infinite one.
    place_high = met.sum(dim=1, keepdim=True).clamp_max(met.shape[1] - 1)
    q_low, p_low = low.q.gather(1, place_low), low.p.gather(1, place_low)
    q_high, p_high = high.q.gather(1, place_high), high.p.gather(1, place_high)
    rest = low.rest.gather(1, place_low) + high.rest.gather(1, place_high)
    bounds = low.bounds(place_low)
    start, stop = (edge.log() for edge in high.bounds(place_high))
    # No mass below 0 is moved.
    most = (q_high / p_high.clamp_min(TINY)).clamp_min(1.0).log()
    stop = torch.minimum(stop, most)
    start = torch.minimum(start, stop)
    parts = torch.linspace(0.0, 1.0, _PARTS, dtype=goal.dtype, device=goal.device)
    for _ in range(_ROUNDS):
        grid = start + (stop - start) * parts
        alpha = _alpha(q_low, p_low, q_high * (-grid).exp() - p_high, bounds)
        cost = rest + q_high * grid + q_low * alpha.log()
        last = ((cost <= goal).sum(dim=1, keepdim=True) - 1).clamp_min(0)
        start, stop = grid.gather(1, last), grid.gather(1, (last + 1).clamp_max(_PARTS - 1))
    alpha = _alpha(q_low, p_low, q_high * (-start).exp() - p_high, bounds)
    alpha = torch.where(place_low == 0, 0.0, alpha)
    return alpha[:, 0], start.exp()[:, 0]


def _alpha(
    q: torch.Tensor, p: torch.Tensor, x: torch.Tensor, bounds: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Return the alpha that takes the mass x from events of sums p and q, within its bounds."""
    value = q / (p - x).clamp_min(TINY)
    return torch.clamp(value, bounds[0], bounds[1])


def _running(terms: torch.Tensor) -> torch.Tensor:
    """Return the sums of the first 0, 1, ... V terms along the last axis: float64[..., V + 1]."""
    if terms.is_cuda:
        return functional.pad(terms.cumsum(dim=-1), (1, 0))
    # A host sums one by one: many equal terms would drift, unless blocks are summed apart.
    width = terms.shape[-1]
    padded = functional.pad(terms, (0, -width % _BLOCK))
    blocks = padded.reshape(*terms.shape[:-1], -1, _BLOCK).cumsum(dim=-1)
    before = functional.pad(blocks[..., :-1, -1].cumsum(dim=-1), (1, 0))
    return functional.pad((blocks + before[..., None]).flatten(-2)[..., :width], (1, 0))


def _from_end(terms: torch.Tensor) -> torch.Tensor:
    """Return the sums of the last V, V - 1, ... 0 terms along the last axis."""
    return _running(terms.flip(-1)).flip(-1)


TOLERANCE = 1e-5
"""Largest distance of a distribution's sum from 1."""
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

    Cost: O(V) a row, below a millisecond for 131,072 events (``tools/benchmarks/drafts``).

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

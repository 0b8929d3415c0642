"""What the mentored solver costs a position at vocabulary 131,072, on one core, by kind of input.

Times are of one call of the compiled solver, warm: the best of several and their median. The public
function adds the checks of its input; the batched solver of ``torch_solver`` is timed as well
where a GPU is present (there a position is a row of a batch of 16).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cdec.samplers.mentored import mentored_distribution, solve, solve_rows

WIDTH = 131_072
LIMITS = (1e-6, 0.1)
TARGET_MS = 2.0
TARGET_GPU_MS = 0.2
_ROWS = 16
Law = NDArray[np.float64]


def measure(repeats: int = 30) -> dict[str, Any]:
    """Time the solver on every kind of input.

    Args:
        repeats: Timed calls of each case.

    Returns:
        ``milliseconds``: {kind: {limit: {"best", "median"}}} a position; ``public``: best and
        median of ``mentored_distribution`` on the first kind; ``device``: of a row of a batch on a
        GPU, or None; ``worst_median``, ``target``, ``target_device``: milliseconds.
    """
    pairs = inputs()
    times: dict[str, dict[str, dict[str, float]]] = {}
    for kind, (p, q) in pairs.items():
        times[kind] = {
            f"{limit:g}": _timed(
                lambda p=p[None], q=q[None], d=np.array([limit]): solve(p, q, d), repeats
            )
            for limit in LIMITS
        }
    p, q = pairs["softmax"]
    return {
        "vocabulary": WIDTH,
        "milliseconds": times,
        "worst_median": max(one["median"] for kind in times.values() for one in kind.values()),
        "public": _timed(lambda: mentored_distribution(p, q, 0.1), repeats),
        "device": _on_device(p, q, repeats) if torch.cuda.is_available() else None,
        "target": TARGET_MS,
        "target_device": TARGET_GPU_MS,
    }


def inputs() -> dict[str, tuple[Law, Law]]:
    """Return pairs (draft, target): what models give, and what is hard for bins."""
    generator = np.random.default_rng(0)
    base = generator.normal(size=WIDTH) * 3.0

    def near(scores: Law, scale: float) -> Law:
        return _softmax(scores + scale * generator.normal(size=WIDTH))

    flat = np.log(generator.dirichlet(np.ones(WIDTH)))
    masked = [near(base, 1.0) * (generator.random(WIDTH) < 0.5) for _ in range(2)]
    return {
        "softmax": (near(base, 1.0), near(base, 1.0)),
        "peaked softmax": (near(4 * base, 2.0), near(4 * base, 2.0)),
        "flat": (_softmax(flat), near(flat, 1.0)),
        "half zeros": (masked[0] / masked[0].sum(), masked[1] / masked[1].sum()),
        "one-hot draft": (np.eye(1, WIDTH, 3)[0], near(base, 1.0)),
        "one bin": (_softmax(flat), near(flat, 3e-3)),
        "two ratios": (_softmax(np.zeros(WIDTH)), _softmax(np.arange(WIDTH) % 2.0)),
    }


def _softmax(scores: Law) -> Law:
    weights: Law = np.exp(scores - scores.max())
    return weights / weights.sum()


def _timed(call: Callable[[], object], repeats: int) -> dict[str, float]:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return {"best": round(min(times), 3), "median": round(float(np.median(times)), 3)}


def _on_device(p: Law, q: Law, repeats: int) -> dict[str, float]:
    rows = [torch.from_numpy(np.stack([law] * _ROWS)).cuda() for law in (p, q)]
    limits = torch.full((_ROWS,), 0.1, dtype=torch.float64, device="cuda")

    def call() -> None:
        solve_rows(rows[0], rows[1], limits)
        torch.cuda.synchronize()

    return {name: round(ms / _ROWS, 4) for name, ms in _timed(call, repeats).items()}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))

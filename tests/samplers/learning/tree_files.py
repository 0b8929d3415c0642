"""Trees of toys on disk: growing one, and reading it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cdec.samplers.learning.rounds import Rounds
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from tests.laws.worlds import Toy


def grown(toy: Toy, path: Path, candidates: int, *, size: int = 4) -> dict[str, float | None]:
    """Grow the tree of a file by some candidates; return its bracket."""
    with Batch(toy.model(), [Request([1], toy.constraint, [7])]) as batch:
        rounds = Rounds(batch, size=size, max_walks=100, tree_cache=1 << 20, file=TreeFile(path))
        while rounds.drawn[0] < candidates:
            count = min(size, candidates - int(rounds.drawn[0]))
            for _ in rounds.draw(np.array([0]), np.array([count])):
                pass
        rounds.save()
        return batch.tree.bounds(0, int(batch.roots[0])).fields()


def reloaded(toy: Toy, path: Path) -> tuple[dict[str, float | None], int]:
    """Return the bracket of a file's tree before anything is drawn, and its candidates."""
    with Batch(toy.model(), [Request([1], toy.constraint, [8])]) as batch:
        rounds = Rounds(batch, size=4, max_walks=100, tree_cache=1 << 20, file=TreeFile(path))
        return batch.tree.bounds(0, int(batch.roots[0])).fields(), int(rounds.before[0])

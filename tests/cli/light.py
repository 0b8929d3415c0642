"""``cdec`` with a tabular model in the place of the embedded one: starts without torch.

Run as a script by the tests that kill processes and close pipes: ``light.py SECONDS WORDS...``,
where SECONDS is how long each batch takes to evaluate a root.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cdec.cli.app import main
from cdec.cli.runs import models
from cdec.compilers import compile_token_set
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary

ROWS = [[0], [0, 1], [2, 0], [2, 1, 0], [1, 2], [1, 2, 2]]


def vocabulary() -> Vocabulary:
    """Return the letters a, b, c and an end token; c is the two bytes of an e with acute."""
    return Vocabulary([b"a", b"b", "\u00e9".encode(), b""], [3], [3])


def compile_letters(path: Path) -> Path:
    """Compile the small set that the tests draw from."""
    compile_token_set(ROWS, vocabulary(), path, force=True)
    return path


def slow_model(seconds: float) -> TabularModel:
    """Return a uniform model that sleeps whenever it evaluates a prompt."""

    def uniform(prefix: tuple[int, ...]) -> list[float]:
        if not prefix:
            time.sleep(seconds)
        return [0.25] * 4

    return TabularModel(uniform, vocabulary())


if __name__ == "__main__":
    seconds = float(sys.argv[1])
    models.open_model = lambda options: slow_model(seconds)
    sys.exit(main(sys.argv[2:]))

"""A tabular world for workers, and what one process draws of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers import compile_token_set
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.records import RecordSampler

ROWS = [[0], [0, 1], [0, 1, 2], [1, 0, 2], [2, 1], [2, 1, 1]]


def letters() -> Vocabulary:
    """Three letters and an end."""
    return Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])


def artifact(folder: Path) -> Path:
    """Compile the set of this world."""
    path = folder / "letters.arrow"
    compile_token_set(ROWS, letters(), path)
    return path


def slow_model(
    seconds: float = 0.0, deadly: Path | None = None, poison: str = ""
) -> Callable[[], TabularModel]:
    """Return a function that makes the model in a worker; pickled by value, as it is a closure.

    Args:
        seconds: That a worker takes for the first token of a text.
        deadly: A file; where it is there, the process is killed by drawing.
        poison: What kills the process where a prompt holds it; "" for nothing.
    """
    tokens = [b"a", b"b", b"c", b""]

    def made() -> TabularModel:
        class Slow(TabularModel):
            def prefill(self, *given: Any, **more: Any) -> Any:
                time.sleep(seconds)
                if (deadly is not None and deadly.exists()) or (poison and poison in str(given)):
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().prefill(*given, **more)

        def probabilities(prefix: tuple[int, ...]) -> Any:
            h = 0
            for token in prefix:
                h = (5 * h + token + 1) % 23
            weights = np.array([1.0 + ((h * (t + 2) + 3 * t) % 7) for t in range(4)])
            return weights / weights.sum()

        vocabulary = Vocabulary(tokens, eos_token_ids=[3], special_token_ids=[3])
        return Slow(probabilities, vocabulary)

    return made


def prompts(count: int) -> list[dict[str, Any]]:
    """Records of a run: ids that are texts, ids that are numbers, and a bad one among them."""
    records: list[dict[str, Any]] = [
        {"id": i if i % 5 == 0 else f"q{i}", "prompt": f"the {i}th", "n": 1 + i % 3}
        for i in range(count)
    ]
    records[count // 2] = {"id": "bad", "prompt": 7}
    return records


def one_process(
    records: Sequence[Mapping[str, object]], model: Any, **settings: Any
) -> list[dict[str, Any]]:
    """Return what one process draws."""
    with RecordSampler(model, **settings) as sampler:
        return list(sampler.sample(records))


def lines(path: Path) -> list[Any]:
    """Return the records of a folder of part files, in their order."""
    return [json.loads(line) for file in sorted(path.glob("*.jsonl")) for line in file.open()]


def as_written(records: Iterable[Mapping[str, object]]) -> list[Any]:
    """Return records as they come back from a file."""
    import orjson

    return [orjson.loads(orjson.dumps(record)) for record in records]

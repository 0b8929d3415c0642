"""One engine replays the documents of one workload; prints one JSON object with its times.

    python -m tools.benchmarks.grammars.masks ENGINE TOKENIZER WORKLOAD

*Cold*: first pass over the documents in this process. *Warm*: each document after a pass over the
others; for cdec in a newly opened artifact each time, so that the document itself was never seen;
peers keep what they learnt in the cold pass, the same document included. A position costs the mask
written to its row plus the advance.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.benchmarks.grammars.engines import CLOCKS, Cdec, Engine, engine_of
from tools.benchmarks.grammars.workloads import shared_module, workloads
from tools.benchmarks.processes import peak_bytes

_REPEATS = 3
_SLOW_NS = 5_000_000_000
"""An engine whose cold pass takes longer repeats the warm one once."""


def measure(engine: Engine, documents: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Replay cold, then warm with the other documents before; nanoseconds by position."""
    first = [engine.replay(ids) for ids in documents]
    cold = [spent for times, _ in first for spent in times]
    passes = [warm_pass(engine, documents) for _ in range(_REPEATS if sum(cold) < _SLOW_NS else 1)]
    warm, (known, computed) = [times for times, _ in passes], passes[0][1]
    return {
        "cold_ns": cold,
        "warm_ns": np.min(warm, axis=0).tolist(),
        "failed": sum(position >= 0 for _, position in first),
        "documents": len(documents),
        "compile_ms": engine.compile_ms,
        "artifact_bytes": engine.artifact_bytes,
        "peak_bytes": peak_bytes(),
        "memo": f"{100 * known / max(known + computed, 1):.1f} % known",
    }


def warm_pass(
    engine: Engine, documents: Sequence[Sequence[int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replay each document after the others; nanoseconds by position, masks known and computed."""
    times: list[int] = []
    masks = np.zeros(2, np.int64)
    for held_out, ids in enumerate(documents):
        if engine.forgets:
            engine.restart()
            for other, others in enumerate(documents):
                if other != held_out:
                    engine.replay(others)
        before = engine.masks()
        times += engine.replay(ids)[0]
        masks += np.subtract(engine.masks(), before)
    return np.array(times), masks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("tokenizer", choices=["mistral32k", "tekken131k"])
    parser.add_argument("workload")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()
    workload = workloads()[arguments.workload]
    tok = shared_module("toks").Tok(arguments.tokenizer)
    documents = [tok.check(text) for text in workload["docs"]]
    engine = engine_of(arguments.engine, arguments.tokenizer, workload, arguments.clock)
    result = measure(engine, documents)
    if isinstance(engine, Cdec):
        result |= {"open_ms": engine.open_ms, "check_ns": engine.check_ns(documents)}
        result["cached_compile_ms"] = engine.compile(workload)
    print(json.dumps(result, default=str))


if __name__ == "__main__":
    main()

"""One engine takes schemas and their instances in turn; prints one JSON object for each schema.

    python -m tools.benchmarks.schemas.replay ENGINE TOKENIZER [--first N] [--clock cpu]

An instance is replayed in the tokenizer's own tokens of what ``json.dumps`` writes. *Cold*: the
first time in this process. *Warm*: again, three times, of which the least counts at each position.
A position costs the mask and the advance.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.benchmarks.grammars.engines import CLOCKS, Clock
from tools.benchmarks.schemas.cases import Case, benchmark
from tools.benchmarks.schemas.engines import WARM_UP, Engine, Refused, engine_of

_PASSES = 3


def measure(engine: Engine, case: Case, now: Clock) -> dict[str, Any]:
    """Compile a schema, replay its instances; nanoseconds, and which verdicts were wrong."""
    begun = now()
    try:
        recorded = engine.compile(case.source)
        compiled = now()
        engine.start()
        engine.fill()
    except Refused as error:
        return {"refused": str(error)[:300]}
    done = now()
    texts = [json.dumps(instance.data, ensure_ascii=False) for instance in case.instances]
    rows = [engine.tok.encode(text) for text in texts]
    first = [replay(engine, row, now) for row in rows]
    again = [[replay(engine, row, now)[0] for row in rows] for _ in range(_PASSES)]
    verdicts = [is_accepted for _, is_accepted in first]
    return {
        "recorded": recorded,
        "compile_ns": compiled - begun,
        "first_mask_ns": done - begun,
        "cold_ns": [spent for times, _ in first for spent in times],
        "warm_ns": [
            int(spent)
            for passes in zip(*again, strict=True)
            for spent in np.min(np.array(passes), axis=0)
        ],
        "wrong": [
            {"text": text, "expected": instance.valid, "description": instance.description}
            for text, instance, accepted in zip(texts, case.instances, verdicts, strict=True)
            if accepted is not instance.valid
        ],
    }


def replay(engine: Engine, row: Sequence[int], now: Clock) -> tuple[list[int], bool]:
    """Walk one text; return nanoseconds by position, and whether it is accepted."""
    times = []
    engine.start()
    for token in row:
        begun = now()
        engine.fill()
        spent = now() - begun
        if not engine.allows(token):
            return [*times, spent], False
        begun = now()
        engine.advance(token)
        times.append(spent + now() - begun)
    begun = now()
    engine.fill()
    times.append(now() - begun)
    return times, engine.may_end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("tokenizer", choices=["mistral32k", "tekken131k"])
    parser.add_argument("--first", type=int, default=0, help="schema to begin with")
    parser.add_argument("--schemas", type=int, default=1_000_000)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--megabytes", type=int, default=8192)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (arguments.megabytes << 20,) * 2)
    now = CLOCKS[arguments.clock]
    engine = engine_of(arguments.engine, arguments.tokenizer)
    # What is done once in a process is not counted to the first schema.
    warm_up = Case("warm-up", "", json.dumps(WARM_UP), [])
    measure(engine, warm_up, now)
    replay(engine, engine.tok.encode('{"a": "text", "b": 1.5}'), now)
    print(json.dumps({"ready": True}), flush=True)
    for number, case in enumerate(benchmark()):
        if arguments.first <= number < arguments.first + arguments.schemas:
            found = measure(engine, case, now)
            print(json.dumps({"name": case.name, "number": number, **found}), flush=True)


if __name__ == "__main__":
    main()

"""Draws of genlm-control under a pattern: AWRS within SMC, by an interpreter that has the package.

    PYTHON peer.py < asked.json > found.json

Paper: arXiv 2504.05410. Nothing of cdec is imported. ``found`` has for each run the particles of
all of its populations, texts as the bytes of their tokens in hex, with their log weights, and how
often the model was asked for a next-token distribution.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from genlm.control import AWRS, BoolFSA, PromptedLLM


async def _drawn(asked: dict[str, Any]) -> list[dict[str, Any]]:
    llm = PromptedLLM.from_name(asked["model"], backend="hf")
    llm.prompt_ids = asked["prompt_ids"]
    calls = 0
    plain = llm.batch_logw_next

    async def counted(contexts: Any) -> Any:
        nonlocal calls
        calls += len(contexts)
        return await plain(contexts)

    llm.batch_logw_next = counted
    pattern = BoolFSA.from_regex(asked["pattern"]).coerce(llm, f=b"".join)
    runs = []
    for run in range(asked["runs"]):
        calls, begin = 0, time.process_time()
        texts: list[list[str]] = []
        weights: list[float] = []
        while calls < asked["calls"]:
            sampler = AWRS(llm, pattern, seed=(run << 20) + calls)
            found = await sampler.smc(
                n_particles=asked["particles"], ess_threshold=0.5, max_tokens=asked["limit"]
            )
            for context, weight in zip(found.contexts, found.log_weights, strict=True):
                ends = len(context) > 0 and not isinstance(context[-1], bytes)
                if ends and weight > float("-inf"):
                    texts.append([bytes(token).hex() for token in context[:-1]])
                    weights.append(float(weight))
        seconds = time.process_time() - begin
        runs.append({"texts": texts, "weights": weights, "calls": calls, "seconds": seconds})
    return runs


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_drawn(json.load(sys.stdin)))))

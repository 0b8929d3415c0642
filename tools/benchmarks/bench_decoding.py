"""``make bench-decoding``: tokens a second of cdec beside ``generate`` of transformers.

    python -m tools.benchmarks.bench_decoding [--only NAME ...] [--batches N ...] [--output DIR]

All engines of a row draw in turn in one process, on the same module and prompts, so that what else
the machine does meets all alike; ``generate`` without a constraint is 1. Shown are medians of the
rounds' ratios, with the least and the most, and what cdec spends outside the module, a pass.
Models: stories260K and RWKV of the shared data, and the embedded one. Ten minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

from cdec.core import Vocabulary, load_model
from cdec.data.assets import embedded_model_path
from tests.shared import shared_folder
from tools.benchmarks.decoding.engines import Cdec, Engine, Generate, LLGuidance, XGrammar
from tools.benchmarks.decoding.workloads import Workloads, prompts, shared_model
from tools.benchmarks.report import machine, show
from tools.benchmarks.setting import Setting, parser_of

MODELS = ("stories260k", "embedded", "rwkv_tiny")
BATCHES = (1, 8, 32, 64)
PEERS = (XGrammar, LLGuidance)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
COLUMNS = ("model", "threads", "batch", "workload", "engine", "tokens/s", "of generate", "outside")


class Bench:
    """One model, its module in transformers, and its workloads.

    Args:
        name: In ``MODELS``. setting: Device and dtype. members: Of the set.
    """

    def __init__(self, name: str, setting: Setting, members: int) -> None:
        from transformers import AutoModelForCausalLM

        shared = shared_model(shared_folder(), name)
        path = str(embedded_model_path()) if shared is None else shared
        self.name = name
        self._path = path
        self.has_peers = name != "rwkv_tiny"
        how: dict[str, Any] = {"device": setting.device, "dtype": setting.dtype}
        if not self.has_peers:
            # It reads bytes, and has no tokenizer.
            how["vocabulary"] = Vocabulary([bytes([i]) for i in range(256)], eos_token_ids=[0])
        self.model = load_model(path, **how)
        # In the dtype of cdec's own: weights that are stored in half are slow on a processor.
        dtype = next(iter(self.model._module.parameters())).dtype  # type: ignore[attr-defined]
        module = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        self._module = module.to(setting.device).eval()
        self.workloads = Workloads(self.model, members)

    def engines(self, name: str, batch: int) -> list[Engine]:
        """Return those that draw a workload, ``generate`` without a constraint first."""
        workload, asked = self.workloads.named[name](batch), prompts(batch)
        texts: list[Any] = asked if self.has_peers else [list(text.encode()) for text in asked]
        engines: list[Engine] = [Generate(self._module, self.model, texts)]
        if workload.schemas and self.has_peers:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(self._path)
            width = self.model.vocabulary.width
            makers = [peer(tokenizer, width, workload.schemas) for peer in PEERS]
            engines += [Generate(self._module, self.model, texts, make) for make in makers]
        return [*engines, Cdec(self.model, workload, texts)]


def rows(bench: Bench, name: str, batch: int, arguments: argparse.Namespace) -> Iterator[list[Any]]:
    """Yield a row an engine: tokens a second, the ratio to ``generate``, and what is outside."""
    clock = CLOCKS[arguments.clock]
    engines = bench.engines(name, batch)
    speeds: list[list[float]] = []
    outside = []
    for seed in range(arguments.rounds + 1):
        found = []
        for engine in engines:
            began = clock()
            tokens = engine.draw(seed, arguments.tokens)
            found.append(tokens / (clock() - began))
            if isinstance(engine, Cdec):
                outside.append(1e3 * engine.outside / engine.passes)
        speeds.append(found)
    speeds, outside = speeds[1:], outside[1:]  # The first round warms up.
    for i, engine in enumerate(engines):
        ratios = [found[i] / found[0] for found in speeds]
        shown = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lost = f"{median(outside):.2f} ms" if isinstance(engine, Cdec) else ""
        yield [name, engine.name, median(found[i] for found in speeds), shown, lost]


def main() -> None:
    parser = parser_of(__doc__, has_model=False)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--only", nargs="+", help="workloads")
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--clock", default="wall", choices=CLOCKS, help="cpu on a busy machine")
    parser.add_argument("--members", type=int, default=1_000_000, help="of the set")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    parser.add_argument("--dtype", help="auto, float32, bfloat16, ...")
    arguments = parser.parse_args()
    setting = Setting.of(arguments)
    print(machine())
    found = []
    for model in arguments.models:
        if model != "embedded" and shared_model(shared_folder(), model) is None:
            print(f"{model}: left out, no shared data at {shared_folder()}: set CDEC_SHARED")
            continue
        bench = Bench(model, setting, arguments.members)
        for name in arguments.only or bench.workloads.named:
            for threads in arguments.threads:
                torch.set_num_threads(threads)
                for batch in arguments.batches:
                    for row in rows(bench, name, batch, arguments):
                        found.append([model, threads, batch, *row])
                        print(" | ".join(map(str, found[-1])), flush=True)
    show("tokens a second", COLUMNS, found)
    print(setting.save("decoding", [dict(zip(COLUMNS, row, strict=True)) for row in found]))


if __name__ == "__main__":
    main()

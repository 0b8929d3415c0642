"""``make bench-candidates``: what DISC pays for K: candidates, calls of the model and seconds.

    python -m tools.benchmarks.bench_candidates [--prompts N] [--repeats N] [--output DIR]

On toys A and B, on JSON with the embedded prompts and on the shipped questions, for K = 1 to 128:
candidates needed (mean of ``draws``), calls and seconds a prompt. Of the toys Theorem 3.1 of DISC
(arXiv 2504.09135) gives the first. Seconds are the best of several runs. Some minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
import orjson

from cdec.compilers import grammar_constraint, set_constraint
from cdec.core import CdecError
from cdec.data.assets import entity_list, evaluation_prompts, grammar_path
from cdec.integrations.findings.decoding import BATCH, shipped
from cdec.samplers import SAMPLERS, Request
from tests.laws.worlds import toy_a, toy_b
from tools.benchmarks.report import run_parts, show
from tools.benchmarks.setting import Setting, parser_of

TRIES = (1, 4, 32, 128)
PARTS = ("toys", "json", "questions")
COLUMNS = ("K", "accepted", "candidates", "calls", "tokens", "ms (processor)", "ms (elapsed)")


def measured(
    model: Any, constraint: Any, prompts: list[Any], tries: int, repeats: int
) -> list[float]:
    """Return what one text a prompt takes, means a prompt: the figures of ``COLUMNS`` after K."""
    best: list[float] = []
    for _ in range(repeats):
        begin = time.process_time(), time.perf_counter()
        records = []
        for first in range(0, len(prompts), BATCH):
            some = prompts[first : first + BATCH]
            asked = [Request(each, constraint, [first + i]) for i, each in enumerate(some)]
            for drawn in SAMPLERS["disc"](K=tries).draw_batch(model, asked):
                if isinstance(drawn, CdecError):
                    raise drawn
                records.append(drawn[0].diagnostics)
        spent = time.process_time() - begin[0], time.perf_counter() - begin[1]
        names = ("accepted", "draws", "target_calls", "target_tokens")
        means = [float(np.mean([record[name] for record in records])) for name in names]
        times = [1000 * seconds / len(prompts) for seconds in spent]
        earlier = best[-2:] or times
        best = [*means, *(min(pair) for pair in zip(times, earlier, strict=True))]
    return best


def _toys(setting: Setting, arguments: argparse.Namespace) -> None:
    figures = {}
    for name, toy in (("A", toy_a()), ("B", toy_b())):
        prompts: list[list[int]] = [[] for _ in range(500)]
        # A model keeps what it has evaluated only while prompts are open.
        figures[name] = _table(f"toy {name}", toy.model(), toy.constraint, prompts, arguments)
    print(setting.save("candidates-toys", figures))


def _json(setting: Setting, arguments: argparse.Namespace) -> None:
    model = setting.target()
    constraint = grammar_constraint(grammar_path("json").read_text("utf-8"), model.vocabulary)
    lines = evaluation_prompts("json").read_bytes().splitlines()
    prompts = [orjson.loads(line)["prompt"] for line in lines][: arguments.prompts]
    figures = _table("JSON with the embedded prompts", model, constraint, prompts, arguments)
    print(setting.save("candidates-json", figures, prompts=len(prompts)))


def _questions(setting: Setting, arguments: argparse.Namespace) -> None:
    model, prompts = setting.target(), list(shipped("facts").subset(arguments.prompts).texts)
    members = entity_list("facts").read_text(encoding="utf-8").splitlines()
    constraint = set_constraint(members, model.vocabulary)
    figures = _table("the shipped questions", model, constraint, prompts, arguments)
    print(setting.save("candidates-questions", figures, prompts=len(prompts)))


def _table(
    name: str, model: Any, constraint: Any, prompts: list[Any], arguments: argparse.Namespace
) -> list[Any]:
    measured(model, constraint, prompts[:BATCH], 1, 1)  # warm up
    rows = [
        (tries, *measured(model, constraint, prompts, tries, arguments.repeats))
        for tries in arguments.tries
    ]
    show(f"{name}: means of {len(prompts)} prompts", COLUMNS, rows)
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--prompts", type=int, default=64, help="prompts of JSON and questions")
    parser.add_argument("--tries", type=int, nargs="+", default=TRIES, help="values of K")
    parser.add_argument("--repeats", type=int, default=3, help="runs, the fastest of which counts")
    arguments = parser.parse_args()
    setting = Setting.of(arguments)
    parts = {"toys": _toys, "json": _json, "questions": _questions}
    run_parts(
        arguments.only,
        {name: partial(each, setting, arguments) for name, each in parts.items()},
        set(),
    )


if __name__ == "__main__":
    main()

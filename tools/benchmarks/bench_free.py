"""``make bench-free``: what free text before a constraint costs beside texts without one.

    python -m tools.benchmarks.bench_free [--tokens N] [--repeats N] [--output DIR]

For batches of 1 and 16 prompts, the two in turn: unconstrained texts; free text of as many tokens
whose marker never comes; and free text that is forced into its marker and goes on with a city, in
texts of the same lengths. The model is kept from ending its texts. Some minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from cdec.compilers import set_constraint
from cdec.core import CdecError, FreeText
from cdec.samplers import SAMPLERS, Request
from tools.benchmarks.report import run_parts, show
from tools.benchmarks.setting import Setting, parser_of

BATCHES = (1, 16)
MARKER = "@@never@@"
COLUMNS = ("batch", "unconstrained", "free text", "ratio", "and a member", "whole ratio")


def endless(model: Any) -> Any:
    """Return a model that ends no text of its own."""
    forward, ends = model._forward, list(model.vocabulary.eos_token_ids)

    def held(nodes: Any) -> Any:
        scores = forward(nodes)
        scores[:, ends] = -1e9
        return scores

    model._forward = held
    return model


def spent(
    setting: Setting, model: Any, prompts: Sequence[str], seed: int, most: int | None, **asked: Any
) -> tuple[float, int]:
    """Return the seconds a token of one text a prompt, and the tokens of the longest."""
    is_held = asked.get("constraint") is not None
    requests = [
        Request.numbered(prompt, id=i, n=1, seed=seed, max_new_tokens=most, **asked)
        for i, prompt in enumerate(prompts)
    ]
    begin = setting.seconds()
    found = SAMPLERS["masked" if is_held else "unconstrained"]().draw_batch(model, requests)
    seconds = setting.seconds() - begin
    lengths = []
    for samples in found:
        if isinstance(samples, CdecError):
            raise samples
        lengths.append(len(samples[0].token_ids))
    return seconds / sum(lengths), max(lengths)


def _decoding(setting: Setting, arguments: argparse.Namespace) -> None:
    model = endless(setting.target())
    cities = set_constraint(["Paris", "Rome", "Madrid", "Berlin"], model.vocabulary)
    never = {"constraint": cities, "free": FreeText(after=(MARKER,))}
    forced = {"constraint": cities, "free": FreeText(after=(MARKER,), budget=arguments.tokens)}
    rows = []
    for batch in BATCHES:
        prompts = [f"Question: What is the capital of country {i}?\nAnswer:" for i in range(batch)]
        times = []
        for seed in range(arguments.repeats + 1):
            own = setting, model, prompts, seed
            plain, _ = spent(*own, arguments.tokens, constraint=None)
            free, _ = spent(*own, arguments.tokens, **never)
            whole, longest = spent(*own, None, **forced)
            beside, _ = spent(*own, longest, constraint=None)
            times.append((plain, free, free / plain, whole, whole / beside))
        # The first round warms up.
        plain, free, ratio, whole, whole_ratio = np.median(times[1:], 0).tolist()
        rows.append((batch, 1e3 * plain, 1e3 * free, ratio, 1e3 * whole, whole_ratio))
    title = f"milliseconds a token, {arguments.tokens} tokens of free text; ratios are paired"
    show(title, COLUMNS, rows)
    figures = [dict(zip(COLUMNS, row, strict=False)) for row in rows]
    print(setting.save("free", figures, tokens=arguments.tokens, repeats=arguments.repeats))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=64, help="tokens of free text")
    parser.add_argument(
        "--repeats", type=int, default=12, help="rounds, of which medians are shown"
    )
    arguments = parser.parse_args()
    setting = Setting.of(arguments)
    run_parts(["decoding"], {"decoding": lambda: _decoding(setting, arguments)}, set())


if __name__ == "__main__":
    main()

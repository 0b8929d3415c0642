"""What ``classify`` costs beside the evaluation of the distinct prefixes of its labels alone.

``python -m tools.benchmarks.bench_classify [--labels N] [--prompts N] [--model NAME]`` prints a
table: seconds of processor time (elapsed ones on a device) of ``classify``, of ``evaluate`` on the
same prefixes in passes of one length, and of scoring each label by itself (on some prompts, in
passes of 256 rows). The labels are drawn from the shipped entity list, the prompts are the shipped
questions. Blocks of prompts take turns, so that what else runs on the machine meets all alike.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from cdec.compilers import set_constraint
from cdec.core import LanguageModel
from cdec.data.assets import entity_list, evaluation_prompts
from cdec.samplers import classify
from cdec.samplers.scoring.labels import LabelTrie
from tools.benchmarks import report
from tools.benchmarks.setting import Setting, parser_of

BLOCK = 10
"""Prompts that are classified together."""
ROWS = 256


def evaluate_prefixes(
    model: LanguageModel, rows: Sequence[Sequence[int]], prompts: list[str]
) -> int:
    """Evaluate every distinct prefix of the rows after each prompt; return how many there are."""
    levels: list[list[tuple[int, ...]]] = [[()]]
    while following := sorted({tuple(r[: len(levels)]) for r in rows if len(r) >= len(levels)}):
        levels.append(following)
    roots = model.prefill(prompts)
    contexts: dict[tuple[int, ...], Any] = {(): roots}
    evaluated = 0
    for level in levels:
        if level[0]:
            tokens = np.repeat([prefix[-1] for prefix in level], len(roots))
            above = np.concatenate([contexts[prefix[:-1]] for prefix in level])
            parts = np.split(model.advance(above, tokens), len(level))
            contexts |= dict(zip(level, parts, strict=True))
        nodes = np.sort(np.concatenate([contexts[prefix] for prefix in level]))
        for start in range(0, len(nodes), ROWS):
            model.evaluate(nodes[start : start + ROWS])
        evaluated += len(nodes)
    model.release(roots)
    return evaluated


def score_each(model: LanguageModel, rows: Sequence[Sequence[int]], prompt: str) -> int:
    """Run every label of one prompt through the model by itself; return the passes' tokens."""
    import torch

    module: Any = model._module  # type: ignore[attr-defined]
    start, tokens = model.encode_prompt(prompt), 0
    ordered = sorted(rows, key=len)
    for first in range(0, len(ordered), ROWS):
        some = ordered[first : first + ROWS]
        width = max(map(len, some))
        batch = [[*start, *row, *[0] * (width - len(row))] for row in some]
        with torch.no_grad():
            logits = module(torch.tensor(batch, device=module.device)).logits[:, len(start) - 1 :]
            torch.log_softmax(logits.float(), -1)
        tokens += sum(map(len, batch))
    return tokens


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--apart", type=int, default=2, help="prompts whose labels go one by one")
    arguments = parser.parse_args()
    setting = Setting.of(arguments)
    model = setting.target()
    members = entity_list("facts").read_text(encoding="utf-8").splitlines()
    labels = random.Random(0).sample(members, arguments.labels)
    lines = evaluation_prompts("facts").read_bytes().splitlines()[: arguments.prompts]
    prompts = [orjson.loads(line)["prompt"] for line in lines]
    constraint = set_constraint(labels, model.vocabulary)
    tokens, offsets = constraint.member_rows() or (np.zeros(0), np.zeros(1))
    rows = [part.tolist() for part in np.split(tokens, offsets[1:-1])]
    trie = LabelTrie.of(constraint)
    # What is compiled at first use, and the model's first pass, are nobody's.
    classify(model, constraint, prompts[:1])
    evaluate_prefixes(model, rows, prompts[:1])
    seconds = {"classify": 0.0, "evaluate": 0.0, "each label by itself": 0.0}
    evaluations = 0
    for first in range(0, len(prompts), BLOCK):
        block = prompts[first : first + BLOCK]
        begin = setting.seconds()
        evaluations += evaluate_prefixes(model, rows, block)
        middle = setting.seconds()
        found = classify(model, constraint, block)
        end = setting.seconds()
        assert sum(each.distinct_evaluations for each in found) == len(block) * len(trie.parent)
        seconds["evaluate"] += middle - begin
        seconds["classify"] += end - middle
    begin = setting.seconds()
    for prompt in prompts[: arguments.apart]:
        score_each(model, rows, prompt)
    apart = (setting.seconds() - begin) * len(prompts) / max(1, arguments.apart)
    seconds["each label by itself"] = apart
    figures = [
        {"way": way, "seconds": spent, "of_evaluate": spent / seconds["evaluate"]}
        for way, spent in seconds.items()
    ]
    title = f"{len(labels)} labels x {len(prompts)} prompts, {evaluations:,} distinct prefixes"
    table = [[row["way"], row["seconds"], row["of_evaluate"]] for row in figures]
    print(report.machine())
    report.show(title, ["way", "seconds", "of evaluate"], table)
    setting.save("classify", figures, labels=len(labels), prompts=len(prompts))


if __name__ == "__main__":
    main()

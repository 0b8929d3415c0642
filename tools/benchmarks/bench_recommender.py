"""``make bench-recommender``: the next item of a user by semantic ids, as Markdown.

    python -m tools.benchmarks.bench_recommender [--users N] [--folder DIR] [--output DIR]

The 50 best next items of users, by a small model of items' codes that ``--folder`` holds, or that
is trained here (``tools.training.recommender``): beams over the set of all items, best first over
it with certified bounds, and beams that nothing holds to the catalogue. Needs the shared data.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdec.compilers import regex_constraint, set_constraint
from cdec.core import LanguageModel, load_model
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.base import Sampler
from tests.shared import shared_folder
from tools.benchmarks import report
from tools.benchmarks.setting import Setting, parser_of
from tools.training import recommender

WIDTH, AT, BATCH = 50, 10, 16
_CODES = re.compile(r"(?:<[a-z]_\d+>){3}")
_ANY = r"<a_\d+><b_\d+><c_\d+>,"
HOW: dict[str, tuple[str, dict[str, Any], str]] = {
    "beam, items": ("beam", {"beams": WIDTH}, "items"),
    "topn, items": ("topn", {}, "items"),
    "beam, any three codes": ("beam", {"beams": WIDTH}, "codes"),
}
"""Name → method, its options, and what it is held to."""


def measured(
    found: Sequence[Sequence[str]], targets: Sequence[str], items: set[str]
) -> dict[str, float]:
    """Return hits and nDCG at 10, and the share of lists' first 10 and 50 that are no items."""
    ranks = [
        listed.index(target) if target in listed else WIDTH
        for listed, target in zip(found, targets, strict=True)
    ]
    near = [rank for rank in ranks if rank < AT]
    illegal = [[text not in items for text in listed] for listed in found]
    return {
        "hits@10": len(near) / len(ranks),
        "nDCG@10": sum(1 / math.log2(2 + rank) for rank in near) / len(ranks),
        "illegal of 10": sum(sum(row[:AT]) for row in illegal) / (AT * len(ranks)),
        "illegal of 50": sum(map(sum, illegal)) / (WIDTH * len(ranks)),
    }


def listed_by(
    model: LanguageModel, sampler: Sampler, constraint: Any, users: Sequence[dict[str, str]]
) -> list[list[str]]:
    """Return the best next items of every user, the most probable first."""
    found: list[list[str]] = []
    for first in range(0, len(users), BATCH):
        requests = [
            Request.numbered(
                user["prompt"],
                constraint,
                id=user["id"],
                n=WIDTH,
                seed=0,
                max_new_tokens=8,
            )
            for user in users[first : first + BATCH]
        ]
        for samples in sampler.draw_batch(model, requests):
            assert not isinstance(samples, Exception), samples
            texts = [sample.text or "" for sample in samples]
            # Of a set the comma is the suffix, no part of the text.
            found.append([text.removesuffix(",") for text in texts])
    return found


def main() -> None:
    """Train if need be, list, measure, print and save."""
    parser = parser_of(__doc__, has_model=False)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="of a trained recommender")
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    print(f"{report.machine()}\n")
    folder = arguments.folder or arguments.output / "recommender"
    if not (folder / "model").is_dir():
        recommender.write(shared_folder(), folder, epochs=arguments.epochs, seed=0)
    model = load_model(str(folder / "model"))
    with (folder / "items.tsv").open(newline="") as lines:
        items = [row["codes"] for row in csv.DictReader(lines, delimiter="\t")]
    users = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    users = users[: arguments.users]
    codes = sorted(set(items))
    held = {
        "items": set_constraint(codes, model.vocabulary, suffix=",", leading_space="never"),
        "codes": regex_constraint(_ANY, model.vocabulary),
    }
    setting, figures = Setting(), {}
    print("| | hits@10 | nDCG@10 | no items among 10 | among 50 | ms a user |")
    print("|---|---|---|---|---|---|")
    for how, (method, options, to) in HOW.items():
        begin = setting.seconds()
        found = listed_by(model, SAMPLERS[method](**options), held[to], users)
        each = 1e3 * (setting.seconds() - begin) / len(users)
        row = measured(found, [user["target"] for user in users], set(items))
        figures[how] = row | {"ms": each}
        cells = [f"{row['hits@10']:.3f}", f"{row['nDCG@10']:.3f}"]
        cells += [f"{row[name]:.1%}" for name in ("illegal of 10", "illegal of 50")]
        print(f"| {how} | {' | '.join(cells)} | {each:.1f} |", flush=True)
    report.save(arguments.output / "recommender.json", figures, users=len(users))


if __name__ == "__main__":
    main()

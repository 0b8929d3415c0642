"""Exact match and time of every method, in the shape of arXiv 2504.09135, Tables 2 and 6.

``python -m tools.benchmarks.bench_accuracy [--prompts N] [--repeats R] [--model NAME]`` prints
Markdown. The tasks: the shipped evaluation prompts over the shipped entity list; and, where the
shared data is present, held-out WordNet glosses over 128,044 lemmas and DBpedia-Entity queries over
91,087 Wikipedia titles. Every method decodes the same prompts at temperature 1, ``--repeats`` times
with other seeds where it draws at random; a figure is the mean of the repeats.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from cdec.compilers import compile_set
from cdec.core import CdecError, LanguageModel, Sample, open_artifact
from cdec.data.assets import entity_list, evaluation_prompts
from cdec.samplers import SAMPLERS, Request
from tests.shared import shared_folder
from tools.benchmarks.files import read_jsonl, read_lines
from tools.benchmarks.setting import Setting, parser_of

BATCH = 64

METHODS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("unconstrained (one draw)", "unconstrained", {}, True),
    ("greedy, masked", "greedy", {}, False),
    ("masked (trie)", "masked", {}, True),
    ("DISC K = 1", "disc", {"K": 1}, True),
    ("DISC K = 2", "disc", {"K": 2}, True),
    ("DISC K = 3", "disc", {"K": 3}, True),
    ("DISC K = 4", "disc", {"K": 4}, True),
    ("beam 2", "beam", {"beams": 2}, False),
    ("DISC K = 1, beam 2", "disc", {"K": 1, "beams": 2}, True),
    ("DISC K = 4, beam 2", "disc", {"K": 4, "beams": 2}, True),
]


@dataclass(frozen=True)
class Task:
    """Prompts with their right answers, and the set the answers come from."""

    name: str
    members: list[str]
    prompts: list[str]
    answers: list[set[str]]


def facts() -> Task:
    """The shipped questions over the shipped entity list."""
    rows = [orjson.loads(line) for line in evaluation_prompts("facts").read_bytes().splitlines()]
    members = entity_list("facts").read_text(encoding="utf-8").splitlines()
    prompts = [row["prompt"] for row in rows]
    return Task("shipped questions", members, prompts, [{row["answer"]} for row in rows])


def glosses(shared: Path) -> Task:
    """Glosses of held-out synsets over all lemmas of Open English WordNet."""
    folder = shared / "data" / "wordnet"
    members = read_lines(folder / "lemmas.txt.xz")
    known = set(members)
    prompts, answers = [], []
    for row in read_jsonl(folder / "synsets.jsonl.xz"):
        held_out = int(hashlib.sha256(row["id"].encode()).hexdigest(), 16) % 10 == 0
        if held_out and known.intersection(row["members"]):
            prompts.append(f"Definition: {row['definition']}\nWord:")
            answers.append(set(row["members"]))
    return Task("gloss to lemma", members, prompts, answers)


def titles(shared: Path) -> Task:
    """DBpedia-Entity queries over Wikipedia titles; any title judged relevant counts."""
    folder = shared / "data"
    members = read_lines(folder / "entity_sets" / "wikipedia_titles_93k.txt.xz")
    prompts, answers = [], []
    for row in read_jsonl(folder / "dbpedia_entity" / "queries_qrels.jsonl.xz"):
        prompts.append(f"Question: {row['query']}\nAnswer:")
        answers.append({title for title, grade in row["qrels"].items() if grade > 0})
    return Task("DBpedia-Entity query to title", members, prompts, answers)


def subset(task: Task, count: int) -> Task:
    """Return ``count`` prompts spread evenly over the task."""
    rows = np.linspace(0, len(task.prompts) - 1, min(count, len(task.prompts))).astype(int)
    prompts, answers = task.prompts, task.answers
    return Task(task.name, task.members, [prompts[i] for i in rows], [answers[i] for i in rows])


def draw_all(
    sampler: Any, model: LanguageModel, constraint: Any, prompts: list[str], seed: int
) -> list[Sample]:
    """Draw one text a prompt, ``BATCH`` prompts at a time."""
    rng = np.random.default_rng(seed)
    samples: list[Sample] = []
    for first in range(0, len(prompts), BATCH):
        requests = [
            Request(prompt, constraint, [int(rng.integers(2**53))])
            for prompt in prompts[first : first + BATCH]
        ]
        for drawn in sampler.draw_batch(model, requests):
            if isinstance(drawn, CdecError):
                raise drawn
            samples.append(drawn[0])
    return samples


def measure(task: Task, model: LanguageModel, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield a row a method: shares of exact matches and of members, calls, milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set.arrow"
        compile_set(task.members, model.vocabulary, path)
        constraint = open_artifact(path, vocabulary=model.vocabulary)
        for label, name, options, is_random in METHODS:
            sampler = SAMPLERS[name](**options)
            draw_all(sampler, model, constraint, task.prompts[:BATCH], seed=0)  # warm up
            right, valid, calls, seconds = [], [], [], []
            for seed in range(repeats if is_random else 1):
                begin = time.perf_counter()
                samples = draw_all(sampler, model, constraint, task.prompts, seed)
                seconds.append(time.perf_counter() - begin)
                pairs = list(zip(samples, task.answers, strict=True))
                right.append(np.mean([sample.text.strip() in answers for sample, answers in pairs]))
                valid.append(np.mean([bool(sample.valid) for sample in samples]))
                calls.append(np.mean([sample.diagnostics["target_calls"] for sample in samples]))
            yield {
                "method": label,
                "exact_match": float(np.mean(right)),
                "in_the_set": float(np.mean(valid)),
                "target_calls": float(np.mean(calls)),
                "milliseconds": float(1000 * np.mean(seconds) / len(task.prompts)),
            }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--prompts", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    setting = Setting.of(arguments)
    model = setting.target()
    shared = shared_folder()
    tasks: list[Callable[[], Task]] = [facts]
    if (shared / "data").is_dir():
        tasks += [lambda: glosses(shared), lambda: titles(shared)]
    figures: dict[str, list[dict[str, Any]]] = {}
    for build in tasks:
        task = subset(build(), arguments.prompts)
        print(f"\n**{task.name}**: {len(task.prompts)} prompts, {len(task.members):,} members\n")
        print("| method | exact match, % | in the set, % | model calls a prompt | ms a prompt |")
        print("|---|---|---|---|---|")
        figures[task.name] = []
        for row in measure(task, model, arguments.repeats):
            print(
                f"| {row['method']} | {100 * row['exact_match']:.1f} "
                f"| {100 * row['in_the_set']:.1f} | {row['target_calls']:.1f} "
                f"| {row['milliseconds']:.1f} |",
                flush=True,
            )
            figures[task.name].append(row)
    setting.save("accuracy", figures)


if __name__ == "__main__":
    main()

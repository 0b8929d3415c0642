"""Trains task models: ``python -m tools.training.tasks --shared ../shared --out FOLDER``.

Each task gets a folder with the model, ``training.json``, ``card.json`` and ``README.md``. One that
was trained before is not trained again, and one that has a card is left alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cdec.core.models.loading import load_model
from tools.training.__main__ import keep_freed_memory
from tools.training.tasks.cards import CARD, write_card, write_summary
from tools.training.tasks.examples import Data, chosen
from tools.training.tasks.learning import EMBEDDED, SCRATCH, learn, processor_seconds
from tools.training.tasks.measuring import measure
from tools.training.tasks.table import TASKS, Task
from tools.training.training import Plan

_TRAINING = "training.json"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.training.tasks", description=__doc__)
    parser.add_argument("--shared", type=Path, required=True, help="folder that holds data/")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--only", action="append", choices=TASKS, metavar="NAME", help="of a task")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time a task")
    parser.add_argument("--max-steps", type=int, help="then runs repeat exactly")
    parser.add_argument("--start", choices=(EMBEDDED, SCRATCH), default=EMBEDDED)
    parser.add_argument("--shape", help="in the place of the tasks' own")
    parser.add_argument("--learning-rate", type=float, help="peak, in the place of the tasks' own")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=200, help="measured on; 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--force", action="store_true", help="train and measure anew")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Train, measure, and write everything under ``--out``.

    Args:
        arguments: Command line without the program's name; None reads ``sys.argv``.

    Returns:
        Exit status.
    """
    import torch

    options = parse(arguments)
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    for name in options.only or TASKS:
        folder = options.out / name
        if options.force or not (folder / CARD).is_file():
            print(name, flush=True)
            data = TASKS[name].source(options.shared)
            trained = _trained(name, data, folder, options)
            write_card(folder, _card(name, data, folder, trained, options))
    print(write_summary(options.out), end="")
    return 0


def _trained(name: str, data: Data, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return what the training measured; the folder's, if it has been there."""
    path = folder / _TRAINING
    if path.is_file() and not options.force:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept
    shape = options.shape or TASKS[name].shape
    plan = Plan(
        seconds=options.minutes * 60,
        max_steps=options.max_steps,
        batch_tokens=options.batch_tokens,
        learning_rate=options.learning_rate or TASKS[name].learning_rate,
        long_share=0.0,
        warmup=20,
        clock=processor_seconds,
    )
    learnt = learn(data, folder, plan, shape=shape, start=options.start, seed=options.seed)
    settings = {
        "start": options.start,
        "shape": shape,
        "minutes": options.minutes,
        "learning_rate": plan.learning_rate,
        "batch_tokens": plan.batch_tokens,
        "seed": options.seed,
    }
    found = {"settings": settings, "learnt": asdict(learnt)}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def _card(
    name: str,
    data: Data,
    folder: Path,
    trained: Mapping[str, Any],
    options: argparse.Namespace,
) -> dict[str, Any]:
    task: Task = TASKS[name]
    learnt = dict(trained["learnt"])
    examples = chosen(data.held_out, options.rows)
    measured = measure(
        load_model(str(folder)),
        task.constraint(data, examples),
        examples,
        task.metrics,
        task.methods,
        max_new_tokens=task.length,
        fit=task.fit,
        seed=options.seed,
    )
    return {
        "task": name,
        **trained["settings"],
        "processor_seconds": learnt.pop("seconds"),
        **learnt,
        "held_out_questions": len(data.held_out),
        "measured_rows": len(examples),
        "constraint": task.said,
        "metrics": task.metrics,
        "measured": measured,
        "licence": task.licence,
    }


if __name__ == "__main__":
    raise SystemExit(main())

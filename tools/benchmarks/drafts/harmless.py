"""The right half of the lookahead paper's Table 1, in shape: replies that a classifier likes.

Prompts are held-out conversations of HH-RLHF; the reward is a small classifier trained on the other
pairs, the judge a second one of another seed. The conversations hold offensive text: none of it,
and none of what is generated, is printed or written, only numbers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cdec.integrations.findings import judged
from cdec.integrations.findings.decoding import Prompts
from cdec.integrations.findings.method_rows import (
    LOOKAHEAD,
    Method,
    Task,
    columns,
    cost_ratios,
    measure,
    plain_methods,
)
from cdec.samplers.rewards import build_reward
from tests.shared import shared_folder
from tools.benchmarks.drafts.common import save
from tools.benchmarks.processes import side_by_side
from tools.benchmarks.report import show
from tools.benchmarks.rewards import training
from tools.benchmarks.setting import Setting

THRESHOLD = 0.05
_LENGTH, _LONGEST_PROMPT, _BEAMS = judged.LENGTH, 300, 5
_SEEDS = (1, 2)
_JUDGED = ("reward", "judge", "judged harmless")


def run(
    setting: Setting, rewards: Path | None = None, rows: int = 60, pairs: int | None = None
) -> dict[str, Any]:
    """Train what is not there, measure, print and save.

    Args:
        setting: The models, and where the figures go.
        rewards: Folder with the models ``1`` (reward) and ``2`` (judge), trained into it if they
            are missing; a temporary one if None.
        rows: Held-out conversations.
        pairs: Pairs to train on; all if None.

    Returns:
        ``training`` reports, ``rows`` of the table.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = rewards or Path(temporary)
        reports = train(setting, folder, pairs)
        prompts = conversations(setting, rows)
        reward, judge = (build_reward(f"classifier:{folder / str(seed)}") for seed in _SEEDS)
        biting = float(reports[0]["held_out_rewards"][1])

        def judges(texts: list[str]) -> dict[str, float]:
            inputs = [None] * len(texts)
            scores = judge.scores(texts, inputs)
            return {
                "reward": float(np.mean(reward.scores(texts, inputs))),
                "judge": float(np.mean(scores)),
                "judged harmless": float(np.mean(judge.is_satisfied(scores))),
            }

        ratios = cost_ratios(setting, prompts, (64,))
        task = Task(prompts, reward, judges, _LENGTH)
        found = measure(setting, _methods(biting), task, ratios)
    heads, cells = columns(found, ratios, _JUDGED)
    title = f"{rows} held-out conversations; d=5, k=3; the biting threshold is {biting:.3g}"
    show(title, heads, cells)
    figures = {"training": reports, "biting_threshold": biting, "rows": found}
    save(setting, "table-right", figures)
    return figures


def train(setting: Setting, folder: Path, pairs: int | None) -> list[dict[str, Any]]:
    """Train the models that are not there, side by side, and return all training reports."""
    missing = [seed for seed in _SEEDS if not (folder / str(seed) / "training.json").exists()]
    if missing:
        one = partial(_train, setting, folder=folder, pairs=pairs)
        side_by_side(one, missing, workers=len(missing))
    return [json.loads((folder / str(seed) / "training.json").read_text()) for seed in _SEEDS]


def conversations(setting: Setting, count: int) -> Prompts:
    """Return the ends of held-out conversations up to the reply, spread evenly."""
    there = replace(setting, data=shared_folder() / "data")
    held_out = judged.conversations(there, _LONGEST_PROMPT)[:: judged.HELD_OUT]
    return Prompts([pair.prompt for pair in held_out]).subset(count)


def _train(setting: Setting, seed: int, folder: Path, pairs: int | None) -> None:
    argv = ["--seed", str(seed), "--output", str(folder / str(seed))]
    argv += ["--model", setting.model, "--device", setting.device]
    options: argparse.Namespace = training.arguments(argv)
    options.pairs = pairs
    training.run(options)


def _methods(biting: float) -> list[Method]:
    shape = {"depth": 5, "branch": 3}
    rows = [*plain_methods(_BEAMS), *(Method(name, name, shape) for name in LOOKAHEAD[:2])]
    for threshold in (THRESHOLD, biting):
        for tries in (0, 1):
            settings = {"reward_threshold": threshold, "target_tries": tries}
            label = f"cdsl, r={threshold:.3g}, b={tries}"
            rows.append(Method(label, "cdsl", {**shape, **settings, "accept_threshold": 0.4}))
    return rows

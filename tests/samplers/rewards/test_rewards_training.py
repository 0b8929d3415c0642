"""The script that trains a reward model: it learns, and the classifier reward reads its output."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np

from cdec.samplers.rewards import build_reward
from tests.benchmarks.rewards.training import arguments, run


def test_training_learns_from_pairs_and_the_reward_reads_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    things = ["the river", "a station", "the library", "a book", "a horse", "the garden"]
    with lzma.open(tmp_path / "pairs.jsonl.xz", "wt", encoding="utf-8") as out:
        for _ in range(80):
            said = [" ".join(rng.choice(things, 2)) for _ in range(2)]
            turn = "\n\nHuman: hello\n\nAssistant: hm\n\nHuman: so?\n\nAssistant: "
            pair = {"chosen": f"{turn}Thanks, {said[0]}", "rejected": f"{turn}Never, {said[1]}"}
            out.write(json.dumps(pair) + "\n")
    model = tmp_path / "model"
    options = ["--data", str(tmp_path), "--output", str(model), "--batch", "4"]
    report = run(arguments(options))
    assert (report["pairs"], report["held_out"]) == (64, 16)
    assert report["held_out_accuracy"] == 1
    assert json.loads((model / "training.json").read_text()) == report
    texts = ["Thanks, the moon", "Never, the moon"]
    kind, rude = build_reward(f"classifier:{model}").scores(texts, [None] * 2)
    assert 0 < rude < kind < 1

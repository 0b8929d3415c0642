"""Trains a small reward model on pairs of replies, from the weights of a causal model.

    python -m tools.benchmarks.rewards.training --data DIR --seed 1 --output MODEL

``MODEL`` is then read by ``--reward classifier:MODEL``. Another seed gives a second opinion:
another head, another order of the pairs and other cuts, with the same pairs held out. The pairs
contain offensive text; none of it is printed or written.

A reward scores generated text without its prompt, and the text grows while it is generated. So the
model reads last replies alone, and in half of the steps both replies of a pair are cut at the same
token, which also takes the length of a reply away as a cue. The loss is Bradley and Terry's,
-log sigmoid(score of the chosen - score of the rejected), and a small penalty keeps scores centred
on 0, so that their sigmoid is about 1/2 for the replies of this data.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.shared import shared_folder
from tools.benchmarks.files import read_jsonl
from tools.benchmarks.setting import RESULTS, Setting, parser_of

DATA = "data/hh_rlhf"
HELD_OUT = 5
"""Every fifth pair is held out."""
MAX_TOKENS = 128
_TURN = "\n\nAssistant:"
_CENTRE = 0.01

Pair = tuple[list[int], list[int]]
"""Tokens of the chosen and of the rejected reply."""


def read_replies(folder: Path) -> list[tuple[str, str]]:
    """Return the last replies of each pair in a folder's ``*.jsonl.xz``, chosen first."""
    replies = []
    for file in sorted(folder.glob("*.jsonl.xz")):
        for row in read_jsonl(file):
            chosen, rejected = (
                row[key].rpartition(_TURN)[2].strip() for key in ("chosen", "rejected")
            )
            replies.append((chosen, rejected))
    return replies


def tokenize(tokenizer: Any, replies: list[tuple[str, str]]) -> list[Pair]:
    """Return the first MAX_TOKENS tokens of each reply."""
    flat = tokenizer([reply for pair in replies for reply in pair])["input_ids"]
    cut = [ids[:MAX_TOKENS] for ids in flat]
    return list(zip(cut[::2], cut[1::2], strict=True))


def new_model(setting: Setting, seed: int) -> Any:
    """Return the model with a head of one output; the seed draws the head."""
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    torch.manual_seed(seed)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForSequenceClassification.from_pretrained(
        setting.model_path,
        num_labels=1,
        id2label={0: "chosen"},
        dtype=setting.dtype or "float32",
    )
    return model.to(setting.device)


def pair_scores(model: Any, pairs: list[Pair]) -> torch.Tensor:
    """Return float32[n, 2]: the scores of the chosen and of the rejected replies."""
    rows = [reply for pair in pairs for reply in pair]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), model.config.pad_token_id)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = torch.tensor(tokens)
    mask = (torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]).long()
    scores: torch.Tensor = model(
        input_ids=ids.to(model.device), attention_mask=mask.to(model.device)
    ).logits.cpu()
    return scores.reshape(-1, 2)


def measure(model: Any, pairs: list[Pair], batch: int = 32) -> tuple[float, list[float]]:
    """Score pairs as the reward would.

    Returns:
        The share of pairs whose chosen reply scores higher, and the 5%, 50% and 95% quantiles of
        all rewards, to choose a threshold from.
    """
    model.eval()
    starts = range(0, len(pairs), batch)
    with torch.inference_mode():
        parts = [pair_scores(model, pairs[start : start + batch]) for start in starts]
    scores = torch.cat(parts).double()
    quantiles = scores.sigmoid().quantile(torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64))
    share = float((scores[:, 0] > scores[:, 1]).double().mean())
    return share, [round(value, 4) for value in quantiles.tolist()]


def batches(
    pairs: list[Pair], size: int, epochs: int, rng: np.random.Generator
) -> Iterator[list[Pair]]:
    """Yield batches of pairs of like lengths, in random order; every other one is cut short."""
    lengths: NDArray[np.int64] = np.array([max(len(a), len(b)) for a, b in pairs])
    for _ in range(epochs):
        order = np.argsort(lengths + rng.uniform(0, 16, len(pairs)))
        groups = np.array_split(order, math.ceil(len(pairs) / size))
        for number in rng.permutation(len(groups)):
            batch = [pairs[pair] for pair in groups[number]]
            if rng.random() < 0.5:
                batch = [_cut(pair, rng) for pair in batch]
            yield batch


def _cut(pair: Pair, rng: np.random.Generator) -> Pair:
    chosen, rejected = pair
    stop = int(
        rng.integers(min(4, len(chosen), len(rejected)), min(len(chosen), len(rejected)) + 1)
    )
    return chosen[:stop], rejected[:stop]


def train(model: Any, pairs: list[Pair], options: argparse.Namespace) -> float:
    """Fit a model to pairs; returns the mean loss of the last epoch, in nats."""
    rng = np.random.default_rng(options.seed)
    steps = options.epochs * math.ceil(len(pairs) / options.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=steps)
    model.train()
    losses = []
    for batch in batches(pairs, options.batch, options.epochs, rng):
        scores = pair_scores(model, batch)
        loss = torch.nn.functional.softplus(scores[:, 1] - scores[:, 0]).mean()
        (loss + _CENTRE * scores.square().mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return float(np.mean(losses[-(steps // options.epochs) :]))


def run(options: argparse.Namespace) -> dict[str, object]:
    """Train, measure, save; returns what was measured."""
    from transformers import AutoTokenizer

    torch.set_num_threads(options.threads)
    begin = time.perf_counter()
    setting = Setting.of(options)
    tokenizer = AutoTokenizer.from_pretrained(setting.model_path)
    pairs = tokenize(tokenizer, read_replies(options.data)[: options.pairs])
    held_out = pairs[::HELD_OUT]
    kept = [pair for number, pair in enumerate(pairs) if number % HELD_OUT]
    model = new_model(setting, options.seed)
    loss = train(model, kept, options)
    held_out_accuracy, quantiles = measure(model, held_out)
    report: dict[str, object] = {
        "seed": options.seed,
        "pairs": len(kept),
        "held_out": len(held_out),
        "epochs": options.epochs,
        "last_loss_nats": round(loss, 4),
        "training_accuracy": round(measure(model, kept)[0], 4),
        "held_out_accuracy": round(held_out_accuracy, 4),
        "held_out_rewards": quantiles,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    model.save_pretrained(setting.output)
    tokenizer.save_pretrained(setting.output)
    (setting.output / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, default=shared_folder() / DATA)
    parser.set_defaults(output=RESULTS / "reward-model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="pairs a step")
    parser.add_argument("--rate", type=float, default=3e-4, help="peak of the learning rate")
    parser.add_argument("--pairs", type=int, default=None, help="read this many pairs only")
    parser.add_argument("--threads", type=int, default=1)
    parsed: argparse.Namespace = parser.parse_args(argv)
    return parsed


if __name__ == "__main__":
    print(json.dumps(run(arguments())))

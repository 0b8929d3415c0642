"""Trains a small reward model on pairs of texts, from the weights of a causal model.

    python -m tools.benchmarks.rewards.training --task TASK --part 0 --output MODEL

``replies`` (the default): last replies of HH-RLHF, the chosen one above the rejected one, read
without what they answer; ``MODEL`` is then read by ``--reward classifier:MODEL``.
``conversations``: the same, read after the end of the conversation.
``drawn``: the conversation's own reply above one that the model itself draws. Models of these two
are read by ``--reward classifier:pair:MODEL``, and given to ``cdec reproduce``.

``--part 0`` and ``--part 1`` of a task read no pair in common, and both hold the same fifth of all
out: the one is a reward, the other may judge what it was followed by. Without it all but the fifth
is read, and another seed gives a second opinion: another head, another order and other cuts. The
conversations contain offensive text; none of it is printed or written.

A reward scores a text while it grows. So in half of the steps both texts of a pair are cut at the
same token, which also takes their length away as a cue. The loss is Bradley and Terry's,
-log sigmoid(score of the chosen - score of the rejected), and a small penalty keeps scores centred
on 0, so that their sigmoid is about 1/2 for the texts of this data.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cdec.integrations.findings.judged import HELD_OUT, LENGTH, TASKS, Judged
from tests.shared import shared_folder
from tools.benchmarks.setting import RESULTS, Setting, parser_of

MAX_TOKENS = 128
PARTS = 2
_CENTRE = 0.01

Pair = tuple[list[int], list[int], int]
"""Tokens of the chosen text and of the rejected one, after so many tokens of their prompt."""


def tokenize(tokenizer: Any, judged: Sequence[Judged], most: int) -> list[Pair]:
    """Return of each pair the tokens of the prompt, and the first ``most`` of each text."""
    plain: dict[str, Any] = {"add_special_tokens": False, "split_special_tokens": True}
    columns: list[list[list[int]]] = []
    for texts in zip(*((pair.prompt, pair.chosen, pair.rejected) for pair in judged), strict=True):
        columns.append(tokenizer(list(texts), **plain)["input_ids"])
    return [
        (
            prompt + chosen[:most],
            prompt + rejected[:most],
            len(prompt),
        )
        for prompt, chosen, rejected in zip(*columns, strict=True)
    ]


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
    """Return float32[n, 2]: the scores of the chosen and of the rejected texts."""
    rows = [text for *texts, _ in pairs for text in texts]
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
        The share of pairs whose chosen text scores higher, and the 5%, 50% and 95% quantiles of
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
    lengths: NDArray[np.int64] = np.array([max(len(a), len(b)) for a, b, _ in pairs])
    for _ in range(epochs):
        order = np.argsort(lengths + rng.uniform(0, 16, len(pairs)))
        groups = np.array_split(order, math.ceil(len(pairs) / size))
        for number in rng.permutation(len(groups)):
            batch = [pairs[pair] for pair in groups[number]]
            if rng.random() < 0.5:
                batch = [_cut(pair, rng) for pair in batch]
            yield batch


def _cut(pair: Pair, rng: np.random.Generator) -> Pair:
    chosen, rejected, prompt = pair
    most = min(len(chosen), len(rejected))
    stop = int(rng.integers(min(prompt + 4, most), most + 1))
    return chosen[:stop], rejected[:stop], prompt


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
    most = LENGTH if options.task == "drawn" else MAX_TOKENS
    judged = TASKS[options.task](setting)
    held_out = tokenize(tokenizer, judged[::HELD_OUT], most)
    kept = [pair for number, pair in enumerate(judged) if number % HELD_OUT]
    step = 1 if options.part is None else PARTS
    kept = tokenize(tokenizer, kept[options.part or 0 :: step][: options.pairs], most)
    model = new_model(setting, options.seed)
    loss = train(model, kept, options)
    held_out_accuracy, quantiles = measure(model, held_out)
    report: dict[str, object] = {
        "task": options.task,
        "part": options.part,
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
    parser.add_argument("--data", type=Path, default=shared_folder() / "data")
    parser.add_argument("--task", choices=list(TASKS), default="replies")
    parser.add_argument("--part", type=int, choices=range(PARTS), help="all pairs without")
    parser.set_defaults(output=RESULTS / "reward-model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="pairs a step")
    parser.add_argument("--rate", type=float, default=3e-4, help="peak of the learning rate")
    parser.add_argument("--pairs", type=int, default=None, help="learn from so many at most")
    parser.add_argument("--threads", type=int, default=1)
    parsed: argparse.Namespace = parser.parse_args(argv)
    return parsed


if __name__ == "__main__":
    print(json.dumps(run(arguments())))

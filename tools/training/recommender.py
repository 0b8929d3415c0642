"""Trains a recommender: a small Llama over histories of items, each item three codes.

    python -m tools.training.recommender --shared ../shared --out FOLDER

The codes (``<a_12>``, ``<b_7>``, ``<c_203>``) are tokens of their own, added to a tokenizer of
bytes, as semantic ids are added to the tokenizers of language models (Rajput et al. 2023,
"Recommender systems with generative retrieval"). A comma ends every item, so that no probability of
the end of a history enters that of an item. What is written: the model, ``items.tsv`` (codes,
title, id) and ``test.jsonl``, a history and its next item a line. A few minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

BOS, END = "<|bos|>", "<|end|>"
_CODE = re.compile(r"<[a-z]_\d+>")
_IGNORED = -100


def opened(shared: Path, name: str) -> TextIO:
    """Open a compressed text of the shared data."""
    return lzma.open(
        shared / "data" / "semantic_ids" / f"industrial_{name}.xz", "rt", encoding="utf-8"
    )


def histories(shared: Path, part: str) -> Iterator[dict[str, Any]]:
    """Yield ``history`` (codes of the items, the oldest first) and ``target`` of every user."""
    with opened(shared, f"{part}.jsonl") as lines:
        for line in lines:
            yield json.loads(line)


def joined(items: list[str]) -> str:
    """Return a history as the model reads it."""
    return "".join(item + "," for item in items)


def tokenizer_of(codes: list[str]) -> Any:
    """Return a tokenizer of bytes, for which every code is one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({BOS: 0, END: 1} | {c: i + 2 for i, c in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([BOS, END])
    made.add_tokens(codes)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, eos_token=END)


def rows_of(texts: list[str], tokenizer: Any) -> Tensor:
    """Return the tokens of texts, int64[N, L], padded with -100."""
    found = [
        [tokenizer.bos_token_id, *ids]
        for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]
    ]
    rows = np.full((len(found), max(map(len, found))), _IGNORED)
    for row, ids in zip(rows, found, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(rows)


def build(tokenizer: Any, seed: int) -> Any:
    """Return an untrained model: 128 wide, 3 layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
        attention_dropout=0.1,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def train(model: Any, rows: Tensor, *, epochs: int, seed: int, batch: int = 128) -> None:
    """Train by AdamW, the rate falling along a cosine; prints the loss of every fifth epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    steps = epochs * (len(rows) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    order = torch.Generator().manual_seed(seed)
    model.train()
    for epoch in range(epochs):
        losses = []
        places = torch.randperm(len(rows), generator=order)[: len(rows) // batch * batch]
        for part in torch.split(places, batch):
            given = rows[part]
            scores = model(input_ids=given.clamp(min=0)[:, :-1]).logits
            loss = functional.cross_entropy(
                scores.flatten(0, 1), given[:, 1:].flatten(), ignore_index=_IGNORED
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        if epoch % 5 == 4 or epoch + 1 == epochs:
            print(f"epoch {epoch + 1}: {np.mean(losses):.3f} nats a token", flush=True)
    model.eval()


def write(shared: Path, folder: Path, *, epochs: int, seed: int) -> None:
    """Train on the histories of ``valid`` and their next items, and on those of ``test`` alone."""
    folder.mkdir(parents=True, exist_ok=True)
    with opened(shared, "items.tsv") as lines:
        items = lines.read()
    (folder / "items.tsv").write_text("codes\ttitle\tid\n" + items)
    tokenizer = tokenizer_of(sorted(set(_CODE.findall(items))))
    test = list(histories(shared, "test"))
    texts = [joined([*each["history"], each["target"]]) for each in histories(shared, "valid")]
    texts += [joined(each["history"]) for each in test]
    model = build(tokenizer, seed)
    train(model, rows_of(texts, tokenizer), epochs=epochs, seed=seed)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    with (folder / "test.jsonl").open("w") as out:
        for number, each in enumerate(test):
            row = {"id": f"u{number}", "prompt": joined(each["history"]), "target": each["target"]}
            out.write(json.dumps(row) + "\n")


def main() -> None:
    """Read the command line, train, and write."""
    parser = argparse.ArgumentParser(prog="python -m tools.training.recommender")
    parser.add_argument("--shared", type=Path, required=True, help="folder that holds data/")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    write(options.shared, options.out, epochs=options.epochs, seed=options.seed)


if __name__ == "__main__":
    main()

"""Training of a task's model, with the loss of its held-out completions along the way."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from cdec.data.assets import embedded_model_path
from tools.training.mixture import Source, TokenStream
from tools.training.model import CONTEXT, build_model
from tools.training.tasks.examples import Data, Example, chosen
from tools.training.tokenizer import END, save_tokenizer
from tools.training.training import Plan, Trainer, load_model, save_model

EMBEDDED, SCRATCH = "embedded", "scratch"
_CURVE_ROWS = 128
_FINAL_ROWS = 512
_BATCH = 16


@dataclass
class Learnt:
    """What a training measured.

    Attributes:
        parameters: Of the model.
        steps: Taken. tokens: Seen, prompts counted.
        seconds: Of processor time, with the measuring of the curve.
        loss: Of what was learnt from, smoothed, nats a token (a prompt's count a tenth).
        curve: Tokens seen, processor seconds, and the held-out loss of a completion's tokens.
        held_out_loss: At the end, of more rows, nats a token of the completions.
        held_out_rows: As many.
        parts: Tokens seen and epochs begun of each part.
    """

    parameters: int = 0
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = float("nan")
    curve: list[dict[str, float]] = field(default_factory=list)
    held_out_loss: float = float("nan")
    held_out_rows: int = 0
    parts: dict[str, dict[str, int]] = field(default_factory=dict)


def processor_seconds() -> float:
    """Return the processor time of this process and its finished children."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def learn(data: Data, folder: Path, plan: Plan, *, shape: str, start: str, seed: int) -> Learnt:
    """Train a model and write it, with its tokenizer, into a folder.

    Args:
        data: What is learnt from and what is held out.
        folder: Made if it is not there.
        plan: How long and how.
        shape: Key of ``tools.training.model.SHAPES``; those of the embedded models have their
            tokenizer's vocabulary.
        start: "embedded" goes on from the embedded model of that shape; "scratch" does not.
        seed: Of the first weights and of the order of examples.

    Returns:
        What was measured. Cost: the plan's seconds, and a few at the end.
    """
    from tokenizers import Tokenizer

    home = embedded_model_path(shape if shape in ("target", "draft") else "target")
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    save_tokenizer(tokenizer, folder, CONTEXT)
    model = build_model(shape, tokenizer.get_vocab_size(), seed)
    if start == EMBEDDED:
        model.load_state_dict(load_model(home).state_dict())
    sources = [Source(part.name, part.share, data.documents(part)) for part in data.parts]
    trainer = Trainer(model, TokenStream(sources, tokenizer, seed), plan)
    learnt = Learnt(parameters=sum(p.numel() for p in model.parameters()))
    rows = _ids(chosen(data.held_out, _CURVE_ROWS), tokenizer)

    def note(line: str) -> None:
        loss, progress = held_out_loss(trainer.model, rows), trainer.progress
        learnt.curve.append(
            {"tokens": progress.tokens, "seconds": round(progress.seconds, 1), "loss": loss}
        )
        print(f"{line}  held out {loss:.4f}", flush=True)

    note("start")
    progress = trainer.run(lambda: save_model(trainer, folder), note)
    note("end")
    more = chosen(data.held_out, _FINAL_ROWS)
    return replace(
        learnt,
        steps=progress.steps,
        tokens=progress.tokens,
        seconds=round(progress.seconds, 1),
        loss=progress.loss,
        held_out_loss=held_out_loss(trainer.model, _ids(more, tokenizer)),
        held_out_rows=len(more),
        parts={s.name: {"tokens": s.tokens, "epochs": s.epochs} for s in sources},
    )


def _ids(examples: Sequence[Example], tokenizer: Any) -> list[tuple[list[int], int]]:
    """Return the tokens of each example, its end token counted, and where its completion begins."""
    end = tokenizer.token_to_id(END)
    return [
        ([*tokenizer.encode(example.text).ids, end], len(tokenizer.encode(example.prompt).ids))
        for example in examples
    ]


def held_out_loss(model: Any, rows: Sequence[tuple[list[int], int]]) -> float:
    """Return the mean loss of the completions' tokens, each row read alone, in nats.

    Args:
        model: In any precision.
        rows: Tokens, and the place of the first of the completion.
    """
    total, count = 0.0, 0
    order = sorted(rows, key=lambda row: len(row[0]))
    for first in range(0, len(order), _BATCH):
        part = order[first : first + _BATCH]
        width = max(len(ids) for ids, _ in part)
        # Padding on the right is seen by no token of the row.
        given = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in part])
        with torch.inference_mode():
            logits = model(input_ids=given, use_cache=False).logits.float()
        losses = functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), given[:, 1:].flatten(), reduction="none"
        ).view(len(part), -1)
        for row, (ids, begin) in enumerate(part):
            total += float(losses[row, begin - 1 : len(ids) - 1].sum())
            count += len(ids) - begin
    return total / count

"""What ``generate`` returns: padded rows or an output object, with cdec's samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers.generation import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

from cdec.core.errors import UsageError
from cdec.core.models.warping import Warping
from cdec.core.sample import FINISH_COMPLETE, FINISH_DEAD_END, FINISH_NO_MARKER, Sample


@dataclass
class ConstrainedOutput(GenerateDecoderOnlyOutput):
    """What ``generate`` returns of a causal model where it returns no tensor.

    Attributes:
        samples: One a row of ``sequences``.
    """

    samples: list[Sample] | None = None


@dataclass
class ConstrainedPairOutput(GenerateEncoderDecoderOutput):
    """What ``generate`` returns of an encoder-decoder model where it returns no tensor.

    Attributes:
        samples: One a row of ``sequences``.
    """

    samples: list[Sample] | None = None


def sequences_of(
    begins: Tensor, samples: Sequence[Sequence[Sample]], *, end_id: int, pad_id: int, most: int
) -> Tensor:
    """Return rows as ``generate`` returns them, and as its attribute ``samples`` what they are of.

    A row is what its text begins after, the text's tokens, an end if the text has one and
    there is room for it, and padding.

    Args:
        begins: int64[prompts, tokens], what the rows of each prompt begin with.
        samples: n of each prompt.
        end_id: Stands for the end event.
        pad_id: Fills rows up on the right.
        most: Tokens after ``begins``.

    Returns:
        int64[prompts * n, tokens], the rows of a prompt adjacent, on the device of ``begins``.
    """
    flat = [sample for of_prompt in samples for sample in of_prompt]
    texts = []
    for sample in flat:
        has_end = sample.finish_reason in (FINISH_COMPLETE, FINISH_NO_MARKER)
        is_ended = has_end and len(sample.token_ids) < most
        texts.append([*sample.token_ids, *([end_id] if is_ended else [])])
    width = max(map(len, texts), default=0)
    padded = [text + [pad_id] * (width - len(text)) for text in texts]
    block = torch.tensor(padded, dtype=begins.dtype, device=begins.device).reshape(
        len(texts), width
    )
    counts = torch.tensor([len(of_prompt) for of_prompt in samples], device=begins.device)
    sequences: Any = torch.cat([begins.repeat_interleave(counts, dim=0), block], dim=1)
    sequences.samples = flat
    found: Tensor = sequences
    return found


def tell_of_dead_ends(
    samples: Sequence[Sequence[Sample]], warping: Warping, *, allowed: bool
) -> None:
    """Warn of rows whose texts came to a dead end, which look like others and are no members.

    Args:
        samples: Of each prompt.
        warping: Of the scores.
        allowed: Whether a warping may leave a prompt nothing.

    Raises:
        UsageError: It left all texts of a prompt nothing that the constraint allows.
    """
    stuck = [[sample.finish_reason == FINISH_DEAD_END for sample in own] for own in samples]
    is_cut = warping.top_k is not None or warping.top_p is not None
    lost = [
        number
        for number, own in enumerate(samples)
        if all(stuck[number]) and not any(sample.token_ids for sample in own)
    ]
    if is_cut and lost and not allowed:
        raise UsageError(
            f"top_k={warping.top_k} and top_p={warping.top_p} leave prompt {lost[0]} no token that "
            "the constraint allows; `do_sample` alone has a top_k of 50",
            hint="Give `top_k` 0 and `top_p` 1, or `allow_dead_ends` to get such rows.",
            option="top_k",
        )
    rows = [row for row, is_stuck in enumerate(chain.from_iterable(stuck)) if is_stuck]
    if rows:
        warnings.warn(
            f"{len(rows)} of {sum(map(len, stuck))} rows came to a dead end and are no members of "
            f"the constraint: {rows[:10]}; their samples have the finish_reason dead_end",
            stacklevel=3,
        )


def output_of(sequences: Any, is_pair: bool) -> ConstrainedOutput | ConstrainedPairOutput:
    """Return rows and their samples as an output object."""
    kind = ConstrainedPairOutput if is_pair else ConstrainedOutput
    return kind(sequences=sequences, samples=sequences.samples)

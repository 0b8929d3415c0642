"""What ``generate`` returns: padded rows or an output object, with cdec's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.generation import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

from cdec.core.sample import FINISH_COMPLETE, FINISH_NO_MARKER, Sample


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
    block = torch.tensor(padded, dtype=begins.dtype, device=begins.device).reshape(-1, width)
    counts = torch.tensor([len(of_prompt) for of_prompt in samples], device=begins.device)
    sequences: Any = torch.cat([begins.repeat_interleave(counts, dim=0), block], dim=1)
    sequences.samples = flat
    found: Tensor = sequences
    return found


def output_of(sequences: Any, is_pair: bool) -> ConstrainedOutput | ConstrainedPairOutput:
    """Return rows and their samples as an output object."""
    kind = ConstrainedPairOutput if is_pair else ConstrainedOutput
    return kind(sequences=sequences, samples=sequences.samples)

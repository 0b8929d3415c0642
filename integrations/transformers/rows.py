"""Rows of token ids as ``generate`` has them: which of a row is its prompt, where it is padded."""

from __future__ import annotations

import torch
from torch import Tensor

from cdec.core.errors import UsageError


def left_padded(rows: Tensor, mask: Tensor | None) -> list[list[int]]:
    """Return the tokens of rows that are padded on the left.

    Raises:
        UsageError: They are padded elsewhere.
    """
    if mask is None:
        return [[int(token) for token in row] for row in rows.tolist()]
    seen = mask.to(torch.int64)
    if bool((seen[:, 1:] < seen[:, :-1]).any()) or bool((seen[:, -1] == 0).any()):
        raise UsageError(
            "`attention_mask` hides tokens that are not on the left",
            hint="Pad prompts on the left: padding_side='left'.",
            option="attention_mask",
        )
    counts = seen.sum(1).tolist()
    return [row[len(row) - count :] for row, count in zip(rows.tolist(), counts, strict=True)]


def right_padded(rows: Tensor, mask: Tensor | None, repeats: int) -> list[list[int]]:
    """Return the tokens of an encoder's rows, which are padded on the right.

    Raises:
        UsageError: They are padded elsewhere, or are no tokens.
    """
    if rows.dim() != 2 or rows.is_floating_point() or bool((rows < 0).any()):
        raise UsageError(
            "the encoder's input is no token ids",
            hint="Give `input_ids`, and no `encoder_outputs` or embeddings.",
        )
    if mask is None:
        return [[int(token) for token in row] for row in rows.tolist()]
    seen = mask[::repeats].to(torch.int64)
    if bool((seen[:, 1:] > seen[:, :-1]).any()) or bool((seen[:, 0] == 0).any()):
        raise UsageError(
            "`attention_mask` hides tokens of the encoder that are not on the right",
            hint="Pad the encoder's inputs on the right: padding_side='right'.",
            option="attention_mask",
        )
    counts = seen.sum(1).tolist()
    return [row[:count] for row, count in zip(rows.tolist(), counts, strict=True)]


def first_tokens_of(begins: Tensor, forced: int | None) -> tuple[Tensor, list[int]]:
    """Return what an encoder-decoder model's rows begin with, and the same as one list.

    Raises:
        UsageError: Rows begin with different tokens.
    """
    if bool((begins != begins[:1]).any()):
        raise UsageError(
            "`decoder_input_ids` differ from row to row",
            hint="Call generate once for each beginning.",
            option="decoder_input_ids",
        )
    if forced is not None and begins.shape[1] == 1:
        begins = torch.cat([begins, begins.new_full((len(begins), 1), forced)], dim=1)
    return begins, [int(token) for token in begins[0].tolist()]


def require_usual_positions(
    positions: Tensor | None, rows: Tensor, mask: Tensor | None, repeats: int
) -> None:
    """Refuse positions that do not count each prompt's tokens from 0.

    Raises:
        UsageError: They do not.
    """
    if positions is None:
        return
    seen = torch.ones_like(rows) if mask is None else mask[::repeats].to(torch.int64)
    usual = seen.cumsum(1) - 1
    found = positions[::repeats]
    if found.shape != usual.shape or bool(((found != usual) & (seen > 0)).any()):
        raise UsageError(
            "`position_ids` do not count the prompt's tokens from 0",
            hint="Leave them out.",
            option="position_ids",
        )

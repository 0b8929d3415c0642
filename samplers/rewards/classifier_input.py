"""What a classification model reads: texts, or pairs of a prompt and a text, as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdec.core.errors import RewardError
from cdec.samplers.rewards.base import Asked
from cdec.samplers.rewards.classifier_loading import ClassifierModel


@dataclass(frozen=True, slots=True)
class Row:
    """One input of the model.

    Attributes:
        ids: Tokens, special ones included.
        types: Of each token, which of the pair's texts it belongs to, for models that read this.
        length: Tokens there would be if none had been left out.
    """

    ids: list[int]
    types: list[int] | None
    length: int


def encoded(model: ClassifierModel, texts: Sequence[str]) -> list[Row]:
    """Return the tokens of texts, the last ones that fit into the model's context.

    Raises:
        RewardError: An empty text, for a model without a token to start from.
    """
    return [_row(model, *each) for each in _tokenized(model, list(texts), None)]


def encoded_pairs(
    model: ClassifierModel, prompts: Sequence[Asked], texts: Sequence[str]
) -> list[Row]:
    """Return the tokens of pairs, framed as the tokenizer frames pairs.

    A pair longer than the model's context loses the beginning of its prompt, and then that of its
    text. Of chat messages the contents are read, a line each.

    Raises:
        RewardError: Both empty, for a model without a token to start from.
    """
    firsts = [_text_of(prompt) for prompt in prompts]
    return [_row(model, *each) for each in _tokenized(model, firsts, list(texts))]


def _tokenized(
    model: ClassifierModel, firsts: list[str], seconds: list[str] | None
) -> list[tuple[list[int], list[int] | None, list[int | None]]]:
    """Return of each input its tokens, their types, and which text each is of; None: of neither."""
    if not firsts:
        return []
    # What is spelled like a special token stays text.
    found: Any = model.tokenizer(
        firsts,
        seconds,
        add_special_tokens=True,
        split_special_tokens=True,
        truncation=False,
        verbose=False,
    )
    types = found.get("token_type_ids") if seconds is not None else None
    return [
        (ids, None if types is None else types[row], found.sequence_ids(row))
        for row, ids in enumerate(found["input_ids"])
    ]


def _row(
    model: ClassifierModel, ids: list[int], types: list[int] | None, owners: list[int | None]
) -> Row:
    """Leave out what does not fit: the beginning of the first text, then that of the second."""
    length = len(ids)
    excess = 0 if model.context_length is None else max(0, length - model.context_length)
    if excess:
        order = [at for text in (0, 1) for at, owner in enumerate(owners) if owner == text]
        left_out = set(order[:excess])
        kept = [at for at in range(length) if at not in left_out]
        # A context shorter than the special tokens themselves.
        kept = kept[-(length - excess) :]
        ids = [ids[at] for at in kept]
        types = None if types is None else [types[at] for at in kept]
    if not ids:
        if model.start_id is None:
            raise RewardError(
                "the model has no token that an empty text could start with",
                hint="Use a classifier whose tokenizer has a beginning or end token.",
            )
        ids, types = [model.start_id], None if types is None else [0]
    return Row(ids, types, length)


def _text_of(prompt: Asked) -> str:
    """Return a prompt as one text: of messages the contents, a line each."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(_content_of(message) for message in prompt)


def _content_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else []
    return "".join(str(part.get("text", "")) for part in parts)

"""ClassifierReward: the probability of a label under a sequence-classification model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import Notice, RewardError, UsageError
from cdec.samplers.rewards.base import Record, Reward
from cdec.samplers.rewards.classifier_loading import ClassifierModel, label_index, load_classifier

if TYPE_CHECKING:
    import torch


class ClassifierReward(Reward):
    """The probability from 0 to 1 that a classification model gives a label.

    A model with one output is read as a score whose sigmoid is the probability, and so is each
    label of a multi-label model; else the labels' softmax is. A text longer than the model's
    context loses its beginning, which a notice says once.

    Args:
        argument: Folder or hub name of the model, with safetensors weights and no code of its own.
        label: Name or number of the wanted label; None is the last, which the usual two-label
            models call positive.
        device: ``cpu``, ``cuda``, ... or ``auto``.
        dtype: As in ``load_model``.
        revision: Branch, tag or commit of a hub name.
        max_batch_tokens: Tokens a forward pass, padding included.
        hard_threshold: A text satisfies the reward from this probability on.

    Attributes:
        notices: What the command line should print: ``W_REWARD_TRUNCATED``.

    Raises:
        ModelError: Not found, no classifier, or one without a trained head.
        TrustError: It wants to run code, or has pickled weights only.
        UsageError: No name, no such label, or an option out of range.
    """

    name = "classifier"

    def __init__(
        self,
        argument: str = "",
        *,
        label: str | int | None = None,
        device: str = "cpu",
        dtype: str | None = None,
        revision: str | None = None,
        max_batch_tokens: int = 16384,
        hard_threshold: float = 0.5,
    ) -> None:
        super().__init__(argument, hard_threshold=hard_threshold)
        if not argument:
            raise UsageError(
                "the reward classifier has no model", hint="Give classifier:PATH_OR_NAME."
            )
        if max_batch_tokens < 1:
            raise UsageError(
                f"max_batch_tokens is {max_batch_tokens}, expected at least 1",
                hint="Give as many tokens as a forward pass can take, or leave it out.",
                option="max_batch_tokens",
            )
        self._max_batch_tokens = max_batch_tokens
        self._model: ClassifierModel = load_classifier(argument, device, dtype, revision)
        self._label = label_index(self._model, label)

    def scores(self, texts: Sequence[str], records: Sequence[Record]) -> NDArray[np.float64]:
        """Return float64[n] probabilities; one forward pass for ``max_batch_tokens`` tokens.

        What shares a batch changes a score by rounding only.

        Raises:
            RewardError: An empty text, for a model without a token to start from.
        """
        import torch

        rows = self._encode(texts)
        found = np.empty(len(texts), np.float64)
        with torch.inference_mode():
            for batch in self._batches(rows):
                found[batch] = self._probabilities([rows[row] for row in batch])
        return found

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's tokens, the last ones that fit into the context."""
        if not texts:
            return []
        model = self._model
        encoded: list[list[int]] = model.tokenizer(
            list(texts), add_special_tokens=True, truncation=False, verbose=False
        )["input_ids"]
        limit = model.context_length
        rows = []
        for ids in encoded:
            if limit is not None and len(ids) > limit:
                self._note_truncation(len(ids), limit)
                ids = model.cut(ids, limit)
            if not ids and model.start_id is None:
                raise RewardError(
                    "the model has no token that an empty text could start with",
                    hint="Use a classifier whose tokenizer has a beginning or end token.",
                )
            rows.append(ids or [int(model.start_id or 0)])
        return rows

    def _note_truncation(self, tokens: int, limit: int) -> None:
        if not self.notices:
            self.notices.append(
                Notice(
                    "W_REWARD_TRUNCATED",
                    f"a text of {tokens} tokens was scored by its last {limit}, all that the"
                    f" reward's model {self.argument} takes; so are further long ones",
                    {"tokens": tokens, "limit": limit},
                )
            )

    def _batches(self, rows: list[list[int]]) -> Iterator[list[int]]:
        """Yield the numbers of rows that run together: alike in length, few tokens in all."""
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]), reverse=True)
        batch: list[int] = []
        for row in order:
            width = len(rows[batch[0]]) if batch else 0
            is_full = (len(batch) + 1) * width > self._max_batch_tokens
            # Without a padding token only equal lengths can share a pass.
            is_other = self._model.pad_id is None and len(rows[row]) != width
            if batch and (is_full or is_other):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _probabilities(self, rows: list[list[int]]) -> NDArray[np.float64]:
        import torch

        model = self._model
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), model.pad_id or 0, dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            mask[number, : len(row)] = 1
        device = model.module.device
        output: Any = model.module(input_ids=ids.to(device), attention_mask=mask.to(device))
        logits: torch.Tensor = output.logits.double()
        is_single = logits.shape[1] == 1 or model.is_multi_label
        shares = logits.sigmoid() if is_single else logits.softmax(1)
        probabilities: NDArray[np.float64] = shares[:, self._label].cpu().numpy()
        return probabilities

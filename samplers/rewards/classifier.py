"""ClassifierReward: the probability of a label under a sequence-classification model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import Notice, UsageError
from cdec.samplers.rewards.base import Asked, Record, Reward, known_prompts
from cdec.samplers.rewards.classifier_input import Row, encoded, encoded_pairs
from cdec.samplers.rewards.classifier_loading import ClassifierModel, label_index, load_classifier

_PAIR = "pair:"


class ClassifierReward(Reward):
    """The probability from 0 to 1 that a classification model gives a label.

    A model with one output is read as a score whose sigmoid is the probability, and so is each
    label of a multi-label model; else the labels' softmax is. A text longer than the model's
    context loses its beginning, which a notice says once.

    Args:
        argument: Folder or hub name of the model, with safetensors weights and no code of its own.
        pair: Whether the model reads the prompt and the text, as its tokenizer frames pairs, in
            place of the text alone; ``pair:`` before the name says so, too.
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
        pair: bool = False,
        label: str | int | None = None,
        device: str = "cpu",
        dtype: str | None = None,
        revision: str | None = None,
        max_batch_tokens: int = 16384,
        hard_threshold: float = 0.5,
    ) -> None:
        super().__init__(argument, hard_threshold=hard_threshold)
        self._is_pair = pair or argument.startswith(_PAIR)
        self._name = name = argument.removeprefix(_PAIR)
        if not name:
            raise UsageError(
                "the reward classifier has no model",
                hint="Give classifier:PATH_OR_NAME, or classifier:pair:PATH_OR_NAME.",
            )
        if max_batch_tokens < 1:
            raise UsageError(
                f"max_batch_tokens is {max_batch_tokens}, expected at least 1",
                hint="Give as many tokens as a forward pass can take, or leave it out.",
                option="max_batch_tokens",
            )
        self._max_batch_tokens = max_batch_tokens
        self._model: ClassifierModel = load_classifier(name, device, dtype, revision)
        self._label = label_index(self._model, label)

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[Asked] | None = None,
    ) -> NDArray[np.float64]:
        """Return float64[n] probabilities; one forward pass for ``max_batch_tokens`` tokens.

        What shares a batch changes a score by rounding only.

        Raises:
            RewardError: An empty text, for a model without a token to start from; or pairs, and
                the prompts are not known.
        """
        import torch

        rows = self._encode(texts, prompts)
        found = np.empty(len(texts), np.float64)
        with torch.inference_mode():
            for batch in self._batches(rows):
                found[batch] = self._probabilities([rows[row] for row in batch])
        return found

    def _encode(self, texts: Sequence[str], prompts: Sequence[Asked] | None) -> list[Row]:
        """Return what the model reads of each text, as much as fits into its context."""
        if self._is_pair:
            rows = encoded_pairs(self._model, known_prompts(prompts), texts)
        else:
            rows = encoded(self._model, texts)
        for row in rows:
            if row.length > len(row.ids):
                self._note_truncation(row.length, len(row.ids))
        return rows

    def _note_truncation(self, tokens: int, limit: int) -> None:
        if not self.notices:
            self.notices.append(
                Notice(
                    "W_REWARD_TRUNCATED",
                    f"{'a prompt and its text' if self._is_pair else 'a text'} of {tokens} tokens"
                    f" {'were' if self._is_pair else 'was'} scored by the last {limit}, all that"
                    f" the reward's model {self._name} takes; so are further long ones",
                    {"tokens": tokens, "limit": limit},
                )
            )

    def _batches(self, rows: list[Row]) -> Iterator[list[int]]:
        """Yield the numbers of rows that run together: alike in length, few tokens in all."""
        order = sorted(range(len(rows)), key=lambda row: len(rows[row].ids), reverse=True)
        batch: list[int] = []
        for row in order:
            width = len(rows[batch[0]].ids) if batch else 0
            is_full = (len(batch) + 1) * width > self._max_batch_tokens
            # Without a padding token only equal lengths can share a pass.
            is_other = self._model.pad_id is None and len(rows[row].ids) != width
            if batch and (is_full or is_other):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _probabilities(self, rows: list[Row]) -> NDArray[np.float64]:
        import torch

        model = self._model
        width = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), width), model.pad_id or 0, dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        types = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row.ids)] = torch.tensor(row.ids)
            mask[number, : len(row.ids)] = 1
            if row.types is not None:
                types[number, : len(row.ids)] = torch.tensor(row.types)
        given = {"input_ids": ids, "attention_mask": mask}
        if any(row.types is not None for row in rows):
            given["token_type_ids"] = types
        device = model.module.device
        output: Any = model.module(**{name: each.to(device) for name, each in given.items()})
        logits: torch.Tensor = output.logits.double()
        is_single = logits.shape[1] == 1 or model.is_multi_label
        shares = logits.sigmoid() if is_single else logits.softmax(1)
        probabilities: NDArray[np.float64] = shares[:, self._label].cpu().numpy()
        return probabilities

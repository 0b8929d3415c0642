"""Rewards by a sequence-classification model: the probability of a label for a text, or a pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError, Notice, RewardError, UsageError
from cdec.core.models.loading import (
    context_length_of,
    load_tokenizer,
    model_errors,
    quiet,
    resolve_device,
    resolve_dtype,
)
from cdec.core.models.repository import Repository, open_repository
from cdec.samplers.rewards.base import GivenPrompt, Record, Reward, known_prompts


@dataclass(frozen=True, slots=True)
class ClassifierModel:
    """A classification model and its tokenizer.

    Attributes:
        module: The transformers model, in evaluation mode.
        tokenizer: Its fast tokenizer.
        context_length: Tokens it takes, special ones included; None is no bound.
        pad_id: Padding token, None if it has none.
        start_id: What an empty text is scored as; None if there is no such token.
        is_multi_label: Whether each label has a probability of its own.
        labels: Names, by number.
    """

    module: Any
    tokenizer: Any
    context_length: int | None
    pad_id: int | None
    start_id: int | None
    is_multi_label: bool
    labels: tuple[str, ...]


def load_classifier(
    name: str, device: str, dtype: str | None, revision: str | None
) -> ClassifierModel:
    """Load a classifier; its own code never runs and pickled weights are not read.

    Raises:
        ModelError: Not found, no classifier, or one whose head was not trained.
        TrustError: It wants to run code, or has pickled weights only.
        UsageError: No such device or dtype.
    """
    with quiet():
        device = resolve_device(device)
        repository = open_repository(name, revision, False, False)
        module = _load_module(repository, resolve_dtype(dtype, device, None))
        tokenizer = load_tokenizer(repository, None)
    module.eval()
    module.requires_grad_(False)
    module.to(device)
    config = module.config
    pad_id = config.pad_token_id if config.pad_token_id is not None else tokenizer.pad_token_id
    # subtle: decoders read the last token that is not this id, and refuse batches without one;
    # no token is -1, so rows of one length are read at their end.
    config.pad_token_id = -1 if pad_id is None else pad_id
    starts = (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id)
    return ClassifierModel(
        module,
        tokenizer,
        context_length_of(config),
        pad_id,
        next((start for start in starts if start is not None), None),
        config.problem_type == "multi_label_classification",
        tuple(str(config.id2label[number]) for number in range(config.num_labels)),
    )


def label_index(model: ClassifierModel, label: str | int | None) -> int:
    """Return the number of the wanted label; None is the last one.

    Raises:
        UsageError: The model has no such label.
    """
    count = len(model.labels)
    if label is None:
        return count - 1
    text = str(label).casefold()
    names = [name.casefold() for name in model.labels]
    if text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < count:
        return int(text)
    raise UsageError(
        f"the reward's model has no label {label!r}",
        hint=f"its labels: {', '.join(model.labels)}, or 0 to {count - 1}",
        option="label",
    )


def _load_module(repository: Repository, dtype: Any) -> Any:
    from transformers import AutoModelForSequenceClassification

    with model_errors("reward model", repository.name, repository.unavailable):
        module, loading = AutoModelForSequenceClassification.from_pretrained(
            repository.name,
            dtype=dtype,
            output_loading_info=True,
            **repository.arguments,
            **repository.weight_arguments(),
        )
        # subtle: transformers fills missing weights with random numbers, and only warns.
        missing = sorted(loading["missing_keys"])
        if missing:
            raise ModelError(
                f"{repository.name} is no trained classifier: it has no weights {missing[0]}",
                hint="Give a model that was trained for sequence classification.",
                name=repository.name,
            )
    return module


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
    model: ClassifierModel, prompts: Sequence[GivenPrompt], texts: Sequence[str]
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


def _text_of(prompt: GivenPrompt) -> str:
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
        prompts: Sequence[GivenPrompt] | None = None,
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

    def _encode(self, texts: Sequence[str], prompts: Sequence[GivenPrompt] | None) -> list[Row]:
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

"""Loads a sequence-classification model as safely as language models are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdec.core.errors import ModelError, UsageError
from cdec.core.models.loading import (
    load_tokenizer,
    model_errors,
    quiet,
    resolve_device,
    resolve_dtype,
)
from cdec.core.models.repositories.trust import Repository, open_repository
from cdec.core.models.wrapping import context_length_of


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

    with model_errors("reward model", repository.name, repository.away):
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

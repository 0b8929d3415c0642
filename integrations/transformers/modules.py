"""Modules of transformers as language models, with their tokenizers and ends of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cdec.core.constraint import Constraint
from cdec.core.errors import CdecError, TokenizerMismatchError, UsageError
from cdec.core.models.base import Budget
from cdec.core.models.language_model import LanguageModel
from cdec.core.models.loading import fitted_vocabulary, output_width, wrap_module
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.cursors import require_same_tokens

MAKE = "Make the constraint with model_vocabulary(model, tokenizer)."
"""Advice about a constraint of other tokens."""


def model_vocabulary(model: Any, tokenizer: Any = None) -> Vocabulary:
    """Return the vocabulary that constraints for a model are made with.

    It is the tokenizer's, as wide as the model's scores, with the ends of sequence that the
    model's generation config names and the tokenizer's own.

    Args:
        model: A module with ``generate``.
        tokenizer: Whatever ``Vocabulary.from_tokenizer`` reads; None: that of the folder or the hub
            name that the model was loaded from. Cost: below a second for 131,072 tokens.

    Raises:
        ModelError: There is none, or it has more tokens than the model scores.
        UsageError: The model was not loaded from anywhere.
    """
    name = getattr(model, "name_or_path", "")
    if tokenizer is None and not name:
        raise UsageError(
            "the model does not say what it was loaded from, so its tokenizer is not known",
            hint="Give `vocabulary`: model_vocabulary(model, tokenizer).",
            option="vocabulary",
        )
    found = Vocabulary.from_tokenizer(name if tokenizer is None else tokenizer)
    return fitted_vocabulary(found, model, name or type(model).__name__)


def called_vocabulary(
    model: Any,
    given: Vocabulary | None,
    end_ids: Sequence[int],
    constraints: Iterable[Constraint | None],
) -> Vocabulary:
    """Return the vocabulary that a call draws with, and refuse constraints made for another.

    Args:
        model: A module with ``generate``.
        given: Its vocabulary; None: ``model_vocabulary(model)``.
        end_ids: Ids that end a text in this call.
        constraints: None stands for no constraint.

    Raises:
        TokenizerMismatchError: A constraint was made for other tokens, scores or ends.
        CdecError: No tokenizer can be found or read.
    """
    known = _known_vocabulary(model) if given is None else given
    if known.size > output_width(model):
        raise TokenizerMismatchError(
            f"`vocabulary` has {known.size} tokens, and the model scores {output_width(model)}",
            hint="Give model_vocabulary(model, tokenizer).",
        )
    vocabulary = known.with_width(output_width(model)).with_eos(end_ids)
    for constraint in constraints:
        if constraint is not None:
            _require_same(constraint, vocabulary, known)
    return vocabulary


def language_model(
    model: Any, vocabulary: Vocabulary, *, first_tokens: Sequence[int] | None, uses_cache: bool
) -> LanguageModel:
    """Return the language model of a module, for one call: its weights may change between calls.

    Raises:
        UsageError: The module is in training mode.
    """
    if model.training:
        raise UsageError(
            "the model is in training mode, where equal prefixes have different scores",
            hint="Call model.eval() first.",
        )
    budget = Budget() if uses_cache else Budget(key_value_bytes=0)
    return wrap_module(model, vocabulary, first_tokens=first_tokens, budget=budget)


def draft_model(draft: Any, vocabulary: Vocabulary) -> Any:
    """Return a draft as cdec's methods take it; a module becomes a language model.

    Args:
        draft: A module, whose tokenizer is the target's unless it was loaded from a place with
            another, or what ``draft`` of a method may be.
        vocabulary: Of the target.

    Raises:
        UsageError: The module is in training mode, or scores fewer tokens than there are.
    """
    if not hasattr(draft, "get_output_embeddings"):
        return draft
    width = output_width(draft)
    try:
        own = model_vocabulary(draft).with_eos(vocabulary.eos_token_ids)
    except CdecError:
        if width < vocabulary.size:
            raise UsageError(
                f"the draft scores {width} tokens, and the vocabulary has {vocabulary.size}",
                hint="Give a draft of the same tokenizer.",
                option="draft",
            ) from None
        own = vocabulary.with_width(width)
    return language_model(draft, own, first_tokens=None, uses_cache=True)


def _known_vocabulary(model: Any) -> Vocabulary:
    try:
        return model_vocabulary(model)
    except CdecError as error:
        raise UsageError(
            f"it is not known which tokenizer the model has: {error.message}",
            hint="Give `vocabulary`: model_vocabulary(model, tokenizer).",
            option="vocabulary",
        ) from error


def _require_same(constraint: Constraint, ours: Vocabulary, known: Vocabulary) -> None:
    """Refuse a constraint whose vocabulary is not the call's.

    Args:
        constraint: Of some texts.
        ours: Of the call.
        known: Of the model, with ends of its own.

    Raises:
        TokenizerMismatchError: It is not.
    """
    theirs = constraint.vocabulary
    require_same_tokens(constraint, ours, known, hint=MAKE)
    if ours.width != theirs.width:
        raise TokenizerMismatchError(
            f"the constraint was made for {theirs.width} scores, the model gives {ours.width}",
            hint=MAKE,
        )
    if ours.eos_token_ids != theirs.eos_token_ids:
        raise TokenizerMismatchError(
            f"`eos_token_id` is {list(ours.eos_token_ids)}, and the constraint's texts end with "
            f"{list(theirs.eos_token_ids)}",
            hint=f"Give `eos_token_id` {list(theirs.eos_token_ids)}, or make the constraint with "
            "such a vocabulary.",
        )

"""The kinds of tokenizers whose spellings are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cdec.core.spelling.base import TokenStates
from cdec.core.spelling.reading import Spelling, refusal
from cdec.core.spelling.speller import Speller
from cdec.core.spelling.unigram import UnigramSpeller
from cdec.core.tokens.spec import Spec
from cdec.core.tokens.vocabulary import Vocabulary

SPELLERS: dict[str, Callable[[Vocabulary, Spec], TokenStates[Any]]] = {
    "BPE": lambda vocabulary, spec: Speller(Spelling.of(vocabulary, spec)),
    "Unigram": UnigramSpeller,
}
"""By the type of a tokenizer's model."""


def speller_of(vocabulary: Vocabulary) -> TokenStates[Any]:
    """Return states and masks of what the tokenizer of a vocabulary writes.

    Cost: some two seconds for 131,072 tokens.

    Raises:
        CanonicalError: It has parts whose effect on a text is not known here.
        UsageError: The vocabulary has no tokenizer.
    """
    spec = vocabulary.spec()
    model = spec["model"]["type"]
    if model not in SPELLERS:
        raise refusal(f"its model is of the type {model}")
    return SPELLERS[model](vocabulary, spec)

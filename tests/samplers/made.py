"""Every sampler by name, with the draft and the reward that some of them cannot do without."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.language_model import LanguageModel
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.base import Sampler
from cdec.samplers.rewards.base import GivenPrompt, Reward

NEEDS_DRAFT = frozenset({"speculative", "mentored", "cdlh-approx", "cdsl"})


class ShareOfA(Reward):
    """Share of a text's letters that are an a; 0 of an empty one."""

    name = "share-of-a"

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Mapping[str, object] | None],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        """Return float64[n]."""
        return np.array([text.count("a") / max(1, len(text)) for text in texts])


def flat_draft(vocabulary: Vocabulary) -> TabularModel:
    """Return a draft that finds every token equally likely."""
    flat = np.full(vocabulary.width, 1.0 / vocabulary.width)
    return TabularModel(lambda prefix: flat, vocabulary)


def made(
    name: str, vocabulary: Vocabulary, *, draft: LanguageModel | None = None, **options: Any
) -> Sampler:
    """Return a sampler that runs: a flat draft and a simple reward where they are needed."""
    if name in NEEDS_DRAFT:
        options["draft"] = flat_draft(vocabulary) if draft is None else draft
    if "reward" in inspect.signature(SAMPLERS[name]).parameters:
        options["reward"] = ShareOfA()
    return SAMPLERS[name](**options)

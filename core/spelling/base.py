"""What every kind of tokenizer tells of the token sequences that it writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import mask_words, pack_mask
from cdec.core.tokens.vocabulary import Vocabulary

StateT = TypeVar("StateT")
"""What counts of a text and its tokens: hashable, and equal where what may follow is."""


class TokenStates(ABC, Generic[StateT]):
    """States and masks of what a tokenizer writes.

    Args:
        vocabulary: Of the model.

    Attributes:
        words: Of a mask.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.words = mask_words(vocabulary.width)

    @property
    @abstractmethod
    def start(self) -> StateT:
        """The state before the first token of a text."""

    @abstractmethod
    def may_end(self, state: StateT) -> bool:
        """Say whether a text may end here, or whether a special or added token may follow."""

    @abstractmethod
    def row(self, state: StateT) -> NDArray[np.int32]:
        """Return the mask of what may follow, int32[words]: ends, too, where the text may end."""

    @abstractmethod
    def after(self, state: StateT, token: int) -> StateT | None:
        """Return the state after a token; None where the tokenizer writes none such."""

    def packed(self, ids: object) -> NDArray[np.int32]:
        """Return the mask of some tokens, int32[words]."""
        bits = np.zeros((1, self.vocabulary.width), np.bool_)
        bits[0, np.asarray(ids, np.int64)] = True
        mask: NDArray[np.int32] = pack_mask(bits)[0]
        return mask

"""What every kind of tokenizer tells of the token sequences that it writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import mask_words, pack_mask
from cdec.core.tokens.vocabulary import Vocabulary

StateT = TypeVar("StateT")
"""What counts of a text and its tokens: hashable, and equal where what may follow is."""


class Plain(NamedTuple):
    """A state that the library follows itself.

    Attributes:
        places: Ascending. tail: Number of what may yet be composed. token: The last one, or -1.
    """

    places: tuple[int, ...]
    tail: int
    token: int


def spelling_columns(words: int, vocabulary: Vocabulary, *of_text: Any) -> tuple[Any, ...]:
    """Return the columns of ``cdec_spelling``; without those of texts every state is told."""
    ends = np.array(vocabulary.eos_token_ids, np.int64)
    kinds = "iilibliilibiuiliiiiibbiliiiii" if not of_text else ""
    types = {"i": np.int32, "l": np.int64, "b": np.bool_, "u": np.uint8}
    return words, vocabulary.width, ends, *of_text, *(np.empty(0, types[kind]) for kind in kinds)


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

    def columns(self) -> tuple[Any, ...]:
        """Return what the library knows of the tokenizer (``cdec_spelling``); nothing."""
        return spelling_columns(self.words, self.vocabulary)

    def plain(self, state: StateT) -> Plain | None:
        """Return a state as the library has it; None where it is told what follows."""
        return None

    def state_of(self, plain: Plain) -> StateT:
        """Return the state that is ``plain`` in the library."""
        raise NotImplementedError("the library follows no state of this tokenizer")

    def tail_masks(self, tail: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the masks that ``cdec_spelled_tell_tail`` takes, int32[words] each."""
        raise NotImplementedError("the library follows no state of this tokenizer")

    def packed(self, ids: object) -> NDArray[np.int32]:
        """Return the mask of some tokens, int32[words]."""
        bits = np.zeros((1, self.vocabulary.width), np.bool_)
        bits[0, np.asarray(ids, np.int64)] = True
        mask: NDArray[np.int32] = pack_mask(bits)[0]
        return mask

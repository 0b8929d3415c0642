"""DeniedTexts: byte strings never to emit, as a trie that tokens walk; nodes are made as needed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.healing import SortedTokens

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

ROOT = 0
OFF = -1
"""Stands for every text that is not the beginning of a denied one."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Where tokens lead that stay in the trie.

    Attributes:
        tokens: int64[k] ascending.
        nodes: int64[k] the node after each.
    """

    tokens: NDArray[np.int64]
    nodes: NDArray[np.int64]


class DeniedTexts:
    """Distinct texts in the order of their bytes; a node is the range of those with one beginning.

    One serves all constraints over its vocabulary.

    Args:
        texts: Denied byte strings.
        vocabulary: Whose tokens walk; sorting it takes 0.1 s for 131,072 tokens.
    """

    def __init__(self, texts: Iterable[bytes], vocabulary: Vocabulary) -> None:
        self.texts = sorted(set(texts))
        self.token_bytes: Sequence[bytes] = vocabulary.token_bytes
        self._tokens = SortedTokens(vocabulary)
        self._lock = Lock()
        self._numbers: dict[bytes, int] = {b"": ROOT}
        # Per node: its beginning, and the range of texts that have it.
        self._nodes: list[tuple[bytes, int, int]] = [(b"", 0, len(self.texts))]
        self._steps: dict[int, Steps] = {}

    def follow(self, node: int, added: bytes) -> int:
        """Return the node after further bytes, OFF where no denied text begins so."""
        if node == OFF or not added:
            return node
        begun, low, high = self._nodes[node]
        text = begun + added
        number = self._numbers.get(text)
        if number is not None:
            return number
        size = len(text)
        low = bisect_left(self.texts, text, low, high)
        high = bisect_right(self.texts, text, low, high, key=lambda denied: denied[:size])
        if low == high:
            return OFF
        with self._lock:
            if text not in self._numbers:
                self._nodes.append((text, low, high))
                self._numbers[text] = len(self._nodes) - 1
        return self._numbers[text]

    def is_denied(self, node: int) -> bool:
        """Say whether the text that leads to a node is denied."""
        if node == OFF:
            return False
        begun, low, _ = self._nodes[node]
        # subtle: of the texts with one beginning, the beginning itself is the first.
        return low < len(self.texts) and self.texts[low] == begun

    def depth(self, node: int) -> int:
        """Return how many bytes lead to a node."""
        return len(self._nodes[node][0])

    def steps(self, node: int) -> Steps:
        """Return the tokens that stay in the trie.

        Cost: once a node, a microsecond for each byte of its texts, or for each token of the
        vocabulary if they are fewer.
        """
        if node not in self._steps:
            begun, low, high = self._nodes[node]
            found = (
                self._by_text(len(begun), low, high)
                if (high - low) * 8 < len(self._tokens.ids)
                else self._by_token(begun, low, high)
            )
            ids = sorted(found)
            nodes = [self.follow(node, self.token_bytes[token]) for token in ids]
            self._steps[node] = Steps(np.array(ids, np.int64), np.array(nodes, np.int64))
        return self._steps[node]

    def _by_text(self, depth: int, low: int, high: int) -> set[int]:
        return {
            token
            for text in self.texts[low:high]
            for _, ids in self._tokens.beginnings(text[depth:])
            for token in ids
        }

    def _by_token(self, begun: bytes, low: int, high: int) -> set[int]:
        found = set()
        for token, added in zip(self._tokens.ids, self._tokens.texts, strict=True):
            text = begun + added
            at = bisect_left(self.texts, text, low, high)
            if at < high and self.texts[at].startswith(text):
                found.add(token)
        return found

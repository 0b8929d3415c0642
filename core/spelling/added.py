"""Added tokens: texts that a tokenizer cuts out first, the leftmost and longest of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Begun: TypeAlias = "tuple[bytes, ...]"
"""Beginnings of added tokens' texts that stand at the end of a text, and must not be completed."""
NONE: Begun = ()


class AddedTokens:
    """Texts that are cut out, and the tokens that would complete one that other tokens begin.

    Args:
        texts: By id.
        token_bytes: Of all tokens, by id; empty for those that are no text.
    """

    def __init__(self, texts: Mapping[int, bytes], token_bytes: Sequence[bytes]) -> None:
        self.texts = dict(texts)
        self._contents = sorted(set(texts.values()))
        self._beginnings = {text[:size] for text in self._contents for size in range(1, len(text))}
        self._lasts = {text[-1:] for text in self._beginnings}
        self._longest = max(map(len, self._contents), default=0)
        named = [(token, i) for i, token in enumerate(token_bytes) if token and i not in texts]
        self._sorted = sorted(named) if texts else []

    def holding(self) -> list[int]:
        """Return the other tokens whose own bytes hold such a text."""
        return [i for token, i in self._sorted if any(text in token for text in self._contents)]

    def completing(self, begun: Begun) -> list[int]:
        """Return the other tokens that complete one of the texts that are begun."""
        found: list[int] = []
        for beginning in begun:
            for text in self._contents:
                if len(text) > len(beginning) and text.startswith(beginning):
                    found += self._beginning_with(text[len(beginning) :])
        return found

    def may_begin(self, token: bytes) -> bool:
        """Say whether one of the texts is begun behind another token that stands alone."""
        return token[-1:] in self._lasts and self.after(NONE, token) != NONE

    def after(self, begun: Begun, token: bytes) -> Begun | None:
        """Return what is begun after another token; None where a text is completed."""
        if not self._contents:
            return NONE
        if self._completes(begun, token) or any(content in token for content in self._contents):
            return None
        ends = {beginning + token for beginning in begun} & self._beginnings
        sizes = range(1, min(len(token), self._longest) + 1)
        ends |= {token[-size:] for size in sizes} & self._beginnings
        return tuple(sorted(ends))

    def after_added(self, begun: Begun, token_id: int) -> Begun | None:
        """Return what is begun after an added token; None where another one would be cut out."""
        text = self.texts[token_id]
        if self._completes(begun, text):
            return None
        # subtle: what begins within the token's text is not looked for, but a longer token may
        # begin like it, and would be preferred.
        return tuple(sorted({each + text for each in (*begun, b"")} & self._beginnings))

    def _completes(self, begun: Begun, token: bytes) -> bool:
        return any(
            len(content) > len(beginning) and (beginning + token).startswith(content)
            for beginning in begun
            for content in self._contents
        )

    def _beginning_with(self, text: bytes) -> list[int]:
        at = bisect_left(self._sorted, (text, -1))
        found = []
        while at < len(self._sorted) and self._sorted[at][0].startswith(text):
            found.append(self._sorted[at][1])
            at += 1
        return found

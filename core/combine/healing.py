"""Token healing: the end of a prompt is cut off and forced as the beginning of what is generated.

A prompt that ends inside of what the model would write as one token (``"http:`` before ``//``) has
an unlikely last token. Healing backs up to the last token boundary before it: the tokens cut off
become a *prefix* of bytes, which any tokens may spell, also one that goes on beyond it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.combine.healed_session import HealedSession, PrefixPosition
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.mask import pack_mask
from cdec.core.session import DEAD, Session

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


class SortedTokens:
    """A vocabulary's ordinary tokens in the order of their bytes.

    Cost: a sort of the vocabulary, 0.1 s for 131,072 tokens; make one for all prompts.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        table = vocabulary.token_bytes
        ordinary = np.flatnonzero(vocabulary.is_ordinary).tolist()
        self.ids = sorted(ordinary, key=table.__getitem__)
        self.texts = [table[token] for token in self.ids]
        self.longest = max(map(len, self.texts), default=0)
        # No token is longer than the longest: a text with this after it is above all tokens that
        # begin with the text, and below all others that are above it.
        self._above = b"\xff" * (self.longest + 1)
        self._vocabulary = vocabulary

    def beginnings(self, text: bytes) -> Iterator[tuple[int, list[int]]]:
        """Yield the lengths at which tokens end that ``text`` begins with, and these tokens."""
        low, high = 0, len(self.texts)
        for length in range(1, len(text) + 1):
            part = text[:length]
            low = bisect_left(self.texts, part, low, high)
            high = bisect_left(self.texts, part + self._above, low, high)
            if low == high:
                return
            stop = bisect_right(self.texts, part, low, high)
            if stop > low:
                yield length, self.ids[low:stop]

    def longer(self, text: bytes) -> tuple[list[int], list[bytes]]:
        """Return the tokens that begin with ``text`` and go on, and how they go on."""
        start = bisect_right(self.texts, text)
        stop = bisect_left(self.texts, text + self._above)
        return self.ids[start:stop], [token[len(text) :] for token in self.texts[start:stop]]

    def cut(self, token_ids: Sequence[int]) -> tuple[list[int], bytes]:
        """Cut the last tokens off a prompt: one, or as many as one longer token could replace.

        Args:
            token_ids: Of the prompt.

        Returns:
            The tokens that stay, and the bytes of the others; none where the last token is
            special or the only one.
        """
        ids = [int(token) for token in token_ids]
        ordinary = self._vocabulary.is_ordinary
        cut, tail = 0, b""
        for n in range(1, len(ids)):
            token = ids[-n]
            if not ordinary[token]:
                break
            tail = self._vocabulary.token_bytes[token] + tail
            if len(tail) > self.longest:
                break
            if n == 1 or self.longer(tail)[0]:
                cut = n
        kept = len(ids) - cut
        return ids[:kept], self._vocabulary.decode(ids[kept:])


class HealedConstraint(WrappedConstraint):
    """The texts of a constraint behind a forced prefix of bytes; texts and verdicts leave it out.

    A member is a token sequence whose bytes are the prefix and a member of ``inner``; ``logprob``
    counts all tokens drawn.

    Args:
        inner: A constraint that ``takes_bytes``.
        prefix: At least one byte, which the vocabulary can spell.
        tokens: Of ``inner.vocabulary``; None sorts them.

    Raises:
        UsageError: The inner constraint is walked by tokens alone.
    """

    max_tokens: int | None = None
    takes_bytes = False

    def __init__(
        self, inner: Constraint, prefix: bytes, tokens: SortedTokens | None = None
    ) -> None:
        if not inner.takes_bytes:
            raise inner.needs_grammar("heal")
        super().__init__(inner)
        self.prefix = prefix
        self._tokens = tokens

    @cached_property
    def frames(self) -> Sequence[tuple[bytes, bytes]]:
        """The prefix, before what is forced within."""
        return [(self.prefix + head, tail) for head, tail in self.inner.frames]

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device.

        Cost: the first one finds the tokens allowed at each position: every token that begins with
        what is left of the prefix is tried, about a microsecond each.
        """
        inner, positions = self.inner.session("cpu"), self._positions

        def enter(number: int, token: int) -> int:
            onward = positions[number].beyond[token]
            return int(inner.advance_bytes(inner.start(1), [onward])[0])

        return on_device(HealedSession(inner, positions, enter), device)

    def with_lookahead(self, lookahead: int | None) -> HealedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return HealedConstraint(self.inner.with_lookahead(lookahead), self.prefix, self._tokens)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without the prefix."""
        return self.vocabulary.decode(token_ids)[len(self.prefix) :]

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without the prefix; None where it lacks it."""
        return text[len(self.prefix) :] if text.startswith(self.prefix) else None

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return a text behind the prefix."""
        return [self.prefix + whole for whole in self.inner.whole_texts(text)]

    def whole_text(self, text: bytes) -> bytes:
        """Return what a model would write for a text: the prefix, and the text within."""
        return self.prefix + self.inner.whole_text(text)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return None: the prefix may be spelt in several ways."""
        return None

    @cached_property
    def _positions(self) -> list[PrefixPosition]:
        """Every position's tokens, from the last backwards: a token must lead to a way on."""
        tokens = self._tokens or SortedTokens(self.vocabulary)
        session = self.inner.session("cpu")
        end = len(self.prefix)
        positions: list[PrefixPosition] = []
        alive = {end}
        for start in range(end - 1, -1, -1):
            left = self.prefix[start:]
            spelt = {
                token: start + length
                for length, ids in tokens.beginnings(left)
                if start + length in alive
                for token in ids
            }
            ahead = {token: to for token, to in spelt.items() if to < end}
            beyond = dict.fromkeys(spelt.keys() - ahead.keys(), b"")
            beyond |= _accepted(session, *tokens.longer(left))
            positions.append(self._position(left, ahead, beyond))
            if ahead or beyond:
                alive.add(start)
        return positions[::-1]

    def _position(
        self, left: bytes, ahead: Mapping[int, int], beyond: Mapping[int, bytes]
    ) -> PrefixPosition:
        ids = np.array(sorted({*ahead, *beyond}), np.int32)
        allowed = np.zeros(self.vocabulary.width, np.bool_)
        allowed[ids] = True
        digest = hashlib.blake2b(left, digest_size=8).digest()
        key = int.from_bytes(digest, "little", signed=True)
        return PrefixPosition(ids, allowed, pack_mask(allowed[None])[0], ahead, beyond, key)


def _accepted(session: Session, ids: Sequence[int], onward: Sequence[bytes]) -> dict[int, bytes]:
    """Return the tokens, and how they go on, if a text may begin as they go on."""
    if not ids:
        return {}
    after = session.advance_bytes(session.start(len(ids)), list(onward))
    return {ids[row]: onward[row] for row in np.flatnonzero(after != DEAD).tolist()}

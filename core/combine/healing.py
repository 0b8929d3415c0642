"""Token healing: the end of a prompt is cut off and forced as the beginning of what is generated.

A prompt that ends inside of what the model would write as one token (``"http:`` before ``//``) has
an unlikely last token. Healing backs up to the last token boundary before it: the tokens cut off
become a *prefix* of bytes, which any tokens may spell, also one that goes on beyond it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import ForwardingSession, WrappedConstraint, mask_of
from cdec.core.constraint import Constraint, Facts, no_use
from cdec.core.device_session import on_device
from cdec.core.mask import mask_words
from cdec.core.session import DEAD, FAR, HostSession, Session, integers

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_FIRST = 1 << 62
"""State of position 0 in the prefix; those of the constraint within are far smaller."""


def at_position(number: int) -> int:
    """Return the state at a position of the prefix."""
    return _FIRST + number


@dataclass(frozen=True, slots=True)
class PrefixPosition:
    """Allowed continuations at one position of the prefix.

    Attributes:
        mask: int32[words], the allowed tokens.
        ahead: The next position by token id; tokens that spell all that is left are not in it.
        beyond: The bytes of those after the prefix, by token id.
        key: Speculation key.
    """

    mask: NDArray[np.int32]
    ahead: Mapping[int, int]
    beyond: Mapping[int, bytes]
    key: int

    @classmethod
    def of(
        cls, left: bytes, ahead: Mapping[int, int], beyond: Mapping[int, bytes], width: int
    ) -> PrefixPosition:
        """Return the position at which ``left`` is to be spelt, over ids below ``width``."""
        digest = hashlib.blake2b(left, digest_size=8).digest()
        key = int.from_bytes(digest, "little", signed=True)
        return cls(mask_of([*ahead, *beyond], mask_words(width)), ahead, beyond, key)


class HealedSession(ForwardingSession):
    """A decoding run: positions in the prefix, then the states of the session within.

    Args:
        inner: The session within.
        vocabulary: Of both.
        positions: Of the prefix, in an order that ``ahead`` numbers.
        enter: From a position's number and a token that spells all that is left there to the state
            of ``inner`` after it.
        first: The state to start in.
    """

    def __init__(
        self,
        inner: Session,
        vocabulary: Vocabulary,
        positions: Sequence[PrefixPosition],
        enter: Callable[[int, int], int],
        first: int = _FIRST,
    ) -> None:
        super().__init__(inner, vocabulary)
        self._positions = positions
        self._enter = enter
        self._first = first
        self._known: dict[int, tuple[int, int]] = {}

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the prefix, int64[n]."""
        return np.full(n, self._first, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states are positions, bool[n]; a state of neither is the inner's."""
        return (states >= _FIRST) & (states < _FIRST + len(self._positions))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a position, int32[words]."""
        return self._positions[state - _FIRST].mask

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token at a position."""
        position = self._positions[state - _FIRST]
        if token in position.beyond:
            return self._enter(state - _FIRST, token)
        ahead = position.ahead.get(token)
        return DEAD if ahead is None else _FIRST + ahead

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Any:
        """Refuse bytes: the prefix is followed by tokens alone."""
        return Session.advance_bytes(self, states, texts)

    def fewest_tokens(self, states: Any) -> NDArray[np.int64]:
        """Return with how few further tokens texts may end, int64[n], those of the prefix too."""
        return self._distances(states, 0)

    def fewest_ahead(self, states: Any) -> NDArray[np.int64]:
        """Return the most of ``fewest_tokens`` behind any allowed token, or more, int64[n]."""
        return self._distances(states, 1)

    def _distances(self, states: Any, which: int) -> NDArray[np.int64]:
        at = integers(states, 1, "states")
        own, others = self._split(at)
        found = np.empty(len(at), np.int64)
        inside = (self._inside.fewest_tokens, self._inside.fewest_ahead)[which]
        found[others] = inside(at[others])
        found[own] = [self._behind(state - _FIRST)[which] for state in at[own].tolist()]
        return found

    def _behind(self, number: int) -> tuple[int, int]:
        """Return the fewest tokens from a position on, and the most of these behind a token."""
        if number not in self._known:
            position = self._positions[number]
            after = np.array([self._enter(number, t) for t in position.beyond], np.int64)
            needed = [self._behind(to)[0] for to in set(position.ahead.values())]
            needed += self._inside.fewest_tokens(after).tolist()
            fewest = min(needed)
            self._known[number] = fewest + (fewest < FAR), max(needed)
        return self._known[number]

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return keys of where the reading is, int64[n]; in the prefix, of what is left of it."""
        at = integers(states, 1, "states")
        own, others = self._split(at)
        keys = np.empty(len(at), np.int64)
        keys[others] = self._inside.speculation_keys(at[others])
        keys[own] = [self._positions[state - _FIRST].key for state in at[own].tolist()]
        return keys


class HealedConstraint(WrappedConstraint):
    """The texts of a constraint behind a forced prefix of bytes; texts and verdicts leave it out.

    A member is a token sequence whose bytes are the prefix and a member of ``inner``; ``logprob``
    counts all tokens drawn.

    Args:
        inner: A constraint that ``takes_bytes`` or ``takes_pieces``.
        prefix: At least one byte, which the vocabulary can spell.
        tokens: Of ``inner.vocabulary``; None sorts them.

    Raises:
        UsageError: The inner constraint is walked by tokens alone.
    """

    def __init__(
        self, inner: Constraint, prefix: bytes, tokens: SortedTokens | None = None
    ) -> None:
        if not (inner.facts.takes_bytes or inner.facts.takes_pieces):
            raise no_use(inner, "heal")
        super().__init__(inner)
        self.prefix = prefix
        self._tokens = tokens

    @cached_property
    def facts(self) -> Facts:
        """The prefix stands before what is forced within."""
        frames = [(self.prefix + head, tail) for head, tail in self.inner.facts.frames]
        return self._facts_within(takes_bytes=False, frames=frames, reach=self.inner.facts.reach)

    @cached_property
    def max_tokens(self) -> int | None:
        """None: the prefix may be spelt in several ways."""
        return None

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device.

        Cost: the first one finds the tokens allowed at each position: every token that begins with
        what is left of the prefix is tried, about a microsecond each.
        """
        inner, positions = self.inner.session("cpu"), self._positions

        def enter(number: int, token: int) -> int:
            onward = positions[number].beyond[token]
            return int(self._after(inner, [onward])[0])

        return on_device(HealedSession(inner, self.vocabulary, positions, enter), device)

    def with_lookahead(self, lookahead: int | None) -> HealedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return HealedConstraint(self.inner.with_lookahead(lookahead), self.prefix, self._tokens)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without the prefix."""
        return self.vocabulary.decode(token_ids)[len(self.prefix) :]

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return None: where the prefix ends is told by all tokens."""
        return None

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without the prefix; None where it lacks it."""
        return text[len(self.prefix) :] if text.startswith(self.prefix) else None

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return a text behind the prefix."""
        return [self.prefix + w for w in self.inner.whole_texts(text, any_text=any_text)]

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
            beyond |= self._accepted(session, *tokens.longer(left))
            positions.append(PrefixPosition.of(left, ahead, beyond, self.vocabulary.width))
            if ahead or beyond:
                alive.add(start)
        return positions[::-1]

    def _accepted(
        self, session: Session, ids: Sequence[int], onward: Sequence[bytes]
    ) -> dict[int, bytes]:
        """Return the tokens, and how they go on, if a text may begin as they go on."""
        after = self._after(session, list(onward)) if ids else np.empty(0, np.int64)
        return {ids[row]: onward[row] for row in np.flatnonzero(after != DEAD).tolist()}

    def _after(self, session: Any, onward: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the states after the rest of a token each, which counts as one."""
        start = session.start(len(onward))
        if self.inner.facts.takes_pieces:
            return HostSession.advance_bytes(session, start, onward)
        return np.asarray(session.advance_bytes(start, onward))

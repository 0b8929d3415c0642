"""TaggedConstraint: the members of a constraint, each followed by a text that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cdec.core.combine.free.markers import Markers
from cdec.core.combine.free.tagged_session import TaggedSession
from cdec.core.combine.healing import SortedTokens
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.session import DEAD, Session


class TaggedConstraint(WrappedConstraint):
    """What stands in a tagged region: a member, and the text that ends the region.

    The region ends where, for the first time, its text is a member and the ending one. So a member
    that holds the ending text itself behind a shorter member is never drawn whole. The last token
    may go on behind the ending text, with whatever free text may begin with, but for a whole
    beginning of the next region. The end of the text is not allowed within.

    Args:
        inner: Any kind; where it is walked by tokens, the ending text begins with a token.
        end: The text that ends a region; not empty.
        begin: The text that begins the next one.
        tokens: Of ``inner.vocabulary``; None sorts them.
        begun: What the token that began the region has behind its beginning text.
    """

    ends_itself = True
    lists_members = False

    def __init__(
        self,
        inner: Constraint,
        end: bytes,
        begin: bytes,
        tokens: SortedTokens | None = None,
        *,
        begun: bytes = b"",
    ) -> None:
        super().__init__(inner)
        self.end = end
        self.begin = begin
        self.begun = begun
        self._tokens = tokens or SortedTokens(inner.vocabulary)

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no region exceeds; None where unbounded."""
        most = self.inner.max_tokens
        return None if most is None else most + len(self.end)

    @cached_property
    def has_speculation_keys(self) -> bool:
        """Whether sessions have ``speculation_keys``: they have none."""
        return False

    @cached_property
    def frames(self) -> Sequence[tuple[bytes, bytes]]:
        """What stands around a member: what is forced within, and the text that ends the region."""
        return [(head, tail + self.end) for head, tail in self.inner.frames]

    @cached_property
    def _begins(self) -> Markers:
        return Markers([self.begin])

    def started(self, begun: bytes) -> TaggedConstraint:
        """Return this constraint behind the bytes of a token that began the region."""
        return TaggedConstraint(self.inner, self.end, self.begin, self._tokens, begun=begun)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self._session(), device)

    def with_lookahead(self, lookahead: int | None) -> TaggedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        inner = self.inner.with_lookahead(lookahead)
        return TaggedConstraint(inner, self.end, self.begin, self._tokens, begun=self.begun)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone; of a region that has not ended, all there is of it."""
        return self.parted(token_ids)[0]

    def parted(self, token_ids: Sequence[int]) -> tuple[bytes, bytes | None]:
        """Return the member of a region, and what its last token has behind the region's end.

        Of a region that has not ended all there is of its member, and None.
        """
        whole = self.begun + self.vocabulary.decode(token_ids)
        session = self.inner.session("cpu")
        if self.takes_bytes:
            at = whole.find(self.end)
            while at >= 0:
                state = np.asarray(session.advance_bytes(session.start(1), [whole[:at]]))
                if state[0] != DEAD and bool(session.is_complete(state)[0]):
                    return self._content(whole[:at]), whole[at + len(self.end) :]
                at = whole.find(self.end, at + 1)
            return whole, None
        states = session.start(1)
        for n, token in enumerate([*token_ids, -1]):
            rest = self.vocabulary.decode(token_ids[n:])
            if rest.startswith(self.end) and bool(session.is_complete(states)[0]):
                return self.inner.member_text(token_ids[:n]), rest[len(self.end) :]
            if token >= 0:
                states = session.advance(states, np.array([token]))
        return self.inner.member_text(token_ids), None

    def content(self, text: bytes) -> bytes | None:
        """Return the member of a whole region; None where it is none."""
        whole = self.begun + text
        at = whole.find(self.end)
        while at >= 0:
            member = self.inner.content(whole[:at])
            if member is not None and self.inner.accepts(member):
                return member
            at = whole.find(self.end, at + 1)
        return None

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what is drawn of a member's region."""
        wholes = [whole + self.end for whole in self.inner.whole_texts(text)]
        return [whole[len(self.begun) :] for whole in wholes if whole.startswith(self.begun)]

    def whole_text(self, text: bytes) -> bytes:
        """Return what a model would write for a member, behind what the region was begun with."""
        return (self.inner.whole_text(text) + self.end).removeprefix(self.begun)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return None: the text that ends the region may be spelt in several ways."""
        return None

    def _content(self, whole: bytes) -> bytes:
        member = self.inner.content(whole)
        return whole if member is None else member

    def _session(self) -> TaggedSession:
        return TaggedSession(
            self.inner.session("cpu"),
            self.vocabulary,
            self.end,
            self._begins,
            self._tokens,
            begun=self.begun,
            takes_bytes=self.takes_bytes,
        )

"""WrappedConstraint: a constraint that is another one, but for what a subclass changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from cdec.core.constraint import Constraint
from cdec.core.record_fields.shown import line
from cdec.core.session import Session


class WrappedConstraint(Constraint):
    """Answers as the constraint within does; a subclass overrides what it changes.

    Smaller constraints (``candidates``, ``deny_texts``, ``restricted_to``, ``with_lookahead``) are
    not made of the one within, which would lose the change: a subclass defines those it has.

    Args:
        inner: The constraint within.
    """

    def __init__(self, inner: Constraint) -> None:
        self.inner = inner
        self.kind = inner.kind
        self.vocabulary = inner.vocabulary

    def __repr__(self) -> str:
        return line(type(self).__name__, repr(self.inner))

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        return self.inner.max_tokens

    @cached_property
    def is_sound(self) -> bool:
        """Whether every allowed token is proved to have a completion."""
        return self.inner.is_sound

    @cached_property
    def ends_itself(self) -> bool:
        """Whether a member may end without an end id."""
        return self.inner.ends_itself

    @cached_property
    def has_terminals(self) -> bool:
        """Whether texts are read as terminals of a grammar."""
        return self.inner.has_terminals

    @cached_property
    def takes_bytes(self) -> bool:
        """Whether sessions can ``advance_bytes``."""
        return self.inner.takes_bytes

    @cached_property
    def has_speculation_keys(self) -> bool:
        """Whether sessions have ``speculation_keys``."""
        return self.inner.has_speculation_keys

    @cached_property
    def lookahead(self) -> int | None:
        """The lookahead of the constraint within."""
        return self.inner.lookahead

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the constraint within."""
        return self.inner.metadata

    @cached_property
    def frames(self) -> Sequence[tuple[bytes, bytes]]:
        """What may be forced before and after a member."""
        return self.inner.frames

    @cached_property
    def denied_unknown(self) -> int:
        """How many of the texts that were denied are no members."""
        return self.inner.denied_unknown

    @cached_property
    def unenforced(self) -> Sequence[Mapping[str, str]]:
        """What the masks of the constraint within leave open."""
        return self.inner.unenforced

    @cached_property
    def reasons(self) -> Mapping[str, str]:
        """Why parameters mean nothing to the constraint within."""
        return self.inner.reasons

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run of the constraint within."""
        return self.inner.session(device)

    def accepts(self, text: bytes) -> bool | None:
        """Check a member by the path of the constraint within."""
        return self.inner.accepts(text)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone."""
        return self.inner.member_text(token_ids)

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced parts; None where it lacks them."""
        return self.inner.content(text)

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, with forced parts or without."""
        return self.inner.text_of(text)

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included."""
        return self.inner.whole_texts(text)

    def whole_text(self, text: bytes) -> bytes:
        """Return what a model would write for a text, member or not."""
        return self.inner.whole_text(text)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member that has only one tokenisation."""
        return self.inner.token_ids_of(text)

    @property
    def reader(self) -> Callable[[str], Any] | None:
        """What makes a value of a text."""
        return self.inner.reader

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields that samples of a text carry."""
        return self.inner.annotations(text)

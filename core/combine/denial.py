"""Denial: any constraint without some of its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.core.combine.conjunction.constraint import ConjunctionConstraint, on_device
from cdec.core.combine.conjunction.texts import whole_texts
from cdec.core.combine.denial_session import DeniedSession, Verdicts
from cdec.core.combine.denial_trie import DeniedTexts
from cdec.core.errors import EmptySetError, UsageError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint, Session
    from cdec.core.tokens.vocabulary import Vocabulary

_BATCH = 1 << 12
"""Denied texts that are looked up together."""


def deny(
    constraint: Constraint, texts: Sequence[bytes], *, denied: DeniedTexts | None = None
) -> Constraint:
    """Return a constraint without some of its texts, whatever tokens would spell them.

    Args:
        constraint: Any kind.
        texts: As ``member_text`` gives them; those that are no members have no effect. Sets
            normalise them as their members, grammars take the bytes as they are.
        denied: The same texts over the constraint's vocabulary, where several constraints lose
            them; None makes them where they are needed.

    Returns:
        A set keeps its kind and drops rows; a grammar becomes a ``DeniedConstraint``. Its
        attribute ``denied_unknown`` counts the texts that are no members.

    Raises:
        EmptySetError: Nothing is left.
    """
    if not texts:
        return constraint
    chosen: Any = constraint
    if isinstance(chosen, ConjunctionConstraint):
        chosen = chosen.denying(texts) or chosen
    elif hasattr(chosen, "deny_texts"):
        chosen = chosen.deny_texts(texts)
    if chosen is not constraint:
        without: Constraint = chosen
        return without
    if isinstance(chosen, DeniedConstraint):
        texts, chosen, denied = [*chosen.texts, *texts], chosen.inner, None
    smaller = DeniedConstraint(chosen, denied or DeniedTexts(texts, chosen.vocabulary))
    session: Any = smaller.session("cpu")
    if session.is_empty():
        raise EmptySetError(
            f"every text of the {constraint.kind} is denied", hint="Deny fewer texts."
        )
    return smaller


class DeniedConstraint:
    """A constraint of byte strings (its sessions can ``advance_bytes``) without some of its texts.

    Sound where the inner constraint is: a token after which every text is denied is not allowed.

    Args:
        inner: The constraint; its texts take an end id.
        denied: The texts, over the constraint's vocabulary.

    Raises:
        UsageError: Texts of the constraint end themselves.
    """

    def __init__(self, inner: Any, denied: DeniedTexts) -> None:
        if getattr(inner, "ends_itself", False):
            raise UsageError(
                "texts of this constraint end themselves, so there is no end event to refuse",
                hint="Deny them in the set before it is combined.",
            )
        self.inner = inner
        self.texts = frozenset(denied.texts)
        self.vocabulary: Vocabulary = inner.vocabulary
        self._denied = denied
        self._verdicts = Verdicts()

    @property
    def kind(self) -> str:
        """The kind of the constraint within."""
        return str(self.inner.kind)

    @property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        limit: int | None = self.inner.max_tokens
        return limit

    @property
    def is_sound(self) -> bool:
        """Whether every allowed token is proved to have a completion."""
        return bool(self.inner.is_sound)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the constraint within."""
        found: Mapping[str, str] = getattr(self.inner, "metadata", {})
        return found

    @property
    def lookahead(self) -> int | None:
        """The lookahead of the constraint within."""
        look: int | None = getattr(self.inner, "lookahead", None)
        return look

    @cached_property
    def denied_unknown(self) -> int:
        """How many of the texts the inner constraint does not hold, by its session."""
        session = self.inner.session("cpu")
        texts = self._denied.texts
        known = 0
        for first in range(0, len(texts), _BATCH):
            part = texts[first : first + _BATCH]
            after = session.advance_bytes(session.start(len(part)), part)
            known += int(np.count_nonzero(session.is_complete(after)))
        return len(texts) - known

    def with_lookahead(self, lookahead: int | None) -> DeniedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return DeniedConstraint(self.inner.with_lookahead(lookahead), self._denied)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        session: Any = DeniedSession(
            self.inner.session("cpu"),
            self._denied,
            self._verdicts,
            width=self.vocabulary.width,
            end_ids=self.vocabulary.eos_token_ids,
        )
        return on_device(session, device)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone, as the inner constraint does."""
        text: bytes = self.inner.member_text(token_ids)
        return text

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced parts, as the inner constraint does."""
        content: bytes | None = self.inner.content(text)
        return content

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included."""
        return whole_texts(self.inner, text)

    def accepts(self, text: bytes) -> bool | None:
        """Check a text by the inner constraint's independent path, and that it is not denied."""
        if text in self.texts:
            return False
        verdict: bool | None = self.inner.accepts(text)
        return verdict

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the inner constraint's fields of a text."""
        fields: Mapping[str, object] = self.inner.annotations(text)
        return fields

"""Denial: any constraint without some of its texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cdec.core.combine.denial_session import DeniedSession, Verdicts
from cdec.core.combine.denial_trie import DeniedTexts
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.session import Session

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
    smaller = constraint.deny_texts(texts)
    if smaller is None:
        smaller = _refusing(constraint, denied or DeniedTexts(texts, constraint.vocabulary))
    return smaller


def _refusing(inner: Constraint, denied: DeniedTexts) -> DeniedConstraint:
    smaller = DeniedConstraint(inner, denied)
    if smaller.denied_session().is_empty():
        raise EmptySetError(f"every text of the {inner.kind} is denied", hint="Deny fewer texts.")
    return smaller


class DeniedConstraint(WrappedConstraint):
    """A constraint without some of its texts.

    Sound where the inner constraint is: a token after which every text is denied is not allowed.

    Args:
        inner: The constraint; its texts take an end id, and what may follow a text depends on its
            bytes alone.
        denied: The texts, over the constraint's vocabulary.

    Raises:
        UsageError: Texts of the constraint end themselves.
    """

    def __init__(self, inner: Constraint, denied: DeniedTexts) -> None:
        if inner.ends_itself:
            raise UsageError(
                "texts of this constraint end themselves, so there is no end event to refuse",
                hint="Deny them in the set before it is combined.",
            )
        super().__init__(inner)
        self.texts = frozenset(denied.texts)
        self._denied = denied
        self._verdicts = Verdicts()

    @cached_property
    def denied_unknown(self) -> int:
        """How many of the texts the inner constraint does not hold."""
        texts = self._denied.texts
        if not self.inner.takes_bytes:
            return sum(self.inner.accepts(text) is False for text in texts)
        session = self.inner.session("cpu")
        known = 0
        for first in range(0, len(texts), _BATCH):
            part = texts[first : first + _BATCH]
            after = session.advance_bytes(session.start(len(part)), part)
            known += int(np.count_nonzero(session.is_complete(after)))
        return len(texts) - known

    def with_lookahead(self, lookahead: int | None) -> DeniedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return DeniedConstraint(self.inner.with_lookahead(lookahead), self._denied)

    def deny_texts(self, texts: Sequence[bytes]) -> DeniedConstraint:
        """Return this constraint without some more of its texts.

        Raises:
            EmptySetError: Nothing is left.
        """
        return _refusing(self.inner, DeniedTexts([*self.texts, *texts], self.vocabulary))

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self.denied_session(), device)

    def denied_session(self) -> DeniedSession:
        """Start a decoding run on the host."""
        return DeniedSession(
            self.inner.session("cpu"),
            self._denied,
            self._verdicts,
            width=self.vocabulary.width,
            end_ids=self.vocabulary.eos_token_ids,
        )

    def accepts(self, text: bytes) -> bool | None:
        """Check a text by the inner constraint's independent path, and that it is not denied."""
        return False if text in self.texts else self.inner.accepts(text)

"""Members of a constraint behind one text and before another, both forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from cdec.core.combine.free_parts import FreeTextConstraint
from cdec.core.combine.free_text import FreeText
from cdec.core.combine.markers import as_symbols, ids_of, plain, symbols_of
from cdec.core.constraint import Constraint, Facts
from cdec.core.session import Session


class FramedConstraint(FreeTextConstraint):
    """Texts of ``begin``, a member and ``closing``, as draws have them that are forced into these.

    Its token sequences are those of free text with a budget of 0. The text of one is the member
    alone: what stands around it need not be told where a text is given, and special tokens of it
    cannot be.

    Args:
        inner: Of the members, any kind.
        begin: Before a member; words of special tokens stand for these.
        closing: Behind it, likewise; None where the text ends with the member.

    Raises:
        UsageError: One of the two that no tokens spell.
    """

    def __init__(self, inner: Constraint, begin: str, closing: str | None = None) -> None:
        super().__init__(inner, FreeText((begin,), budget=0, closing=closing))
        self._begin = symbols_of(begin, self.vocabulary)
        self._closing = symbols_of(closing or "", self.vocabulary)
        self._head, self._tail = plain(self._begin), plain(self._closing)

    @cached_property
    def facts(self) -> Facts:
        """As of free text, with what is known of members."""
        return replace(super().facts, unenforced=self.inner.facts.unenforced)

    def accepts(self, text: bytes) -> bool | None:
        """Check a member by the path of the constraint within."""
        return self.inner.accepts(text)

    def content(self, text: bytes) -> bytes | None:
        """Return the member of a whole text; None where it lacks what stands around."""
        head, tail = self._head, self._tail
        is_whole = len(text) >= len(head) + len(tail)
        if not (is_whole and text.startswith(head) and text.endswith(tail)):
            return None
        return text[len(head) : len(text) - len(tail)]

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone; of tokens without what stands around all that they spell."""
        return self.text_of(self.vocabulary.decode(token_ids))

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return None: what stands around members is told by all tokens."""
        return None

    def text_of(self, text: bytes) -> bytes:
        """Return the member of a whole text; another one is taken for a member itself."""
        found = self.content(text)
        return text if found is None else found

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return the bytes of a member and of what stands around it."""
        return [self._head + text + self._tail]

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokenizer's tokens of a member and of what stands around it, if there is one.

        Raises:
            UntokenizableError: The tokenizer changes the text.
        """
        if self.vocabulary.tokenization is None:
            return None
        return ids_of(self._begin + as_symbols(text) + self._closing, self.vocabulary)

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields of the member."""
        return self.inner.annotations(text)

    def _refusal(self, session: Session, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a member is refused by the constraint within; bytes are its own."""
        return self.inner._refusal(self.inner.session_for_texts(), text, shown)

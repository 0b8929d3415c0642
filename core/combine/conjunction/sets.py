"""SetConjunction: the rows of a set that other constraints accept as well, as a set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from numpy.typing import NDArray

from cdec.core.combine.conjunction.texts import accepts_all, whole_texts

if TYPE_CHECKING:
    import numpy as np

    from cdec.core.constraint import Constraint, Session
    from cdec.core.sets.constraint import SetConstraint
    from cdec.core.tokens.vocabulary import Vocabulary


class SetConjunction:
    """A set restricted to what other constraints accept: masks, texts and ids are the set's.

    Sound, whatever the others are: every row that is left was walked to its end.

    Args:
        members: The restricted set.
        others: What its rows were held to; asked again by ``accepts``, each by its own path.
    """

    kind = "set"
    is_sound = True

    def __init__(self, members: SetConstraint, others: Sequence[Constraint]) -> None:
        self.members = members
        self.others = tuple(others)
        self.vocabulary: Vocabulary = members.vocabulary
        self.denied_unknown = members.denied_unknown

    @property
    def ends_itself(self) -> bool:
        """Whether the last token of a row gives DONE."""
        return self.members.ends_itself

    @property
    def n_rows(self) -> int:
        """Rows that may be emitted."""
        return self.members.n_rows

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest row, end event not counted."""
        return self.members.max_tokens

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the set's artifact."""
        return self.members.metadata

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device."""
        return self.members.session(device)

    def restrict(self, rows_kept: NDArray[np.bool_]) -> SetConjunction:
        """Return this set without some rows, as ``SetConstraint.restrict``."""
        return SetConjunction(self.members.restrict(rows_kept), self.others)

    def deny_texts(self, texts: Iterable[bytes]) -> SetConjunction:
        """Return this set without the members of these texts, as ``SetConstraint.deny_texts``."""
        return SetConjunction(self.members.deny_texts(texts), self.others)

    def candidates(self, texts_or_ids: Sequence[str]) -> SetConjunction:
        """Return the set of these members alone, as ``SetConstraint.candidates``."""
        return SetConjunction(self.members.candidates(texts_or_ids), self.others)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without the set's forced parts."""
        return self.members.member_text(token_ids)

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without the set's forced parts; None where it lacks them."""
        return self.members.content(text)

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return a member with its forced parts: the bytes of each of its rows."""
        return whole_texts(self.members, text)

    def accepts(self, text: bytes) -> bool | None:
        """Check a member by the set's text index, and by the others' own paths."""
        return accepts_all(self.members, text, self.others)

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the set's fields of a member, such as ``entity_ids``."""
        return self.members.annotations(text)

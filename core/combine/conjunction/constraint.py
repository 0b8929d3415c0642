"""Conjunctions: the token sequences that two constraints both accept, as a constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.core.combine.conjunction.rows import accepted_rows
from cdec.core.combine.conjunction.session import ConjunctionSession
from cdec.core.combine.conjunction.sets import SetConjunction
from cdec.core.combine.conjunction.texts import accepts_all, whole_texts
from cdec.core.errors import EmptySetError, TokenizerMismatchError
from cdec.core.mask import mask_words
from cdec.core.sets.constraint import SetConstraint

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint, Session
    from cdec.core.tokens.vocabulary import Vocabulary

MAX_STEPS = 1 << 27
"""Most steps, tokens of a set's rows, for which a set is restricted row by row: seconds."""
MAX_STATES = 1 << 21
"""Most states that the other constraint may come to hold by it: about a gigabyte of a grammar's."""


def conjoin(
    first: Constraint,
    second: Constraint,
    *,
    max_steps: int = MAX_STEPS,
    max_states: int = MAX_STATES,
) -> Constraint:
    """Return the constraint of the token sequences that both accept.

    A token sequence is judged whole: forced prefixes and suffixes of sets are part of it. A text
    that one side ends itself (a set compiled with a suffix) ends there for both, without an end
    event, if the other side may end there.

    Args:
        first: Its texts and annotations are the result's; those of the second where only that one
            is a set.
        second: Opened for the same vocabulary.
        max_steps: Most steps for which a set is restricted row by row.
        max_states: Most states of the other's session for which it is.

    Returns:
        Where one side is a set, the set of its rows that the other accepts: sound, and as fast as
        the set. Where neither is, and where a set would need more, a walk over both at once
        (``ConjunctionConstraint``), which may run into dead ends. Cost: as ``accepted_rows``.

    Raises:
        EmptySetError: A set of which nothing is left, or two constraints of which a short search
            shows that they have no text in common. (Of two grammars it is undecidable.)
        TokenizerMismatchError: They were opened for different vocabularies.
    """
    _require_same_vocabulary(first, second)
    sides = [(first, second), (second, first)]
    # subtle: a set whose rows end themselves comes first: then the rows' ends are those of both.
    sides.sort(key=lambda side: not getattr(side[0], "ends_itself", False))
    for side, other in sides:
        if side.kind == "set" and isinstance(side, SetConstraint | SetConjunction):
            restricted = _restricted(side, other, max_steps, max_states)
            if restricted is not None:
                return restricted
    product = ConjunctionConstraint(first, second)
    _require_beginning(product)
    return product


class ConjunctionConstraint:
    """The token sequences that two constraints both accept, walked side by side.

    Args:
        first, second: Opened for the same vocabulary.
    """

    is_sound = False

    def __init__(self, first: Constraint, second: Constraint) -> None:
        self.first = first
        self.second = second
        self.vocabulary: Vocabulary = first.vocabulary
        # Texts are shown as the set's members, where one side is a set.
        swap = first.kind != "set" and second.kind == "set"
        self._shown, self._other = (second, first) if swap else (first, second)

    @property
    def kind(self) -> str:
        """``set`` where one side is a set, else ``grammar``."""
        return self._shown.kind

    @property
    def ends_itself(self) -> bool:
        """Whether a text may end without an end id."""
        return any(getattr(side, "ends_itself", False) for side in (self.first, self.second))

    @property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        limits = [self.first.max_tokens, self.second.max_tokens]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the side whose states speculation counts by: the first grammar."""
        sides = sorted((self.first, self.second), key=lambda side: side.kind == "set")
        found: Mapping[str, str] = getattr(sides[0], "metadata", {})
        return found

    @property
    def denied_unknown(self) -> int:
        """How many denied texts the set does not hold, where one side is a set."""
        return int(getattr(self._shown, "denied_unknown", 0))

    @property
    def lookahead(self) -> int | None:
        """The lookahead of the sides, where they have one."""
        looks = [getattr(side, "lookahead", None) for side in (self.first, self.second)]
        return min((look for look in looks if look is not None), default=None)

    def with_lookahead(self, lookahead: int | None) -> ConjunctionConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        sides: list[Any] = [self.first, self.second]
        return ConjunctionConstraint(*(side.with_lookahead(lookahead) for side in sides))

    def denying(self, texts: Sequence[bytes]) -> Constraint | None:
        """Return this constraint without some members, if a set can leave them out; else None."""
        shown: Any = self._shown
        if shown.kind != "set":
            return None
        if isinstance(shown, ConjunctionConstraint):
            return ConjunctionConstraint(shown.denying(texts) or shown, self._other)
        return ConjunctionConstraint(shown.deny_texts(texts), self._other)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; both sides run on the host."""
        return on_device(self.walk(looks_ahead=True), device)

    def walk(self, *, looks_ahead: bool) -> Any:
        """Return a session on the host.

        Args:
            looks_ahead: Whether it looks for dead ends; for texts known beforehand it need not.
        """
        return ConjunctionSession(
            self.first.session("cpu"),
            self.second.session("cpu"),
            width=self.vocabulary.width,
            end_ids=self.vocabulary.eos_token_ids,
            ends_itself=(
                bool(getattr(self.first, "ends_itself", False)),
                bool(getattr(self.second, "ends_itself", False)),
            ),
            looks_ahead=looks_ahead,
        )

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone, without the set's forced parts where one side is a set."""
        return self._shown.member_text(token_ids)

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced parts; None where it lacks those of one side."""
        if self._other.content(text) is None:
            return None
        return self._shown.content(text)

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included."""
        return whole_texts(self._shown, text)

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished member by both sides' independent paths; None if out of time."""
        return accepts_all(self._shown, text, [self._other])

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields that samples of this text carry, of the side that shows them."""
        return self._shown.annotations(text)


def on_device(session: Any, device: str) -> Session:
    """Return a session of the host as it is, or with tensors of a torch device at its doors."""
    if device == "cpu":
        on_host: Session = session
        return on_host
    from cdec.core.grammars.torch_session import TorchGrammarSession

    on_torch: Session = TorchGrammarSession(session, device)
    return on_torch


def _restricted(
    side: SetConstraint | SetConjunction, other: Constraint, max_steps: int, max_states: int
) -> SetConjunction | None:
    """Return the rows of a set that another accepts; None where they are too many to walk.

    None as well where the other ends a row itself that the set ends with an end id: a filter of
    rows cannot say that.
    """
    members = side if isinstance(side, SetConstraint) else side.members
    session: Any = (
        other.walk(looks_ahead=False)
        if isinstance(other, ConjunctionConstraint)
        else other.session("cpu")
    )
    found = accepted_rows(members, session, max_steps=max_steps, max_states=max_states)
    if found is None:
        return None
    if not found.kept.any():
        raise _nothing_left(members)
    if (found.ended & found.kept & ~_rows_that_end(members)).any():
        return None
    others = (*(side.others if isinstance(side, SetConjunction) else ()), other)
    return SetConjunction(members.restrict(found.kept), others)


def _nothing_left(members: SetConstraint) -> EmptySetError:
    row_filter = members.row_filter
    first = 0 if row_filter is None else int(row_filter.kept.argmax())
    shown = members.vocabulary.decode(members.arrays.row(first)).decode("utf-8", "replace")
    return EmptySetError(
        f"none of the set's {members.n_rows} members is accepted by the other constraint, the "
        f"first being {shown!r}",
        hint="Whole texts are judged, with leading space, forced prefix and suffix: compile the "
        "set without (`leading_space` never), or allow them in the other constraint.",
    )


def _rows_that_end(members: SetConstraint) -> Any:
    """Return which rows give DONE by their last token, bool[R]: those no other continues."""
    arrays = members.arrays
    if not members.ends_itself:
        return np.zeros(arrays.n_rows, np.bool_)
    ends = np.diff(arrays.row_offsets) > 0
    ends[arrays.node_row[1:][arrays.node_token[1:] == -1]] = False
    return ends


def _require_beginning(product: ConjunctionConstraint) -> None:
    session = product.session("cpu")
    mask = np.empty((1, mask_words(product.vocabulary.width)), np.int32)
    session.fill_mask(session.start(1), mask)
    if not mask.any():
        raise EmptySetError(
            "the two constraints have no text in common",
            hint="Leave one of them out.",
        )


def _require_same_vocabulary(first: Constraint, second: Constraint) -> None:
    ours, theirs = first.vocabulary, second.vocabulary
    if ours is theirs:
        return
    same = ours.vocabulary_hash == theirs.vocabulary_hash and ours.width == theirs.width
    if not same or ours.eos_token_ids != theirs.eos_token_ids:
        raise TokenizerMismatchError(
            f"the two constraints were opened for different vocabularies (widths {ours.width} and "
            f"{theirs.width}, end ids {list(ours.eos_token_ids)} and "
            f"{list(theirs.eos_token_ids)})",
            hint="Open both with the vocabulary of one model.",
        )

"""Conjunctions: the token sequences that two constraints both accept, as a constraint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cdec.core.agreement import all_accept
from cdec.core.combine.conjunction.session import ConjunctionSession
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, TokenizerMismatchError
from cdec.core.mask import mask_words
from cdec.core.session import Session

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
        (``ConjunctionConstraint``), which may run into dead ends. Cost: as
        ``SetConstraint.restricted_to``.

    Raises:
        EmptySetError: A set of which nothing is left, or two constraints of which a short search
            shows that they have no text in common. (Of two grammars it is undecidable.)
        TokenizerMismatchError: They were opened for different vocabularies.
    """
    _require_same_vocabulary(first, second)
    sides = [(first, second), (second, first)]
    # subtle: a set whose rows end themselves comes first: then the rows' ends are those of both.
    sides.sort(key=lambda side: not side[0].ends_itself)
    for side, other in sides:
        restricted = side.restricted_to(other, max_steps=max_steps, max_states=max_states)
        if restricted is not None:
            return restricted
    product = ConjunctionConstraint(first, second)
    _require_beginning(product)
    return product


class ConjunctionConstraint(Constraint):
    """The token sequences that two constraints both accept, walked side by side.

    Args:
        first, second: Opened for the same vocabulary.
    """

    lists_members: bool
    reasons: Mapping[str, str]
    ends_itself: bool
    has_terminals: bool
    takes_bytes: bool
    lookahead: int | None
    has_speculation_keys: bool
    metadata: Mapping[str, str]

    def __init__(self, first: Constraint, second: Constraint) -> None:
        self.first = first
        self.second = second
        self.vocabulary = first.vocabulary
        sides = (first, second)
        # Texts are shown as the members of a list, where one side is one.
        swap = second.lists_members and not first.lists_members
        self._shown, self._other = (second, first) if swap else sides
        self.kind = self._shown.kind
        self.lists_members = self._shown.lists_members
        self.reasons = self._shown.reasons
        self.ends_itself = any(side.ends_itself for side in sides)
        self.has_terminals = all(side.has_terminals for side in sides)
        self.takes_bytes = all(side.takes_bytes for side in sides)
        looks = [side.lookahead for side in sides]
        self.lookahead = min((look for look in looks if look is not None), default=None)
        # Counts are kept by the states of the first side that has keys; those of a list, places in
        # its trie, serve where there is no other.
        keyed = [side for side in sides if side.has_speculation_keys]
        keyed += [side for side in sides if side.lists_members]
        self.has_speculation_keys = bool(keyed)
        self._keyed = sides.index(keyed[0]) if keyed else 0
        self.metadata = sides[self._keyed].metadata

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        limits = [self.first.max_tokens, self.second.max_tokens]
        return min((limit for limit in limits if limit is not None), default=None)

    @cached_property
    def frames(self) -> Sequence[tuple[bytes, bytes]]:
        """What may be forced before and after a member, by the side that shows texts."""
        return self._shown.frames

    @cached_property
    def unenforced(self) -> Sequence[Mapping[str, str]]:
        """What the masks of either side leave open."""
        return (*self.first.unenforced, *self.second.unenforced)

    @cached_property
    def denied_unknown(self) -> int:
        """How many denied texts the side that shows texts does not hold."""
        return self._shown.denied_unknown

    def with_lookahead(self, lookahead: int | None) -> ConjunctionConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further.

        Raises:
            UsageError: Texts of one side are not read as terminals.
        """
        return ConjunctionConstraint(
            self.first.with_lookahead(lookahead), self.second.with_lookahead(lookahead)
        )

    def candidates(self, texts_or_ids: Sequence[str]) -> Constraint:
        """Return what both sides accept of these members alone.

        Raises:
            FieldError: The members are no list, or some of these are not among them.
            EmptySetError: The other side accepts none of them.
        """
        return conjoin(self._shown.candidates(texts_or_ids), self._other)

    def deny_texts(self, texts: Sequence[bytes]) -> ConjunctionConstraint | None:
        """Return this constraint without some members, if a list can leave them out; else None."""
        smaller = self._shown.deny_texts(texts)
        return None if smaller is None else ConjunctionConstraint(smaller, self._other)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; both sides run on the host."""
        return on_device(self._walk(looks_ahead=True), device)

    def session_for_texts(self) -> ConjunctionSession:
        """Start a run on the host that does not look for dead ends."""
        return self._walk(looks_ahead=False)

    def _walk(self, *, looks_ahead: bool) -> ConjunctionSession:
        return ConjunctionSession(
            self.first.session("cpu"),
            self.second.session("cpu"),
            width=self.vocabulary.width,
            end_ids=self.vocabulary.eos_token_ids,
            ends_itself=(self.first.ends_itself, self.second.ends_itself),
            looks_ahead=looks_ahead,
            keyed=self._keyed,
        )

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone, without the list's forced parts where one side is one."""
        return self._shown.member_text(token_ids)

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced parts; None where it lacks those of one side."""
        if self._other.content(text) is None:
            return None
        return self._shown.content(text)

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, by the side that shows texts."""
        return self._shown.text_of(text)

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included."""
        return self._shown.whole_texts(text)

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished member by both sides' independent paths; None if out of time."""
        own = self._shown.accepts(text)
        if own is False:
            return False
        verdict = all_accept([self._other], self._shown.whole_texts(text))
        return own if verdict else verdict

    @property
    def reader(self) -> Callable[[str], Any] | None:
        """What makes a value of a text, of the side that shows texts."""
        return self._shown.reader

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields that samples of this text carry, of the side that shows them."""
        return self._shown.annotations(text)


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

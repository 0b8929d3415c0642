"""Canonical spellings: the token sequences of a constraint that the tokenizer itself would write.

    narrow = canonical(open_artifact("person.arrow"))

A text has many token sequences, and a model may put mass on all of them; its tokenizer writes one.
S becomes those sequences that are the tokenizer's own for their text, as it spells text that goes
on (``Vocabulary.encode``: what stands before, and a dummy space, change nothing).

Masks and steps are exact: whatever ends is canonical, and nothing canonical is lost. Whether a
beginning still has an end is another question: a constraint may leave only texts that the tokenizer
spells otherwise. Where a constraint has few states, that is known of all of them and there are no
dead ends; else dead ends are looked for where few tokens are allowed (``conjunction``), and
``is_sound`` is False: a text may get stuck, with the finish_reason dead_end and weight zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.conjunction import (
    MAX_STATES,
    MAX_STEPS,
    MOST,
    ConjunctionSession,
    StuckStates,
)
from cdec.core.combine.distances import Distances, distances_of
from cdec.core.combine.fitting import FittedConstraint, Searched
from cdec.core.combine.wrapped import (
    WrappedConstraint,
    filled_at_once,
    most_kept,
    stepped_at_once,
)
from cdec.core.constraint import CANONICAL, Constraint, Facts, all_accept
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.mask import allowed_of_masks, forced_of_masks
from cdec.core.native import library
from cdec.core.session import DEAD, DONE, FAR, HostSession, Session, integers
from cdec.core.spelling.base import Plain, TokenStates
from cdec.core.spelling.kinds import speller_of
from cdec.core.tokens.vocabulary import Vocabulary

_FEW_STEPS = 1 << 13
"""Tokens that are followed in search of dead ends: some tenths of a second."""
_MOST_HELD = 1 << 17
"""States of a session that is shared."""
_MASK, _TAIL, _INNER_MASK = 0, 2, 3
"""What the library may need (``CDEC_NEEDS_MASK``)."""


class CanonicalTexts(Constraint):
    """All texts, as a tokenizer spells them.

    Args:
        vocabulary: Of the model; it has a tokenizer.

    Raises:
        CanonicalError: Which tokens the tokenizer writes is not known for every text.
        UsageError: The vocabulary was given by its bytes.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.speller = speller_of(vocabulary)
        self._session = SpellerSession(self.speller)

    @cached_property
    def facts(self) -> Facts:
        """Facts of all texts."""
        return Facts(kind="tokenizer", spelling=CANONICAL)

    def session(self, device: str = "cpu") -> Session:
        """Return a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self.spelled(), device)

    def spelled(self) -> SpellerSession:
        """Return a run on the host, shared until it holds many states."""
        if len(self._session) > _MOST_HELD:
            self._session = SpellerSession(self.speller)
        return self._session

    def accepts(self, text: bytes) -> bool:
        """Say whether the tokenizer has tokens that spell a text, by asking it."""
        try:
            (row,) = self.vocabulary.encode([text.decode()])
        except UnicodeDecodeError:
            return False
        return self.vocabulary.decode(row) == text


_fill_product, _step_product = library.product_fill_mask, library.product_advance


class SpellerSession(HostSession):
    """A decoding run of what a tokenizer writes, by the library; states are numbers from 0 on.

    What the library does not know of a state (``native/canonical/spelled.h``) it is told.

    Args:
        speller: Its states and masks, which runs share.
    """

    counts_states = True

    def __init__(self, speller: TokenStates[Any]) -> None:
        self._speller = speller
        self.words = speller.words
        self._end_ids = np.array(speller.vocabulary.eos_token_ids, np.int64)
        self._columns = library.hold_spelling(speller.columns())
        self.handle = library.spelled_make(self._columns)
        self._told: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._lock = Lock()
        self._start = self._number(speller.start)

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._end_ids)

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds."""
        return {"states": len(self)}

    def __len__(self) -> int:
        found = np.zeros(2, np.int64)
        library.spelled_statistics(self.handle, found)
        return int(found[0])

    def tell(self, needed: NDArray[np.int64]) -> None:
        """Tell the library what it needs, int64[3], as ``cdec_spelled_fill_mask`` names it."""
        what, state, token = needed.tolist()
        if what == _TAIL:
            library.spelled_tell_tail(self.handle, state, *self._speller.tail_masks(state))
        elif what == _MASK:
            library.spelled_tell_mask(self.handle, state, self._speller.row(self._state(state)))
        else:
            after = self._speller.after(self._state(state), token)
            number = DEAD if after is None else self._number(after)
            library.spelled_tell_step(self.handle, state, token, number)

    def _state(self, number: int) -> Any:
        if number in self._told:
            return self._told[number]
        out = np.empty(3, np.int64)
        out = np.empty(3 + library.spelled_read(self.handle, number, out), np.int64)
        library.spelled_read(self.handle, number, out)
        _, token, tail, *places = out.tolist()
        return self._speller.state_of(Plain(tuple(places), tail, token))

    def _number(self, state: Any) -> int:
        plain = self._speller.plain(state)
        if plain is not None:
            places = np.array(plain.places, np.int32)
            context = library.spelled_plain(self.handle, places, plain.tail)
            return int(library.spelled_number(self.handle, context, plain.token))
        with self._lock:
            if state not in self._numbers:
                context = library.spelled_told(self.handle, self._speller.may_end(state))
                number = int(library.spelled_number(self.handle, context, 0))
                self._told[number] = state
                self._numbers[state] = number
            return self._numbers[state]

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        _told_all(library.spelled_advance, self.handle, (at, tokens, out), self.tell)

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        _told_all(library.spelled_fill_mask, self.handle, (at, packed), self.tell)

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        out[:] = checked_by_masks(self, at, tokens)

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        library.spelled_complete(self.handle, at, out)


def _told_all(
    call: Callable[..., int],
    handle: Any,
    rows: tuple[NDArray[Any], ...],
    tell: Callable[[NDArray[np.int64]], None],
) -> None:
    """Call a function of the library over rows, and tell it in between what it needs."""
    needed, done = np.empty(3, np.int64), 0
    while (now := call(handle, *(row[done:] for row in rows), needed)) < len(rows[0]) - done:
        done += now
        tell(needed)


def checked_by_masks(
    session: Session, at: NDArray[np.int64], tokens: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say of tokens int64[n, M] whether the masks of a session's states have them, bool[n, M]."""
    mask = np.empty((len(at), session.words), np.int32)
    session.fill_mask(at, mask)
    is_one = (tokens >= 0) & (tokens < 32 * session.words)
    ids = np.where(is_one, tokens, 0)
    bits = np.take_along_axis(mask, ids >> 5, axis=1) >> (ids & 31)
    return np.asarray(is_one & (bits & 1 == 1))


class CanonicalProduct(HostSession):
    """A decoding run of both in the library, without the dead ends that are known.

    What ``CanonicalSession`` is, for sessions of which the library makes the product: masks, steps
    and the search for dead ends without a call of Python in between.

    Args:
        inner: Session of the constraint, on the CPU, which has ``fitted_calls``.
        spelled: Session of what the tokenizer writes.
        vocabulary: Of both.
        looks_ahead: As in ``ConjunctionSession``.
    """

    counts_states = True

    def __init__(
        self, inner: Session, spelled: SpellerSession, vocabulary: Vocabulary, *, looks_ahead: bool
    ) -> None:
        calls = inner.fitted_calls
        assert calls is not None
        self._inner, self._spelled, self._vocabulary = inner, spelled, vocabulary
        self.words = inner.words
        self._end_ids = np.array(vocabulary.eos_token_ids, np.int64)
        settings = (int(looks_ahead), MOST, *most_kept(self.words, [inner]))
        self._product = calls.product(calls.handle, spelled.handle, settings)
        starts = int(inner.start(1)[0]), int(spelled.start(1)[0])
        self._start = int(library.product_pair(self._product, *starts))

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` int32[n, words] with the exact masks; fastest if C-contiguous."""
        if not filled_at_once(_fill_product, self._product, states, mask):
            super().fill_mask(states, mask)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where it is not allowed, DONE after an end."""
        stepped = stepped_at_once(_step_product, self._product, states, token_ids)
        return super().advance(states, token_ids) if stepped is None else stepped

    def find_dead_ends(self, most_steps: int) -> Distances | None:
        """Find all dead ends, if the states are few; tokens that lead to them are refused then."""
        found = distances_of(self, self._end_ids, most_steps=most_steps)
        if found is not None:
            stuck = found.fewest == FAR
            library.product_know(self._product, found.states, stuck, self._vocabulary.width)
        return found

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._end_ids)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for, int64[n]: the keys of the constraint."""
        keys: NDArray[np.int64] = self._inner.speculation_keys(self._halves(states)[0])
        return keys

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of its sides included, and its bytes."""
        found = np.zeros(2, np.int64)
        library.product_statistics(self._product, found)
        held = self._inner.statistics()["states"] + self._spelled.statistics()["states"]
        return {"states": int(found[0]) + held, "memo_bytes": int(found[1])}

    def _halves(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return both sides' states; DEAD for what is no pair."""
        at = integers(states, 1, "states")
        left, right = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
        library.product_halves(self._product, at, left, right)
        return left, right

    def _tell(self, needed: NDArray[np.int64]) -> None:
        what, state, token = needed.tolist()
        if what < _INNER_MASK:
            self._spelled.tell(needed)
        elif what == _INNER_MASK:  # it pauses for signals, or says why it cannot
            self._inner.fill_mask(np.array([state]), np.empty((1, self.words), np.int32))
        else:
            self._inner.advance(np.array([state]), np.array([token]))

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        _told_all(_step_product, self._product, (at, tokens, out), self._tell)

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        _told_all(_fill_product, self._product, (at, packed), self._tell)

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        out[:] = checked_by_masks(self, at, tokens)

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        left, right = self._halves(at)
        complete = self._inner.is_complete(left) & self._spelled.is_complete(right)
        out[:] = complete | (at == DONE)


class CanonicalSession(ConjunctionSession):
    """A decoding run of both, without the dead ends that are known.

    Args:
        inner: Session of the constraint, on the CPU.
        spelled: Session of what the tokenizer writes.
        vocabulary: Of both.
        ends_itself: Whether texts may end themselves in the inner session.
        looks_ahead: As in ``ConjunctionSession``.
    """

    def __init__(
        self,
        inner: Session,
        spelled: SpellerSession,
        vocabulary: Vocabulary,
        *,
        ends_itself: bool,
        looks_ahead: bool = True,
    ) -> None:
        super().__init__(
            inner,
            spelled,
            vocabulary,
            ends_itself=(ends_itself, False),
            looks_ahead=looks_ahead,
        )

    def find_dead_ends(self, most_steps: int) -> Distances | None:
        """Find all dead ends, if the states are few; tokens that lead to them are refused then."""
        found = distances_of(self, self._end_ids, most_steps=most_steps)
        if found is not None:
            self._stuck = StuckStates(self._successors)
            verdicts = zip(found.states.tolist(), (found.fewest == FAR).tolist(), strict=True)
            self._stuck.know(dict(verdicts))
            self._most_ways, self._refuses = self._vocabulary.width, True
            self._refused.clear()
            self.forget()
        return found


class CanonicalConstraint(WrappedConstraint):
    """The texts of a constraint as the tokenizer spells them, held to it step by step.

    Args:
        inner: Any kind.
        texts: All texts as the tokenizer of its vocabulary spells them.

    Raises:
        EmptySetError: It is proved that no text is left.
    """

    def __init__(self, inner: Constraint, texts: CanonicalTexts) -> None:
        super().__init__(inner)
        self._texts = texts
        self._session = self._walk(looks_ahead=False)
        self._known = self._session.find_dead_ends(_FEW_STEPS)
        if self._known is None:
            self._session = self._walk(looks_ahead=True)
        first = self._session.start(1)
        if not self._session.is_complete(first)[0] and not len(self._session.allowed(first)[1]):
            raise EmptySetError(
                f"of the {inner.facts.kind} no text is left that the tokenizer spells so",
                hint="leave `canonical` out",
            )

    @cached_property
    def facts(self) -> Facts:
        """Facts of the inner constraint; it is walked by tokens."""
        inner = self.inner.facts
        return self._facts_within(
            is_sound=self._known is not None,
            takes_bytes=False,
            spelling=CANONICAL,
            begun=inner.begun,
            prefill=inner.prefill,
        )

    def with_lookahead(self, lookahead: int | None) -> CanonicalConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return CanonicalConstraint(self.inner.with_lookahead(lookahead), self._texts)

    def within_tokens(self, most: int) -> Constraint:
        """Return the texts of at most ``most`` tokens, where all dead ends are known.

        Raises:
            FitError: Every text has more tokens.
            UsageError: They are not.
        """
        if self._known is None:
            raise UsageError(
                f"how many tokens a canonical text of the {self.facts.kind} still needs is not "
                "known: it has too many states",
                hint="leave `fit` or `canonical` out",
            )
        shortest = int(self._known.fewest_tokens(self._session.start(1))[0])
        return FittedConstraint(self, most, Searched(shortest, self._session, self._known))

    def session(self, device: str = "cpu") -> Session:
        """Return a decoding run on ``cpu`` or a torch device; it runs on the host.

        Runs share a session, which knows its dead ends, until it holds many states.
        """
        if self._known is None and self._session.statistics()["states"] > _MOST_HELD:
            self._session = self._walk(looks_ahead=True)
        return on_device(self._session, device)

    def session_for_texts(self) -> Session:
        """Start a run on the host that does not look for dead ends."""
        return self._walk(looks_ahead=False)

    def _walk(self, *, looks_ahead: bool) -> CanonicalProduct | CanonicalSession:
        inner, spelled = self.inner.session("cpu"), self._texts.spelled()
        if inner.fitted_calls is not None and not self.inner.facts.ends_itself:
            return CanonicalProduct(inner, spelled, self.vocabulary, looks_ahead=looks_ahead)
        return CanonicalSession(
            inner,
            spelled,
            self.vocabulary,
            ends_itself=self.inner.facts.ends_itself,
            looks_ahead=looks_ahead,
        )

    def accepts(self, text: bytes) -> bool | None:
        """Check a member by the inner path, and by asking the tokenizer for its tokens."""
        own = self.inner.accepts(text)
        if own is False:
            return False
        return own if all_accept([self._texts], self.whole_texts(text)) else False

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member, the tokenizer's own; None where it has others."""
        wholes = self.whole_texts(text)
        if len(wholes) != 1 or not self._texts.accepts(wholes[0]):
            return None
        return self.vocabulary.encode([wholes[0].decode()])[0]


def canonical(constraint: Constraint, texts: CanonicalTexts | None = None) -> Constraint:
    """Return the token sequences of a constraint that the tokenizer itself writes for their text.

    Args:
        constraint: Any kind.
        texts: All texts so spelled, where they were read before; else the vocabulary's are read.

    Returns:
        A set keeps its kind, and the rows that are canonical; others become a
        ``CanonicalConstraint``. Cost: some two seconds to read a tokenizer of 131,072 tokens; of a
        set some 20 microseconds a token.

    Raises:
        CanonicalError: Which tokens the tokenizer writes is not known for every text.
        EmptySetError: Nothing is left.
        UsageError: The vocabulary has no tokenizer.
    """
    whole = CanonicalTexts(constraint.vocabulary) if texts is None else texts
    if constraint.listed is not None:
        smaller = constraint.listed.restricted_to(whole, max_steps=MAX_STEPS, max_states=MAX_STATES)
        if smaller is not None:
            return smaller
    return CanonicalConstraint(constraint, whole)

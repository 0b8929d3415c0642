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

from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.conjunction import (
    MAX_STATES,
    MAX_STEPS,
    ConjunctionSession,
    StuckStates,
)
from cdec.core.combine.distances import Distances, distances_of
from cdec.core.combine.fitting import FittedConstraint, Searched
from cdec.core.combine.wrapped import ForwardingSession, WrappedConstraint
from cdec.core.constraint import CANONICAL, Constraint, Facts, all_accept
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.session import DEAD, DONE, FAR, Session
from cdec.core.spelling.base import TokenStates
from cdec.core.spelling.kinds import speller_of
from cdec.core.tokens.vocabulary import Vocabulary

_MOST_STEPS = 1 << 20
"""Steps that are kept."""
_FEW_STEPS = 1 << 13
"""Tokens that are followed in search of dead ends: some tenths of a second."""
_MOST_HELD = 1 << 17
"""States of a session that is shared."""


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


class SpellerSession(ForwardingSession):
    """A decoding run of what a tokenizer writes; states are numbers from 0 on.

    Args:
        speller: Its states and masks, which runs share.
    """

    counts_states = True

    def __init__(self, speller: TokenStates[Any]) -> None:
        super().__init__(None, speller.vocabulary)
        self._speller = speller
        self._states = [speller.start]
        self._numbers = {speller.start: 0}
        self._after: dict[tuple[int, int], int] = {}
        self._ends = frozenset(speller.vocabulary.eos_token_ids)
        self._lock = Lock()

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states int64[n] live, bool[n]."""
        return np.asarray((states >= 0) & (states < len(self._states)))

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.zeros(n, np.int64)

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a state, int32[words]; not to be written to."""
        return self._speller.row(self._states[state])

    def own_end(self, state: int) -> bool:
        """Say whether a text may end at a state."""
        return self._speller.may_end(self._states[state])

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token; DEAD where the tokenizer writes none such."""
        found = self._after.get((state, token))
        if found is None:
            found = self._step(state, token)
            if len(self._after) < _MOST_STEPS:
                self._after[state, token] = found
        return found

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds."""
        return {"states": len(self)}

    def __len__(self) -> int:
        return len(self._states)

    def _step(self, state: int, token: int) -> int:
        at = self._states[state]
        if token in self._ends:
            return DONE if self._speller.may_end(at) else DEAD
        after = self._speller.after(at, token) if 0 <= token < self._vocabulary.width else None
        if after is None:
            return DEAD
        with self._lock:
            number = self._numbers.setdefault(after, len(self._states))
            if number == len(self._states):
                self._states.append(after)
        return number


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
        self._spelled = spelled

    def fill_within(self, states: NDArray[np.int64], mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with the inner masks, and what the tokenizer writes."""
        left, right = self._halves(states)
        self._sides[0].fill_mask(left, mask)
        for row, state in enumerate(right.tolist()):
            if state >= 0:
                mask[row] &= self._spelled.own_mask(state)
        self._note_wide(states, mask)

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

    def _walk(self, *, looks_ahead: bool) -> CanonicalSession:
        return CanonicalSession(
            self.inner.session("cpu"),
            self._texts.spelled(),
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

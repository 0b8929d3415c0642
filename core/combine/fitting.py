"""Fitting: the texts of a constraint that end within a number of tokens, and without dead ends.

    short = fit(open_artifact("person.arrow"), 40)

Lists leave their longer members out. Of all others a state is a pair of the inner state and of how
many tokens are left: a token is allowed where, behind it, the fewest tokens with which the text may
end are left. These are exact where a constraint has few states (``distances``); where a session
knows bounds from above (``Session.fewest_tokens``), some texts that would have ended in time are
missing, and ``facts.fit`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.distances import FAR, MOST_STATES, MOST_STEPS, Distances, distances_of
from cdec.core.combine.wrapped import ForwardingSession, PairTable, WrappedConstraint
from cdec.core.constraint import EXACT, Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, FitError, UsageError
from cdec.core.recent import Recent
from cdec.core.session import DEAD, DONE, Session, integers
from cdec.core.tokens.vocabulary import Vocabulary

_KEPT = 64
"""States whose tokens are kept with what they need: a fifth of a MiB for 50,000 tokens."""


def fit(constraint: Constraint, most: int) -> Constraint:
    """Return the texts of a constraint that end within a number of tokens.

    Args:
        constraint: Any kind.
        most: Tokens, end event not counted; at least 0.

    Returns:
        A set keeps its kind and drops rows; others become a ``FittedConstraint``. Its ``facts.fit``
        says whether it holds all texts of at most so many tokens. Cost of a set: O(R).

    Raises:
        FitError: Every text has more tokens; it says how many the shortest has.
        UsageError: How many tokens texts still need is not known.
    """
    smaller = constraint.within_tokens(most)
    return FittedConstraint(constraint, most) if smaller is None else smaller


class FittedSession(ForwardingSession):
    """A decoding run: pairs of a state of the session within and of how many tokens are left.

    Args:
        inner: Session on the CPU.
        vocabulary: Of both.
        most: Tokens that a text may have.
        distances: Of the inner states from the end; None: the inner session knows them.
    """

    def __init__(
        self,
        inner: Session,
        vocabulary: Vocabulary,
        most: int,
        distances: Distances | None = None,
    ) -> None:
        super().__init__(inner, vocabulary)
        self._most = most
        self._distances = distances or inner
        self._pairs = PairTable()
        self._ahead: Recent[tuple[NDArray[np.int32], NDArray[np.int64]]] = Recent(_KEPT)

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return self._pairs.intern(self._inside.start(n), np.full(n, self._most, np.int64))

    def within(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states of the session within, int64[n]."""
        return self._halves(states)[0]

    def advance_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where no end is within reach behind it."""
        inside, left = self._halves(states)
        after = np.array(self._inside.advance(inside, tokens))
        ends = np.isin(tokens, self._end_ids)
        after[~ends & (self._needed(after) >= left)] = DEAD
        rows = np.flatnonzero(after >= 0)
        after[rows] = self._pairs.intern(after[rows], left[rows] - 1)
        return after

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Any:
        """Refuse bytes: tokens are counted."""
        return Session.advance_bytes(self, states, texts)

    def check_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Say of tokens int64[n, M] whether each is allowed, bool[n, M]: each is followed."""
        n, m = tokens.shape
        after = self.advance_within(np.repeat(states, m), np.ascontiguousarray(tokens).reshape(-1))
        return np.asarray((after != DEAD).reshape(n, m))

    def refused(self, states: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield the rows where few tokens are left, and the tokens behind which they are too few.

        Cost: one comparison a state where many are left; else once a state one step a token.
        """
        inside, left = self._halves(states)
        live = np.flatnonzero(inside >= 0)
        is_near = left[live] <= self._distances.fewest_ahead(inside[live])
        for row in live[is_near].tolist():
            tokens, needed = self._followed(int(inside[row]))
            yield row, tokens[needed >= left[row]]

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        return np.asarray(self._inside.is_complete(self.within(integers(states, 1, "states"))))

    def statistics(self) -> Mapping[str, int]:
        """Return how many states the session holds, those of the session within included."""
        held = self._inside.statistics()
        return {**held, "states": len(self._pairs) + held["states"]}

    def _followed(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the tokens that go on from a state, and the fewest that are needed behind each."""
        known = self._ahead.find(state)
        if known is None:
            ids = self._inside.allowed(np.array([state]))[1]
            tokens = ids[~np.isin(ids, self._end_ids)]
            after = self._inside.advance(np.full(len(tokens), state), tokens.astype(np.int64))
            known = tokens, self._needed(after)
            self._ahead.put(state, known)
        return known

    def _needed(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fewest further tokens of inner states int64[n]; 0 for those that are DEAD."""
        needed = np.zeros(len(states), np.int64)
        rows = np.flatnonzero(states >= 0)
        if rows.size:
            needed[rows] = self._distances.fewest_tokens(states[rows])
        return needed

    def _halves(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the inner states and the tokens left; DEAD and DONE are their own inner states."""
        is_pair = (states >= 0) & (states < len(self._pairs))
        if is_pair.all():
            return self._pairs.pairs(states)
        inside = np.where(states == DONE, DONE, DEAD)
        left = np.zeros(len(states), np.int64)
        inside[is_pair], left[is_pair] = self._pairs.pairs(states[is_pair])
        return inside, left


class FittedConstraint(WrappedConstraint):
    """The texts of a constraint that end within a number of tokens, held to it step by step.

    From every state an end is within reach, where the inner constraint is sound or its states are
    few.

    Args:
        inner: Its states are few, or its sessions know ``fewest_tokens``.
        most: As in ``fit``.

    Raises:
        FitError: Every text has more tokens.
        EmptySetError: There is no text.
        UsageError: How many tokens texts still need is not known.
    """

    def __init__(self, inner: Constraint, most: int) -> None:
        super().__init__(inner)
        self.most = most
        session = inner.session("cpu")
        ends = np.array(inner.vocabulary.eos_token_ids, np.int64)
        self._distances = distances_of(session, ends)
        # Distances are those of one session's states.
        self._kept = None if self._distances is None else session
        if self._distances is None and inner.facts.reach is None:
            raise UsageError(
                f"how many tokens a text of the {inner.facts.kind} still needs is not known: it "
                f"has more than {MOST_STATES:,} states, or these allow more than {MOST_STEPS:,} "
                "tokens together",
                hint="leave `fit` out: a text that is cut off has the finish_reason length",
            )
        shortest = int((self._distances or session).fewest_tokens(session.start(1))[0])
        if shortest == FAR:
            raise EmptySetError(f"the {inner.facts.kind} has no text", hint="Allow some.")
        if shortest > most:
            raise FitError.of(inner.facts.kind, most, shortest)

    @cached_property
    def facts(self) -> Facts:
        """Facts of the inner constraint; it is walked by tokens, which are counted."""
        inner, is_exact = self.inner.facts, self._distances is not None
        return self._facts_within(
            is_sound=inner.is_sound or is_exact,
            takes_bytes=False,
            fit=EXACT if is_exact else inner.reach,
            begun=inner.begun,
            prefill=inner.prefill,
        )

    @cached_property
    def max_tokens(self) -> int:
        """Tokens that no member exceeds, end event not counted."""
        longest = self.inner.max_tokens
        return self.most if longest is None else min(self.most, longest)

    def with_lookahead(self, lookahead: int | None) -> Constraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return fit(self.inner.with_lookahead(lookahead), self.most)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        inner = self._kept or self.inner.session("cpu")
        session = FittedSession(inner, self.vocabulary, self.most, self._distances)
        return on_device(session, device)

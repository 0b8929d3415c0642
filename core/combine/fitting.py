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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.distances import (
    FEW_STEPS,
    MOST_STATES,
    MOST_STEPS,
    Distances,
    distances_of,
)
from cdec.core.combine.wrapped import ForwardingSession, PairTable, WrappedConstraint
from cdec.core.constraint import EXACT, Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, FitError, UsageError
from cdec.core.native import library
from cdec.core.recent import Recent
from cdec.core.session import DEAD, DONE, FAR, FittedCalls, Session, integers
from cdec.core.tokens.vocabulary import Vocabulary

MOST_TOKENS = (1 << 22) - 1
"""More than any text has."""
_KEPT = 64
"""States whose tokens are kept with what they need: a fifth of a MiB for 50,000 tokens."""


def fit(constraint: Constraint, most: int, *, max_steps: int | None = None) -> Constraint:
    """Return the texts of a constraint that end within a number of tokens.

    Args:
        constraint: Any kind.
        most: Tokens, end event not counted; at least 0.
        max_steps: Tokens to follow in search of exact distances; None takes ``MOST_STEPS``, and
            ``FEW_STEPS`` where a session knows bounds.

    Returns:
        A set keeps its kind and drops rows; others become a ``FittedConstraint``. Its ``facts.fit``
        says whether it holds all texts of at most so many tokens. Cost of a set: O(R).

    Raises:
        FitError: Every text has more tokens; it says how many the shortest has.
        UsageError: How many tokens texts still need is not known.
    """
    smaller = constraint.within_tokens(most)
    if smaller is None:
        smaller = FittedConstraint(constraint, most, _searched(constraint, max_steps))
    return smaller


@dataclass(frozen=True, eq=False)
class Searched:
    """Distances of a constraint's states from the end of a text, whatever number of tokens it has.

    Attributes:
        shortest: Tokens of the shortest text.
        distances: Of the states of ``session``; None where its sessions know them.
    """

    shortest: int
    session: Session
    distances: Distances | None


def _searched(constraint: Constraint, max_steps: int | None) -> Searched:
    session, reach = constraint.session("cpu"), constraint.facts.reach
    if max_steps is None:
        max_steps = MOST_STEPS if reach is None else FEW_STEPS
    ends = np.array(constraint.vocabulary.eos_token_ids, np.int64)
    found = None if reach == EXACT else distances_of(session, ends, most_steps=max_steps)
    kind = constraint.facts.kind
    if found is None and reach is None:
        raise _not_known(kind)
    shortest = int((found or session).fewest_tokens(session.start(1))[0])
    if shortest == FAR and found is None and reach != EXACT:
        raise _not_known(kind)
    if shortest == FAR:
        raise EmptySetError(f"the {kind} has no text", hint="Allow some.")
    return Searched(shortest, session, found)


def _not_known(kind: str) -> UsageError:
    return UsageError(
        f"how many tokens a text of the {kind} still needs is not known: no way to an end was "
        f"found, and it has more than {MOST_STATES:,} states, or these allow more than "
        f"{MOST_STEPS:,} tokens together",
        hint="leave `fit` out: a text that is cut off has the finish_reason length",
    )


_ONE_TOKEN = 1 << 40
"""Added to a state for each token that is left, where states are small numbers."""
_MOST_HELD = 1 << 17
"""States of a session that is shared."""
_MOST_NOTED = 1 << 24
"""States of which is kept what they need, 8 bytes each."""
_INT64 = np.dtype(np.int64)
_empty, _split, _join = np.empty, library.fitted_split, library.fitted_join


def _never(*_: object) -> int:
    """Do nothing for no row."""
    return -1


class PackedPairs:
    """Pairs of a small number and of a count, as one number; as ``PairTable`` numbers any."""

    def __len__(self) -> int:
        return 0  # none is held

    def intern(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of pairs, int64[n] each."""
        return left + right * _ONE_TOKEN

    def pairs(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the left and right halves of pairs, int64[n] each."""
        return numbers % _ONE_TOKEN, numbers // _ONE_TOKEN


class FittedSession(ForwardingSession):
    """A decoding run: pairs of a state of the session within and of how many tokens are left.

    Where more tokens are left than are needed behind any that is allowed, masks and steps are those
    of the session within.

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
        is_packed = inner.counts_states and most <= MOST_TOKENS
        self._pairs: PairTable | PackedPairs = PackedPairs() if is_packed else PairTable()
        calls = (is_packed and inner.fitted_calls) or FittedCalls(None, _never, _never, _never)
        self._handle, self._fill, self._step = calls.handle, calls.fill_mask, calls.advance
        # Where pairs are packed: what is needed ahead of inner states, -1 where it was not asked.
        self._needed_ahead = np.empty(0, np.int64)
        self._ahead: Recent[tuple[NDArray[np.int32], NDArray[np.int64]]] = Recent(_KEPT)

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return self._numbered(self._inside.start(n), np.full(n, self._most, np.int64))

    def within(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states of the session within, int64[n]."""
        return self._halves(states)[0]

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        try:
            shape = len(states), self.words
            ahead = self._needed_ahead
            if mask.shape == shape and self._fill(self._handle, states, ahead, mask) == shape[0]:
                return
        except (TypeError, ValueError, AttributeError):
            pass
        inside = self._if_far(states)
        if inside is None:
            super().fill_mask(states, mask)
        else:
            self._inside.fill_mask(inside, mask)

    def is_forwarded(self, states: NDArray[np.int64]) -> bool:
        """Say whether all that is allowed at states int64[n] is what is allowed within."""
        return self._if_far(states) is not None or super().is_forwarded(states)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where no end is within reach behind it."""
        try:
            out: NDArray[np.int64] = _empty(len(states), _INT64)
            if token_ids.dtype is not _INT64:
                token_ids = token_ids.astype(_INT64, casting="safe")
            if self._step(self._handle, states, self._needed_ahead, token_ids, out) == len(out):
                return out
        except (TypeError, ValueError, AttributeError):
            pass
        inside = self._if_far(states)
        if inside is None:
            return super().advance(states, token_ids)
        after: NDArray[np.int64] = self._inside.advance(inside, token_ids)
        _join(states, after)
        return after

    def advance_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where no end is within reach behind it."""
        inside, left = self._halves(states)
        after = np.array(self._inside.advance(inside, tokens))
        ends = np.isin(tokens, self._end_ids)
        after[~ends & (self._needed(after) >= left)] = DEAD
        return self._numbered(after, left - 1)

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

        Cost: one comparison; where few tokens are left, once an inner state one step a token.
        """
        inside, left = self._halves(states)
        live = np.flatnonzero(inside >= 0)
        ahead = self._distances.fewest_ahead(inside[live])
        for row in live[left[live] <= ahead].tolist():
            tokens, needed = self._followed(int(inside[row]))
            yield row, tokens[needed >= left[row]]

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        return np.asarray(self._inside.is_complete(self.within(integers(states, 1, "states"))))

    def statistics(self) -> Mapping[str, int]:
        """Return how many states the session holds, those of the session within included."""
        held = self._inside.statistics()
        return {**held, "states": len(self._pairs) + held["states"]}

    def spelt(self, text: bytes, ids: Mapping[bytes, int]) -> tuple[int | None, int]:
        """Say with how few tokens, all of them allowed, a text is spelt, and how far it is read.

        What is allowed with few tokens left is so with more: at each byte the fewest count.

        Args:
            text: Of the constraint, or not.
            ids: A token by its bytes.

        Returns:
            Tokens of the text, None where no way leads to its end, or it may not end there; and
            the bytes up to which one leads.
        """
        longest = max(map(len, ids), default=0)
        reached = {0: (0, int(self._inside.start(1)[0]))}
        for at in range(len(text)):
            if at not in reached:
                continue
            used, state = reached[at]
            sizes = range(1, min(longest, len(text) - at) + 1)
            found = [size for size in sizes if text[at : at + size] in ids]
            tokens = np.array([ids[text[at : at + size]] for size in found], np.int64)
            after = np.asarray(self._inside.advance(np.full(len(tokens), state), tokens))
            is_allowed = (after != DEAD) & (self._needed(after) < self._most - used)
            for size, then, is_one in zip(found, after.tolist(), is_allowed, strict=True):
                if is_one and used + 1 < reached.get(at + size, (FAR, 0))[0]:
                    reached[at + size] = used + 1, then
        last = max(reached)
        used, state = reached[last]
        ends = last == len(text) and bool(self._inside.is_complete(np.array([state]))[0])
        return (used if ends else None), last

    def _if_far(self, states: Any) -> NDArray[np.int64] | None:
        """Return the inner states where more tokens are left at all than are needed; else None."""
        try:
            inside: NDArray[np.int64] = _empty(len(states), _INT64)
            if _split(states, self._needed_ahead, inside):
                return inside
            # What is left behind a step, and whatever was not asked yet, is near or not known.
            if not self._learns(inside) or not _split(states, self._needed_ahead, inside):
                return None
        except (TypeError, ValueError):
            return None
        return inside

    def _learns(self, inside: NDArray[np.int64]) -> bool:
        """Ask what is needed ahead of inner states int64[n] where that was not; say if it was."""
        if isinstance(self._pairs, PairTable):
            return False
        known = self._needed_ahead
        fresh = [state for state in inside.tolist() if state >= len(known) or known[state] < 0]
        if not fresh or max(fresh) >= _MOST_NOTED:
            return False
        at = np.array(fresh, np.int64)
        self._note(at, self._distances.fewest_ahead(at))
        return True

    def _note(self, inside: NDArray[np.int64], ahead: NDArray[np.int64]) -> None:
        """Keep what is needed ahead of inner states int64[n]."""
        known = self._needed_ahead
        if inside.max() >= len(known):
            more = 2 * int(inside.max()) + 1 - len(known)
            known = np.append(known, np.full(more, -1, np.int64))
        known[inside] = ahead
        self._needed_ahead = known

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

    def _numbered(self, inside: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pairs of inner states int64[n]; DEAD and DONE stay what they are."""
        live = inside >= 0
        numbers = inside.copy()
        numbers[live] = self._pairs.intern(inside[live], left[live])
        return numbers

    def _halves(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the inner states and the tokens left; none of numbers that are no pairs."""
        is_pair = states >= 0
        if isinstance(self._pairs, PairTable):
            is_pair &= states < len(self._pairs)
        inside = np.where(states == DONE, DONE, DEAD)
        left = np.zeros(len(states), np.int64)
        inside[is_pair], left[is_pair] = self._pairs.pairs(states[is_pair])
        return inside, left


class FittedConstraint(WrappedConstraint):
    """The texts of a constraint that end within a number of tokens, held to it step by step.

    From every state an end is within reach, whether or not the inner constraint is sound: a token
    is allowed where a way to an end is known behind it.

    Args:
        inner: Its states are few, or its sessions know ``fewest_tokens``.
        most: As in ``fit``.
        searched: What is known of its states.

    Raises:
        FitError: Every text has more tokens.
    """

    def __init__(self, inner: Constraint, most: int, searched: Searched) -> None:
        super().__init__(inner)
        self.most, self._searched = most, searched
        self._session: FittedSession | None = None
        if searched.shortest > most:
            raise FitError.of(inner.facts.kind, most, searched.shortest)

    def within_tokens(self, most: int) -> FittedConstraint:
        """Return the texts of at most ``most`` tokens; nothing is searched anew.

        Raises:
            FitError: Every text has more tokens.
        """
        return FittedConstraint(self.inner, min(most, self.most), self._searched)

    @cached_property
    def facts(self) -> Facts:
        """Facts of the inner constraint; it is walked by tokens, which are counted."""
        inner = self.inner.facts
        how = inner.reach if self._searched.distances is None else EXACT
        return self._facts_within(
            is_sound=True,
            takes_bytes=False,
            fit=how,
            begun=inner.begun,
            prefill=inner.prefill,
        )

    @cached_property
    def max_tokens(self) -> int:
        """Tokens that no member exceeds, end event not counted."""
        longest = self.inner.max_tokens
        return self.most if longest is None else min(self.most, longest)

    @cached_property
    def _ids(self) -> Mapping[bytes, int]:
        ids = {piece: token for token, piece in enumerate(self.vocabulary.token_bytes)}
        return {piece: token for piece, token in ids.items() if piece}

    def _refusal(self, session: Session, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a text is refused: of one that is too long, where no token is left for it.

        It counts by the fewest tokens that spell it.
        """
        if not isinstance(session, FittedSession):
            return super()._refusal(session, text, shown)
        refusal = self.inner._refusal(session._inside, text, shown)
        if refusal is not None:
            return refusal
        tokens, byte = session.spelt(text, self._ids)
        if tokens is not None:
            return None
        limit = f"no way of at most {self.most} tokens leads further to an end"
        return {"byte": byte, "max_tokens": self.most, "reason": limit}

    def with_lookahead(self, lookahead: int | None) -> Constraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return fit(self.inner.with_lookahead(lookahead), self.most)

    def session(self, device: str = "cpu") -> Session:
        """Return a decoding run on ``cpu`` or a torch device; it runs on the host.

        Runs share a session, which knows what its states need, until it holds many of them.
        """
        held = self._session
        if held is None or held.statistics()["states"] > _MOST_HELD:
            found = self._searched
            inner = self.inner.session("cpu") if found.distances is None else found.session
            held = FittedSession(inner, self.vocabulary, self.most, found.distances)
            self._session = held
        return on_device(held, device)

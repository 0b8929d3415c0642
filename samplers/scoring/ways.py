"""Ways to spell one text: all that a vocabulary has, those that a constraint allows, or one alone.

They are a graph: places are numbered so that every token leads to a later one, and each place has
the tokens from which the text's end is reached. As a constraint (``WaysConstraint``) they are what
retokenisation walks greedily, and what sums over spellings search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import ForwardingSession, mask_of
from cdec.core.constraint import DEAD, DONE, Constraint, Facts, Session
from cdec.core.device_session import on_device
from cdec.core.errors import LimitError
from cdec.core.session import Completions
from cdec.core.token_budgets import Step, spelling_steps

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


Ways = Sequence[Mapping[int, int]]
"""By place: the tokens that lead on, and where to, DONE where that ends the text by itself. At the
last place, ``len(ways)``, an end event follows."""

_MOST_STATES = 256
"""States of a constraint behind the same bytes; most grammars have one or two."""


def ways_to_spell(text: bytes, tokens: SortedTokens, *, ends_itself: bool) -> list[dict[int, int]]:
    """Return all ways to spell ``text``, by byte; tokens that lead into a dead end are left out.

    Args:
        text: n bytes.
        tokens: Of the vocabulary.
        ends_itself: Whether the last token ends the text.

    Returns:
        n places; the first is empty where no tokens spell the text. Cost: some 20 microseconds a
        byte.
    """
    n = len(text)
    last = DONE if ends_itself else n
    ways: list[dict[int, int]] = [{} for _ in range(n)]
    for start in range(n):
        for length, ids in tokens.beginnings(text[start : start + tokens.longest]):
            ways[start].update(dict.fromkeys(ids, last if start + length == n else start + length))
    return _without_dead_ends(ways)


def one_way(token_ids: Sequence[int], *, ends_itself: bool) -> list[dict[int, int]]:
    """Return the one way that these tokens are."""
    ways = [{int(token): place + 1} for place, token in enumerate(token_ids)]
    if ways and ends_itself:
        ways[-1] = dict.fromkeys(ways[-1], DONE)
    return ways


def ways_within(text: bytes, tokens: SortedTokens, session: Session) -> list[dict[int, int]]:
    """Return the ways to spell ``text`` that a constraint allows.

    Args:
        text: n bytes, at least 1.
        tokens: Of the vocabulary.
        session: Of the constraint, on the host.

    Returns:
        As ``ways_to_spell``, but a place is a state of the constraint behind some bytes; those of
        fewer bytes come first. Cost: one step of the constraint a byte.

    Raises:
        LimitError: The constraint has more than 256 states behind the same bytes.
    """
    reached: list[dict[int, int]] = [{} for _ in range(len(text) + 1)]
    steps: list[list[Step]] = []
    for at, states, found in spelling_steps(session, text, tokens.beginnings, tokens.longest):
        if len(states) > _MOST_STATES:
            raise LimitError(
                f"after {at} bytes the constraint has more than {_MOST_STATES} states, so the "
                "spellings of the text cannot be summed",
                hint="Score it without the constraint, or leave the sums out.",
            )
        reached[at] = {state: len(steps) + i for i, state in enumerate(states)}
        steps += found if at < len(text) else []
    reached[-1] = _ends(session, list(reached[-1]), len(steps))
    known = [
        {token: reached[end][state] for token, end, state in found if state in reached[end]}
        for found in steps
    ]
    return _without_dead_ends(known)


def _ends(session: Session, states: list[int], last: int) -> dict[int, int]:
    """Return where the states behind the whole text lead: those that do not end it are left out."""
    complete = np.asarray(session.is_complete(np.array(states, np.int64))).tolist()
    ended = zip(states, complete, strict=True)
    return {state: DONE if state == DONE else last for state, may_end in ended if may_end}


def _without_dead_ends(ways: Sequence[Mapping[int, int]]) -> list[dict[int, int]]:
    """Return the ways without tokens that lead to a place from which nothing leads on."""
    n = len(ways)
    living: list[dict[int, int]] = [{} for _ in range(n)]
    for place in range(n - 1, -1, -1):
        onward = ways[place].items()
        living[place] = {t: to for t, to in onward if to in (DONE, n) or living[to]}
    return living


class WaysConstraint(Constraint):
    """The token sequences along ``ways``, from the first place to their ends.

    Args:
        ways: At least one place, unless an end event is to be drawn.
        vocabulary: Of the model.
    """

    max_tokens: int

    def __init__(self, ways: Ways, vocabulary: Vocabulary) -> None:
        self.ways = ways
        self.vocabulary = vocabulary
        lengths = [0] * (len(ways) + 1)
        for place in range(len(ways) - 1, -1, -1):
            ahead = (0 if to == DONE else lengths[to] for to in ways[place].values())
            lengths[place] = 1 + max(ahead, default=-1)
        self.max_tokens = lengths[0]

    @cached_property
    def facts(self) -> Facts:
        """Every token leads on."""
        ends_itself = any(DONE in onward.values() for onward in self.ways)
        return Facts(kind="text", is_sound=True, ends_itself=ends_itself)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device."""
        return on_device(WaysSession(self), device)

    def accepts(self, text: bytes) -> bool | None:
        """Say nothing: whoever gave the text compares."""
        return None


class WaysSession(ForwardingSession):
    """A decoding run along the ways; the states are places, so it holds none itself."""

    def __init__(self, constraint: WaysConstraint) -> None:
        super().__init__(None, constraint.vocabulary)
        self._ways = constraint.ways

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return np.zeros(n, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states are places, bool[n]."""
        return (states >= 0) & (states <= len(self._ways))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a place, int32[words]."""
        return mask_of(self._at(state), self.words)

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token."""
        return self._at(state).get(token, DEAD)

    def own_end(self, state: int) -> bool:
        """Say whether the text is whole."""
        return state == len(self._ways)

    def completions(
        self, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> WaysCompletions:
        """Find the best way on from every place."""
        return WaysCompletions(self._ways, scores, ends)

    def _at(self, state: int) -> Mapping[int, int]:
        if state < len(self._ways):
            return self._ways[state]
        return dict.fromkeys(self._end_ids.tolist(), DONE)


class WaysCompletions(Completions):
    """The best ways on from every place; O(tokens of all places) when it is made.

    Args:
        ways: Of the session.
        scores, ends: As in ``Session.completions``. The end counts the same behind all tokens: the
            best of what it is behind those that may be last.
    """

    def __init__(self, ways: Ways, scores: NDArray[np.float64], ends: NDArray[np.float64]) -> None:
        n = len(ways)
        self._ways = ways
        last = [token for onward in ways for token, to in onward.items() if to == n]
        self._best = np.zeros(n + 1)
        self._best[n] = ends[last].max() if last else 0.0
        self._choice = np.full(n + 1, -1, np.int64)
        for place in range(n - 1, -1, -1):
            found = [
                (float(scores[token]) + (0.0 if to == DONE else float(self._best[to])), token)
                for token, to in ways[place].items()
            ]
            self._best[place], self._choice[place] = max(found, default=(-np.inf, -1))

    def totals(self, states: Any) -> NDArray[np.float64]:
        """Return the score of what follows best, float64[n]; 0 behind the end."""
        at = np.asarray(states, np.int64)
        totals: NDArray[np.float64] = np.where(at >= 0, self._best[np.maximum(at, 0)], 0.0)
        return totals

    def tokens(self, states: Any, most: int) -> NDArray[np.int64]:
        """Return the tokens that follow best, int64[n, most], -1 after the last."""
        at = np.asarray(states, np.int64)
        found = np.full((len(at), most), -1, np.int64)
        for row, state in enumerate(at.tolist()):
            for column in range(most):
                if not 0 <= state < len(self._ways) or self._choice[state] < 0:
                    break
                found[row, column] = self._choice[state]
                state = self._ways[state][int(found[row, column])]
        return found

"""ConjunctionSession: a decoding run over two constraints at once; states are pairs of states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.conjunction.dead_ends import MOST, StuckStates
from cdec.core.combine.pair_table import PairTable
from cdec.core.mask import allowed_of_masks, count_bits, forced_of_masks, list_bits, mask_words
from cdec.core.session import DEAD, DONE, Session
from cdec.core.session_arguments import integers, require_mask, require_rows


class ConjunctionSession(Session):
    """A decoding run: a token is allowed where both sessions allow it.

    A state has no way on where every token is refused by one of the two: law 2 is not promised.
    Where few tokens are allowed, those to proved dead ends are refused (``StuckStates``).

    Where one side has ended a text itself (DONE without an end id), the text is a member if the
    other may end there or has ended too; so tokens that end one side alone, in the middle of what
    the other reads, are not allowed.

    Args:
        first, second: Sessions on the CPU, over one vocabulary.
        width: Logits width.
        end_ids: End-of-sequence ids, ascending.
        ends_itself: Whether texts may end themselves in the first, in the second.
        looks_ahead: Whether to look for dead ends; not worth it where texts are known beforehand.
        keyed: The side whose speculation keys are those of the pairs, 0 or 1.
    """

    device = "cpu"

    def __init__(
        self,
        first: Session,
        second: Session,
        *,
        width: int,
        end_ids: Sequence[int],
        ends_itself: tuple[bool, bool],
        looks_ahead: bool = True,
        keyed: int = 0,
    ) -> None:
        self._sides = (first, second)
        self._keyed = keyed
        self._refuses = looks_ahead or any(ends_itself)
        self._ends_itself = any(ends_itself)
        self._stuck = StuckStates(self._successors) if looks_ahead else None
        self.words = mask_words(width)
        self._end_ids = np.array(end_ids, np.int64)
        self._pairs = PairTable()
        # Tokens that both sides allow and that are refused, by state.
        self._refused: dict[int, NDArray[np.int32]] = {}

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return self._pairs.intern(self._sides[0].start(n), self._sides[1].start(n))

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where one side refuses it.

        Args:
            states: int64[n].
            token_ids: int[n].
        """
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        after = self._numbered(self._advance_sides(at, tokens))
        if self._stuck is not None:
            for row in np.flatnonzero(after >= 0).tolist():
                if tokens[row] in self._refused_at(int(at[row])):
                    after[row] = DEAD
        return after

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]; of grammars."""
        halves = self._halves(integers(states, 1, "states"))
        both = [
            side.advance_bytes(half, texts) for side, half in zip(self._sides, halves, strict=True)
        ]
        after = self._numbered((both[0], both[1]))
        if self._stuck is not None:
            for row in np.flatnonzero(after >= 0).tolist():
                if self._stuck.is_stuck(int(after[row])):
                    after[row] = DEAD
        return after

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with the exact masks of ``states``: both sides' masks, and.

        Args:
            states: int64[n].
            mask: int32[n, ceil(width / 32)].
        """
        at = integers(states, 1, "states")
        require_mask(mask, len(at), self.words)
        self._fill_both(at, mask)
        if self._refuses:
            for row, state in enumerate(at.tolist()):
                clear_tokens(mask[row], self._refused_at(state))

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        left, right = self._halves(at)
        result: NDArray[np.bool_] = self._sides[0].check(left, tokens)
        result &= self._sides[1].check(right, tokens)
        for row in np.flatnonzero(result.any(axis=1)).tolist() if self._refuses else ():
            result[row] &= ~np.isin(tokens[row], self._refused_at(int(at[row])))
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        left, right = self._halves(at)
        complete: NDArray[np.bool_] = self._sides[0].is_complete(left)
        complete &= self._sides[1].is_complete(right)
        complete |= at == DONE
        return complete

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._end_ids)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for, int64[n]: the keys of one side."""
        half = self._halves(integers(states, 1, "states"))[self._keyed]
        keys: NDArray[np.int64] = self._sides[self._keyed].speculation_keys(half)
        return keys

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of its sides included."""
        held = sum(side.statistics()["states"] for side in self._sides)
        return {"states": len(self._pairs) + held}

    def _halves(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return both sides' states; DEAD for what is no pair."""
        is_pair = (states >= 0) & (states < len(self._pairs))
        if is_pair.all():
            return self._pairs.pairs(states)
        left, right = np.full(len(states), DEAD, np.int64), np.full(len(states), DEAD, np.int64)
        left[is_pair], right[is_pair] = self._pairs.pairs(states[is_pair])
        return left, right

    def _advance_sides(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        left, right = self._halves(states)
        return self._sides[0].advance(left, tokens), self._sides[1].advance(right, tokens)

    def _ends(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return DEAD, DONE, or 0 for pairs of states that go on, int64[n]."""
        ends = np.zeros(len(left), np.int64)
        for one, (mine, others) in enumerate(((left, right), (right, left))):
            rows = np.flatnonzero((mine == DONE) & (others != DONE))
            if rows.size:
                may_end = self._sides[1 - one].is_complete(others[rows])
                ends[rows] = np.where(may_end, DONE, DEAD)
        ends[(left == DONE) & (right == DONE)] = DONE
        ends[(left == DEAD) | (right == DEAD)] = DEAD
        return ends

    def _numbered(self, both: tuple[NDArray[np.int64], NDArray[np.int64]]) -> NDArray[np.int64]:
        left, right = both
        if min(left.min(initial=0), right.min(initial=0)) >= 0:
            return self._pairs.intern(left, right)
        ends = self._ends(left, right)
        rows = np.flatnonzero(ends == 0)
        ends[rows] = self._pairs.intern(left[rows], right[rows])
        return ends

    def _fill_both(self, states: NDArray[np.int64], mask: NDArray[np.int32]) -> None:
        left, right = self._halves(states)
        second = np.empty(mask.shape, np.int32)
        self._sides[0].fill_mask(left, mask)
        self._sides[1].fill_mask(right, second)
        np.bitwise_and(mask, second, out=mask)

    def _refused_at(self, state: int) -> NDArray[np.int32]:
        """Return the tokens that both sides allow and this session does not, int32[...].

        They end one side alone where the other cannot end, or lead to a proved dead end.
        """
        known = self._refused.get(state)
        if known is None:
            ids, ends, after = self._ways(state)
            refused = ends == DEAD
            if after is not None and self._stuck is not None:
                rows = np.flatnonzero(ends == 0).tolist()
                stuck = [
                    row for row, to in zip(rows, after, strict=True) if self._stuck.is_stuck(to)
                ]
                refused[stuck] = True
            known = self._refused[state] = ids[refused]
        return known

    def _successors(self, state: int) -> list[int] | None:
        """Return the states after one, for ``StuckStates``."""
        _, ends, after = self._ways(state)
        return None if after is None or (ends == DONE).any() else sorted(set(after))

    def _ways(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int64], list[int] | None]:
        """Return the tokens that both sides allow, how they end (``_ends``) and what they lead to.

        The last is the states of those that go on; None where the tokens are too many, and then,
        unless texts end themselves, the others are not looked at and empty.
        """
        mask = np.empty((1, self.words), np.int32)
        self._fill_both(np.array([state]), mask)
        is_wide = count_bits(mask)[0] > MOST
        if is_wide and not self._ends_itself:
            return np.empty(0, np.int32), np.empty(0, np.int64), None
        _, ids = list_bits(mask)
        left, right = self._advance_sides(np.full(len(ids), state), ids.astype(np.int64))
        ends = self._ends(left, right)
        on = ends == 0
        return ids, ends, None if is_wide else self._pairs.intern(left[on], right[on]).tolist()


def clear_tokens(mask: NDArray[np.int32], tokens: NDArray[np.int32]) -> None:
    """Clear the bits of distinct tokens in one packed mask int32[words]."""
    if len(tokens):
        bits = mask.view(np.uint32)
        np.bitwise_and.at(bits, tokens >> 5, ~(np.uint32(1) << (tokens & 31).astype(np.uint32)))

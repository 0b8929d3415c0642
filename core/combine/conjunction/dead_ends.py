"""Which states of a conjunction are dead ends, as far as a short search from each can prove it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST = 64
"""States that one search looks at, and tokens that a state may allow to be looked at."""


class StuckStates:
    """Proves states stuck: no text ends from them.

    A state is stuck if all states that can be reached from it are few, and none of them may end or
    allows many tokens. Each search starts afresh, so that its answer depends on the state alone and
    never on what was asked before.

    Args:
        successors: Gives the states after a state, or None where a text may end, or where there are
            more tokens than ``MOST``.
    """

    def __init__(self, successors: Callable[[int], Sequence[int] | None]) -> None:
        self._successors = successors
        self._ahead: dict[int, Sequence[int] | None] = {}
        self._verdicts: dict[int, bool] = {}

    def is_stuck(self, state: int) -> bool:
        """Say whether a state is proved to be stuck; at most ``MOST`` states are looked at once."""
        if state not in self._verdicts:
            self._verdicts[state] = self._search(state)
        return self._verdicts[state]

    def _search(self, state: int) -> bool:
        seen = {state}
        open_states = [state]
        while open_states:
            at = open_states.pop()
            if at not in self._ahead:
                self._ahead[at] = self._successors(at)
            ahead = self._ahead[at]
            if ahead is None:
                return False
            new = [after for after in ahead if after not in seen]
            seen.update(new)
            if len(seen) > MOST:
                return False
            open_states += new
        return True

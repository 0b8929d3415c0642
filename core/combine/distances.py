"""Distances of a session's states from the end of a text, in tokens: a search through all of them.

Where the states that can be reached are few, all tokens of all of them are followed once, and a
search backwards from the states in which texts may end gives every distance exactly, whatever the
constraint is, also where it is not sound: states from which no text ends are infinitely far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.core.session import DEAD, DONE, FAR, Session

MOST_STATES = 1 << 12
MOST_STEPS = 1 << 22
"""States, and tokens that they allow together, that are searched: a second or two."""
FEW_STEPS = 1 << 18
"""Tokens where something else is known of the states: a tenth of a second."""


@dataclass(frozen=True, eq=False)
class Distances:
    """Exact distances of all states of a session.

    Attributes:
        states: int64[n] ascending. fewest: int64[n] tokens with which a text may end, FAR for none.
        ahead: int64[n] the most of these behind an allowed token.
    """

    states: NDArray[np.int64]
    fewest: NDArray[np.int64]
    ahead: NDArray[np.int64]

    def fewest_tokens(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fewest further tokens of states int64[n], as ``Session.fewest_tokens``."""
        return self.fewest[np.searchsorted(self.states, states)]

    def fewest_ahead(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most that are needed behind a token, as ``Session.fewest_ahead``."""
        return self.ahead[np.searchsorted(self.states, states)]


def distances_of(
    session: Session,
    end_ids: NDArray[np.int64],
    *,
    most_states: int = MOST_STATES,
    most_steps: int = MOST_STEPS,
) -> Distances | None:
    """Return the distances of all states of a session; None where they are too many.

    Args:
        session: On the host.
        end_ids: End-of-sequence ids: no tokens of texts.
        most_states, most_steps: States, and tokens that these allow, to look at.
    """
    known = frontier = np.unique(session.start(1))
    pairs = []
    while frontier.size:
        offsets, ids = session.allowed(frontier)
        most_steps -= len(ids)
        if len(known) > most_states or most_steps < 0:
            return None
        before, tokens = np.repeat(frontier, np.diff(offsets)), ids.astype(np.int64)
        goes_on = ~np.isin(tokens, end_ids)
        before = before[goes_on]
        steps = np.unique(np.stack([before, session.advance(before, tokens[goes_on])]), axis=1)
        pairs.append(steps)
        frontier = np.setdiff1d(steps[1][steps[1] >= 0], known)
        known = np.union1d(known, frontier)
    return _searched(known, np.asarray(session.is_complete(known)), np.concatenate(pairs, axis=1))


def _searched(
    states: NDArray[np.int64], may_end: NDArray[np.bool_], pairs: NDArray[np.int64]
) -> Distances:
    """Search backwards along pairs of states int64[2, p] from those in which texts may end."""
    before, after = pairs[:, pairs[1] != DEAD]
    # What ends the text itself stands behind all states, and is no step from its end.
    behind = np.where(after == DONE, len(states), np.searchsorted(states, after))
    before = np.searchsorted(states, before)
    fewest = np.where(np.append(may_end, True), 0, FAR)
    for distance in range(1, len(states) + 1):
        reached = before[fewest[behind] == distance - 1]
        fresh = reached[fewest[reached] == FAR]
        if not fresh.size and not (fewest[:-1] == distance - 1).any():
            break
        fewest[fresh] = distance
    ahead = np.zeros(len(states), np.int64)
    np.maximum.at(ahead, before, fewest[behind])
    return Distances(states, fewest[:-1], ahead)

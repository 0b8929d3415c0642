"""What a search has learnt of tokens, and the completions that are likely by it.

An estimate of what is still to come lets prefixes of unlike lengths be compared (the future cost
of phrase-based decoding: Koehn, Och and Marcu, 2003): log P of a prefix plus the scores of the best
completion after it, each token scored by the mean of its log P where it was seen. Completions are
those of the constraint's session, so a set is searched along its members. It is a guess and no
bound: it decides what is looked at first, never what is proved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.session import Completions, Session

_TOKEN, _END = -6.0, -7.0
"""log P of a token, and of the end, before anything was seen; nats."""
_TOKENS, _ENDS = 4.0, 2.0
"""How many sightings these count for."""
_LEAST = -30.0
"""log P that counts for no less."""
_GRAIN = 2.0**-20
"""Of what is summed. subtle: multiples of it sum exactly, so no order of sums changes a result."""
_GROWTH = 1.2
"""By how much more must have been seen for completions to be found anew."""


class Guide:
    """Completions of one record.

    Args:
        session: Of its constraint; it knows completions.
        width: V.
    """

    def __init__(self, session: Session, width: int) -> None:
        self._session = session
        # Sums of log P and counts: row 0 of tokens, row 1 of ends after each token.
        self._sums = np.zeros((2, width))
        self._counts = np.zeros((2, width))
        self._found_at = 0.0
        self._found: Completions | None = None

    @property
    def is_known(self) -> bool:
        """Whether the session knows completions."""
        return self._found is not None

    def learn(self, tokens: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        """Learn the log P of tokens, int64[n] and float64[n], each wherever it was allowed."""
        self._add(0, tokens, log_p)

    def learn_ends(self, tokens: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        """Learn the log P of ending after tokens, int64[n] and float64[n]."""
        self._add(1, tokens, log_p)

    def renew(self) -> bool:
        """Find completions anew if much was learnt since; say whether they were found."""
        seen = float(self._counts.sum()) + 1.0
        if seen < _GROWTH * self._found_at:
            return False
        self._found_at = seen
        scores = self._means(0, _TOKEN, _TOKENS)
        self._found = self._session.completions(scores, self._means(1, _END, _ENDS))
        return True

    def totals(self, states: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the guessed log P of what follows each state, float64[n]."""
        return np.zeros(len(states)) if self._found is None else self._found.totals(states)

    def tokens(self, states: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return likely completions, int64[n, most] tokens, -1 after the last."""
        if self._found is None:
            return np.full((len(states), 0), -1, np.int64)
        return self._found.tokens(states, most)

    def _add(self, row: int, tokens: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        grains = np.round(np.maximum(log_p, _LEAST) / _GRAIN)
        np.add.at(self._sums[row], tokens, grains * _GRAIN)
        np.add.at(self._counts[row], tokens, 1.0)

    def _means(self, row: int, first: float, weight: float) -> NDArray[np.float64]:
        """Return each token's mean, drawn to the mean of all as if that had been seen once."""
        sums, counts = self._sums[row], self._counts[row]
        overall = (sums.sum() + weight * first) / (counts.sum() + weight)
        means: NDArray[np.float64] = (sums + overall) / (counts + 1.0)
        return means


def guide_of(session: Session | None, width: int) -> Guide | None:
    """Return the guide of a record, None where its session knows no completions."""
    if session is None:
        return None
    guide = Guide(session, width)
    guide.renew()
    return guide if guide.is_known else None

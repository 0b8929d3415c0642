"""Exponents: what may follow the letter of a number, laid out as states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.regular.spelling.tables import DIGIT, MINUS, PLUS, SYMBOLS

TEXT_SYMBOLS = "\0+-.0123456789E"
"""The symbols that are told apart, in order; the first stands for all others."""
_DIGITS = slice(DIGIT, DIGIT + 10)
_SHARED = 3


def _byte_class() -> NDArray[np.int32]:
    found = np.zeros(256, np.int32)
    found[[ord(symbol) for symbol in TEXT_SYMBOLS]] = np.arange(SYMBOLS)
    found[ord("e")] = found[ord("E")]
    return found


BYTE_CLASS = _byte_class()


class Powers(NamedTuple):
    """States that read exponents.

    delta: int32[n, SYMBOLS] to states of a larger automaton. labels: int32[n], 1 where a number may
    end. behind: int32[m] the one of these that follows each letter.
    """

    delta: NDArray[np.int32]
    labels: NDArray[np.int32]
    behind: NDArray[np.int32]


def power_states(allowed: NDArray[np.bool_], first: int) -> Powers:
    """Return the states behind letters; a sign and zeros may stand before any exponent.

    Args:
        allowed: bool[m, 2 far + 1] which exponents may follow each of m letters, from -far to far;
            those beyond are as the outermost one of their sign.
        first: Number of the first state in the larger automaton.
    """
    _, rows, kinds = np.unique(
        np.packbits(allowed, axis=1), axis=0, return_index=True, return_inverse=True
    )
    far = allowed.shape[1] // 2
    # Behind a letter stands one state of its kind, and for each sign one behind it and one for
    # every exponent that can have a further digit.
    short = far // 10 + 1
    width = 1 + 2 * (1 + short)
    delta = np.full((len(rows) * width + _SHARED, SYMBOLS), -1, np.int32)
    labels = np.zeros(len(delta), np.int32)
    shared = first + len(rows) * width
    ended, any_more, one_more = range(shared, shared + _SHARED)
    labels[[ended - first, any_more - first]] = 1
    delta[[any_more - first, one_more - first], _DIGITS] = any_more
    sizes = np.arange(short)[:, None] * 10 + np.arange(10)
    for kind, row in enumerate(rows):
        at = kind * width
        for sign, signed in ((PLUS, allowed[row, far:]), (MINUS, allowed[row, far::-1])):
            own = at + 1 + (1 + short) * (sign == MINUS)
            goes_on = bool(signed[far])
            last = np.where(
                signed[np.minimum(sizes, far)], any_more if goes_on else ended,
                one_more if goes_on else -1,
            )  # fmt: skip
            targets = np.where(sizes < short, first + own + 1 + sizes, last)
            delta[own, _DIGITS] = targets[0]
            delta[own + 1 : own + 1 + short, _DIGITS] = targets
            labels[own + 1 : own + 1 + short] = signed[:short]
            delta[at, sign] = first + own
        delta[at, _DIGITS] = delta[at + 1, _DIGITS]
    return Powers(delta, labels, (first + kinds.ravel() * width).astype(np.int32))

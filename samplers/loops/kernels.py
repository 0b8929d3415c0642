"""Detection of loops in texts: for every period, how many bytes equal those a period before.

A text loops where its last bytes are white space alone, ``LOOP_BYTES`` of them; or where they
repeat a piece of at most ``LONGEST_CYCLE`` bytes, ``LOOP_REPEATS`` times or more, over
``LOOP_BYTES`` bytes or more. The shortest period counts. Cost: O(256) a byte, 512 + 516 bytes a
text; nothing depends on where tokens begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.record_fields.text_warnings import LONGEST_CYCLE, LOOP_BYTES, LOOP_REPEATS

NONE = -1
"""No loop. 0 is white space, any other number a period."""
NEEDED = np.maximum(
    (LOOP_REPEATS - 1) * np.arange(LONGEST_CYCLE + 1), LOOP_BYTES - np.arange(LONGEST_CYCLE + 1)
).astype(np.uint16)
"""By period: how many bytes must equal those before; at 0 how many must be white space."""


class States(NamedTuple):
    """What is known of W growing texts.

    recent: uint8[W, 512], the last 256 bytes twice over: byte i at ``-i & 255`` and 256 further, so
    that those before a byte stand behind it. runs: uint16[W, 257], by period how many bytes equal
    those a period before; at 0 how many are white space. seen: int64[W] bytes so far. found:
    int64[W] the first loop: its period, 0 for white space, or NONE.
    """

    recent: NDArray[np.uint8]
    runs: NDArray[np.uint16]
    seen: NDArray[np.int64]
    found: NDArray[np.int64]


def empty(n: int) -> States:
    """Return the states of ``n`` texts without a byte."""
    return States(
        np.zeros((n, 2 * LONGEST_CYCLE), np.uint8),
        np.zeros((n, LONGEST_CYCLE + 1), np.uint16),
        np.zeros(n, np.int64),
        np.full(n, NONE, np.int64),
    )

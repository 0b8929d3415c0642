"""Numbers of tokens that parts of texts may have, as artifacts record them; ways within them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import require
from cdec.core.session import DEAD, Session

BUDGETS_KEY = "cdec.budgets"
"""Metadata: pairs of a part's number and of how many tokens it may have, ascending."""


def budgets_of(metadata: Mapping[str, str], parts: int) -> NDArray[np.int32] | None:
    """Return how many tokens each of some parts may have, -1 for any; None: all may have any.

    Raises:
        ArtifactInvalidError: What is stored are no such numbers.
    """
    expected = "ascending pairs of a part and a number of tokens from 1 on"
    try:
        pairs = np.array(json.loads(metadata.get(BUDGETS_KEY, "[]")), np.int64).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pairs = np.array([[-1, 0]])
    numbers, most = pairs[:, 0], pairs[:, 1]
    is_good = (numbers >= 0) & (numbers < parts) & (most > 0) & (most < 1 << 31)
    require(bool(is_good.all() and (np.diff(numbers) > 0).all()), BUDGETS_KEY, expected)
    if not len(pairs):
        return None
    found = np.full(parts, -1, np.int32)
    found[numbers] = most
    return found


def spelled_furthest(session: Session, text: bytes, ids: Mapping[bytes, int]) -> tuple[int, bool]:
    """Follow all ways of spelling a text by allowed tokens.

    Args:
        session: On the host.
        text: Any bytes.
        ids: A token by its bytes.

    Returns:
        Bytes up to which some way leads, and whether one that leads to the end may end there.
    """
    longest = max(map(len, ids), default=0)
    reached = {0: np.asarray(session.start(1))}
    last = 0
    for at in range(len(text)):
        states = reached.pop(at, None)
        if states is None:
            continue
        last = at
        for size in range(1, min(longest, len(text) - at) + 1):
            token = ids.get(text[at : at + size])
            if token is None:
                continue
            after = np.asarray(session.advance(states, np.full(len(states), token, np.int64)))
            after = after[after != DEAD]
            if len(after):
                reached[at + size] = np.union1d(after, reached.get(at + size, after))
    states = reached.get(len(text))
    if states is None:
        return last, False
    return len(text), bool(np.asarray(session.is_complete(states)).any())

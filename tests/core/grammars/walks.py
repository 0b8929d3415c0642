"""Walks of texts through grammar sessions, byte by byte or token by token."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.constraint import DEAD
from cdec.core.mask import allocate_mask, unpack_mask
from tests.laws.grammar_cases import random_split


def walk(session: Any, ids: Any) -> np.ndarray:
    """Return the state after the tokens, int64[1]."""
    states = session.start(1)
    for token in ids:
        states = session.advance(states, np.array([token]))
        if states[0] == DEAD:
            break
    return states


def accepts(session: Any, text: bytes, vocabulary: Any = None, rng: Any = None) -> bool:
    """Say whether a session accepts a text, as single bytes or split into tokens at random.

    Without ``vocabulary`` token ids 0 to 255 must be the bytes.
    """
    ids = list(text) if vocabulary is None else random_split(text, vocabulary, rng)
    return bool(session.is_complete(walk(session, ids))[0])


def alive_bytes(session: Any, text: bytes) -> bool:
    """Say whether a session allows a text as single bytes."""
    return bool(walk(session, list(text))[0] != DEAD)


def completes(session: Any, state: int, alphabet: np.ndarray, most: int = 3000) -> bool:
    """Say whether bytes of an alphabet (int64) lead from a state to a complete text.

    Raises:
        AssertionError: ``most`` states do not suffice to know.
    """
    seen, front = {state}, [state]
    while front:
        at = np.array(front, np.int64)
        if session.is_complete(at).any():
            return True
        after = session.advance(np.repeat(at, len(alphabet)), np.tile(alphabet, len(at)))
        front = sorted(set(after.tolist()) - seen - {DEAD})
        seen.update(front)
        assert len(seen) < most
    return False


def mask_of(session: Any, states: Any, width: int) -> np.ndarray:
    """Return the mask of one state, bool[width]."""
    mask = allocate_mask(1, width)
    session.fill_mask(states, mask)
    return np.asarray(unpack_mask(mask, width)[0])

"""Derives the seed of one draw from the run's seed, the record and the draw's number."""

from __future__ import annotations

import hashlib
import json

SEED_BITS = 53
"""Every derived seed is exact in a JSON number, whatever reads it."""


def derive_seed(run_seed: int, record_id: object, index: int) -> int:
    """Return the seed of a draw, the same wherever and in whatever order records are drawn.

    Args:
        run_seed: The run's ``seed``, or the record's own, which stands in its place.
        record_id: The record's id; the number 1 and the text "1" are different ids.
        index: Number of the draw within its record.

    Returns:
        An integer of 53 bits: the head of SHA-256 over the three as one JSON array.
    """
    key = json.dumps([run_seed, record_id, index], separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)

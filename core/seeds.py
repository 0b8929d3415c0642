"""Ids of records that name none, and seeds of draws from run, record and number."""

from __future__ import annotations

import hashlib
import json

import orjson

SEED_BITS = 53
"""Every derived seed is exact in a JSON number, whatever reads it."""


_HEX_DIGITS = 16


def content_id(content: object) -> str:
    """Return the id of a record that names none: 16 hex digits of its content's SHA-256.

    The order of keys and the spaces between them do not count, so a record has the same id in
    whatever piece of a split file it stands. A record that holds nothing but a prompt is the
    prompt's text, so that one prompt has one id in whatever form it comes.

    Args:
        content: The parsed JSON object, a text line, or the bytes of a line that is neither.
    """
    if isinstance(content, dict) and content.keys() == {"prompt"}:
        only = content["prompt"]
        content = only if isinstance(only, str) else content
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, bytes):
        content = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:_HEX_DIGITS]


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

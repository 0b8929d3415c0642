"""Numbers of tokens that parts of texts may have, as artifacts record them; spellings of a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import require
from cdec.core.session import DEAD, Session

BUDGETS_KEY = "cdec.budgets"
"""Metadata: pairs of a part's number and of how many tokens it may have, ascending."""


def budgets_of(
    metadata: Mapping[str, str], parts: int, key: str = BUDGETS_KEY
) -> NDArray[np.int32] | None:
    """Return how many tokens each of some parts may have, -1 for any; None: all may have any.

    Raises:
        ArtifactInvalidError: What is stored are no such numbers.
    """
    expected = "ascending pairs of a part and a number of tokens from 1 on"
    try:
        pairs = np.array(json.loads(metadata.get(key, "[]")), np.int64).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pairs = np.array([[-1, 0]])
    numbers, most = pairs[:, 0], pairs[:, 1]
    is_good = (numbers >= 0) & (numbers < parts) & (most > 0) & (most < 1 << 31)
    require(bool(is_good.all() and (np.diff(numbers) > 0).all()), key, expected)
    if not len(pairs):
        return None
    found = np.full(parts, -1, np.int32)
    found[numbers] = most
    return found


Beginnings: TypeAlias = "Callable[[bytes], Iterable[tuple[int, Sequence[int]]]]"
"""Gives the lengths at which tokens end that some bytes begin with, and these tokens."""
Step: TypeAlias = "tuple[int, int, int]"
"""A token, the bytes before what follows it, and the state there."""


def spelling_steps(
    session: Session, text: bytes, beginnings: Beginnings, longest: int
) -> Iterator[tuple[int, list[int], list[list[Step]]]]:
    """Follow all ways of spelling a text by tokens that a session allows.

    Args:
        session: On the host.
        text: Any bytes.
        beginnings: Of the vocabulary. longest: Bytes of a token at most.

    Yields:
        Ascending, bytes behind which some way stands; its states there; the steps of each. Cost:
        one call of the session a byte.
    """
    reached: list[dict[int, None]] = [{} for _ in range(len(text) + 1)]
    reached[0][int(session.start(1)[0])] = None
    for at in range(len(text) + 1):
        states = list(reached[at])
        if not states:
            continue
        listed = [(at + length, ids) for length, ids in beginnings(text[at : at + longest])]
        tokens = np.array([token for _, ids in listed for token in ids], np.int64)
        ends = [end for end, ids in listed for _ in ids]
        rows = np.repeat(np.array(states, np.int64), len(tokens))
        after = np.asarray(session.advance(rows, np.tile(tokens, len(states))))
        steps = [
            [step for step in zip(tokens.tolist(), ends, row, strict=True) if step[2] != DEAD]
            for row in after.reshape(len(states), len(tokens)).tolist()
        ]
        yield at, states, steps
        for _, end, state in (step for found in steps for step in found):
            reached[end][state] = None


def spelled_furthest(session: Session, text: bytes, ids: Mapping[bytes, int]) -> tuple[int, bool]:
    """Follow all ways of spelling a text by allowed tokens.

    Args:
        session: On the host.
        text: Any bytes.
        ids: A token by its bytes.

    Returns:
        Bytes up to which some way leads, and whether one that leads to the end may end there.
    """

    def beginnings(part: bytes) -> Iterator[tuple[int, Sequence[int]]]:
        pieces = (part[:size] for size in range(1, len(part) + 1))
        return ((len(piece), [ids[piece]]) for piece in pieces if piece in ids)

    at, states = 0, list[int]()
    for place in spelling_steps(session, text, beginnings, max(map(len, ids), default=0)):
        at, states = place[:2]
    if at < len(text):
        return at, False
    return at, bool(np.asarray(session.is_complete(np.array(states, np.int64))).any())

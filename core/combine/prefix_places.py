"""The ways in which tokens that a constraint allows can spell the beginning of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cdec.core.combine.healing import SortedTokens
from cdec.core.session import DEAD, Session


@dataclass(slots=True)
class Place:
    """A position: where the constraint is, and what is to be spelt from there.

    Attributes:
        state: Of the session that the positions were found with.
        lefts: One text for each head that may be forced; none is empty.
        came: Number of the position and the token that lead here; None at the first.
        ahead: Number of the next position by token. beyond: Tokens that go beyond.
    """

    state: int
    lefts: tuple[bytes, ...]
    came: tuple[int, int] | None
    ahead: dict[int, int] = field(default_factory=dict)
    beyond: dict[int, bytes] = field(default_factory=dict)


def find_places(
    session: Session, state: int, lefts: tuple[bytes, ...], tokens: SortedTokens
) -> list[Place]:
    """Find the positions on the way through a beginning, breadth first.

    Args:
        session: On the host.
        state: Where it begins.
        lefts: The beginning; several where several may be forced; none is empty.
        tokens: Of the session's vocabulary.

    Returns:
        The positions, the first one first; each token in them leads to a way beyond. None where the
        first has no such token.
    """
    places = [Place(state, lefts, None)]
    known = {(state, lefts): 0}
    if state == DEAD:
        return []
    for number, place in enumerate(places):  # grows
        place.beyond, ahead = _spelling(session, place, tokens)
        for token, left, after in ahead:
            key = (after, left)
            if key not in known:
                known[key] = len(places)
                places.append(Place(after, left, (number, token)))
            place.ahead[token] = known[key]
    # subtle: what is left gets shorter with each token, so those behind come first.
    alive: set[int] = set()
    for at in sorted(range(len(places)), key=lambda at: max(map(len, places[at].lefts))):
        place = places[at]
        place.ahead = {token: to for token, to in place.ahead.items() if to in alive}
        if place.ahead or place.beyond:
            alive.add(at)
    return places if 0 in alive else []


def after_tokens(session: Session, token_ids: Sequence[int]) -> int:
    """Return the state after some tokens; DEAD where one is not allowed."""
    state = session.start(1)
    for token in token_ids:
        state = session.advance(state, np.array([token], np.int64))
    return int(state[0])


def _spelling(
    session: Session, place: Place, tokens: SortedTokens
) -> tuple[dict[int, bytes], list[tuple[int, tuple[bytes, ...], int]]]:
    """Return the allowed tokens that spell what is left.

    Returns:
        Those that spell all of it; and of those that spell a part the token, what is left after
        it, and the state.
    """
    whole: set[int] = set()
    parts: dict[int, list[bytes]] = {}
    for left in place.lefts:
        whole.update(tokens.longer(left)[0])
        for length, spelt in tokens.beginnings(left):
            for token in spelt:
                if length == len(left):
                    whole.add(token)
                else:
                    parts.setdefault(token, []).append(left[length:])
    ids = np.array(sorted(whole | parts.keys()), np.int64)
    if not ids.size:
        return {}, []
    states = np.array([place.state], np.int64)
    allowed = ids[np.asarray(session.check(states, ids[None]))[0]]
    after = np.asarray(session.advance(np.repeat(states, len(allowed)), allowed))
    moved = dict(zip(allowed.tolist(), after.tolist(), strict=True))
    ahead = [
        (token, tuple(sorted(lefts)), moved[token])
        for token, lefts in sorted(parts.items())
        if token in moved and token not in whole
    ]
    return dict.fromkeys(sorted(whole & moved.keys()), b""), ahead

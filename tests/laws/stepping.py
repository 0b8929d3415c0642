"""The law that all masks obey: a token is allowed exactly where its bytes can be followed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD
from tests.laws.sessions import state_masks


def assert_masks_are_steps(session: Any, states: NDArray[np.int64], vocabulary: Any) -> None:
    """Compare masks of decoding states with stepping, for every token of the vocabulary.

    The bytes of a token are followed on their own as well, so that the same mistake in ``advance``
    and in the mask would show; ends and tokens without bytes are stepped as tokens only.
    """
    width = vocabulary.width
    texts = [*vocabulary.token_bytes, *[b""] * (width - vocabulary.size)]
    spelled = np.array([token for token, text in enumerate(texts) if text])
    masks = state_masks(session, states, width)
    for state, row in zip(states, masks, strict=True):
        stepped = session.advance(np.full(width, state), np.arange(width)) != DEAD
        differing = (row != stepped).nonzero()[0]
        assert not len(differing), f"mask and steps differ in {texts[differing[0]]!r}"
        followed = session.advance_bytes(
            np.full(len(spelled), state), [texts[token] for token in spelled]
        )
        differing = (row[spelled] != (followed != DEAD)).nonzero()[0]
        assert not len(differing), f"mask and bytes differ in {texts[spelled[differing[0]]]!r}"


def assert_masks_are_steps_along(
    session: Any,
    documents: Iterable[Sequence[int]],
    vocabulary: Any,
    rng: np.random.Generator,
    *,
    detours: int = 0,
) -> None:
    """Compare at every position of some documents, and a token beside the way now and then.

    Args:
        session: Of any grammar.
        documents: Token ids; they need not be complete texts.
        vocabulary: Of the session.
        rng: Draws the detours.
        detours: How many random positions of a document are left for another allowed token.
    """
    for ids in documents:
        states = session.start(1)
        leave = set(rng.integers(0, len(ids) + 1, detours).tolist())
        for position in range(len(ids) + 1):
            assert_masks_are_steps(session, states, vocabulary)
            if position in leave:
                _, allowed = session.allowed(states)
                aside = session.advance(states, rng.choice(allowed, 1).astype(np.int64))
                assert_masks_are_steps(session, aside, vocabulary)
            if position < len(ids):
                states = session.advance(states, np.array([ids[position]]))
                assert states[0] != DEAD, f"token {position} is refused"

"""Masks of random programs against the plain reading, token by token, along random walks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cdec.core.schemas.schema_constraint import SchemaConstraint
from tests.core.schemas.programs import metadata_for
from tests.core.schemas.random_programs import pieces, random_program
from tests.core.schemas.reference import Reference
from tests.laws.sessions import state_masks
from tests.laws.sizes import heavy_or

_MOST_STACKS = 40
"""Where alternatives overlap level by level, the plain reading grows beyond measure."""


@pytest.mark.parametrize("seed", range(heavy_or(40, 2000)))
def test_masks_are_those_of_the_plain_reading(seed: int) -> None:
    rng, vocabulary = random.Random(seed), pieces()
    arrays = random_program(rng, vocabulary)
    reference = Reference(arrays)
    session = SchemaConstraint(arrays, vocabulary, metadata_for(vocabulary)).session()
    for _ in range(4):
        states, stacks, text = session.start(1), reference.start(), b""
        for _ in range(30):
            row = state_masks(session, states, vocabulary.width)[0]
            found = set(row.nonzero()[0].tolist())
            expected = reference.mask(stacks, vocabulary)
            assert found == expected, (text, {vocabulary.token_bytes[t] for t in found ^ expected})
            going = sorted(expected - set(vocabulary.eos_token_ids))
            if not going or len(stacks) > _MOST_STACKS:
                break
            # Tokens that close and go on are as likely as the many that only open further.
            token = min(rng.sample(going, min(3, len(going))), key=lambda t: _opens(vocabulary, t))
            states = session.advance(states, np.array([token]))
            text += vocabulary.token_bytes[token]
            stacks = reference.follow(stacks, vocabulary.token_bytes[token])


def _opens(vocabulary: object, token: int) -> int:
    text = vocabulary.token_bytes[token]  # type: ignore[attr-defined]
    return sum(text.count(c) for c in b"[{") - sum(text.count(c) for c in b"]}")

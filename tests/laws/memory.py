"""Laws of what sessions keep for each other: masks do not depend on what was kept, or forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from cdec.core.grammars.constraint import GrammarConstraint
from cdec.core.grammars.engine import engine as grammar_engine
from cdec.core.grammars.engine import memory as engine_memory
from cdec.core.schemas.engine import engine as schema_engine
from cdec.core.tokens.vocabulary import Vocabulary


def pieces_of(texts: Sequence[str], size: int, rng: np.random.Generator) -> Vocabulary:
    """Return all bytes of some texts, as many of their pieces as make ``size``, and an end id."""
    documents = [text.encode() for text in texts]
    pieces = {bytes([byte]) for document in documents for byte in document}
    while len(pieces) < size:
        document = documents[int(rng.integers(len(documents)))]
        start, length = int(rng.integers(len(document))), int(rng.integers(1, 12))
        pieces.add(document[start : start + length])
    tokens = [*sorted(pieces), b""]
    return Vocabulary(tokens, [len(tokens) - 1], [len(tokens) - 1])


def with_fewer_steps(
    constraint: GrammarConstraint, share: float, rng: np.random.Generator, **options: Any
) -> GrammarConstraint:
    """Return a constraint whose masks are computed ahead for some steps only.

    Args:
        constraint: With all steps; those from a tree's beginning stay.
        share: Of the other steps that stay.
        rng: Draws which.
        options: Of the new constraint.
    """
    arrays = constraint.arrays
    stays = rng.random(len(arrays.automaton_read)) < share
    stays[: arrays.automaton_step_offsets[len(arrays.tree_taken)]] = True
    ends = np.concatenate([[0], np.cumsum(stays)]).astype(np.int64)
    fewer = arrays._replace(
        automaton_step_offsets=ends[arrays.automaton_step_offsets],
        automaton_read=arrays.automaton_read[stays],
        automaton_after=arrays.automaton_after[stays],
    )
    return GrammarConstraint(fewer, constraint.vocabulary, constraint.metadata, **options)


class _Rubbish:
    """numpy, but for ``empty``: small numbers stand there, as memory that was freed may hold."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        """Return an array of numbers between 0 and its own length."""
        array = np.empty(shape, dtype)
        array[...] = self._rng.integers(0, max(array.size, 2), array.shape)
        return array


@contextmanager
def rubbish_in_memory(seed: int) -> Iterator[None]:
    """Fill what engines allocate in the context, and do not clear, with small numbers."""
    rubbish = _Rubbish(seed)
    with (
        patch.object(grammar_engine, "np", rubbish),
        patch.object(engine_memory, "np", rubbish),
        patch.object(schema_engine, "np", rubbish),
    ):
        yield

"""Batches of entities, as readers give them to the compiler of sets: texts, ids and lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntityBatch:
    """Consecutive entities of one source.

    Attributes:
        texts: The members' texts, not normalised.
        lines: 1-based line (or row) numbers in the source, one a text.
        ids: Entity ids, one a text; None where the source has none (the line number serves).
        byte_offset: Offset of the first text's line in the (decompressed) source, bytes.
    """

    texts: Sequence[str]
    lines: Sequence[int]
    ids: Sequence[str] | None = None
    byte_offset: int = 0


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Consecutive entities given as token ids, one sequence an entity."""

    rows: Sequence[Sequence[int]]
    lines: Sequence[int]

"""Small sets for tests of the set constraint: a plain Python reference, makers of constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import SetArrays, build_trie
from cdec.core.tokens.vocabulary import Vocabulary

Row = tuple[int, ...]


def byte_vocabulary(size: int, ends: int = 1, padding: int = 0) -> Vocabulary:
    """Return ``size`` ordinary tokens, each a distinct word, then ``ends`` end ids."""
    spelled = [b"<%d>" % token for token in range(size)] + [b""] * ends
    return Vocabulary(spelled, list(range(size, size + ends)), width=size + ends + padding)


def flat_rows(rows: Iterable[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return sorted distinct rows as flat tokens and offsets."""
    ordered = sorted({tuple(row) for row in rows})
    offsets = np.zeros(len(ordered) + 1, np.int64)
    np.cumsum([len(row) for row in ordered], out=offsets[1:])
    return np.array([token for row in ordered for token in row], np.int32), offsets


class PlainIndex:
    """Member text -> rows by a dict, as plain as can be."""

    def __init__(
        self,
        arrays: SetArrays,
        vocabulary: Vocabulary,
        heads: Sequence[bytes] = (b"",),
        tail: bytes = b"",
    ) -> None:
        self.heads = tuple(heads)
        self.tail = tail
        self.empty_head = self.heads[0]
        self._rows: dict[bytes, list[int]] = {}
        for row in range(arrays.n_rows):
            full = vocabulary.decode(arrays.row(row)).removesuffix(tail)
            head = next(head for head in self.heads if full.startswith(head))
            self._rows.setdefault(full[len(head) :], []).append(row)

    def lookup(self, text: bytes) -> NDArray[np.int64]:
        return np.array(self._rows.get(text, []), np.int64)


def source_columns(
    n_rows: int, ids: Sequence[Sequence[str]] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the source columns: one line a row, or one line an id where ids are given."""
    sizes = [1] * n_rows if ids is None else [len(names) for names in ids]
    offsets = np.zeros(n_rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    columns: dict[str, NDArray[Any]] = {
        "source_offsets": offsets,
        "source_lines": np.arange(1, offsets[-1] + 1),
        "id_offsets": np.empty(0, np.int64),
        "id_bytes": np.empty(0, np.uint8),
    }
    if ids is not None:
        encoded = [name.encode() for names in ids for name in names]
        columns["id_offsets"] = np.cumsum([0, *map(len, encoded)])
        columns["id_bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
    return columns


def make_set(
    rows: Iterable[Sequence[int]],
    vocabulary: Vocabulary,
    *,
    ids: Sequence[Sequence[str]] | None = None,
    options: Mapping[str, Any] | None = None,
    heads: Sequence[bytes] = (b"",),
    tail: bytes = b"",
) -> SetConstraint:
    """Return the constraint of some token rows."""
    arrays = build_trie(*flat_rows(rows), vocabulary.size)
    index = PlainIndex(arrays, vocabulary, heads, tail)
    columns = source_columns(arrays.n_rows, ids)
    return SetConstraint.from_arrays(arrays, index, vocabulary, options or {}, columns)


class PlainSet:
    """The reference: a Python set of rows, everything by its definition."""

    def __init__(self, rows: Iterable[Sequence[int]], ends: Sequence[int], *, ends_itself: bool):
        self.rows = {tuple(row) for row in rows}
        self._ends = set(ends)
        self._proper = {row[:n] for row in self.rows for n in range(len(row))}
        self._ends_itself = ends_itself

    def prefixes(self) -> list[Row]:
        """Return all prefixes of members, members included."""
        return sorted(self._proper | self.rows)

    def allowed(self, prefix: Row) -> set[int]:
        """Return the tokens allowed after a prefix."""
        n = len(prefix)
        tokens = {row[n] for row in self.rows if len(row) > n and row[:n] == prefix}
        continuable = prefix in self._proper
        if prefix in self.rows and (continuable or not self._ends_itself or not prefix):
            tokens |= self._ends
        return tokens

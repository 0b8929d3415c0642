"""The artifact kind ``set``: its columns, and the invariants of their contents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ArtifactInvalidError
from cdec.core.mask import mask_words

COLUMNS: Mapping[str, str] = {
    "tokens": "int32",
    "row_offsets": "int64",
    "node_token": "int32",
    "node_link": "int64",
    "node_degree": "int32",
    "node_row": "int32",
    "node_count": "int32",
    "dense_nodes": "int32",
    "dense_masks": "int32",
    "text_hash": "uint64",
    "text_row": "int32",
    "source_offsets": "int64",
    "source_lines": "int64",
    "id_offsets": "int64",
    "id_bytes": "uint8",
    "vocabulary_offsets": "int64",
    "vocabulary_bytes": "uint8",
}
"""Column name -> element type.

Besides the arrays of ``SetArrays``: ``text_hash``/``text_row`` are the index of ``TextIndex``; row
r came from lines ``source_lines[source_offsets[r]:source_offsets[r + 1]]``; the entity id of the
i-th of all these lines is ``id_bytes[id_offsets[i]:id_offsets[i + 1]]`` (both empty where the
source had no ids: line numbers serve); ``vocabulary_*`` are the bytes of every token id, so that an
artifact can be read without its tokenizer.
"""

DENSE_DEGREE = 256
CHUNK = 1 << 20
"""Elements checked at a time: temporary arrays stay in the cache."""


def check_set(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Check every index of a set's arrays, so that no kernel can read outside of them.

    The trie must be in level order: the children of the inner nodes, taken in order, are exactly
    the nodes 1, 2, ... So every child comes after its parent; cycles and orphans are impossible.

    Args:
        arrays: The columns.
        metadata: The schema metadata; ``cdec.vocabulary_size`` and ``cdec.options`` are used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: one read of every array but the ids.
    """
    size = _metadata_integer(metadata, "cdec.vocabulary_size")
    _require(size > 0, "cdec.vocabulary_size", "a positive integer")
    _check_options(metadata)
    rows = len(arrays["row_offsets"]) - 1
    _offsets(arrays, "row_offsets", len(arrays["tokens"]))
    _require(0 < rows < 2**31, "row_offsets", "a set has between 1 and 2**31 - 1 rows")
    _range(arrays, "tokens", 0, size)
    _check_trie(arrays, rows, size)
    _check_dense(arrays, size)
    _check_index(arrays, rows)
    _check_sources(arrays, rows)
    _offsets(arrays, "vocabulary_offsets", len(arrays["vocabulary_bytes"]))
    _require(len(arrays["vocabulary_offsets"]) == size + 1, "vocabulary_offsets", "one a token id")


def _require(holds: object, column: str, expected: str) -> None:
    if not holds:
        raise ArtifactInvalidError(
            f"column {column} breaks an invariant: expected {expected}",
            hint="compile the artifact again",
            column=column,
        )


def _metadata_integer(metadata: Mapping[str, str], key: str) -> int:
    text = metadata.get(key, "")
    _require(text.isascii() and text.isdigit() and len(text) < 12, key, "a positive integer")
    return int(text)


def _check_options(metadata: Mapping[str, str]) -> None:
    try:
        options = json.loads(metadata.get("cdec.options", ""))
        heads = [bytes.fromhex(head) for head in options["heads"]]
        bytes.fromhex(options["suffix_bytes"])
        bytes.fromhex(options["prefix_bytes"])
        dict(json.loads(metadata["cdec.counts"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        heads = []
    _require(1 <= len(heads) <= 2, "cdec.options", "options and counts of compile-set as JSON")


def _chunks(n: int) -> Iterator[tuple[int, int]]:
    yield from ((start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


def _range(arrays: Mapping[str, NDArray[Any]], column: str, low: int, high: int) -> None:
    array = arrays[column]
    for a, b in _chunks(len(array)):
        part = array[a:b]
        _require(part.min() >= low and part.max() < high, column, f"values in [{low}, {high})")


def _offsets(arrays: Mapping[str, NDArray[Any]], column: str, end: int) -> None:
    array = arrays[column]
    _require(len(array) and array[0] == 0 and array[-1] == end, column, f"offsets from 0 to {end}")
    for a, b in _chunks(len(array) - 1):
        _require((array[a : b + 1][1:] >= array[a:b]).all(), column, "offsets that never fall")


def _check_trie(arrays: Mapping[str, NDArray[Any]], rows: int, size: int) -> None:
    names = ["node_token", "node_link", "node_degree", "node_row", "node_count"]
    nodes = len(arrays["node_token"])
    _require(nodes, "node_token", "at least the root")
    for name in names:
        _require(len(arrays[name]) == nodes, name, f"one value a node ({nodes})")
    _range(arrays, "node_token", -1, size)
    _range(arrays, "node_degree", 0, nodes)
    _range(arrays, "node_row", 0, rows)
    _range(arrays, "node_count", 1, rows + 1)
    offsets, next_child = arrays["row_offsets"], 1
    for a, b in _chunks(nodes):
        token, link, degree, row, count = (arrays[name][a:b] for name in names)
        _require((row.astype(np.int64) + count <= rows).all(), "node_count", "rows that exist")
        ends = next_child + np.cumsum(degree, dtype=np.int64)
        inner = degree > 0
        first = ends - degree
        _require((link[inner] == first[inner]).all(), "node_link", "children in level order")
        _require(
            (first[inner] > np.arange(a, b)[inner]).all(), "node_link", "children after parents"
        )
        next_child = int(ends[-1])
        leaf, leaf_row = link[~inner], row[~inner]
        inside = (leaf >= offsets[leaf_row]) & (leaf <= offsets[leaf_row + 1])
        _require(inside.all(), "node_link", "leaves that point into their row")
        _require((count[~inner] == 1).all(), "node_count", "one row a leaf")
        _require(
            not (inner & (token < 0))[1 if a == 0 else 0 :].any(), "node_token", "END is a leaf"
        )
    _require(next_child == nodes, "node_degree", "every node but the root to have one parent")
    _check_siblings(arrays, nodes)


def _check_siblings(arrays: Mapping[str, NDArray[Any]], nodes: int) -> None:
    """Siblings must be sorted and distinct: binary search relies on it."""
    token, degree = arrays["node_token"], arrays["node_degree"]
    begins_family = np.zeros(nodes + 1, np.bool_)
    begins_family[np.cumsum(degree, dtype=np.int64) - degree + 1] = True
    for a, b in _chunks(nodes - 1):
        rises = token[a + 1 : b + 1] > token[a:b]
        rises |= begins_family[a + 1 : b + 1]
        _require(rises.all(), "node_token", "siblings sorted by token")


def _check_dense(arrays: Mapping[str, NDArray[Any]], size: int) -> None:
    """The packed masks must belong to exactly the nodes of high degree and have as many bits."""
    dense, masks, degree = arrays["dense_nodes"], arrays["dense_masks"], arrays["node_degree"]
    expected = np.flatnonzero(degree >= DENSE_DEGREE)
    _require(np.array_equal(dense, expected), "dense_nodes", "the nodes of degree >= 256")
    _require(len(masks) == len(dense) * mask_words(size), "dense_masks", "one mask a dense node")
    if not len(dense):
        return
    has_end = arrays["node_token"][arrays["node_link"][dense]] < 0
    bits = np.bitwise_count(masks.reshape(len(dense), -1).view(np.uint32)).sum(axis=1)
    _require((bits == degree[dense] - has_end).all(), "dense_masks", "one bit a child")


def _check_index(arrays: Mapping[str, NDArray[Any]], rows: int) -> None:
    hashes = arrays["text_hash"]
    _require(len(arrays["text_row"]) == len(hashes), "text_row", "one row a hash")
    _range(arrays, "text_row", 0, rows)
    for a, b in _chunks(len(hashes) - 1):
        _require((hashes[a + 1 : b + 1] >= hashes[a:b]).all(), "text_hash", "sorted hashes")


def _check_sources(arrays: Mapping[str, NDArray[Any]], rows: int) -> None:
    lines = len(arrays["source_lines"])
    _offsets(arrays, "source_offsets", lines)
    _require(len(arrays["source_offsets"]) == rows + 1, "source_offsets", "one range a row")
    _range(arrays, "source_lines", 1, 2**62)
    if len(arrays["id_offsets"]) or len(arrays["id_bytes"]):
        _offsets(arrays, "id_offsets", len(arrays["id_bytes"]))
        _require(len(arrays["id_offsets"]) == lines + 1, "id_offsets", "one id a source line")

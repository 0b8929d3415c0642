"""The artifact kind ``set``: its columns, and the invariants of their contents."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from cdec.core.artifacts.checks import (
    Columns,
    chunks,
    json_object,
    require,
    require_counts,
    require_ends,
    require_length,
    require_range,
    require_rising,
    vocabulary_size,
)
from cdec.core.errors import TokenizerMismatchError
from cdec.core.mask import mask_words
from cdec.core.sets.trie import DENSE_DEGREE, DTYPES

COLUMNS: Mapping[str, str] = {
    **DTYPES,
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

_FORMS = ("none", "nfc", "nfkc")


def check_set_shape(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check lengths, ends of offsets and options: all that a set takes for granted when it opens.

    Args:
        arrays: The columns.
        metadata: The schema metadata; ``cdec.vocabulary_size``, ``cdec.options`` and
            ``cdec.counts`` are used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: the same for every set.
    """
    size = vocabulary_size(arrays, metadata)
    _check_options(metadata)
    require_counts(metadata)
    rows, nodes = len(arrays["row_offsets"]) - 1, len(arrays["node_token"])
    require(0 < rows < 2**31, "row_offsets", "a set has between 1 and 2**31 - 1 rows")
    require_ends(arrays, "row_offsets", rows, len(arrays["tokens"]))
    require(nodes, "node_token", "at least the root")
    for name in ("node_link", "node_degree", "node_row", "node_count"):
        require_length(arrays, name, nodes, "value a node")
    words = len(arrays["dense_nodes"]) * mask_words(size)
    require(len(arrays["dense_masks"]) == words, "dense_masks", "one mask a dense node")
    require_length(arrays, "text_row", len(arrays["text_hash"]), "row a hash")
    lines = len(arrays["source_lines"])
    require_ends(arrays, "source_offsets", rows, lines)
    if len(arrays["id_offsets"]) or len(arrays["id_bytes"]):
        require_ends(arrays, "id_offsets", lines, len(arrays["id_bytes"]))


def check_set(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check every index of a set's arrays, so that nothing can read outside of them.

    The trie must be in level order: the children of the inner nodes, taken in order, are exactly
    the nodes 1, 2, ... So every child comes after its parent; cycles and orphans are impossible.
    That the trie is the one of the rows is a matter of ``compilers.sets.verify``.

    Args:
        arrays: The columns; ``check_set_shape`` found them good.
        metadata: The schema metadata; ``cdec.vocabulary_size`` is used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: one read of every array but the ids.
    """
    size, rows = int(metadata["cdec.vocabulary_size"]), len(arrays["row_offsets"]) - 1
    for name in ("row_offsets", "source_offsets", "id_offsets", "vocabulary_offsets"):
        require_rising(arrays, name)
    require_range(arrays, "tokens", 0, size)
    _check_no_ends(arrays, metadata)
    _check_trie(arrays, rows, size)
    _check_dense(arrays)
    require_range(arrays, "text_row", 0, rows)
    require_rising(arrays, "text_hash", "sorted hashes")
    require_range(arrays, "source_lines", 1, 2**62)


def _check_options(metadata: Mapping[str, str]) -> None:
    options = json_object(metadata, "cdec.options")
    try:
        heads = [bytes.fromhex(head) for head in options["heads"]]
        bytes.fromhex(options["suffix_bytes"])
        bytes.fromhex(options["prefix_bytes"])
    except (ValueError, KeyError, TypeError):
        heads = []
    require(1 <= len(heads) <= 2, "cdec.options", "options of compile-set as JSON")
    require(options.get("normalize", "none") in _FORMS, "cdec.options", f"a form of {_FORMS}")
    ends = options.get("ends_itself", False)
    require(isinstance(ends, bool), "cdec.options", "ends_itself to be true or false")


def _check_no_ends(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Refuse end-of-sequence ids inside members, as the compiler does: they end a text."""
    try:
        ends = json.loads(metadata["cdec.eos"])
    except (KeyError, ValueError, RecursionError):
        ends = None
    if not isinstance(ends, list) or any(type(token) is not int or token < 0 for token in ends):
        return  # Refused where the ids are read.
    for name in ("tokens", "node_token"):
        for a, b in chunks(len(arrays[name])):
            if np.isin(arrays[name][a:b], ends).any():
                raise TokenizerMismatchError(
                    f"members hold end-of-sequence ids {ends}: they are another tokenizer's",
                    hint="compile the artifact again with the model's tokenizer",
                )


def _check_trie(arrays: Columns, rows: int, size: int) -> None:
    names = ["node_token", "node_link", "node_degree", "node_row", "node_count"]
    nodes = len(arrays["node_token"])
    require_range(arrays, "node_token", -1, size)
    require_range(arrays, "node_degree", 0, nodes)
    require_range(arrays, "node_row", 0, rows)
    require_range(arrays, "node_count", 1, rows + 1)
    offsets, next_child = arrays["row_offsets"], 1
    for a, b in chunks(nodes):
        token, link, degree, row, count = (arrays[name][a:b] for name in names)
        require((row.astype(np.int64) + count <= rows).all(), "node_count", "rows that exist")
        ends = next_child + np.cumsum(degree, dtype=np.int64)
        inner = degree > 0
        first = ends - degree
        require((link[inner] == first[inner]).all(), "node_link", "children in level order")
        require(
            (first[inner] > np.arange(a, b)[inner]).all(), "node_link", "children after parents"
        )
        next_child = int(ends[-1])
        leaf, leaf_row = link[~inner], row[~inner]
        inside = (leaf >= offsets[leaf_row]) & (leaf <= offsets[leaf_row + 1])
        require(inside.all(), "node_link", "leaves that point into their row")
        require((count[~inner] == 1).all(), "node_count", "one row a leaf")
        require(
            not (inner & (token < 0))[1 if a == 0 else 0 :].any(), "node_token", "END is a leaf"
        )
    require(next_child == nodes, "node_degree", "every node but the root to have one parent")
    _check_siblings(arrays, nodes)


def _check_siblings(arrays: Columns, nodes: int) -> None:
    """Siblings must be sorted and distinct: binary search relies on it."""
    token, degree = arrays["node_token"], arrays["node_degree"]
    begins_family = np.zeros(nodes + 1, np.bool_)
    begins_family[np.cumsum(degree, dtype=np.int64) - degree + 1] = True
    for a, b in chunks(nodes - 1):
        rises = token[a + 1 : b + 1] > token[a:b]
        rises |= begins_family[a + 1 : b + 1]
        require(rises.all(), "node_token", "siblings sorted by token")


def _check_dense(arrays: Columns) -> None:
    """The packed masks must belong to exactly the nodes of high degree, and hold their children."""
    dense, degree, token = arrays["dense_nodes"], arrays["node_degree"], arrays["node_token"]
    expected = np.flatnonzero(degree >= DENSE_DEGREE)
    require(np.array_equal(dense, expected), "dense_nodes", "the nodes of degree >= 256")
    if not len(dense):
        return
    masks = arrays["dense_masks"].reshape(len(dense), -1).view(np.uint32)
    for mask, first, count in zip(
        masks, arrays["node_link"][dense].tolist(), degree[dense].tolist(), strict=True
    ):
        children = token[first : first + count]
        children = children[int(children[0] < 0) :]
        bits = mask[children >> 5] >> (children & 31).astype(np.uint32)
        require((bits & 1).all(), "dense_masks", "the bits of the children")
        # Siblings are distinct, so that as many bits are these bits.
        total = int(np.bitwise_count(mask).sum())
        require(total == len(children), "dense_masks", "one bit a child")

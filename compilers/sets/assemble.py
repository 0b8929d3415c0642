"""Builds the arrays and the metadata of a set artifact from sorted rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.sets.options import SetReport
from cdec.compilers.sets.pieces import gather, gathered, offsets_of, picked_offsets
from cdec.compilers.sets.runs import Rows, RowStore
from cdec.core.errors import LimitError, Notice
from cdec.core.native import library
from cdec.core.sets.text_index import build_text_index
from cdec.core.sets.trie import build_trie

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

MAX_ROWS = 2**31 - 1


def assemble_set(
    rows: Rows,
    store: RowStore,
    vocabulary: Vocabulary,
    report: SetReport,
    begin: Callable[[str], None],
) -> dict[str, NDArray[Any]]:
    """Build all columns of a set artifact.

    Args:
        rows: At least one row.
        store: Gives room for the large results.
        vocabulary: Of the token ids.
        report: Counts, seconds and notices are added to it.
        begin: Called with the name of each stage, for people.

    Returns:
        Arrays by column name. Cost: O(T) and one sort of the text hashes.

    Raises:
        LimitError: More than 2**31 - 1 rows.
    """
    n = len(rows.order)
    first = np.empty(n, np.bool_)
    library.mark_distinct(rows.columns["tokens"], rows.offsets, rows.order, first)
    picked = rows.order[first]
    if len(picked) > MAX_ROWS:
        raise LimitError(f"{len(picked)} rows, more than {MAX_ROWS}", limit=f"rows {MAX_ROWS}")
    row_offsets = picked_offsets(rows.offsets, picked)
    tokens = store.empty(int(row_offsets[-1]), np.int32)
    gather(rows.columns["tokens"], rows.offsets, picked, tokens)
    arrays = _sources(rows, first, report)
    hashes = rows.columns["hashes"][picked]
    rows.columns.clear()
    del rows, first, picked
    begin("building the trie")
    started = time.perf_counter()
    trie = build_trie(tokens, row_offsets, vocabulary.size)
    report.seconds["trie"] = time.perf_counter() - started
    begin("indexing texts")
    started = time.perf_counter()
    text_hash, text_row = build_text_index(hashes)
    report.seconds["index"] = time.perf_counter() - started
    report.rows, report.tokens, report.nodes = trie.n_rows, len(tokens), trie.n_nodes
    report.longest = int(np.diff(row_offsets).max())
    return trie.to_mapping() | {
        "text_hash": text_hash,
        "text_row": text_row,
        **arrays,
        "vocabulary_offsets": vocabulary.byte_offsets,
        "vocabulary_bytes": vocabulary.flat_bytes,
    }


def set_metadata(
    vocabulary: Vocabulary,
    report: SetReport,
    *,
    source: str,
    source_hash: str,
    tokenization_hash: str | None,
) -> dict[str, str]:
    """Return the schema metadata of a set artifact."""
    return {
        "cdec.vocabulary_hash": vocabulary.vocabulary_hash,
        "cdec.tokenization_hash": tokenization_hash or "",
        "cdec.vocabulary_size": str(vocabulary.size),
        "cdec.vocabulary_name": vocabulary.name.encode("utf-8", "replace").decode(),
        "cdec.eos": json.dumps(list(vocabulary.eos_token_ids)),
        "cdec.source": source.encode("utf-8", "replace").decode(),
        "cdec.source_hash": source_hash,
        "cdec.options": json.dumps(report.options, sort_keys=True),
        "cdec.counts": json.dumps(report.counts, sort_keys=True),
    }


def _sources(rows: Rows, first: NDArray[np.bool_], report: SetReport) -> dict[str, NDArray[Any]]:
    """Return the columns that lead from a row to its source lines and entity ids."""
    n = len(first)
    lines = rows.columns["lines"][rows.order]
    id_bytes, id_offsets = _ids(rows)
    originals = rows.columns["originals"]
    if len(originals):
        _note_normalised(originals[rows.order], first, report)
    return {
        "source_offsets": np.append(np.flatnonzero(first), n),
        "source_lines": lines,
        "id_offsets": id_offsets,
        "id_bytes": id_bytes,
    }


def _ids(rows: Rows) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the entity ids in sorted order, both arrays empty where no entity has one."""
    lengths, data = rows.columns["id_lengths"], rows.columns["ids"]
    named = lengths >= 0
    if not named.any():
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    offsets = offsets_of(lengths)
    if not named.all():
        # Some entities have no id: their line numbers are written out in their place.
        lines, flat = rows.columns["lines"].tolist(), data.tobytes()
        bounds = offsets.tolist()
        names = [
            flat[bounds[i] : bounds[i + 1]] if has else str(lines[i]).encode()
            for i, has in enumerate(named.tolist())
        ]
        offsets = offsets_of(np.fromiter(map(len, names), np.int32, len(names)))
        data = np.frombuffer(b"".join(names), np.uint8)
    return gathered(data, offsets, rows.order)


def _note_normalised(
    originals: NDArray[np.uint64], first: NDArray[np.bool_], report: SetReport
) -> None:
    """Warn of members that came from texts which differ before normalisation."""
    differs = (originals[1:] != originals[:-1]) & ~first[1:]
    members = len(np.unique(np.cumsum(first)[1:][differs]))
    if members:
        report.notices.append(
            Notice(
                "W_NORMALISATION",
                f"{members} members came from different texts that are one after normalisation",
                {"members": members},
            )
        )

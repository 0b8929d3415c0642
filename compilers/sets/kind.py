"""Sets as a kind of source: an artifact held against what its own rows give.

A set does not hold the texts it was compiled from; its rows spell them. Trie, masks, text index,
options and counts follow from the rows. Source lines, entity ids and what was left out do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.kinds import SourceKind
from cdec.compilers.report import Comparison
from cdec.compilers.sets.options import SetOptions
from cdec.compilers.sets.rows import gathered
from cdec.core.artifacts.opened import bind_artifact
from cdec.core.errors import UsageError
from cdec.core.progress import Progress, Stage, silent
from cdec.core.sets.members import build_text_index, hash_texts
from cdec.core.sets.trie import build_trie

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile

_OPTIONS = ("prefix", "suffix", "leading_space", "normalize", "keep_empty")


def verify_set(file: ArtifactFile, progress: Progress = silent) -> Comparison:
    """Build trie, masks and text index of the stored rows again, and compare.

    Args:
        file: A set artifact.
        progress: Told when a stage begins.

    Returns:
        What is the same. Cost: O(tokens) and one sort of the rows' hashes; some 30 bytes of memory
        a token.

    Raises:
        TokenizerMismatchError: The stored token bytes are not those of the recorded hash.
    """
    vocabulary, arrays = bind_artifact(file).vocabulary, file.arrays
    comparison = Comparison(file)
    comparison.hold("cdec.vocabulary_hash", True)
    progress(Stage("building the trie"))
    try:
        # subtle: copies, because loops are compiled once, for arrays that can be written to.
        trie = build_trie(arrays["tokens"].copy(), arrays["row_offsets"].copy(), vocabulary.size)
    except UsageError:
        # Rows that are not sorted or not distinct: nothing else can be right.
        comparison.hold("tokens", False)
        return comparison
    again = trie.to_mapping()
    comparison.columns({name: again[name] for name in again if name.startswith(("node", "dense"))})
    progress(Stage("indexing texts"))
    options = json.loads(file.metadata["cdec.options"])
    comparison.hold("cdec.options", _options_again(options) == file.metadata["cdec.options"])
    has_empty = _compare_index(comparison, vocabulary.flat_bytes, vocabulary.byte_offsets, options)
    counts = json.loads(file.metadata["cdec.counts"])
    heads = len(options["heads"])
    counts |= {
        "rows": trie.n_rows,
        "tokens": len(trie.tokens),
        "longest": int(np.diff(trie.row_offsets).max()),
        "nodes": trie.n_nodes,
        "entities": (trie.n_rows + (heads - 1) * has_empty) // heads,
    }
    comparison.entries({"cdec.counts": json.dumps(counts, sort_keys=True)})
    return comparison


def _options_again(recorded: dict[str, Any]) -> str:
    """Return options as they are recorded, from those that the others follow from."""
    try:
        options = SetOptions(
            requested_space=recorded["leading_space_requested"],
            bad_lines="error",
            **{name: recorded[name] for name in _OPTIONS},
        )
        return json.dumps(options.to_json(), sort_keys=True)
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError):
        return ""


def _compare_index(
    comparison: Comparison,
    flat: NDArray[np.uint8],
    byte_offsets: NDArray[np.int64],
    options: dict[str, Any],
) -> bool:
    """Compare the text index; say whether the empty text is a member."""
    arrays = comparison.file.arrays
    n = len(arrays["row_offsets"]) - 1
    rows = arrays["text_row"].astype(np.int64)
    data, at = gathered(flat.copy(), byte_offsets.copy(), arrays["tokens"].astype(np.int64))
    bounds = at[arrays["row_offsets"]]
    stored = np.zeros(n, np.uint64)
    is_whole = np.array_equal(np.sort(rows), np.arange(n))
    stored[rows] = arrays["text_hash"] if is_whole else 0
    spelled, has_empty = np.zeros(n, np.bool_), False
    for length, starts, stops in _members(data, bounds, options):
        has_empty |= bool((stops == starts).any())
        spelled[length] |= _hashes(data, starts, stops) == stored[length]
    comparison.hold("text_hash", is_whole and bool(spelled.all()))
    expected = build_text_index(stored)[1]
    comparison.hold("text_row", is_whole and np.array_equal(expected, arrays["text_row"]))
    return has_empty


def _members(
    data: NDArray[np.uint8], bounds: NDArray[np.int64], options: dict[str, Any]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield (rows, starts, stops): the members that rows hold, once for each way to begin one."""
    tail = bytes.fromhex(options["suffix_bytes"])
    empty = bytes.fromhex(options["prefix_bytes"])
    heads = [(bytes.fromhex(head), False) for head in options["heads"]]
    for head, alone in [*heads, (empty, True)]:
        starts, stops = bounds[:-1] + len(head), bounds[1:] - len(tail)
        fits = stops == starts if alone else stops > starts
        for text, places in ((head, bounds[:-1]), (tail, stops)):
            for k, byte in enumerate(text):
                # What does not fit may lie outside of the data; it is left out anyway.
                near = np.clip(places + k, 0, max(len(data) - 1, 0))
                fits &= (data[near] == byte) if len(data) else False
        rows = np.flatnonzero(fits)
        yield rows, starts[rows], stops[rows]


def _hashes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the hashes of pieces of the data that stand in rising order, uint64[n]."""
    edges = np.append(np.column_stack([starts, stops]).reshape(-1), len(data))
    pieces, offsets = gathered(data, edges.astype(np.int64), 2 * np.arange(len(starts)))
    return hash_texts(pieces, offsets)


SETS: SourceKind[Any] = SourceKind(verify=verify_set)

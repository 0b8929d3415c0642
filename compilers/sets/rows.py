"""Rows of token ids, collected and sorted: lexicographically, a prefix before its continuations.

Rows are collected in memory, or as sorted runs on disk. Either way the result is flat columns and
the order that sorts them, so the artifact has the same bytes.

Several tokens are packed into one 64-bit key (token + 1, so that 0 says "the row ends here"). All
rows are sorted by the key of their first tokens; rows whose keys are equal are sorted again by the
key of the next tokens, level by level, small groups directly. Equal rows keep their input order.
Sorted runs are merged by a k-way merge with a heap.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cdec.core import mask
from cdec.core.errors import OutputError
from cdec.core.files.whole import scratch_folder
from cdec.core.native import library

_GATHER = {"u1": library.gather_bytes, "i4": library.gather_i32, "i8": library.gather_i64}
"""By element type."""
_SMALL = 24
"""Groups up to this size are finished by insertion sort, comparing whole rows."""
WORKING_FACTOR = 4
"""Memory that sorting and gathering a run takes, in times the run's own size (measured: 3)."""
COLUMNS: dict[str, type[np.generic]] = {
    "tokens": np.int32,
    "lengths": np.int32,
    "lines": np.int64,
    "hashes": np.uint64,
    "originals": np.uint64,
    "ids": np.uint8,
    "id_lengths": np.int32,
}
"""Columns of rows; ``tokens`` and ``ids`` are ragged. ``originals`` is empty without a normal form;
an id length of -1 says that the row's entity has no id."""


def offsets_of(lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return offsets, int64[n + 1], of pieces of these lengths; negative lengths count as 0."""
    return mask.offsets_of(np.maximum(lengths, 0))


def picked_offsets(offsets: NDArray[np.int64], picked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets, int64[n + 1], that the picked pieces have one after another."""
    result = np.empty(len(picked) + 1, np.int64)
    library.gather_offsets(offsets, picked, result)
    return result


def gather(
    values: NDArray[Any],
    offsets: NDArray[np.int64],
    picked: NDArray[np.int64],
    result: NDArray[Any],
) -> None:
    """Copy the picked pieces of a flat array one after another into ``result``."""
    _GATHER[values.dtype.str[1:]](values, offsets, picked, result)


def gathered(
    values: NDArray[Any], offsets: NDArray[np.int64], picked: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the picked pieces of a flat array one after another, and their offsets."""
    new_offsets = picked_offsets(offsets, picked)
    result = np.empty(new_offsets[-1], values.dtype)
    gather(values, offsets, picked, result)
    return result, new_offsets


def sort_rows(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], vocabulary_size: int
) -> NDArray[np.int64]:
    """Return the order that sorts the rows.

    Args:
        tokens: int32[T] flat token ids, all in [0, vocabulary_size).
        offsets: int64[n + 1]; row i is ``tokens[offsets[i]:offsets[i + 1]]``.
        vocabulary_size: Decides how many tokens fit into one key.

    Returns:
        int64[n] row numbers in sorted order, equal rows in input order. Cost: one sort of 64-bit
        keys, and one more pass for each further ``64 / log2(V)`` tokens that rows share.
        Memory: 28 bytes a row.
    """
    n = len(offsets) - 1
    bits = max(1, int(vocabulary_size).bit_length())
    depth = library.shared_prefix(tokens, offsets)
    keys = np.empty(n, np.uint64)
    library.first_keys(tokens, offsets, depth, bits, keys)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts, stops = _equal_runs(keys, np.zeros(1, np.int64), np.full(1, n, np.int64), bits)
    while len(starts):
        depth += 64 // bits
        is_small = stops - starts <= _SMALL
        library.sort_groups(tokens, offsets, order, starts[is_small], stops[is_small], depth)
        starts, stops = starts[~is_small], stops[~is_small]
        library.next_keys(tokens, offsets, order, starts, stops, depth, bits, keys)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            # subtle: equal rows stay in input order only if every sort is stable.
            by_key = np.argsort(keys[start:stop], kind="stable")
            keys[start:stop] = keys[start:stop][by_key]
            order[start:stop] = order[start:stop][by_key]
        starts, stops = _equal_runs(keys, starts, stops, bits)
    return order


def merge_runs(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], run_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Merge sorted runs of rows.

    Args:
        tokens: int32[T] flat token ids.
        offsets: int64[n + 1].
        run_offsets: int64[k + 1]; run j holds the rows ``run_offsets[j]:run_offsets[j + 1]``,
            sorted; runs in input order.

    Returns:
        int64[n] row numbers in sorted order, equal rows in input order. O(n log k) comparisons.
    """
    order = np.empty(len(offsets) - 1, np.int64)
    library.merge_runs(tokens, offsets, run_offsets, order)
    return order


def _equal_runs(
    keys: NDArray[np.uint64], starts: NDArray[np.int64], stops: NDArray[np.int64], bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and stops of the runs of two or more equal keys within groups.

    Rows that end within their key are equal, and a run of those is left out.
    """
    nothing = np.empty(0, np.int64)
    found = library.equal_runs(keys, starts, stops, bits, nothing, nothing)
    run_starts, run_stops = np.empty(found, np.int64), np.empty(found, np.int64)
    library.equal_runs(keys, starts, stops, bits, run_starts, run_stops)
    return run_starts, run_stops


@dataclass(slots=True)
class RowBatch:
    """Checked rows of consecutive entities.

    Attributes:
        tokens: int32[T] flat token ids.
        lengths: int32[n] tokens of each row.
        lines: int64[n] source lines.
        hashes: uint64[n] hashes of the member texts.
        originals: uint64[n] hashes of the texts before normalisation; None without it.
        ids: Entity ids, or None.
        entities: Entities that begin here; 0 where the rows are further forms of others.
    """

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int32]
    lines: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    originals: NDArray[np.uint64] | None
    ids: Sequence[str] | None
    entities: int

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the batch as columns."""
        if self.ids is None:
            id_data, id_lengths = b"", np.full(len(self.lines), -1, np.int32)
        else:
            encoded = [name.encode("utf-8", "surrogatepass") for name in self.ids]
            id_data = b"".join(encoded)
            id_lengths = np.fromiter(map(len, encoded), np.int32, len(encoded))
        return {
            "tokens": self.tokens,
            "lengths": self.lengths,
            "lines": self.lines,
            "hashes": self.hashes,
            "originals": np.empty(0, np.uint64) if self.originals is None else self.originals,
            "ids": np.frombuffer(id_data, np.uint8),
            "id_lengths": id_lengths,
        }


@dataclass(slots=True)
class Rows:
    """All rows, and the order that sorts them.

    Attributes:
        columns: Flat columns as in ``COLUMNS``, in memory or mapped.
        offsets: int64[n + 1] of the rows in ``columns["tokens"]``.
        order: int64[n] row numbers in sorted order; equal rows in input order.
    """

    columns: dict[str, NDArray[Any]]
    offsets: NDArray[np.int64]
    order: NDArray[np.int64]


class RowStore:
    """Collects rows; beyond a memory limit it writes sorted runs into a folder beside the output.

    A context manager: the folder is gone at its end, whatever happened.

    Args:
        output: The artifact to be; runs are written in its folder.
        vocabulary_size: For sorting.
        memory_limit: Bytes that collecting and sorting may take; None never spills.
    """

    def __init__(self, output: Path, vocabulary_size: int, memory_limit: int | None) -> None:
        self._output = output
        self._size = vocabulary_size
        self._limit = None if memory_limit is None else max(1, memory_limit // WORKING_FACTOR)
        self._chunks: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
        self._bytes = 0
        self._run_rows: list[int] = []
        self._folder: Path | None = None
        self._left = ExitStack()
        self._files: dict[str, BinaryIO] = {}
        self._arrays = 0

    def __enter__(self) -> RowStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()
        self._left.close()

    @property
    def spilled_runs(self) -> int:
        """Number of runs on disk."""
        return len(self._run_rows)

    def append(self, batch: RowBatch) -> None:
        """Add the rows of one batch, spilling a run where the limit is reached."""
        for name, array in batch.columns().items():
            self._chunks[name].append(array)
            self._bytes += array.nbytes
        if self._limit is not None and self._bytes >= self._limit:
            self._spill()

    def finish(self) -> Rows:
        """Sort, or merge the runs; the store takes no more rows afterwards."""
        if not self._run_rows:
            columns = self._take_columns()
            offsets = offsets_of(columns["lengths"])
            return Rows(columns, offsets, sort_rows(columns["tokens"], offsets, self._size))
        if self._bytes:
            self._spill()
        for file in self._files.values():
            file.flush()
        columns = {name: self._map(name) for name in COLUMNS}
        offsets = offsets_of(columns["lengths"])
        run_offsets = np.concatenate([[0], np.cumsum(self._run_rows)]).astype(np.int64)
        return Rows(columns, offsets, merge_runs(columns["tokens"], offsets, run_offsets))

    def empty(self, n: int, dtype: type[np.generic]) -> NDArray[Any]:
        """Return an array for results: in memory, or mapped once runs were spilled."""
        if self._folder is None or not n:
            return np.empty(n, dtype)
        self._arrays += 1
        path = self._folder / f"array{self._arrays}"
        try:
            with path.open("wb") as file:
                # subtle: without its blocks a full disk would kill the process at some later store.
                os.posix_fallocate(file.fileno(), 0, n * np.dtype(dtype).itemsize)
        except OSError as error:
            raise self._disk_error(error) from error
        return np.asarray(np.memmap(path, dtype=dtype, mode="r+", shape=(n,)))

    def _take_columns(self) -> dict[str, NDArray[Any]]:
        """Concatenate the chunks, freeing each as soon as it is copied."""
        columns = {}
        for name, chunks in self._chunks.items():
            column = np.empty(sum(len(chunk) for chunk in chunks), COLUMNS[name])
            at = len(column)
            while chunks:
                chunk = chunks.pop()
                column[at - len(chunk) : at] = chunk
                at -= len(chunk)
            columns[name] = column
        self._bytes = 0
        return columns

    def _spill(self) -> None:
        """Sort the collected rows and append them to the files as one more run."""
        columns = self._take_columns()
        offsets = offsets_of(columns["lengths"])
        order = sort_rows(columns["tokens"], offsets, self._size)
        try:
            if self._folder is None:
                self._folder = self._left.enter_context(
                    scratch_folder(
                        prefix=f".{self._output.name}.",
                        suffix=".runs",
                        within=self._output.parent,
                    )
                )
                self._files = {name: (self._folder / name).open("wb") for name in COLUMNS}
            for name, column in _reordered(columns, offsets, order).items():
                self._files[name].write(column.data)
        except OSError as error:
            raise self._disk_error(error) from error
        self._run_rows.append(len(order))

    def _disk_error(self, error: OSError) -> OutputError:
        return OutputError(
            f"cannot write sorted runs beside {self._output}: {error.strerror or error}",
            hint="free disk space, or raise `memory_limit`",
            path=str(self._output),
        )

    def _map(self, name: str) -> NDArray[Any]:
        path = Path(str(self._files[name].name))
        if not path.stat().st_size:
            return np.empty(0, COLUMNS[name])
        # subtle: mapped copy-on-write, so that compiled loops see a writable array as elsewhere.
        return np.asarray(np.memmap(path, dtype=COLUMNS[name], mode="c"))


def _reordered(
    columns: dict[str, NDArray[Any]], offsets: NDArray[np.int64], order: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    tokens = gathered(columns["tokens"], offsets, order)[0]
    ids = gathered(columns["ids"], offsets_of(columns["id_lengths"]), order)[0]
    plain = {
        name: columns[name][order] if len(columns[name]) else columns[name]
        for name in ("lengths", "lines", "hashes", "originals", "id_lengths")
    }
    return {"tokens": tokens, "ids": ids} | plain

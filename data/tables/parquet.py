"""Opens Parquet files, and sees what reading their columns may cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.errors import DataError, UsageError
from cdec.core.files.remote import is_url
from cdec.data.input.source import InputLimits, Source, open_source, source_name
from cdec.data.tables.column_sizes import ColumnSize, column_sizes
from cdec.data.tables.messages import require_modest

_FIRST_FIELD = b"\x15"
_BATCH_BYTES = 64 << 20
"""What the longest values of so many rows may take at once."""
_GRACE_OF_LISTS = 256 << 20
"""What the values of a list column may take in memory, however few bytes spell them."""
_LEVEL_BYTES = 4
"""Where a value stands in its lists, while it is read."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "BYTE_ARRAY": 4}


def is_parquet(head: bytes) -> bool:
    """Whether an input that begins so is a Parquet file: its magic, then a field."""
    return head.startswith(b"PAR1" + _FIRST_FIELD)


@contextmanager
def open_parquet(source: Source) -> Iterator[OpenedParquet]:
    """Open a Parquet file, which is read from its end.

    Args:
        source: Path or URL, ``"-"`` where stdin is a file, or a binary stream that can seek.

    Raises:
        UsageError: A pipe, or a stream that cannot seek.
        InputMissingError: It is not there.
        DataError: A damaged file; whatever pyarrow raises in the block.
    """
    name = source_name(source)
    with open_source(source) as stream:
        require_seekable(stream, name)
        try:
            with ExitStack() as files:
                yield OpenedParquet(source, stream, files)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{name} cannot be read as Parquet: {error}",
                hint="check that the file is whole, or name its format with `format`",
            ) from error


class OpenedParquet:
    """A Parquet file. Made by ``open_parquet``.

    Attributes:
        schema: Of its columns, as pyarrow has it.
    """

    def __init__(self, source: Source, stream: BinaryIO, files: ExitStack) -> None:
        self._source = source
        self._stream = stream
        self._files = files
        self._file = self._opened([])
        self.schema = self._file.schema_arrow

    def batches(
        self, columns: Sequence[str], name: str, limits: InputLimits, rows: int
    ) -> Iterator[Any]:
        """Yield the record batches, having seen what they expand to.

        Texts come as dictionaries where they can, within lists and structs, too: one that many
        cells share takes memory once.

        Args:
            columns: Names of columns.
            name: For messages.
            limits: ``max_input_bytes``, and ``max_expansion`` once the columns have 16 MiB.
            rows: Most of a batch.

        Raises:
            LimitError: They expand to too much.
            DataError: The metadata of columns are damaged.
        """
        if not columns:
            return
        leaves = [self._file.schema.column(i) for i in range(len(self._file.schema))]
        sizes = self._sizes(leaves, frozenset(columns), name, limits)
        texts = {size.column for size in sizes if _is_text(leaves[size.column])}
        longer = {size.column for size in sizes if not size.by_index} & texts
        texts -= longer
        largest: Counter[int] = Counter()
        for size in sizes:
            leaf = leaves[size.column]
            value = max(_width(leaf), size.longest if size.column in longer else 0)
            if leaf.max_repetition_level == 0:
                largest[size.group] += value
            elif size.values * (value + _LEVEL_BYTES) > _GRACE_OF_LISTS:
                # One row may have all of them.
                expanded = size.values * (value + _LEVEL_BYTES)
                require_modest(expanded, size.packed, name, limits)
        file = self._opened([leaves[number].path for number in sorted(texts)])
        # subtle: a row group at a time: no batch of lists can have texts of two dictionaries.
        for group in range(file.num_row_groups):
            most = max(1, min(rows, _BATCH_BYTES // max(largest[group], 1)))
            yield from file.iter_batches(
                most, row_groups=[group], columns=list(columns), use_threads=False
            )

    def _sizes(
        self, leaves: Sequence[Any], columns: frozenset[str], name: str, limits: InputLimits
    ) -> list[ColumnSize]:
        chosen = {n for n, leaf in enumerate(leaves) if not columns.isdisjoint(_outer(leaf.path))}
        found = []
        packed = unpacked = 0
        # subtle: another stream, since pyarrow reads this one.
        with open_source(self._source) as stream:
            for size in column_sizes(stream, name, chosen):
                packed += size.packed
                unpacked += size.unpacked
                require_modest(unpacked, packed, name, limits)
                if size.column >= len(leaves):
                    raise pa.ArrowInvalid("a row group has more columns than the file")
                found.append(size)
        return found

    def _opened(self, dictionaries: list[str]) -> Any:
        source, stream = self._source, self._stream
        is_path = isinstance(source, str | Path) and str(source) != "-" and not is_url(source)
        if not is_path:
            stream.seek(0)
        file: Any = str(source) if is_path else pa.PythonFile(stream, "r")
        return self._files.enter_context(
            arrow_parquet.ParquetFile(file, memory_map=is_path, read_dictionary=dictionaries)
        )


def _outer(path: str) -> Iterator[str]:
    """Yield the names of all columns that a column lies in, its own among them."""
    return accumulate(path.split("."), "{}.{}".format)


def _is_text(leaf: Any) -> bool:
    return bool(leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL")


def _width(leaf: Any) -> int:
    """Return the bytes of a column's value in memory; of a text those of its index."""
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(int(leaf.length), 1)
    return _WIDTHS.get(leaf.physical_type, 16)


def require_seekable(stream: BinaryIO, name: str) -> None:
    """Refuse a stream that cannot be read from its end.

    Raises:
        UsageError: It is one.
    """
    if not stream.seekable():
        raise UsageError(
            f"{name} cannot be read as Parquet, which is read from the file's end",
            hint="save it to a file first",
        )

"""Opens Parquet files, and sees what reading their columns may cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.errors import DataError, UsageError
from cdec.core.files.remote import is_url
from cdec.data.input.source import InputLimits, Source, open_source, source_name
from cdec.data.tables.column_sizes import column_sizes
from cdec.data.tables.messages import require_modest

_FIRST_FIELD = b"\x15"


def is_parquet(head: bytes) -> bool:
    """Whether an input that begins so is a Parquet file: its magic, then a field."""
    return head.startswith(b"PAR1" + _FIRST_FIELD)


@contextmanager
def open_parquet(source: Source, *, texts_by_index: bool = False) -> Iterator[Any]:
    """Open a Parquet file, which is read from its end.

    Args:
        source: Path or URL, ``"-"`` where stdin is a file, or a binary stream that can seek.
        texts_by_index: Columns of texts come as dictionaries, so that a text that many rows share
            takes memory once.

    Yields:
        A ``pyarrow.parquet.ParquetFile``.

    Raises:
        UsageError: A pipe, or a stream that cannot seek.
        InputMissingError: It is not there.
        DataError: A damaged file; whatever pyarrow raises in the block.
    """
    name = source_name(source)
    with open_source(source) as stream:
        require_seekable(stream, name)
        try:
            with _opened(source, stream, []) as file:
                columns = _text_columns(file) if texts_by_index else []
                if not columns:
                    yield file
                    return
            with _opened(source, stream, columns) as file:
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{name} cannot be read as Parquet: {error}",
                hint="check that the file is whole, or name its format with `format`",
            ) from error


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


def require_modest_columns(
    source: Source, columns: Sequence[str], name: str, limits: InputLimits
) -> None:
    """See what columns expand to, as the file's metadata has it.

    Args:
        source: As of ``open_parquet``.
        columns: Names of columns.
        name: For messages.
        limits: ``max_input_bytes``, and ``max_expansion`` once the columns have 16 MiB.

    Raises:
        LimitError: To too much.
        DataError: The metadata of columns are damaged.
    """
    size = packed = 0
    # subtle: of damaged metadata, pyarrow ends the process when a column's is looked at.
    with open_source(source) as stream:
        for path, unpacked, stored in column_sizes(stream, name):
            if path in columns or path.partition(".")[0] in columns:
                size += unpacked
                packed += stored
    require_modest(size, packed, name, limits)


def _opened(source: Source, stream: Any, dictionaries: list[str]) -> Any:
    is_path = isinstance(source, str | Path) and str(source) != "-" and not is_url(source)
    if is_path:
        return arrow_parquet.ParquetFile(str(source), memory_map=True, read_dictionary=dictionaries)
    stream.seek(0)
    return arrow_parquet.ParquetFile(pa.PythonFile(stream, "r"), read_dictionary=dictionaries)


def _text_columns(file: Any) -> list[str]:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return [field.name for field in file.schema_arrow if any(test(field.type) for test in tests)]

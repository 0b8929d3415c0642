"""Opens an input of any format and yields its entries: texts of lines, fields of objects."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal

from cdec.core.errors import DataError, UsageError
from cdec.core.files.remote import is_url
from cdec.data.input.decompress import SUFFIXES
from cdec.data.input.lines import LineBlocks, LongLine, numbered_lines
from cdec.data.input.source import (
    InputLimits,
    Source,
    SourceStats,
    open_source,
    read_chunks,
    source_name,
)
from cdec.data.prompts.entry import Entry
from cdec.data.prompts.json_entries import (
    ReadEntry,
    json_entries,
    json_entry,
    notice_array,
    text_entry,
)
from cdec.data.suffixes import TABLES

Format = Literal["auto", "lines", "json", "jsonl", "csv", "tsv"]
"""``auto``: Parquet, Arrow, saved datasets by content, JSON and CSV by the name, else as lines.

``lines`` are texts, or objects where they begin with a brace; those of ``jsonl`` are objects or
quoted texts; ``json`` is an array of such, or one after the other."""
_BY_NAME: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

_TABLE_MAGICS = (b"PAR1\x15", b"ARROW1\x00\x00", b"\xff\xff\xff\xff")


@contextmanager
def open_entries(
    source: Source, format: Format, limits: InputLimits, *, no_header: bool = False
) -> Iterator[Entries]:
    """Open an input.

    Args:
        source: Path or URL, ``"-"`` for stdin, a binary stream, or the folder of a saved dataset.
        format: How it is read.
        limits: A longer line or row becomes an error; a longer input is one.
        no_header: Whether the first row of a CSV is one of data.

    Raises:
        InputMissingError: It cannot be read.
        ExtraMissingError: It is a URL whose package is not installed.
    """
    if isinstance(source, str | Path) and str(source) != "-" and not is_url(source):
        from cdec.data.tables.dataset import is_dataset

        if is_dataset(source):
            yield Entries(source, None, format, limits, no_header=no_header)
            return
    with open_source(source) as stream:
        yield Entries(source, stream, format, limits, no_header=no_header)


class Entries:
    """An opened input. Made by ``open_entries``.

    Attributes:
        name: For messages.
        can_repeat: Whether it can be read from its beginning again, without waiting for anybody.
    """

    def __init__(
        self,
        source: Source,
        stream: BinaryIO | None,
        format: Format,
        limits: InputLimits,
        *,
        no_header: bool = False,
    ) -> None:
        self.name = source_name(source)
        self._source = source
        self._stream = stream
        self._limits = limits
        self._no_header = no_header
        self._is_auto = format == "auto"
        self._format = _format_of(source) if self._is_auto else format
        self.can_repeat = stream is None or _is_regular(stream.fileno)
        self._start = stream.tell() if stream is not None and self.can_repeat else 0

    def rewind(self) -> None:
        """Let whoever opens the same input after this find it as it was; stdin is one of them."""
        if self._stream is not None:
            self._stream.seek(self._start)

    def read(self, stats: SourceStats, *, only: str | None = None) -> Iterator[Entry]:
        """Yield the entries, blank lines left out; again from the first one where that is possible.

        Args:
            stats: Counts are kept up to date.
            only: Of a table in columns read this column alone; nothing where there is none.

        Raises:
            UsageError: ``no_header`` of what is no CSV.
            EncodingError: It is UTF-16 or UTF-32 (what is not UTF-8 is an error of its entry).
            LimitError: It is too long, or a decompression bomb.
            DataError: It is damaged, ends early, or its header is no header.
        """
        if self._no_header and self._format not in ("csv", "tsv"):
            raise UsageError(
                f"{self.name} is no CSV by its name, and `no_header` is about CSV and TSV",
                hint="leave it out, or say with `input_format` csv what it is",
            )
        if self._stream is None:
            from cdec.data.prompts.table_entries import dataset_entries

            yield from dataset_entries(self._source, self._limits, stats, only)
            return
        if self.can_repeat:
            self._stream.seek(self._start)
        chunks = read_chunks(self._stream, self.name, limits=self._limits, stats=stats)
        head = next(chunks, b"")
        while any(len(head) < len(magic) and magic.startswith(head) for magic in _TABLE_MAGICS):
            more = next(chunks, b"")
            if not more:
                break
            head += more
        chunks = chain([head], chunks) if head else iter(())
        is_table = self._is_auto and head.startswith(_TABLE_MAGICS)
        if self._format == "auto" and not is_table:
            self._refuse_table_name(head)
        if is_table:
            from cdec.data.prompts.table_entries import table_entries

            source = self._stream if str(self._source) == "-" else self._source
            yield from table_entries(source, self._stream, chunks, self._limits, stats, only)
        elif self._format in ("csv", "tsv"):
            from cdec.data.prompts.csv_entries import csv_entries

            separator = "\t" if self._format == "tsv" else ","
            yield from csv_entries(
                chunks, self.name, separator, self._limits, stats, no_header=self._no_header
            )
        elif self._format == "json":
            yield from json_entries(chunks, self.name, self._limits, stats)
        else:
            read = text_entry if self._format in ("auto", "lines") else json_entry
            if self._is_auto and read is text_entry:
                notice_array(head, self.name, stats)
            yield from _line_entries(chunks, self.name, self._limits, stats, read)

    def _refuse_table_name(self, head: bytes) -> None:
        """Refuse what is a table by its name and none by its content: a copy that broke off.

        Raises:
            DataError: It is.
        """
        if self.name.lower().endswith(TABLES):
            found = f"begins with {head[:8]!r}" if head else "is empty"
            raise DataError(
                f"{self.name} should be a table by its name, and {found}",
                hint="copy it again, take it away, or say with `input_format` how it is read",
            )


def can_repeat(source: Source) -> bool:
    """Whether an input can be read twice, without waiting for anybody; nothing is opened."""
    if not isinstance(source, str | Path):
        return _is_regular(source.fileno)
    if str(source) == "-":
        return _is_regular(sys.stdin.fileno)
    path = Path(source)
    return not is_url(source) and (path.is_file() or path.is_dir())


def _format_of(source: Source) -> Format:
    if not isinstance(source, str | Path):
        return "auto"
    name = str(source).lower()
    name = next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)
    return next((form for end, form in _BY_NAME.items() if name.endswith(end)), "auto")


def _line_entries(
    chunks: Iterator[bytes], name: str, limits: InputLimits, stats: SourceStats, read: ReadEntry
) -> Iterator[Entry]:
    for event in LineBlocks(chunks, name, limits, keep_going=True):
        if isinstance(event, LongLine):
            stats.lines += 1
            yield Entry(event.line, event.digest, error=event.error(name, limits))
            continue
        for line, offset, data in numbered_lines(event):
            stats.lines += 1
            if data.strip():
                yield read(data, name, line, offset)
            else:
                stats.blank += 1


def _is_regular(descriptor: Callable[[], int]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(descriptor()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False

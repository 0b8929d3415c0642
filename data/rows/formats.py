"""Formats of inputs in one table, and inputs opened as rows, whatever their format.

A new format is a module with a function that takes a ``Reading`` and yields its rows, and a line in
``FORMATS``.
"""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from cdec.core.errors import DataError, UsageError
from cdec.core.files.remote import is_url
from cdec.data.input.decompress import SUFFIXES
from cdec.data.input.source import (
    InputLimits,
    Source,
    SourceStats,
    open_source,
    read_chunks,
    source_name,
)
from cdec.data.rows.dataset import is_dataset
from cdec.data.rows.row import ChooseColumns, Reading, Row, Rows


@dataclass(frozen=True, slots=True)
class Format:
    """A format of inputs.

    Attributes:
        reader: Module of this room and function that read it.
        endings: Of such files' names.
        magics: What such files begin with, one of these; those without are told by the name.
        is_csv: Whether it has texts as cells, and perhaps no header.
    """

    reader: str
    endings: tuple[str, ...] = ()
    magics: tuple[bytes, ...] = ()
    is_csv: bool = False

    def read(self, reading: Reading) -> Iterator[Rows]:
        """Yield the rows of an input; its library is imported here."""
        module, _, function = self.reader.partition(":")
        found = vars(importlib.import_module(f"cdec.data.rows.{module}"))[function]
        return cast(Iterator[Rows], found(reading))


FORMATS: dict[str, Format] = {
    "jsonl": Format("text:read_json_lines", (".jsonl", ".ndjson")),
    "json": Format("text:read_json", (".json",)),
    "lines": Format("text:read_lines", (".txt",)),
    "csv": Format("csv:read_csv", (".csv",), is_csv=True),
    "tsv": Format("csv:read_tsv", (".tsv",), is_csv=True),
    "parquet": Format("tables:read_parquet", (".parquet", ".pq"), (b"PAR1\x15",)),
    "arrow": Format(
        "tables:read_arrow",
        (".arrow", ".feather", ".arrows", ".ipc"),
        (b"ARROW1\x00\x00", b"\xff\xff\xff\xff"),
    ),
}
"""All of them; each reader is imported where an input has its format."""
ENDINGS = tuple(ending for form in FORMATS.values() for ending in form.endings)
"""Endings of names of inputs; one of a compression may follow."""
_MAGICS = tuple(magic for form in FORMATS.values() for magic in form.magics)


def format_by_name(source: Source) -> str | None:
    """Return the format that the name of an input says, that of a compression left out."""
    if not isinstance(source, str | Path):
        return None
    if is_dataset(source):
        return "arrow"
    name = without_compression(str(source))
    return next((key for key, form in FORMATS.items() if name.endswith(form.endings)), None)


def without_compression(name: str) -> str:
    """Return a file's name in small letters, without the ending of a compression."""
    lower = name.lower()
    return next((lower.removesuffix(end) for end in SUFFIXES if lower.endswith(end)), lower)


@contextmanager
def open_input(source: Source, **options: Any) -> Iterator[Input]:
    """Open an input.

    Args:
        source: Path or URL, ``"-"`` for stdin, a binary stream, or the folder of a saved dataset.
        options: As of ``Input``.

    Raises:
        InputMissingError: It cannot be read.
        ExtraMissingError: It is a URL whose package is not installed.
    """
    if isinstance(source, str | Path) and str(source) != "-" and is_dataset(source):
        yield Input(source, None, **options)
        return
    with open_source(source) as stream:
        yield Input(source, stream, **options)


class Input:
    """An opened input. Made by ``open_input``.

    Args:
        source: Where it comes from.
        stream: What gives it; None for a saved dataset.
        format: Of ``FORMATS``; ``auto`` goes by the content, then by the name, else by lines.
        limits: Of its rows, and of what it expands to.
        no_header: Whether the first row of a CSV is one of data.
        options: Further fields of ``Reading``; ``tables`` is one of them.

    Attributes:
        name: For messages.
        can_repeat: Whether it can be read from its beginning again, without waiting for anybody.
    """

    def __init__(
        self,
        source: Source,
        stream: BinaryIO | None,
        *,
        format: str,
        limits: InputLimits,
        no_header: bool = False,
        **options: Any,
    ) -> None:
        self.name = source_name(source)
        self._source = source
        self._stream = stream
        self._format = format
        self._limits = limits
        self._no_header = no_header
        self._options = options
        self.can_repeat = stream is None or _is_regular(stream.fileno)
        self._start = stream.tell() if stream is not None and self.can_repeat else 0

    def rewind(self) -> None:
        """Let whoever opens the same input after this find it as it was; stdin is one of them."""
        if self._stream is not None:
            self._stream.seek(self._start)

    def rows(self, stats: SourceStats, columns: ChooseColumns) -> Iterator[Row]:
        """Yield the rows, as ``blocks`` does, one after the other."""
        return chain.from_iterable(self.blocks(stats, columns))

    def blocks(self, stats: SourceStats, columns: ChooseColumns) -> Iterator[Rows]:
        """Yield rows that came together; from the first one again where that is possible.

        Args:
            stats: Counts are kept up to date.
            columns: Chooses those of a table.

        Raises:
            UsageError: ``no_header`` of what is no CSV.
            EncodingError: It is UTF-16 or UTF-32 (what is not UTF-8 is an error of its row).
            LimitError: It is too long, or a decompression bomb.
            FieldError: The columns cannot be chosen.
            DataError: It is damaged, ends early, or its header is no header.
        """
        chunks: Iterator[bytes] = iter(())
        if self._stream is not None:
            if self.can_repeat:
                self._stream.seek(self._start)
            chunks = read_chunks(self._stream, self.name, limits=self._limits, stats=stats)
        key, chunks = self._told(chunks, stats)
        if self._no_header and not FORMATS[key].is_csv:
            raise UsageError(
                f"{self.name} is no CSV by its name, and `no_header` is about CSV and TSV",
                hint="leave it out, or say with `input_format` csv what it is",
            )
        yield from FORMATS[key].read(
            Reading(
                source=self._source,
                stream=self._stream,
                chunks=chunks,
                name=self.name,
                limits=self._limits,
                stats=stats,
                columns=columns,
                no_header=self._no_header,
                **self._options,
            )
        )

    def _told(self, chunks: Iterator[bytes], stats: SourceStats) -> tuple[str, Iterator[bytes]]:
        """Return the format, by what the input begins with where nobody says it, and its bytes."""
        if self._format != "auto":
            return self._format, chunks
        if self._stream is None:
            return "arrow", chunks
        by_name = format_by_name(self._source)
        head = next(chunks, b"")
        while any(len(head) < len(magic) and magic.startswith(head) for magic in _MAGICS):
            more = next(chunks, b"")
            if not more:
                break
            head += more
        chunks = chain([head], chunks) if head else iter(())
        for key, form in FORMATS.items():
            if form.magics and head.startswith(form.magics):
                return key, chunks
        if by_name is not None and FORMATS[by_name].magics:
            if self.name.lower().endswith(FORMATS[by_name].endings):
                found = f"begins with {head[:8]!r}" if head else "is empty"
                raise DataError(
                    f"{self.name} should be a table by its name, and {found}",
                    hint="copy it again, take it away, or say with `input_format` how it is read",
                )
            by_name = None
        if by_name in (None, "lines"):
            _notice_array(head, self.name, stats)
        return by_name or "lines", chunks


def can_repeat(source: Source) -> bool:
    """Say whether an input can be read twice, without waiting for anybody; nothing is opened."""
    if not isinstance(source, str | Path):
        return _is_regular(source.fileno)
    if str(source) == "-":
        return _is_regular(sys.stdin.fileno)
    path = Path(source)
    return not is_url(source) and (path.is_file() or path.is_dir())


def _notice_array(head: bytes, name: str, stats: SourceStats) -> None:
    """Warn where lines begin as a JSON array does: each is a text all the same."""
    text = head.lstrip()
    if text.startswith(b"[") and text[1:].lstrip()[:1] in (b"{", b'"'):
        stats.notice_once(
            "W_LOOKS_LIKE_JSON",
            f"{name} looks like a JSON array, and each of its lines is a text as it is; "
            "`input_format` json would read its records",
        )


def _is_regular(descriptor: Callable[[], int]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(descriptor()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False

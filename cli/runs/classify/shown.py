"""Results on stdout: JSON lines, rows of CSV, or a table for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.console import escape
from cdec.cli.frame.tables import print_columns, print_json

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console

COLUMNS = ("id", "rank", "label", "label_id", "probability", "logprob", "log_mass", "error")
"""Of CSV; a bad record is one row, with an error and without a label."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With which texts begin that spreadsheets take for formulas."""
_HEADER = ("id", "label", "probability", "logprob")


class Shown:
    """Writes records in one format.

    Args:
        console: Its stdout is written to.
        format: ``jsonl``, ``csv`` or ``table``.
        fields: Of JSON records; None keeps all.
    """

    def __init__(self, console: Console, format: str, fields: Sequence[str] | None) -> None:
        self._console = console
        self._format = format
        self._fields = fields
        self._rows: list[list[str]] = []

    def begin(self) -> None:
        """Write what stands before all records."""
        if self._format == "csv":
            self._csv(COLUMNS)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one record, or note it for the table."""
        if self._format == "csv":
            for row in _rows(record):
                self._csv(row)
        elif self._format == "table":
            self._rows += _cells(record)
        else:
            print_json(self._console, _kept(record, self._fields))

    def finish(self) -> None:
        """Print the table, if it is one."""
        if self._rows:
            print_columns(self._console, _HEADER, self._rows)

    def _csv(self, row: Sequence[object]) -> None:
        line = io.StringIO()
        # Numbers as Python writes them: all their digits. None is an empty cell.
        csv.writer(line, lineterminator="").writerow(map(_inert, row))
        text = line.getvalue()
        # A file gets texts as they are; a terminal none of their control characters.
        self._console.data(escape(text) if self._console.stdout.isatty() else text)


def _kept(record: Mapping[str, Any], fields: Sequence[str] | None) -> Mapping[str, Any]:
    if fields is None or "error" in record:
        return record
    return {name: record[name] for name in fields if name in record}


def _inert(cell: object) -> object:
    """Return a text that a spreadsheet takes for a formula behind an apostrophe, which it drops."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell


def _rows(record: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield a row of CSV for each label."""
    if "error" in record:
        found = record["error"]
        yield [record["id"], *[None] * 6, f"{found['code']}: {found['message']}"]
        return
    for rank, label in enumerate(record["labels"], 1):
        told = [label["text"], label.get("id"), label["probability"], label["logprob"]]
        yield [record["id"], rank, *told, record["log_mass"], None]


def _cells(record: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield a row of the table for each label."""
    if "error" in record:
        found = record["error"]
        yield [str(record["id"]), f"{found['code']}: {found['message']}", "", ""]
        return
    for label in record["labels"]:
        shown = ("-" if label[name] is None else label[name] for name in _HEADER[2:])
        numbers = [cell if isinstance(cell, str) else f"{cell:.6g}" for cell in shown]
        yield [str(record["id"]), label["text"], *numbers]

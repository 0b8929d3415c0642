"""Results on stdout or in a file: JSON lines, rows of CSV, or a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.console import escape
from cdec.cli.frame.tables import print_columns, print_json
from cdec.data.output.rows import cell_of, row_of

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console

COLUMNS = ("id", "rank", "label", "label_id", "probability", "logprob", "log_mass", "error")
"""Of CSV; a bad record is one row, with an error and without a label."""
_HEADER = ("id", "label", "probability", "logprob")


class Shown:
    """Writes records in one format.

    Args:
        console: Its stdout is written to.
        format: ``jsonl``, ``csv`` or ``table``.
        fields: Of JSON records, or columns of CSV; None keeps all.
        write: Takes records, or rows of ``format`` csv, in the place of stdout.
    """

    def __init__(
        self,
        console: Console,
        format: str,
        fields: Sequence[str] | None,
        write: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._console = console
        self._format = format
        self._fields = fields
        self._columns = COLUMNS if fields is None else fields
        self._write = write
        self._rows: list[list[str]] = []

    def begin(self) -> None:
        """Write what stands before all records."""
        if self._format == "csv" and self._write is None:
            self._csv(self._columns)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one record, or note it for the table."""
        if self._format == "csv":
            for row in rows_of(record):
                if self._write is not None:
                    self._write(row)
                else:
                    self._csv([cell_of(row.get(name), name) for name in self._columns])
        elif self._format == "table":
            self._rows += _cells(record)
        elif self._write is not None:
            self._write(_kept(record, self._fields))
        else:
            print_json(self._console, _kept(record, self._fields))

    def finish(self) -> None:
        """Print the table, if it is one."""
        if self._rows:
            print_columns(self._console, _HEADER, self._rows)

    def _csv(self, row: Sequence[object]) -> None:
        text = row_of(row)
        # A file gets texts as they are; a terminal none of their control characters.
        self._console.data(escape(text) if self._console.stdout.isatty() else text)


def _kept(record: Mapping[str, Any], fields: Sequence[str] | None) -> Mapping[str, Any]:
    if fields is None or "error" in record:
        return record
    return {name: record[name] for name in fields if name in record}


def rows_of(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row of CSV for each label of a record, by column, and what the record brought."""
    brought = {"input": record["input"]} if "input" in record else {}
    if "error" in record:
        yield {"id": record["id"], "error": record["error"], **brought}
        return
    for rank, label in enumerate(record["labels"], 1):
        yield {
            "id": record["id"],
            "rank": rank,
            "label": label["text"],
            "label_id": label.get("id"),
            "probability": label["probability"],
            "logprob": label["logprob"],
            "log_mass": record["log_mass"],
            **brought,
        }


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

"""Records as rows of CSV: their columns, their cells, and nothing that a spreadsheet runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With which texts begin that spreadsheets take for formulas."""
_INPUT, _ERROR = "input", "error"
_END = "\r\n"


@dataclass
class Columns:
    """The columns of records that become rows.

    Attributes:
        fields: That are written whatever is in them; None for those in which some record has
            something.
        keep_input: Whether a row begins with what the record's ``input`` holds.
        of_input: Names of that, as they were met.
        own: Fields that were met, those of the output in their order.
    """

    fields: Sequence[str] | None = None
    keep_input: bool = False
    of_input: dict[str, None] = field(default_factory=dict)
    own: dict[str, None] = field(default_factory=dict)

    def note(self, record: Mapping[str, Any]) -> None:
        """Note what a record has."""
        for name, value in record.items():
            if value is not None and not (self.keep_input and name == _INPUT):
                self.own[name] = None
        given = record.get(_INPUT)
        if self.keep_input and isinstance(given, dict):
            self.of_input.update(dict.fromkeys(given))

    def named(self, known: Sequence[str]) -> dict[str, tuple[bool, str]]:
        """Return the columns by name: whether each is of the input, and the field it shows.

        A column of the input that has the name of another is called ``input.NAME``.

        Args:
            known: Fields of such records, in their order, for what was not asked for.
        """
        met = [*(name for name in known if name in self.own), *self.own]
        own = [name for name in met if name != _ERROR] if self.fields is None else [*self.fields]
        if not self.own and self.fields is None:
            own = [*known]
        own = [name for name in own if not (self.keep_input and name == _INPUT)]
        own += [_ERROR] if _ERROR in self.own else []
        of_input = [name for name in self.of_input if name != "id"]
        taken = {*own, *of_input}
        columns = {name: (False, name) for name in own[:1] if name == "id"}
        for name in of_input:
            shown = f"{_INPUT}.{name}" if name in own else name
            while shown != name and shown in taken:
                shown = f"{_INPUT}.{shown}"
            columns[shown] = (True, name)
        return columns | {name: (False, name) for name in dict.fromkeys(own)}


def cells_of(
    record: Mapping[str, Any], columns: Mapping[str, tuple[bool, str]]
) -> Iterator[object]:
    """Yield the cells of a record's row."""
    given = record.get(_INPUT)
    of_input = given if isinstance(given, dict) else {}
    for is_of_input, name in columns.values():
        yield cell_of((of_input if is_of_input else record).get(name), name)


def cell_of(value: object, name: str = "") -> object:
    """Return a value as a cell: texts inert, lists and objects as JSON, of an error what it says.

    None is an empty cell; numbers are written with all their digits.
    """
    if value is None:
        return None
    if name == _ERROR and isinstance(value, dict):
        return inert(f"{value.get('code')}: {value.get('message')}")
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, bool | dict | list | tuple):
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return value


def inert(text: str) -> str:
    """Return a text that a spreadsheet takes for a formula behind an apostrophe, which it drops."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def row_of(cells: Iterable[object], separator: str = ",") -> str:
    """Return a row without its line's end; cells with separators, quotes or line ends in quotes."""
    line = io.StringIO()
    # subtle: the writer quotes the characters of its line's end alone, and both of them end lines.
    csv.writer(line, delimiter=separator, lineterminator=_END).writerow(cells)
    return line.getvalue().removesuffix(_END)

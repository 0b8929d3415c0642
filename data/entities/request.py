"""Requests for entities: which of an input's rows and columns, and what becomes of bad lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cdec.core.errors import CdecError, FieldError
from cdec.data.input.source import ENTITY_LIMITS, InputLimits, Source, SourceStats
from cdec.data.near import near_hint
from cdec.data.rows.formats import FORMATS, open_input
from cdec.data.rows.row import Rows
from cdec.data.rows.table_process import TableProcess

BadLines = Literal["error", "skip"]
TEXT = "text"
"""The format of lines that are texts whatever they begin with; and the usual field of texts."""
_AS_TEXTS = "say with `format` text that its lines are texts"


@dataclass(frozen=True, slots=True)
class EntityRequest:
    """Request for an input of entities, with the treatment of its bad lines.

    Attributes:
        source: Path, ``"-"`` or stream.
        name: Its name in messages.
        format: Of ``FORMATS``, or ``text``.
        field: Field or column of the texts; None means ``text``.
        id_field: Field or column of the ids; None means no ids.
        no_header: Whether the first row of a CSV is one of texts; its columns are called 1, 2, ...
        bad_lines: What to do with a bad line.
        limits: Limits of lines and input.
        stats: Kept up to date.
    """

    source: Source
    name: str
    format: str = TEXT
    field: str | None = None
    id_field: str | None = None
    no_header: bool = False
    bad_lines: BadLines = "error"
    limits: InputLimits = ENTITY_LIMITS
    stats: SourceStats = dataclasses.field(default_factory=SourceStats)

    def refuse(self, error: CdecError) -> None:
        """Raise the error, or count its line as skipped."""
        if self.bad_lines != "skip":
            raise error
        self.stats.skipped += 1

    def blocks(self) -> Iterator[Rows]:
        """Open the source and yield its rows."""
        with (
            TableProcess() as tables,
            open_input(
                self.source,
                format="lines" if self.format == TEXT else self.format,
                limits=self.limits,
                no_header=self.no_header,
                tables=tables,
                as_texts=_AS_TEXTS,
                is_strict=False,
                keeps_going=self.bad_lines == "skip",
            ) as opened,
        ):
            yield from opened.blocks(self.stats, self.columns)

    def columns(self, names: Sequence[str], schema: Any) -> tuple[str, ...]:
        """Return the columns to read: the texts', then the ids' if there is one.

        A number is that of a column, where none has it as its name.

        Raises:
            FieldError: No such column, or several, or none of texts.
        """
        names = names if schema is None else schema.names
        wanted = [_numbered(self.field or TEXT, names)]
        ids = None if self.id_field is None else _numbered(self.id_field, names)
        if ids is not None and ids != wanted[0]:
            wanted.append(ids)
        for name, option in zip(wanted, ("`field`", "`id_field`"), strict=False):
            found = list(names).count(name)
            if found != 1:
                problem = (
                    f"has no column {name!r}" if found == 0 else f"has {found} columns {name!r}"
                )
                raise FieldError(
                    f"{self.name} {problem}; its columns are {', '.join(map(repr, names))}",
                    hint=near_hint(name, names if found == 0 else (), self._ways(option)),
                    line=1,
                    field=name,
                )
        if schema is not None:
            from cdec.data.rows.cells import require_texts

            require_texts(schema, wanted, self.name)
        return tuple(wanted)

    def _ways(self, option: str) -> str:
        """Return how a column is named, and what to do where there are no names."""
        named = f"name the column with {option}, or give its number"
        if self.no_header or not FORMATS[self.format].is_csv:
            return named
        return f"{named}; where the first row is one of texts, give `no_header` too"


def _numbered(name: str, names: Sequence[str]) -> str:
    """Return the column of that name, or of that number."""
    is_number = name not in names and name.isascii() and name.isdecimal()
    return names[int(name) - 1] if is_number and 0 < int(name) <= len(names) else name

"""What every reader of entities is given, and how it treats bad lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cdec.core.errors import CdecError
from cdec.data.input.lines import LineBlock, LineBlocks, LongLine
from cdec.data.input.source import InputLimits, Source, SourceStats, open_source, read_chunks

BadLines = Literal["error", "skip"]


@dataclass(frozen=True, slots=True)
class EntityRequest:
    """What the readers of all formats need to know.

    Attributes:
        source: Path, ``"-"`` or stream.
        name: Its name in messages.
        field: Field or column of the texts; None means ``text``.
        id_field: Field or column of the ids; None means no ids.
        bad_lines: What to do with a bad line.
        limits: Limits of lines and input.
        stats: Kept up to date by the reader.
        tabs: Columns of a CSV are separated by tabs.
        no_header: The first row of a CSV is one of texts; its columns are called 1, 2, ...
        is_csv: It is read as CSV.
    """

    source: Source
    name: str
    field: str | None
    id_field: str | None
    bad_lines: BadLines
    limits: InputLimits
    stats: SourceStats
    tabs: bool = False
    no_header: bool = False
    is_csv: bool = False

    @property
    def skips(self) -> bool:
        """Whether bad lines are left out and counted."""
        return self.bad_lines == "skip"

    def refuse(self, error: CdecError) -> None:
        """Raise the error, or count its line as skipped."""
        if not self.skips:
            raise error
        self.stats.skipped += 1

    def blocks(self) -> Iterator[LineBlock]:
        """Open the source and yield its whole lines; overlong ones are refused or skipped."""
        with open_source(self.source) as stream:
            chunks = read_chunks(stream, self.name, limits=self.limits, stats=self.stats)
            for event in LineBlocks(chunks, self.name, self.limits, keep_going=self.skips):
                if isinstance(event, LongLine):
                    self.stats.lines += 1
                    self.refuse(event.error(self.name, self.limits))
                else:
                    yield event

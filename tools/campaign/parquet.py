"""Parquet under attack: outputs that are gone on with, and the same files as prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from cdec.core.errors import CdecError
from cdec.data.output.writer import open_writer
from cdec.data.prompts.read import read_prompts
from tools.campaign.mutants import damaged, edited_json
from tools.campaign.target import Outcome, TargetFile

if TYPE_CHECKING:
    from cdec.data.output.parquet import ParquetRecordWriter

CONFIG = {"seed": 0}
_TYPES = (pa.int8(), pa.float32(), pa.binary(), pa.large_string(), pa.bool_(), pa.date32())


class ParquetTarget(TargetFile):
    """An output of Parquet: mutants of its bytes, of its footer alone, and of its columns.

    Args:
        folder: Of its own.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "out.parquet"
        records = [
            {"id": f"r{i}" if i % 2 else i, "index": i % 3, "text": "x" * i, "prompt": f"p{i}"}
            for i in range(40)
        ]
        names = ("id", "index", "text")
        with open_writer(self.path, config=CONFIG) as writer:
            for record in records:
                writer.write({name: record[name] for name in names})
        self.good = self.path.read_bytes()
        self.table = pa.parquet.read_table(self.path)
        # As prompts, rows of the same file have what a prompt needs.
        prompts = pa.array([str(record["prompt"]) for record in records])
        self.prompts = self.table.select(["text"]).append_column("prompt", prompts)

    def raw(self, rng: np.random.Generator) -> Outcome:
        """Go on with a mutant of the file's bytes, or read it as prompts."""
        return self._used(damaged(self.good, rng), rng)

    def sealed(self, rng: np.random.Generator) -> Outcome:
        """Use a mutant of the file's footer, which says where everything stands."""
        length = int.from_bytes(self.good[-8:-4], "little")
        footer = damaged(self.good[-8 - length : -8], rng)
        data = self.good[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        return self._used(data, rng)

    def columns(self, rng: np.random.Generator) -> Outcome:
        """Use a file that is whole, and whose columns are others."""
        table = self.table if rng.random() < 0.5 else self.prompts
        for _ in range(int(rng.integers(1, 4))):
            table = _changed(table, rng)
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink, row_group_size=int(rng.integers(1, 50)))
        return self._used(sink.getvalue().to_pybytes(), rng)

    def _used(self, data: bytes, rng: np.random.Generator) -> Outcome:
        self.path.write_bytes(data)
        outcome = "used"
        try:
            if rng.random() < 0.5:
                list(read_prompts(self.path))
            else:
                self._gone_on_with()
        except CdecError as error:
            assert error.exit_status != 70, error
            outcome = "refused"
        return outcome

    def _gone_on_with(self) -> None:
        writer: ParquetRecordWriter
        with open_writer(self.path, config=CONFIG, resume=True) as writer:  # type: ignore[assignment]
            writer.write({"id": "new", "index": 0, "text": "y"})
        rows = pa.parquet.ParquetFile(self.path).metadata.num_rows
        assert rows == writer.finished.records + 1, (rows, writer.finished.records)


def _changed(table: Any, rng: np.random.Generator) -> Any:
    """Return a table without a column, or with one of another type, name or with nulls."""
    index = int(rng.integers(table.num_columns))
    name, column = table.column_names[index], table.column(index)
    way = int(rng.integers(5))
    if way == 0 and table.num_columns > 1:
        return table.remove_column(index)
    if way == 1:
        nulls = pa.nulls(table.num_rows, column.type)
        return table.set_column(index, name, nulls)
    if way == 2:
        try:
            column = column.cast(_TYPES[int(rng.integers(len(_TYPES)))])
        except pa.ArrowException:
            column = pa.array([json.dumps(edited_json(b"[1]", rng).decode())] * table.num_rows)
        return table.set_column(index, name, column)
    if way == 3:
        return table.append_column(name, column)
    return table.slice(0, int(rng.integers(3)))

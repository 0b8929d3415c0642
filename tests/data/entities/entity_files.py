"""Entity sources for tests: small files, and what the readers find in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from cdec.data.entities.source import read_entities
from cdec.data.input.source import SourceStats


def entities(source: Any, **options: Any) -> tuple[list[tuple[str, int, str | None]], SourceStats]:
    """Return (text, line, id) of every entity, and what was counted."""
    stats = SourceStats()
    found: list[tuple[str, int, str | None]] = []
    for batch in read_entities(source, stats=stats, **options):
        ids = batch.ids if batch.ids is not None else [None] * len(batch.texts)
        found += zip(batch.texts, batch.lines, ids, strict=True)
    return found, stats


def file_of(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def parquet_of(folder: Path, **columns: Any) -> Path:
    path = folder / "x.parquet"
    pa.parquet.write_table(pa.table(columns), path, row_group_size=2)
    return path


def codes(stats: SourceStats) -> list[str]:
    return [notice.code for notice in stats.notices]

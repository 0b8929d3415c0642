"""Reads the fact tables: one TSV file a table, a header line, ``-`` where a value is unknown."""

from __future__ import annotations

from functools import cache
from pathlib import Path

TABLES = Path(__file__).parent / "tables"
UNKNOWN = "-"

Row = dict[str, str]


@cache
def read_table(name: str) -> tuple[Row, ...]:
    """Read one table.

    Args:
        name: File name in ``tables/`` without its suffix.

    Returns:
        One dict a line, column name to value; unknown values are left out.
    """
    lines = (TABLES / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    columns = lines[0].split("\t")
    rows = (zip(columns, line.split("\t"), strict=True) for line in lines[1:])
    return tuple({key: value for key, value in row if value != UNKNOWN} for row in rows)


def table_names() -> list[str]:
    """List the tables, sorted."""
    return sorted(path.stem for path in TABLES.glob("*.tsv"))

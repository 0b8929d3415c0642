"""How the names of tables end: inputs, outputs and what is refused in their place read it."""

from __future__ import annotations

PARQUET = (".parquet", ".pq")
TABLES = (*PARQUET, ".arrow", ".feather")
JSON = ".json"

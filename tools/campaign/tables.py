"""Tables from strangers, read in little memory: shared texts, lying footers, damaged pages."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cdec.core.errors import CdecError
from cdec.data.entities import request
from cdec.data.entities.source import read_entities
from cdec.data.prompts import read
from cdec.data.prompts.read import BadRecord, read_prompts
from cdec.data.rows.table_process import TableProcess
from tests.data.rows.test_table_bombs import (
    in_arrow,
    in_one_list,
    in_parquet,
    limit_memory,
    shared,
    with_footer_of,
)
from tools.campaign.attack import Try
from tools.campaign.mutants import damaged

ROOM = 1 << 30
"""Bytes of address space above what the process has when it begins."""
_ENCODINGS = ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")
_REFUSED = ("E_LINE_TOO_LONG", "E_LIMIT", "E_FIELD")
"""Too long, a bomb, or candidates that are no list of texts."""


def open_tables(folder: Path) -> Try:
    """Return what reads one table of a stranger as prompts and as entities."""
    read_all(in_parquet({"prompt": ["p"], "text": ["t"]}), folder / "t.parquet")
    limit_memory(ROOM)
    # One process for all tables, as long as none ends it: starting it takes longer than a table.
    tables = TableProcess()
    for reader in (request, read):
        vars(reader)["TableProcess"] = lambda: nullcontext(tables)

    def read_one(seed: int) -> dict[str, int]:
        rng = np.random.default_rng(seed)
        data, is_whole = table(rng)
        found = read_all(data, folder / "t.parquet")
        # What nobody damaged is read, or refused for what it would take.
        wrong = [code for code in found if code.startswith("E_") and code not in _REFUSED]
        assert not (is_whole and wrong), (seed, found)
        return found

    return read_one


def table(rng: np.random.Generator) -> tuple[bytes, bool]:
    """Return the bytes of a table, and whether nobody damaged it."""
    text = "y" * int(rng.choice([1, 100, 1 << 12, 1 << 20]))
    rows = int(rng.choice([1, 3, 300 if len(text) < 1 << 20 else 5]))
    columns: dict[str, Any] = {"prompt": ["p"] * rows, "text": shared(rows, text)}
    count = int(rng.choice([1, 50, 6_000]))
    if rows == 1:
        values = shared(count, text)
        for _ in range(int(rng.integers(1, 4))):
            kind = int(rng.integers(3))
            values = values if kind else pa.StructArray.from_arrays([values], ["s"])
            values = in_one_list(values)
        columns[str(rng.choice(["candidates", "data"]))] = values
    if rng.random() < 0.3:
        return in_arrow(columns), True
    options: dict[str, Any] = {
        "compression": str(rng.choice(["zstd", "snappy", "none"])),
        "store_schema": bool(rng.random() < 0.5),
        "data_page_version": str(rng.choice(["1.0", "2.0"])),
    }
    if rng.random() < 0.4 and rows > 1:
        columns["text"] = pa.array([text[:4_096]] * rows)
        encoding = str(rng.choice(_ENCODINGS))
        options |= {"use_dictionary": False, "column_encoding": {"text": encoding}}
    data = in_parquet(columns, **options)
    way = float(rng.random())
    if way < 0.2 and options["compression"] != "none":
        try:
            return with_footer_of(data, 20), True
        except (AssertionError, pa.ArrowException):
            return data, True
    if way < 0.5:
        return damaged(data, rng), False
    return data, True


def read_all(data: bytes, path: Path) -> Counter[str]:
    """Return how often each thing came of a table: a record, an error of a row, or of all."""
    found: Counter[str] = Counter()
    try:
        for record in read_prompts(io.BytesIO(data)):
            found[record.error.code if isinstance(record, BadRecord) else "record"] += 1
    except CdecError as error:
        found[error.code] += 1
    path.write_bytes(data)
    try:
        kind = "parquet" if data.startswith(b"PAR1") else "arrow"
        for batch in read_entities(path, format=kind):  # type: ignore[arg-type]
            found["entity"] += len(batch.texts)
    except CdecError as error:
        found[error.code] += 1
    return found

"""TableProcess: damaged tables end the process that reads them at worst, and never this one."""

from __future__ import annotations

import io
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from cdec.core.errors import CdecError, DataError, LimitError
from cdec.data.input.source import InputLimits
from cdec.data.prompts.read import read_prompts
from cdec.data.rows.table_process import TableBytes, TableProcess
from tests.laws.sizes import heavy_or

MUTANTS = heavy_or(60, 500)


def written() -> bytes:
    table = pa.table({f"c{i}": [str(j) for j in range(50)] for i in range(6)} | {"l": [["a"]] * 50})
    stream = io.BytesIO()
    arrow_parquet.write_table(table, stream, row_group_size=25)
    return stream.getvalue()


def mutant(data: bytes, seed: int) -> bytes:
    """Return a file with one to four bytes of its footer changed."""
    draw, changed = random.Random(seed), bytearray(data)
    length = int.from_bytes(data[-8:-4], "little")
    for _ in range(draw.choice((1, 1, 2, 4))):
        changed[len(data) - 8 - draw.randrange(1, length + 1)] = draw.randrange(256)
    return bytes(changed)


def rows(tables: TableProcess, data: bytes, form: str = "Parquet") -> int:
    stream = io.BytesIO(data)
    opened = tables.open(form, TableBytes(iter(()), stream), "x", InputLimits())
    names = [*opened.schema.names]
    return sum(batch.num_rows for batch in opened.batches(names, 10))


def test_a_process_opens_tables_one_after_the_other() -> None:
    with TableProcess() as tables:
        assert rows(tables, written()) == 50
        first = tables._server
        assert rows(tables, written()) == 50
        with pytest.raises(DataError):
            rows(tables, b"PAR1" * 20)
        assert rows(tables, written()) == 50
        assert tables._server is first


def test_a_table_that_is_left_makes_room_for_the_next() -> None:
    with TableProcess() as tables:
        opened = tables.open(
            "Parquet", TableBytes(iter(()), io.BytesIO(written())), "x", InputLimits()
        )
        next(opened.batches(["c1"], 1))
        assert rows(tables, written()) == 50


def test_no_damaged_footer_ends_the_process_that_asks() -> None:
    found: Counter[str] = Counter()
    with TableProcess() as tables:
        for seed in range(MUTANTS):
            try:
                rows(tables, mutant(written(), seed))
            except CdecError as error:
                assert error.exit_status in (65, 75), error
                assert error.hint
                found[error.code] += 1
            else:
                found["read"] += 1
    assert found["read"] > 0 and found["E_DATA"] > 0, found


def test_the_end_of_the_process_is_an_error_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with TableProcess() as tables:
        opened = tables.open(
            "Parquet", TableBytes(iter(()), io.BytesIO(written())), "x", InputLimits()
        )
        assert tables._server is not None
        tables._server.kill = lambda: -6  # type: ignore[method-assign]
        import os
        import signal

        os.kill(tables._server.pid, signal.SIGABRT)
        with pytest.raises(DataError, match="ended with SIGABRT"):
            list(opened.batches(["c1"], 10))


def test_what_takes_no_end_of_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdec.data.rows.table_process._SECONDS", 0.0)
    with pytest.raises(LimitError, match="time"):
        list(read_prompts(io.BytesIO(written())))

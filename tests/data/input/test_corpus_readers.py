"""Readers on hostile files, and sizes of columns."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from cdec.core.errors import CdecError, DataError
from cdec.data.entities.source import read_entities
from cdec.data.input.source import SourceStats
from cdec.data.prompts.read import BadRecord, PromptRecord, read_prompts
from cdec.data.tables.column_sizes import column_sizes

# --- Every set and prompts case of the corpus of bad inputs, as far as the readers see it.

COMPILER = {
    "set-empty-file": 0,
    "set-only-blank-lines": 3,
    "set-duplicates": 5,
    "set-lossy-tokenizer": 1,
    "set-one-empty-entry": 2,
    "set-long-token-path": 1,
}
"""Cases that the compiler judges: the number of texts the reader hands it."""

MODEL = {"pr-too-long", "pr-no-chat-template", "pr-truncated-output"}
"""Cases that the model judges: the reader hands on a good record."""

WAITING = {"pr-batch-format": "batch files are not read yet: such a line is E_FIELD"}

NOTICES = {
    "set-crlf": ["W_CRLF"],
    "set-csv-by-mistake": ["W_LOOKS_LIKE_CSV"],
    "set-invalid-utf8-skip": ["W_BAD_LINES"],
    "pr-empty-stdin": ["W_NO_INPUT"],
}

IN_CHILD = {
    "set-line-1GiB": "Repeated(b'a' * 2**20, 1024)",
    "set-gzip-bomb": "Repeated(gzip.compress(b'a\\n' * 5_000_000), 100)",
    "pr-line-100MB": "Repeated(b'a' * 10**6, 100, b'{\"id\":1,\"prompt\":\"', b'\"}\\n')",
}
"""Cases with a limit on memory: a child process reads the same bytes from a stream."""

CHILD = """
import gzip, io, re, sys
from pathlib import Path
from cdec.core.errors import CdecError
from cdec.data import read_entities, read_prompts

class Repeated(io.RawIOBase):
    def __init__(self, part, times, before=b"", after=b""):
        self.parts = iter((before, *[part] * times, after))
    def read(self, size=-1):
        return next((part for part in self.parts if part), b"")

try:
    if sys.argv[1] == "set":
        list(read_entities({stream}))
    else:
        (record,) = read_prompts({stream})
        raise record.error
except CdecError as error:
    # subtle: ru_maxrss would include the process this one was forked from.
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
    print(error.code, int(peak.group(1)) // 1024)
"""


STREAMED = {"set-10M-lines"}
"""A case whose bytes are not held at once."""


class Numbers(io.RawIOBase):
    """The lines 0, 1, 2, ..., as a stream."""

    def __init__(self, count: int) -> None:
        self._starts = iter(range(0, count, 100_000))

    def read(self, size: int = -1) -> bytes:
        start = next(self._starts, None)
        if start is None:
            return b""
        return ("\n".join(map(str, range(start, start + 100_000))) + "\n").encode()


def cases(shared: Path, kind: str) -> Iterator[dict[str, Any]]:
    for line in (shared / "corpus" / "bad_inputs.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["kind"] == kind:
            yield case


def generated(case: dict[str, Any]) -> Any:
    """Return the case's bytes, or its path."""
    if case["id"] == "set-endless-no-newline":
        return "/dev/zero"
    return io.BytesIO(eval(case["generator"]))  # the corpus is our own


def details_of(case: dict[str, Any]) -> dict[str, Any]:
    return {
        key: case["expect"][key]
        for key in ("line", "byte_offset", "field")
        if key in case["expect"]
    }


def assert_refused(case: dict[str, Any], error: CdecError) -> None:
    assert error.code == case["expect"]["error"], case["id"]
    assert details_of(case).items() <= error.details.items(), case["id"]
    assert error.hint, case["id"]


def check_set(case: dict[str, Any]) -> None:
    expect, name = case["expect"], case["id"]
    stats = SourceStats()
    bad_lines: Any = "skip" if "skip" in expect.get("flag", "") else "error"
    texts: list[str] = []
    try:
        for batch in read_entities(generated(case), bad_lines=bad_lines, stats=stats):
            texts += batch.texts
    except CdecError as error:
        assert error.exit_status == expect["exit"], name
        assert_refused(case, error)
        return
    assert len(texts) == COMPILER.get(name, expect.get("entries")), name
    assert stats.skipped == expect.get("skipped", 0), name
    assert [notice.code for notice in stats.notices] == NOTICES.get(name, []), name
    if name == "set-bom":
        assert texts == ["alpha"]
    if name == "set-nul":
        assert texts == ["a\0b"]


def check_prompts(case: dict[str, Any]) -> None:
    expect, name = case["expect"], case["id"]
    stats = SourceStats()
    records: list[PromptRecord | BadRecord] = []
    try:
        records += read_prompts(generated(case), stats=stats)
    except CdecError as error:
        assert error.exit_status == expect["exit"], name
        assert_refused(case, error)
        return
    bad = [record for record in records if isinstance(record, BadRecord)]
    assert [notice.code for notice in stats.notices] == NOTICES.get(name, []), name
    if name in WAITING:
        assert [record.error.code for record in bad] == ["E_FIELD"], name
    elif expect["exit"] == 0 or name in MODEL:
        assert not bad, name
        assert len(records) == expect.get("records_out", 1), name
    else:
        (failed,) = bad
        assert_refused(case, failed.error)
        assert len(records) - 1 == expect.get("records_out", 0), name


def test_set_cases(shared: Path) -> None:
    seen = set()
    for case in cases(shared, "set"):
        seen.add(case["id"])
        if case["id"] not in {*IN_CHILD, *STREAMED}:
            check_set(case)
    assert set(COMPILER) <= seen


def test_ten_million_lines_are_streamed(shared: Path) -> None:
    (case,) = (case for case in cases(shared, "set") if case["id"] in STREAMED)
    source: Any = Numbers(10_000_000)
    count = longest = 0
    for batch in read_entities(source):
        assert batch.lines[0] == count + 1
        assert batch.texts[-1] == str(batch.lines[-1] - 1)
        count += len(batch.texts)
        longest = max(longest, len(batch.texts))
    assert count == case["expect"]["entries"]
    assert longest < 1_000_000


def test_prompt_cases(shared: Path) -> None:
    seen = set()
    for case in cases(shared, "prompts"):
        seen.add(case["id"])
        if case["id"] not in IN_CHILD:
            check_prompts(case)
    assert {*MODEL, *WAITING} <= seen


def test_cases_with_a_limit_on_memory(shared: Path) -> None:
    expected = {case["id"]: case for kind in ("set", "prompts") for case in cases(shared, kind)}
    for name, stream in IN_CHILD.items():
        result = subprocess.run(
            [sys.executable, "-c", CHILD.replace("{stream}", stream), expected[name]["kind"]],
            check=True,
            capture_output=True,
            text=True,
        )
        code, megabytes = result.stdout.split()
        assert code == expected[name]["expect"]["error"], name
        assert int(megabytes) < 250, name


def test_gzip_and_plain_text_give_the_same_entities() -> None:
    plain, packed = (
        [text for batch in read_entities(io.BytesIO(data)) for text in batch.texts]
        for data in (b"a\nb\n", gzip.compress(b"a\nb\n"))
    )
    assert plain == packed == ["a", "b"]


# --- column_sizes: what a Parquet file's pages say of columns, whole or damaged, without pyarrow.

TABLE = pa.table(
    {f"text {i}": [f"{j} and {i}" for j in range(60)] for i in range(17)}
    | {"n": list(range(60)), "x": [0.5] * 60, "is": [True] * 60, "no": [None] * 60}
    | {"listed": [["a", "b"]] * 60, "nested": [{"a": 1, "b": {"c": [2.5]}}] * 60}
)


def written(**options: Any) -> bytes:
    stream = io.BytesIO()
    arrow_parquet.write_table(TABLE, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "row_group_size": 7},
        {"compression": "none", "use_dictionary": False, "write_statistics": False},
        {"version": "1.0", "data_page_version": "2.0", "row_group_size": 59},
        {"write_page_index": True, "store_schema": False},
        {"write_page_checksum": True, "sorting_columns": [arrow_parquet.SortingColumn(0)]},
    ],
)
def test_sizes_are_those_that_pyarrow_reads(options: dict[str, Any]) -> None:
    data = written(**options)
    metadata = arrow_parquet.ParquetFile(io.BytesIO(data)).metadata
    columns = [
        metadata.row_group(group).column(index)
        for group in range(metadata.num_row_groups)
        for index in range(metadata.num_columns)
    ]
    found = list(column_sizes(io.BytesIO(data), "x"))
    assert [(each.path, each.unpacked, each.packed, each.values) for each in found] == [
        (
            each.path_in_schema,
            each.total_uncompressed_size,
            each.total_compressed_size,
            each.num_values,
        )
        for each in columns
    ]
    places = [(each.group, each.column) for each in found]
    assert places == [
        (g, c) for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)
    ]


def mutant(data: bytes, seed: int) -> bytes:
    """Return a file with one to four bytes of its footer changed."""
    draw, changed = random.Random(seed), bytearray(data)
    length = int.from_bytes(data[-8:-4], "little")
    for _ in range(draw.choice((1, 1, 2, 4))):
        changed[len(data) - 8 - draw.randrange(1, length + 1)] = draw.randrange(256)
    return bytes(changed)


def test_a_damaged_footer_is_read_or_refused() -> None:
    data, outcomes = written(), {"read": 0, "refused": 0}
    for seed in range(500):
        try:
            found = list(column_sizes(io.BytesIO(mutant(data, seed)), "x"))
        except DataError as error:
            assert error.hint
            outcomes["refused"] += 1
        else:
            assert all(min(each.unpacked, each.packed, each.values) >= 0 for each in found)
            outcomes["read"] += 1
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("kept", [0, 4, 11, 100, -1])
def test_a_file_that_is_cut_is_refused(kept: int) -> None:
    with pytest.raises(DataError):
        list(column_sizes(io.BytesIO(written()[:kept]), "x"))


def test_a_footer_that_goes_in_circles_ends() -> None:
    deep = b"\x5c" * 100_000  # a struct in the fifth field of a struct, and so on
    lists = b"\x59" + b"\x19" * 100_000  # a list of one list, and so on
    endless = b"\x59\xf3" + b"\xff" * 9 + b"\x01"  # a list of 2**63 bytes
    for footer in (deep, lists, endless, b"\x5b\x00", b"\x52" + b"\xff" * 20):
        data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        with pytest.raises(DataError):
            list(column_sizes(io.BytesIO(data), "x"))


READER = """
import io, sys
import pyarrow as pa, pyarrow.parquet as arrow_parquet
from cdec.core.errors import CdecError
from cdec.data.prompts.read import read_prompts
from tests.data.input.test_corpus_readers import mutant
table = pa.table({f"c{i}": [str(j) for j in range(50)] for i in range(6)} | {"l": [["a"]] * 50})
stream = io.BytesIO()
arrow_parquet.write_table(table, stream, row_group_size=25)
read = 0
for seed in range(int(sys.argv[1])):
    try:
        read += len(list(read_prompts(io.BytesIO(mutant(stream.getvalue(), seed)))))
    except CdecError:
        pass
print(read)
"""


def test_no_damaged_file_ends_the_process_that_reads_it() -> None:
    command = [sys.executable, "-c", READER, "500"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0

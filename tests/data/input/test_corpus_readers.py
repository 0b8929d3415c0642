"""Readers on hostile files, and sizes of columns."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import CdecError
from cdec.data.entities.source import read_entities
from cdec.data.input.source import SourceStats
from cdec.data.prompts.read import BadRecord, PromptRecord, read_prompts

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


@pytest.mark.slow
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

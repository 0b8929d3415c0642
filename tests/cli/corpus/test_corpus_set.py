"""Every hostile entity list of the shared corpus, end to end through ``cdec compile-set``."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runner

from .cases import Case, cases

CASES = cases("set")
BY_ID = {case.id: case for case in CASES}
ENDLESS = {"set-endless-no-newline"}
LOSSY = {"set-lossy-tokenizer"}
MORE_FLAGS = {"set-line-64KiB": ["--max-entry-tokens", "65536"]}
"""The case is about the length of lines; its 21,846 tokens are the matter of another limit."""

pytestmark = pytest.mark.skipif(not CASES, reason="no shared corpus: set CDEC_SHARED")

# subtle: ru_maxrss would count the parent's memory as well, from before exec.
MEASURED = (
    "import sys; from cdec.cli.app import main; status = main()\n"
    "lines = open('/proc/self/status').read().splitlines()\n"
    "peak = next(line.split()[1] for line in lines if line.startswith('VmHWM'))\n"
    "print('peak', peak, file=sys.stderr); sys.exit(status)"
)


def _members(cdec: Runner) -> list[str]:
    """Return the texts of the artifact x.arrow, in the order of its rows."""
    from cdec.core import open_artifact

    constraint: Any = open_artifact("x.arrow")
    rows = range(constraint.n_rows)
    return [constraint.member_text(constraint.arrays.row(row).tolist()).decode() for row in rows]


@pytest.mark.share(8)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.id)
        for case in CASES
        if not case.is_heavy and case.id not in ENDLESS | LOSSY
    ],
)
def test_sets(cdec: Runner, case: Case) -> None:
    expect = case.expect
    flags = shlex.split(expect.get("flag", "")) + MORE_FLAGS.get(case.id, [])
    result = cdec("compile-set", "-", "-o", "x.arrow", "--json", *flags, stdin=case.data())
    assert result.status == expect["exit"], result.stderr
    if "error" in expect:
        assert result.error_code == expect["error"]
        assert not Path("x.arrow").exists()
        for word in ("line", "byte_offset"):
            if word in expect:
                shown = f"byte {expect[word]}" if word == "byte_offset" else f"line {expect[word]}"
                assert shown in result.stderr or expect["line"] == 1
        return
    (report,) = result.records
    assert report["entities"] == expect["entries"]
    for count in ("skipped", "duplicates"):
        assert report[count] == expect.get(count, report[count])


@pytest.mark.parametrize(
    ("case_id", "members"),
    [
        ("set-crlf", {"alpha", "beta"}),
        ("set-bom", {"alpha"}),
        ("set-nul", {"a\0b"}),
        ("set-prefix-of-other", {"a", "ab", "abc"}),
        ("set-trailing-space", {"a", "a "}),
        ("set-nfc-nfd", {"\u00e9", "e\u0301"}),
        ("set-special-token-text", {"x<|endoftext|>y"}),
        ("set-bidi-control", {"\u202eabc"}),
        ("set-ansi-escape", {"\x1b[2J\x1b]0;pwn\x07x"}),
        ("set-gzip", {"a", "b"}),
        ("set-csv-by-mistake", {"id,name", "1,Paris"}),
    ],
)
def test_members_are_stored_exactly(cdec: Runner, case_id: str, members: set[str]) -> None:
    assert cdec("compile-set", "-", "-o", "x.arrow", stdin=BY_ID[case_id].data()).status == 0
    assert set(_members(cdec)) == members


@pytest.mark.parametrize(
    ("case_id", "code"),
    [
        ("set-crlf", "W_CRLF"),
        ("set-duplicates", "W_DUPLICATES"),
        ("set-one-empty-entry", "W_BLANK_LINES"),
        ("set-csv-by-mistake", "W_LOOKS_LIKE_CSV"),
    ],
)
def test_odd_input_is_warned_of_once(cdec: Runner, case_id: str, code: str) -> None:
    result = cdec("compile-set", "-", "-o", "x.arrow", stdin=BY_ID[case_id].data())
    assert result.stderr.count(code) == 1


def test_blank_lines_are_said_even_where_nothing_is_left(cdec: Runner) -> None:
    result = cdec("compile-set", "-", "-o", "x.arrow", stdin=b"\n\n\n")
    assert result.error_code == "E_EMPTY_SET"
    assert "3 blank" in result.stderr


def test_utf16_is_named(cdec: Runner) -> None:
    result = cdec("compile-set", "-", "-o", "x.arrow", stdin=BY_ID["set-utf16"].data())
    assert "UTF-16" in result.stderr


def test_the_token_limit_is_named(cdec: Runner) -> None:
    case = BY_ID["set-long-token-path"]
    result = cdec("compile-set", "-", "-o", "x.arrow", stdin=case.data())
    assert "max_entry_tokens 4096" in result.stderr or "--max-entry-tokens" in result.stderr


def test_what_the_tokenizer_cannot_spell_is_refused(cdec: Runner, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    pieces = [("<unk>", 0.0), *((letter, -1.0) for letter in "abc")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    words = ("compile-set", "-", "-o", "x.arrow", "--tokenizer", tmp_path / "tokenizer.json")
    words = (*words, "--leading-space", "never")
    result = cdec(*words, "--suffix", "c", stdin=BY_ID["set-lossy-tokenizer"].data())
    assert (result.status, result.error_code) == (65, "E_UNTOKENIZABLE")
    assert "line 1" in result.stderr


@pytest.mark.parametrize("case_id", ["set-bidi-control", "set-ansi-escape", "set-rich-markup"])
def test_inspect_shows_hostile_texts_escaped_and_literal(cdec: Runner, case_id: str) -> None:
    data = BY_ID[case_id].data()
    assert cdec("compile-set", "-", "-o", "x.arrow", stdin=data).status == 0
    result = cdec("inspect", "x.arrow", "--tree")
    assert result.status == 0
    shown = result.stdout.decode()
    assert not any(character in shown for character in "\x1b\x07\u202e")
    if case_id == "set-rich-markup":
        assert "red" in shown and "foo" in shown
    if case_id == "set-ansi-escape":
        assert "\\x1b" in shown


def test_an_endless_line_ends_soon(tmp_path: Path) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero on this system")
    done = _run(tmp_path, ["compile-set", "/dev/zero", "-o", "x.arrow"])
    assert done.returncode == 65
    assert "E_LINE_TOO_LONG" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in CASES if case.is_heavy]
)
def test_heavy_sets_stay_within_memory(tmp_path: Path, case: Case) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc on this system")
    source = tmp_path / "source"
    source.write_bytes(case.data())
    started = time.monotonic()
    done = _run(tmp_path, ["compile-set", str(source), "-o", "x.arrow", "--json"])
    seconds = time.monotonic() - started
    assert done.returncode == case.expect["exit"], done.stderr
    assert case.expect.get("error", "") in done.stderr
    peak_kib = int(done.stderr.rsplit("peak ", 1)[1].split()[0])
    assert peak_kib <= case.expect["max_rss_mb"] * 1024
    assert seconds <= case.expect.get("max_s", 3600)
    if "entries" in case.expect:
        assert f'"entities":{case.expect["entries"]},' in done.stdout


def _run(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )

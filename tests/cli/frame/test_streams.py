"""Standard streams that were closed before the start: an error that says so, or nothing at all."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import light

SCRIPT = [sys.executable, str(Path(light.__file__)), "0"]
CLOSED = {0: "<&-", 1: ">&-", 2: "2>&-"}
ALL = [closed for count in (1, 2, 3) for closed in itertools.combinations(CLOSED, count)]


def run(folder: Path, closed: tuple[int, ...], *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line with some streams closed, the others captured; stdin is one record."""
    command = " ".join(['exec "$@"', *(CLOSED[number] for number in closed)])
    return subprocess.run(
        ["sh", "-c", command, "sh", *SCRIPT, *words],
        cwd=folder,
        input=b'{"id": 1, "prompt": "p"}\n{"id": 2, "prompt": 5}\n',
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams")
    light.compile_letters(path / "letters.arrow")
    return path


@pytest.mark.parametrize("closed", ALL)
def test_data_that_nobody_takes_is_an_error(folder: Path, closed: tuple[int, ...]) -> None:
    done = run(folder, closed, "methods", "--json")
    if 1 in closed:
        assert (done.returncode, done.stdout) == (74, b"")
        if 2 not in closed:
            assert b"stdout is closed" in done.stderr
            assert b"Traceback" not in done.stderr
    else:
        assert done.returncode == 0
        assert done.stdout.startswith(b"{")
    assert done.stderr == b"" or 1 in closed


@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        ((0,), 66, b"stdin is closed"),
        ((1,), 74, b"stdout is closed"),
        ((2,), 3, b""),
        ((0, 1, 2), 66, b""),
    ],
)
def test_a_run_says_which_stream_is_closed(
    folder: Path, closed: tuple[int, ...], status: int, said: bytes
) -> None:
    done = run(folder, closed, "sample", "-a", "letters.arrow")
    assert done.returncode == status
    assert said in done.stderr
    lines = [] if 1 in closed or 0 in closed else [b'"text"', b'"E_FIELD"']
    assert len(done.stdout.splitlines()) == len(lines)
    assert all(part in done.stdout for part in lines)


def test_no_stream_lands_in_an_output_that_took_its_number(folder: Path) -> None:
    words = ["sample", "-a", "letters.arrow", "--prompt", "p", "-o", "out.jsonl", "--force"]
    assert run(folder, (0, 1, 2), *words).returncode == 0
    assert (folder / "out.jsonl").read_bytes().count(b"\n") == 1
    assert (folder / "out.jsonl").read_bytes().startswith(b"{")


@pytest.mark.parametrize("words", [("methods", "--nonsense"), (), ("inspect", "none.arrow")])
def test_errors_do_not_reach_stdout_where_stderr_is_closed(
    folder: Path, words: tuple[str, ...]
) -> None:
    done = run(folder, (2,), *words)
    assert done.returncode in (2, 66)
    assert done.stdout == b""

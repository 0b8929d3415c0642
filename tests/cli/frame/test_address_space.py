"""A limit of address space ends a command with its status, at once and at every size."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import light


def limited(folder: Path, kind: int, bound: int, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in another process under a limit."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; from cdec.cli.app import main; sys.exit(main({words}))",
        ],
        cwd=folder,
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(kind, (bound, bound)),
    )


@pytest.mark.parametrize("megabytes", [100, 140, 600, 1023, 1100])
def test_a_limit_of_address_space_never_hangs(tmp_path: Path, megabytes: int) -> None:
    light.compile_letters(tmp_path / "letters.arrow")
    bound = megabytes << 20
    done = limited(tmp_path, resource.RLIMIT_AS, bound, "inspect", "letters.arrow", "--json")
    if megabytes < 1024:
        assert done.returncode == 75
        assert b"E_LIMIT" in done.stderr and f"{megabytes} MiB".encode() in done.stderr
    else:
        assert done.returncode in (0, 75), done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("megabytes", [586, 1300, 2000])
def test_too_little_for_a_model_is_refused_before_its_libraries_are_loaded(
    tmp_path: Path, megabytes: int
) -> None:
    bound = megabytes << 20
    done = limited(tmp_path, resource.RLIMIT_AS, bound, "sample", "--prompt", "x")
    assert done.returncode == 75
    assert f"{megabytes} MiB, expected at least 2048".encode() in done.stderr


@pytest.mark.parametrize("files", [8, 12])
def test_too_few_files_are_refused(tmp_path: Path, files: int) -> None:
    done = limited(tmp_path, resource.RLIMIT_NOFILE, files, "methods")
    assert (done.returncode, b"ulimit -n" in done.stderr) == (75, True), done.stderr

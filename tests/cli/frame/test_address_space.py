"""A limit of address space ends a command with its status, at once and at every size."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import light


@pytest.mark.parametrize("megabytes", [100, 140, 180, 255, 300, 600])
def test_a_limit_of_address_space_never_hangs(tmp_path: Path, megabytes: int) -> None:
    light.compile_letters(tmp_path / "letters.arrow")
    bound = megabytes << 20
    code = (
        "import sys; from cdec.cli.app import main; "
        "sys.exit(main(['inspect', 'letters.arrow', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bound, bound)),
    )
    if megabytes < 256:
        assert done.returncode == 75
        assert b"E_LIMIT" in done.stderr and f"{megabytes} MiB".encode() in done.stderr
    else:
        assert done.returncode in (0, 75), done.stderr
    assert b"Traceback" not in done.stderr

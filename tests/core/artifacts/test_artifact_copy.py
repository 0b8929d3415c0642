"""A file that is cut while it is open: what was read of it stays whole, what is mapped does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cdec.core.artifacts.opened import bind_artifact, read_artifact
from cdec.core.artifacts.read import ArtifactLimits, contents_of
from cdec.core.errors import ArtifactFormatError
from tests.core.artifacts.hostile_files import good_rows
from tests.forging import arrays_of

_CUT = """
import os, sys
from cdec.core.artifacts import read
from cdec.core.artifacts.opened import read_artifact
read.COPIED_BYTES = 0
file = read_artifact(sys.argv[1], copy=sys.argv[2] == "copy")
os.truncate(sys.argv[1], 0)
print(sum(int(array.sum()) for array in file.arrays.values()))
"""


def test_small_files_and_copies_do_not_depend_on_the_file(good: bytes, good_path: Path) -> None:
    file = read_artifact(good_path)
    os.truncate(good_path, 0)
    constraint = bind_artifact(file)
    assert all(constraint.accepts(constraint.member_text(row)) for row in good_rows())
    for name, array in arrays_of(good).items():
        assert np.array_equal(file.arrays[name], array)
        assert not file.arrays[name].flags.writeable


def test_only_a_mapped_file_that_is_cut_ends_the_process(good: bytes, good_path: Path) -> None:
    statuses = {}
    for how in ("copy", "map"):
        good_path.write_bytes(good)
        words = [sys.executable, "-c", _CUT, str(good_path), how]
        statuses[how] = subprocess.run(words, check=False, capture_output=True).returncode
    assert statuses == {"copy": 0, "map": -signal.SIGBUS}


def test_a_file_that_is_cut_while_it_is_read_is_an_error(
    good_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.preadv

    def cut(descriptor: int, buffers: list[memoryview], at: int) -> int:
        return plain(descriptor, [buffers[0][:100]], at) if at == 0 else 0

    monkeypatch.setattr(os, "preadv", cut)
    with pytest.raises(ArtifactFormatError, match="was cut while it was read: 100 of"):
        read_artifact(good_path)


def test_a_read_in_pieces_is_whole(
    good: bytes, good_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: plain(fd, [buffers[0][:999]], at))
    data, _ = contents_of(good_path, ArtifactLimits(), len(good))
    assert bytes(data) == good

"""Artifact files are written whole or not at all, and read back as views of a map."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from cdec.core.artifacts import write as artifact_write
from cdec.core.artifacts.opened import read_artifact
from cdec.core.artifacts.write import write_artifact
from cdec.core.errors import (
    OutputError,
    OutputExistsError,
)
from tests.forging import arrays_of, metadata_of


def test_arrays_come_back_as_read_only_views_of_the_map(good: bytes, tmp_path: Path) -> None:
    arrays = arrays_of(good)
    write_artifact(tmp_path / "a.arrow", "set", arrays, metadata_of(good))
    file = read_artifact(tmp_path / "a.arrow")
    for name, array in arrays.items():
        assert np.array_equal(file.arrays[name], array), name
        assert file.arrays[name].dtype == array.dtype
        assert not file.arrays[name].flags.writeable
        assert not file.arrays[name].flags.owndata


def test_equal_contents_give_equal_bytes(good: bytes, tmp_path: Path) -> None:
    write_artifact(tmp_path / "a.arrow", "set", arrays_of(good), metadata_of(good))
    assert (tmp_path / "a.arrow").read_bytes() == good


def test_callers_metadata_cannot_replace_kind_and_format(good: bytes, tmp_path: Path) -> None:
    forged = metadata_of(good) | {"cdec.kind": "other", "cdec.format": "7"}
    write_artifact(tmp_path / "a.arrow", "set", arrays_of(good), forged)
    assert read_artifact(tmp_path / "a.arrow").kind == "set"


def test_existing_file_is_kept_unless_forced(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(b"precious")
    with pytest.raises(OutputExistsError):
        write_artifact(path, "set", arrays_of(good), metadata_of(good))
    assert path.read_bytes() == b"precious"
    write_artifact(path, "set", arrays_of(good), metadata_of(good), force=True)
    assert path.read_bytes() == good


def test_map_of_a_replaced_artifact_stays_whole(good: bytes, good_path: Path) -> None:
    before = read_artifact(good_path)
    arrays = arrays_of(good)
    write_artifact(good_path, "set", arrays, metadata_of(good) | {"cdec.source": "two"}, force=True)
    assert np.array_equal(before.arrays["tokens"], arrays["tokens"])
    assert read_artifact(good_path).metadata["cdec.source"] == "two"


@pytest.mark.parametrize("step", ["_write_arrow", "_patch_digest"])
def test_failing_disk_leaves_nothing_behind(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(artifact_write, step, full)
    with pytest.raises(OutputError, match="No space left") as caught:
        write_artifact(tmp_path / "a.arrow", "set", arrays_of(good), metadata_of(good))
    assert "disk space" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_file_size_limit_is_an_output_error(good: bytes, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OutputError):
            write_artifact(tmp_path / "a.arrow", "set", arrays_of(good), metadata_of(good))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_interrupted_writer_leaves_nothing_behind(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(artifact_write, "_patch_digest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_artifact(tmp_path / "a.arrow", "set", arrays_of(good), metadata_of(good))
    assert list(tmp_path.iterdir()) == []


def test_output_that_appears_while_writing_is_kept(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.arrow"
    patch = artifact_write._patch_digest

    def slow(file: BinaryIO, name: str) -> None:
        patch(file, name)
        path.write_bytes(b"someone else's")

    monkeypatch.setattr(artifact_write, "_patch_digest", slow)
    with pytest.raises(OutputExistsError):
        write_artifact(path, "set", arrays_of(good), metadata_of(good))
    assert path.read_bytes() == b"someone else's"
    assert list(tmp_path.iterdir()) == [path]


def test_device_and_missing_folder_are_no_outputs(good: bytes, tmp_path: Path) -> None:
    for path in (Path("/dev/null"), tmp_path, tmp_path / "none" / "a.arrow"):
        with pytest.raises(OutputError):
            write_artifact(path, "set", arrays_of(good), metadata_of(good), force=True)


def test_artifact_gets_the_users_permissions(good: bytes, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_artifact(tmp_path / "a.arrow", "set", arrays_of(good), metadata_of(good))
    finally:
        os.umask(old)
    assert (tmp_path / "a.arrow").stat().st_mode & 0o777 == 0o640

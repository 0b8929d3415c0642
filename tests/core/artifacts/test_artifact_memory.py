"""A file's digest is verified once, and again whenever the file may have changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cdec.core.artifacts import read as artifact_read
from cdec.core.artifacts import write as artifact_digest
from cdec.core.artifacts.opened import read_artifact
from cdec.core.errors import (
    ArtifactChecksumError,
    ArtifactError,
    ArtifactInvalidError,
)
from tests.forging import arrays_of, rebuild


def count_verifications(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every verification of a digest from now on."""
    calls: list[str] = []

    def counting(data: memoryview, frame: Any, path: str) -> None:
        calls.append(path)
        artifact_digest.verify_digest(data, frame, path)

    monkeypatch.setattr(artifact_read, "verify_digest", counting)
    return calls


def test_digest_is_verified_once(good_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_verifications(monkeypatch)
    for _ in range(3):
        read_artifact(good_path)
    assert len(calls) == 1


def test_damage_after_a_verified_open_is_found(good: bytes, good_path: Path) -> None:
    read_artifact(good_path)
    damaged = bytearray(good)
    damaged[len(good) // 2] ^= 1
    good_path.write_bytes(damaged)
    with pytest.raises(ArtifactError):
        read_artifact(good_path)


def test_damage_is_found_even_with_the_old_times(good: bytes, good_path: Path) -> None:
    read_artifact(good_path)
    status = good_path.stat()
    with good_path.open("r+b") as file:
        file.seek(len(good) // 2)
        file.write(bytes([good[len(good) // 2] ^ 1]))
    os.utime(good_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ArtifactChecksumError):
        read_artifact(good_path)


def test_copy_is_verified_for_itself(
    good: bytes, good_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_artifact(good_path)
    calls = count_verifications(monkeypatch)
    copy = good_path.with_name("copy.arrow")
    copy.write_bytes(good)
    read_artifact(copy)
    assert calls == [str(copy)]


@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"[]", b'{"digest": 1}'])
def test_unreadable_memory_means_verifying_again(
    good_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    read_artifact(good_path)
    entries = list((tmp_path / "cache" / "verified").iterdir())
    assert len(entries) == 1
    entries[0].write_bytes(content)
    calls = count_verifications(monkeypatch)
    read_artifact(good_path)
    read_artifact(good_path)
    assert len(calls) == 1


def test_cache_that_cannot_be_written_is_no_error(
    good_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    calls = count_verifications(monkeypatch)
    read_artifact(good_path)
    read_artifact(good_path)
    assert len(calls) == 2


def test_memory_is_bounded(good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(artifact_read, "MAX_REMEMBERED", 3)
    for number in range(6):
        path = tmp_path / f"{number}.arrow"
        path.write_bytes(good)
        read_artifact(path)
    assert len(list((tmp_path / "cache" / "verified").iterdir())) == 3
    calls = count_verifications(monkeypatch)
    read_artifact(path)
    assert calls == []


def test_damaged_file_is_not_remembered(good: bytes, good_path: Path) -> None:
    links = arrays_of(good)["node_link"]
    links[0] = 0
    good_path.write_bytes(rebuild(good, {"node_link": links}))
    for _ in range(2):
        with pytest.raises(ArtifactInvalidError):
            read_artifact(good_path)

"""What others could have put into the user's cache counts as none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cdec.core.files.cache import CacheFolder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    folder = CacheFolder("things", most=9, max_bytes=1000)
    folder.keep("a", b"kept")
    return folder


def test_what_is_kept_is_read_by_this_user_alone(folder: CacheFolder) -> None:
    assert folder.read("a") == b"kept"
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "a").stat().st_mode & 0o777 == 0o600
    assert folder.read("b") is None


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder: CacheFolder, mode: int) -> None:
    folder.path.chmod(mode)
    assert folder.read("a") is None
    folder.keep("b", b"more")
    assert not (folder.path / "b").exists()
    folder.path.chmod(0o700)
    assert folder.read("a") == b"kept"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_to_is_not_read(folder: CacheFolder, mode: int) -> None:
    (folder.path / "a").chmod(mode)
    assert folder.read("a") is None


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_not_read(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if os.geteuid() == 0:
        os.chown(folder.path if what == "folder" else folder.path / "a", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert folder.read("a") is None


def test_links_pipes_and_large_files_are_not_read(folder: CacheFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"planted")
    (folder.path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder.path / "pipe", 0o600)
    folder.keep("large", bytes(1001))
    assert [folder.read(name) for name in ("link", "pipe", "large")] == [None] * 3
    folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(tmp_path / "moved")
    assert folder.read("a") is None


def test_the_oldest_files_go_first(folder: CacheFolder) -> None:
    small = CacheFolder("things", most=3, max_bytes=1000)
    for number in range(5):
        small.keep(str(number), b"x")
    assert sorted(file.name for file in folder.path.iterdir()) == ["2", "3", "4"]

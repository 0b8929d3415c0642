"""Copies of remote files: fetched once, found again, and fetched anew when they have changed."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import (
    ArtifactFormatError,
    ExtraMissingError,
    InputMissingError,
    LimitError,
    OutputError,
)
from cdec.core.files import fetched
from cdec.core.files.fetched import local_copy
from cdec.core.files.remote import Url, place_of
from cdec.core.progress import Stage

fsspec = pytest.importorskip("fsspec", reason='needs fsspec: pip install "cdec[remote]"')


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "far.arrow").write_bytes(b"one")
    return f"file://{tmp_path}/far.arrow"


def test_a_path_is_itself(tmp_path: Path) -> None:
    assert local_copy(tmp_path / "near.arrow") == tmp_path / "near.arrow"
    assert local_copy("near.arrow") == Path("near.arrow")
    assert place_of("near.arrow") == Path("near.arrow")
    assert place_of("s3://b//k.arrow") == Url("s3://b//k.arrow") == "s3://b//k.arrow"


def test_a_url_is_fetched_once_and_anew_when_it_has_changed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fetch = fetched._fetch
    monkeypatch.setattr(fetched, "_fetch", lambda *given: calls.append(given) or fetch(*given))
    with ThreadPoolExecutor(8) as threads:
        copies = set(threads.map(lambda _: local_copy(url), range(16)))
    (first,) = copies
    assert (first.read_bytes(), first.suffix, len(calls)) == (b"one", ".arrow", 1)
    (tmp_path / "far.arrow").write_bytes(b"other")
    second = local_copy(url)
    assert (second.read_bytes(), first.read_bytes(), len(calls)) == (b"other", b"one", 2)
    # One of the same size is told by its time.
    (tmp_path / "far.arrow").write_bytes(b"third")
    os.utime(tmp_path / "far.arrow", (1, 1))
    assert local_copy(url).read_bytes() == b"third"


def test_a_file_in_memory_is_known_by_size_and_time(url: str) -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/far/x.arrow", b"one")
    first = local_copy("memory://far/x.arrow")
    assert local_copy("memory://far/x.arrow") == first
    files.pipe("/far/x.arrow", b"two")
    assert local_copy("memory://far/x.arrow").read_bytes() == b"two"
    files.rm("/far", recursive=True)


def test_what_is_not_there_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"no\.arrow"):
        local_copy(url.replace("far", "no"))
    with pytest.raises(InputMissingError, match="is a folder"):
        local_copy(f"file://{tmp_path}")


def test_a_file_that_is_too_large_or_ends_early_is_not_kept(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LimitError, match="more than 2 bytes"):
        local_copy(url, max_bytes=2)
    monkeypatch.setattr(fetched, "_asked", lambda _: (None, "no size is told"))
    with pytest.raises(LimitError, match="more than 2 bytes"):
        local_copy(url, max_bytes=2)
    monkeypatch.setattr(fetched, "_asked", lambda _: (4, "more is told"))
    with pytest.raises(InputMissingError, match="3 bytes of 4"):
        local_copy(url)
    assert not [path for path in (tmp_path / "cache/fetched").iterdir() if path.suffix != ".lock"]


def test_a_read_that_fails_is_about_the_url_and_not_about_the_disk(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise OSError(5, "slow down")

    monkeypatch.setattr(fetched, "open_url", lambda _: Broken())
    with pytest.raises(InputMissingError, match="slow down") as caught:
        local_copy(url)
    assert caught.value.details["path"] == url


def test_a_cache_that_others_may_write_to_is_not_used(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache/fetched"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(OutputError, match="others may write"):
        local_copy(url)


def test_progress_names_the_file_and_no_secret(url: str) -> None:
    told: list[Stage] = []
    fsspec.filesystem("memory").pipe("/far/x.arrow?sig=abc", bytes(9 << 20))
    local_copy("memory://far/x.arrow?sig=abc", progress=told.append)
    assert [(stage.name, stage.done, stage.total) for stage in told] == [
        ("fetching x.arrow", done, 9) for done in (4, 8, 9)
    ]


def test_artifacts_are_opened_by_url_with_the_checks_of_files(url: str, tmp_path: Path) -> None:
    from cdec.compilers import compile_token_set
    from cdec.core import Vocabulary, open_artifact

    toy = Vocabulary([b"a", b"b", b""], eos_token_ids=[2], special_token_ids=[2])
    compile_token_set([[0, 1], [1, 0]], toy, tmp_path / "far.arrow", force=True)
    assert open_artifact(url, vocabulary=toy).summary()["counts"]["rows"] == 2
    data = bytearray((tmp_path / "far.arrow").read_bytes())
    (tmp_path / "far.arrow").write_bytes(data[: len(data) // 2])
    with pytest.raises(ArtifactFormatError) as caught:
        open_artifact(url, vocabulary=toy)
    assert url in caught.value.message


def test_a_missing_extra_is_said_before_anything_is_written(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(ExtraMissingError, match="without fsspec"):
        local_copy(url)
    assert not (tmp_path / "cache").exists()

"""Copies of remote files: fetched once, found again, and fetched anew when they have changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdec.core.errors import InputMissingError
from cdec.data.input import local
from cdec.data.input.local import local_copy

fsspec = pytest.importorskip("fsspec", reason='needs fsspec: pip install "cdec[remote]"')


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "far.arrow").write_bytes(b"one")
    return f"file://{tmp_path}/far.arrow"


def test_a_path_is_itself(tmp_path: Path) -> None:
    assert local_copy(tmp_path / "near.arrow") == tmp_path / "near.arrow"
    assert local_copy("near.arrow") == Path("near.arrow")


def test_a_url_is_fetched_once_and_anew_when_it_has_changed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []
    fetch = local._fetch
    monkeypatch.setattr(local, "_fetch", lambda *given: fetched.append(given) or fetch(*given))
    with ThreadPoolExecutor(8) as threads:
        copies = set(threads.map(lambda _: local_copy(url), range(16)))
    (first,) = copies
    assert (first.read_bytes(), first.suffix, len(fetched)) == (b"one", ".arrow", 1)
    (tmp_path / "far.arrow").write_bytes(b"other")
    second = local_copy(url)
    assert (second.read_bytes(), first.read_bytes(), len(fetched)) == (b"other", b"one", 2)


def test_what_is_not_there_is_named(url: str) -> None:
    with pytest.raises(InputMissingError, match=r"no\.arrow"):
        local_copy(url.replace("far", "no"))

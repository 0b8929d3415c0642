"""Artifacts, prompts and outputs by URL, as typed: what works, and what is said elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import MEMBERS, Runner

fsspec = pytest.importorskip("fsspec", reason='needs fsspec: pip install "cdec[remote]"')


@pytest.fixture
def bucket(cities: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    files = fsspec.filesystem("memory")
    files.pipe("/bucket/cities.arrow", cities.read_bytes())
    files.pipe("/bucket/cut.arrow", cities.read_bytes()[:900])
    yield "memory://bucket"
    files.rm("/bucket", recursive=True)


@pytest.mark.usefixtures("loaded")
def test_an_artifact_of_a_url_draws_what_the_file_draws(
    cdec: Runner, bucket: str, cities: Path, tmp_path: Path
) -> None:
    words = ("--prompt", "Which city?", "--method", "masked", "-n", "3")
    by_file = cdec("sample", "-a", cities, *words)
    assert by_file.status == 0
    by_url = cdec("sample", "-a", f"{bucket}/cities.arrow", *words)
    assert (by_url.status, by_url.stdout) == (0, by_file.stdout)
    assert cdec("run", f"{bucket}/cities.arrow", *words).stdout == by_file.stdout
    named = cdec(
        *("sample", "--constraint", f"c={bucket}/cities.arrow", "--and", f"{bucket}/cities.arrow"),
        *("--method", "masked"),
        stdin=b'{"prompt": "Which city?", "constraint": "c"}\n',
    )
    assert named.records[0]["text"] in MEMBERS
    (tmp_path / "work" / "cdec.toml").write_text(f'artifact = "{bucket}/cities.arrow"\n')
    assert cdec("sample", *words).stdout == by_file.stdout
    assert len(list((tmp_path / "cache/fetched").glob("*.arrow"))) == 1


def test_check_and_inspect_take_urls_and_name_them(cdec: Runner, bucket: str) -> None:
    checked = cdec("check", f"{bucket}/cities.arrow", stdin=b"Paris\nParys\n")
    assert [record["valid"] for record in checked.records] == [True, False]
    shown = cdec("inspect", f"{bucket}/cities.arrow")
    assert (shown.status, shown.stderr) == (0, "")
    assert f"{bucket}/cities.arrow: a set of" in shown.stdout.decode()


@pytest.mark.parametrize(
    ("name", "status", "code", "said"),
    [
        ("memory://bucket/citys.arrow", 66, "E_NOINPUT", "no such file: memory://bucket/ci"),
        ("memory://bucket", 66, "E_NOINPUT", "is a folder"),
        ("memry://bucket/cities.arrow", 66, "E_NOINPUT", "did you mean memory://"),
        ("memory://bucket/cut.arrow", 65, "E_ARTIFACT_FORMAT", "memory://bucket/cut.arrow"),
    ],
)
def test_an_artifact_that_cannot_be_had_is_named_as_typed(
    cdec: Runner, bucket: str, name: str, status: int, code: str, said: str
) -> None:
    for words in (("sample", "-a", name, "--prompt", "x"), ("inspect", name), ("check", name)):
        result = cdec(*words, stdin=b"x\n")
        assert (result.status, result.error_code) == (status, code), result.stderr
        assert said in result.stderr


def test_without_the_extra_its_command_is_said(
    cdec: Runner, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    result = cdec("sample", "-a", "s3://bucket/cities.arrow", "--prompt", "x")
    assert (result.status, result.error_code) == (69, "E_EXTRA")
    assert "without s3fs" in result.stderr
    assert 'hint: pip install "cdec[remote]"' in result.stderr


def test_a_near_name_in_the_bucket_is_offered(cdec: Runner, bucket: str) -> None:
    result = cdec("sample", "-a", f"{bucket}/citys.arrow", "--prompt", "x")
    assert f"did you mean {bucket}/cities.arrow?" in result.stderr


def test_the_kind_of_a_url_may_be_in_capitals(cdec: Runner, bucket: str) -> None:
    shown = cdec("check", f"{bucket.replace('memory', 'MEMORY')}/cities.arrow", stdin=b"Paris\n")
    assert shown.records[0]["valid"]


@pytest.fixture
def signed(bucket: str) -> Iterator[str]:
    """A URL with a password and a signature, of a list of names."""
    files = fsspec.filesystem("memory")
    name = "user:pw-hush7@bucket/t.txt?sig=sig-hush7&key=key-hush7"
    files.pipe(f"/{name}", b"Berlin\nParis\n")
    yield f"memory://{name}"
    files.rm("/user:pw-hush7@bucket", recursive=True)


def test_secrets_of_a_url_are_neither_stored_nor_shown(
    cdec: Runner, signed: str, tmp_path: Path
) -> None:
    compiled = cdec("compile-set", signed)
    assert compiled.status == 0, compiled.stderr
    written = tmp_path / "work" / "t.arrow"
    assert b"hush7" not in written.read_bytes()
    shown = [compiled, cdec("inspect", written), cdec("inspect", written, "--json")]
    shown += [cdec("compile-set", signed), cdec("compile-set", signed.replace("t.txt", "u.txt"))]
    assert shown[-1].error_code == "E_NOINPUT"
    fsspec.filesystem("memory").pipe(signed[8:].replace("t.txt", "t.arrow"), written.read_bytes())
    shown += [
        cdec("inspect", signed.replace("t.txt", "t.arrow"), *more) for more in ([], ["--json"])
    ]
    assert shown[-1].status == 0, shown[-1].stderr
    said = [result.stderr + result.stdout.decode() for result in shown]
    assert not [text for text in said if "hush7" in text]
    assert "memory://bucket/t.txt" in said[1]


@pytest.mark.usefixtures("loaded")
def test_secrets_of_a_url_are_not_in_the_errors_of_its_records(
    cdec: Runner, signed: str, cities: Path, tmp_path: Path
) -> None:
    fsspec.filesystem("memory").pipe(signed[8:], b'{"prompt": 5}\n')
    result = cdec("sample", "-a", cities, "--method", "masked", "-i", signed, "-o", "s.jsonl")
    assert result.status == 3, result.stderr
    written = (tmp_path / "work" / "s.jsonl").read_text()
    assert "memory://bucket/t.txt, line 1" in written and "hush7" not in written

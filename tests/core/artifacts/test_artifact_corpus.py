"""Hostile artifacts, artifacts written, and what they take of memory."""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from cdec.core.artifacts import read as artifact_read
from cdec.core.artifacts import write as artifact_digest
from cdec.core.artifacts import write as artifact_write
from cdec.core.artifacts.opened import KINDS, open_artifact, read_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.artifacts.write import write_artifact
from cdec.core.errors import (
    ArtifactChecksumError,
    ArtifactError,
    ArtifactInvalidError,
    CdecError,
    OutputError,
    OutputExistsError,
)
from tests.core.artifacts.hostile_files import (
    DROP,
    META,
    MUTANTS,
    PATCH,
    UNFINISHED_WRITER,
    WITH_EXTENSION,
    ZSTD_ARROW,
    byte_vocabulary,
)
from tests.forging import arrays_of, metadata_of, rebuild

# --- Every artifact case of the corpus of bad inputs, at the level of ``open_artifact``.

ELSEWHERE = {
    "ar-dict-index": "E_ARTIFACT_SCHEMA",
    "ar-nan-weight": "E_ARTIFACT_SCHEMA",
}
"""Cases about columns that the format does not have: there they are columns too many."""


def edge_out_of_range(good: bytes) -> bytes:
    links = arrays_of(good)["node_link"]
    links[0] = len(links)
    return rebuild(good, {"node_link": links})


def token_out_of_vocabulary(good: bytes) -> bytes:
    tokens = arrays_of(good)["tokens"]
    tokens[-1] = byte_vocabulary().size
    return rebuild(good, {"tokens": tokens})


def cycle_in_trie(good: bytes) -> bytes:
    arrays = arrays_of(good)
    inner = np.flatnonzero(arrays["node_degree"])[-1]
    arrays["node_link"][inner] = 0
    return rebuild(good, {"node_link": arrays["node_link"]})


def dictionary_column(good: bytes) -> bytes:
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["x"]))
    return rebuild(good, {"weight": column})


def nan_weight(good: bytes) -> bytes:
    return rebuild(good, {"weight": np.array([float("nan")])})


FILES: dict[str, Callable[[bytes], bytes]] = {
    "ar-empty": lambda _: b"",
    "ar-not-arrow": lambda _: b"hello" * 1000,
    "ar-pickle": lambda _: b"cos\nsystem\n(S'touch cdec_canary'\ntR.",
    "ar-truncated-1-byte": lambda good: good[:-1],
    "ar-truncated-half": lambda good: good[: len(good) // 2],
    "ar-bitflip-body": lambda good: (
        good[: len(good) // 2] + bytes([good[len(good) // 2] ^ 1]) + good[len(good) // 2 + 1 :]
    ),
    "ar-bad-offsets": lambda good: PATCH(good, "list offsets", 10**9),
    "ar-negative-offset": lambda good: PATCH(good, "list offsets", -777),
    "ar-dict-index": dictionary_column,
    "ar-edge-out-of-range": edge_out_of_range,
    "ar-token-out-of-vocab": token_out_of_vocabulary,
    "ar-cycle-in-trie": cycle_in_trie,
    "ar-nan-weight": nan_weight,
    "ar-missing-column": lambda good: DROP(good, "node_token"),
    "ar-extension-type": lambda good: WITH_EXTENSION(good, "ray.data.arrow_tensor", b"payload"),
    "ar-zstd-bomb": lambda good: ZSTD_ARROW(good, 10**10),
    "ar-newer-version": lambda good: META(good, {"cdec.format": "999", "cdec.version": "9.1"}),
    "ar-tokenizer-mismatch": lambda good: META(good, {"cdec.vocabulary_hash": "00" * 32}),
    "ar-eos-mismatch": lambda good: META(good, {"cdec.eos": "[7]"}),
    "ar-vocab-padded": lambda good: good,
    "ar-ansi-in-metadata": lambda good: META(good, {"cdec.source": "\x1b[2J"}),
    "ar-path-in-metadata": lambda good: META(good, {"cdec.source": "../../etc/passwd"}),
    "ar-being-written": UNFINISHED_WRITER,
}
"""Case -> the file's bytes; the cases that are no single file are tests of their own below."""

NO_SINGLE_FILE = {"ar-bitflip-sweep", "ar-directory", "ar-fifo"}


@pytest.fixture(scope="module")
def corpus(shared: Path) -> dict[str, dict[str, Any]]:
    lines = (shared / "corpus" / "bad_inputs.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    return {case["id"]: case["expect"] for case in cases if case["kind"] == "artifact"}


def test_every_artifact_case_of_the_corpus_is_here(corpus: dict[str, Any]) -> None:
    assert set(FILES) | NO_SINGLE_FILE == set(corpus)


@pytest.mark.parametrize("case", sorted(FILES))
def test_file_of_the_corpus(
    case: str,
    good: bytes,
    corpus: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "case.arrow"
    path.write_bytes(FILES[case](good))
    expect = corpus[case]
    vocabulary = byte_vocabulary(width=384 if case == "ar-vocab-padded" else None)
    if expect["exit"] == 0:
        assert open_artifact(path, vocabulary=vocabulary).accepts(b"t3;t4;t5;")
        return
    with pytest.raises(CdecError) as caught:
        open_artifact(path, vocabulary=vocabulary)
    expected = ELSEWHERE.get(case, expect["error"])
    assert fnmatch.fnmatch(caught.value.code, expected), str(caught.value)
    assert caught.value.exit_status == expect["exit"]
    assert not Path("cdec_canary").exists()


def test_missing_column_is_named(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.arrow"
    path.write_bytes(DROP(good, "node_token"))
    with pytest.raises(CdecError) as caught:
        read_artifact(path)
    assert caught.value.details["column"] == "node_token"


def test_newer_version_says_who_wrote_it_and_to_upgrade(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.arrow"
    path.write_bytes(META(good, {"cdec.format": "999", "cdec.version": "9.1"}))
    with pytest.raises(CdecError, match=r"written by cdec 9\.1") as caught:
        read_artifact(path)
    assert "upgrade" in str(caught.value.hint)


def test_registered_extension_type_never_runs(good: bytes) -> None:
    runs: list[bytes] = []

    class Hostile(pa.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(pa.large_list(pa.int32()), "test.hostile")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, payload: bytes) -> Hostile:
            runs.append(payload)
            return cls()

    pa.register_extension_type(Hostile())
    try:
        hostile = WITH_EXTENSION(good, "test.hostile", b"payload")
        runs.clear()
        with pytest.raises(CdecError) as caught:
            verify_bytes(hostile, KINDS)
    finally:
        pa.unregister_extension_type("test.hostile")
    assert caught.value.code == "E_ARTIFACT_SCHEMA"
    assert runs == []


@pytest.mark.slow
def test_ten_thousand_mutants_are_all_errors(good: bytes) -> None:
    accepted = 0
    for mutant in MUTANTS(good, 10_000):
        try:
            verify_bytes(mutant, KINDS)
        except CdecError as error:
            assert error.code.startswith("E_ARTIFACT_"), error
        else:
            accepted += 1
    assert accepted == 0


def test_folder_and_missing_file_are_missing_input(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no-such.arrow"):
        with pytest.raises(CdecError) as caught:
            open_artifact(path)
        assert caught.value.code == "E_NOINPUT"


def test_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("-")):
        with pytest.raises(CdecError) as caught:
            open_artifact(path)
        assert caught.value.code == "E_ARTIFACT_FORMAT"


# --- Artifact files are written whole or not at all, and read back as views of a map.


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


# --- A file's digest is verified once, and again whenever the file may have changed.


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

"""Every artifact case of the corpus of bad inputs, at the level of ``open_artifact``."""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdec.core.artifacts.opened import KINDS, open_artifact, read_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.errors import CdecError
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
from tests.forging import arrays_of, rebuild

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

"""Artifacts opened, checked and copied."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdec.core.artifacts import write as artifact_digest
from cdec.core.artifacts.opened import KINDS, bind_artifact, open_artifact, read_artifact
from cdec.core.artifacts.read import ArtifactLimits, contents_of, verify_bytes
from cdec.core.constraint import Constraint
from cdec.core.errors import (
    ArtifactChecksumError,
    ArtifactError,
    ArtifactFormatError,
    ArtifactInvalidError,
    ArtifactSchemaError,
    ArtifactVersionError,
    CdecError,
    InputMissingError,
    LimitError,
    TokenizerMismatchError,
)
from cdec.core.mask import allocate_mask
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.artifacts.hostile_files import META, MUTANTS, byte_vocabulary, good_rows
from tests.forging import arrays_of, metadata_of, rebuild, seal

# --- open_artifact: fingerprints, the stored vocabulary, what is recorded.


def test_mismatch_names_both_hashes(good_path: Path) -> None:
    other = Vocabulary([b"x"] * 320 + [b""], eos_token_ids=[320], name="other")
    recorded = byte_vocabulary().vocabulary_hash
    with pytest.raises(TokenizerMismatchError) as caught:
        open_artifact(good_path, vocabulary=other)
    assert recorded[:16] in caught.value.message
    assert other.vocabulary_hash[:16] in caught.value.message


def test_other_end_ids_are_a_mismatch(good_path: Path) -> None:
    vocabulary = Vocabulary(
        [*byte_vocabulary().token_bytes, b""], eos_token_ids=[321], special_token_ids=[320]
    )
    with pytest.raises(TokenizerMismatchError, match=r"\[320\].*\[321\]"):
        open_artifact(good_path, vocabulary=vocabulary)


def test_further_pad_token_and_wider_logits_are_no_mismatch(good_path: Path) -> None:
    vocabulary = Vocabulary(
        [*byte_vocabulary().token_bytes, b""], [320], special_token_ids=[321], width=400
    )
    constraint = open_artifact(good_path, vocabulary=vocabulary)
    session = constraint.session()
    ids = session.allowed(session.start(1))[1]
    assert ids.tolist() == list(range(300))


def test_artifact_opens_without_a_tokenizer(good_path: Path) -> None:
    constraint = open_artifact(good_path)
    assert constraint.vocabulary.vocabulary_hash == byte_vocabulary().vocabulary_hash
    for row in good_rows():
        assert constraint.accepts(constraint.member_text(row))
    assert not constraint.accepts(b"t3;t4")


def test_an_artifact_that_was_read_opens_without_its_file(good_path: Path) -> None:
    file = read_artifact(good_path)
    good_path.unlink()
    for constraint in (bind_artifact(file), bind_artifact(file, byte_vocabulary())):
        assert all(constraint.accepts(constraint.member_text(row)) for row in good_rows())
    with pytest.raises(TokenizerMismatchError):
        bind_artifact(file, Vocabulary([b"x"] * 320 + [b""], eos_token_ids=[320]))


def test_counts_are_recorded(good: bytes) -> None:
    counts = json.loads(metadata_of(good)["cdec.counts"])
    assert counts["entities"] == len({tuple(row) for row in good_rows()})
    assert counts["duplicates"] == len(good_rows()) - counts["entities"]


# --- Whatever is wrong with an artifact's contents is an error, also where the digest is right.


def test_damage_in_either_copy_of_the_metadata_is_found(good: bytes) -> None:
    name = b"cdec.vocabulary_name"
    first = good.index(name)
    second = good.index(name, first + 1)
    for place in (first, second):
        damaged = bytearray(good)
        damaged[place + len(name) - 1] ^= 1
        with pytest.raises(ArtifactError):
            verify_bytes(bytes(damaged), KINDS)


def test_damage_in_either_copy_of_the_digest_is_found(good: bytes) -> None:
    digest = metadata_of(good)["cdec.digest"].encode()
    first = good.index(digest)
    second = good.index(digest, first + 1)
    for place in (first, second):
        damaged = bytearray(good)
        damaged[place] = ord("0") if damaged[place] != ord("0") else ord("1")
        with pytest.raises(ArtifactChecksumError):
            verify_bytes(bytes(damaged), KINDS)


def test_digest_does_not_depend_on_how_the_file_is_chunked(
    good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The digest's own places may straddle chunks; blanking them must not depend on where.
    places = [100, 4000]
    changed = bytearray(good)
    for place in places:
        changed[place : place + 64] = b"f" * 64
    for size in (64, 100, 130, 1 << 20):
        monkeypatch.setattr(artifact_digest, "CHUNK_BYTES", size)
        digests = [
            artifact_digest.compute_digest(memoryview(data), places) for data in (good, changed)
        ]
        assert digests[0] == digests[1]
        assert digests[0] != artifact_digest.compute_digest(memoryview(good), places[:1])


def damage(column: str, change: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    def apply(good: bytes) -> bytes:
        array = arrays_of(good)[column]
        changed = change(array)
        return rebuild(good, {column: array if changed is None else changed})

    return apply


def _set(index: int, value: int) -> Callable[[Any], None]:
    def change(array: Any) -> None:
        array[index] = value

    return change


BROKEN = {
    "negative token": damage("tokens", _set(3, -1)),
    "falling row offsets": damage("row_offsets", _set(2, 0)),
    "row offsets that start late": damage("row_offsets", _set(0, 1)),
    "too few row offsets": damage("row_offsets", lambda a: a[:-1]),
    "node row out of range": damage("node_row", _set(5, 10**6)),
    "node count of nothing": damage("node_count", _set(5, 0)),
    "node count too large": damage("node_count", _set(1, 10**6)),
    "leaf outside of its row": damage("node_link", _set(-1, 10**9)),
    "negative leaf": damage("node_link", _set(-1, -5)),
    "negative degree": damage("node_degree", _set(0, -1)),
    "degree too large": damage("node_degree", _set(0, 10**6)),
    "unsorted siblings": damage("node_token", _set(2, 0)),
    "inner node called END": damage("node_token", _set(4, -1)),
    "short node column": damage("node_count", lambda a: a[:-1]),
    "no nodes": damage("node_token", lambda a: a[:0]),
    "dense node that is none": damage("dense_nodes", _set(0, 1)),
    "dense mask of wrong size": damage("dense_masks", lambda a: a[:-1]),
    "dense mask with another bit": damage("dense_masks", _set(-1, -1)),
    "unsorted hashes": damage("text_hash", lambda a: a[::-1].copy()),
    "hash without row": damage("text_row", lambda a: a[:-1]),
    "text row out of range": damage("text_row", _set(0, 10**6)),
    "negative text row": damage("text_row", _set(0, -1)),
    "source offsets past the lines": damage("source_offsets", _set(-1, 10**6)),
    "source line 0": damage("source_lines", _set(0, 0)),
    "ids without offsets": damage("id_bytes", lambda a: np.zeros(3, np.uint8)),
    "too few id offsets": damage("id_offsets", lambda a: np.zeros(2, np.int64)),
    "vocabulary of another size": damage("vocabulary_offsets", lambda a: a[:-1]),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_invariant_is_found(good: bytes, name: str) -> None:
    with pytest.raises(ArtifactInvalidError):
        verify_bytes(BROKEN[name](good), KINDS)


@pytest.mark.parametrize(("column", "place"), [("tokens", 3), ("node_token", 300)])
def test_an_end_id_inside_a_member_means_another_tokenizer(
    good: bytes, column: str, place: int
) -> None:
    with pytest.raises(TokenizerMismatchError):
        verify_bytes(damage(column, _set(place, 320))(good), KINDS)


@pytest.mark.parametrize(
    "options", ["", "[]", "{}", "[" * 100_000, '{"heads": ["zz"]}', '{"heads": 3}', "nul"]
)
def test_broken_options_are_found(good: bytes, options: str) -> None:
    with pytest.raises(ArtifactInvalidError):
        verify_bytes(META(good, {"cdec.options": options}), KINDS)


@pytest.mark.parametrize("eos", ["", "7", "[[", '["x"]', "null", "[321]", "[-1]", "[1.0]"])
def test_broken_end_ids_are_found(good: bytes, tmp_path: Path, eos: str) -> None:
    (tmp_path / "a.arrow").write_bytes(META(good, {"cdec.eos": eos}))
    with pytest.raises(ArtifactInvalidError):
        open_artifact(tmp_path / "a.arrow")


def test_schema_differences_are_schema_errors(good: bytes) -> None:
    wide = arrays_of(good)["node_token"].astype(np.int64)
    plain = pa.array([[1]], pa.list_(pa.int32()))
    cases = [
        rebuild(good, {"node_token": wide}),
        rebuild(good, {"tokens": plain}),
        rebuild(good, {"surplus": np.zeros(1)}),
        rebuild(good, rows=2),
        rebuild(good, batches=2),
        rebuild(good, batches=0),
    ]
    for case in cases:
        with pytest.raises(ArtifactSchemaError):
            verify_bytes(case, KINDS)


def test_arrow_file_of_another_origin_is_a_format_error(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("x", pa.int32())])
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([1], pa.int32())], schema=schema))
    with pytest.raises(ArtifactFormatError, match="no cdec artifact"):
        read_artifact(tmp_path / "a.arrow")


def test_unknown_kind_is_a_version_error(good: bytes) -> None:
    with pytest.raises(ArtifactVersionError, match="kind 'future'"):
        verify_bytes(META(good, {"cdec.kind": "future"}), KINDS)


def test_size_limit_is_checked_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"x" * 1000)
    with pytest.raises(LimitError):
        read_artifact(tmp_path / "a.arrow", limits=ArtifactLimits(max_bytes=999))


def test_name_with_a_nul_is_missing_input() -> None:
    with pytest.raises(InputMissingError):
        read_artifact("a\0b")


def walk(constraint: Constraint, rng: np.random.Generator) -> None:
    """Decode a few random texts, touching mask, allowed, check, forced and advance."""
    session = constraint.session()
    states = session.start(8)
    mask = allocate_mask(8, constraint.vocabulary.width)
    for _ in range(8):
        session.fill_mask(states, mask)
        session.is_complete(states)
        session.forced(states)
        offsets, ids = session.allowed(states)
        proposed = rng.integers(0, constraint.vocabulary.width, size=(8, 4)).astype(np.int32)
        session.check(states, proposed)
        tokens = [
            int(rng.choice(ids[a:b])) if b > a else 0
            for a, b in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
        ]
        states = session.advance(states, np.array(tokens, np.int32))


@pytest.mark.slow
def test_mutants_with_a_right_digest_are_errors_or_harmless(good: bytes, tmp_path: Path) -> None:
    """An attacker can compute digests: then nothing but the checks of the contents is left."""
    rng = np.random.default_rng(5)
    verdicts = {"opened": 0, "refused": 0}
    path = tmp_path / "mutant.arrow"
    for mutant in MUTANTS(good, 1_500, seed=5):
        try:
            path.write_bytes(seal(mutant))
            walk(open_artifact(path), rng)
            verdicts["opened"] += 1
        except (CdecError, ValueError, KeyError, UnicodeDecodeError) as error:
            # ValueError and KeyError: the helper found no place for the digest.
            assert isinstance(error, CdecError) or "seal" in _frames(error), error
            verdicts["refused"] += 1
    assert verdicts["opened"] > 100
    assert verdicts["refused"] > 100


def _frames(error: BaseException) -> list[str]:
    names, trace = [], error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return names


# --- A file that is cut while it is open: what was read of it stays whole, what is mapped does
# not.

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

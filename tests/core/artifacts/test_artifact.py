"""open_artifact: fingerprints, the stored vocabulary, what is recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cdec.core.artifacts.opened import (
    bind_artifact,
    open_artifact,
    read_artifact,
)
from cdec.core.errors import (
    TokenizerMismatchError,
)
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.artifacts.hostile_files import byte_vocabulary, good_rows
from tests.forging import metadata_of


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


def test_kinds_of_artifacts_are_known_without_torch() -> None:
    code = "import sys; import cdec.core.artifacts.opened; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

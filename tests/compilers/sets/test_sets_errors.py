"""compile_set never compiles what it cannot represent: errors with lines, or counted skips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import SetLimits, SetReport, compile_set
from cdec.compilers.sets.encode import is_valid
from cdec.core import Vocabulary, open_artifact
from cdec.core.errors import (
    CdecError,
    DataError,
    EncodingError,
    FieldError,
    LimitError,
    OutputError,
    OutputExistsError,
    UntokenizableError,
    UsageError,
)
from cdec.core.sets.entities import EntityBatch
from tests.compilers.sets.small_tokenizers import byte_level, lossy


def refused(tmp_path: Path, lines: Any, error: type[CdecError], **options: Any) -> CdecError:
    """Compile, expect this very error, and find nothing left on disk."""
    vocabulary = options.pop("vocabulary", byte_level())
    with pytest.raises(error) as caught:
        compile_set(lines, vocabulary, tmp_path / "set.arrow", **options)
    assert type(caught.value) is error
    assert list(tmp_path.iterdir()) == []
    return caught.value


def skipping(tmp_path: Path, lines: Any, vocabulary: Vocabulary, **options: Any) -> SetReport:
    """Compile with ``bad_lines="skip"``, expect one skipped entity and "good" a member."""
    path = tmp_path / "set.arrow"
    report = compile_set(lines, vocabulary, path, bad_lines="skip", force=True, **options)
    assert report.skipped == 1
    assert "W_SKIPPED" in [notice.code for notice in report.notices]
    assert open_artifact(path, vocabulary=vocabulary).accepts(b"good")
    return report


def test_unknown_token_is_never_compiled(tmp_path: Path) -> None:
    lines = ["good", "a{b"]
    error = refused(tmp_path, lines, UntokenizableError, vocabulary=lossy())
    assert error.details["line"] == 2
    assert "'a{b'" in error.message
    assert skipping(tmp_path, lines, lossy()).entities == 1


def test_tokenizer_that_normalises_is_noticed(tmp_path: Path) -> None:
    lines = ["good", "e\u0301"]
    error = refused(tmp_path, lines, UntokenizableError, vocabulary=byte_level("nfc"))
    assert error.details["line"] == 2
    assert "`normalize` nfc" in str(error.hint)
    skipping(tmp_path, lines, byte_level("nfc"))
    report = compile_set(
        lines, byte_level("nfc"), tmp_path / "set.arrow", normalize="nfc", force=True
    )
    assert report.entities == 2


def test_special_token_text_is_spelled_out(tmp_path: Path) -> None:
    vocabulary = byte_level()
    compile_set(["x<|endoftext|>y"], vocabulary, tmp_path / "set.arrow")
    constraint = open_artifact(tmp_path / "set.arrow", vocabulary=vocabulary)
    assert constraint.accepts(b"x<|endoftext|>y")
    assert not set(constraint.arrays.tokens.tolist()) & vocabulary.special_token_ids  # type: ignore[attr-defined]


def test_lone_surrogate_is_an_encoding_error_with_its_line(tmp_path: Path) -> None:
    batch = EntityBatch(["good", "b\ud800"], [11, 12], ids=["g", "b"])
    error = refused(tmp_path, [batch], EncodingError)
    assert error.details["line"] == 12
    assert "\ud800" not in error.message
    skipping(tmp_path, [batch], byte_level())


def test_space_that_could_be_the_added_one_is_refused(tmp_path: Path) -> None:
    lines = ["good", " b"]
    error = refused(tmp_path, lines, DataError, leading_space="both")
    assert error.details["line"] == 2
    skipping(tmp_path, lines, byte_level(), leading_space="both")


def test_long_entity_is_a_limit_error_even_when_skipping(tmp_path: Path) -> None:
    lines = ["good", "\U0001f600" * 5000]
    for bad_lines in ("error", "skip"):
        error = refused(tmp_path, lines, LimitError, bad_lines=bad_lines)
        assert error.details == {"line": 2, "limit": "max_entry_tokens 4096"}
    limits = SetLimits(max_entry_tokens=40_000)
    assert compile_set(lines, byte_level(), tmp_path / "set.arrow", limits=limits).entities == 2


def test_too_many_entities_are_a_limit_error(tmp_path: Path) -> None:
    lines = ["a", "b", "a"]
    error = refused(tmp_path, lines, LimitError, limits=SetLimits(max_entities=2))
    assert error.details["limit"] == "max_entities 2"
    compile_set(lines, byte_level(), tmp_path / "set.arrow", limits=SetLimits(max_entities=3))


@pytest.mark.parametrize(
    ("item", "error", "line"),
    [
        ({"title": "x"}, FieldError, 2),
        ({"text": None}, FieldError, 2),
        ({"text": "x", "id": 1.5}, FieldError, 2),
        ({"text": "x", "id": True}, FieldError, 2),
        (b"bytes", UsageError, 2),
        (None, UsageError, 2),
    ],
)
def test_items_of_other_shapes_are_named(
    tmp_path: Path, item: Any, error: type[CdecError], line: int
) -> None:
    assert refused(tmp_path, ["good", item], error).details["line"] == line


@pytest.mark.parametrize("lines", ["one string", b"bytes", {"text": "x"}])
def test_one_text_is_no_source(tmp_path: Path, lines: Any) -> None:
    refused(tmp_path, lines, UsageError)


def test_batch_with_too_few_ids_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, [EntityBatch(["a", "b"], [1, 2], ids=["x"])], UsageError)
    refused(tmp_path, [EntityBatch(["a", "b"], [1])], UsageError)
    refused(tmp_path, ["a", EntityBatch(["b"], [1])], UsageError)


@pytest.mark.parametrize("option", ["leading_space", "normalize", "bad_lines"])
def test_unknown_choice_is_a_usage_error(tmp_path: Path, option: str) -> None:
    error = refused(tmp_path, ["a"], UsageError, **{option: "sometimes"})
    assert error.details["field"] == option


def test_prefix_that_is_no_text_is_refused(tmp_path: Path) -> None:
    for option in ("prefix", "suffix"):
        error = refused(tmp_path, ["a"], EncodingError, **{option: "\ud800"})
        assert error.details["field"] == option


def test_vocabulary_without_tokenizer_cannot_compile_texts(tmp_path: Path) -> None:
    vocabulary = Vocabulary([b"a", b""], eos_token_ids=[1])
    error = refused(tmp_path, ["a"], UsageError, vocabulary=vocabulary)
    assert "compile_token_set" in str(error.hint)


def test_existing_output_is_refused_before_reading(tmp_path: Path) -> None:
    def unread() -> Iterator[str]:
        raise AssertionError("the source was read")
        yield ""

    path = tmp_path / "set.arrow"
    path.write_bytes(b"precious")
    with pytest.raises(OutputExistsError):
        compile_set(unread(), byte_level(), path)
    with pytest.raises(OutputError):
        compile_set(unread(), byte_level(), tmp_path / "no" / "set.arrow")
    assert path.read_bytes() == b"precious"


def test_error_of_the_source_passes_through(tmp_path: Path) -> None:
    def failing() -> Iterator[EntityBatch]:
        yield EntityBatch(["a"], [1])
        raise EncodingError("line 2 is not UTF-8", line=2)

    assert refused(tmp_path, failing(), EncodingError).details == {"line": 2}


def test_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> Iterator[EntityBatch]:
        for i in range(20):
            yield EntityBatch([f"Paris {i} {k}" for k in range(100)], range(1, 101))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_set(interrupted(), byte_level(), tmp_path / "set.arrow", memory_limit=1000)
    assert list(tmp_path.iterdir()) == []


def test_control_characters_are_escaped_in_messages(tmp_path: Path) -> None:
    error = refused(tmp_path, ["\x1b[2J{"], UntokenizableError, vocabulary=lossy())
    assert "\x1b" not in error.message
    assert is_valid(error.message)


def test_tokens_that_shift_the_text_are_found(tmp_path: Path) -> None:
    """A wrong row is found whatever the tokenizer does: here it gives another text's tokens."""
    vocabulary = byte_level()

    class Shifted(Vocabulary):
        def encode_flat(self, texts: Any) -> Any:
            ids, offsets = vocabulary.encode_flat(texts)
            return np.roll(ids, 1), offsets

    shifted = Shifted(
        vocabulary.token_bytes,
        vocabulary.eos_token_ids,
        vocabulary.special_token_ids,
        tokenization=vocabulary.tokenization,
    )
    error = refused(tmp_path, ["abc", "def"], UntokenizableError, vocabulary=shifted)
    assert error.details["line"] == 1

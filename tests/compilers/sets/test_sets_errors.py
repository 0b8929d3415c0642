"""Refused lists, and rows given as token ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import SetLimits, SetReport, compile_set, compile_token_set
from cdec.compilers.sets.encode import is_valid
from cdec.core import Vocabulary, open_artifact
from cdec.core.artifacts.opened import read_artifact
from cdec.core.errors import (
    CdecError,
    DataError,
    EmptySetError,
    EncodingError,
    FieldError,
    LimitError,
    OutputError,
    OutputExistsError,
    UntokenizableError,
    UsageError,
)
from cdec.core.sets.entities import EntityBatch, TokenBatch
from cdec.core.sets.set_constraint import SetConstraint
from tests.compilers.sets.small_tokenizers import byte_level, lossy

# --- compile_set never compiles what it cannot represent: errors with lines, or counted skips.


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


# --- compile_token_set: rows of ids become a set as they are, or are refused with their line.

TOY = Vocabulary([b"a", b"b", b"ab", b"", b""], eos_token_ids=[3], special_token_ids=[3])
"""Id 3 ends, id 4 is unused; "ab" has two tokenisations."""


def compiled(tmp_path: Path, rows: Any, **options: Any) -> SetConstraint:
    compile_token_set(rows, TOY, tmp_path / "s.arrow", force=True, **options)
    constraint = open_artifact(tmp_path / "s.arrow", vocabulary=TOY)
    assert isinstance(constraint, SetConstraint)
    return constraint


def rows_of(constraint: SetConstraint) -> list[list[int]]:
    return [constraint.arrays.row(r).tolist() for r in range(constraint.arrays.n_rows)]


def test_rows_are_kept_as_given_sorted_and_distinct(tmp_path: Path) -> None:
    assert rows_of(compiled(tmp_path, [[1], [0, 1], [0], [0, 1]])) == [[0], [0, 1], [1]]


def test_two_tokenisations_of_one_text_are_two_rows(tmp_path: Path) -> None:
    constraint = compiled(tmp_path, [[0, 1], [2]])
    assert rows_of(constraint) == [[0, 1], [2]]
    assert constraint.rows.of_text(b"ab").tolist() == [0, 1]
    assert constraint.annotations(b"ab") == {"entity_ids": ["1", "2"]}


def test_batches_carry_their_lines(tmp_path: Path) -> None:
    constraint = compiled(tmp_path, [TokenBatch([[0], [1]], [7, 9])])
    assert constraint.annotations(b"b") == {"entity_ids": ["9"]}


def test_arrays_and_tuples_are_rows(tmp_path: Path) -> None:
    rows = [np.array([0, 1]), (1,), [np.int32(2)]]
    assert rows_of(compiled(tmp_path, rows)) == [[0, 1], [1], [2]]


def test_token_set_does_not_depend_on_the_tokenisation(tmp_path: Path) -> None:
    compiled(tmp_path, [[0]])
    assert read_artifact(tmp_path / "s.arrow").metadata["cdec.tokenization_hash"] == ""


def test_empty_row_is_blank_unless_kept(tmp_path: Path) -> None:
    report = compile_token_set([[], [0]], TOY, tmp_path / "a.arrow")
    assert (report.entities, report.blank) == (1, 1)
    assert rows_of(compiled(tmp_path, [[], [0]], keep_empty=True)) == [[], [0]]
    with pytest.raises(EmptySetError):
        compile_token_set([[]], TOY, tmp_path / "b.arrow")


def test_denied_texts_are_left_out_in_every_tokenisation(tmp_path: Path) -> None:
    assert rows_of(compiled(tmp_path, [[0, 1], [2], [0]], deny=["ab"])) == [[0]]


@pytest.mark.parametrize("bad", [-1, 3, 4, 5, 2**31, 2**62, -(2**40)])
def test_ids_that_are_no_ordinary_tokens_are_refused(tmp_path: Path, bad: int) -> None:
    rows = [[0], [1, bad], [2]]
    with pytest.raises(FieldError) as caught:
        compile_token_set(rows, TOY, tmp_path / "a.arrow")
    assert caught.value.details == {"line": 2, "field": "token_ids"}
    report = compile_token_set(rows, TOY, tmp_path / "b.arrow", bad_lines="skip")
    assert (report.entities, report.skipped) == (2, 1)


@pytest.mark.parametrize("bad", [5, None, [1.5], ["0"], [[0]], [2**70], "ab"])
def test_rows_of_other_shapes_are_refused(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(FieldError) as caught:
        compile_token_set([[0], bad], TOY, tmp_path / "a.arrow")
    assert caught.value.details == {"line": 2, "field": "token_ids"}


def test_long_row_is_a_limit_error(tmp_path: Path) -> None:
    with pytest.raises(LimitError) as caught:
        compile_token_set([[0] * 4097], TOY, tmp_path / "a.arrow")
    assert caught.value.details == {"line": 1, "limit": "max_entry_tokens 4096"}
    limits = SetLimits(max_entry_tokens=5000)
    assert compile_token_set([[0] * 4097], TOY, tmp_path / "a.arrow", limits=limits).longest == 4097


def test_mixed_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        compile_token_set([[0], TokenBatch([[1]], [2])], TOY, tmp_path / "a.arrow")


def test_error_tree_is_respected(tmp_path: Path) -> None:
    with pytest.raises(CdecError):
        compile_token_set([], TOY, tmp_path / "a.arrow")
    assert list(tmp_path.iterdir()) == []

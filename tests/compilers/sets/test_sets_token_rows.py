"""compile_token_set: rows of ids become a set as they are, or are refused with their line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import SetLimits, compile_token_set
from cdec.core import Vocabulary, open_artifact
from cdec.core.artifacts.opened import read_artifact
from cdec.core.errors import CdecError, EmptySetError, FieldError, LimitError, UsageError
from cdec.core.sets.entities import TokenBatch
from cdec.core.sets.set_constraint import SetConstraint

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

"""Prompts in JSON: .json holds an array of records or texts, .jsonl one a line, texts in quotes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import DuplicateIdError, JsonError
from cdec.data.input.source import SourceStats
from cdec.data.prompts.read import BadRecord, read_prompts

RECORDS: list[Any] = [{"id": 0, "prompt": "one"}, "two", {"prompt": "three", "gold": ["x"]}, "two"]


def read(path: Path, **options: Any) -> list[Any]:
    return list(read_prompts(path, **options))


def told(path: Path, **options: Any) -> list[tuple[Any, Any]]:
    return [
        (each.id, each.error.message if isinstance(each, BadRecord) else each.prompt)
        for each in read(path, **options)
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_has_the_records_of_its_lines(tmp_path: Path, indent: int | None) -> None:
    array, lines, packed = tmp_path / "p.json", tmp_path / "p.jsonl", tmp_path / "q.json.gz"
    array.write_text(json.dumps(RECORDS, indent=indent))
    packed.write_bytes(gzip.compress(array.read_bytes()))
    lines.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    expected = told(lines)
    assert [prompt for _, prompt in expected] == ["one", "two", "three", "two"]
    assert told(array) == told(packed) == expected
    other = array.rename(tmp_path / "p.txt")
    assert told(other, format="json") == expected


def test_lines_of_records_named_json_are_records(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"id": 1, "prompt": "one"}\n{"id": 2, "prompt": "two"}\n')
    assert told(path) == [(1, "one"), (2, "two")]


def test_what_is_no_record_and_no_text_is_an_error_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('["one", 2, ["three"], {"prompt": NaN}, {"id": "d", "prompt": 5}, "six"]')
    found = told(path)
    assert [text for _, text in found][::5] == ["one", "six"]
    assert "p.json, record 2 is 2, a record or a quoted text was expected" in found[1][1]
    assert "record 3 is an array" in found[2][1]
    assert "record 4 is not valid JSON" in found[3][1]
    assert "record 5: field 'prompt' is 5" in found[4][1]


def test_text_lines_named_json_are_refused_with_the_way_to_read_them(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("What is it?\nWhat else?\n")
    with pytest.raises(JsonError) as caught:
        read(path)
    assert "`input_format` lines" in str(caught.value.hint)
    assert [text for _, text in told(path, format="lines")] == ["What is it?", "What else?"]


def test_text_lines_named_jsonl_are_errors_in_their_places(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('"one"\nWhat is it?\n{"prompt": "three"}\n[1]\n')
    found = read(path)
    assert [each.prompt for each in found[::2]] == ["one", "three"]
    assert all("`input_format` lines" in each.error.hint for each in (found[1],))
    assert "line 4 is an array" in found[3].error.message
    assert [text for _, text in told(path, format="lines")][:2] == ['"one"', "What is it?"]


def test_two_records_of_one_id_in_an_array_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('[{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}]')
    with pytest.raises(DuplicateIdError, match=r"record 2 has the id 1 of record 1"):
        read(path)


def test_lines_that_look_like_an_array_are_told_of(tmp_path: Path) -> None:
    path, stats = tmp_path / "p.txt", SourceStats()
    path.write_text('[{"id": 1, "prompt": "a"}]\n')
    assert len(read(path, stats=stats)) == 1
    assert [notice.code for notice in stats.notices] == ["W_LOOKS_LIKE_JSON"]

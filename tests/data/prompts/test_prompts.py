"""Prompts read from files: records, places of errors, shards."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import (
    CdecError,
    DataError,
    DuplicateIdError,
    EncodingError,
    InputMissingError,
    UsageError,
)
from cdec.data.ids import Shard
from cdec.data.input.source import InputLimits, SourceStats
from cdec.data.prompts.fields import UNSUPPORTED_SAMPLING_FIELDS
from cdec.data.prompts.places import input_files, names_many, would_hold
from cdec.data.prompts.read import BadRecord, PromptRecord, prompts_from_texts, read_prompts
from cdec.data.prompts.templates import PromptTemplate
from cdec.data.rows.count import count_all

pytestmark = pytest.mark.usefixtures("kept_tables")

# --- Prompt records: strict fields, stable ids, order kept, one bad record never hides another.


def read(data: bytes | str, **options: Any) -> list[PromptRecord | BadRecord]:
    data = data.encode() if isinstance(data, str) else data
    return list(read_prompts(io.BytesIO(data), **options))


def one(fields: dict[str, Any] | str, **options: Any) -> PromptRecord:
    (record,) = read(fields if isinstance(fields, str) else json.dumps(fields), **options)
    assert isinstance(record, PromptRecord), record
    return record


def refused(fields: dict[str, Any] | str, **options: Any) -> CdecError:
    (record,) = read(fields if isinstance(fields, str) else json.dumps(fields), **options)
    assert isinstance(record, BadRecord), record
    return record.error


def test_a_full_record_is_read_field_by_field() -> None:
    record = one(
        {
            "id": "q1",
            "prompt": "Where?",
            "n": 3,
            "seed": 5,
            "temperature": 1,
            "max_tokens": 9,
            "constraint": "cities",
            "candidates": ["Paris", 42],
            "query": {"x": [1]},
        }
    )
    assert record == PromptRecord(
        id="q1",
        line=1,
        prompt="Where?",
        n=3,
        seed=5,
        temperature=1.0,
        max_tokens=9,
        constraint="cities",
        candidates=("Paris", "42"),
        input={"query": {"x": [1]}},
    )


def test_what_a_record_does_not_say_is_left_to_the_options() -> None:
    assert one({"id": 1, "prompt": ""}) == PromptRecord(id=1, line=1, prompt="")


def test_messages_stand_for_a_prompt() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    assert one({"id": 1, "messages": messages}).messages == tuple(messages)


@pytest.mark.parametrize("field", ["grammar", "regex"])
def test_constraint_texts_are_kept(field: str) -> None:
    assert getattr(one({"prompt": "a", field: "x+"}), field) == "x+"


def test_a_schema_may_be_an_object_or_its_text() -> None:
    assert one({"prompt": "a", "schema": {"type": "null"}}).schema == '{"type":"null"}'
    assert one({"prompt": "a", "schema": '{"type": "null"}'}).schema == '{"type": "null"}'
    assert one({"prompt": "a", "schema": False}).schema == "false"


MESSAGE = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": 1}, "prompt"),
        ({}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "a", "messages": [MESSAGE]}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [MESSAGE | {"tool_calls": []}]}, "messages"),
        ({"messages": [MESSAGE | {"content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [MESSAGE], "chat_template": "{% x %}"}, "chat_template"),
        ({"prompt": "a", "id": None}, "id"),
        ({"prompt": "a", "id": ""}, "id"),
        ({"prompt": "a", "id": True}, "id"),
        ({"prompt": "a", "id": 1.5}, "id"),
        ({"prompt": "a", "id": 2**70}, "id"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"prompt": "a", "n": "3"}, "n"),
        ({"prompt": "a", "n": True}, "n"),
        ({"prompt": "a", "n": 10_001}, "n"),
        ({"prompt": "a", "seed": -1}, "seed"),
        ({"prompt": "a", "seed": 2**63}, "seed"),
        ({"prompt": "a", "seed": 2**70}, "seed"),
        ({"prompt": "a", "seed": 1.0}, "seed"),
        ({"prompt": "a", "temperature": -1}, "temperature"),
        ({"prompt": "a", "temperature": 0}, "temperature"),
        ({"prompt": "a", "temperature": "1"}, "temperature"),
        ({"prompt": "a", "temperature": True}, "temperature"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "constraint": ""}, "constraint"),
        ({"prompt": "a", "constraint": {"a": 1}}, "constraint"),
        ({"prompt": "a", "candidates": []}, "candidates"),
        ({"prompt": "a", "candidates": ["a", None]}, "candidates"),
        ({"prompt": "a", "candidates": [""]}, "candidates"),
        ({"prompt": "a", "candidates": [True]}, "candidates"),
        ({"prompt": "a", "regex": ""}, "regex"),
        ({"prompt": "a", "schema": []}, "schema"),
        ({"prompt": "a", "regex": "a", "grammar": "b"}, "regex"),
        ({"prompt": "a", "regex": "a", "candidates": ["b"]}, "candidates"),
        ({"prompt": "a", "meta": {"big": [2**70]}}, "meta"),
        ({"custom_id": "r1", "method": "POST", "url": "/v1/x", "body": {}}, "url"),
    ],
)
def test_bad_field_is_named(fields: dict[str, Any], field: str) -> None:
    error = refused(fields)
    assert error.details["field"] == field
    assert error.details["line"] == 1
    assert error.hint
    assert error.code == ("E_LIMIT" if fields.get("n") == 10_001 else "E_FIELD")


@pytest.mark.parametrize("field", sorted(UNSUPPORTED_SAMPLING_FIELDS))
def test_sampling_fields_that_would_be_ignored_are_refused(field: str) -> None:
    assert refused({"prompt": "a", field: 1}).details["field"] == field


def test_max_n_can_be_raised() -> None:
    assert one({"prompt": "a", "n": 20_000}, max_n=20_000).n == 20_000
    assert refused({"prompt": "a", "n": 2}, max_n=1).details["limit"] == "max_n 1"


# Lines


def test_text_and_json_lines_may_be_mixed_and_blank_ones_are_skipped() -> None:
    stats = SourceStats()
    records = read('plain text \r\n\n  {"prompt": "a"}\n   \n[not json', stats=stats)
    assert [record.prompt for record in records if isinstance(record, PromptRecord)] == [
        "plain text ",
        "a",
        "[not json",
    ]
    assert [record.line for record in records] == [1, 3, 5]
    assert (stats.lines, stats.blank) == (5, 2)
    assert stats.notices == []


def test_a_bad_record_stands_in_its_place() -> None:
    data = b'{"id":1,"prompt":"a"}\n{oops\n{"id":3,"prompt":"\xff"}\ntext \xff\n{"id":4,"n":0}\n'
    records = read(data + b'{"id":5,"prompt":"b"}')
    assert [type(record).__name__ for record in records] == [
        "PromptRecord",
        "BadRecord",
        "BadRecord",
        "BadRecord",
        "BadRecord",
        "PromptRecord",
    ]
    errors = [record.error for record in records if isinstance(record, BadRecord)]
    assert [error.code for error in errors] == ["E_JSON", "E_ENCODING", "E_ENCODING", "E_FIELD"]
    assert [error.details["line"] for error in errors] == [2, 3, 4, 5]
    assert records[4].id == 4


def test_an_overlong_line_is_a_bad_record_and_reading_goes_on() -> None:
    limits = InputLimits(max_line_bytes=30)
    data = '{"id":1,"prompt":"a"}\n{"id":2,"prompt":"' + "a" * 99 + '"}\n{"id":3,"prompt":"b"}\n'
    first, second, third = read(data, limits=limits)
    assert isinstance(second, BadRecord)
    assert second.error.code == "E_LINE_TOO_LONG"
    assert (first.id, second.line, third.id) == (1, 2, 3)
    again = read(data.split("\n")[1], limits=limits)
    assert again[0].id == second.id, "its id is its content's hash, wherever it stands"


def test_utf16_input_ends_the_run() -> None:
    with pytest.raises(EncodingError, match="UTF-16"):
        read("prompt\n".encode("utf-16"))


def test_empty_input_is_noticed() -> None:
    for data in (b"", b"\n\n"):
        stats = SourceStats()
        assert read(data, stats=stats) == []
        assert [notice.code for notice in stats.notices] == ["W_NO_INPUT"]


# Templates and --prompt


def test_template_makes_the_prompt_and_its_fields_are_passed_through() -> None:
    template = PromptTemplate.parse("Q: {query}\nA:")
    record = one({"id": 1, "query": "Where?", "prompt": "unused"}, template=template)
    assert record.prompt == "Q: Where?\nA:"
    assert record.input == {"query": "Where?", "prompt": "unused"}


def test_template_takes_a_text_line_as_its_prompt() -> None:
    template = PromptTemplate.parse("Q: {prompt}\nA:")
    assert one("Where?", template=template).prompt == "Q: Where?\nA:"
    assert refused("Where?", template=PromptTemplate.parse("{query}")).details["field"] == "query"


def test_template_field_that_a_record_lacks_is_its_error() -> None:
    template = PromptTemplate.parse("{query}")
    error = refused({"id": 1, "prompt": "x"}, template=template)
    assert (error.code, error.details["field"], error.details["line"]) == ("E_FIELD", "query", 1)
    assert refused({"messages": [MESSAGE]}, template=template).details["field"] == "messages"


def test_prompts_of_the_command_line_are_text_whatever_they_look_like() -> None:
    template = PromptTemplate.parse("<{prompt}>")
    records = list(prompts_from_texts(['{"a": 1}', "two\nlines", "", ""], template=template))
    assert [record.prompt for record in records if isinstance(record, PromptRecord)] == [
        '<{"a": 1}>',
        "<two\nlines>",
        "<>",
        "<>",
    ]
    assert len({record.id for record in records}) == 4
    assert records[1].id == next(prompts_from_texts(["two\nlines"])).id


# --- Folders, patterns and URLs as inputs: which files they name, in which order, what is
# refused.

NAMES = ("b.jsonl", "a.txt", "c.csv.gz", "aa", "_SUCCESS", ".hidden", "a.txt.manifest.json")
TAKEN = ["a.txt", "aa", "b.jsonl", "c.csv.gz"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    for name in NAMES:
        (tmp_path / "p" / name).write_bytes(b"x\n")
    return tmp_path / "p"


@pytest.fixture
def bucket(folder: Path) -> Iterator[str]:
    files = fsspec.filesystem("memory")
    for name in NAMES:
        files.pipe(f"/bucket/p/{name}", b"x\n")
    yield "memory://bucket/p"
    files.rm("/bucket", recursive=True)


def _names(*places: object) -> list[str]:
    return [file.name for file in input_files([str(place) for place in places])]


def test_a_folder_names_its_files_by_name_whatever_the_place(folder: Path, bucket: str) -> None:
    for place in (folder, f"{folder}/", bucket, f"{bucket}/", folder.as_uri()):
        assert _names(place) == TAKEN
        assert [file.bytes for file in input_files([str(place)])] == [2] * 4


def test_a_pattern_names_what_it_matches(folder: Path, bucket: str) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "d.txt").touch()
    for place in (folder, bucket):
        assert _names(f"{place}/a*") == ["a.txt", "aa"]
        assert _names(f"{place}/[bc]*") == ["b.jsonl", "c.csv.gz"]
    assert _names(f"{folder}/**/*.txt") == ["a.txt", "d.txt"]
    (folder / "x[1].txt").touch()
    assert _names(folder / "x[1].txt") == ["x[1].txt"]


def test_places_keep_their_order_and_stand_for_themselves(folder: Path, bucket: str) -> None:
    url = "https://host/x.jsonl?a=*&sig=[1]"
    assert [file.source for file in input_files(["-", "none.txt"])] == ["-", "none.txt"]
    assert not names_many(url)
    assert _names("-", f"{bucket}/b*", folder / "aa") == ["-", "b.jsonl", "aa"]
    with pytest.raises(UsageError, match=r"a\.txt is named twice"):
        _names(folder / "a.txt", folder)


@pytest.mark.parametrize("name", ["README.md", "model.safetensors", "sub/x.txt"])
def test_what_is_no_file_of_prompts_is_named_with_a_way_out(
    folder: Path, bucket: str, name: str
) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    fsspec.filesystem("memory").pipe(f"/bucket/p/{name}", b"x")
    for place in (folder, bucket):
        with pytest.raises(UsageError, match=name.partition("/")[0]) as caught:
            _names(place)
        assert caught.value.hint is not None and "*.txt'" in caught.value.hint


def test_nothing_there_is_an_error_with_the_place(folder: Path, bucket: str) -> None:
    (folder / "e").mkdir()
    for place in (f"{folder}/no*", f"{bucket}/no*", folder / "e", f"{bucket}/none/"):
        with pytest.raises(InputMissingError, match=str(place).replace("*", r"\*")):
            _names(place)


def test_a_saved_dataset_is_one_input_here_and_refused_far_away(folder: Path, bucket: str) -> None:
    (folder / "saved").mkdir()
    (folder / "saved/state.json").write_text("{}")
    assert _names(folder / "saved") == ["saved"]
    assert "saved" in _names(folder)
    fsspec.filesystem("memory").pipe("/bucket/p/state.json", b"{}")
    with pytest.raises(UsageError, match="saved dataset"):
        _names(bucket)


def test_several_files_are_one_input(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.jsonl", "b.txt", "c.jsonl")]
    paths[0].write_text('{"prompt": "x"}\n{"id": 1, "prompt": "y"}\n')
    paths[1].write_text("x\n\nx\n")
    paths[2].write_text("{bad\n")
    joined = tmp_path / "joined.jsonl"
    joined.write_bytes(b"".join(path.read_bytes() for path in paths))
    stats = SourceStats()
    several = list(read_prompts(paths, stats=stats))
    assert [record.id for record in several] == [record.id for record in read_prompts(joined)]
    assert len({str(record.id) for record in several}) == 5
    assert [record.line for record in several] == [1, 2, 1, 3, 1]
    assert (stats.lines, stats.blank) == (6, 1)
    assert count_all(paths) == 5
    assert count_all([*paths, "memory://x"]) is None


def test_ids_are_told_apart_over_all_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for path in (first, second):
        path.write_text(json.dumps({"id": 7, "prompt": path.name}) + "\n")
    with pytest.raises(DuplicateIdError, match=rf"{second}, line 1 .* of {first}, line 1"):
        next(read_prompts([first, second]))


@pytest.mark.parametrize("data", [b"", b"PAR1", b'{"prompt": "x"}\n'])
def test_a_table_by_name_that_is_none_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "part.parquet"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"part\.parquet should be a table"):
        list(read_prompts(path))
    assert len(list(read_prompts(path, format="lines"))) == bool(data)


def test_a_table_without_rows_is_no_error(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    stats = SourceStats()
    pa.parquet.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "e.parquet")
    assert list(read_prompts(tmp_path / "e.parquet", stats=stats)) == []
    assert [notice.code for notice in stats.notices] == ["W_NO_INPUT"]


def test_an_output_among_the_inputs_is_seen(folder: Path) -> None:
    assert would_hold(str(folder), folder / "out.jsonl")
    assert would_hold(f"{folder}/*.jsonl", folder / "out.jsonl")
    assert would_hold(f"{folder}/**/*.jsonl", folder / "deep/out.jsonl")
    assert not would_hold(f"{folder}/*.jsonl", folder / "deep/out.jsonl")
    assert not would_hold(f"{folder}/*.jsonl", folder / "out.parquet")
    assert not would_hold(str(folder), folder / "deep/out.jsonl")
    assert not would_hold(str(folder / "a.txt"), folder / "out.jsonl")


def test_a_url_of_no_file_system_is_an_error_of_the_place() -> None:
    with pytest.raises(CdecError, match="no kind of URL"):
        input_files(["s4://bucket/p/"])


# --- Shards: every record in exactly one, whatever its place and the format of the file.

ROWS: list[dict[str, Any]] = [
    *({"id": i, "prompt": f"p{i}"} for i in range(150)),
    *({"id": f"é{i}", "prompt": "same"} for i in range(150)),
]


def ids(source: Any, shard: Shard | None, **options: Any) -> list[object]:
    return [record.id for record in read_prompts(source, shard=shard, **options)]


def lines(rows: list[dict[str, Any]], more: bytes = b"") -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode() + more)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_record_is_in_exactly_one_shard(count: int) -> None:
    bad = b'{oops\nplain text\nplain text\n{"prompt": 3}\n{"id": "bad", "prompt": 4}\n\xff\n'
    whole = ids(lines(ROWS, bad), None)
    parts = [ids(lines(ROWS, bad), Shard(index, count)) for index in range(1, count + 1)]
    assert Counter(whole) == Counter(record_id for part in parts for record_id in part)
    assert len(whole) == 306
    for part in parts:
        kept = set(part)
        assert part == [record_id for record_id in whole if record_id in kept], "order is kept"
        assert 0.6 * len(whole) / count < len(part) < 1.5 * len(whole) / count


def test_shards_do_not_depend_on_order_or_format(tmp_path: Path) -> None:
    rows = [{**row, "id": str(row["id"])} for row in ROWS]
    shuffled = rows.copy()
    random.Random(0).shuffle(shuffled)
    table = pa.Table.from_pylist(shuffled)
    pa.parquet.write_table(table, tmp_path / "p.parquet", row_group_size=50)
    with pa.ipc.new_stream(str(tmp_path / "p.arrows"), table.schema) as writer:
        writer.write_table(table)
    cells = ["id,prompt", *(f"{row['id']},{row['prompt']}" for row in reversed(rows))]
    (tmp_path / "p.csv").write_text("\n".join(cells))
    for index in range(1, 4):
        expected = Counter(ids(lines(rows), Shard(index, 3)))
        for name in ("p.parquet", "p.arrows", "p.csv"):
            assert Counter(ids(tmp_path / name, Shard(index, 3))) == expected
        # A number and its text are two ids, in one shard.
        assert Counter(map(str, ids(lines(ROWS), Shard(index, 3)))) == expected


def test_records_without_ids_are_in_shards_by_their_content(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{i}", "kind": i % 3} for i in range(60)]
    pa.parquet.write_table(pa.Table.from_pylist(rows[::-1]), tmp_path / "p.parquet")
    for index in (1, 2):
        shard = Shard(index, 2)
        assert Counter(ids(lines(rows), shard)) == Counter(ids(tmp_path / "p.parquet", shard))


def test_bad_rows_are_in_one_shard_too(tmp_path: Path) -> None:
    prompts = pa.array([b"\xff" if i % 5 == 0 else b"x" for i in range(50)], pa.binary())
    table = pa.table({"id": list(range(50)), "prompt": prompts})
    pa.parquet.write_table(table, tmp_path / "p.parquet")
    found = [
        record.line
        for index in range(1, 5)
        for record in read_prompts(tmp_path / "p.parquet", shard=Shard(index, 4))
        if isinstance(record, BadRecord)
    ]
    assert sorted(found) == list(range(1, 51, 5))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="shard"):
        Shard.parse(text)
    assert str(Shard.parse(" 2/3 ")) == "2/3"

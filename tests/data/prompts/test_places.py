"""Folders, patterns and URLs as inputs: which files they name, in which order, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from cdec.core.errors import CdecError, DataError, DuplicateIdError, InputMissingError, UsageError
from cdec.data.input.count import count_all
from cdec.data.input.source import SourceStats
from cdec.data.prompts.places import input_files, names_many, would_hold
from cdec.data.prompts.read import read_prompts

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

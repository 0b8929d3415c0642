"""Tables and JSON files as the input of runs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyarrow.parquet import ParquetFile

from tests.cli import light
from tests.cli.conftest import Runner
from tests.data.input.packed import pack
from tests.laws.sizes import heavy_or

# --- cdec sample on tables, saved datasets, compressed files, URLs and shards of an input.

ROWS: list[dict[str, Any]] = [{"id": f"r{i}", "prompt": f"prompt {i}", "n": 2} for i in range(8)]
KEPT = ("--fields", "id,index,text,seed")


def write(rows: list[dict[str, Any]]) -> dict[str, Path]:
    table = pa.Table.from_pylist(rows)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    cells = ["id,prompt,n", *(f"{row['id']},{row['prompt']},{row['n']}" for row in rows)]
    Path("p.jsonl").write_bytes(lines)
    Path("p.jsonl.zst").write_bytes(pack("zstd", lines))
    Path("p.csv").write_text("\n".join(cells))
    pa.parquet.write_table(table, "p.parquet")
    Path("saved").mkdir()
    with pa.ipc.new_stream("saved/data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table)
    Path("saved/state.json").write_text(
        json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})
    )
    return {name: Path(name) for name in ("p.jsonl.zst", "p.csv", "p.parquet", "saved")}


def test_every_format_draws_what_json_lines_draw(cdec: Runner, letters: Path) -> None:
    inputs: list[object] = [*write(ROWS).values(), Path("p.parquet").absolute().as_uri()]
    expected = cdec("sample", "-a", letters, "-i", "p.jsonl", *KEPT)
    assert (expected.status, len(expected.records)) == (0, 16)
    for path in inputs:
        found = cdec("sample", "-a", letters, "-i", path, *KEPT)
        assert (found.status, found.stdout) == (0, expected.stdout), (path, found.stderr)


def test_a_csv_on_stdin_is_named_as_one(cdec: Runner, letters: Path) -> None:
    data = b"id,prompt\na,one\nb,two\n"
    words = ("sample", "-a", letters, *KEPT)
    assert len(cdec(*words, stdin=data).records) == 3, "lines are prompts"
    rows = cdec(*words, "--input-format", "csv", stdin=data).records
    assert [row["id"] for row in rows] == ["a", "b"]
    Path("p.csv").write_bytes(data)
    assert len(cdec(*words, "-i", "p.csv", "--input-format", "lines").records) == 3


def test_shards_together_are_the_whole_run(cdec: Runner, letters: Path) -> None:
    write(ROWS)
    words = ("sample", "-a", letters, "-i", "p.parquet", *KEPT)
    whole = Counter(cdec(*words).stdout.splitlines())
    shards = [cdec(*words, "--shard", f"{index}/3") for index in (1, 2, 3)]
    assert sum((Counter(shard.stdout.splitlines()) for shard in shards), Counter()) == whole
    assert all(shard.records for shard in shards)
    typed = ("--prompt", "x", "--prompt", "y", "--prompt", "z")
    words = ("sample", "-a", letters, *typed, *KEPT)
    found = [record for i in (1, 2) for record in cdec(*words, "--shard", f"{i}/2").records]
    assert len(found) == 3
    refused = cdec(*words, "--shard", "3/2")
    assert (refused.error_code, "--shard" in refused.stderr) == ("E_USAGE", True)


def test_another_shard_does_not_resume_an_output(cdec: Runner, letters: Path) -> None:
    write(ROWS)
    words = ("sample", "-a", letters, "-i", "p.jsonl", "-o", "o.jsonl")
    assert cdec(*words, "--shard", "1/2").status == 0
    assert cdec(*words, "--shard", "2/2", "--resume").error_code == "E_RESUME_MISMATCH"
    assert cdec(*words, "--shard", "1/2", "--resume").status == 0


def test_a_bad_row_is_an_error_record(cdec: Runner, letters: Path) -> None:
    pa.parquet.write_table(pa.table({"id": [1, 2, 3], "prompt": ["a", None, "c"]}), "p.parquet")
    found = cdec("sample", "-a", letters, "-i", "p.parquet")
    assert found.status == 3
    assert [record["id"] for record in found.records] == [1, 2, 3]
    assert found.records[1]["error"]["code"] == "E_FIELD"
    assert "p.parquet, row 2" in found.records[1]["error"]["message"]


def test_samples_go_to_parquet_and_are_gone_on_with(cdec: Runner, letters: Path) -> None:
    write(ROWS)
    words = ("sample", "-a", letters, "-i", "p.parquet", "-n", "2")
    expected = cdec(*words, *KEPT).records
    first = ("sample", "-a", letters, "-i", "p.parquet", *KEPT, "-o", "o.parquet")
    assert cdec(*first).status == 0
    columns = ["id", "index", "text", "seed"]
    assert pa.parquet.read_table("o.parquet").select(columns).to_pylist() == expected
    assert cdec(*first).error_code == "E_EXISTS"
    again = cdec(*first, "--resume")
    assert (again.status, again.stderr) == (0, "already complete: 8 records are in o.parquet\n")
    assert pa.parquet.read_table("o.parquet").select(columns).to_pylist() == expected


def test_a_strict_run_that_fails_leaves_parquet_to_go_on_with(cdec: Runner, letters: Path) -> None:
    lines = [json.dumps(row) for row in ROWS[:3]]
    Path("p.jsonl").write_text("\n".join([*lines, "{oops"]) + "\n")
    words = ("sample", "-a", letters, "-i", "p.jsonl", "-o", "o.parquet", "--batch-size", "1")
    assert cdec(*words, "--strict").error_code == "E_JSON"
    assert pa.parquet.read_table("o.parquet").num_rows == 6
    Path("p.jsonl").write_text("\n".join([*lines, json.dumps(ROWS[3])]) + "\n")
    assert cdec(*words, "--strict", "--resume").status == 0
    ids = pa.parquet.read_table("o.parquet")["id"].to_pylist()
    assert Counter(ids) == Counter({row["id"]: 2 for row in ROWS[:4]})


def test_an_unfinished_parquet_output_is_refused_before_a_model_is_loaded(
    cdec: Runner, letters: Path
) -> None:
    Path("o.parquet.parts").mkdir()
    Path("o.parquet.parts/000000.jsonl").write_text("")
    words = ("sample", "-a", letters, "--prompt", "x", "-o", "o.parquet", "-m", "no/model")
    found = cdec(*words)
    assert (found.error_code, "o.parquet.parts" in found.stderr) == ("E_EXISTS", True)
    assert cdec("sample", "--prompt", "x", "-o", "s3://b/o.jsonl").error_code == "E_USAGE"


def test_a_set_is_compiled_from_arrow_and_from_a_saved_dataset(cdec: Runner) -> None:
    write([{"text": text, "id": i, "prompt": "x", "n": 1} for i, text in enumerate(("a", "b"))])
    for words in (("saved",), ("saved/data-00000-of-00001.arrow", "-o", "other.arrow")):
        found = cdec("compile-set", *words, "--id-field", "id", "--json")
        assert found.status == 0, found.stderr
        assert found.records[0]["entities"] == 2
        assert cdec("compile-set", *words, "--id-field", "id").status == 0, "up to date"


def test_several_inputs_are_drawn_in_their_order(cdec: Runner, letters: Path) -> None:
    write(ROWS)
    Path("in").mkdir()
    whole = cdec("sample", "-a", letters, "-i", "p.jsonl", *KEPT)
    lines = Path("p.jsonl").read_text().splitlines(keepends=True)
    Path("in/a.jsonl").write_text("".join(lines[:3]))
    pa.parquet.write_table(pa.Table.from_pylist(ROWS[3:6]), "in/b.parquet")
    Path("last.jsonl").write_text("".join(lines[6:]))
    two = cdec("sample", "-a", letters, "-i", "in", "-i", "last.jsonl", *KEPT)
    assert (two.status, two.stdout) == (0, whole.stdout), two.stderr
    pattern = cdec("sample", "-a", letters, "-i", "in/*", "-i", "-", *KEPT, stdin=_read("last"))
    assert (pattern.status, pattern.stdout) == (0, whole.stdout), pattern.stderr
    Path("cdec.toml").write_text('input = ["in/*", "last.jsonl"]\n')
    assert cdec("sample", "-a", letters, *KEPT).stdout == whole.stdout
    assert [row["id"] for row in cdec("mass", "-a", letters, "-i", "in").records] == [
        row["id"] for row in ROWS[:6]
    ]


def _read(name: str) -> bytes:
    return Path(f"{name}.jsonl").read_bytes()


def test_an_output_that_the_next_run_would_read_is_refused(cdec: Runner, letters: Path) -> None:
    write(ROWS)
    Path("in").mkdir()
    Path("p.jsonl").rename("in/p.jsonl")
    for place in ("in", "in/*.jsonl"):
        found = cdec("sample", "-a", letters, "-i", place, "-o", "in/out.jsonl")
        assert (found.status, found.error_code) == (2, "E_USAGE")
        assert "among the inputs" in found.stderr
    assert cdec("sample", "-a", letters, "-i", "in", "-o", "out.jsonl").status == 0


def test_a_run_ends_after_as_many_bad_records_as_it_takes(cdec: Runner, letters: Path) -> None:
    bad = [{"id": f"b{i}", "prompt": 5} for i in range(5)]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in [*bad, {"id": "g", "prompt": "p"}])
    for command in (
        ("sample", "-a", letters),
        ("mass", "-a", letters),
        ("classify", "-a", letters),
    ):
        short = cdec(*command, "--max-bad", "3", stdin=data)
        assert (short.status, short.error_code) == (75, "E_LIMIT"), command
        assert "--max-bad" in short.stderr
        assert [record["id"] for record in short.records] == ["b0", "b1", "b2"]
        whole = cdec(*command, "--max-bad", "5", stdin=data)
        assert (whole.status, len(whole.records)) == (3, 6), command
    Path("in.jsonl").write_bytes(data)
    words = ("sample", "-a", letters, "-i", "in.jsonl", "-o", "out.jsonl", "--max-bad", "3")
    assert [cdec(*words, *more).status for more in ((), ("--resume",))] == [75, 3]
    found = [json.loads(line)["id"] for line in Path("out.jsonl").read_bytes().splitlines()]
    assert found == [*(f"b{i}" for i in range(5)), "g"]


def test_rows_of_nothing_end_a_run_at_the_documented_number(cdec: Runner, letters: Path) -> None:
    table = pa.table({"prompt": pa.nulls(20_000, pa.string())})
    pa.parquet.write_table(table, "nulls.parquet")
    result = cdec("sample", "-a", letters, "-i", "nulls.parquet")
    assert (result.status, len(result.records)) == (75, 10_000)


# --- Tables without a header: --no-header, columns by their numbers, and names that were meant.

HEADLESS = 'Paris,FR\nRome,IT\n"New, York",US\n'


def members(cdec: Runner, *words: str) -> set[str]:
    found = cdec("compile-set", *words, "-o", "c.arrow", "--force")
    assert found.status == 0, found.stderr
    texts = "Paris\nRome\nNew, York\nFR\nIT\nUS\n1\n2\n"
    checked = cdec("check", "c.arrow", stdin=texts.encode()).records
    return {record["text"] for record in checked if record["valid"]}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_the_first_row_is_an_entity_without_a_header(cdec: Runner, name: str) -> None:
    separator = "\t" if name == "t.tsv" else ","
    text = HEADLESS.replace('"New, York"', "New York").replace(",", separator)
    Path(name).write_text(text if name == "t.tsv" else HEADLESS)
    york = {"New, York"} if name == "t.csv" else set()
    assert members(cdec, name, "--no-header") == {"Paris", "Rome"} | york
    assert members(cdec, name, "--no-header", "--field", "2") == {"FR", "IT", "US"}


def test_a_column_with_a_name_has_a_number_too(cdec: Runner) -> None:
    Path("t.csv").write_text("city,code\n" + HEADLESS)
    assert members(cdec, "t.csv", "--field", "2") == {"FR", "IT", "US"}
    Path("t.csv").write_text("2,code\n" + HEADLESS)
    assert members(cdec, "t.csv", "--field", "2") == {"Paris", "Rome", "New, York"}, "a name first"


def test_the_way_to_read_a_table_without_a_header_is_told(cdec: Runner) -> None:
    Path("t.csv").write_text(HEADLESS)
    found = cdec("compile-set", "t.csv", "-o", "c.arrow")
    assert "its columns are 'Paris', 'FR'" in found.stderr
    assert "where the first row is one of texts, give --no-header too" in found.stderr


def test_names_that_were_meant_are_told(cdec: Runner, letters: Path) -> None:
    Path("t.csv").write_text("city,code\n" + HEADLESS)
    Path("t.jsonl").write_text('{"city": "Paris"}\n')
    for name in ("t.csv", "t.jsonl"):
        found = cdec("compile-set", name, "-o", "c.arrow", "--field", "Cty")
        assert "did you mean 'city'?" in found.stderr, name
    for command in (("score", "--prompt", "x"), ("retokenize",)):
        found = cdec(*command, "-i", "t.jsonl", "--field", "citty")
        assert "did you mean 'city'?" in found.records[0]["error"]["hint"]
    Path("t.txt").write_text("{citi}\n")
    found = cdec("sample", "-a", letters, "-i", "t.jsonl", "--template", "t.txt")
    assert "did you mean 'city'?" in found.records[0]["error"]["hint"]


def test_texts_to_check_come_from_such_tables(cdec: Runner, letters: Path) -> None:
    Path("t.csv").write_text("a,x\nb,y\n")
    found = cdec("check", letters, "-i", "t.csv", "--no-header", "--field", "1").records
    assert [record["text"] for record in found] == ["a", "b"]


def test_texts_for_a_model_come_from_such_tables(cdec: Runner) -> None:
    Path("t.csv").write_text("a,x\nb,y\n")
    for command in (("score", "--prompt", "x"), ("retokenize",)):
        found = cdec(*command, "-i", "t.csv", "--no-header", "--field", "2")
        assert (found.status, len(found.records)) == (0, 2), found.stdout
    Path("u.csv").write_text('a\n"b"\n')
    assert [r["text"] for r in cdec("retokenize", "-i", "u.csv", "--no-header").records] == [
        "a",
        "b",
    ]


def test_prompts_come_from_such_tables(cdec: Runner, letters: Path) -> None:
    Path("t.csv").write_text("one,1\ntwo,2\n")
    Path("t.txt").write_text("{2}: {1}\n")
    Path("expected.txt").write_text("1: one\n2: two\n")
    words = ("sample", "-a", letters, "--fields", "text,logprob", "-i")
    found = cdec(*words, "t.csv", "--no-header", "--template", "t.txt")
    assert found.status == 0
    assert len(found.records) == 2
    Path("one.csv").write_text('one\n"two, three"\n')
    Path("one.txt").write_text("one\ntwo, three\n")
    assert cdec(*words, "one.csv", "--no-header").stdout == cdec(*words, "one.txt").stdout
    refused = cdec(*words, "one.txt", "--no-header")
    assert (refused.status, refused.error_code) == (2, "E_USAGE")
    assert cdec("compile-set", "one.txt", "--no-header").status == 2


# --- Whole runs that write Parquet, killed in the middle: what --resume makes of what is left.

RECORDS = heavy_or(30, 300)
KILLS = heavy_or(1, 40)
GROUP = 7
NAMES = ("id", "index", "text", "seed", "logprob")
CODE = f"""
import runpy, sys
from cdec.data.output import parquet
parquet.GROUP_ROWS = {GROUP}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs ``light.py`` with row groups that a short run fills."""


def _start(folder: Path, *more: str, seconds: float = 0.02) -> subprocess.Popen[bytes]:
    words = ["sample", "-a", "letters.arrow", "-i", "p.jsonl", "--batch-size", "2", "-n", "2"]
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(Path(light.__file__)), str(seconds), *words, *more],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _rows(place: Path) -> list[Any]:
    rows = ParquetFile(place).read(use_threads=False).to_pylist()
    return [[str(row[name]) for name in NAMES] for row in rows]


def _groups(folder: Path) -> list[Path]:
    return sorted(folder.glob("out.parquet.parts/[0-9]*.parquet"))


@pytest.mark.slow
def test_a_killed_run_is_gone_on_with_without_loss_or_repetition(
    cdec: Runner, letters: Path, tmp_path: Path
) -> None:
    lines = (json.dumps({"id": f"r{i}", "prompt": f"p{i}"}) + "\n" for i in range(RECORDS))
    (tmp_path / "p.jsonl").write_text("".join(lines))
    output, rng, killed = tmp_path / "out.parquet", random.Random(3), 0
    parts = tmp_path / "out.parquet.parts"
    for attempt in range(KILLS):
        resume = ["--resume"] if attempt else []
        before = {path.name: path.stat().st_ino for path in _groups(tmp_path)}
        running = _start(tmp_path, "-o", output.name, *resume)
        # In the middle of what is written: once there is a group more, or a bit later.
        deadline = time.monotonic() + 60
        while running.poll() is None and len(_groups(tmp_path)) <= len(before):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.03))
        running.kill()
        running.communicate(timeout=20)
        killed += running.returncode == -9
        if output.exists():
            break
        # Groups that stood there stand, each a file that any program reads.
        after = {path.name: path.stat().st_ino for path in _groups(tmp_path)}
        assert after.items() >= before.items()
        assert all(len(_rows(path)) == GROUP for path in _groups(tmp_path))
    assert killed >= 1
    final = _start(tmp_path, "-o", output.name, "--resume", seconds=0)
    _, stderr = final.communicate(timeout=120)
    assert final.returncode == 0, stderr
    assert not parts.exists()
    words = ("-i", tmp_path / "p.jsonl", "--batch-size", "2", "-n", "2")
    whole = cdec("sample", "-a", letters, *words).records
    assert _rows(output) == [[str(record[name]) for name in NAMES] for record in whole]
    assert len(whole) == 2 * RECORDS


# --- JSON arrays and quoted texts as the input of every command that reads prompts or texts.

JSON_RECORDS = [{"id": 0, "prompt": "one"}, {"id": 1, "prompt": "two"}]


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_is_drawn_for_as_its_records(
    cdec: Runner, letters: Path, indent: int | None
) -> None:
    Path("dump.json").write_text(json.dumps(JSON_RECORDS, indent=indent))
    Path("p.jsonl").write_text("".join(json.dumps(record) + "\n" for record in JSON_RECORDS))
    for words in (("sample", "-a", letters), ("classify", "-a", letters)):
        expected = cdec(*words, "-i", "p.jsonl")
        found = cdec(*words, "-i", "dump.json")
        assert (found.status, found.stdout) == (0, expected.stdout)
        assert len(found.records) == 2


def test_an_array_on_stdin_is_named_as_one(cdec: Runner, letters: Path) -> None:
    data = json.dumps(JSON_RECORDS).encode()
    found = cdec("sample", "-a", letters, "--input-format", "json", stdin=data)
    assert [record["id"] for record in found.records] == [0, 1]
    assert "W_LOOKS_LIKE_JSON" in cdec("sample", "-a", letters, stdin=data).stderr


def test_a_quoted_line_is_a_text(cdec: Runner, letters: Path) -> None:
    Path("p.jsonl").write_text('"one"\n')
    Path("p.txt").write_text("one\n")
    found = cdec("sample", "-a", letters, "-i", "p.jsonl")
    assert (found.status, found.stdout) == (0, cdec("sample", "-a", letters, "-i", "p.txt").stdout)


def test_text_in_a_file_named_jsonl_is_an_error_that_says_how_it_is_read(
    cdec: Runner, letters: Path
) -> None:
    Path("p.jsonl").write_text("one\n")
    (record,) = cdec("sample", "-a", letters, "-i", "p.jsonl").records
    assert record["error"]["code"] == "E_JSON"
    assert "--input-format lines" in record["error"]["hint"]
    assert (
        "error"
        not in cdec("sample", "-a", letters, "-i", "p.jsonl", "--input-format", "lines").records[0]
    )


@pytest.mark.parametrize("words", [("score", "--prompt", "one"), ("retokenize",)])
def test_texts_of_an_array_are_those_of_its_lines(cdec: Runner, words: tuple[str, ...]) -> None:
    Path("t.json").write_text('["ab", {"text": "b"}]')
    Path("t.txt").write_text('["ab", {"text": "b"}]')
    Path("t.jsonl").write_text('"ab"\n{"text": "b"}\n')
    words = (*words, "-i")
    expected = cdec(*words, "t.jsonl")
    assert expected.status == 0
    assert cdec(*words, "t.json").stdout == expected.stdout
    assert cdec(*words, "t.txt", "--input-format", "json").stdout == expected.stdout


def test_entities_and_texts_to_check_come_from_an_array(cdec: Runner) -> None:
    Path("cities.json").write_text('["Paris", {"text": "Rome"}]')
    assert cdec("compile-set", "cities.json", "-o", "c.arrow").status == 0
    found = cdec("check", "c.arrow", "-i", "cities.json").records
    assert [(record["text"], record["valid"]) for record in found] == [
        ("Paris", True),
        ("Rome", True),
    ]
    Path("cities.jsonl").write_text('"Paris"\n"Oslo"\n')
    found = cdec("check", "c.arrow", "-i", "cities.jsonl").records
    assert [record["valid"] for record in found] == [True, False]
    labels = cdec("classify", "cities.json", "--prompt", "one").records[0]["labels"]
    assert {label["text"] for label in labels} == {"Paris", "Rome"}

"""Forms of prompts and of outputs."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdec.core.record_fields import fields_of
from cdec.data.assets import embedded_model_path
from cdec.data.input.decompress import SUFFIXES
from cdec.data.output.compress import plain_chunks
from cdec.data.output.writer import records_path
from tests.cli.conftest import Result, Runner
from tests.laws.rounding import near

# --- Prompts as they are typed: chat form of bare questions, files, newlines spelled out.

ASKED = "What is the capital of Italy?"
FORMED = f"Question: {ASKED}\nAnswer:"
GREEDY = ("--method", "greedy", "--fields", "text,logprob")


def manifest_of(path: Path) -> dict[str, object]:
    return json.loads(Path(f"{path}.manifest.json").read_text())["config"]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("command", ["sample", "mass", "score"])
def test_a_bare_question_is_asked_as_in_the_training(
    cdec: Runner, cities: Path, command: str
) -> None:
    bare, formed = (
        cdec(
            command,
            "-a",
            cities,
            stdin=json.dumps({"id": 1, "prompt": text, "text": "Rome"}).encode(),
        )
        for text in (ASKED, FORMED)
    )
    assert bare.status == formed.status == 0
    (one,), (other,) = bare.records, formed.records
    assert one == other
    if command != "mass":
        assert one["text"] == "Rome"


def test_raw_leaves_it_as_it_is_typed(cdec: Runner, cities: Path) -> None:
    lines = json.dumps({"id": 1, "prompt": ASKED}).encode() + b"\n"
    words = ("sample", "-a", cities, "--method", "greedy", "-o")
    forms = {"o.jsonl": (), "raw.jsonl": ("--raw",), "chat.jsonl": ("--chat",)}
    for name, more in forms.items():
        assert cdec(*words, name, *more, stdin=lines).status == 0
    found = {name: json.loads(Path(name).read_text()) for name in forms}
    assert found["o.jsonl"]["logprob"] == found["chat.jsonl"]["logprob"]
    assert found["raw.jsonl"]["logprob"] < found["o.jsonl"]["logprob"]
    said = [manifest_of(Path(name))["prompt_form"] for name in forms]
    assert said == ["questions", "text", "chat"]
    changed = cdec(*words, "raw.jsonl", "--resume", stdin=lines)
    assert changed.error_code == "E_RESUME_MISMATCH"
    assert "prompt_form" in changed.stderr
    both = cdec("sample", "-a", cities, "--prompt", ASKED, "--raw", "--chat")
    assert (both.status, both.error_code) == (2, "E_USAGE")


def test_chat_without_a_template_says_so(cdec: Runner, cities: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(embedded_model_path(), folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    words = ("sample", "-a", cities, "-m", folder, "--prompt", ASKED)
    refused = cdec(*words, "--chat")
    assert (refused.status, refused.error_code) == (2, "E_NO_CHAT_TEMPLATE")
    assert "--chat puts prompts into the chat template, and the tokenizer has none" in (
        refused.stderr
    )
    assert cdec(*words).status == 0


@pytest.mark.usefixtures("loaded")
def test_a_file_is_one_prompt(cdec: Runner, cities: Path, embedded_model: Any) -> None:
    Path("one.txt").write_bytes(b"\xef\xbb\xbf" + FORMED.encode() + b"\n")
    words = ("sample", "-a", cities, *GREEDY)
    (typed,) = cdec(*words, "--prompt", FORMED).records
    assert cdec(*words, "--prompt-file", "one.txt").records == [typed]
    several = ("--prompt", FORMED, "--prompt-file", "one.txt", "--prompt-file", "-")
    together = cdec(*words, *several, stdin=FORMED.encode()).records
    # A batch of three may round otherwise than one of one, on some processors.
    assert [record["text"] for record in together] == [typed["text"]] * 3
    events = 1 + len(embedded_model.vocabulary.encode([typed["text"]])[0])
    logs = [record["logprob"] for record in together]
    assert logs == near([typed["logprob"]] * 3, events)
    score = ("score", "-a", cities, "-i", "texts.txt", "--fields", "logprob")
    Path("texts.txt").write_bytes(b"Rome\n")
    assert cdec(*score, "--prompt-file", "one.txt").records == (
        cdec(*score, "--prompt", FORMED).records
    )


def test_newlines_stay_and_spelled_ones_are_warned_of(cdec: Runner, letters: Path) -> None:
    for command in ("sample", "mass", "score"):
        words = (command, "-a", letters, "--prompt")
        spelled = cdec(*words, r"a\nb", stdin=b"a\n")
        assert "warning W_SPELLED_NEWLINE: --prompt holds a backslash" in spelled.stderr
        for fine in ("a\nb", "a\n\\n", "a"):
            assert "W_SPELLED" not in cdec(*words, fine, stdin=b"a\n").stderr


# --- Outputs by the name: CSV and TSV with the input's columns, compressed lines; all else
# refused.

INPUT = 'id,prompt,n,gold,text\na,one,2,=1+1,x\nb,two,,"q,""z",y\nc,,0,,\n'
"""The last row asks for no draws, which is an error."""


def rows_of(path: str, separator: str = ",") -> list[dict[str, str]]:
    text = b"".join(plain_chunks(Path(path))).decode()
    return list(csv.DictReader(text.splitlines(keepends=True), delimiter=separator))


@pytest.fixture
def drawn(cdec: Runner, letters: Path) -> list[Any]:
    Path("p.csv").write_text(INPUT)
    found = cdec("sample", "-a", letters, "-i", "p.csv")
    assert found.status == 3
    return found.records


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.csv.gz", "O.CSV"])
def test_csv_has_the_samples_as_rows(
    cdec: Runner, letters: Path, drawn: list[Any], name: str
) -> None:
    assert cdec("sample", "-a", letters, "-i", "p.csv", "-o", name).status == 3
    found = rows_of(name, "\t" if "tsv" in name else ",")
    assert [row["id"] for row in found] == ["a", "a", "b", "c"]
    for row, record in zip(found, drawn, strict=True):
        if "error" in record:
            assert row["error"] == f"E_FIELD: {record['error']['message']}"
            continue
        assert row["text"] == record["text"]
        assert float(row["logprob"]) == record["logprob"]
        assert row["valid"] == json.dumps(record["valid"])
        assert json.loads(row["token_ids"]) == record["token_ids"]
        assert json.loads(row["input"]) == record["input"]
    filled = {name for record in drawn for name, value in record.items() if value is not None}
    assert {*found[0]} == filled, "columns without a value are left out"
    assert not records_path(Path(name)).exists()


def test_rows_begin_with_the_columns_of_the_input(
    cdec: Runner, letters: Path, drawn: list[Any]
) -> None:
    words = ("sample", "-a", letters, "-i", "p.csv", "-o", "o.csv", "--keep-input")
    assert cdec(*words, "--fields", "id,index,text").status == 3
    header, *_ = Path("o.csv").read_text().splitlines()
    assert header == "id,prompt,n,gold,input.text,index,text,error"
    found = rows_of("o.csv")
    assert [row["prompt"] for row in found] == ["one", "one", "two", ""]
    assert [row["gold"] for row in found] == ["'=1+1", "'=1+1", 'q,"z', ""], "no formula runs"
    assert [row["input.text"] for row in found] == ["x", "x", "y", ""]
    assert [row["text"] for row in found[:3]] == [record["text"] for record in drawn[:3]]
    assert found[3]["n"] == "0", "of a record that failed, too"
    Path("p.txt").write_text("one\n")
    words = ("sample", "-a", letters, "-i", "p.txt", "-o", "t.csv", "--keep-input")
    assert cdec(*words, "--fields", "text").status == 0
    assert Path("t.csv").read_text().splitlines()[0] == "prompt,text"


@pytest.mark.share(2)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed_lines_are_those_of_a_plain_file(
    cdec: Runner, letters: Path, drawn: list[Any], suffix: str
) -> None:
    name = f"o.jsonl{suffix}"
    assert cdec("sample", "-a", letters, "-i", "p.csv", "-o", name).status == 3
    assert cdec("sample", "-a", letters, "-i", "p.csv", "-o", "o.jsonl").status == 3
    assert b"".join(plain_chunks(Path(name))) == Path("o.jsonl").read_bytes()
    assert Path(name).read_bytes() != Path("o.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl.zst"])
def test_resume_goes_on_with_a_finished_file(cdec: Runner, letters: Path, name: str) -> None:
    lines = ["id,prompt", "=a,one", "2,two", "c,three"]
    Path("p.csv").write_text("\n".join(lines[:2]))
    words = ("sample", "-a", letters, "-i", "p.csv", "--resume", "-o")
    assert cdec(*words, name).status == 0
    Path("p.csv").write_text("\n".join(lines))
    assert cdec(*words, name).status == 0
    found = b"".join(plain_chunks(Path(name)))
    assert cdec(*words, f"whole-{name}").status == 0
    assert found == b"".join(plain_chunks(Path(f"whole-{name}")))
    assert cdec(*words, name).status == 0
    assert found == b"".join(plain_chunks(Path(name)))


@pytest.mark.parametrize("name", ["o.arrow", "o.xlsx", "o.json.zip", "o.parquet.gz", "o.arrow.zst"])
def test_other_forms_are_refused_with_what_is_possible(cdec: Runner, name: str) -> None:
    found = cdec("sample", "--model", "no/such/model", "--prompt", "x", "-o", name)
    assert (found.status, found.error_code) == (2, "E_USAGE")
    assert ".csv or .tsv" in found.stderr
    assert not Path(name).exists()


def test_classify_writes_a_csv_of_a_csv(cdec: Runner, letters: Path) -> None:
    Path("p.csv").write_text("id,prompt,note\n1,one,@x\n2,two,\n3,,z\n")
    words = ("classify", "-a", letters, "-i", "p.csv", "--top", "1")
    assert cdec(*words, "-o", "o.csv", "--keep-input").status == 0
    found = rows_of("o.csv")
    assert [*found[0]][:4] == ["id", "prompt", "note", "rank"]
    assert [row["note"] for row in found] == ["'@x", "", "z"]
    records = cdec(*words).records
    assert [row["label"] for row in found] == [record["label"] for record in records]
    assert cdec(*words, "-o", "o.csv").error_code == "E_EXISTS"
    few = ("--fields", "id,label")
    assert cdec(*words, "-o", "o.csv", "--force", *few).status == 0
    assert Path("o.csv").read_text().splitlines()[0] == "id,label"
    csv_rows = cdec(*words, "--format", "csv", *few).stdout.decode()
    assert csv_rows == Path("o.csv").read_text()
    assert cdec(*words, "-o", "o.jsonl.gz").status == 0
    lines = b"".join(plain_chunks(Path("o.jsonl.gz")))
    assert [json.loads(line) for line in lines.splitlines()] == records
    assert cdec(*words, "-o", "o.parquet").status == 2
    assert cdec(*words, "-o", "p.csv", "--force").status == 2, "it is the input"


def test_batch_files_and_traces_are_lines(cdec: Runner, letters: Path) -> None:
    assert "are lines of JSON" in cdec("sample", "--openai-batch", "-o", "o.csv").stderr
    words = ("sample", "-a", letters, "--prompt", "x", "--trace", "t.jsonl.gz")
    assert "--trace writes JSON lines" in cdec(*words).stderr


def test_a_table_without_records_has_all_columns(cdec: Runner, letters: Path) -> None:
    Path("p.jsonl").write_text("")
    assert cdec("sample", "-a", letters, "-i", "p.jsonl", "-o", "o.csv").status == 0
    assert Path("o.csv").read_text() == ",".join(fields_of("sample")) + "\n"


# --- Files that a command writes are none of those that it reads, whatever `--force` allows.


def refused(result: Result, what: str) -> None:
    assert (result.status, result.error_code) == (2, "E_USAGE"), result.stderr
    assert f"would be the {what} and is an input" in result.stderr


@pytest.fixture
def artifact(cities: Path) -> Path:
    """A copy of an artifact in the working directory."""
    path = Path("own.arrow")
    path.write_bytes(cities.read_bytes())
    return path


def test_a_trace_does_not_replace_what_the_run_reads(cdec: Runner, artifact: Path) -> None:
    Path("t.txt").write_text("{a}\n")
    Path("i.jsonl").write_text('{"a": "x"}\n')
    Path("link.jsonl").symlink_to(artifact)
    before = artifact.read_bytes()
    words = ("sample", "-a", artifact, "--template", "t.txt", "-i", "i.jsonl", "--method", "masked")
    for name in ("t.txt", "i.jsonl", "link.jsonl"):
        refused(cdec(*words, "--trace", name, "--force"), "trace")
        refused(cdec(*words, "-o", name, "--force"), "output")
    for flag in ("--trace", "-o"):
        assert cdec(*words, flag, artifact, "--force").status == 2, "no output is named so"
    assert artifact.read_bytes() == before


def test_counts_do_not_replace_what_the_run_reads(cdec: Runner, artifact: Path) -> None:
    words = ("sample", "-a", artifact, "--prompt", "x", "--method", "speculative")
    counts = ("--draft", "counts", "--save-counts", artifact, "--force")
    refused(cdec(*words, *counts), "file of counts")


def test_the_page_of_a_trace_does_not_replace_it(cdec: Runner, artifact: Path) -> None:
    drawn = cdec(
        *("sample", "-a", artifact, "--prompt", "x", "--method", "masked"), "--trace", "t.jsonl"
    )
    assert drawn.status == 0, drawn.stderr
    before = Path("t.jsonl").read_bytes()
    refused(cdec("trace", "t.jsonl", "--html", "t.jsonl", "--force"), "page")
    assert Path("t.jsonl").read_bytes() == before

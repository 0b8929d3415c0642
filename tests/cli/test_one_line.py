"""Constraints given by their source on the command line: compiled, kept, opened again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdec.cli.compiling import kept
from cdec.cli.compiling.kept import KeptArtifacts
from cdec.cli.in_place import parse_choices
from cdec.compilers.child import compiler
from cdec.compilers.sets import compile as sets
from cdec.compilers.sets import corpus as corpora
from cdec.core.artifacts.opened import read_artifact
from cdec.core.errors import UsageError

from .conftest import Runner

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["a"],
    "additionalProperties": False,
}
SOURCES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "schema": ("person.json", ("--schema", "person.json"), ("compile-schema", "person.json")),
    "grammar": ("ab.lark", ("--grammar", "ab.lark"), ("compile-grammar", "ab.lark")),
    "regex": ("", ("--regex", "[A-C]{2}-[0-9]"), ("compile-regex", "[A-C]{2}-[0-9]")),
    "choices": ("names.txt", ("--choices", "red,green,red,blue"), ("compile-set", "names.txt")),
    "file": ("names.txt", ("--choices-file", "names.txt"), ("compile-set", "names.txt")),
    "documents": (
        "pages.txt",
        ("--spans-of", "pages.txt", "--span-whole", "words"),
        ("compile-spans", "pages.txt", "--span-whole", "words"),
    ),
}
"""Case → the file to be there, the words of one line, and those that compile an artifact."""
CONTENTS = {
    "person.json": json.dumps(SCHEMA),
    "ab.lark": 'start: "a"+ | "b" " "?\nWS: " "\n%ignore WS\n',
    "names.txt": "red\ngreen\nred\nblue\n",
    "pages.txt": "red and green\nblue, red\n",
}
SAMPLE = ("sample", "--method", "masked", "-n", "3", "--prompt", "x", "--max-new-tokens", "12")

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test an empty cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CDEC_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def work(cdec: Runner) -> Path:
    """Write the sources into the working directory."""
    for name, text in CONTENTS.items():
        Path(name).write_text(text)
    return Path()


def entries(cache: Path) -> list[Path]:
    """Return the artifacts that are kept."""
    return sorted((cache / "compiled").glob("*.arrow"))


@pytest.fixture
def compiled_nothing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes every further compilation fail."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was compiled")

    def forbid() -> None:
        monkeypatch.setattr(compiler, "ChildCompiler", refuse)
        monkeypatch.setattr(sets, "compile_set", refuse)
        monkeypatch.setattr(corpora, "compile_spans", refuse)

    return forbid


@pytest.mark.share(2)
@pytest.mark.parametrize("case", SOURCES)
def test_records_are_those_of_the_compiled_artifact(
    cdec: Runner, work: Path, cache: Path, case: str
) -> None:
    _, words, compiling = SOURCES[case]
    assert cdec(*compiling, "-o", "of-file.arrow").status == 0
    named = cdec(*SAMPLE, "-a", "of-file.arrow")
    given = cdec(*SAMPLE, *words)
    assert (named.status, given.status) == (0, 0), given.stderr
    assert given.stdout == named.stdout and len(given.records) == 3
    (entry,) = entries(cache)
    of_file, of_cache = read_artifact("of-file.arrow"), read_artifact(entry)
    assert of_file.arrays.keys() == of_cache.arrays.keys()
    for name, array in of_file.arrays.items():
        assert np.array_equal(array, of_cache.arrays[name]), name


@pytest.mark.share(2)
@pytest.mark.parametrize("case", SOURCES)
def test_a_second_run_compiles_nothing(
    cdec: Runner, work: Path, compiled_nothing: Callable[[], None], case: str
) -> None:
    first = cdec(*SAMPLE, *SOURCES[case][1])
    compiled_nothing()
    again = cdec(*SAMPLE, *SOURCES[case][1])
    assert (first.status, again.status) == (0, 0), again.stderr
    assert again.stdout == first.stdout


def test_other_content_options_or_kinds_are_compiled_anew(
    cdec: Runner, work: Path, cache: Path
) -> None:
    runs: list[tuple[str, ...]] = [
        ("--schema", "person.json"),
        ("--schema", "person.json", "--whitespace", "compact"),
        ("--grammar", "ab.lark"),
        ("--grammar", "ab.lark", "--max-whitespace", "2"),
        ("--regex", "ab"),
        ("--choices", "ab"),
    ]
    for count, words in enumerate(runs, 1):
        assert cdec(*SAMPLE, *words).status == 0
        assert len(entries(cache)) == count, words
    Path("elsewhere.json").write_text(CONTENTS["person.json"])
    assert cdec(*SAMPLE, "--schema", "elsewhere.json").status == 0
    assert len(entries(cache)) == len(runs)
    Path("person.json").write_text(json.dumps(SCHEMA | {"properties": {"a": {"const": 3}}}))
    assert cdec(*SAMPLE, "--schema", "person.json").records[0]["text"].endswith("3}")
    assert len(entries(cache)) == len(runs) + 1


def test_a_file_of_texts_is_read_by_its_name(cdec: Runner, cache: Path) -> None:
    for name in ("of.txt", "of.csv"):
        Path(name).write_text("text\nred\n")
    as_lines = cdec("check", "--choices-file", "of.txt", stdin=b"text\n")
    as_table = cdec("check", "--choices-file", "of.csv", stdin=b"text\n")
    assert as_lines.records[0]["valid"] and not as_table.records[0]["valid"]
    assert len(entries(cache)) == 2


def test_texts_of_a_named_pipe_are_read_once(cdec: Runner, cache: Path) -> None:
    os.mkfifo("pipe.txt")
    for _ in range(2):
        with subprocess.Popen(["sh", "-c", "printf 'red\\ngreen\\n' > pipe.txt"]):
            result = cdec("check", "--choices-file", "pipe.txt", stdin=b"green\nblue\n")
        assert [record["valid"] for record in result.records] == [True, False]
    assert len(entries(cache)) == 1


def test_documents_are_quoted_as_an_artifact_of_them_is(cdec: Runner, cache: Path) -> None:
    Path("pages.jsonl").write_text(
        '{"id": "a", "text": "One fjord. Two rivers."}\n{"id": "b", "text": "A fjord, too."}\n'
    )
    words = ("--spans-of", "pages.jsonl", "--span-whole", "words", "--span-longest", "2")
    for stdin, found in ((b"Two rivers\nTwo riv\n", [True, False]), (b"fjord\n", [True])):
        result = cdec("check", *words, stdin=stdin)
        assert [record["valid"] for record in result.records] == found, result.stderr
    assert result.records[0]["span"]["documents"] == 2
    record = b'{"prompt": "x", "candidates": {"documents": ["2"]}}\n'
    drawn = cdec("sample", *words, "--method", "masked", "-n", "4", stdin=record)
    assert drawn.status == 0, drawn.stderr
    found = {one["document"] for each in drawn.records for one in each["span"]["found"]}
    assert found == {"2"} and len(entries(cache)) == 1
    scored = cdec("score", *words, "--prompt", "x", stdin=b"A fjord\nA\n \n")
    assert [each["member"] for each in scored.records] == [True, True]
    assert cdec("mass", *words, "--prompt", "x").records[0]["log_mass"] < 0
    piped = cdec("check", "--spans-of", "-", stdin=b"")
    assert piped.error_code == "E_USAGE"
    told = cdec(*SAMPLE, "--spans-of", "-", stdin=b"a\n")
    assert [record["text"] for record in told.records] == ["a"] * 3


def test_a_table_is_known_by_its_content(cdec: Runner, cache: Path) -> None:
    for text in ("red", "green", "red"):
        pq.write_table(pa.table({"text": [text]}), "names.parquet")
        result = cdec("check", "--choices-file", "names.parquet", stdin=text.encode() + b"\n")
        assert result.records[0]["valid"], result.stderr
    assert len(entries(cache)) == 2


def test_texts_that_can_be_read_once_are(cdec: Runner, cache: Path) -> None:
    words = ("sample", "--method", "masked", "--prompt", "x", "--choices-file", "-")
    assert cdec(*words, stdin=b"red\n").records[0]["text"] == "red"
    assert cdec(*words, stdin=b"green\n").records[0]["text"] == "green"
    assert cdec(*words, stdin=b"red\n").records[0]["text"] == "red"
    assert len(entries(cache)) == 2


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("red", ("red",)),
        ("red, green ,blue", ("red", "green", "blue")),
        ('"Paris, Texas",Rome', ("Paris, Texas", "Rome")),
        ('"say ""no""", 5" pipe', ('say "no"', '5" pipe')),
        ('" red ",red', (" red ", "red")),
        ("a\nb,c", ("a\nb", "c")),
    ],
)
def test_choices_stand_between_commas_in_quotes_where_they_hold_one(
    text: str, texts: tuple[str, ...]
) -> None:
    assert parse_choices(text) == texts


@pytest.mark.parametrize(
    "text", ["", " ", ",", "red,", "red,,blue", '"",red', '" "', '"red', '"a"b']
)
def test_choices_without_text_or_end_are_refused(cdec: Runner, text: str) -> None:
    with pytest.raises(UsageError):
        parse_choices(text)
    result = cdec("check", "--choices", text, stdin=b"red\n")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "--choices" in result.stderr and result.stdout == b""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-a", "x.arrow", "--regex", "a"), "an artifact and --regex each say"),
        (("--schema", "person.json", "--choices", "a"), "--schema and --choices each say"),
        (("--regex", "a", "--lenient"), "--lenient is about a schema"),
        (("--choices", "a", "--max-whitespace", "2"), "--max-whitespace is about a grammar"),
        (("--regex", b"\xff".decode("utf-8", "surrogateescape")), "--regex is not valid UTF-8"),
        (("--regex", "a", "--engine", "ray", "-o", "parts"), "--regex is compiled into the cache"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    cdec: Runner, work: Path, words: tuple[str, ...], said: str
) -> None:
    result = cdec("sample", "--prompt", "x", *words)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert said in result.stderr


def test_one_input_is_read_from_stdin(cdec: Runner) -> None:
    assert cdec("sample", "--schema", "-", stdin=b"{}").error_code == "E_USAGE"
    assert cdec("mass", "--grammar", "-", stdin=b"{}").error_code == "E_USAGE"
    assert cdec("check", "--choices-file", "-", stdin=b"a\n").error_code == "E_USAGE"
    assert cdec("score", "--schema", "-", "-i", "-", stdin=b"{}").error_code == "E_USAGE"
    read = cdec(*SAMPLE, "--schema", "-", stdin=b'{"const": "x"}')
    assert [record["text"] for record in read.records] == ['"x"'] * 3


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("name", "content", "flag", "command"),
    [
        ("bad.json", b'{"type": "objec"}', "--schema", "compile-schema"),
        ("bad.json", b'{"a": \n1,}', "--schema", "compile-schema"),
        ("bad.json", b'{"not": {"$dynamicRef": "#x"}}', "--schema", "compile-schema"),
        ("bad.lark", b'start: "a" b\n', "--grammar", "compile-grammar"),
        ("bad.gbnf", b"root ::= other\n", "--grammar", "compile-grammar"),
        ("bad.lark", b'{"type": "object"}', "--grammar", "compile-grammar"),
        ("bad.txt", b"a\n\xff\n", "--choices-file", "compile-set"),
        ("bad.txt", b"", "--choices-file", "compile-set"),
        ("nowhere.json", None, "--schema", "compile-schema"),
        ("nowhere.txt", None, "--choices-file", "compile-set"),
        ("a folder", None, "--schema", "compile-schema"),
    ],
)
def test_errors_are_those_of_the_compile_commands(
    cdec: Runner, cache: Path, name: str, content: bytes | None, flag: str, command: str
) -> None:
    Path("d", "a folder").mkdir(parents=True)
    if content is not None:
        Path("d", name).write_bytes(content)
    told = cdec(command, f"d/{name}", "-o", "x.arrow")
    given = cdec(*SAMPLE, flag, f"d/{name}")
    assert (given.status, given.error_code) == (told.status, told.error_code)
    errors = [re.findall("^error .*", each.stderr, re.MULTILINE) for each in (told, given)]
    assert errors[0] == errors[1] and given.stdout == b""
    assert entries(cache) == []


def test_errors_of_patterns_are_those_of_compile_regex(cdec: Runner) -> None:
    for pattern in ("(a", "(?=a)b", "[^\\s\\S]"):
        told = cdec("compile-regex", pattern, "-o", "x.arrow").stderr.replace(
            "tokenizer: embedded\n", ""
        )
        given = cdec(*SAMPLE, "--regex", pattern)
        assert given.status != 0 and given.stderr == told


def test_what_is_not_enforced_is_told_as_of_an_artifact(cdec: Runner) -> None:
    Path("loose.json").write_text(json.dumps({"type": "string", "format": "idn-hostname"}))
    compiled = cdec("compile-schema", "loose.json", "--lenient")
    named = cdec(*SAMPLE, "-a", "loose.arrow")
    given = cdec(*SAMPLE, "--schema", "loose.json", "--lenient")
    assert given.stdout == named.stdout and named.status == 0
    warnings = [line for line in compiled.stderr.splitlines() if line.startswith("warning")]
    assert warnings and set(warnings) <= set(given.stderr.splitlines())


# --- The cache.


def test_a_cache_that_cannot_be_written_costs_time_alone(
    cdec: Runner, work: Path, cache: Path
) -> None:
    expected = cdec(*SAMPLE, "--schema", "person.json").stdout
    names = cdec(*SAMPLE, "--choices-file", "names.txt").stdout
    for entry in (cache / "compiled").iterdir():
        entry.unlink()
    (cache / "compiled").rmdir()
    (cache / "compiled").write_text("no folder")
    for words, said in ((("--schema", "person.json"), expected), (SOURCES["file"][1], names)):
        result = cdec(*SAMPLE, *words)
        assert (result.status, result.stdout) == (0, said)
        assert result.stderr.count("W_CACHE") == 1


def test_a_folder_that_others_may_write_to_is_not_read(
    cdec: Runner, work: Path, cache: Path
) -> None:
    assert cdec(*SAMPLE, "--schema", "person.json").status == 0
    (cache / "compiled").chmod(0o777)
    again = cdec(*SAMPLE, "--schema", "person.json")
    assert again.status == 0 and "others may write to it" in again.stderr


@pytest.mark.share(1)
@pytest.mark.parametrize("case", ["schema", "file"])
def test_a_damaged_entry_is_compiled_anew(
    cdec: Runner, work: Path, cache: Path, compiled_nothing: Callable[[], None], case: str
) -> None:
    words = (*SAMPLE, *SOURCES[case][1])
    first = cdec(*words)
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damaged in (b"", b"nothing", whole[: len(whole) // 2], changed):
        entry.write_bytes(damaged)
        result = cdec(*words)
        assert (result.status, result.stdout) == (0, first.stdout)
        assert entry.read_bytes() == whole
    compiled_nothing()
    assert cdec(*words).stdout == first.stdout


def test_an_entry_of_another_source_is_not_believed(cdec: Runner, work: Path, cache: Path) -> None:
    assert cdec(*SAMPLE, "--regex", "a").status == 0
    (of_a,) = entries(cache)
    assert cdec(*SAMPLE, "--regex", "b").status == 0
    (of_b,) = set(entries(cache)) - {of_a}
    of_b.write_bytes(of_a.read_bytes())
    assert cdec(*SAMPLE, "--regex", "b").records[0]["text"] == "b"


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    folder = KeptArtifacts(max_bytes=250, within=tmp_path)
    for number, name in enumerate(("a.arrow", "b.arrow")):
        folder.place(name).write_bytes(bytes(100))
        folder.kept(name)
        os.utime(tmp_path / "compiled" / f"{name[0]}.used", (number, number))
    assert folder.find("a.arrow") is not None
    assert folder.find("c.arrow") is None
    folder.place("c.arrow").write_bytes(bytes(100))
    folder.kept("c.arrow")
    names = {path.name for path in (tmp_path / "compiled").iterdir()}
    assert names == {"a.arrow", "a.used", "c.arrow", "c.used"}
    folder.place("large.arrow").write_bytes(bytes(1000))
    folder.kept("large.arrow")
    assert {path.name for path in entries(tmp_path)} == {"large.arrow"}


def test_using_an_entry_leaves_it_verified(cdec: Runner, work: Path, cache: Path) -> None:
    for _ in range(2):
        assert cdec(*SAMPLE, "--schema", "person.json").status == 0
    (entry,) = entries(cache)
    used = entry.with_suffix(".used")
    assert used.stat().st_size == 0 and entry.stat().st_mode & 0o077 == 0
    assert used.stat().st_mtime_ns > entry.stat().st_mtime_ns


@pytest.mark.slow
def test_two_processes_may_compile_and_open_one_source(tmp_path: Path, cache: Path) -> None:
    code = "import sys; from cdec.cli.app import main; sys.exit(main(sys.argv[1:]))"
    words = (sys.executable, "-c", code, "check", "--regex", "[ab]{3}", "-q")
    started = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
        for _ in range(2)
    ]
    found = [json.loads(each.communicate(b"aba\n", timeout=300)[0]) for each in started]
    assert [each["valid"] for each in found] == [True, True]
    assert len(entries(cache)) == 1
    assert {path.suffix for path in (cache / "compiled").iterdir()} == {".arrow", ".used"}


def test_an_entry_that_goes_while_it_is_opened_is_compiled(
    cdec: Runner, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cdec(*SAMPLE, "--schema", "person.json").stdout

    def unkeep(self: KeptArtifacts, name: str) -> None:
        (self.path / name).unlink()

    monkeypatch.setattr(KeptArtifacts, "kept", unkeep)
    monkeypatch.setattr(KeptArtifacts, "find", lambda self, name: self.path / "gone.arrow")
    result = cdec(*SAMPLE, "--schema", "person.json")
    assert (result.status, result.stdout) == (0, expected)


def test_doctor_names_the_cache(cdec: Runner, work: Path, cache: Path) -> None:
    assert cdec(*SAMPLE, "--schema", "person.json").status == 0
    found = json.loads(cdec("doctor", "--json").stdout)["caches"]["compiled"]
    assert found.startswith(f"{cache / 'compiled'}: 1 artifact, ") and " of 4.0 GiB" in found


def test_limits_of_compiling_hold(cdec: Runner, work: Path) -> None:
    result = cdec(*SAMPLE, "--grammar", "ab.lark", "--max-grammar-bytes", "5")
    assert (result.status, result.error_code) == (75, "E_LIMIT")


# --- What runs record, and what a folder says.


def test_a_run_resumes_with_the_same_source_alone(
    cdec: Runner, work: Path, cache: Path, compiled_nothing: Callable[[], None]
) -> None:
    words = ("sample", "--method", "masked", "-i", "prompts.txt", "-o", "out.jsonl")
    words += ("--batch-size", "1")
    Path("prompts.txt").write_text("x\ny\n")
    assert cdec(*words, "--schema", "person.json").status == 0
    written = Path("out.jsonl").read_bytes()
    Path("out.jsonl").write_bytes(written.splitlines(keepends=True)[0])
    # What decides is the content, not its place, nor whether it is still kept.
    Path("moved.json").write_text(CONTENTS["person.json"])
    for entry in entries(cache):
        entry.unlink()
    assert cdec(*words, "--schema", "moved.json", "--resume").status == 0
    assert Path("out.jsonl").read_bytes() == written
    Path("person.json").write_text(json.dumps(SCHEMA | {"minProperties": 1}))
    changed = cdec(*words, "--schema", "person.json", "--resume")
    assert (changed.status, changed.error_code) == (65, "E_RESUME_MISMATCH")
    assert "artifacts" in changed.stderr
    other = cdec(*words, "--choices", "a", "--resume")
    assert (other.status, other.error_code) == (65, "E_RESUME_MISMATCH")


def test_a_file_that_was_found_gives_way_to_what_is_typed(
    cdec: Runner, work: Path, cities: Path
) -> None:
    Path("cdec.toml").write_text('schema = "person.json"\n')
    assert cdec(*SAMPLE).records[0]["text"].lstrip().startswith("{")
    assert cdec(*SAMPLE, "--choices", "red").records[0]["text"] == "red"
    assert cdec(*SAMPLE, "-a", cities).status == 0
    assert cdec("run", cities, *SAMPLE[1:]).status == 0
    Path("cdec.toml").write_text(f'artifact = "{cities}"\n[check]\nregex = "a+"\n')
    assert cdec(*SAMPLE, "--choices", "red").records[0]["text"] == "red"
    both = cdec("check", stdin=b"aa\n")
    assert (both.status, both.error_code) == (2, "E_USAGE")
    Path("cdec.toml").write_text('[check]\nregex = "a+"\n')
    assert cdec("check", stdin=b"aa\n").records == [{"text": "aa", "valid": True}]


@pytest.mark.share(1)
@pytest.mark.parametrize("case", SOURCES)
def test_other_commands_say_what_they_say_of_the_artifact(
    cdec: Runner, work: Path, case: str
) -> None:
    _, words, compiling = SOURCES[case]
    assert cdec(*compiling, "-o", "of-file.arrow").status == 0
    texts = b'{"a": 3}\na\nAB-1\nred\nno\n'
    assert (
        cdec("check", *words, stdin=texts).stdout
        == cdec("check", "of-file.arrow", stdin=texts).stdout
    )
    for command in (("score", "--prompt", "x"), ("mass", "--prompt", "x", "--candidates", "8")):
        feed = texts if command[0] == "score" else b""
        named = cdec(*command, "-a", "of-file.arrow", stdin=feed)
        given = cdec(*command, *words, stdin=feed)
        assert (given.status, given.stdout) == (named.status, named.stdout)


def test_score_and_mass_read_sources_as_sample_does(cdec: Runner, work: Path) -> None:
    words = ("--schema", "person.json", "--whitespace", "compact")
    drawn = cdec(*SAMPLE, *words).records[0]["text"]
    text = json.dumps({"text": drawn}).encode()
    assert cdec("score", *words, "--prompt", "x", stdin=text).records[0]["member"]
    usual = cdec("mass", "--schema", "person.json", "--prompt", "x", "--candidates", "4")
    compact = cdec("mass", *words, "--prompt", "x", "--candidates", "4")
    assert usual.records[0]["mass_upper"] != compact.records[0]["mass_upper"]
    for command in ("score", "mass"):
        refused = cdec(command, "--whitespace", "compact", "--prompt", "x", stdin=b"x\n")
        assert refused.error_code == "E_USAGE", command


def test_check_compiles_for_the_tokenizer_that_is_named(cdec: Runner, cache: Path) -> None:
    text = b"abab\n"
    plain = cdec("check", "--regex", "[ab]+", stdin=text)
    named = cdec("check", "--regex", "[ab]+", "--tokenizer", "embedded", stdin=text)
    assert plain.stdout == named.stdout and len(entries(cache)) == 1
    steps = cdec("check", "--regex", "[ab]+", "--explain", "--json", stdin=text)
    assert steps.status == 0 and "".join(step["token"] for step in steps.records) == "abab"
    assert cdec("check", "--tokenizer", "embedded", stdin=text).error_code == "E_USAGE"


def test_a_shipped_grammar_is_called_by_its_name(cdec: Runner) -> None:
    result = cdec("check", "--grammar", "json", stdin=b"[1, 2]\n[1,\n")
    assert [record["valid"] for record in result.records] == [True, False]


def test_many_choices_are_a_set(cdec: Runner, cache: Path) -> None:
    Path("many.txt").write_text("".join(f"name {number}\n" for number in range(20_000)))
    result = cdec("check", "--choices-file", "many.txt", stdin=b"name 19999\nname 20000\n")
    assert [record["valid"] for record in result.records] == [True, False]
    (entry,) = entries(cache)
    assert read_artifact(entry).kind == "set" and entry.stat().st_size < kept.MAX_BYTES

"""Compiling again what is there: nothing to do, or what differs."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from .conftest import Runner

WORDS = "Paris\nRome\nOslo\n"
GRAMMAR = 'start: "a"+\n'
PAIRS = [("compile-set", "w.txt", WORDS), ("compile-grammar", "w.lark", GRAMMAR)]


@pytest.mark.parametrize(("command", "name", "text"), PAIRS)
def test_the_same_again_is_up_to_date(cdec: Runner, command: str, name: str, text: str) -> None:
    Path(name).write_text(text)
    first = cdec(command, name, "--json")
    assert (first.status, first.records[0]["up_to_date"]) == (0, False)
    before = Path("w.arrow").stat()
    again = cdec(command, name)
    assert (again.status, again.stdout) == (0, b"")
    assert "w.arrow is up to date\nnext: cdec sample -a w.arrow --prompt " in again.stderr
    (summary,) = cdec(command, name, "--json").records
    said = first.records[0] | {"seconds": {}, "notices": [], "up_to_date": True}
    assert summary == said
    assert Path("w.arrow").stat().st_mtime_ns == before.st_mtime_ns
    assert cdec(command, name, "--quiet").stderr == ""
    forced = cdec(command, name, "--force", "--json")
    assert (forced.status, forced.records[0]["up_to_date"]) == (0, False)
    assert Path("w.arrow").stat().st_ino != before.st_ino


@pytest.mark.parametrize(("command", "name", "text"), PAIRS)
def test_the_same_content_elsewhere_is_the_same(
    cdec: Runner, command: str, name: str, text: str
) -> None:
    Path(name).write_text(text)
    assert cdec(command, name).status == 0
    piped = cdec(command, "-", "-o", "w.arrow", stdin=text.encode())
    assert (piped.status, "up to date" in piped.stderr) == (0, True)
    other = cdec(command, "-", "-o", "w.arrow", stdin=text.encode() + b"\n")
    assert (other.status, other.error_code) == (73, "E_EXISTS")
    assert cdec(command, "-", "-o", "p.arrow", stdin=text.encode()).status == 0
    assert "up to date" in cdec(command, name, "-o", "p.arrow").stderr


@pytest.mark.parametrize(("command", "name", "text"), PAIRS)
def test_another_content_is_named(cdec: Runner, command: str, name: str, text: str) -> None:
    Path(name).write_text(text)
    cdec(command, name)
    before = Path("w.arrow").read_bytes()
    Path(name).write_text(text.replace("a", "b"))
    result = cdec(command, name)
    assert (result.status, result.error_code, result.stdout) == (73, "E_EXISTS", b"")
    assert "w.arrow exists and was compiled from another content of the source" in result.stderr
    assert "--force" in result.stderr
    assert Path("w.arrow").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suffix", ">"), "with --suffix '', not '>'"),
        (("--leading-space", "never"), "with --leading-space 'auto', not 'never'"),
        (("--normalize", "nfc"), "with --normalize 'none', not 'nfc'"),
        (("--bad-lines", "skip"), "with --bad-lines 'error', not 'skip'"),
        (("--keep-empty",), "with another --keep-empty"),
        (("--deny", "deny.txt"), "with another --deny"),
        (("--tokenizer", "other.json"), "is for another tokenizer"),
    ],
)
def test_what_differs_is_named(cdec: Runner, words: tuple[str, ...], said: str) -> None:
    Path("w.txt").write_text(WORDS)
    Path("deny.txt").write_text("Rome\n")
    _other_tokenizer("other.json")
    cdec("compile-set", "w.txt")
    result = cdec("compile-set", "w.txt", *words)
    assert (result.status, result.error_code) == (73, "E_EXISTS")
    assert said in result.stderr
    assert cdec("compile-set", "w.txt", *words, "--force").status == 0
    assert "up to date" in cdec("compile-set", "w.txt", *words).stderr


def test_what_changes_no_artifact_is_not_compared(cdec: Runner) -> None:
    Path("w.txt").write_text(WORDS)
    cdec("compile-set", "w.txt")
    same = ("--memory-limit", "1GB", "--max-entities", "10")
    assert "up to date" in cdec("compile-set", "w.txt", *same).stderr


def test_options_of_grammars_and_what_they_import_are_compared(cdec: Runner) -> None:
    Path("lib").mkdir()
    Path("lib/words.lark").write_text('WORD: "a"\n')
    Path("w.lark").write_text("%import .words.WORD\nstart: WORD\nother: WORD\n")
    words = ("compile-grammar", "w.lark", "--allow-imports", "lib")
    assert cdec(*words).status == 0
    assert "up to date" in cdec(*words).stderr
    assert "with --start left out, not 'other'" in cdec(*words, "--start", "other").stderr
    assert "with --lexer left out, not 'basic'" in cdec(*words, "--lexer", "basic").stderr
    Path("lib/words.lark").write_text('WORD: "b"\n')
    assert "with another --allow-imports" in cdec(*words).stderr


def test_formats_are_known_again(cdec: Runner) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"t": ["Paris"]}), "p.parquet")
    Path("c.csv").write_text("t\nParis\n")
    Path("z.txt.gz").write_bytes(gzip.compress(WORDS.encode()))
    for source, words in (
        ("p.parquet", ("--field", "t")),
        ("c.csv", ("--field", "t")),
        ("z.txt.gz", ()),
    ):
        assert cdec("compile-set", source, *words).status == 0
        assert "up to date" in cdec("compile-set", source, *words).stderr
    parquet.write_table(pyarrow.table({"t": ["Rome"]}), "p.parquet")
    assert cdec("compile-set", "p.parquet", "--field", "t").error_code == "E_EXISTS"


def test_what_is_there_and_cannot_be_compared_is_named(cdec: Runner, cities: Path) -> None:
    Path("w.txt").write_text(WORDS)
    Path("w.arrow").write_bytes(cities.read_bytes())
    assert "does not say what it was made from" in _refused(cdec)
    Path("w.arrow").write_text("mine")
    assert "is no artifact that can be used" in _refused(cdec)
    assert Path("w.arrow").read_text() == "mine"
    Path("g.lark").write_text(GRAMMAR)
    cdec("compile-grammar", "g.lark", "-o", "w.arrow", "--force")
    assert "is a grammar, not a set" in _refused(cdec)
    cdec("compile-set", "w.txt", "--force")
    data = bytearray(Path("w.arrow").read_bytes())
    data[len(data) // 2] ^= 0xFF
    Path("w.arrow").write_bytes(bytes(data))
    assert "is no artifact that can be used" in _refused(cdec)


def _refused(cdec: Runner) -> str:
    result = cdec("compile-set", "w.txt")
    assert (result.status, result.error_code) == (73, "E_EXISTS")
    return result.stderr


def _other_tokenizer(path: str) -> None:
    """Write the embedded tokenizer with one token renamed."""
    import json

    from cdec.data.assets import embedded_model_path

    found: Any = json.loads((embedded_model_path() / "tokenizer.json").read_text())
    vocabulary = found["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.__getitem__)
    merges = found["model"]["merges"]
    joined = [
        m for m in merges if (m if isinstance(m, str) else " ".join(m)).replace(" ", "") == last
    ]
    for merge in joined:
        merges.remove(merge)
    vocabulary[last + "Q"] = vocabulary.pop(last)
    Path(path).write_text(json.dumps(found))

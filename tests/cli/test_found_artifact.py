"""Artifacts that commands find, read and keep up to date."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.cli.runs.artifacts import find_artifacts
from cdec.core.artifacts import opened
from cdec.core.artifacts import read as artifact_read
from cdec.core.artifacts.write import write_artifact
from tests.cli import light
from tests.cli.conftest import Runner

# --- Commands that name no artifact take that of cdec.toml, or the only one in the folder.

NOTE = "artifact: letters.arrow (the only one in this folder)"


@pytest.fixture
def here(cdec: Runner, letters: Path) -> Path:
    """The set of letters in the working directory."""
    del cdec
    return Path(shutil.move(letters, "letters.arrow"))


COMMANDS = [
    (("sample", "--method", "disc", "--K", "4"), b"x\n"),
    (("sample", "--method", "disc", "--K", "4", "--prompt", "x"), b""),
    (("run", "--method", "masked"), b"x\n"),
    (("mass",), b"x\n"),
    (("mass", "--prompt", "x"), b""),
    (("score", "--prompt", "x"), b'{"token_ids": [0]}\n'),
    (("check",), b"a\n"),
    (("inspect",), b""),
]
NEEDING = [pair for pair in COMMANDS if pair[0][0] != "score"]


@pytest.mark.usefixtures("here")
@pytest.mark.share(3)
@pytest.mark.parametrize(("words", "stdin"), COMMANDS)
def test_the_only_artifact_of_the_folder_serves_and_is_named(
    cdec: Runner, words: tuple[str, ...], stdin: bytes
) -> None:
    found = cdec(*words, stdin=stdin)
    assert (found.status, found.stderr.strip()) == (0, NOTE)
    is_argument = words[0] in ("run", "check", "inspect")
    named = ("letters.arrow",) if is_argument else ("-a", "letters.arrow")
    typed = cdec(words[0], *named, *words[1:], stdin=stdin)
    assert (typed.status, typed.stderr, typed.stdout) == (0, "", found.stdout)
    assert cdec(*words, "--quiet", stdin=stdin).stderr == ""


@pytest.mark.usefixtures("cdec", "letters")
@pytest.mark.parametrize(("words", "stdin"), NEEDING)
def test_a_folder_without_artifacts_is_exit_2_with_the_command_to_type(
    cdec: Runner, words: tuple[str, ...], stdin: bytes
) -> None:
    result = cdec(*words, stdin=stdin)
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    assert "needs an artifact, and this folder has none" in result.stderr
    assert "cdec compile-set, compile-schema" in result.stderr


@pytest.mark.parametrize(("words", "stdin"), NEEDING)
def test_of_several_artifacts_none_is_taken_and_all_are_listed(
    cdec: Runner, here: Path, words: tuple[str, ...], stdin: bytes
) -> None:
    shutil.copy(here, "a b.arrow")
    result = cdec(*words, stdin=stdin)
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    assert "this folder has 2: a b.arrow (set), letters.arrow (set)" in result.stderr
    place = "" if words[0] in ("run", "check", "inspect") else "-a "
    rest = "".join(f" {word}" for word in words[1:])
    assert f"hint: name one: cdec {words[0]} {place}'a b.arrow'{rest}\n" in result.stderr


def test_score_goes_on_without_an_artifact_where_it_cannot_choose(cdec: Runner, here: Path) -> None:
    shutil.copy(here, "b.arrow")
    result = cdec("score", "--prompt", "x", stdin=b'{"token_ids": [0]}\n')
    assert result.status == 0
    assert "artifact: none; name one of b.arrow (set), letters.arrow (set) with -a" in result.stderr
    assert "log_mass_lower" not in result.records[0]


def test_score_without_the_end_looks_for_no_artifact(cdec: Runner, here: Path) -> None:
    assert here.exists()
    result = cdec("score", "--prompt", "x", "--no-end", stdin=b'{"token_ids": [0]}\n')
    assert (result.status, result.stderr) == (0, "")


def test_only_constraints_count(cdec: Runner, here: Path) -> None:
    del cdec
    columns = {"x": np.zeros(1, np.int32)}
    write_artifact("tree.arrow", "tree", columns, {})
    Path("damaged.arrow").write_bytes(here.read_bytes()[:300])
    Path("text.arrow").write_text("hello")
    Path(".hidden.arrow").write_bytes(here.read_bytes())
    Path("folder.arrow").mkdir()
    Path("dead.arrow").symlink_to("nowhere")
    Path("latest.arrow").symlink_to(here)
    os.mkfifo("pipe.arrow")
    found = find_artifacts()
    assert found.artifacts == {Path("latest.arrow"): "set"}
    damaged = "damaged, or no Arrow file"
    assert found.others == {
        Path("damaged.arrow"): damaged,
        Path("text.arrow"): damaged,
        Path("tree.arrow"): "tree",
    }
    assert find_artifacts(but=[here]).artifacts == {}


@pytest.mark.slow
def test_of_thousands_of_artifacts_the_first_are_listed(cdec: Runner, here: Path) -> None:
    for number in range(3000):
        shutil.copy(here, f"{number}.arrow")
    result = cdec("inspect")
    assert result.status == 2
    assert "and this folder has 3001: 0.arrow (set), 1.arrow (set)" in result.stderr
    assert "and 2993 more" in result.stderr


@pytest.mark.usefixtures("here")
def test_a_record_with_a_grammar_of_its_own_needs_no_artifact(cdec: Runner) -> None:
    result = cdec(
        "sample", "--method", "masked", stdin=b'{"prompt": "x", "grammar": "start: \\"a\\""}\n'
    )
    assert (result.status, result.stderr) == (0, "")
    assert result.records[0]["text"] == "a"


@pytest.mark.usefixtures("here")
def test_bad_records_before_the_first_good_one_decide_nothing(cdec: Runner) -> None:
    stdin = b'{"prompt": 1}\n{"prompt": "x", "grammar": "start: \\"a\\""}\n'
    result = cdec("sample", "--method", "masked", stdin=stdin)
    assert (result.status, result.stderr) == (3, "")
    assert result.records[1]["text"] == "a"


def test_a_method_that_can_do_without_is_held_to_the_only_artifact(
    cdec: Runner, here: Path
) -> None:
    words = ("sample", "--method", "greedy", "--prompt", "x", "--max-new-tokens", "2")
    held = cdec(*words)
    assert held.stderr == f"artifact: {here.name} (the only one in this folder)\n"
    assert held.records[0]["valid"] is True
    light.compile_letters(Path("other.arrow"))
    free = cdec(*words)
    assert free.stderr.startswith("artifact: none; name one of ")
    assert (free.status, free.records[0]["valid"]) == (0, None)


@pytest.mark.usefixtures("here")
def test_a_method_without_masks_looks_for_no_artifact(cdec: Runner) -> None:
    result = cdec("sample", "--method", "unconstrained", "--prompt", "x", "--max-new-tokens", "2")
    assert (result.status, result.stderr) == (0, "")


def test_what_the_command_names_otherwise_does_not_count(cdec: Runner, here: Path) -> None:
    light.compile_letters(Path("other.arrow"))
    assert here.exists()
    result = cdec("sample", "--method", "masked", "--and", "other.arrow", "--prompt", "x")
    assert (result.status, result.stderr.strip()) == (0, NOTE)


@pytest.mark.parametrize(("words", "stdin"), COMMANDS)
def test_the_artifact_of_cdec_toml_comes_before_those_of_the_folder(
    cdec: Runner, here: Path, words: tuple[str, ...], stdin: bytes
) -> None:
    shutil.copy(here, "b.arrow")
    Path("cdec.toml").write_text('artifact = "letters.arrow"\n')
    result = cdec(*words, stdin=stdin)
    assert (result.status, result.stderr.strip()) == (0, "cdec.toml: --artifact letters.arrow")


def test_an_output_is_not_the_artifact_that_was_found(cdec: Runner, here: Path) -> None:
    before = here.read_bytes()
    result = cdec("sample", "--method", "masked", "--prompt", "x", "-o", "letters.arrow", "--force")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert here.read_bytes() == before


@pytest.mark.usefixtures("here")
def test_candidates_are_not_looked_up_in_what_lies_in_the_folder(cdec: Runner) -> None:
    stdin = b'{"prompt": "x", "candidates": ["ba"]}\n'
    result = cdec("sample", "--method", "masked", stdin=stdin)
    said = "artifact: none, as records bring candidates; for those of letters.arrow add -a"
    assert said in result.stderr


def test_score_leaves_out_an_artifact_of_another_tokenizer(
    cdec: Runner, cities: Path, letters: Path
) -> None:
    shutil.copy(cities, "cities.arrow")
    text = b'{"token_ids": [0]}\n'
    result = cdec("score", "--prompt", "x", stdin=text)
    assert result.status == 0
    assert "artifact: none, as cities.arrow is for another tokenizer" in result.stderr
    assert "log_mass_lower" not in result.records[0]
    typed = cdec("score", "-a", "cities.arrow", "--prompt", "x", stdin=text)
    assert typed.error_code == "E_TOKENIZER_MISMATCH"
    assert letters.exists()


def test_a_folder_that_was_downloaded_writes_nothing_and_runs_nothing(
    cdec: Runner, here: Path
) -> None:
    Path("evil.py").write_text("open('ran', 'w')\n")
    Path("prompts.txt").write_text("x\n")
    for line in (
        'output = "prompts.txt"',
        "force = true",
        "resume = true",
        'tree = "new.arrow"',
        'save-counts = "new.json"',
        "trust-remote-code = true",
        "allow_pickle = true",
        'attn-implementation = "some/kernels"',
        'reward = "evil:reward"\nmethod = "cdlh"',
    ):
        for table in ("", "[sample]\n"):
            Path("cdec.toml").write_text(f"{table}{line}\n")
            before = {path: path.read_bytes() for path in Path().iterdir()}
            result = cdec("sample", "-i", "prompts.txt")
            assert (result.status, result.error_code, result.stdout) == (78, "E_CONFIG", b"")
            assert "command line only" in result.stderr
            assert {path: path.read_bytes() for path in Path().iterdir()} == before
    assert here.exists()


def test_a_file_that_is_found_cannot_hide_what_it_changes(cdec: Runner, letters: Path) -> None:
    Path("letters.arrow").write_bytes(letters.read_bytes())
    Path("cdec.toml").write_text("quiet = true\n[inspect]\nall = true\n")
    assert "cdec.toml: --quiet --all" in cdec("inspect", "letters.arrow").stderr
    assert cdec("inspect", "letters.arrow", "--quiet").stderr == ""


# --- Every artifact of a run is read once, whatever looks at it before and after the model loads.


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the files that are mapped and verified, by name."""
    counted: Counter[str] = Counter()
    plain: Callable[..., Any] = opened.map_verified

    def counting(path: Path, *arguments: Any, **named: Any) -> Any:
        counted[path.name] += 1
        return plain(path, *arguments, **named)

    monkeypatch.setattr(opened, "map_verified", counting)
    return counted


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_each_command_reads_an_artifact_once(
    cdec: Runner, cities: Path, reads: Counter[str]
) -> None:
    for name in ("a.arrow", "b.arrow", "c.arrow"):
        shutil.copy(cities, name)
    words = ("-a", "a.arrow", "--constraint", "b=b.arrow", "--and", "c.arrow")
    for command in ("sample", "mass", "score"):
        reads.clear()
        result = cdec(
            command, *words, *(() if command == "score" else ("--prompt", "x")), stdin=b"Rome\n"
        )
        assert result.status in (0, 3), result.stderr
        assert reads == {"a.arrow": 1, "b.arrow": 1, "c.arrow": 1}


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_options_that_look_at_the_kind_read_it_no_further(
    cdec: Runner, reads: Counter[str]
) -> None:
    Path("words.lark").write_text('start: "yes" | "no"\n')
    assert cdec("compile-grammar", "words.lark").status == 0
    for more in (("--lookahead", "1"), ("--heal",)):
        reads.clear()
        result = cdec("sample", "-a", "words.arrow", "--method", "masked", "--prompt", "x", *more)
        assert result.status == 0, result.stderr
        assert reads == {"words.arrow": 1}
    reads.clear()
    assert cdec("check", "words.arrow", stdin=b"yes\n").status == 0
    assert cdec("check", "words.arrow", "--explain", stdin=b"yes\n").status == 0
    assert cdec("inspect", "words.arrow").status == 0
    assert reads == {"words.arrow": 3}


@pytest.mark.usefixtures("loaded", "grammar_child")
@pytest.mark.parametrize(
    "words",
    [
        ("sample", "-a", "{}", "--prompt", "x", "--method", "masked"),
        ("score", "-a", "{}", "-i", "t.txt", "--prompt", "x"),
        ("check", "{}", "-i", "t.txt"),
    ],
)
def test_copy_reads_artifacts_of_any_size_into_memory(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    Path("t.txt").write_text("a\n")
    largest: list[int] = []
    plain = artifact_read.contents_of

    def noted(path: Path, limits: Any, copied_bytes: int) -> Any:
        largest.append(copied_bytes)
        return plain(path, limits, copied_bytes)

    monkeypatch.setattr(artifact_read, "contents_of", noted)
    typed = [word.format(letters) for word in words]
    for copy in ((), ("--copy",)):
        assert cdec(*typed, *copy).status == 0
    # What only looks at metadata maps the file for the moment, and copies nothing.
    assert [size for size in largest if size] == [artifact_read.COPIED_BYTES, sys.maxsize]


# --- Compiling again what is there: nothing to do, or what differs.

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


@pytest.mark.share(6)
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

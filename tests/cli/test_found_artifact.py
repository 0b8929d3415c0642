"""Commands that name no artifact take that of cdec.toml, or the only one in the folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from cdec.cli.runs.artifacts import find_artifacts
from cdec.core.artifacts.write import write_artifact

from . import light
from .conftest import Runner

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


def test_what_cannot_be_used_is_listed_as_what_it_is(cdec: Runner) -> None:
    Path("text.arrow").write_text("hello")
    result = cdec("inspect")
    assert result.status == 2
    assert "none that can be used: text.arrow (damaged, or no Arrow file)" in result.stderr


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

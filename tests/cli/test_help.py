"""Short help, and what is said of a word that nothing is called by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cdec.cli.frame.config import option_fields
from cdec.cli.frame.declaration import flag_of, parameters_of
from cdec.cli.frame.registry import COMMANDS, execute_of, options_class_of
from cdec.samplers.facts import ABOUT
from cdec.samplers.registry import METHODS

from .conftest import Runner

LINES, COLUMNS = 80, 80


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def shown(cdec: Runner, *words: str) -> str:
    """Return what a help prints."""
    result = cdec(*words)
    assert (result.status, result.stderr) == (0, "")
    return result.stdout.decode()


def test_the_commands_are_listed_with_whole_summaries(cdec: Runner) -> None:
    text = shown(cdec, "--help")
    assert len(text.splitlines()) <= 44
    for name, command in COMMANDS.items():
        assert f"  {name:<15}  {command.summary}\n" in text
        assert f"{command.group}:\n" in text
    assert "..." not in text.partition("\n")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_short_helps_fit_80_lines_and_point_to_all(cdec: Runner, name: str) -> None:
    text = shown(cdec, name, "--help")
    assert len(text.splitlines()) <= LINES
    assert f"cdec {name}" in text and "\n  Examples:\n" in text and "\\b" not in text
    assert "--help-all" in text and "\x1b" not in text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_shows_every_option(cdec: Runner, name: str) -> None:
    text = shown(cdec, name, "--help-all")
    for key, option in option_fields(options_class_of(name)).items():
        assert str(option.metavar if option.positional else f"--{key}") in text


@pytest.mark.parametrize("name", COMMANDS)
def test_short_helps_show_the_common_options_alone(cdec: Runner, name: str) -> None:
    options = shown(cdec, name, "--help").split("Examples:")[1].partition("\n\n")[2]
    rows = " ".join(line[:30] for line in options.splitlines())
    for parameter in parameters_of(options_class_of(name)).values():
        if not parameter.positional:
            assert (flag_of(parameter.name) in rows.replace(",", " ").split()) == (parameter.common)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_line_of_the_commands_own_help(name: str) -> None:
    first = (execute_of(name).__doc__ or "").split("\n\n")[0]
    assert " ".join(first.split()) == COMMANDS[name].summary


def test_help_lists_the_methods_with_a_line_each(cdec: Runner) -> None:
    text = shown(cdec, "sample", "--help")
    for name, method in METHODS.items():
        assert f"  {name:<13}  {ABOUT[method.name].summary}\n" in text


@pytest.mark.parametrize("name", METHODS)
def test_help_of_a_method_adds_its_law_and_all_that_it_takes(cdec: Runner, name: str) -> None:
    text = shown(cdec, "sample", "--method", name, "--help")
    assert shown(cdec, "sample", "--help", f"--method={name}") == text
    apart = text[text.index(f"\nMethod {name}:\n") :]
    said = " ".join(apart.split())
    assert " law " in said and " log_weight " in said and " cost " in said
    for option in METHODS[name].options:
        assert option.python_only or f"{flag_of(option.name)} " in said
    assert "Methods (" not in text


def test_help_begins_with_what_every_run_needs(cdec: Runner) -> None:
    sample, run = (shown(cdec, name, "--help") for name in ("sample", "run"))
    assert "\nConstraint:\n  -a, --artifact" in sample
    assert "\nPrompts:\n  -i, --input" in sample
    assert 0 < run.index("\nArguments:") < run.index("\nPrompts:") < run.index("\nGeneral:")


def test_help_imports_nothing_heavy_and_one_command() -> None:
    code = (
        "import sys; from cdec.cli.app import main; main(['--help'])\n"
        "commands = [name for name in sys.modules if name.startswith('cdec.cli.') and "
        "name.count('.') == 2]\n"
        "assert set(commands) == {'cdec.cli.app', 'cdec.cli.frame'}, commands\n"
        "main(['sample', '--help']); assert 'cdec.cli.mass' not in sys.modules\n"
        "heavy = {'torch', 'transformers', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (("compile-set", "wiki.tx"), "wiki.txt"),
        (("compile-set", "wiki.jsonl"), "wiki.txt"),
        (("sample", "-a", "towns.arow", "--prompt", "x"), "towns.arrow"),
        (("check", "a folder/town.txt"), "'a folder/towns.txt'"),
    ],
)
def test_a_file_that_is_not_there_offers_the_near_one(
    cdec: Runner, typed: tuple[str, ...], near: str
) -> None:
    Path("a folder").mkdir()
    for name in ("wiki.txt", "towns.arrow", "a folder/towns.txt"):
        Path(name).write_text("Oslo\n")
    result = cdec(*typed)
    assert (result.status, result.error_code) == (66, "E_NOINPUT")
    assert f"hint: did you mean {near}?\n" in result.stderr
    far = cdec("compile-set", "entirely-different.csv")
    assert far.error_code == "E_NOINPUT" and "did you mean" not in far.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sample", "What is it?"), "a prompt is --prompt 'What is it?'; see `cdec sample --help`"),
        (("sample", "What", "is", "it"), "--prompt 'What is it'"),
        (("sample", "-n", "2", "A B", "C D"), "--prompt 'A B' --prompt 'C D'"),
        (("run", "x.arrow", "What is it?"), "--prompt 'What is it?'"),
        (("mass", "x.arrow", "What is it?"), "-a x.arrow; a prompt is --prompt 'What is it?'"),
        (("sample", "-i", "a.csv", "b.csv"), "name several inputs by an -i each"),
        (("check", "x.arrow", "Paris"), "texts come on stdin, or with -i FILE"),
        (("compile-regex", "a", "b"), "hint: see `cdec compile-regex --help`"),
    ],
)
def test_words_too_many_are_told_their_option(
    cdec: Runner, words: tuple[str, ...], said: str
) -> None:
    result = cdec(*words)
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    assert f"cdec {words[0]} has no place for " in result.stderr
    assert said in result.stderr

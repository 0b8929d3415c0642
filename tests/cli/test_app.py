"""The program as a whole: help, versions, errors and exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdec.cli import app
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.core import errors

from .conftest import Runner

PROGRAM = [sys.executable, "-c", "import sys; from cdec.cli.app import main; sys.exit(main())"]


def test_no_arguments_print_help_on_stderr(cdec: Runner) -> None:
    result = cdec()
    assert (result.status, result.stdout) == (2, b"")
    assert "Usage: cdec" in result.stderr


def test_version_is_the_installed_one(cdec: Runner) -> None:
    from importlib.metadata import version

    result = cdec("--version")
    assert (result.status, result.stdout.decode()) == (0, f"cdec {version('cdec')}\n")


def test_values_of_the_wrong_type_are_usage_errors(cdec: Runner) -> None:
    result = cdec("sample", "--K", "many")
    assert (result.status, result.error_code) == (2, "E_USAGE")


def test_an_unknown_key_in_cdec_toml_stops_every_command(cdec: Runner) -> None:
    Path("cdec.toml").write_text("temprature = 1\n")
    result = cdec("sample")
    assert (result.status, result.error_code) == (78, "E_CONFIG")
    assert "temprature" in result.stderr
    assert cdec("sample", "--help").status == 0


def test_a_fault_ends_with_70_and_no_secret(cdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    monkeypatch.setenv("CDEC_FAULT", "raise")
    quiet = cdec("sample")
    assert (quiet.status, quiet.error_code) == (70, "E_INTERNAL")
    assert "Traceback" not in quiet.stderr
    loud = cdec("sample", "--debug")
    assert loud.status == 70
    assert "Traceback" in loud.stderr
    assert "hf_x" not in loud.stderr + quiet.stderr


def test_tracebacks_need_debug(cdec: Runner) -> None:
    assert "Traceback" not in cdec("compile-set", "nope.txt").stderr
    assert "Traceback" in cdec("compile-set", "nope.txt", "--debug").stderr


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.UsageError("x"), 2, "E_USAGE"),
        (errors.EmptySetError("x"), 65, "E_EMPTY_SET"),
        (errors.InputMissingError("x"), 66, "E_NOINPUT"),
        (errors.ModelError("x"), 69, "E_MODEL"),
        (errors.OutputExistsError("x"), 73, "E_EXISTS"),
        (errors.LockedError("x"), 75, "E_LOCKED"),
        (errors.ConfigError("x"), 78, "E_CONFIG"),
        (OSError(28, "No space left on device"), 74, "E_IO"),
        (MemoryError(), 75, "E_LIMIT"),
        (ValueError("odd"), 70, "E_INTERNAL"),
        (KeyError("odd"), 70, "E_INTERNAL"),
    ],
)
def test_errors_become_exit_statuses(
    cdec: Runner,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    code: str,
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(app, "_run_app", fail)
    result = cdec("sample")
    assert (result.status, result.error_code) == (status, code)
    assert len(result.stderr.splitlines()) <= 2


def test_a_shadowing_file_in_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    for name in ("torch", "typing", "numpy", "orjson"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('boom')\n")
    program = Path(sys.executable).parent / "cdec"
    if not program.exists():
        pytest.skip("the console script is not installed beside the interpreter")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for words in (["--version"], ["doctor", "--json"]):
        done = subprocess.run(
            [program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "boom" not in done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_generated(shell: str) -> None:
    environment = os.environ | {"_CDEC_COMPLETE": f"source_{shell}"}
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "_CDEC_COMPLETE" in done.stdout


def test_completion_lists_commands_and_options() -> None:
    for words, expected in (("cdec sam", "sample"), ("cdec sample --meth", "--method")):
        environment = os.environ | {
            "_CDEC_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True)
        assert expected in done.stdout.split()


def test_a_full_device_is_told_in_two_lines() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "--version"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 74
    assert done.stderr.startswith("error E_IO: ")
    assert len(done.stderr.splitlines()) <= 2


def test_a_closed_pipe_ends_with_141_and_no_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, "--version"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_every_options_class_has_the_common_options() -> None:
    for name in COMMANDS:
        names = set(options_class_of(name).__dataclass_fields__)
        assert {"quiet", "debug"} <= names

"""Every hostile command line of the shared corpus: its test is here, or is named here."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path

import pytest

from cdec.cli.app import main
from tests.cli.conftest import Runner

from .cases import cases

CASES = {case.id: case for case in cases("cli")}

WAITING = {"cli-missing-extra": "there is no --engine option yet, and no Ray engine"}
"""Cases about something that is not built yet → why."""

COVERED = {
    "cli-no-args": "corpus.test_refusals.test_command_lines_are_refused",
    "cli-unknown-option": "corpus.test_refusals.test_command_lines_are_refused",
    "cli-stdin-tty": "test_processes.test_a_terminal_on_stdin_is_refused_at_once",
    "cli-missing-file": "test_compile_set.test_a_missing_input_leaves_nothing_behind",
    "cli-unreadable": "corpus.test_corpus_cli.test_an_unreadable_file_is_no_input",
    "cli-output-exists": "test_sample.test_output_files",
    "cli-output-is-input": "test_sample.test_the_output_may_be_no_input",
    "cli-sigpipe": "test_processes.test_head_in_a_shell_ends_the_run_with_141",
    "cli-dev-full": "test_processes.test_a_full_device_is_told_in_two_lines",
    "cli-sigint": "test_processes.test_a_signal_leaves_whole_lines_and_resume_completes_them",
    "cli-sigterm": "test_processes.test_a_signal_leaves_whole_lines_and_resume_completes_them",
    "cli-offline-missing-model": "corpus.test_corpus_cli.test_an_absent_model_is_told_at_once",
    "cli-remote-code-model": "corpus.test_corpus_cli.test_a_repository_may_not_run_its_code",
    "cli-pickle-weights": "corpus.test_corpus_cli.test_pickled_weights_are_refused",
    "cli-resume-changed-config": "test_sample.test_resume_refuses_another_configuration",
    "cli-resume-torn-line": "test_sample.test_resume_writes_what_is_missing",
    "cli-two-writers": "test_processes.test_two_writers_on_one_file_are_refused",
    "cli-config-unknown-key": "test_app.test_an_unknown_key_in_cdec_toml_stops_every_command",
    "cli-c-locale": "test_processes.test_the_locale_changes_no_byte",
    "cli-no-color": "corpus.test_corpus_cli.test_no_escape_byte_without_colours",
    "cli-json-stdout-clean": ("test_sample.test_stdout_stays_clean_with_warnings_and_progress"),
    "cli-secret-in-traceback": "test_app.test_a_fault_ends_with_70_and_no_secret",
    "cli-K-zero": "test_sample.test_tries_bound_the_draws",
    "cli-cwd-shadowing": (
        "test_app.test_a_shadowing_file_in_the_working_directory_is_not_imported"
    ),
}
"""Case → the test that carries it out."""


@pytest.mark.skipif(not CASES, reason="no shared corpus: set CDEC_SHARED")
def test_every_case_has_a_test_or_waits() -> None:
    assert set(CASES) == set(COVERED) | set(WAITING)


@pytest.mark.parametrize("case_id", COVERED)
def test_the_named_tests_exist(case_id: str) -> None:
    module, _, name = COVERED[case_id].rpartition(".")
    assert hasattr(importlib.import_module(f"tests.cli.{module}"), name)


def test_an_unreadable_file_is_no_input(cdec: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    source = Path("s.txt")
    source.write_text("a\n")
    source.chmod(0)
    assert cdec("compile-set", "nope.txt").status == 66  # all imports are done now
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root reads everything
    try:
        status = main(["compile-set", str(source)])
    finally:
        os.seteuid(user)
    assert status == 66
    assert "E_NOINPUT" in capfd.readouterr().err


def test_an_absent_model_is_told_at_once(cdec: Runner, cities: Path) -> None:
    result = cdec("sample", "-a", cities, "-m", "no/such", "--prompt", "a")
    assert (result.status, result.error_code) == (69, "E_MODEL")
    assert "HF_HUB_OFFLINE" in result.stderr


def _config(folder: Path, **values: object) -> Path:
    from cdec.data.assets import embedded_model_path

    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(embedded_model_path() / name, folder)
    config = json.loads((embedded_model_path() / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_repository_may_not_run_its_code(cdec: Runner, cities: Path, tmp_path: Path) -> None:
    names = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own"}
    folder = _config(tmp_path / "remote", auto_map=names, model_type="own")
    flag = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(flag)!r}, 'w')\n")
    (folder / "model.safetensors").write_bytes(b"")
    result = cdec("sample", "-a", cities, "-m", folder, "--prompt", "a")
    assert (result.status, result.error_code) == (69, "E_TRUST")
    assert "--trust-remote-code" in result.stderr
    assert not flag.exists()


def test_pickled_weights_are_refused(cdec: Runner, cities: Path, tmp_path: Path) -> None:
    folder = _config(tmp_path / "pickled")
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    result = cdec("sample", "-a", cities, "-m", folder, "--prompt", "a")
    assert (result.status, result.error_code) == (69, "E_TRUST")
    assert "--allow-pickle" in result.stderr


@pytest.mark.parametrize("settings", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_no_escape_byte_without_colours(
    cdec: Runner, cities: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for words in (("inspect", cities), ("sample", "--help"), ("smple",), ("check", "nope")):
        result = cdec(*words)
        assert "\x1b" not in result.stdout.decode() + result.stderr

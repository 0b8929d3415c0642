"""The program itself: its modules, its faults, doctor and demo."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from cdec.cli import app, doctor
from cdec.cli.demo import NEXT, five_answers, shipped_questions
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.compilers import compile_set
from cdec.core import Vocabulary, errors, native
from tests.cli import light
from tests.cli.conftest import Runner

# --- The program as a whole: help, versions, errors and exit statuses.

PROGRAM = [sys.executable, "-c", "import sys; from cdec.cli.app import main; sys.exit(main())"]


def test_version_is_the_installed_one(cdec: Runner) -> None:
    from importlib.metadata import version

    result = cdec("--version")
    assert (result.status, result.stdout.decode()) == (0, f"cdec {version('cdec')}\n")


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


@pytest.mark.slow
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


# --- cdec doctor and cdec demo.


def test_doctor_reports_versions_devices_and_caches(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CDEC_CACHE_DIR", str(cache))
    (report,) = cdec("doctor", "--json").records
    assert report["cdec"] == metadata.version("cdec")
    assert report["packages"]["torch"] == metadata.version("torch")
    assert "cpu" in report["devices"]
    assert report["caches"]["cdec"] == str(cache)
    assert report["caches"]["hub_offline"] is True
    assert report["missing"] == []
    text = cdec("doctor").stdout.decode()
    assert "packages.torch" in text and "devices.cpu" in text


def test_doctor_names_what_installs_a_missing_extra(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "llguidance"
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == absent else version(name))
    (report,) = cdec("doctor", "--json").records
    assert report["extras"]["bench"]["install"] == 'pip install "cdec[bench]"'
    assert absent in report["extras"]["bench"]["missing"]


def test_doctor_fails_where_a_needed_package_is_missing(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "lark" else version(name))
    result = cdec("doctor")
    assert (result.status, result.error_code) == (69, "E_EXTRA")
    assert "pip install lark" in result.stderr


def test_doctor_says_that_the_compiled_library_is_stale(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cdec("doctor", "--json").records[0]["library"].endswith(".so")
    monkeypatch.setattr(native, "_digest", lambda sources: "other")
    result = cdec("doctor")
    assert (result.status, result.error_code) == (69, "E_NATIVE")
    assert "python native/build.py" in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("embedded_model")
def test_demo_runs_end_to_end(cdec: Runner) -> None:
    words = ("demo", "--prompts", "2", "-n", "2")
    (report,) = cdec(*words, "--json").records
    assert (report["questions"], report["samples"]) == (2, 2)
    methods = {row["method"]: row for row in report["methods"]}
    assert set(methods) == {"unconstrained", "masked", "disc"}
    assert methods["masked"]["valid"] == methods["disc"]["valid"] == 1
    text = cdec(*words).stdout.decode()
    assert "Compiled a list of" in text and "disc" in text
    assert max(map(len, text.splitlines())) <= 80
    more = ("demo", "--prompts", "12", "-n", "8", "--json")
    assert cdec(*more).stdout == cdec(*more, "--seed", "0").stdout
    assert cdec(*more).stdout != cdec(*more, "--seed", "1").stdout
    assert cdec(*words, "--quiet").stderr == ""
    for wrong in (("--prompts", "0"), ("-n", "0")):
        assert cdec("demo", *wrong).error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_masked_draws_differ_from_the_law_and_exact_ones_do_not(embedded_model: Any) -> None:
    answers = five_answers(embedded_model)
    assert sum(answer.law for answer in answers) == pytest.approx(1)
    # Of 1000 draws: five standard errors of a share are at most 0.08.
    assert all(abs(answer.exact - answer.law) < 0.08 for answer in answers)
    lured, likely = answers[0], answers[3]
    assert (lured.text, likely.text) == ("yes please", "maybe")
    assert lured.masked > 0.6 and likely.law > 0.9 and likely.masked < 0.1


@pytest.mark.usefixtures("loaded")
def test_what_the_demo_says_to_try_next_works_as_typed(cdec: Runner) -> None:
    assert len(NEXT) == 3
    for typed in NEXT:
        before, _, after = typed.replace("\\\n", " ").rpartition("|")
        words = shlex.split(after)
        stdin = shlex.split(before)[1].encode() if before else b""
        result = cdec(*words[1:], stdin=stdin)
        assert (words[0], result.status) == ("cdec", 0), result.stderr


def test_questions_are_spread_over_the_shipped_ones() -> None:
    assert len({question.id for question in shipped_questions(50)}) == 50
    assert len(shipped_questions(10**6)) == len({q.id for q in shipped_questions(10**6)})


# --- A command loads what its run needs: over a set no grammar engine, free text or rewards,
# with the
# embedded models no transformers.

SCRIPT = """
import json, sys
from cdec.cli.app import main
from cdec.cli.runs import models

def letters(options):
    from cdec.core.models.tabular import TabularModel
    from cdec.core.tokens.vocabulary import Vocabulary

    vocabulary = Vocabulary([b"a", b"b", "\u00e9".encode(), b""], [3], [3])
    return TabularModel(lambda prefix: [0.25] * 4, vocabulary)

models.open_model = letters
status = main({words!r})
loaded = {{name: module for name, module in sys.modules.items() if name.startswith("cdec.")}}
print(json.dumps({{"status": status, "modules": sorted(loaded)}}),
      file=sys.stderr)
"""
NOT_FOR_SETS = (
    "cdec.core.grammars.session",
    "cdec.core.schemas.session",
    "cdec.core.combine.conjunction",
    "cdec.core.combine.free_part",
    "cdec.core.combine.tagged",
    "cdec.compilers.grammars.",
    "cdec.compilers.regular",
    "cdec.compilers.schemas.",
    "cdec.samplers.free",
    "cdec.samplers.rewards",
    "cdec.samplers.cdlh",
    "cdec.samplers.cdsl",
    "cdec.samplers.lookahead",
    "cdec.samplers.mentored",
)
DECLARATIONS = {
    "cdec.compilers.grammars.definition",
    "cdec.compilers.grammars.options",
    "cdec.compilers.schemas.options",
}
"""What options and their bounds are read from: nothing that runs."""
SAMPLE = ("sample", "-a", "letters.arrow", "--prompt", "x", "--quiet")


@pytest.mark.share(1)
@pytest.mark.parametrize(
    "words",
    [
        SAMPLE,
        (*SAMPLE, "--method", "topn", "-n", "2"),
        (*SAMPLE, "--method", "masked"),
        (*SAMPLE, "--method", "greedy"),
        ("compile-set", "list.txt", "--quiet"),
        ("check", "letters.arrow", "-i", "list.txt", "--quiet"),
    ],
    ids=("sample", "topn", "masked", "greedy", "compile-set", "check"),
)
def test_a_run_over_a_set_loads_no_other_kinds_of_constraint(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    light.compile_letters(tmp_path / "letters.arrow")
    (tmp_path / "list.txt").write_text("a\nab\n")
    code = SCRIPT.format(words=list(words))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["status"] == 0, done.stderr
    modules = set(found["modules"])
    assert {n for n in modules if n.startswith(NOT_FOR_SETS)} - DECLARATIONS == set()


EMBEDDED = """
import sys
from cdec.cli.app import main

status = main({words!r})
print(" ".join(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
sys.exit(status)
"""
NOT_FOR_EMBEDDED = {"transformers", "huggingface_hub", "pandas", "sympy", "scipy"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("sample", "-a", "names.arrow", "--prompt", "What is it?"),
        ("sample", "-a", "names.arrow", "--prompt", "x", "--method", "masked", "-n", "3"),
        ("classify", "names.txt", "--prompt", "x"),
        ("mass", "-a", "names.arrow", "--prompt", "x"),
        ("score", "-a", "names.arrow", "-i", "names.txt", "--prompt", "x"),
        ("compile-set", "names.txt", "-o", "again.arrow"),
    ],
    ids=lambda words: " ".join(words[:1] + words[5:]),
)
def test_the_embedded_models_need_no_transformers(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "names.txt").write_text("Paris\nRome\n")
    compile_set(["Paris", "Rome"], Vocabulary.from_tokenizer("embedded"), tmp_path / "names.arrow")
    code = EMBEDDED.format(words=[*words, "--quiet"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert NOT_FOR_EMBEDDED & set(done.stderr.splitlines()[-1].split()) == set()


@pytest.mark.share(1)
@pytest.mark.parametrize(
    "words",
    [
        ("compile-grammar", "json", "-o", "json.arrow"),
        ("compile-regex", "[a-z]+", "-o", "regex.arrow"),
        ("compile-schema", "s.json", "-o", "schema.arrow"),
    ],
    ids=lambda words: words[0],
)
def test_who_asks_for_an_artifact_loads_neither_arrow_nor_protocols(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "s.json").write_text('{"type": "integer"}')
    code = EMBEDDED.format(words=[*words, "--quiet"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"pyarrow", "ssl", "lark"} & set(done.stderr.splitlines()[-1].split()) == set()


@pytest.mark.slow
def test_what_was_loaded_is_not_looked_through_for_garbage(tmp_path: Path) -> None:
    compile_set(["Paris"], Vocabulary.from_tokenizer("embedded"), tmp_path / "names.arrow")
    words = ["sample", "-a", "names.arrow", "--prompt", "x", "--quiet"]
    code = (
        "import gc\n"
        "from cdec.cli.app import main\n"
        f"assert main({words!r}) == 0\n"
        "import sys\n"
        "print(gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects()), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    enabled, frozen, looked_through = done.stderr.splitlines()[-1].split()
    assert enabled == "True"
    assert int(frozen) > 10 * int(looked_through)


def test_a_command_imports_the_modules_of_no_other(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from cdec.cli.app import main\n"
        "status = main(['methods', 'masked'])\n"
        "print(*(name for name in sys.modules if name.startswith('cdec.cli.')), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    others = {command.module for name, command in COMMANDS.items() if name != "methods"}
    assert others & loaded == set()

"""What cdec sample refuses before it loads anything, in the words that were typed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.frame.console import typed_error
from cdec.cli.frame.declaration import flag_of
from cdec.cli.frame.process import Interrupted
from cdec.cli.runs import models
from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.data.assets import embedded_model_path
from cdec.samplers.registry import METHODS

from . import light
from .conftest import Result, Runner

PROMPT = ("--prompt", "abc")
CDSL = ("--method", "cdsl", "--reward", "regex:a")


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no model be loaded."""

    def load(*_: Any, **__: Any) -> Any:
        pytest.fail("a model was loaded")

    monkeypatch.setattr(models, "open_model", load)
    monkeypatch.setattr("cdec.core.load_model", load)


def refused(result: Result, code: str = "E_USAGE", status: int = 2) -> str:
    assert (result.status, result.error_code) == (status, code), result.stderr
    assert result.stdout == b""
    assert "hint: " in result.stderr
    return result.stderr


FLOATS = (
    (("--method", "speculative"), "--draft-temperature"),
    (("--method", "speculative", "--draft", "prompt-lookup"), "--temperature"),
    (("--method", "speculative"), "--cost-ratio"),
    (("--method", "mentored"), "--divergence"),
    (("--method", "mentored"), "--divergence-total"),
    (CDSL, "--accept-threshold"),
    (CDSL, "--reward-threshold"),
    (CDSL, "--cost-ratio"),
    (("--method", "cdlh-approx", "--reward", "coverage"), "--cost-ratio"),
)
SENSIBLE = {("--reward-threshold", "-1"), ("--divergence", "inf"), ("--divergence-total", "inf")}


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(
    ("words", "option", "value"),
    [
        (words, option, value)
        for words, option in FLOATS
        for value in ("nan", "inf", "-inf", "-1")
        if (option, value) not in SENSIBLE
    ],
)
def test_numbers_out_of_range_are_refused_by_the_name_that_was_typed(
    cdec: Runner, words: tuple[str, ...], option: str, value: str
) -> None:
    said = refused(cdec("sample", *PROMPT, *words, option, value))
    assert said.startswith(f"error E_USAGE: {option} ")
    # No name of Python's, such as draft_temperature.
    assert "_" not in said.partition("E_USAGE")[2]


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("speculative", "--top-p", "nan"), "--top-p must lie"),
        (("speculative", "--top-k", "0"), "--top-k must be"),
        (("speculative", "--temperature", "0"), "give --greedy in its place"),
        (("speculative", "--temperature", "0", "--greedy"), "leave --temperature out"),
        (("mentored", "--temperature", "0"), "give --method speculative --greedy"),
        (("unconstrained", "--temperature", "0"), "give --method greedy"),
        (("greedy", "--temperature", "0"), "leave --temperature out"),
        (("speculative", "--draft", "prompt-lookup", "--cost-ratio", "1"), "--cost-ratio means"),
        (("exact", "--draft", "embedded-draft", "--abort", "-a", "x.arrow"), "one of --abort and"),
        (("cdsl", "--reward", "regex:a", "--branch", "0"), "give --branch a number of 1 or more"),
        (("cdsl", "--reward", "coverage"), "give JSON records with -i FILE"),
        (("beam", "--gamma", "2"), "or take --method greedy or masked or disc or exact or spec"),
        (("cdlh", "--reward", "regex:a", "--cost-ratio", "1"), "--cost-ratio means nothing to"),
        (
            ("cdlh", "--reward", "regex:a", "--cost-ratio", "measure"),
            "take --method greedy or masked or disc or exact or speculative or mentored or cdlh-a",
        ),
        (
            ("speculative", "--draft-revision", "v2"),
            "embedded-draft, which ships with cdec, has one version",
        ),
        (("speculative", "--revision", "v2"), "leave --revision out"),
        (
            ("speculative", "--draft", embedded_model_path("draft"), "--draft-revision", "v2"),
            "draft, which is on this machine, has one version",
        ),
        (("unconstrained", "--model", ".", "--revision", "v2"), "., which is on this machine,"),
    ],
)
def test_what_makes_no_sense_costs_no_loading(
    cdec: Runner, words: tuple[object, ...], said: str
) -> None:
    assert said in refused(cdec("sample", *PROMPT, "--method", *words))


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("command", ["score", "mass", "retokenize"])
def test_a_revision_of_the_embedded_model_is_refused_by_every_command(
    cdec: Runner, command: str
) -> None:
    assert "--revision chooses" in refused(cdec(command, "--revision", "v2", stdin=b"a\n"))


def test_a_revision_in_the_config_is_for_models_of_the_hub(cdec: Runner, letters: Path) -> None:
    Path("cdec.toml").write_text('revision = "v2"\ndraft-revision = "v3"\n')
    assert cdec("sample", "-a", letters, *PROMPT).status == 0


def test_every_option_of_a_sampler_is_named_as_it_is_typed() -> None:
    for method in METHODS.values():
        for option in method.options:
            if option.at_least is None or option.python_only:
                continue
            with pytest.raises(UsageError) as caught:
                option.check(int(option.at_least) - 1)
            error = typed_error(caught.value)
            flag = flag_of(option.name)
            assert error.message.startswith(f"{flag} is ") and error.message == str(error)
            assert error.hint is not None and flag in error.hint


def test_a_dtype_is_refused_by_the_option_that_named_it(cdec: Runner) -> None:
    words = ("sample", *PROMPT, "--method", "speculative")
    assert (
        "E_USAGE: --draft-dtype 'int8' is none of" in cdec(*words, "--draft-dtype", "int8").stderr
    )
    assert "E_USAGE: --dtype 'int8' is none of" in cdec(*words, "--dtype", "int8").stderr
    greedy = cdec("sample", *PROMPT, "--method", "greedy", "--dtype", "int8")
    assert greedy.stderr.startswith("error E_USAGE: --dtype 'int8' is none of")


def test_a_draft_is_refused_before_the_model_is_loaded(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "open_model", lambda options: pytest.fail("loaded"))
    words = ("sample", *PROMPT, "--method", "speculative", "--draft")
    refused(cdec(*words, "/no/such/draft"), "E_MODEL", 69)
    Path("empty").mkdir()
    assert "config.json" in refused(cdec(*words, "empty"), "E_MODEL", 69)


def test_a_draft_stands_on_the_device_that_loading_chose(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def load(name: str, **options: Any) -> TabularModel:
        seen.append(options["device"])
        return light.slow_model(0)

    monkeypatch.setattr("cdec.core.load_model", load)
    words = ("sample", "-a", letters, *PROMPT, "--method", "speculative", "--draft", "d")
    for placed in ((), ("--device", "auto"), ("--device-map", "auto", "--device", "cuda")):
        assert cdec(*words, *placed).status == 0
    assert seen == ["cpu", "auto", "cpu"]


TWICE = b'{"id":1,"prompt":"a"}\n{"id":1,"prompt":"b"}\n'


@pytest.mark.usefixtures("unloaded")
def test_an_id_twice_in_a_file_costs_no_output(cdec: Runner, tmp_path: Path) -> None:
    artifact = light.compile_letters(tmp_path / "l.arrow")
    Path("p.jsonl").write_bytes(TWICE)
    words = ("sample", "-a", artifact, "-o", "out.jsonl")
    for more in ((), ("--batch-size", 1)):
        refused(cdec(*words, "-i", "p.jsonl", *more), "E_DUPLICATE_ID", 65)
        assert not Path("out.jsonl").exists()
    Path("out.jsonl").write_text("kept\n")
    refused(cdec(*words, "--force", stdin=TWICE), "E_DUPLICATE_ID", 65)
    assert Path("out.jsonl").read_text() == "kept\n"


@pytest.mark.parametrize("size", [1, 16])
def test_an_id_twice_in_a_pipe_ends_the_run_after_the_first(
    cdec: Runner, letters: Path, size: int
) -> None:
    read, write = os.pipe()
    os.write(write, TWICE)
    os.close(write)
    result = cdec(
        *("sample", "-a", letters, "-i", f"/dev/fd/{read}", "-o", "out.jsonl"),
        *("--batch-size", size),
    )
    os.close(read)
    assert (result.status, result.error_code) == (65, "E_DUPLICATE_ID")
    (record,) = map(json.loads, Path("out.jsonl").read_text().splitlines())
    assert (record["id"], record["valid"]) == (1, True)


def test_an_interrupted_run_leaves_its_tree_as_it_was(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sample", "-a", letters, *PROMPT, "--method", "exact", "--tree", "t.arrow", "-n")
    assert cdec(*words, 1).status == 0
    kept = Path("t.arrow").read_bytes()
    asked = []

    def law(prefix: tuple[int, ...]) -> list[float]:
        asked.append(prefix)
        if len(asked) > 4:
            raise Interrupted(signal.SIGINT)
        return [0.25] * 4

    with monkeypatch.context() as patch:
        model = TabularModel(law, light.vocabulary())
        patch.setattr(models, "open_model", lambda options: model)
        result = cdec(*words, 500)
    assert (result.status, result.stdout) == (130, b"")
    assert [path.name for path in Path().iterdir()] == ["t.arrow"]
    assert Path("t.arrow").read_bytes() == kept
    assert cdec(*words, 500).status == 0
    assert Path("t.arrow").read_bytes() != kept


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("c.txt", "Paris\n", "cdec compile-set c.txt"),
        ("two words.csv", "text\nParis\n", "cdec compile-set 'two words.csv'"),
        ("g.lark", 'start: "a"\n', "cdec compile-grammar g.lark"),
        ("s.json", "{}\n", "cdec compile-schema s.json"),
    ],
)
@pytest.mark.parametrize("words", [("sample", "--prompt", "x", "-a"), ("inspect",), ("check",)])
def test_a_source_in_an_artifacts_place_says_how_it_is_compiled(
    cdec: Runner, words: tuple[str, ...], name: str, text: str, command: str
) -> None:
    Path(name).write_text(text)
    result = cdec(*words, name, stdin=b"x\n")
    assert (result.status, result.error_code) == (65, "E_ARTIFACT_FORMAT")
    assert result.stderr.splitlines()[-1] == f"hint: compile it first: {command}"

"""Which drafts cdec sample takes: how they are loaded, and what is refused of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import models
from cdec.core.errors import ModelError
from cdec.data.assets import embedded_model_path

from . import light
from .conftest import Result, Runner

pytestmark = pytest.mark.usefixtures("loaded")

PROMPT = ("--prompt", "The capital of France is")
FREE = (*PROMPT, "--max-new-tokens", "10")
OPEN_MODEL = models.open_model
"""What ``loaded`` puts another in the place of."""


def refused(result: Result, code: str = "E_USAGE", status: int = 2) -> str:
    assert (result.status, result.error_code) == (status, code), result.stderr
    assert result.stdout == b""
    return result.stderr


def test_another_vocabulary_is_refused(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sample", "-a", letters, "--prompt", "abc", "--method", "speculative")
    said = refused(cdec(*words, "--draft", "embedded-draft"), "E_TOKENIZER_MISMATCH", 65)
    assert "the draft's vocabulary" in said
    monkeypatch.setattr("cdec.core.load_model", lambda name, **options: light.slow_model(0))
    (record,) = cdec(*words, "--draft", "letters").records
    assert record["valid"] is True


def test_the_drafts_options_are_its_own(cdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdec.core import load_model

    seen: list[dict[str, Any]] = []

    def watched(name: Any, **options: Any) -> Any:
        seen.append({"name": str(name), **options})
        return load_model(embedded_model_path("draft"))

    monkeypatch.setattr("cdec.core.load_model", watched)
    words = ("sample", *FREE, "--method", "speculative", "--draft", "some/draft")
    own = ("--draft-revision", "v2", "--draft-dtype", "float64", "--allow-pickle")
    assert cdec(*words, *own).status == 0
    assert cdec(*words, "--dtype", "float32").status == 0
    common = {"name": "some/draft", "device": "cpu"}
    assert seen == [
        {**common, "dtype": "float64", "revision": "v2"},
        {**common, "dtype": "float32", "revision": None},
    ]


def test_a_drafts_own_code_is_never_run(cdec: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for file in embedded_model_path("draft").iterdir():
        (folder / file.name).symlink_to(file)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    config["auto_map"] = {"AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    words = ("sample", *FREE, "--method", "speculative", "--draft", folder)
    said = refused(cdec(*words, "--trust-remote-code"), "E_TRUST", 69)
    assert "Name a draft" in said


def test_a_draft_that_is_not_there_is_refused(cdec: Runner) -> None:
    words = ("sample", *FREE, "--method", "speculative", "--draft", "no/such/draft")
    assert "no/such/draft" in refused(cdec(*words), "E_MODEL", 69)


def test_another_model_needs_a_draft_to_be_named(cdec: Runner, cities: Path) -> None:
    for method in ("speculative", "mentored", "cdlh-approx", "cdsl"):
        words = ("--method", method, "--model", "some/model")
        reward = () if method[0] != "c" else ("--reward", "coverage")
        said = refused(cdec("sample", "-a", cities, *PROMPT, *words, *reward))
        assert "needs a draft" in said and "--draft NAME_OR_PATH" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--method", "beam", "--draft", "embedded-draft"),
            "--draft means nothing to --method beam",
        ),
        (("--method", "greedy", "--draft-dtype", "float32"), "means nothing without --draft"),
        (("--method", "mentored", "--divergence", "-1"), "--divergence is -1.0"),
        (("--method", "mentored", "--divergence", "nan"), "--divergence is nan"),
        (("--method", "mentored", "--divergence-total", "-1"), "--divergence-total is -1.0"),
        (
            ("--method", "mentored", "--divergence", "1", "--divergence-total", "1"),
            "both given",
        ),
        (("--method", "mentored", "--draft", "counts"), "mentored does not take counts"),
        (("--method", "mentored", "--greedy"), "--greedy means nothing"),
        (("--method", "mentored", "--counts", "c.json"), "--counts means nothing"),
        (("--method", "speculative", "--divergence", "1"), "take --method mentored"),
        (("--method", "speculative", "--speculate", "4"), "--speculate"),
        (("--method", "speculative", "--gamma", "0"), "--gamma is '0'"),
        (("--method", "speculative", "--gamma", "two"), "or auto"),
        (("--method", "speculative", "--gamma", "9" * 5000), "or auto"),
        (("--method", "speculative", "--max-new-tokens", 2**31), "expected at most 2147483647"),
        (("--method", "speculative", "--draft", ""), "--draft is empty"),
        (("--method", "cdsl", "--reward", "coverage", "--depth", 2**31), "expected at most"),
        (("--method", "speculative", "--draft-temperature", "-1"), "--draft-temperature is -1"),
        (
            ("--method", "speculative", "--draft", "prompt-lookup", "--draft-temperature", "1"),
            "--draft-temperature means nothing with --draft prompt-lookup",
        ),
        (("--method", "speculative", "--cost-ratio", "0"), "expected a number above 0"),
        (("--method", "speculative", "--cost-ratio", "cheap"), "or measure"),
        (
            ("--method", "speculative", "--draft", "prompt-lookup", "--cost-ratio", "measure"),
            "--cost-ratio means nothing with --draft prompt-lookup",
        ),
        (("--method", "speculative", "--save-counts", "c.json"), "without --draft counts"),
        (("--method", "speculative", "--branch", "2"), "--branch means nothing"),
        (("--method", "speculativ"), "did you mean 'speculative'"),
    ],
)
def test_what_makes_no_sense_is_refused(cdec: Runner, words: tuple[object, ...], said: str) -> None:
    assert said in refused(cdec("sample", *PROMPT, *words))


@pytest.mark.parametrize(
    ("typo", "meant"), [("emebdded-draft", "embedded-draft"), ("count", "counts"), ("gpt2", None)]
)
def test_a_draft_that_is_nowhere_may_be_a_typing_error(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch, typo: str, meant: str | None
) -> None:
    from cdec.core import load_model

    def without_hub(name: Any, **options: Any) -> Any:
        if name == typo:
            raise ModelError(f"the model {name} was not found", hint="Check the name.")
        return load_model(name, **options)

    monkeypatch.setattr("cdec.core.load_model", without_hub)
    words = ("sample", *FREE, "--method", "speculative", "--draft", typo)
    said = refused(cdec(*words), "E_MODEL", 69)
    assert f"the model {typo} was not found" in said
    assert ("did you mean" in said) == (meant is not None)
    assert meant is None or f"--draft {meant}?" in said


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--method", "speculative", "--draft", "./nowhere"), "--draft"),
        (("--method", "cdlh", "--reward", "classifier:./nowhere"), "--reward"),
        (("-m", "./nowhere", "--method", "masked"), "--model"),
    ],
)
def test_a_model_folder_that_is_nowhere_is_named_with_its_option(
    cdec: Runner,
    cities: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    option: str,
) -> None:
    monkeypatch.setattr(models, "open_model", OPEN_MODEL)
    said = refused(cdec("sample", "-a", cities, *PROMPT, *words), "E_MODEL", 69)
    assert f"{option}: there is no model folder at './nowhere'" in said


@pytest.mark.parametrize("option", ["--model", "--tokenizer"])
def test_a_tokenizer_that_is_nowhere_is_named_with_its_option(cdec: Runner, option: str) -> None:
    Path("names.txt").write_text("Paris\n")
    result = cdec("compile-set", "names.txt", option, "./nowhere")
    assert (result.status, result.error_code) == (69, "E_MODEL")
    assert f"{option}: there is no tokenizer at './nowhere'" in result.stderr


def test_what_is_typed_wins_over_the_other_budget_of_the_config(cdec: Runner) -> None:
    words = ("sample", *FREE, "--method", "mentored", "-n", 4)
    plain = cdec(*words, "--divergence-total", 0.5).records
    each = cdec(*words, "--divergence", 0.2).records
    Path("cdec.toml").write_text("divergence = 0.2\n")
    assert cdec(*words, "--divergence-total", 0.5).records == plain != each
    Path("cdec.toml").write_text("divergence-total = 0.5\n")
    assert cdec(*words, "--divergence", 0.2).records == each
    Path("cdec.toml").write_text("divergence = 0.2\ndivergence-total = 0.5\n")
    assert "both given" in refused(cdec(*words))


def test_a_measured_ratio_in_the_config_is_for_drafts_that_are_models(
    cdec: Runner, cities: Path
) -> None:
    Path("cdec.toml").write_text('cost-ratio = "measure"\n')
    (record,) = cdec("sample", "-a", cities, *PROMPT, "--method", "disc").records
    assert "cost_per_token" not in record
    words = ("--method", "speculative", "--draft", "prompt-lookup")
    (record,) = cdec("sample", "-a", cities, *PROMPT, *words).records
    assert record["draft_calls"] == 0

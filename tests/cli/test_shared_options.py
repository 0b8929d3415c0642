"""Options that several commands have: one meaning, one help, one default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdec.cli.frame.config import Config
from cdec.cli.frame.declaration import parameters_of
from cdec.cli.frame.registry import options_class_of
from cdec.cli.options.compiling import CompileOptions
from cdec.cli.options.constraint import ConstraintOptions
from cdec.cli.options.model import DecodingOptions, ModelOptions, WarpingOptions
from cdec.cli.options.prompts import PromptOptions
from cdec.cli.options.texts import TextFormatOptions, TextRecordOptions

from .conftest import Runner

USERS = {
    CompileOptions: ("compile-set", "compile-grammar"),
    ConstraintOptions: ("sample", "run", "mass", "score"),
    DecodingOptions: ("sample", "run", "mass"),
    ModelOptions: ("sample", "run", "mass", "score", "retokenize"),
    PromptOptions: ("sample", "run", "mass"),
    TextFormatOptions: ("compile-set", "check"),
    TextRecordOptions: ("score", "retokenize"),
    WarpingOptions: ("sample", "run", "mass", "score"),
}


@pytest.mark.parametrize("shared", USERS, ids=lambda shared: shared.__name__)
def test_a_shared_option_is_the_same_in_every_command(shared: type[object]) -> None:
    expected = parameters_of(shared)
    for command in USERS[shared]:
        found = parameters_of(options_class_of(command))
        assert {name: replace(found[name], within=expected[name].within) for name in expected} == (
            expected
        )


@pytest.mark.parametrize("name", ["sample", "mass", "score"])
def test_a_key_at_the_top_serves_every_command_that_has_the_option(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "cdec.toml"
    path.write_text('artifact = "a.arrow"\nand = ["b.arrow"]\ntop_k = 3\ndevice = "cuda"\n')
    assert Config.load(path).values(name, options_class_of(name)) == {
        "artifact": Path("a.arrow"),
        "conjoined": [Path("b.arrow")],
        "top_k": 3,
        "device": "cuda",
    }


@pytest.mark.parametrize("command", ["mass", "score"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--temperature", "0"), "hint: give a small one such as 0.01"),
        (("--temperature", "-1"), "--temperature must be positive"),
        (("--top-k", "0"), "--top-k must be"),
        (("--top-p", "nan"), "--top-p must lie"),
        (("--seed", "-1"), "--seed is -1"),
        (("--batch-size", "0"), "--batch-size is 0"),
        (("--max-line-bytes", "0"), "--max-line-bytes is 0"),
    ],
)
def test_values_out_of_range_are_refused_by_the_name_that_was_typed(
    cdec: Runner, letters: Path, command: str, words: tuple[str, ...], said: str
) -> None:
    result = cdec(command, "-a", letters, "--prompt", "x", *words, stdin=b"a\n")
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    assert said in result.stderr

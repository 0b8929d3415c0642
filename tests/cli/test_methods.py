"""``cdec methods``: what users are told of the methods."""

from __future__ import annotations

import shlex

import pytest

from cdec.cli.frame.declaration import flag_of, words_of
from cdec.cli.methods import EXAMPLES
from cdec.samplers.facts import ABOUT
from cdec.samplers.registry import METHODS

from .conftest import Runner


def test_every_method_is_described_and_has_an_example() -> None:
    assert list(ABOUT) == list(METHODS) == list(EXAMPLES)


@pytest.mark.parametrize("name", METHODS)
def test_descriptions_fit_their_columns(name: str) -> None:
    about = ABOUT[name]
    assert len(about.summary) <= 61
    assert len(about.law) <= 15 and len(about.weight) <= 16 and len(about.cost) <= 18


@pytest.mark.parametrize("name", METHODS)
def test_examples_use_options_that_the_method_takes(name: str) -> None:
    words = shlex.split(EXAMPLES[name])
    assert words[:2] == ["cdec", "sample"] and words[words.index("--method") + 1] == name
    for_all = {"-a", "-n", "-i", "--method"}
    own = {word for option in METHODS[name].options for word in words_of(option.name)}
    assert {word for word in words if word.startswith("-")} <= for_all | own


def test_the_table_fits_80_columns_and_a_screen(cdec: Runner) -> None:
    result = cdec("methods")
    lines = result.stdout.decode().splitlines()
    assert result.status == 0 and max(map(len, lines)) <= 80 and len(lines) <= 60
    for name, method in METHODS.items():
        at = lines.index(f"{name:<13}  {ABOUT[method.name].summary}")
        for said in (ABOUT[method.name].law, ABOUT[method.name].weight, ABOUT[method.name].cost):
            assert said in lines[at + 1]
        assert all(need in lines[at + 1] for need in method.needs)


@pytest.mark.parametrize("name", METHODS)
def test_a_name_gives_everything_about_one(cdec: Runner, name: str) -> None:
    result = cdec("methods", name)
    text = result.stdout.decode()
    lines = text.splitlines()
    assert result.status == 0 and max(map(len, lines[:-1])) <= 80
    about = ABOUT[name]
    facts = text.partition("Options of")[0]
    assert about.summary in " ".join(facts.split()) and "`" not in facts
    assert "source  " in facts and "when  " in facts and EXAMPLES[name] in text
    (found,) = cdec("methods", name, "--json").records
    options = [option for option in METHODS[name].options if not option.python_only]
    assert [each["name"] for each in found["options"]] == [option.name for option in options]
    assert all(flag_of(option.name) in text for option in options)
    assert (found["needs"], found["example"]) == (list(METHODS[name].needs), EXAMPLES[name])


def test_json_has_a_line_for_each_method(cdec: Runner) -> None:
    assert [each["name"] for each in cdec("methods", "--json").records] == list(METHODS)


def test_a_wrong_name_gives_the_near_one(cdec: Runner) -> None:
    result = cdec("methods", "exatc")
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    assert "did you mean 'exact'?" in result.stderr

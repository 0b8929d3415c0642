"""The options of methods: the command line has those that METHODS declares, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdec.cli.frame.config import Config, option_fields
from cdec.cli.frame.declaration import options_from, parameters_of
from cdec.cli.options.methods import method_parameters
from cdec.cli.options.sampling import SampleOptions
from cdec.cli.runs.method import ChosenMethod
from cdec.compilers import compile_token_set
from cdec.core.errors import ConfigError, UsageError
from cdec.samplers.registry import METHODS

from . import light
from .conftest import Runner

DECLARED = {
    option.name: option
    for method in METHODS.values()
    for option in method.options
    if not option.python_only
}
NEEDED = {"reward": "regex:a", "draft": "prompt-lookup"}


def chosen(method: str, **given: object) -> ChosenMethod:
    options = options_from(SampleOptions, {"method": method, **given})
    return ChosenMethod.of(options.choice, options.methods.given, frozenset(given))


def test_the_command_line_has_the_options_that_methods_declare() -> None:
    assert method_parameters().keys() == DECLARED.keys()
    assert parameters_of(SampleOptions).keys() >= DECLARED.keys()
    assert {option.name for option in option_fields(SampleOptions).values()} >= DECLARED.keys()


@pytest.mark.parametrize("name", DECLARED)
def test_help_begins_with_the_methods_that_use_an_option(name: str) -> None:
    users = [method.name for method in METHODS.values() if method.option(name) is not None]
    said = method_parameters()[name].help
    named = "all methods" if len(users) == len(METHODS) else ", ".join(users)
    assert said.startswith(f"{named}: ")
    assert f"`{name}`" not in said


@pytest.mark.parametrize("name", METHODS)
def test_what_is_not_given_has_the_default_of_the_method(name: str) -> None:
    method = METHODS[name]
    needed = {"reward": NEEDED["reward"]} if method.needs_reward else {}
    values = chosen(name, **needed).values
    assert {**values, **needed} == {**{o.name: o.default for o in method.options}, **needed}


@pytest.mark.parametrize("name", METHODS)
def test_the_manifest_holds_the_options_of_the_method_alone(name: str) -> None:
    method = METHODS[name]
    needed = {"reward": NEEDED["reward"]} if method.needs_reward else {}
    manifest = chosen(name, **needed).manifest()
    assert len(manifest) == sum(option.decides for option in method.options)
    json.dumps(manifest)


def test_an_option_of_another_method_is_refused_if_it_was_typed() -> None:
    with pytest.raises(UsageError, match="--by means nothing to --method disc"):
        chosen("disc", by="text")
    options = options_from(SampleOptions, {"method": "disc", "by": "text"})
    assert (
        "by"
        not in ChosenMethod.of(options.choice, options.methods.given, frozenset({"method"})).values
    )


def test_texts_that_loop_can_be_stopped_where_texts_grow(cdec: Runner, letters: Path) -> None:
    compile_token_set([[0] * 200, [1]], light.vocabulary(), Path("ab.arrow"))
    refused = cdec("sample", "-a", letters, "--prompt", "x", "--method", "topn", "--stop-loops")
    assert refused.status == 2
    assert "--stop-loops means nothing to --method topn" in refused.stderr
    words = ("sample", "-a", "ab.arrow", "--method", "greedy", "--prompt", "x")
    (whole,) = cdec(*words).records
    stopping = cdec(*words, "--stop-loops")
    (stopped,) = stopping.records
    Path("cdec.toml").write_text("stop-loops = true\n")
    assert cdec(*words).records == [stopped]
    assert (whole["text"], whole["finish_reason"]) == ("a" * 200, "complete")
    assert (stopped["text"], stopped["finish_reason"]) == ("a" * 128, "loop")
    cycle = {"code": "W_CYCLE", "token": 0, "byte": 0, "bytes": 200, "period": 1}
    assert whole["warnings"] == [cycle]
    assert stopped["warnings"] == [{**cycle, "bytes": 128}]
    assert stopped["log_weight"] is None and stopped["valid"] is False
    assert "1 stopped in a loop" in stopping.summary


def test_a_key_of_a_method_has_the_type_of_its_option(tmp_path: Path) -> None:
    path = tmp_path / "cdec.toml"
    path.write_text('K = 8\ngamma = "auto"\ntree-cache = "1MB"\nrecycle = true\n')
    values = Config.load(path).values("sample", SampleOptions)
    assert values == {"K": 8, "gamma": "auto", "tree_cache": "1MB", "recycle": True}
    read = options_from(SampleOptions, {**values, "method": "exact"})
    found = ChosenMethod.of(read.choice, read.methods.given, frozenset()).values
    assert (found["K"], found["gamma"], found["tree_cache"]) == (8, "auto", 1_000_000)
    path.write_text('K = "many"\n')
    with pytest.raises(ConfigError, match="expected an integer"):
        Config.load(path).values("sample", SampleOptions)


def test_a_change_of_an_option_that_the_method_does_not_use_hinders_no_resuming(
    cdec: Runner, letters: Path
) -> None:
    words = ("sample", "-a", letters, "--prompt", "x", "-o", "out.jsonl")
    Path("cdec.toml").write_text("particles = 4\nmax_draws = 7\n")
    assert cdec(*words).status == 0
    Path("cdec.toml").write_text("particles = 5\n")
    assert cdec(*words, "--resume").status == 0
    assert cdec(*words, "--K", 5, "--resume").error_code == "E_RESUME_MISMATCH"


@pytest.mark.parametrize("method", ["greedy", "masked", "disc", "exact", "speculative"])
def test_any_method_that_takes_a_draft_takes_one_by_name(
    cdec: Runner, letters: Path, method: str
) -> None:
    words = ("sample", "-a", letters, "--prompt", "x", "--method", method)
    (record,) = cdec(*words, "--draft", "prompt-lookup", "--gamma", "2").records
    assert record["valid"] is True and record["draft_calls"] == 0

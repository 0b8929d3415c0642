"""Options of commands, methods and kinds of constraints."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from cdec.cli.compiling.jobs import CompileOptions
from cdec.cli.frame.config import Config
from cdec.cli.frame.declaration import NumberOrWord, flag_of, parameters_of, words_of
from cdec.cli.frame.registry import options_class_of
from cdec.cli.methods import EXAMPLES
from cdec.cli.options.constraint import ConstraintOptions
from cdec.cli.options.model import DecodingOptions, ModelOptions, WarpingOptions
from cdec.cli.options.prompts import PromptOptions
from cdec.cli.options.record_sources import (
    GrammarLimitOptions,
    RecordSourceOptions,
    SchemaReadingOptions,
    source_fields,
)
from cdec.cli.options.sampling import SampleOptions
from cdec.cli.options.texts import TextFormatOptions, TextRecordOptions
from cdec.cli.runs import models
from cdec.core.errors import CdecError
from cdec.core.files.remote import Place
from cdec.core.options import Option
from cdec.samplers.facts import ABOUT
from cdec.samplers.registry import METHODS
from tests.cli.conftest import Result, Runner

# --- Every option beside every kind of artifact: it says something to the run, or it is refused.

KINDS = ("set", "grammar", "regex", "schema")
REFUSED = {
    "lookahead": {"set", "regex", "schema"},
    "heal": {"set"},
}
"""Options that kinds of artifacts have no use for; what records bring is about none of them."""


class LoadedError(CdecError):
    """Raised where the model would be loaded: nothing was refused before."""

    code = "E_TEST_LOADED"


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An artifact of each kind, for the embedded tokenizer."""
    from cdec.compilers import compile_grammar, compile_regex, compile_schema, compile_set
    from cdec.core import Vocabulary
    from cdec.data.assets import embedded_model_path

    folder = tmp_path_factory.mktemp("kinds")
    vocabulary = Vocabulary.from_tokenizer(embedded_model_path())
    found = {kind: folder / f"{kind}.arrow" for kind in KINDS}
    compile_set(["Paris", "Rome"], vocabulary, found["set"])
    compile_grammar('start: "a" B+\nB: "b"\n', vocabulary, found["grammar"])
    compile_regex("ab+", vocabulary, found["regex"])
    compile_schema('{"type": "integer"}', vocabulary, found["schema"])
    return found


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs end where the model would be loaded."""

    def load(options: object) -> None:
        raise LoadedError("the model would be loaded")

    monkeypatch.setattr(models, "open_model", load)


def alternatives(kind: Any) -> Iterator[Any]:
    """Yield the types that a value of an option may have, None left out."""
    if kind == Place or get_origin(kind) not in (Union, UnionType):
        yield kind
    else:
        yield from (part for part in get_args(kind) if part is not NoneType)


def words(option: Option) -> list[str]:
    """Return an option as it may be typed."""
    kind, flag = next(alternatives(option.type)), flag_of(option.name)
    if get_origin(kind) is list:
        kind = get_args(kind)[0]
    if kind is bool:
        return [flag if option.default is False else flag.replace("--", "--no-", 1)]
    if get_origin(kind) is tuple:
        return [flag, "x", "y"]
    if get_origin(kind) is Literal:
        return [flag, str(next(v for v in get_args(kind) if v != option.default))]
    size = option.metavar == "SIZE" or option.name == "tree_cache"
    number = kind in (int, float, NumberOrWord)
    return [flag, "1" if number else "64MiB" if size else "x"]


def run(cdec: Runner, artifact: Path, *typed: str) -> Result:
    return cdec("sample", "-a", artifact, "--prompt", "x", "--method", "masked", *typed)


@pytest.mark.share(10)
@pytest.mark.parametrize("name", [*parameters_of(SampleOptions)])
def test_an_option_says_something_to_every_kind_of_artifact_or_is_refused(
    cdec: Runner, unloaded: None, artifacts: dict[str, Path], name: str
) -> None:
    option = parameters_of(SampleOptions)[name]
    said = {}
    for kind, artifact in artifacts.items():
        result = run(cdec, artifact, *words(option))
        said[kind] = (result.error_code, result.stderr.replace(f"{kind}.arrow", "ARTIFACT"))
        if name in source_fields():
            assert (result.status, result.error_code) == (2, "E_USAGE")
            assert f"{flag_of(name)} is about" in result.stderr
        elif kind in REFUSED.get(name, ()):
            assert (result.status, result.error_code) == (2, "E_USAGE")
            assert result.stderr.startswith(f"error E_USAGE: {flag_of(name)} ")
    # Where nobody says that it is of some kinds alone, all kinds are treated alike.
    if name not in REFUSED:
        assert len(set(said.values())) == 1
    else:
        assert {kind for kind in KINDS if said[kind][0] == "E_TEST_LOADED"} == (
            set(KINDS) - REFUSED[name]
        )


def test_an_option_about_what_records_bring_is_one_by_its_class() -> None:
    owned = {SchemaReadingOptions, GrammarLimitOptions, RecordSourceOptions}
    names = {name for owner in owned for name in parameters_of(owner)}
    assert source_fields().keys() == names - {"quiet", "debug", "trust_config"}
    assert source_fields()["whitespace"] == ("schema", "--schema")


def test_an_option_of_schemas_names_the_command_that_takes_it(
    cdec: Runner, unloaded: None, artifacts: dict[str, Path]
) -> None:
    result = run(cdec, artifacts["schema"], "--whitespace", "compact")
    assert result.stderr == (
        "error E_USAGE: --whitespace is about a schema that a record brings, and a prompt that is "
        "typed brings none\n"
        "hint: leave it out; an artifact is as it was compiled, so give it to cdec compile-schema\n"
    )


@pytest.mark.parametrize(
    ("record", "words", "warns"),
    [
        ({"prompt": "x"}, ("--whitespace", "compact"), True),
        ({"prompt": "x", "regex": "ab"}, ("--whitespace", "compact"), True),
        ({"prompt": "x", "schema": {}}, ("--whitespace", "compact"), False),
        ({"prompt": "x", "regex": "ab"}, ("--max-nesting", "9"), False),
        ({"prompt": "x", "candidates": ["a"]}, ("--grammar-cache", "9"), False),
        ({"prompt": "x", "candidates": ["a"]}, ("--lenient",), True),
    ],
)
def test_what_the_first_record_brings_nothing_for_is_warned_of_before_a_model_loads(
    cdec: Runner,
    unloaded: None,
    artifacts: dict[str, Path],
    record: dict[str, object],
    words: tuple[str, ...],
    warns: bool,
) -> None:
    typed = ("sample", "-a", artifacts["schema"], "--method", "masked", *words)
    result = cdec(*typed, stdin=json.dumps(record).encode() + b"\n")
    assert result.error_code == "E_TEST_LOADED"
    assert (f"warning W_UNUSED_OPTION: {words[0]} is about" in result.stderr) is warns


def test_options_in_cdec_toml_serve_records_and_hinder_no_others(
    cdec: Runner, unloaded: None, artifacts: dict[str, Path]
) -> None:
    Path("cdec.toml").write_text('whitespace = "compact"\n')
    assert run(cdec, artifacts["set"]).error_code == "E_TEST_LOADED"


def test_requests_of_batch_files_bring_what_is_allowed(
    cdec: Runner, unloaded: None, artifacts: dict[str, Path]
) -> None:
    words = (
        "sample",
        "-a",
        artifacts["schema"],
        "--method",
        "masked",
        "--openai-batch",
        "--lenient",
    )
    refused = cdec(*words, "--allow", "regex", stdin=b"{}\n")
    assert refused.stderr.startswith("error E_USAGE: --lenient is about a schema")
    assert cdec(*words, "--allow", "schema", stdin=b"{}\n").error_code == "E_TEST_LOADED"


# --- Options that several commands have: one meaning, one help, one default.

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


# --- ``cdec methods``: what users are told of the methods.


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


# --- A cdec.toml that was found names no model, but for those that ship, until it was confirmed.


def refused(result: Result, code: str = "E_TRUST", status: int = 69) -> str:
    assert (result.status, result.error_code) == (status, code)
    return result.stderr


@pytest.mark.parametrize(
    "line",
    [
        'model = "downloaded"',
        '[sample]\nmodel = "owner/name"',
        'draft = "downloaded"',
        'method = "cdsl"\nreward = "classifier:downloaded"',
    ],
)
def test_a_model_that_nobody_typed_is_not_loaded(cdec: Runner, cities: Path, line: str) -> None:
    Path("cdec.toml").write_text(line + "\n")
    words = ("sample", "-a", cities, "--prompt", "a")
    assert "--trust-config" in refused(cdec(*words))
    # Once it is confirmed, what is wrong is the model.
    assert "nobody typed" not in cdec(*words, "--trust-config").stderr
    assert "nobody typed" not in cdec(*words).stderr
    Path("cdec.toml").write_text(line + "\n# changed\n")
    refused(cdec(*words))


def test_a_tokenizer_that_nobody_typed_is_not_loaded(cdec: Runner) -> None:
    Path("a.txt").write_text("a\n")
    Path("cdec.toml").write_text('tokenizer = "owner/name"\n')
    refused(cdec("compile-set", "a.txt"))
    assert cdec("compile-set", "a.txt", "--tokenizer", "embedded").status == 0


def test_models_that_ship_and_what_is_typed_need_no_confirmation(
    cdec: Runner, cities: Path
) -> None:
    Path("cdec.toml").write_text('model = "embedded"\ndraft = "prompt-lookup"\n')
    result = cdec("sample", "-a", cities, "--method", "speculative", "--prompt", "a", "-n", "1")
    assert (result.status, len(result.records)) == (0, 1)
    Path("cdec.toml").write_text('model = "owner/name"\n')
    assert cdec("sample", "-a", cities, "--prompt", "a", "--model", "embedded").status == 0

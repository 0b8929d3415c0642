"""Every option beside every kind of artifact: it says something to the run, or it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from cdec.cli.frame.declaration import NumberOrWord, flag_of, parameters_of
from cdec.cli.options.record_sources import (
    GrammarLimitOptions,
    RecordSourceOptions,
    SchemaReadingOptions,
    source_fields,
)
from cdec.cli.options.sampling import SampleOptions
from cdec.cli.runs import models
from cdec.core.errors import CdecError
from cdec.core.files.remote import Place
from cdec.core.options import Option

from .conftest import Result, Runner

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
    assert source_fields()["whitespace"] == ("schema",)


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

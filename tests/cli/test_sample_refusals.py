"""What runs refuse, and when: options, values, artifacts, before a model is loaded."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.frame.config import Config, option_fields
from cdec.cli.frame.console import typed_error
from cdec.cli.frame.declaration import flag_of, options_from, parameters_of
from cdec.cli.frame.process import Interrupted
from cdec.cli.options.methods import method_parameters
from cdec.cli.options.sampling import SampleOptions
from cdec.cli.runs import models
from cdec.cli.runs.method import ChosenMethod
from cdec.compilers import compile_token_set
from cdec.core.errors import ConfigError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.data.assets import embedded_model_path
from cdec.samplers.registry import METHODS
from tests.cli import light
from tests.cli.conftest import Result, Runner

# --- What cdec sample refuses before it loads anything, in the words that were typed.

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
@pytest.mark.share(11)
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


# --- What ends a run before its model loads: outputs that cannot be, and runs that are finished.

ALL_BAD = b'{"id": 1, "prompt": 5}\n{"id": 2\n{"id": 3, "prompt": 6}\n'


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes loading a model a failure from then on."""

    def forbid() -> None:
        def refused(*_: object, **__: object) -> None:
            raise AssertionError("a model was loaded")

        monkeypatch.setattr(models, "open_model", refused)

    return forbid


@pytest.mark.parametrize("name", ["missing/o.jsonl", "missing/o.csv", "missing/o.parquet"])
def test_a_folder_that_is_not_there_is_told_before_the_model_loads(
    cdec: Runner, letters: Path, no_model: Any, name: str
) -> None:
    no_model()
    for command in ("sample", "classify"):
        output = name if "parquet" not in name or command == "sample" else "missing/o.tsv"
        found = cdec(command, "-a", letters, "--prompt", "x", "-o", output)
        assert (found.status, found.error_code) == (74, "E_IO")
        assert "its folder missing is not there" in found.stderr
        assert "mkdir -p missing" in found.stderr


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv", "o.parquet", "o.jsonl.gz"])
def test_a_finished_run_is_complete_without_a_model(
    cdec: Runner, letters: Path, no_model: Any, name: str
) -> None:
    Path("p.jsonl").write_text('{"id": 1, "prompt": "a", "n": 2}\n{"id": "b", "prompt": "b"}\n')
    words = ("sample", "-a", letters, "-i", "p.jsonl", "-o", name, "--resume")
    assert cdec(*words).status == 0
    before = Path(name).read_bytes()
    no_model()
    found = cdec(*words)
    assert (found.status, found.stdout) == (0, b"")
    assert f"already complete: 2 records are in {name}" in found.stderr
    assert Path(name).read_bytes() == before
    assert cdec(*words, "--seed", "1").error_code == "E_RESUME_MISMATCH"
    assert cdec(*words, "--quiet").stderr == ""


def test_a_run_with_errors_or_with_more_to_do_is_told_apart(
    cdec: Runner, letters: Path, no_model: Any
) -> None:
    lines = ['{"id": 1, "prompt": "a"}\n', '{"id": 2}\n']
    Path("p.jsonl").write_text("".join(lines))
    words = ("sample", "-a", letters, "-i", "p.jsonl", "-o", "o.jsonl", "--resume")
    assert cdec(*words).status == 3
    Path("p.jsonl").write_text("".join([*lines, '{"id": 3, "prompt": "c"}\n']))
    assert cdec(*words).status == 3
    assert len(Path("o.jsonl").read_text().splitlines()) == 3
    no_model()
    found = cdec(*words)
    assert found.status == 3, "its errors count"
    assert "already complete: 3 records" in found.stderr
    more = cdec(*words[:-1], "-n", "2", "--force")
    assert "a model was loaded" in more.stderr


def test_where_every_record_fails_the_first_error_is_told(cdec: Runner, letters: Path) -> None:
    found = cdec("sample", "-a", letters, stdin=ALL_BAD)
    assert found.status == 3
    (first, *_) = (record["error"] for record in found.records)
    assert f"error {first['code']}: {first['message']}\nhint: {first['hint']}\n" in found.stderr
    assert "all 3 records failed: 2 E_FIELD, 1 E_JSON" in found.stderr
    some = cdec("sample", "-a", letters, stdin=ALL_BAD + b"x\n")
    assert "failed" not in some.stderr
    assert "error " not in some.stderr
    assert [json.loads(line) for line in some.stdout.splitlines()][:3] == found.records


def test_a_quiet_run_that_refuses_a_source_says_why(cdec: Runner, letters: Path) -> None:
    lines = [{"prompt": "p"}, {"prompt": "q", "regex": r"(a)\1"}, {"prompt": "q", "regex": "("}]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = cdec("sample", "-a", letters, "--quiet", stdin=data)
    assert found.status == 3
    first, told = found.stderr.partition("hint: ")[::2]
    assert first.startswith("error E_REGEX_UNSUPPORTED: field 'regex': ")
    assert "back-reference" in first
    assert told.endswith("\n2 of 3 records failed: 1 E_REGEX_UNSUPPORTED, 1 E_REGEX_SYNTAX\n")
    assert cdec("sample", "-a", letters, "--quiet", stdin=b"p\n").stderr == ""


# --- The options of methods: the command line has those that METHODS declares, and no others.

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

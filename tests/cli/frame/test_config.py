"""Configuration files, typed values, exit statuses, limits of memory."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cdec.cli.compile_set import Options as SetOptions
from cdec.cli.frame.command import EXIT_STATUSES, SOME_RECORDS_FAILED, SOME_TEXTS_INVALID
from cdec.cli.frame.config import Config, changed_words, option_fields
from cdec.cli.frame.console import (
    Console,
    in_typed_words,
    notice_objects,
    record_error,
    typed_error,
)
from cdec.cli.frame.declaration import SPELLINGS, flag_of, words_of
from cdec.cli.frame.process import BROKEN_PIPE_STATUS
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.cli.options.sampling import SampleOptions
from cdec.core.errors import CdecError, ConfigError, LimitError, Notice
from tests.cli import light

# --- cdec.toml: which values are taken, and which are refused.


def _load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "cdec.toml"
    path.write_text(text, encoding="utf-8")
    return Config.load(path)


def test_absent_file_gives_no_values(tmp_path: Path) -> None:
    assert Config.load(tmp_path / "cdec.toml").values("sample", SampleOptions) == {}


def test_values_get_the_options_types(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        'artifact = "a.arrow"\nK = 8\ntemperature = 2\nheal = true\nprompt = ["x", "y"]\n'
        "max_new_tokens = 5\n",
    )
    assert config.values("sample", SampleOptions) == {
        "artifact": Path("a.arrow"),
        "K": 8,
        "temperature": 2.0,
        "heal": True,
        "prompt": ["x", "y"],
        "max_new_tokens": 5,
    }


def test_typed_options_are_left_alone(tmp_path: Path) -> None:
    config = _load(tmp_path, "seed = 3\nn = 2\n")
    assert config.values("sample", SampleOptions, skip={"seed"}) == {"n": 2}


def test_keys_of_other_commands_are_ignored(tmp_path: Path) -> None:
    config = _load(tmp_path, 'prefix = "<"\nK = 2\n')
    assert config.values("compile-set", SetOptions) == {"prefix": "<"}
    assert config.values("sample", SampleOptions) == {"K": 2}


def test_a_commands_table_wins(tmp_path: Path) -> None:
    config = _load(tmp_path, "seed = 1\n[sample]\nseed = 2\n[demo]\nseed = 3\n")
    assert config.values("sample", SampleOptions) == {"seed": 2}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("temprature = 1\n", "temprature"),
        ("[sample]\nprefix = 'x'\n", "prefix"),
        ("[smple]\nseed = 1\n", "smple"),
        ("temperature = 'hot'\n", "temperature"),
        ("seed = 1.5\n", "seed"),
        ("seed = true\n", "seed"),
        ("heal = 1\n", "heal"),
        ("prompt = [1]\n", "prompt"),
        ("trust_remote_code = true\n", "trust_remote_code"),
        ("[sample]\nallow-pickle = true\n", "allow-pickle"),
    ],
)
def test_wrong_keys_and_values_are_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text).values("sample", SampleOptions)
    assert caught.value.details["key"] == key
    assert caught.value.hint


def test_a_wrong_choice_is_refused(tmp_path: Path) -> None:
    config = _load(tmp_path, "leading-space = 'sometimes'\n")
    with pytest.raises(ConfigError, match="'auto', 'always', 'never', 'both'"):
        config.values("compile-set", SetOptions)


def test_the_nearest_key_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, "temprature = 1\n").values("sample", SampleOptions)
    assert "temperature" in str(caught.value.hint)


@pytest.mark.parametrize("data", [b"seed = = 1", b"\xff\xfe", b"x" * (2 << 20)])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cdec.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError):
        Config.load(path)


def test_every_option_of_every_command_has_one_key() -> None:
    for name in COMMANDS:
        options_class = options_class_of(name)
        fields = option_fields(options_class)
        assert len({option.name for option in fields.values()}) == len(fields)


TYPED_ONLY = {
    "output": "sample",
    "force": "sample",
    "resume": "sample",
    "tree": "mass",
    "save-counts": "sample",
    "trust-remote-code": "score",
    "allow-pickle": "retokenize",
    "attn-implementation": "sample",
    "debug": "check",
}


@pytest.mark.parametrize(("key", "command"), TYPED_ONLY.items())
@pytest.mark.parametrize("spelling", ["{0} = {1}\n", "[{2}]\n{0} = {1}\n"])
def test_what_writes_replaces_or_runs_code_is_typed(
    tmp_path: Path, key: str, command: str, spelling: str
) -> None:
    options_class = options_class_of(command)
    value = "true" if option_fields(options_class)[key].type is bool else "'x'"
    for name in (key, key.replace("-", "_")):
        config = _load(tmp_path, spelling.format(name, value, command))
        with pytest.raises(ConfigError, match="command line only") as caught:
            config.values(command, options_class)
        assert f"type --{key}" in str(caught.value.hint)
        # Who types another command in this folder is told as well.
        with pytest.raises(ConfigError):
            config.values("compile-set", SetOptions)


def test_no_option_that_names_a_file_to_write_is_left_out() -> None:
    writes = {"output", "tree", "save-counts"}
    for name in COMMANDS:
        for key, option in option_fields(options_class_of(name)).items():
            takes_path = option.type in (Path, Path | None)
            assert not (takes_path and key in writes) or option.typed_only, (name, key)


def test_what_a_command_shows_is_no_file_that_another_writes(tmp_path: Path) -> None:
    config = _load(tmp_path, "[inspect]\ntree = true\n")
    assert config.values("inspect", options_class_of("inspect")) == {"tree": True}


def test_an_argument_that_may_be_left_out_has_a_key(tmp_path: Path) -> None:
    config = _load(tmp_path, "artifact = 'a.arrow'\n")
    for name in ("run", "check", "inspect", "sample"):
        values = config.values(name, options_class_of(name))
        assert values == {"artifact": Path("a.arrow")}
    with pytest.raises(ConfigError, match="unknown key 'source'"):
        _load(tmp_path, "source = 'x'\n").values("compile-set", SetOptions)


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cdec.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file"):
        Config.load(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="no regular file"):
        Config.load(path)
    path.unlink()
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger"):
        Config.load(path)


def test_options_of_every_command_that_write_or_run_code_are_refused_in_every_table(
    tmp_path: Path,
) -> None:
    refused = 0
    for name in COMMANDS:
        for key, option in option_fields(options_class_of(name)).items():
            if not option.typed_only:
                continue
            value = "true" if option.type is bool else "'x'"
            for text in (f"[{name}]\n{key} = {value}\n", f"{key} = {value}\n"):
                refused += 1
                with pytest.raises(ConfigError, match="command line only"):
                    _load(tmp_path, text).values("methods", options_class_of("methods"))
    assert refused > 50


def test_what_a_file_changed_is_told_as_it_would_be_typed() -> None:
    given = {"temperature": 0.5, "heal": True, "prompt": ["a b", "c"], "K": 4, "deny": "x" * 99}
    words = changed_words(SampleOptions, given)
    assert words == f"--temperature 0.5 --heal --prompt 'a b' --prompt c --deny {'x' * 60}..."
    assert changed_words(SampleOptions, {}) == ""


# --- The words of the library as the command line says them.


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("raise `max_rules`, or split the grammar", "raise --max-rules, or split the grammar"),
        ("use `lexer` dynamic", "use --lexer dynamic"),
        ("give `K` or `tree_cache`", "give --K or --tree-cache"),
        (
            "raise `compile_seconds` or `compile_megabytes`",
            "raise --compile-seconds or --compile-megabytes",
        ),
        ("name another file with `path`", "name another file with -o"),
        ("Lark's dialect: `format` lark", "Lark's dialect: --format lark"),
    ],
)
def test_parameters_in_backquotes_become_options(text: str, typed: str) -> None:
    assert in_typed_words(text) == typed


@pytest.mark.parametrize(
    "text",
    [
        "max_rules is a parameter",
        "the field `cost_per_token` is null",
        "see `cdec COMMAND --help`",
        "`max_rules is unfinished",
        "the text 'say `max_rules` twice' is none",
        "the text \"it's `draft`, isn't it\" is none",
    ],
)
def test_other_words_and_quoted_texts_stay(text: str) -> None:
    assert in_typed_words(text) == text


def test_an_error_names_options_in_message_hint_and_traceback() -> None:
    error = LimitError("`max_rules` is 0", hint="raise `max_rules`", limit="max_rules 0")
    assert typed_error(error) is error
    assert (error.message, error.hint, str(error)) == (
        "--max-rules is 0",
        "raise --max-rules",
        "--max-rules is 0",
    )
    assert error.details == {"limit": "max_rules 0"}


def test_the_error_object_of_a_record_names_options() -> None:
    error = CdecError("it broke", hint="raise `max_n`", line=3)
    assert record_error(error, "q1") == {
        "id": "q1",
        "error": {"code": "E_INTERNAL", "message": "it broke", "hint": "raise --max-n", "line": 3},
    }


def test_errors_and_tracebacks_name_options_on_stderr() -> None:
    stream = io.StringIO()
    console = Console(stderr=stream, debug=True)
    try:
        raise LimitError("`max_rules` is passed", hint="raise `max_rules`")
    except LimitError as error:
        console.traceback(error)
        console.error(error)
    shown = stream.getvalue()
    assert "LimitError: --max-rules is passed\n" in shown
    assert shown.endswith("error E_LIMIT: --max-rules is passed\nhint: raise --max-rules\n")


def test_notices_name_options_on_stderr_and_in_summaries() -> None:
    notice = Notice("W_X", "`lexer` dynamic takes it", {"count": 1})
    stream = io.StringIO()
    Console(stderr=stream).warn([notice])
    assert stream.getvalue() == "warning W_X: --lexer dynamic takes it\n"
    assert notice_objects([notice]) == [
        {"code": "W_X", "message": "--lexer dynamic takes it", "count": 1}
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_typed_as_the_table_of_spellings_says(command: str) -> None:
    for key, option in option_fields(options_class_of(command)).items():
        assert flag_of(option.name) in words_of(option.name)
        assert flag_of(option.name) == f"--{key}"


def test_no_spelling_is_the_dashed_name_alone() -> None:
    assert all(words != ("--" + name.replace("_", "-"),) for name, words in SPELLINGS.items())


# --- Every exit status that an error can have is explained.


def _kinds(kind: type[CdecError]) -> list[type[CdecError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _kinds(below))]


def test_every_status_of_an_error_is_explained() -> None:
    statuses = {kind.exit_status for kind in _kinds(CdecError)}
    statuses |= {0, SOME_TEXTS_INVALID, SOME_RECORDS_FAILED, BROKEN_PIPE_STATUS, 130, 143}
    assert statuses == set(EXIT_STATUSES)


# --- A limit of address space ends a command with its status, at once and at every size.


def limited(folder: Path, kind: int, bound: int, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in another process under a limit."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; from cdec.cli.app import main; sys.exit(main({words}))",
        ],
        cwd=folder,
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(kind, (bound, bound)),
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("megabytes", [100, 140, 600, 1023, 1100])
def test_a_limit_of_address_space_never_hangs(tmp_path: Path, megabytes: int) -> None:
    light.compile_letters(tmp_path / "letters.arrow")
    bound = megabytes << 20
    done = limited(tmp_path, resource.RLIMIT_AS, bound, "inspect", "letters.arrow", "--json")
    if megabytes < 1024:
        assert done.returncode == 75
        assert b"E_LIMIT" in done.stderr and f"{megabytes} MiB".encode() in done.stderr
    else:
        assert done.returncode in (0, 75), done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.share(1)
@pytest.mark.parametrize("megabytes", [586, 1300, 2000])
def test_too_little_for_a_model_is_refused_before_its_libraries_are_loaded(
    tmp_path: Path, megabytes: int
) -> None:
    bound = megabytes << 20
    done = limited(tmp_path, resource.RLIMIT_AS, bound, "sample", "--prompt", "x")
    assert done.returncode == 75
    assert f"{megabytes} MiB, expected at least 2048".encode() in done.stderr


@pytest.mark.parametrize("files", [8, 12])
def test_too_few_files_are_refused(tmp_path: Path, files: int) -> None:
    done = limited(tmp_path, resource.RLIMIT_NOFILE, files, "methods")
    assert (done.returncode, b"ulimit -n" in done.stderr) == (75, True), done.stderr

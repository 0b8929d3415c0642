"""The words of the library as the command line says them."""

from __future__ import annotations

import io

import pytest

from cdec.cli.frame.config import option_fields
from cdec.cli.frame.console import (
    Console,
    in_typed_words,
    notice_objects,
    record_error,
    typed_error,
)
from cdec.cli.frame.declaration import SPELLINGS, flag_of, words_of
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.core.errors import CdecError, LimitError, Notice


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

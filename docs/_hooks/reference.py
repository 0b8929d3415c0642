"""Writes the reference pages from the declarations, each time the site is built."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING
from importlib import import_module
from typing import Any

from mkdocs.structure.files import File

from cdec.cli.frame.command import EXIT_STATUSES
from cdec.cli.frame.declaration import parameters_of, words_of
from cdec.cli.frame.registry import COMMANDS, execute_of, options_class_of
from cdec.cli.methods import method_json
from cdec.cli.options.methods import in_option_words
from cdec.core import errors
from cdec.core.grammars import errors as grammar_errors
from cdec.core.options import Option
from cdec.core.record_fields import RECORD_FIELDS, RecordField
from cdec.core.schemas import errors as schema_errors
from cdec.samplers.facts import ABOUT
from cdec.samplers.registry import METHODS

_PACKAGES = ("cdec.core", "cdec.compilers", "cdec.samplers")
PUBLIC: dict[str, tuple[str, ...]] = {
    **{name: tuple(import_module(name).__all__) for name in _PACKAGES},
    "cdec.integrations.openai_batch": ("answer_batch",),
    "cdec.integrations.transformers": ("generate", "model_vocabulary", "ConstraintProcessor"),
}
"""Public names by module."""


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site."""
    pages = {
        "commands": _commands,
        "methods": _methods,
        "records": _records,
        "errors": _errors,
        "python": _python,
    }
    for name, write in pages.items():
        path = f"reference/{name}.md"
        files.append(File.generated(config, path, content="\n".join(write()) + "\n"))
    return files


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "Every command and option, from the declarations that `--help` reads, too.\n"
    for name in COMMANDS:
        doc = inspect.cleandoc(execute_of(name).__doc__ or "").replace("\b", "")
        yield f"## cdec {name}\n"
        yield from _prose(doc)
        panels: dict[str, list[Option]] = {}
        for parameter in parameters_of(options_class_of(name)).values():
            panels.setdefault(parameter.panel, []).append(parameter)
        for panel, parameters in panels.items():
            yield f"\n**{panel}**\n"
            yield "| option | default | |"
            yield "|---|---|---|"
            yield from map(_option_row, parameters)
        yield ""


def _prose(doc: str) -> Iterator[str]:
    """Yield the text of a command's help, its examples as a block."""
    text, _, examples = doc.partition("Examples:\n")
    yield text.rstrip()
    if examples:
        yield "\n```text"
        yield inspect.cleandoc(examples)
        yield "```"


def _option_row(parameter: Option) -> str:
    words = parameter.metavar if parameter.positional else ", ".join(words_of(parameter.name))
    metavar = "" if parameter.positional or not parameter.metavar else f" {parameter.metavar}"
    default = parameter.default
    shown = "" if default in (None, MISSING, False, ()) else f"`{default}`"
    return f"| `{words}{metavar}` | {shown} | {_cell(parameter.help)} |"


def _cell(text: str) -> str:
    """Return text as a cell of a table: no bars, no HTML."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _methods() -> Iterator[str]:
    yield "# The table of methods\n"
    yield (
        "P is the model's law, S the texts that satisfy the constraint, Q = P given S the target, "
        "Z the model's mass on what is allowed at a step. How to choose: "
        "[Methods](../methods.md).\n"
    )
    yield "| method | what it draws | law | `log_weight` | needs | cost |"
    yield "|---|---|---|---|---|---|"
    for method in METHODS.values():
        about = ABOUT[method.name]
        cells = (about.summary, about.law, about.weight, ", ".join(method.needs), about.cost)
        yield f"| [`{method.name}`](#{method.name}) | {' | '.join(map(_cell, cells))} |"
    for each in map(method_json, METHODS.values()):
        yield f"\n## {each['name']}\n"
        yield f"{each['summary']} {each['when']}\n"
        said = ("law", "log_weight", "cost", "source")
        yield from (f"- **{name}**: {each[name]}" for name in said)
        yield f"\n```text\n{each['example']}\n```\n"
        yield "| option | default | |"
        yield "|---|---|---|"
        for option in each["options"]:
            default = "" if option["default"] in (None, False) else f"`{option['default']}`"
            yield f"| `{option['words'][0]}` | {default} | {_cell(option['help'])} |"


def _records() -> Iterator[str]:
    yield "# Fields of records\n"
    yield (
        "One JSON object a line. A field that does not apply to the method is left out; one that "
        "applies and is not known is null. `--fields a,b,c` selects. Logarithms are natural (nats)."
    )
    commands = list(dict.fromkeys(name for field in RECORD_FIELDS for name in field.of))
    for command in commands:
        yield f"\n## cdec {command}\n"
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        yield from (_field_row(field) for field in RECORD_FIELDS if command in field.of)
    yield "\n## Records that failed\n"
    yield "```json"
    yield '{"id": "q17", "error": {"code": "E_EMPTY_PROMPT", "message": "...", "hint": "..."}}'
    yield "```\n"
    yield "stand in the place of their results; the run's exit status is then 3."


def _field_row(field: RecordField) -> str:
    methods = f" *({field.methods})*" if field.methods not in ("", "all") else ""
    # The words that this field may hold are no options.
    said = field.meaning if field.name == "exactness" else in_option_words(field.meaning)
    meaning = _cell(said.replace("`id_field`", "`--id-field`"))
    return f"| `{field.name}` | {field.type} | {meaning}{methods} |"


def _errors() -> Iterator[str]:
    yield "# Exit statuses and error codes\n"
    yield "| exit status | what happened |"
    yield "|---|---|"
    for status, meaning in EXIT_STATUSES.items():
        yield f"| {status} | {_cell(meaning)} |"
    yield "\n## Error codes\n"
    yield (
        "An error is printed as `error CODE: what was found`, with a `hint:` of what to do next. "
        "In output records it is the object `error`.\n"
    )
    yield "| code | exit status | what it means |"
    yield "|---|---|---|"
    kinds = {
        kind
        for module in (errors, grammar_errors, schema_errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, errors.CdecError) and kind.code
    }
    for kind in sorted(kinds, key=lambda each: (each.exit_status, each.code)):
        meaning = (inspect.getdoc(kind) or "").split("\n")[0]
        yield f"| `{kind.code}` | {kind.exit_status} | {_cell(meaning)} |"


def _python() -> Iterator[str]:
    yield "# Python\n"
    yield (
        "Every name of `cdec.core`, `cdec.compilers` and `cdec.samplers` is one of `cdec`, too "
        "(`import cdec; cdec.load_model`), imported when it is first used. What is not listed here "
        "may change."
    )
    for package, names in PUBLIC.items():
        yield f"\n## {package}\n"
        for name in names:
            home = getattr(getattr(import_module(package), name), "__module__", None)
            if home is not None and home.startswith("cdec."):
                yield f"::: {home}.{name}\n"

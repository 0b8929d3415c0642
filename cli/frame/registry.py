"""The visible list of commands: a new command is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

COMMANDS: dict[str, str] = {
    "compile-set": "cdec.cli.compile_set",
    "compile-grammar": "cdec.cli.compile_grammar",
    "sample": "cdec.cli.sample",
    "run": "cdec.cli.run",
    "check": "cdec.cli.check",
    "retokenize": "cdec.cli.retokenize",
    "score": "cdec.cli.score",
    "mass": "cdec.cli.mass",
    "inspect": "cdec.cli.inspect",
    "doctor": "cdec.cli.doctor",
    "demo": "cdec.cli.demo",
}
"""Command name → module with an ``Options`` dataclass and ``execute(options, run) -> status``."""


def options_class_of(name: str) -> type[Any]:
    """Return the dataclass of a command's options."""
    options_class: type[Any] = import_module(COMMANDS[name]).Options
    return options_class


def execute_of(name: str) -> Callable[..., int]:
    """Return the function that carries a command out."""
    execute: Callable[..., int] = import_module(COMMANDS[name]).execute
    return execute

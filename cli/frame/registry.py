"""The visible list of commands: a new command is one file and one line here.

Those that compile stand in the rows of ``cdec.core.kinds``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cdec.core.kinds import SOURCE_KINDS


@dataclass(frozen=True)
class Command:
    """Declaration of a command, known before its module is imported.

    Attributes:
        module: Has an ``Options`` dataclass and ``execute(options, run) -> status``.
        summary: One line of ``cdec --help``, and the first of the command's own help.
        group: The heading under which it stands.
        least_mib: Address space below which its libraries cannot be loaded, MiB.
    """

    module: str
    summary: str
    group: str
    least_mib: int = 2048


_NUMPY_MIB = 1024
_LITTLE_MIB = 256
"""Without a model; without numpy's arithmetic."""
_COMPILE = "Compile a constraint"
_DRAW = "Draw texts"
_MEASURE = "Measure texts, models and constraints"
_LOOK = "Look around"

COMMANDS: dict[str, Command] = {
    **{
        f"compile-{name}": Command(
            places.command.partition(":")[0], places.summary, _COMPILE, _NUMPY_MIB
        )
        for name, places in SOURCE_KINDS.items()
        if places.command
    },
    "sample": Command(
        "cdec.cli.sample", "Draw samples that satisfy a constraint, as JSON lines.", _DRAW
    ),
    "run": Command(
        "cdec.cli.run", "Run the experiment of a recipe, or sample with an artifact.", _DRAW
    ),
    "check": Command(
        "cdec.cli.check",
        "Say which texts an artifact accepts, and where not.",
        _MEASURE,
        _NUMPY_MIB,
    ),
    "score": Command("cdec.cli.score", "Say how probable given texts are.", _MEASURE),
    "mass": Command(
        "cdec.cli.mass", "Say how much of a model's mass satisfies an artifact.", _MEASURE
    ),
    "classify": Command(
        "cdec.cli.classify", "Say how probable each of some labels is, for each prompt.", _MEASURE
    ),
    "retokenize": Command(
        "cdec.cli.retokenize", "Rewrite texts in the tokens that a model prefers.", _MEASURE
    ),
    "eval": Command(
        "cdec.cli.eval", "Compute metrics of samples, and compare methods.", _MEASURE, _NUMPY_MIB
    ),
    "tune": Command(
        "cdec.cli.tune", "Choose options of a method: the cheapest, then the best.", _MEASURE
    ),
    "report": Command(
        "cdec.cli.report", "Write an evaluation as one page, with plots.", _LOOK, _NUMPY_MIB
    ),
    "trace": Command(
        "cdec.cli.trace",
        "Show what the constraint did to samples, token by token.",
        _LOOK,
        _LITTLE_MIB,
    ),
    "methods": Command(
        "cdec.cli.methods",
        "Say what each method draws: its law, weight and cost.",
        _LOOK,
        _LITTLE_MIB,
    ),
    "inspect": Command("cdec.cli.inspect", "Show what an artifact holds.", _LOOK, _NUMPY_MIB),
    "doctor": Command("cdec.cli.doctor", "Show versions, devices, caches, extras.", _LOOK),
    "reproduce": Command(
        "cdec.cli.reproduce", "Compute the papers' tables and figures anew.", _LOOK
    ),
    "demo": Command("cdec.cli.demo", "Compile, sample and compare on the shipped data.", _LOOK),
}
"""Every command by its name, in the order of the help."""


def options_class_of(name: str) -> type[Any]:
    """Return the dataclass of a command's options."""
    options_class: type[Any] = import_module(COMMANDS[name].module).Options
    return options_class


def execute_of(name: str) -> Callable[..., int]:
    """Return the function that carries a command out."""
    execute: Callable[..., int] = import_module(COMMANDS[name].module).execute
    return execute

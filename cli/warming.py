"""Kernels compiled before they are needed: what commands do first, done once on shipped data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel

_METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("masked", {}),
    ("disc", {"K": 2}),
    ("exact", {}),
    ("asap", {}),
    ("beam", {}),
)
_TOKENS = 12


class Warmed(NamedTuple):
    """What was compiled: kernels that were in no cache, and seconds in all."""

    kernels: int
    seconds: float


def compile_kernels(run: Run) -> Warmed:
    """Compile a list, a grammar by both parsers and a JSON Schema, and draw from each.

    Args:
        run: Console and signals; what is done is noted.

    Returns:
        How many kernels that was. Cost: three minutes where none is cached, else a few seconds.
    """
    from cdec.core import load_model
    from cdec.core.files.scratch import scratch_folder
    from cdec.core.kernels import watched_compilation

    begun = time.perf_counter()
    compiled = 0

    def count(is_under_way: bool) -> None:
        nonlocal compiled
        compiled += is_under_way

    with scratch_folder() as folder, watched_compilation(count):
        model = load_model()
        for name in ("list", "contextual", "dynamic", "schema"):
            run.console.note(f"compiling kernels: {name}")
            methods = _METHODS if name == "list" else _METHODS[:1]
            _draw(model, _constraint(name, model, folder / f"{name}.arrow"), methods)
            run.signals.checkpoint()
    return Warmed(compiled, round(time.perf_counter() - begun, 1))


def _constraint(name: str, model: LanguageModel, path: Path) -> Constraint:
    """Compile the shipped list, a JSON Schema, or the shipped grammar of JSON with a lexer."""
    from cdec.compilers import compile_grammar, compile_schema, compile_set
    from cdec.compilers.schemas.source_kind import FIRST_SCHEMA
    from cdec.core import open_artifact
    from cdec.data.assets import entity_list, grammar_path
    from cdec.data.entities.source import read_entities

    if name == "list":
        compile_set(read_entities(entity_list("facts")), model.vocabulary, path)
    elif name == "schema":
        compile_schema(FIRST_SCHEMA, model.vocabulary, path)
    else:
        lexer: Any = name
        compile_grammar(
            grammar_path("json").read_text(encoding="utf-8"), model.vocabulary, path, lexer=lexer
        )
    return open_artifact(path, vocabulary=model.vocabulary)


def _draw(
    model: LanguageModel, constraint: Constraint, methods: tuple[tuple[str, dict[str, Any]], ...]
) -> None:
    from cdec.core.errors import CdecError
    from cdec.samplers import SAMPLERS, Request

    request = Request.numbered(
        "Paris is", constraint, id="warm", n=2, seed=0, max_new_tokens=_TOKENS
    )
    for method, options in methods:
        sampler: Any = SAMPLERS[method]
        for result in sampler(**options).draw_batch(model, [request]):
            if isinstance(result, CdecError):
                raise result

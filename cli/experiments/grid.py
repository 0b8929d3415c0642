"""Grid of an experiment: every combination of options as a cell, one ``cdec sample`` each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from cdec.cli.experiments.recipe import Alternatives, MethodTable, Recipe
from cdec.cli.frame.declaration import flag_of, key_of, options_from, parameters_of
from cdec.cli.options.methods import method_parameters, named_method
from cdec.cli.options.sampling import SampleOptions
from cdec.core.errors import ConfigError, LimitError, UsageError
from cdec.core.files.remote import place_of

MOST_CELLS = 10_000
"""Most cells of a grid: more are a slip."""
_UNSAFE = re.compile(r"[^\w.+=-]+", re.ASCII)
_LONGEST_NAME = 180
"""Characters of a name, whose file has an ending more."""


@dataclass(frozen=True)
class Cell:
    """One run of a grid.

    Attributes:
        name: Of its file, without an ending.
        values: Options of ``cdec sample`` by name; artifacts of the recipe by their names.
        varied: Those of them that its method is given several values of.
        own: Names of those that count as typed: the method has to use them.
    """

    name: str
    values: Mapping[str, Any]
    varied: Mapping[str, Any]
    own: frozenset[str]

    @property
    def method(self) -> str:
        """Its method."""
        return str(self.values["method"])

    @property
    def tokenizer(self) -> tuple[str | None, str | None]:
        """The model and the revision for which its artifacts are compiled."""
        return self.values.get("model"), self.values.get("revision")

    def options(self, artifacts: Mapping[str, Path], output: Path) -> SampleOptions:
        """Return the options of its ``cdec sample``, which goes on with what is there.

        Args:
            artifacts: Files of the recipe's artifacts by name, for its model.
            output: Where samples go.
        """
        own = {"output": output, "resume": True}
        return options_from(SampleOptions, self.held_to(artifacts) | own)

    def held_to(self, artifacts: Mapping[str, Path]) -> dict[str, Any]:
        """Return the values with the files of artifacts in the place of their names."""
        values = dict(self.values)
        known = parameters_of(SampleOptions)
        for name, value in values.items():
            if known[name].metavar in ("ARTIFACT", "NAME=ARTIFACT"):
                values[name] = _with_files(value, artifacts)
        return values


def _with_files(value: Any, artifacts: Mapping[str, Path]) -> Any:
    """Return a value with files in the place of the names of artifacts."""
    if isinstance(value, list):
        return [_with_files(each, artifacts) for each in value]
    name, equals, artifact = str(value).rpartition("=")
    if artifact not in artifacts:
        return value
    file = artifacts[artifact]
    return f"{name}={file}" if equals else place_of(str(file))


def cells_of(recipe: Recipe, typed: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of a recipe; those of one model stand together.

    Args:
        recipe: The recipe.
        typed: Options that stood on the command line, by name: they win over the recipe's.

    Raises:
        ConfigError: Two cells have one name, an option is used by no method, or a method does not
            exist.
        UsageError: An option that was typed is used by no method.
        LimitError: There are more than ``MOST_CELLS``.
    """
    rows: list[tuple[MethodTable, str, Alternatives]] = []
    for table in recipe.methods:
        rows += [(table, str(method), {}) for method in table.options["method"]]
    used: set[str] = set()
    for place, (table, method, _) in enumerate(rows):
        options = _options_of(recipe, table, method, typed)
        used |= options.keys()
        rows[place] = (table, method, options)
    _refuse_unused(recipe, typed, used)
    count = sum(math.prod(map(len, options.values())) for _, _, options in rows)
    if count > MOST_CELLS:
        raise LimitError(
            f"{recipe.path}: the grid has {count:,} cells, at most {MOST_CELLS:,} are drawn",
            hint="give fewer values, or write several recipes",
            limit=f"{MOST_CELLS} cells",
        )
    cells = [cell for row in rows for cell in _cells(*row, frozenset(typed))]
    _require_names(recipe, cells)
    models: dict[Any, int] = {}
    for cell in cells:
        models.setdefault(cell.tokenizer, len(models))
    return sorted(cells, key=lambda cell: models[cell.tokenizer])


def _options_of(
    recipe: Recipe, table: MethodTable, method: str, typed: Mapping[str, Any]
) -> Alternatives:
    """Return the options of a method: the recipe's, its own, then those that were typed."""
    try:
        declared = named_method(method)
    except UsageError as error:
        raise ConfigError(f"{recipe.path}: {error.message}", hint=error.hint) from None
    known, of_methods = parameters_of(SampleOptions), method_parameters()
    displaced = {known[name].one_of for name in typed} - {""}
    given = {
        name: values
        for name, values in {**table.options, **recipe.shared, **table.options}.items()
        if known[name].one_of not in displaced
    } | {name: [value] for name, value in typed.items()}
    return {
        name: [method] if name == "method" else values
        for name, values in given.items()
        # What stands for all methods is for those that have it.
        if name in table.options or name not in of_methods or declared.option(name) is not None
    }


def _refuse_unused(recipe: Recipe, typed: Mapping[str, Any], used: set[str]) -> None:
    known = parameters_of(SampleOptions)
    displaced = {known[name].one_of for name in typed} - {""}
    for name in typed:
        if name not in used:
            raise UsageError(
                f"{flag_of(name)} means nothing to the methods of {recipe.path}",
                hint="leave it out",
            )
    for name in recipe.shared:
        if name not in used and known[name].one_of not in displaced:
            raise ConfigError(
                f"{recipe.path}: {key_of(known[name])!r} means nothing to any of the methods",
                hint="leave it out, or check the methods",
                key=name,
            )


def _cells(
    table: MethodTable, method: str, options: Alternatives, typed: frozenset[str]
) -> Iterator[Cell]:
    """Yield the cells of one method."""
    own = (typed | table.options.keys()) & options.keys()
    varied = [name for name, values in options.items() if len(values) > 1]
    several = len(table.options["method"]) > 1
    known = parameters_of(SampleOptions)
    for combination in product(*options.values()):
        values = dict(zip(options, combination, strict=True))
        words = [method] if table.name is None else [table.name, *([method] if several else [])]
        words += [f"{key_of(known[name])}={_word(values[name])}" for name in varied]
        name = _UNSAFE.sub("_", "-".join(words)).strip(".-")[:_LONGEST_NAME]
        yield Cell(name, values, {name: values[name] for name in varied}, own)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _require_names(recipe: Recipe, cells: Iterable[Cell]) -> None:
    """Refuse cells of one name, whose samples would go to one file, also where cases are one."""
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.name.casefold(), cell)
        if other is not cell or not cell.name:
            raise ConfigError(
                f"{recipe.path}: two cells would be called {cell.name!r}",
                hint='give methods names that differ, as in name = "short", and each value once',
                key="name",
            )

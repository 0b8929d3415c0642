"""Recipes: TOML files that describe experiments, checked whole before anything is done."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_origin

from cdec.cli.experiments.files import located
from cdec.cli.frame.config import (
    checked_value,
    option_fields,
    read_toml,
    typed_only,
    unknown_key,
)
from cdec.cli.frame.declaration import key_of, parameters_of
from cdec.cli.frame.registry import options_class_of
from cdec.cli.options.evaluation import EvaluationOptions
from cdec.cli.options.sampling import SampleOptions
from cdec.core.errors import ConfigError, InputMissingError
from cdec.core.kinds import SOURCE_KINDS
from cdec.core.options import Option
from cdec.data.assets import recipe_names, recipe_path
from cdec.data.near import near_hint

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
Alternatives = Mapping[str, Sequence[Any]]
"""Option → the values that it takes in turn, one where it is not varied."""

_TEXTS = ("title", "about", "paper")
_TABLES = ("artifacts", "sample", "methods", "evaluation")
_OF_A_TERMINAL = frozenset({"quiet", "json", "progress", "stream"})
"""Options about what is printed, which are typed where they are wanted."""
_OF_THE_MODEL = frozenset({"model", "tokenizer", "revision"})
"""Options of compile commands that the runs decide: artifacts are compiled for their models."""


@dataclass(frozen=True)
class ArtifactSource:
    """An artifact of a recipe: the command that compiles it, and its options.

    Attributes:
        kind: Key in ``SOURCE_KINDS``.
        values: Options of ``compile-KIND`` by name, its argument among them.
    """

    kind: str
    values: Mapping[str, Any]

    @property
    def command(self) -> str:
        """The command that compiles it."""
        return f"compile-{self.kind}"


@dataclass(frozen=True)
class MethodTable:
    """One of the methods of a recipe: a name for its cells, and its options."""

    name: str | None
    options: Alternatives


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A described experiment.

    Attributes:
        path: Of its file, for messages.
        data: The bytes of the file; empty where there is none.
        title, about, paper: For people; empty where it does not say.
        artifacts: To compile, by the names that runs give.
        shared: Options of all runs.
        methods: One or more, each with options of its own, which win.
        evaluation: Options of the evaluation by name.
    """

    path: Path
    data: bytes = b""
    title: str = ""
    about: str = ""
    paper: str = ""
    artifacts: Mapping[str, ArtifactSource] = field(default_factory=dict)
    shared: Alternatives = field(default_factory=dict)
    methods: Sequence[MethodTable]
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """That of the file, without its ending."""
        return self.path.stem

    def evaluated_by(self, more: Mapping[str, Any]) -> Recipe:
        """Return it with further options of the evaluation, which win."""
        return replace(self, evaluation={**self.evaluation, **more})

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Read a recipe, and check every key and value for itself.

        Args:
            path: The file; places that it names are relative to its folder.

        Raises:
            InputMissingError: It is not there.
            ConfigError: It is no TOML; or a key is unknown, may be typed only, or has a value of
                another type.
        """
        try:
            values, data = read_toml(path)
        except FileNotFoundError:
            raise InputMissingError(
                f"{path} does not exist",
                hint=f"check the name; recipes that ship: {', '.join(recipe_names())}",
                path=str(path),
            ) from None
        names = values.get("artifacts")
        reader = _Reader(path, frozenset(names if isinstance(names, dict) else ()))
        recipe = reader.recipe(values, data)
        reader.require_used(recipe)
        return recipe


def recipe_of(argument: str) -> Path | None:
    """Return the recipe that an argument of ``cdec run`` names; None where it names an artifact.

    Args:
        argument: The place of a ``.toml``, or the name of a shipped recipe where no file has it; a
            folder may have it, such as the one of its outputs.

    Raises:
        InputMissingError: Nothing is there, and the name is near that of a shipped recipe.
    """
    if argument.endswith(".toml"):
        return Path(argument)
    names = recipe_names()
    if argument in names and not Path(argument).is_file():
        return recipe_path(argument)
    shipped = f"shipped recipes: {', '.join(names)}"
    hint = near_hint(argument, names, shipped)
    if hint != shipped and not Path(argument).exists():
        raise InputMissingError(
            f"there is no artifact {argument}, and no recipe of that name", hint=hint
        )
    return None


@dataclass(frozen=True)
class _Reader:
    """Reads the tables of one file.

    Attributes:
        path: The file.
        names: Of the artifacts that it declares.
    """

    path: Path
    names: frozenset[str]

    def recipe(self, values: Mapping[str, Any], data: bytes) -> Recipe:
        for key in values:
            if key not in (*_TEXTS, *_TABLES):
                raise unknown_key(self.path, key, (*_TEXTS, *_TABLES))
        texts = {key: checked_value(key, values.get(key, ""), str, self.path) for key in _TEXTS}
        return Recipe(
            path=self.path,
            data=data,
            **texts,
            artifacts={
                name: self._artifact(name, self._table(f"artifacts.{name}", table))
                for name, table in self._table("artifacts", values.get("artifacts", {})).items()
            },
            shared=self._shared(self._table("sample", values.get("sample", {}))),
            methods=self._methods(values.get("methods", [])),
            evaluation=self._evaluation(self._table("evaluation", values.get("evaluation", {}))),
        )

    def require_used(self, recipe: Recipe) -> None:
        """Refuse artifacts that no run would be held to."""
        tables = (recipe.shared, *(method.options for method in recipe.methods))
        held = parameters_of(SampleOptions)
        used = {
            str(each).rpartition("=")[2]
            for table in tables
            for name, values in table.items()
            if held[name].metavar in ("ARTIFACT", "NAME=ARTIFACT")
            for value in values
            for each in (value if isinstance(value, list) else [value])
        }
        for name in sorted(self.names - used):
            raise ConfigError(
                f"{self.path}: no run is held to the artifact {name!r}",
                hint=f'write artifact = "{name}" below [sample], or leave it out',
                key=name,
            )

    def _table(self, name: str, value: object) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise ConfigError(
            f"{self.path}: {name} is {value!r}, expected a table",
            hint=f"write [{name}] and keys below it",
            key=name,
        )

    def _shared(self, table: Mapping[str, Any]) -> Alternatives:
        if "method" in table:
            raise ConfigError(
                f"{self.path}: sample: method is named for all runs",
                hint='write [[methods]] and below it method = "disc" and its options',
                key="method",
            )
        return self._options("sample", table)

    def _methods(self, tables: object) -> list[MethodTable]:
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise ConfigError(
                f"{self.path}: methods is {tables!r}, expected tables",
                hint='write [[methods]] and below it method = "disc" and its options',
                key="methods",
            )
        if not tables:
            raise ConfigError(
                f"{self.path}: there are no methods, so nothing would be drawn",
                hint='write [[methods]] and below it method = "disc" and its options',
                key="methods",
            )
        return [self._method(number, table) for number, table in enumerate(tables, 1)]

    def _method(self, number: int, table: Mapping[str, Any]) -> MethodTable:
        where = f"methods, number {number}"
        options = {key: value for key, value in table.items() if key != "name"}
        if "method" not in options:
            raise ConfigError(
                f"{self.path}: {where}, names no method",
                hint='write for example method = "disc"; `cdec methods` lists them',
                key="method",
            )
        name = None
        if "name" in table:
            name = checked_value("name", table["name"], str, self.path)
        return MethodTable(name, self._options(where, options, more=("name",)))

    def _options(
        self, where: str, table: Mapping[str, Any], more: Sequence[str] = ()
    ) -> Alternatives:
        """Return the options of ``cdec sample`` that a table gives."""
        known = option_fields(SampleOptions)
        known = {key: option for key, option in known.items() if key not in _OF_A_TERMINAL}
        found: dict[str, Sequence[Any]] = {}
        for key, value in table.items():
            option = self._known(where, key, known, more)
            if option.name in found:
                raise ConfigError(f"{self.path}: {where}: {key!r} stands there twice", key=key)
            found[option.name] = self._alternatives(f"{where}: {key}", value, option)
        return found

    def _alternatives(self, key: str, value: Any, option: Option) -> Sequence[Any]:
        """Return the values that an option takes in turn; one that takes a list has one."""
        is_varied = isinstance(value, list) and get_origin(option.type) not in (list, tuple)
        if is_varied and not value:
            raise ConfigError(
                f"{self.path}: {key} is an empty list, which leaves no run",
                hint="give one value, or several",
                key=option.name,
            )
        values = value if is_varied else [value]
        return [self._value(key, each, option) for each in values]

    def _value(self, key: str, value: Any, option: Option) -> Any:
        """Return a value as its option's type, places in it relative to the file's folder."""
        checked = checked_value(key, value, option.type, self.path)
        if option.metavar.startswith("FILE") and "-" in (
            value if isinstance(value, list) else [value]
        ):
            raise ConfigError(
                f"{self.path}: {key} is stdin, which the first run would read to its end",
                hint="name a file",
                key=option.name,
            )
        return located(option, checked, self.path.parent, but=self.names)

    def _artifact(self, name: str, table: Mapping[str, Any]) -> ArtifactSource:
        kinds = [kind for kind, places in SOURCE_KINDS.items() if places.command]
        where, kind = f"artifacts.{name}", table.get("kind")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{self.path}: the artifact {name!r} could not be called so in a folder",
                hint="name it with letters, digits, dashes and underscores",
                key=name,
            )
        if kind not in kinds:
            raise ConfigError(
                f"{self.path}: {where}: kind is {kind!r}, expected one of {', '.join(kinds)}",
                hint=near_hint(str(kind), kinds, 'write for example kind = "set"'),
                key="kind",
            )
        options_class = options_class_of(f"compile-{kind}")
        known = {key_of(option): option for option in parameters_of(options_class).values()}
        unfit = _OF_A_TERMINAL | _OF_THE_MODEL
        known = {key: option for key, option in known.items() if key not in unfit}
        values: dict[str, Any] = {}
        for key, value in table.items():
            if key == "kind":
                continue
            option = self._known(where, key, known, ("kind",))
            values[option.name] = self._value(f"{where}: {key}", value, option)
        argument = next(option.name for option in known.values() if option.positional)
        if argument not in values:
            raise ConfigError(
                f"{self.path}: {where} has no {argument}",
                hint=f"write {argument} = ..., what `cdec compile-{kind}` is given",
                key=argument,
            )
        return ArtifactSource(kind, values)

    def _evaluation(self, table: Mapping[str, Any]) -> dict[str, Any]:
        known = {key_of(option): option for option in parameters_of(EvaluationOptions).values()}
        found: dict[str, Any] = {}
        for key, value in table.items():
            option = self._known("evaluation", key, known)
            found[option.name] = self._value(f"evaluation: {key}", value, option)
            if key == "target" and not Path(found[option.name]).exists():
                # Perhaps the name of a cell: the grid tells.
                found[option.name] = value
        return found

    def _known(
        self, where: str, key: str, known: Mapping[str, Option], more: Sequence[str] = ()
    ) -> Option:
        normal = key.replace("_", "-")
        if normal not in known:
            error = unknown_key(self.path, key, (*known, *more))
            error.message = f"{self.path}: {where}: unknown key {key!r}"
            error.args = (error.message,)
            raise error
        if known[normal].typed_only:
            raise typed_only(self.path, key)
        return known[normal]

"""cdec.toml: defaults for options, read from the working directory."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from cdec.core.errors import ConfigError

FILE_NAME = "cdec.toml"
_MAX_BYTES = 1 << 20

COMMAND_LINE_ONLY = frozenset({"trust-remote-code", "allow-pickle", "debug"})
"""A file that lies in a downloaded folder must not be able to switch these on."""


class NumberOrWord(str):
    """The text of an option that is a number or a word; in ``cdec.toml`` it may be a number."""

    __slots__ = ()


@dataclass(frozen=True)
class Config:
    """The contents of one ``cdec.toml``; empty where there is none.

    Keys are option names (``max-new-tokens`` or ``max_new_tokens``). A key at the top serves every
    command that has the option; a table named after a command (``[sample]``) serves that one, and
    wins.
    """

    values_by_key: Mapping[str, Any]
    path: Path

    @classmethod
    def load(cls, path: Path = Path(FILE_NAME)) -> Config:
        """Read the file.

        Raises:
            ConfigError: It cannot be read or is not TOML.
        """
        try:
            data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None
        except FileNotFoundError:
            return cls({}, path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
        if data is None:
            raise ConfigError(f"{path} is larger than {_MAX_BYTES} bytes", path=str(path))
        try:
            return cls(tomllib.loads(data.decode("utf-8-sig")), path)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{path} is not TOML: {error}", hint="write `name = value` lines", path=str(path)
            ) from error

    def values(
        self, command: str, options_class: type, *, skip: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Return the values for one command's options, by field name.

        Args:
            command: The command's name.
            options_class: Its dataclass of options.
            skip: Fields that were typed and keep what was typed.

        Raises:
            ConfigError: A key is no option of any command, or its value has another type.
        """
        own = option_fields(options_class)
        found: dict[str, Any] = {}
        for key, value in self._applicable(command, own).items():
            name, annotation = own[key]
            found[name] = _checked(key, value, annotation, self.path)
        return {name: value for name, value in found.items() if name not in set(skip)}

    def _applicable(self, command: str, own: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
        from cdec.cli.frame.registry import COMMANDS, options_class_of

        everyone = {key for name in COMMANDS for key in option_fields(options_class_of(name))}
        chosen: dict[str, Any] = {}
        tables = {k: v for k, v in self.values_by_key.items() if isinstance(v, dict)}
        for name, table in tables.items():
            if name not in COMMANDS:
                raise self._unknown(name, everyone | set(COMMANDS))
            known = set(option_fields(options_class_of(name)))
            for key in table:
                self._check_key(key, known)
        for key, value in self.values_by_key.items():
            if key not in tables:
                normal = self._check_key(key, everyone)
                if normal in own:
                    chosen[normal] = value
        for key, value in tables.get(command, {}).items():
            chosen[key.replace("_", "-")] = value
        return chosen

    def _check_key(self, key: str, known: set[str]) -> str:
        normal = key.replace("_", "-")
        if normal in COMMAND_LINE_ONLY:
            raise ConfigError(
                f"{self.path}: {key!r} may stand on the command line only",
                hint=f"remove it here and type --{normal} where it is wanted",
                key=key,
            )
        if normal not in known:
            raise self._unknown(key, known)
        return normal

    def _unknown(self, key: str, known: Iterable[str]) -> ConfigError:
        from difflib import get_close_matches

        close = get_close_matches(key.replace("_", "-"), sorted(known), n=1)
        meant = (
            f"did you mean {close[0]!r}?" if close else "see `cdec COMMAND --help` for the names"
        )
        return ConfigError(f"{self.path}: unknown key {key!r}", hint=meant, key=key)


def option_fields(options_class: type) -> dict[str, tuple[str, Any]]:
    """Return key → (field name, annotation) for the options (not the arguments) of a command."""
    from typer.models import ArgumentInfo

    from cdec.cli.frame.command import option_key

    hints = get_type_hints(options_class, include_extras=True)
    found = {}
    for field in dataclasses.fields(options_class):
        annotation = hints[field.name]
        if not any(isinstance(extra, ArgumentInfo) for extra in get_args(annotation)[1:]):
            found[option_key(annotation, field.name)] = (field.name, annotation)
    return found


def _checked(key: str, value: Any, annotation: Any, path: Path) -> Any:
    """Return ``value`` as the option's type, or raise ConfigError."""
    expected = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    for candidate in _alternatives(expected):
        matched, converted = _match(value, candidate)
        if matched:
            return converted
    raise ConfigError(
        f"{path}: {key!r} is {value!r}, expected {_describe(expected)}",
        hint=f"write for example `{key} = {_example(expected)}`",
        key=key,
    )


def _alternatives(expected: Any) -> list[Any]:
    if get_origin(expected) in (Union, UnionType):
        return [part for part in get_args(expected) if part is not NoneType]
    return [expected]


def _match(value: Any, expected: Any) -> tuple[bool, Any]:
    origin = get_origin(expected)
    if origin is list:
        items = value if isinstance(value, list) else [value]
        pairs = [_match(item, get_args(expected)[0]) for item in items]
        return all(ok for ok, _ in pairs), [item for _, item in pairs]
    if origin is Literal:
        return value in get_args(expected), value
    if expected is Path:
        return isinstance(value, str), Path(value) if isinstance(value, str) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if expected is NumberOrWord:
        return is_number or isinstance(value, str), NumberOrWord(value)
    if expected is float:
        return is_number, float(value) if is_number else None
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    return isinstance(value, expected), value


def _describe(expected: Any) -> str:
    names = []
    for part in _alternatives(expected):
        if get_origin(part) is Literal:
            names.append("one of " + ", ".join(map(repr, get_args(part))))
        elif get_origin(part) is list:
            names.append("a list of strings")
        else:
            words = {bool: "true or false", int: "an integer", float: "a number"}
            words[NumberOrWord] = "a number or a word"
            names.append(words.get(part, "a string"))
    return " or ".join(names)


def _example(expected: Any) -> str:
    part = _alternatives(expected)[0]
    if get_origin(part) is Literal:
        return f'"{get_args(part)[0]}"'
    return {bool: "true", int: "4", float: "1.0"}.get(part, '"..."')

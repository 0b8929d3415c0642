"""cdec.toml: defaults for options, read from the working directory."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from cdec.cli.frame.declaration import (
    CommonOptions,
    NumberOrWord,
    flag_of,
    key_of,
    parameters_of,
)
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.core.errors import ConfigError, TrustError
from cdec.core.files.cache import CacheFolder
from cdec.core.files.remote import Url, is_url
from cdec.core.options import Option

FILE_NAME = "cdec.toml"
_MAX_BYTES = 1 << 20
_MOST_CONFIRMED = 1000
"""Files that are remembered as confirmed."""
_SHOWN = 60
"""Most characters of a value that are shown."""


@dataclass(frozen=True)
class Config:
    """The contents of one ``cdec.toml``; empty where there is none.

    Keys are option names (``max-new-tokens`` or ``max_new_tokens``). A key at the top serves every
    command that has the option; a table named after a command (``[sample]``) serves that one, and
    wins.
    """

    values_by_key: Mapping[str, Any]
    path: Path
    digest: str = ""
    """SHA-256 of the file, 64 hex digits."""

    @classmethod
    def load(cls, path: Path = Path(FILE_NAME)) -> Config:
        """Read the file.

        Raises:
            ConfigError: It cannot be read or is not TOML.
        """
        try:
            values, data = read_toml(path)
        except FileNotFoundError:
            return cls({}, path)
        return cls(values, path, hashlib.sha256(data).hexdigest())

    def values(
        self, command: str, options_class: type[CommonOptions], *, skip: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Return the values for one command's options, by field name.

        Args:
            command: The command's name.
            options_class: Its dataclass of options.
            skip: Fields that were typed and keep what was typed, as do those ``one_of`` which is
                given then.

        Raises:
            ConfigError: A key is no option of any command, or its value has another type.
        """
        own, kept = option_fields(options_class), set(skip)
        given = {o.one_of for o in own.values() if o.name in kept} - {""}
        kept |= {o.name for o in own.values() if o.one_of in given}
        found: dict[str, Any] = {}
        for key, value in self._applicable(command, own).items():
            found[own[key].name] = checked_value(key, value, own[key].type, self.path)
        return {name: value for name, value in found.items() if name not in kept}

    def _applicable(self, command: str, own: Mapping[str, Option]) -> dict[str, Any]:
        asked = COMMANDS if self.values_by_key else ()  # Their options are in their modules.
        every_command = {name: option_fields(options_class_of(name)) for name in asked}
        everyone: dict[str, list[Option]] = {}
        for fields in every_command.values():
            for key, parameter in fields.items():
                everyone.setdefault(key, []).append(parameter)
        chosen: dict[str, Any] = {}
        tables = {k: v for k, v in self.values_by_key.items() if isinstance(v, dict)}
        for name, table in tables.items():
            if name not in COMMANDS:
                raise unknown_key(self.path, name, {*everyone, *COMMANDS})
            alone = {key: [option] for key, option in every_command[name].items()}
            for key in table:
                self._check_key(key, alone)
        for key, value in self.values_by_key.items():
            if key not in tables:
                normal = self._check_key(key, everyone)
                if normal in own:
                    chosen[normal] = value
        own_table = tables.get(command, {})
        return chosen | {key.replace("_", "-"): value for key, value in own_table.items()}

    def _check_key(self, key: str, known: Mapping[str, Sequence[Option]]) -> str:
        """Return a key as options spell it; ``known`` are the options that it would set."""
        normal = key.replace("_", "-")
        if normal not in known:
            raise unknown_key(self.path, key, known)
        if any(option.typed_only for option in known[normal]):
            raise typed_only(self.path, key)
        return normal


def unknown_key(path: Path, key: str, known: Iterable[str]) -> ConfigError:
    """Return the error of a key that a file of options must not have, among those it may have."""
    from difflib import get_close_matches

    close = get_close_matches(key.replace("_", "-"), sorted(known), n=1)
    meant = f"did you mean {close[0]!r}?" if close else "see `cdec COMMAND --help` for the names"
    return ConfigError(f"{path}: unknown key {key!r}", hint=meant, key=key)


def typed_only(path: Path, key: str) -> ConfigError:
    """Return the error of a key that no file may give, as it writes a file or runs code."""
    return ConfigError(
        f"{path}: {key!r} writes a file or runs code, and may stand on the command line only",
        hint=f"remove it here and type --{key.replace('_', '-')} where it is wanted",
        key=key,
    )


def read_toml(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return what a TOML file says, and its bytes.

    Raises:
        FileNotFoundError: It is not there.
        ConfigError: It cannot be read, is too large or is not TOML.
    """
    try:
        data = _read(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES} bytes", path=str(path))
    try:
        return tomllib.loads(data.decode("utf-8-sig")), data
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not TOML: {error}", hint="write `name = value` lines", path=str(path)
        ) from error


def _read(path: Path) -> bytes:
    """Return a file's bytes, one more than may be at most.

    subtle: what is opened is looked at, not what bears the name a moment before: a pipe would keep
    us waiting, a device would never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(
                f"{path} is no regular file",
                hint="remove it, or work in another folder",
                path=str(path),
            )
        data = bytearray()
        while len(data) <= _MAX_BYTES and (piece := file.read(_MAX_BYTES + 1 - len(data))):
            data += piece
        return bytes(data)


def require_confirmed(
    config: Config,
    options_class: type[CommonOptions],
    configured: Mapping[str, Any],
    confirms: bool,
) -> None:
    """Refuse a file that names a model which nobody typed, unless it was confirmed as it stands.

    Args:
        config: The file.
        options_class: Of the command.
        configured: What the file gives that was not typed, by field name.
        confirms: Whether the file is confirmed now; its digest is remembered in the user's cache.

    Raises:
        TrustError: It names a model, and was never confirmed or has changed since.
    """
    known = parameters_of(options_class)
    named = [
        (name, value)
        for name, value in configured.items()
        if (says := known[name].names_model) and value is not None and says(str(value))
    ]
    if not named:
        return
    folder = CacheFolder("confirmed", most=_MOST_CONFIRMED, max_bytes=0)
    if confirms:
        folder.keep(config.digest, b"")
    elif folder.read(config.digest) is None:
        name, value = named[0]
        raise TrustError(
            f"{config.path} names the {name} {value!r}, which nobody typed; a file that was found "
            "may name models that ship with the package only",
            hint=f"type {flag_of(name)} {value}, or confirm the file as it stands with "
            "--trust-config, once",
            path=str(config.path),
            key=name,
        )


def changed_words(options_class: type[CommonOptions], given: Mapping[str, Any]) -> str:
    """Return what a file changed, as it would be typed; empty for nothing.

    Args:
        options_class: Of the command.
        given: Values of the file, by field name.
    """
    known = parameters_of(options_class)
    changed = {name: value for name, value in given.items() if value != known[name].default}
    return shlex.join(map(_cut, typed_words(changed)))


def typed_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words by which options are typed that have these values, by name."""
    words: list[str] = []
    for name, value in values.items():
        flag = flag_of(name)
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
            continue
        for part in value if isinstance(value, list) else [value]:
            own = part if isinstance(part, tuple) else (part,)
            words += [flag, *map(str, own)]
    return words


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def option_fields(options_class: type[CommonOptions]) -> dict[str, Option]:
    """Return the options of a command by their keys, and the arguments that have one."""
    found = parameters_of(options_class).values()
    return {key_of(p): p for p in found if p.has_key or not p.positional}


def checked_value(key: str, value: Any, expected: Any, path: Path) -> Any:
    """Return the value of a key as the type of its option, ``expected``.

    Raises:
        ConfigError: It is of another type.
    """
    matched, converted = _match(value, expected)
    if matched:
        return converted
    said, examples = zip(*map(_described, _alternatives(expected)), strict=True)
    raise ConfigError(
        f"{path}: {key!r} is {value!r}, expected {' or '.join(said)}",
        hint=f"write for example `{key} = {examples[0]}`",
        key=key,
    )


def _alternatives(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if get_origin(expected) in (Union, UnionType) else (expected,)


def _match(value: Any, expected: Any) -> tuple[bool, Any]:
    origin = get_origin(expected)
    if origin in (Union, UnionType):
        tried = (_match(value, candidate) for candidate in _alternatives(expected))
        return next((found for found in tried if found[0]), (False, value))
    if origin is list:
        items = value if isinstance(value, list) else [value]
        pairs = [_match(item, get_args(expected)[0]) for item in items]
        return all(ok for ok, _ in pairs), [item for _, item in pairs]
    if origin is tuple:
        kinds = get_args(expected)
        if not isinstance(value, list) or len(value) != len(kinds):
            return False, value
        pairs = [_match(item, kind) for item, kind in zip(value, kinds, strict=True)]
        return all(ok for ok, _ in pairs), tuple(item for _, item in pairs)
    if origin is Literal:
        return value in get_args(expected), value
    if expected is Url:
        return is_url(value), Url(value)
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


def _described(kind: Any) -> tuple[str, str]:
    """Return what a value of a type is, and an example of one."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts)), f'"{parts[0]}"'
    if origin is list:
        return "a list of strings", '"..."'
    if origin is tuple:
        return f"a list of {len(parts)} strings", "[" + ", ".join(['"..."'] * len(parts)) + "]"
    return _SAID.get(kind, ("a string", '"..."'))


_SAID: Mapping[Any, tuple[str, str]] = {
    bool: ("true or false", "true"),
    int: ("an integer", "4"),
    float: ("a number", "1.0"),
    NumberOrWord: ("a number or a word", '"..."'),
}

"""ServingSettings: the operator's file, which names artifacts and says what requests may ask."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cdec.core.errors import ConfigError, InputMissingError, UsageError
from cdec.core.options import check_limits, limit

VARIABLE = "CDEC_SERVING"
"""The environment variable that names the file."""
SOURCES = ("candidates", "grammar", "regex", "schema")
"""What a request may bring that has to be compiled; nothing of it unless ``allow`` names it."""
_NO_CHOICES = ("limits", "name", "made_from")
"""Fields of ``SchemaOptions`` that limits and the server itself fill in."""
_BYTES = 1 << 24
"""Largest settings file."""


@dataclass(frozen=True, slots=True)
class AskedLimits:
    """What one request may say of its constraint; passing one is a ``LimitError``.

    Raises:
        UsageError: One is out of bounds.
    """

    max_candidates: int = limit(
        10_000, "Most texts in `candidates` of a server's request, and most in its `deny`."
    )
    max_text_bytes: int = limit(
        1 << 20, "Most bytes of all that such a request says of its constraint.", unit="bytes"
    )

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True, slots=True)
class ServingLimits(AskedLimits):
    """What one request may ask of a server, and what is kept of requests.

    Raises:
        UsageError: One is out of bounds.
    """

    compile_seconds: float = limit(
        10.0, "CPU seconds for a text that a request brings.", unit="seconds", at_least=0.1
    )
    compile_megabytes: int = limit(1024, "Memory for a text that a request brings.", unit="MiB")
    max_kept: int = limit(64, "Constraints of requests that are kept.")


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """What a server's requests may be held to.

    Attributes:
        artifacts: Path by the name that requests give.
        allow: Of ``SOURCES``, what requests may bring to be compiled.
        tokenizer: Folder, file or name of the served model's; needed where anything is allowed.
        limits: Of each request.
        schema: How schemas of requests are compiled: fields of ``SchemaOptions`` by name, but for
            those that are no choice of an operator's.
    """

    artifacts: Mapping[str, Path] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    tokenizer: str | None = None
    limits: ServingLimits = field(default_factory=ServingLimits)
    schema: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_requests(
        cls, named: Mapping[str, Any], allow: Iterable[str], limits: AskedLimits | None = None
    ) -> ServingSettings:
        """Return what requests may ask that no server reads.

        Args:
            named: Path by the name that requests give.
            allow: As in the attributes.
            limits: Of each request.

        Raises:
            UsageError: ``allow`` names something else.
        """
        allow = frozenset(allow)
        if unknown := sorted(allow - set(SOURCES)):
            raise UsageError(
                f"`allow` names {unknown[0]!r}, which requests cannot bring",
                hint=f"name some of {', '.join(SOURCES)}",
            )
        artifacts = {name: Path(path) for name, path in named.items()}
        asked = limits or AskedLimits()
        return cls(
            artifacts,
            allow,
            limits=ServingLimits(asked.max_candidates, asked.max_text_bytes),
        )

    @classmethod
    def from_environment(cls) -> ServingSettings:
        """Read the file that ``CDEC_SERVING`` names.

        Raises:
            ConfigError: It names none, or the file says what it may not.
            InputMissingError: There is no such file.
        """
        path = os.environ.get(VARIABLE)
        if not path:
            raise ConfigError(
                f"the environment variable {VARIABLE} names no settings",
                hint=f"set {VARIABLE} to a TOML file with a table [artifacts] of NAME = PATH",
            )
        return cls.from_file(path)

    @classmethod
    def from_file(cls, path: str | Path) -> ServingSettings:
        """Read a TOML file: ``allow``, ``tokenizer``, limits, what ``SchemaOptions`` declares
        (``whitespace``, ``property_order``, ...), and the table ``artifacts``.

        Paths of artifacts are relative to the file's folder.

        Raises:
            ConfigError, InputMissingError: As ``from_environment``.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                values = tomllib.loads(file.read(_BYTES).decode())
        except OSError as error:
            raise InputMissingError(
                f"{path}: {error.strerror or error}",
                hint=f"write the file that {VARIABLE} names",
                path=str(path),
            ) from error
        except ValueError as error:
            raise ConfigError(f"{path} is no TOML: {error}", hint="correct the file") from error
        return cls._of(values, path)

    @classmethod
    def _of(cls, values: dict[str, Any], path: Path) -> ServingSettings:
        named = {declared.name for declared in fields(ServingLimits)}
        limits = {name: values.pop(name) for name in named & values.keys()}
        artifacts, allow = values.pop("artifacts", {}), values.pop("allow", [])
        tokenizer = values.pop("tokenizer", None)
        choices = _schema_choices()
        schema = {name: values.pop(name) for name in choices.keys() & values.keys()}
        _require_choices(schema, choices, path)
        if values:
            known = ", ".join(sorted({*named, *choices, "allow", "artifacts", "tokenizer"}))
            raise ConfigError(f"{path}: unknown {sorted(values)}", hint=f"known are {known}")
        is_table = isinstance(artifacts, dict)
        if not is_table or not all(isinstance(name, str) for name in artifacts.values()):
            raise ConfigError(
                f"{path}: `artifacts` is no table of paths",
                hint='write [artifacts] and lines such as cities = "cities.arrow"',
            )
        if not isinstance(allow, list) or not set(map(str, allow)) <= set(SOURCES):
            raise ConfigError(
                f"{path}: `allow` is {allow!r}", hint=f"list some of {', '.join(SOURCES)}"
            )
        if tokenizer is not None and not isinstance(tokenizer, str):
            raise ConfigError(f"{path}: `tokenizer` is {tokenizer!r}", hint="put it in quotes")
        if allow and tokenizer is None:
            raise ConfigError(
                f"{path}: requests may bring {', '.join(allow)}, and no `tokenizer` is named",
                hint="name the served model's tokenizer: it is compiled for its tokens",
            )
        return cls(
            artifacts={name: path.parent / file for name, file in artifacts.items()},
            allow=frozenset(allow),
            tokenizer=tokenizer,
            limits=ServingLimits(**limits),
            schema=schema,
        )


def _schema_choices() -> dict[str, Any]:
    """Return what ``SchemaOptions`` declares that an operator may say, with its defaults."""
    from cdec.compilers.schemas.options import SchemaOptions

    return {
        each.name: each.default for each in fields(SchemaOptions) if each.name not in _NO_CHOICES
    }


def _require_choices(given: Mapping[str, Any], choices: Mapping[str, Any], path: Path) -> None:
    """Refuse options of schemas that cannot be.

    Raises:
        ConfigError: One has another type than its default, or is no value of it.
    """
    from cdec.compilers.schemas.options import SchemaOptions

    for name, value in given.items():
        if type(value) is not type(choices[name]):
            raise ConfigError(
                f"{path}: `{name}` is {value!r}", hint=f"the default is {choices[name]!r}"
            )
    try:
        SchemaOptions(**given)
    except UsageError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from error

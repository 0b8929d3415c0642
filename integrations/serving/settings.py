"""Settings of a server's operator, and what a request asks of them, read and bounded."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from cdec.core.errors import ConfigError, FieldError, InputMissingError, LimitError, UsageError
from cdec.core.options import check_limits, limit

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText
    from cdec.core.constraint import NarrowedSet

VARIABLE = "CDEC_SERVING"
"""The environment variable that names the file."""
SOURCES = ("candidates", "grammar", "regex", "schema")
"""Sources of a request that have to be compiled; nothing of it unless ``allow`` names it."""
DOCUMENT = "document"
"""Source of a request to a server whose pieces its text is."""
SERVED = (*SOURCES, DOCUMENT)
"""What requests to a server may bring."""
_NO_CHOICES = ("references", "limits", "name", "made_from")
"""Fields of ``SchemaOptions`` that limits and the server itself fill in."""
_BYTES = 1 << 24
"""Largest settings file."""


@dataclass(frozen=True, slots=True)
class AskedLimits:
    """Limits of a request's constraint; passing one is a ``LimitError``.

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
    """Limits of a request to a server, and of what is kept of requests.

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
    """Constraints to which a server's requests may be held.

    Attributes:
        artifacts: Path by the name that requests give.
        sets: Path of an artifact by the name of a set that stands within the artifacts, or within
            what requests bring.
        allow: Of ``SERVED``, what requests may bring to be compiled.
        tokenizer: Folder, file or name of the served model's; needed where anything is allowed.
        limits: Of each request.
        schema: How schemas of requests are compiled: fields of ``SchemaOptions`` by name, but for
            those that are no choice of an operator's.
        refs: Path of a document by the URL by which schemas of requests refer to it.
        ref_dirs: Folders of such documents, found by ``$id`` and by file name.
        reasoning: Whether a served model that reasons does so freely, if its engine tells.
        reasoning_end: The text that ends reasoning; None where the engine's parser tells it.
    """

    artifacts: Mapping[str, Path] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    tokenizer: str | None = None
    limits: ServingLimits = field(default_factory=ServingLimits)
    schema: Mapping[str, Any] = field(default_factory=dict)
    sets: Mapping[str, Path] = field(default_factory=dict)
    refs: Mapping[str, Path] = field(default_factory=dict)
    ref_dirs: tuple[Path, ...] = ()
    reasoning: bool = True
    reasoning_end: str | None = None

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
        (``whitespace``, ``property_order``, ...), ``ref_dirs``, ``reasoning``, ``reasoning_end``,
        and the tables ``artifacts``, ``sets`` and ``refs``.

        Paths are relative to the file's folder.

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
        tables = {name: values.pop(name, {}) for name in ("artifacts", "sets", "refs")}
        allow = values.pop("allow", [])
        of = _Reader(values, path)
        tokenizer = of.text("tokenizer")
        more: dict[str, Any] = {"ref_dirs": of.folders("ref_dirs")}
        more |= {"reasoning": of.flag("reasoning"), "reasoning_end": of.text("reasoning_end")}
        choices = _schema_choices()
        schema = {name: values.pop(name) for name in choices.keys() & values.keys()}
        _require_choices(schema, choices, path)
        if values:
            known = ", ".join(sorted({*named, *choices, *tables, *more, "allow", "tokenizer"}))
            raise ConfigError(f"{path}: unknown {sorted(values)}", hint=f"known are {known}")
        paths: dict[str, Any] = {name: _paths(name, table, path) for name, table in tables.items()}
        if not isinstance(allow, list) or not set(map(str, allow)) <= set(SERVED):
            raise ConfigError(
                f"{path}: `allow` is {allow!r}", hint=f"list some of {', '.join(SERVED)}"
            )
        if allow and tokenizer is None:
            raise ConfigError(
                f"{path}: requests may bring {', '.join(allow)}, and no `tokenizer` is named",
                hint="name the served model's tokenizer: it is compiled for its tokens",
            )
        return cls(
            **paths,
            allow=frozenset(allow),
            tokenizer=tokenizer,
            limits=ServingLimits(**limits),
            schema=schema,
            **more,
        )


@dataclass(frozen=True)
class _Reader:
    """Reads single values of a file of settings, and takes them out.

    All raise a ConfigError where a value is of another type.
    """

    values: dict[str, Any]
    path: Path

    def text(self, name: str) -> str | None:
        found = self.values.pop(name, None)
        if found is None or (isinstance(found, str) and found):
            return found
        raise self._refused(name, found, "put it in quotes")

    def flag(self, name: str) -> bool:
        found = self.values.pop(name, True)
        if isinstance(found, bool):
            return found
        raise self._refused(name, found, "write true or false")

    def folders(self, name: str) -> tuple[Path, ...]:
        found = self.values.pop(name, [])
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(self.path.parent / each for each in found)
        raise self._refused(name, found, 'write a list such as ["schemas"]')

    def _refused(self, name: str, found: object, hint: str) -> ConfigError:
        return ConfigError(f"{self.path}: `{name}` is {found!r}", hint=hint)


def _paths(name: str, table: object, path: Path) -> dict[str, Path]:
    """Return the paths of a table, relative to the folder of a file of settings.

    Raises:
        ConfigError: It is no table of paths.
    """
    if not isinstance(table, dict) or not all(isinstance(file, str) for file in table.values()):
        raise ConfigError(
            f"{path}: `{name}` is no table of paths",
            hint=f'write [{name}] and lines such as cities = "cities.arrow"',
        )
    return {key: path.parent / file for key, file in table.items()}


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


FIELD = "cdec"
"""The argument of a request that holds it."""
_TEXTS = tuple(name for name in SERVED if name != "candidates")
_FREE = ("after", "between", "budget", "regions")
_FIELDS = ("artifact", "candidates", "deny", "documents", "fit", "reasoning", *_TEXTS, *_FREE)
_PIECES = {"text", "whole", "shortest", "longest"}
"""Of a request's document that says which pieces are meant."""


@dataclass(frozen=True, slots=True)
class ConstraintRequest:
    """Constraint of a request's text; equal ones share a constraint.

    Attributes:
        artifact: Name of a registered artifact.
        candidates: Texts or entity ids that alone are allowed.
        narrowed: What is left of sets within the constraint.
        deny: Texts that are not.
        source: ``grammar``, ``regex``, ``schema`` or ``document``, if the request brings one.
        text: It; of a document JSON of its text and of which pieces are meant.
        documents: Text by the field that texts of the constraint quote.
        free: What the model writes freely before the constraint, or around it.
        fit: Tokens within which every text ends, its end event not counted.
        reasoning: Whether a model that reasons does so freely before, where the server knows of it;
            the constraint is the same.
    """

    artifact: str | None = None
    candidates: tuple[str, ...] | None = None
    narrowed: tuple[NarrowedSet, ...] = ()
    deny: tuple[str, ...] = ()
    source: str | None = None
    text: str = ""
    documents: tuple[tuple[str, str], ...] = ()
    free: FreeText | None = None
    fit: int | None = None
    reasoning: bool = field(default=True, compare=False)

    @classmethod
    def of(cls, value: object, settings: ServingSettings) -> ConstraintRequest:
        """Read a request's argument.

        Args:
            value: An object with some of ``artifact``, ``candidates``, ``deny``, ``documents``,
                ``fit``, ``grammar``, ``regex``, ``schema``, ``document`` and ``reasoning``, and of
                ``after``, ``between``, ``budget`` and ``regions`` as records have them,
                ``candidates`` by the names of sets too; or the JSON text of one, for doors that
                let only texts in.
            settings: What is registered and allowed.

        Raises:
            FieldError: It is no such object, says nothing or two things, names what is not
                registered, or brings what is not allowed.
            LimitError: It is too long, or lists too many.
        """
        found = _read(value, settings)
        _bound(found, settings)
        by_name = isinstance(found.get("candidates"), Mapping)
        asked = cls(
            artifact=_artifact(found.get("artifact"), settings),
            candidates=None if by_name else _texts(found, "candidates"),
            narrowed=_narrowed(found["candidates"]) if by_name else (),
            deny=_texts(found, "deny") or (),
            **_source(found),
            documents=_documents(found),
            free=_free(found),
            fit=_fit(found),
            reasoning=_reasoning(found),
        )
        asked._require_one()
        brought = asked.source or ("candidates" if asked.artifact is None else None)
        if brought is not None and brought not in settings.allow:
            raise _refused(
                f"brings its own {brought}, and this server compiles none",
                "name a registered artifact, or have the operator put it into `allow`",
            )
        return asked

    def _require_one(self) -> None:
        others = self.artifact is not None or self.candidates is not None
        if self.source is None and not others:
            raise _refused("names no constraint", 'give {"artifact": NAME}')
        if self.source is not None and others:
            raise _refused(
                f"has a {self.source} beside an artifact or candidates", "leave one of them out"
            )


def _read(value: object, settings: ServingSettings) -> dict[str, Any]:
    most = settings.limits.max_text_bytes
    if isinstance(value, str):
        if len(value) > most:
            raise _too_much("holds more", "max_text_bytes", most)
        try:
            value = orjson.loads(value)
        except ValueError as error:
            raise _refused(f"is no JSON: {error}", "give a JSON object as a text") from error
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _refused("is no object", 'give {"artifact": NAME}, or its JSON text')
    unknown = sorted(set(value) - set(_FIELDS))
    if unknown:
        raise _refused(f"has unknown fields {unknown}", f"known are {', '.join(_FIELDS)}")
    return {key: found for key, found in value.items() if found is not None}


def _bound(found: dict[str, Any], settings: ServingSettings) -> None:
    limits = settings.limits
    for name in ("candidates", "deny"):
        listed = sum(map(len, _lists(found.get(name))))
        if listed > limits.max_candidates:
            raise _too_much(f"has {listed} {name}", "max_candidates", limits.max_candidates)
    try:
        size = len(orjson.dumps(found))
    except TypeError as error:
        raise _refused(f"is no JSON: {error}", "give texts and lists of texts") from error
    if size > limits.max_text_bytes:
        raise _too_much(f"has {size} bytes", "max_text_bytes", limits.max_text_bytes)


def _lists(given: object) -> Iterator[Sequence[object]]:
    """Yield the lists of texts, however deep in objects: of sets by name, of what is denied."""
    if isinstance(given, Mapping):
        for value in given.values():
            yield from _lists(value)
    elif isinstance(given, list | tuple):
        yield given


def _artifact(name: object, settings: ServingSettings) -> str | None:
    if name is None or (isinstance(name, str) and name in settings.artifacts):
        return name
    # subtle: what is not registered is never looked up, whether or not it is somebody's path.
    raise _refused("names no registered artifact", "ask the operator which names there are")


def _texts(found: dict[str, Any], name: str) -> tuple[str, ...] | None:
    listed = found.get(name)
    if listed is None:
        return None
    is_list = isinstance(listed, list | tuple) and len(listed) > 0
    if not is_list or not all(isinstance(text, str) and text for text in listed):
        raise _refused(f"has no list of texts in {name!r}", "list one text or more")
    return tuple(listed)


def _narrowed(sets: Mapping[str, object]) -> tuple[NarrowedSet, ...]:
    """Return what is left of sets within the constraint, which are given by their names."""
    from cdec.core.constraint import NarrowedSet

    narrowed = []
    for name, given in sets.items():
        is_denied = isinstance(given, Mapping) and given.keys() == {"deny"}
        texts = _texts({name: given["deny"] if is_denied else given}, name)  # type: ignore[index]
        if texts is None:
            raise _refused(f"has no list of texts in {name!r}", "list one text or more")
        narrowed.append(NarrowedSet(name, texts, is_denied))
    return tuple(narrowed)


def _free(found: dict[str, Any]) -> FreeText | None:
    """Return what the model writes freely; None for nothing."""
    from cdec.core.combine.free_text import FreeText

    given = {name: found[name] for name in _FREE if name in found}
    if not given:
        return None
    for name in given.keys() & {"after", "between"}:
        texts = [given[name]] if isinstance(given[name], str) else given[name]
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
            raise _refused(f"has no texts in {name!r}", "give a text, or a list of texts")
        given[name] = tuple(texts)
    for name in given.keys() & {"budget", "regions"}:
        if type(given[name]) is not int:
            raise _refused(f"has no number in {name!r}", "give a whole number")
    try:
        return FreeText.joined(None, **given)
    except (UsageError, LimitError) as error:
        said = f"the request's {FIELD!r}: {error.message}"
        if isinstance(error, LimitError):
            raise LimitError(said, hint=error.hint, **error.details) from None
        raise FieldError(said, hint=error.hint, field=FIELD) from None


def _documents(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the documents that texts of a constraint quote, by the fields that hold them."""
    given = found.get("documents", {})
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise _refused("has no object of texts in 'documents'", 'give {"FIELD": TEXT}')
    return tuple(sorted(given.items()))


def _pieces(given: object) -> str:
    """Return a document that a request brings, and which pieces are meant, as JSON.

    Raises:
        FieldError: It is no text, or the options make no sense.
    """
    from cdec.core.sets.quotes import SpanField

    asked = {"text": given} if isinstance(given, str) else given
    if not isinstance(asked, Mapping) or not set(asked) <= _PIECES:
        raise _refused(
            "has no document in 'document'", "give a text, or text, whole, shortest and longest"
        )
    text, options = asked.get("text"), {name: asked[name] for name in asked if name != "text"}
    if not isinstance(text, str) or not text:
        raise _refused("has no text in 'document'", "give the document's text")
    try:
        SpanField.from_json({"field": DOCUMENT, **options})
    except UsageError as error:
        raise _refused(f"has 'document': {error.message}", error.hint or "correct it") from None
    return orjson.dumps({"text": text, **options}, option=orjson.OPT_SORT_KEYS).decode()


def _fit(found: dict[str, Any]) -> int | None:
    most = found.get("fit")
    if most is None:
        return None
    if type(most) is not int or most < 0:
        raise _refused("has no number of tokens in 'fit'", "give a whole number")
    if given := [name for name in _FREE if name in found]:
        raise _refused(
            f"has 'fit' beside {given[0]!r}, and texts with free parts are held to no number",
            "leave one of them out",
        )
    return most


def _reasoning(found: dict[str, Any]) -> bool:
    asked = found.get("reasoning", True)
    if not isinstance(asked, bool):
        raise _refused("has neither true nor false in 'reasoning'", "leave it out, or give false")
    return asked


def _source(found: dict[str, Any]) -> dict[str, str]:
    given = [name for name in _TEXTS if name in found]
    if len(given) > 1:
        raise _refused(f"has a {given[0]} and a {given[1]}", "leave one of them out")
    if not given:
        return {}
    text = found[given[0]]
    if given[0] == DOCUMENT:
        return {"source": DOCUMENT, "text": _pieces(text)}
    if given[0] == "schema" and isinstance(text, dict | bool):
        text = orjson.dumps(text).decode()
    if not isinstance(text, str) or not text:
        raise _refused(f"has no text in {given[0]!r}", "give it as a text")
    return {"source": given[0], "text": text}


def _refused(what: str, hint: str) -> FieldError:
    return FieldError(f"the request's {FIELD!r} {what}", hint=hint, field=FIELD)


def _too_much(what: str, name: str, most: float) -> LimitError:
    return LimitError(
        f"the request's {FIELD!r} {what}; the limit is {most}",
        hint=f"ask for less; the operator may raise `{name}`",
        limit=name,
    )

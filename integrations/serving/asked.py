"""Asked: what a request says of its constraint, read and bounded before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cdec.core.errors import FieldError, LimitError
from cdec.integrations.serving.settings import SOURCES, ServingSettings

FIELD = "cdec"
"""The argument of a request that holds it."""
_TEXTS = tuple(name for name in SOURCES if name != "candidates")
_FIELDS = ("artifact", "candidates", "deny", *_TEXTS)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request's text must belong to; equal ones share a constraint.

    Attributes:
        artifact: Name of a registered artifact.
        candidates: Texts or entity ids that alone are allowed.
        deny: Texts that are not.
        source: ``grammar``, ``regex`` or ``schema``, if the request brings one. text: It.
    """

    artifact: str | None = None
    candidates: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    source: str | None = None
    text: str = ""

    @classmethod
    def of(cls, value: object, settings: ServingSettings) -> Asked:
        """Read a request's argument.

        Args:
            value: An object with some of ``artifact``, ``candidates``, ``deny``, ``grammar``,
                ``regex`` and ``schema``, or the JSON text of one, for doors that let only texts in.
            settings: What is registered and allowed.

        Raises:
            FieldError: It is no such object, says nothing or two things, names what is not
                registered, or brings what is not allowed.
            LimitError: It is too long, or lists too many.
        """
        found = _read(value, settings)
        _bound(found, settings)
        asked = cls(
            artifact=_artifact(found.get("artifact"), settings),
            candidates=_texts(found, "candidates"),
            deny=_texts(found, "deny") or (),
            **_source(found),
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
        listed = found.get(name)
        if isinstance(listed, list | tuple) and len(listed) > limits.max_candidates:
            raise _too_much(f"has {len(listed)} {name}", "max_candidates", limits.max_candidates)
    try:
        size = len(orjson.dumps(found))
    except TypeError as error:
        raise _refused(f"is no JSON: {error}", "give texts and lists of texts") from error
    if size > limits.max_text_bytes:
        raise _too_much(f"has {size} bytes", "max_text_bytes", limits.max_text_bytes)


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


def _source(found: dict[str, Any]) -> dict[str, str]:
    given = [name for name in _TEXTS if name in found]
    if len(given) > 1:
        raise _refused(f"has a {given[0]} and a {given[1]}", "leave one of them out")
    if not given:
        return {}
    text = found[given[0]]
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

"""Subschemas of a JSON Schema by their place, what keywords take, and what references lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from cdec.compilers.schemas.options import SchemaLimits
from cdec.core.errors import LimitError
from cdec.core.schemas.errors import SchemaInvalidError, SchemaRefError
from cdec.core.schemas.own_keywords import NOTE, NUMBER_READERS, NUMBERS, SET, UNENFORCED

DRAFTS = {
    "draft-03": 3,
    "draft-04": 4,
    "draft-06": 6,
    "draft-07": 7,
    "2019-09": 2019,
    "2020-12": 2020,
}
"""Drafts by what ``$schema`` says of them."""
_LAST = 2020
_KNOWN = {
    **dict.fromkeys(("const", "contains", "propertyNames"), (6, _LAST)),
    **dict.fromkeys(("if", "then", "else"), (7, _LAST)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), (2019, _LAST)),
    **dict.fromkeys(("minContains", "maxContains"), (2019, _LAST)),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), (2019, _LAST)),
    "$recursiveRef": (2019, 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), (2020, _LAST)),
}
"""Keywords that decide which values are valid, with the first and the last draft that has them; all
others are in every one, or were replaced by what means the same and are still read."""
_FLAGS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
"""Keywords that take true or false in draft-04, and a number since."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_STRING: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, str), "a string")
_OBJECT: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, dict), "an object")
_SCHEMAS: tuple[Callable[[Any], bool], str] = (
    lambda v: isinstance(v, list) and bool(v),
    "an array of at least one schema",
)
_SCHEMA: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, dict | bool), "a schema")
_FLAG: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, bool), "true or false")
_ANY: tuple[Callable[[Any], bool], str] = (lambda v: True, "")
COMMENTS = frozenset(
    {
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment"),
        *("$vocabulary", "title", "description", "default", "examples", "deprecated", "readOnly"),
        *("writeOnly", "contentEncoding", "contentMediaType", "contentSchema"),
    }
)
"""Keywords of the standard that decide nothing."""
_ONE = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "else", "if", "not", "items"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_MANY = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
_MAP = frozenset(
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"]
)


def draft_of(value: Any, otherwise: int = 2020) -> int:
    """Return the draft that ``$schema`` names; that of 2020-12 where it names none."""
    said = value.get("$schema") if isinstance(value, dict) else None
    if isinstance(said, str):
        for name, draft in DRAFTS.items():
            if name in said:
                return draft
    return otherwise


def counting(keywords: dict[str, Any], draft: int) -> dict[str, Any]:
    """Return the keywords that a draft has; up to draft-07 none counts beside ``$ref``."""
    if draft <= 7 and "$ref" in keywords:
        return {"$ref": keywords["$ref"]}
    found = {keyword: value for keyword, value in keywords.items() if _has(draft, keyword, value)}
    return found if len(found) < len(keywords) else keywords


def _has(draft: int, keyword: str, value: Any) -> bool:
    if draft <= 4 and keyword in _FLAGS:
        return isinstance(value, bool)
    first, last = _KNOWN.get(keyword, (0, _LAST))
    return first <= draft <= last


def draft_name(draft: int) -> str:
    """Return what a draft is called."""
    return next(name for name, number in DRAFTS.items() if number == draft)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_types(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(isinstance(item, str) and item in TYPES for item in items)


def _is_bound(value: Any) -> bool:
    return _is_number(value) or isinstance(value, bool)


_COUNT: tuple[Callable[[Any], bool], str] = (_is_count, "a whole number of at least 0")
_NUMBER: tuple[Callable[[Any], bool], str] = (_is_number, "a number")
_NAMES: tuple[Callable[[Any], bool], str] = (_is_names, "an array of strings")

KEYWORDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_types, f"one of {', '.join(TYPES)}, or an array of these"),
    "enum": (lambda v: isinstance(v, list), "an array"),
    "const": _ANY,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": (_is_bound, "a number"),
    "exclusiveMaximum": (_is_bound, "a number"),
    "multipleOf": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _STRING,
    "format": _STRING,
    "items": (lambda v: isinstance(v, dict | bool | list), "a schema, or an array of schemas"),
    "prefixItems": _SCHEMAS,
    "additionalItems": _SCHEMA,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _FLAG,
    "unevaluatedItems": _SCHEMA,
    "properties": _OBJECT,
    "patternProperties": _OBJECT,
    "additionalProperties": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": _NAMES,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (
        lambda v: isinstance(v, dict) and all(map(_is_names, v.values())),
        "an object of arrays of strings",
    ),
    "dependentSchemas": _OBJECT,
    "dependencies": (
        lambda v: (
            isinstance(v, dict)
            and all(_is_names(item) or isinstance(item, dict | bool) for item in v.values())
        ),
        "an object of schemas and arrays of strings",
    ),
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "$ref": _STRING,
    "$dynamicRef": _STRING,
    "$recursiveRef": _STRING,
    "$defs": _OBJECT,
    "definitions": _OBJECT,
    NUMBERS: (lambda v: v in NUMBER_READERS, f"one of {', '.join(NUMBER_READERS)}"),
    UNENFORCED: _NAMES,
    NOTE: _STRING,
    SET: (lambda v: isinstance(v, str) and bool(v), "the name of a set"),
}
"""Keywords that decide which values are valid, or hold schemas: a check of their value, and what
is expected in words."""


def check_keyword(keyword: str, value: Any, path: str, draft: int) -> bool:
    """Check the value of a keyword; return whether the standard knows the keyword.

    Raises:
        SchemaInvalidError: It is not what the keyword takes.
    """
    found = KEYWORDS.get(keyword)
    if found is None:
        return keyword in COMMENTS
    check, expected = found
    if not check(value):
        place = f"{path}/{keyword}"
        shown = repr(value)
        raise SchemaInvalidError(
            f"{place} is {shown[:80]}, expected {expected}",
            hint="correct the schema there",
            path=place,
        )
    return True


class Schema:
    """A subschema. Compared by identity: a place of a document has one.

    Attributes:
        path: JSON pointer within its document; that of a shipped one begins with its URI.
        value: The JSON: a dict, True or False.
        base: URI that references are relative to.
        draft: A number of ``drafts.DRAFTS``.
        keywords: Those that count in that draft.
        children: Subschemas by (keyword, name or index; "" for a keyword with one).
    """

    __slots__ = ("base", "children", "draft", "keywords", "path", "value")

    def __init__(self, path: str, value: dict[str, Any] | bool, base: str, draft: int) -> None:
        self.path = path
        self.value = value
        self.base = base
        self.draft = draft
        self.keywords: Mapping[str, Any] = {}
        if not isinstance(value, bool):
            self.keywords = counting(value, draft)
        self.children: dict[tuple[str, str | int], Schema] = {}

    def child(self, keyword: str, key: str | int = "") -> Schema:
        """Return a subschema."""
        return self.children[keyword, key]

    def listed(self, keyword: str) -> list[Schema]:
        """Return the subschemas of a keyword whose value is an array, in order."""
        return [self.children[keyword, i] for i in range(len(self.keywords[keyword]))]

    def named(self, keyword: str) -> dict[str, Schema]:
        """Return the subschemas of a keyword whose value is an object, by name."""
        return {str(name): below for (own, name), below in self.children.items() if own == keyword}


class Document:
    """All subschemas that can be reached, and where references lead.

    Raises:
        SchemaInvalidError: It is no schema: where, and why.
        LimitError: Nested too deeply.
    """

    def __init__(self, value: Any, limits: SchemaLimits) -> None:
        self._limits = limits
        self._resources: dict[str, Schema] = {}
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._dynamic: dict[str, int] = {}
        self._others: dict[tuple[str, str], Schema] = {}
        self.annotations: dict[tuple[str, str], str] = {}
        self.draft = draft_of(value)
        self.root = self._add(value, "", self.draft)

    def resolve(self, schema: Schema, reference: str, keyword: str) -> Schema:
        """Return what a reference leads to.

        Raises:
            SchemaRefError: Nothing in this document, or another document.
        """
        path = f"{schema.path}/{keyword}"
        target, fragment = urldefrag(_joined(schema.base, reference))
        resource = self._resources.get(target)
        if resource is None:
            resource = self._shipped(target)
        if resource is None:
            raise SchemaRefError(
                f"{path} refers to {reference!r}, which is another document; no document but this "
                "one is read",
                hint="copy it into $defs and refer to it there",
                path=path,
            )
        found = self._within(resource, target, unquote(fragment))
        if found is None:
            raise SchemaRefError(
                f"{path} refers to {reference!r}, and there is nothing there",
                hint="correct the reference, or add what it names",
                path=path,
            )
        return found

    def is_dynamic(self, schema: Schema, reference: str) -> bool:
        """Say whether what a ``$dynamicRef`` leads to depends on how its place was reached."""
        anchor = urldefrag(reference)[1]
        return self._dynamic.get(anchor, 0) > 1

    def _within(self, resource: Schema, uri: str, fragment: str) -> Schema | None:
        """Return the subschema that a fragment names: a pointer or an anchor."""
        if fragment == "":
            return resource
        if not fragment.startswith("/"):
            return self._anchors.get((uri, fragment))
        key = (resource.path, fragment)
        if key not in self._others:
            found = self._by_pointer(resource, fragment)
            if found is None:
                return None
            self._others[key] = found
        return self._others[key]

    def _by_pointer(self, resource: Schema, pointer: str) -> Schema | None:
        """Follow a JSON pointer, along subschemas where there are any."""
        schema: Schema | None = resource
        value: Any = resource.value
        path, base, draft = resource.path, resource.base, resource.draft
        steps = [s.replace("~1", "/").replace("~0", "~") for s in pointer[1:].split("/")]
        i = 0
        while i < len(steps):
            step = steps[i]
            if schema is not None:
                following = _along(schema, step, steps[i + 1] if i + 1 < len(steps) else None)
                if following is not None:
                    schema, used = following
                    value, path, base, draft = schema.value, schema.path, schema.base, schema.draft
                    i += used
                    continue
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
            path, schema = f"{path}/{_escaped(step)}", None
            i += 1
        if schema is None:
            if not isinstance(value, dict | bool):
                return None
            schema = self._walk(value, path, base, draft, 0)
        return schema

    def _shipped(self, uri: str) -> Schema | None:
        """Return a metaschema that the jsonschema package brings along."""
        from jsonschema_specifications import REGISTRY

        for known in (uri, f"{uri}#"):
            if known in REGISTRY:
                contents = REGISTRY[known].contents
                return self._add(contents, uri, draft_of(contents), shipped=True)
        return None

    def _add(self, value: Any, uri: str, draft: int, *, shipped: bool = False) -> Schema:
        schema = self._walk(value, uri if shipped else "", uri, draft, 0)
        self._resources.setdefault(uri, schema)
        return schema

    def _walk(self, value: Any, path: str, base: str, draft: int, depth: int) -> Schema:
        """Make the subschema at a place, and those within it."""
        if depth > self._limits.max_nesting:
            raise LimitError(
                f"subschemas are nested more than {self._limits.max_nesting} deep",
                hint="raise `max_nesting`, or use $defs and $ref",
                limit="max_nesting",
            )
        if isinstance(value, bool):
            return Schema(path, value, base, draft)
        if not isinstance(value, dict):
            raise SchemaInvalidError(
                f"{path or 'the schema'} is {_kind(value)}, expected an object, true or false",
                hint="a schema is an object of keywords",
                path=path,
            )
        draft = draft_of(value, draft) if "$schema" in value else draft
        schema = Schema(path, value, base, draft)
        self._name(schema, schema.keywords)
        for keyword, given in schema.keywords.items():
            known = check_keyword(keyword, given, path, draft)
            if not known:
                self.annotations.setdefault((path, keyword), keyword)
            self._walk_below(schema, keyword, given, depth)
        for keyword in [keyword for keyword in value if keyword not in schema.keywords]:
            if draft > 7 or "$ref" not in value:
                self.annotations.setdefault((path, keyword), keyword)
            elif keyword in ("definitions", "$defs"):
                # Beside $ref nothing counts, but what is defined there can be referred to.
                self._walk_below(schema, keyword, value[keyword], depth)
        return schema

    def _walk_below(self, schema: Schema, keyword: str, given: Any, depth: int) -> None:
        """Make the subschemas that a keyword holds."""
        for key, below in _subschemas(keyword, given):
            place = f"{schema.path}/{_escaped(keyword)}"
            if isinstance(given, list) or keyword in _MAP:
                place += f"/{_escaped(str(key))}"
            schema.children[keyword, key] = self._walk(
                below, place, schema.base, schema.draft, depth + 1
            )

    def _name(self, schema: Schema, keywords: Mapping[str, Any]) -> None:
        """Note the URI and the anchors of a subschema."""
        own = keywords.get("id" if schema.draft <= 4 else "$id")
        if isinstance(own, str):
            uri, fragment = urldefrag(_joined(schema.base, own))
            if fragment and schema.draft <= 7 and own.startswith("#"):
                self._anchors.setdefault((schema.base, fragment), schema)
            elif uri != schema.base or not schema.path:
                schema.base = uri
                self._resources.setdefault(uri, schema)
                if fragment and schema.draft <= 7:
                    self._anchors.setdefault((uri, fragment), schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = keywords.get(keyword)
            if isinstance(name, str) and schema.draft > 7:
                self._anchors.setdefault((schema.base, name), schema)
        name = keywords.get("$dynamicAnchor")
        if isinstance(name, str):
            self._dynamic[name] = self._dynamic.get(name, 0) + 1
        if keywords.get("$recursiveAnchor") is True:
            self._dynamic[""] = self._dynamic.get("", 0) + 1


def _subschemas(keyword: str, given: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the schemas that a keyword holds, with their names or indices."""
    if keyword in _MAP and isinstance(given, dict):
        for name, below in given.items():
            if keyword != "dependencies" or not isinstance(below, list):
                yield name, below
    elif keyword in _MANY and isinstance(given, list):
        yield from enumerate(given)
    elif keyword in _ONE and not isinstance(given, list):
        yield "", given


def _along(schema: Schema, step: str, following: str | None) -> tuple[Schema, int] | None:
    """Return the subschema that one or two steps of a pointer lead to, and how many it takes."""
    one = schema.children.get((step, ""))
    if one is not None and step not in _MAP:
        return one, 1
    if following is None:
        return None
    keys: tuple[str | int, ...] = (following,)
    if following.isdecimal():
        keys = (following, int(following))
    for key in keys:
        found = schema.children.get((step, key))
        if found is not None:
            return found, 2
    return None


def _joined(base: str, reference: str) -> str:
    """Return a URI relative to another; urljoin does not do so for ``urn:``."""
    return base + reference if reference.startswith("#") else urljoin(base, reference)


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _kind(value: Any) -> str:
    names = {str: "a string", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")

"""Subschemas of a JSON Schema by their place, what keywords take, and what references lead to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urljoin

from cdec.compilers.schemas.drafts import check_keyword, counting, draft_of
from cdec.compilers.schemas.options import SchemaLimits
from cdec.compilers.schemas.source import read_json
from cdec.core.errors import DataError, LimitError
from cdec.core.schemas.errors import SchemaInvalidError, SchemaRefError
from cdec.core.schemas.references import Reference, References

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


class Schema:
    """A subschema. Compared by identity: a place of a document has one.

    Attributes:
        path: JSON pointer within its document; that of another one begins with its URI.
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

    Args:
        value: The schema.
        limits: ``max_nesting`` holds.
        references: Documents that it may refer to.
        text: Of the schema, by which it is known again among them.

    Attributes:
        root: The schema.
        draft: Its draft, which other documents have that name none.
        annotations: Keywords that decide nothing, by path and name.
        used: The documents that it refers to, with the URI of each.

    Raises:
        SchemaInvalidError: It, or a document it refers to, is no schema: where, and why.
        LimitError: Nested too deeply.
    """

    def __init__(
        self,
        value: Any,
        limits: SchemaLimits,
        references: Iterable[Reference] = (),
        text: str | None = None,
    ) -> None:
        self._limits = limits
        self._text = text
        self._references = References(references)
        self._met: list[tuple[Schema, str]] = []
        self._resources: dict[str, Schema] = {}
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._dynamic: dict[str, list[Schema]] = {}
        self._others: dict[tuple[str, str], Schema] = {}
        self.annotations: dict[tuple[str, str], str] = {}
        self.used: dict[Reference, str] = {}
        self.draft = draft_of(value)
        self.root = self._add(value, "", self.draft)
        # What a dynamic reference leads to depends on all anchors there are.
        while self._met:
            schema, keyword = self._met.pop()
            target, _ = _target(schema, schema.keywords[keyword], keyword)
            self._resource(target, schema)

    def resolve(self, schema: Schema, reference: str, keyword: str) -> Schema:
        """Return what a reference leads to.

        Raises:
            SchemaRefError: Nothing in this document, or another document.
        """
        path = f"{schema.path}/{keyword}"
        target, fragment = _target(schema, reference, keyword)
        resource = self._resource(target, schema)
        if resource is None:
            raise SchemaRefError(
                f"{path} refers to {target}, which is another document, and was not given",
                hint=f"give it: `refs` {target}=FILE, or a folder with it: `ref_dir` DIR; nothing "
                "is fetched",
                path=path,
                uri=target,
            )
        found = self._within(resource, resource.base, unquote(fragment))
        if found is not None and keyword == "$dynamicRef":
            found = self._outermost(found, fragment)
        if found is None:
            raise SchemaRefError(
                f"{path} refers to {reference!r}, and there is nothing there",
                hint="correct the reference, or add what it names",
                path=path,
            )
        return found

    def is_dynamic(self, schema: Schema, reference: str) -> bool:
        """Say whether what a ``$dynamicRef`` leads to depends on how its place was reached."""
        anchor = reference.partition("#")[2]
        anchored = self._dynamic.get(anchor, ())
        return len(anchored) > 1 and (anchor == "" or self._anchored(anchor) is None)

    def _anchored(self, anchor: str) -> Schema | None:
        """Return what the schema itself has for a dynamic anchor.

        All places are reached through it, so that no other document's anchor is further out.
        """
        for schema in self._dynamic.get(anchor, ()):
            if schema.base == self.root.base:
                return schema
        return None

    def _outermost(self, found: Schema, anchor: str) -> Schema:
        """Return what a ``$dynamicRef`` leads to: another place only from a dynamic anchor on."""
        if found.keywords.get("$dynamicAnchor") != anchor:
            return found
        return self._anchored(anchor) or found

    def _resource(self, uri: str, referring: Schema) -> Schema | None:
        """Return the schema of a URI: within what was read, shipped, or given to be referred to."""
        found = self._resources.get(uri)
        return found or self._shipped(uri) or self._given(uri, referring)

    def _given(self, uri: str, referring: Schema) -> Schema | None:
        """Return a document that was given, which is read where it is first referred to."""
        reference = self._references.find(uri)
        if reference is None:
            return None
        known = self.root if reference.text == self._text else None
        if reference in self.used:
            known = self._resources[self.used[reference]]
        if known is not None:
            # subtle: who refers to another document of the name that his own has means another.
            if known.base == referring.base:
                return None
            self._resources[uri] = known
            return known
        called = reference.file or uri
        try:
            value, _ = read_json(reference.text, self._limits)
            self.used[reference] = uri
            return self._add(value, uri, draft_of(value, self.draft), other=True)
        except DataError as error:
            error.message = f"{called}: {error.message}"
            error.args = (error.message,)
            raise

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
                return self._add(contents, uri, draft_of(contents), other=True)
        return None

    def _add(self, value: Any, uri: str, draft: int, *, other: bool = False) -> Schema:
        schema = self._walk(value, uri if other else "", uri, draft, 0)
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
        keyword = "id" if schema.draft <= 4 else "$id"
        own = keywords.get(keyword)
        if isinstance(own, str):
            uri, fragment = _target(schema, own, keyword)
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
            self._dynamic.setdefault(name, []).append(schema)
        if keywords.get("$recursiveAnchor") is True:
            self._dynamic.setdefault("", []).append(schema)
        for keyword in ("$ref", "$dynamicRef"):
            reference = keywords.get(keyword)
            if isinstance(reference, str) and not reference.startswith("#"):
                self._met.append((schema, keyword))


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


def _target(schema: Schema, reference: str, keyword: str) -> tuple[str, str]:
    """Return the URI that a schema says, relative to its base, and its fragment.

    Raises:
        SchemaInvalidError: It is none.
    """
    uri, _, fragment = reference.partition("#")
    if not uri:
        return schema.base, fragment
    try:
        return urljoin(schema.base, uri), fragment
    except ValueError:
        path = f"{schema.path}/{keyword}"
        raise SchemaInvalidError(
            f"{path} is {reference[:80]!r}, which is no URI",
            hint="correct the schema there",
            path=path,
        ) from None


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _kind(value: Any) -> str:
    names = {str: "a string", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")

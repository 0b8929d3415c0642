"""Pydantic's JSON Schema of a type, narrowed to what the type's own reader takes.

Pydantic says of each kind of type in a method what its schema is; here these methods say more.
Needs pydantic: it is imported where that is known to be there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonRef

from cdec.compilers.schemas.typed import moments, numbers
from cdec.compilers.schemas.typed.json_texts import json_text
from cdec.compilers.schemas.typed.standard import distinct
from cdec.compilers.schemas.typed.texts import (
    ASCII,
    BOUNDS,
    COMPLEX,
    TEXTS,
    Made,
    base64_lengths,
    by_function,
    noted,
    text,
    url,
)
from cdec.core.schemas.own_keywords import NUMBERS

_BLANKS = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Characters that pydantic strips from the ends of texts."""
_STRIPPED = f"^(?:[^{_BLANKS}](?:[\\s\\S]*[^{_BLANKS}])?)?$"
_COMMON = (
    r"^[\x00-\x1b\x20-\xb1\xb4-\xb8\xba\xbb\xbf-\u02c1\u0391-\u0481\u048a-\u0556\u05d0-\u05ea"
    r"\u0620-\u064a\u0e01-\u0e30\u10d0-\u10fa\u1e00-\u1fbc\u2010-\u2029\u2030-\u203e"
    r"\u2041-\u2053\u2055-\u205e\u20a0-\u20bf\u3000-\u3004\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3"
    "\U0001f300-\U0001f5ff]*$"
)
"""Characters of which Rust's regular expressions say the same as Python's: not all are letters,
digits or blanks to both."""
_CLASSES = re.compile(r"\\[wWbBsSD]")
_CLASS_IN_CLASS = re.compile(r"\[(?:\\.|[^\]\\])+?(?:\[|&&|--|~~)|\[\[")
"""Signs that Rust reads as classes within a class, and Python does not."""

_LONGEST_KEY = 200
"""Characters of a key whose type allows more."""


class RefinedSchemas(GenerateJsonSchema):
    """The JSON Schema of a type, of which every text is read."""

    def generate_inner(self, schema: Any) -> Made:
        made = super().generate_inner(schema)
        made = _with_row(made)
        loose = {name: made[name] for name in BOUNDS if isinstance(made.get(name), int | float)}
        if loose:
            # Of a union pydantic writes bounds as no schema does, and reads only what they compare.
            kept = {name: value for name, value in made.items() if name not in loose}
            made = kept | {"type": "number"} | numbers.double_bounds(loose)
        return by_function(made, schema) if "function" in schema else made

    def int_schema(self, schema: Any) -> Made:
        return super().int_schema(schema) | {NUMBERS: "integers"}

    def float_schema(self, schema: Any) -> Made:
        return numbers.double(schema)

    def decimal_schema(self, schema: Any) -> Made:
        return numbers.decimal(schema)

    def fraction_schema(self, schema: Any) -> Made:
        has_bounds = any(schema.get(name) is not None for name in BOUNDS)
        number = numbers.double(schema)
        return number if has_bounds else {"anyOf": [number, TEXTS["fraction"]]}

    def complex_schema(self, schema: Any) -> Made:
        return text(COMPLEX)

    def literal_schema(self, schema: Any) -> Made:
        return _plain_members(super().literal_schema(schema))

    def enum_schema(self, schema: Any) -> Made:
        return _plain_members(super().enum_schema(schema))

    def str_schema(self, schema: Any) -> Made:
        made = super().str_schema(schema)
        more = []
        strips = schema.get("strip_whitespace", self._config.str_strip_whitespace)
        if strips and {"minLength", "pattern"} & made.keys():
            more.append(_STRIPPED)
        if schema.get("ascii_only"):
            more.append(ASCII)
        pattern = schema.get("pattern")
        engine = schema.get("regex_engine") or self._config.regex_engine
        if isinstance(pattern, re.Pattern):
            made["pattern"] = _with_flags(pattern)
        elif pattern is not None and engine != "python-re":
            if _CLASS_IN_CLASS.search(pattern):
                del made["pattern"]
                made = noted(made, f"pattern {pattern}")
            if _CLASSES.search(pattern):
                more.append(_COMMON)
        return made | ({"allOf": [{"pattern": each} for each in more]} if more else {})

    def bytes_schema(self, schema: Any) -> Made:
        coding = self._config.config_dict.get("val_json_bytes", "utf8")
        least, most = schema.get("min_length"), schema.get("max_length")
        if coding == "hex":
            high = "" if most is None else most
            return text(f"(?:[0-9a-f]{{2}}){{{least or 0},{high}}}")
        if coding == "base64":
            limits = base64_lengths(least, most)
            return TEXTS["base64url"] | ({"allOf": limits} if limits else {})
        # subtle: lengths are bytes, those of a schema characters.
        made = {} if most is None else {"pattern": ASCII, "maxLength": most}
        return {"type": "string"} | made | ({} if least is None else {"minLength": least})

    def uuid_schema(self, schema: Any) -> Made:
        return {"type": "string", "format": f"uuid{schema.get('version') or ''}"}

    def date_schema(self, schema: Any) -> Made:
        return moments.date(schema)

    def time_schema(self, schema: Any) -> Made:
        return moments.time(schema)

    def datetime_schema(self, schema: Any) -> Made:
        return moments.moment(schema)

    def timedelta_schema(self, schema: Any) -> Made:
        return moments.duration(schema)

    def url_schema(self, schema: Any) -> Made:
        return self._url(super().url_schema(schema), schema, many_hosts=False)

    def multi_host_url_schema(self, schema: Any) -> Made:
        return self._url(super().multi_host_url_schema(schema), schema, many_hosts=True)

    def _url(self, made: Made, schema: Any, *, many_hosts: bool) -> Made:
        kept = {name: value for name, value in made.items() if name != "format"}
        return kept | url(schema.get("allowed_schemes"), many_hosts=many_hosts)

    def json_schema(self, schema: Any) -> Made:
        made = super().json_schema(schema)
        return made | json_text(made.get("contentSchema", {}), self._referred)

    def _referred(self, made: Made) -> Made:
        """Return what a schema that is a reference refers to; another as it is."""
        while "$ref" in made:
            found = self.get_schema_from_definitions(JsonRef(made["$ref"]))
            made = {} if found is None else found
        return made

    def dict_schema(self, schema: Any) -> Made:
        return self._keyed(super().dict_schema(schema), schema)

    def ordered_dict_schema(self, schema: Any) -> Made:
        return self._keyed(super().ordered_dict_schema(schema), schema)

    def counter_schema(self, schema: Any) -> Made:
        return self._keyed(super().counter_schema(schema), schema)

    def _keyed(self, made: Made, schema: Any) -> Made:
        keys = schema.get("keys_schema")
        if keys is None:
            return made
        named = self._key(self.generate_inner(keys), keys)
        return made if named == {"type": "string"} else made | {"propertyNames": named}

    def _key(self, made: Made, core: Any) -> Made | bool:
        """Return the schema of the names that are read as keys of a type."""
        written = self._referred(made)
        if "anyOf" in written:
            kinds = [self._key(kind, {}) for kind in written["anyOf"]]
            return {"anyOf": [kind for kind in kinds if kind is not False]} if any(kinds) else False
        listed = written.get("enum", [written["const"]] if "const" in written else None)
        if listed is not None:
            names = [name for name in listed if isinstance(name, str)]
            if core.get("sub_type") == "int":
                names += [str(number) for number in listed if isinstance(number, int)]
            return {"enum": names} if names else False
        kind = written.get("type")
        if kind == "integer":
            return numbers.integer_text(written)
        if kind == "number":
            return numbers.double_text(written)
        if kind == "boolean":
            return {"enum": ["true", "false"]}
        if made.get("maxLength", 0) > _LONGEST_KEY:
            # In names lengths are counted by states.
            made = made | {"maxLength": _LONGEST_KEY}
        return made if kind == "string" or not written else False

    def set_schema(self, schema: Any) -> Made:
        return _of_set(super().set_schema(schema))

    def frozenset_schema(self, schema: Any) -> Made:
        return _of_set(super().frozenset_schema(schema))

    def is_subclass_schema(self, schema: Any) -> Made:
        # No JSON is a class.
        return {"not": {}}

    def chain_schema(self, schema: Any) -> Made:
        made = super().chain_schema(schema)
        if any(step.get("type") == "is-instance" for step in schema["steps"]):
            return made | {"type": ["string", "number", "boolean", "null"]}
        for step in schema["steps"][1:]:
            made = noted(made, f"{step['type']}, a further step of the annotation")
        return made

    def model_field_schema(self, schema: Any) -> Made:
        return _by_path(super().model_field_schema(schema), schema)

    def typed_dict_field_schema(self, schema: Any) -> Made:
        return _by_path(super().typed_dict_field_schema(schema), schema)

    def dataclass_field_schema(self, schema: Any) -> Made:
        return _by_path(super().dataclass_field_schema(schema), schema)

    def model_schema(self, schema: Any) -> Made:
        made = super().model_schema(schema)
        for name in ("model_post_init", "__init__"):
            own = getattr(schema["cls"], name)
            if not own.__module__.startswith("pydantic"):
                made = noted(made, own.__qualname__)
        return made

    def dataclass_schema(self, schema: Any) -> Made:
        made = super().dataclass_schema(schema)
        own = getattr(schema["cls"], "__post_init__", None)
        return made if own is None else noted(made, own.__qualname__)


def _with_row(made: Made) -> Made:
    """Return a schema with the row of its format in the place of the format."""
    row = TEXTS.get(str(made.get("format")))
    if row is None or made.get("type") != "string":
        return made
    kept = {name: value for name, value in made.items() if name != "format"}
    if "contentMediaType" in made:
        # Of `Json[UUID4]` pydantic writes the format beside what it is within.
        return kept
    if row.keys() & kept.keys() <= {"type"}:
        return row | kept
    return kept | {"allOf": [*kept.get("allOf", []), row]}


def _plain_members(made: Made) -> Made:
    """Return the schema of constants, those that are integers spelled as integers."""
    if made.get("type") == "numeric":
        # So early releases of pydantic call numbers.
        made = made | {"type": "number"}
    values = made.get("enum", [made.get("const")])
    has_integers = any(isinstance(value, int) for value in values)
    has_others = any(isinstance(value, float) for value in values)
    return made | ({NUMBERS: "integers"} if has_integers and not has_others else {})


def _with_flags(pattern: re.Pattern[str]) -> str:
    """Return a compiled expression as text, with what it was compiled with."""
    letters = "".join(
        letter
        for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S), ("x", re.X), ("a", re.A))
        if pattern.flags & flag
    )
    return f"(?{letters}){pattern.pattern}" if letters else pattern.pattern


def _of_set(made: Made) -> Made:
    """Return the schema of a set, and note where items that differ as texts may be too few."""
    found = distinct(made)
    is_sure = found is made or made.get("minItems", 0) < 2
    return found if is_sure else noted(found, "whether enough items differ once they are read")


def _by_path(made: Made, schema: Mapping[str, Any]) -> Made:
    """Note where a field is read from within another value: no schema has a place for it there."""
    alias = schema.get("validation_alias", "")
    paths = alias if alias and isinstance(alias[0], list) else [alias]
    if isinstance(alias, str) or any(len(path) == 1 for path in paths):
        return made
    return noted(made, f"the path {paths[0]} of its alias")

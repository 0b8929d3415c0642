"""Membership of finished texts in a JSON Schema, decided by the jsonschema package alone.

Nothing here looks at a compiled program. Numbers are exact, where the package's own reading of JSON
would round them; no other document is fetched. White space is not looked at. Of names that stand
twice in an object the last one counts, as in ``json.loads``. Formats are those of ``formats``.

The package looks at no clock, and goes back in regular expressions as Python does: what is here
runs in the process of ``core.child.readers`` alone.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from cdec.core.child.readers import Language, Parse
from cdec.core.schemas.formats import format_checker
from cdec.core.schemas.own_keywords import NUMBERS, SET, SPAN
from cdec.core.schemas.references import References, from_json, without_fragment
from cdec.core.sets.quotes import SpanField

_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGIT = re.compile("[1-9]")
LONG = 1000
"""Digits from which an integer is read as a decimal: Python's own reading is quadratic."""
_MOST_EXPONENT = 10**17


def read_json(text: str, *, finite: bool = False) -> Any:
    """Return the value of a JSON text; of names that stand twice in an object, the last one's.

    Args:
        text: Of any length.
        finite: Refuse numbers that doubles cannot hold.

    Returns:
        Numbers are int or Decimal; an exponent too large for Decimal is cut to one that is not.

    Raises:
        ValueError: It is no JSON, a string in it has half a surrogate pair, or a number is refused.
        RecursionError: Too deep.
    """
    return json.loads(
        _without_surrogates(text),
        parse_int=_finite(_integer) if finite else _integer,
        parse_float=_finite(_decimal) if finite else _decimal,
        parse_constant=_constant,
    )


def is_finite(text: str) -> bool:
    """Say whether readers of doubles take a number neither for infinity nor wrongly for 0."""
    read = float(text)
    return not math.isinf(read) and (read != 0 or not _DIGIT.search(re.split("[eE]", text)[0]))


def is_multiple(value: int | Decimal, of: int | Decimal) -> bool:
    """Say whether one number is a whole multiple of another, exactly, whatever their exponents."""
    own, power = _scaled(value)
    divisor, divisor_power = _scaled(of)
    if own == 0 or divisor == 0:
        return own == 0
    shift = power - divisor_power
    # subtle: neither mantissa ends in zero, so where the divisor has the larger power of ten, its
    # multiples do not end where the value does.
    return shift >= 0 and own * pow(10, shift, divisor) % divisor == 0


def _scaled(value: int | Decimal) -> tuple[int, int]:
    """Return mantissa and power of ten; a mantissa other than 0 does not end in zero."""
    sign, digits, power = Decimal(value).as_tuple()
    assert isinstance(power, int)
    ending = next((i for i, digit in enumerate(reversed(digits)) if digit), len(digits))
    kept = digits[: len(digits) - ending] or (0,)
    # subtle: `int` of a text refuses more than 4,300 digits.
    return int(Decimal((sign, kept, 0))), power + ending


def _finite(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def finite(text: str) -> Any:
        if not is_finite(text):
            raise ValueError(f"{text[:40]} is no finite double")
        return read(text)

    return finite


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < LONG else Decimal(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, exponent = re.split("[eE]", text)
        sign, digits, power = Decimal(mantissa).as_tuple()
        assert isinstance(power, int)
        # subtle: not by multiplying, which would round to the context's precision.
        power += max(-_MOST_EXPONENT, min(_MOST_EXPONENT, int(exponent[:20])))
        return Decimal((sign, digits, power))


def _constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _without_surrogates(text: str) -> str:
    r"""Return a text none of whose strings has half a surrogate pair.

    Raises:
        ValueError: One has: ``"\ud800"``.
    """
    if "\\u" in text:
        # subtle: pairs that are escaped are one character once read.
        read = json.loads(text)
        pending = [read]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                pending += value.keys()
                pending += value.values()
            elif isinstance(value, list):
                pending += value
            elif isinstance(value, str) and _SURROGATE.search(value):
                raise ValueError("half a surrogate pair")
    return text


_DEPTH = 20_000
"""Calls within calls: jsonschema makes about ten for each bracket within brackets."""
_DRAFTS = ("Draft202012Validator", "Draft7Validator", "Draft6Validator", "Draft4Validator")
"""What a schema that names no draft may be written in, the first that takes it."""


_ROOT = "urn:cdec:schema"
"""URI of a schema that says none; what is relative to it is as relative to none."""


def stored_language(metadata: Mapping[str, str], sets: Sequence[str] = ()) -> Language:
    """Return the language of a schema artifact's metadata; texts begin as ``sets`` asks."""
    options = json.loads(metadata["cdec.options"])
    # Artifacts from before there was the option hold any.
    numbers = options.get("numbers", "any")
    references = metadata.get("cdec.references", "[]")
    return schema_language(metadata["cdec.schema"], options["formats"], numbers, sets, references)


def schema_language(
    source: str,
    formats: str = "enforce",
    numbers: str = "any",
    sets: Sequence[str] = (),
    references: str = "[]",
) -> Language:
    """Return what ``parser_of`` reads, for the process that judges."""
    return Language(__name__, (source, formats, numbers, "1" if sets else "", references))


def load() -> None:
    """Import the package and make a first validator."""
    sys.setrecursionlimit(_DEPTH)
    parse = parser_of('{"type": "integer", "format": "date"}')
    assert parse is not None
    parse("1", 0.0)


def parser_of(
    source: str,
    formats: str = "enforce",
    numbers: str = "any",
    sets: str = "",
    references: str = "[]",
) -> Parse | None:
    """Return what says whether a text is an instance; None where the source is no schema.

    Args:
        source: The schema, JSON.
        formats: ``enforce`` or ``annotate``.
        numbers: ``any``, or ``finite``: a text with one that no double can hold is no instance.
        sets: Not empty: a text stands behind a line that says by a JSON object, by the name of each
            set, which of its strings are members.
        references: Documents that it may refer to, as an artifact stores them.

    Returns:
        A function of a text; the time is not looked at. None of it where a reference leads nowhere
        or for ever, or a pattern is none of Python's.
    """
    from jsonschema.exceptions import SchemaError, _WrappedReferencingError

    try:
        schema = read_json(source)
        documents = References(from_json(references))
        kind = _draft_of(schema)
    except (ValueError, RecursionError, SchemaError):
        return None
    checker = format_checker() if formats == "enforce" else None
    if isinstance(schema, dict):
        # subtle: in dynamic scopes the package passes over a schema without URI.
        schema = {"$id": _ROOT} | schema
    members: dict[str, list[str]] = {}
    validator = _Drafts(documents, members if sets else None).of(kind)(
        schema, registry=_registry(documents, kind), format_checker=checker
    )

    def parse(text: str, _deadline: float) -> bool | None:
        if sets:
            said, text = text.split("\n", 1)
            members.clear()
            members.update(json.loads(said))
        try:
            instance = read_json(text, finite=numbers == "finite")
        except ValueError:
            return False
        except RecursionError:
            return None
        try:
            return bool(validator.is_valid(instance))
        except (RecursionError, re.error, _WrappedReferencingError):
            return None

    return parse


def _draft_of(schema: Any) -> Any:
    """Return jsonschema's class for the draft that a schema is written in.

    Raises:
        SchemaError: It is a schema of no draft.
    """
    import jsonschema

    named = None
    if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
        named = jsonschema.validators.validator_for(schema, default=None)
    classes = [getattr(jsonschema, name) for name in _DRAFTS] if named is None else [named]
    for kind in classes:
        if kind(kind.META_SCHEMA).is_valid(_floats(schema)):
            return kind
    raise jsonschema.SchemaError("a schema of no draft")


def _registry(documents: References, kind: Any) -> Any:
    """Return where the package finds documents; without one it would fetch them.

    Those that name no draft are read as the schema is, whose class is given.
    """
    from jsonschema_specifications import REGISTRY
    from referencing import Registry, Resource
    from referencing.exceptions import NoSuchResource
    from referencing.jsonschema import specification_with

    dialect = kind.ID_OF(kind.META_SCHEMA)
    default = specification_with(dialect.rstrip("#"))
    making: Any = Registry
    missing: Any = NoSuchResource

    def retrieve(uri: str) -> Any:
        found = documents.find(without_fragment(uri))
        if found is None:
            raise missing(ref=uri)
        contents = read_json(found.text)
        if isinstance(contents, dict):
            contents = {"$schema": dialect} | contents
        return Resource.from_contents(contents, default_specification=default)

    return REGISTRY.combine(making(retrieve=retrieve))


class _Drafts:
    """Validator classes of jsonschema's, with exact numbers, for a schema and its documents.

    Args:
        documents: That it may refer to.
        members: Which strings of a text are members of which set; None without sets.
    """

    def __init__(
        self, documents: References, members: Mapping[str, list[str]] | None = None
    ) -> None:
        self._documents = documents
        self._members = members
        self._made: dict[Any, Any] = {}
        self._exact: set[Any] = set()
        self._bases: dict[str, str] = {}

    def of(self, kind: Any) -> Any:
        """Return the class of a draft, whose own class is given."""
        if kind not in self._made:
            exact = _exact(kind)
            if self._members is not None:
                exact = _with_members(exact, self._members)
            self._made[kind] = exact
            self._exact.add(exact)
            plain = exact.evolve
            exact.evolve = lambda validator, **changes: self._going_on(plain(validator, **changes))
        return self._made[kind]

    def _going_on(self, made: Any) -> Any:
        """Return the validator of a subschema, which may be of another draft or document."""
        from attrs import fields

        kind: Any = type(made)
        exact = kind if kind in self._exact else self.of(kind)
        told = {each.alias: getattr(made, each.name) for each in fields(kind) if each.init}
        resolver = self._own_base(told["_resolver"])
        if exact is kind and resolver is told["_resolver"]:
            return made
        return exact(**told | {"_resolver": resolver})

    def _own_base(self, resolver: Any) -> Any:
        """Return a resolver whose base is a document's own URI, not the one it was found by.

        subtle: the package takes the latter, though what is relative is so to the former.
        """
        from attrs import evolve, fields

        if not self._documents.given:
            return resolver
        names = {each.alias: each.name for each in fields(type(resolver))}
        base = getattr(resolver, names["base_uri"])
        if base not in self._bases:
            found = self._documents.find(base)
            self._bases[base] = found.id if found is not None and found.id else base
        own = self._bases[base]
        return resolver if own == base else evolve(resolver, base_uri=own)


def _exact(kind: Any) -> Any:
    """Return a validator class of jsonschema's with numbers that are exact."""
    import jsonschema

    strict = kind in (jsonschema.Draft3Validator, jsonschema.Draft4Validator)
    types = kind.TYPE_CHECKER.redefine("integer", _is_spelled_integer if strict else _is_integer)
    # Drafts from 2019-09 on let `dependencies` count for those who know it, and cdec does.
    older = jsonschema.Draft7Validator.VALIDATORS["dependencies"]
    known = {"multipleOf": _multiple_of, NUMBERS: _read_as}
    if "dependencies" not in kind.VALIDATORS:
        known["dependencies"] = older
    return jsonschema.validators.extend(kind, validators=known, type_checker=types)


def _with_members(kind: Any, members: Mapping[str, list[str]]) -> Any:
    """Return a validator class that knows which strings of a text are members of which set."""
    from jsonschema import ValidationError, validators

    def is_member(validator: Any, name: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and instance not in members.get(name, ()):
            yield ValidationError(f"{instance!r} is no member of {name}")

    def is_piece(validator: Any, of: Any, instance: Any, schema: Any) -> Iterator[Any]:
        return is_member(validator, str(SpanField.from_json(of)), instance, schema)

    return validators.extend(kind, validators={SET: is_member, SPAN: is_piece})


def _is_spelled_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        # An integer of a thousand digits and more, or one with a fraction or an exponent.
        return value.as_tuple().exponent == 0 and len(value.as_tuple().digits) >= LONG
    return isinstance(value, int) and not isinstance(value, bool)


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return is_multiple(value, 1)
    return isinstance(value, int) and not isinstance(value, bool)


def _multiple_of(validator: Any, of: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "number") and not is_multiple(instance, of):
        yield ValidationError(f"{instance} is not a multiple of {of}")


def _read_as(validator: Any, reader: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not validator.is_type(instance, "number"):
        return
    is_read = _is_spelled_integer(None, instance) if reader == "integers" else None
    if not (is_finite(str(instance)) if is_read is None else is_read):
        yield ValidationError(f"{instance} is not read as it is by readers of {reader}")


def _floats(value: Any) -> Any:
    """Return a schema with floats for decimals, which the metaschemas' own validators know."""
    if isinstance(value, Decimal):
        return int(value) if is_multiple(value, 1) and value.adjusted() < 300 else float(value)
    if isinstance(value, dict):
        return {name: _floats(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_floats(below) for below in value]
    return value

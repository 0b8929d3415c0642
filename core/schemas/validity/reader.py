"""Whether a finished text is an instance of a JSON Schema, decided by the jsonschema package alone.

Nothing here looks at a compiled program. Numbers are exact, where the package's own reading of JSON
would round them; formats are checked by ``formats``; no other document is fetched. White space is
not looked at. Of names that stand twice in an object the last one counts, as in ``json.loads``.

The package looks at no clock, and goes back in regular expressions as Python does: what is here
runs in the process of ``core.child.readers`` alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

from cdec.core.child.readers import Language, Parse
from cdec.core.schemas.own_keywords import NUMBERS
from cdec.core.schemas.validity.formats import format_checker
from cdec.core.schemas.validity.instances import LONG, is_finite, is_multiple, read_json

_DEPTH = 20_000
"""Calls within calls: jsonschema makes about ten for each bracket within brackets."""
_DRAFTS = ("Draft202012Validator", "Draft7Validator", "Draft6Validator", "Draft4Validator")
"""What a schema that names no draft may be written in, the first that takes it."""


def stored_language(metadata: Mapping[str, str]) -> Language:
    """Return the language of a schema artifact's metadata."""
    options = json.loads(metadata["cdec.options"])
    # Artifacts from before there was the option hold any.
    numbers = options.get("numbers", "any")
    return schema_language(metadata["cdec.schema"], options["formats"], numbers)


def schema_language(source: str, formats: str = "enforce", numbers: str = "any") -> Language:
    """Return what ``parser_of`` reads, for the process that judges."""
    return Language(__name__, (source, formats, numbers))


def load() -> None:
    """Import the package and make a first validator."""
    sys.setrecursionlimit(_DEPTH)
    parse = parser_of('{"type": "integer", "format": "date"}')
    assert parse is not None
    parse("1", 0.0)


def parser_of(source: str, formats: str = "enforce", numbers: str = "any") -> Parse | None:
    """Return what says whether a text is an instance; None where the source is no schema.

    Args:
        source: The schema, JSON.
        formats: ``enforce`` or ``annotate``.
        numbers: ``any``, or ``finite``: a text with one that no double can hold is no instance.

    Returns:
        A function of a text; the time is not looked at. None of it where a reference leads nowhere
        or for ever, or a pattern is none of Python's.
    """
    from jsonschema.exceptions import SchemaError, _WrappedReferencingError
    from jsonschema_specifications import REGISTRY

    try:
        schema = read_json(source)
        validator_class = _validator_class(schema)
    except (ValueError, RecursionError, SchemaError):
        return None
    checker = format_checker() if formats == "enforce" else None
    # subtle: without a registry of its own the package would fetch references from the network.
    validator = validator_class(schema, registry=REGISTRY, format_checker=checker)

    def parse(text: str, _deadline: float) -> bool | None:
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


def _validator_class(schema: Any) -> Any:
    """Return jsonschema's class for the draft that a schema is written in, with exact numbers.

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
            return _exact(kind)
    raise jsonschema.SchemaError("a schema of no draft")


@cache
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

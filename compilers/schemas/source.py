"""JSON of a schema's text, with what the standard library lets pass refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from cdec.compilers.schemas.options import SchemaLimits
from cdec.core.errors import EncodingError, LimitError
from cdec.core.schemas.errors import SchemaJsonError

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json(source: str | bytes, limits: SchemaLimits) -> tuple[Any, str]:
    """Parse the text of a schema.

    Args:
        source: The text; bytes are UTF-8.
        limits: ``max_schema_bytes`` and ``max_nesting``.

    Returns:
        The value (numbers are int or ``Decimal``) and the text.

    Raises:
        SchemaJsonError: No JSON, a key twice in one object, or half a surrogate pair.
        EncodingError: No UTF-8.
        LimitError: A limit is passed.
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > limits.max_schema_bytes:
        raise LimitError(
            f"the schema has {len(data):,} bytes, the limit is {limits.max_schema_bytes:,}",
            hint="raise `max_schema_bytes`",
            limit="max_schema_bytes",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"the schema is no UTF-8: byte {error.start + 1}",
            hint="save it as UTF-8",
            byte_offset=error.start + 1,
        ) from None
    _require_shallow(data, limits.max_nesting)
    try:
        value = json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        raise SchemaJsonError(
            f"line {error.lineno}, column {error.colno}: the schema is no JSON: {error.msg}",
            hint="correct the text there",
            line=error.lineno,
            column=error.colno,
        ) from None
    except RecursionError:
        raise _too_deep(limits.max_nesting) from None
    except ValueError:
        raise SchemaJsonError("the schema has a number of thousands of digits") from None
    if _SURROGATE.search(text) or ("\\ud" in text.lower() and _has_surrogate(value)):
        raise SchemaJsonError(
            "the schema has half a surrogate pair, which is no character",
            hint="write the character itself, or both halves",
        )
    return value, text


def _require_shallow(data: bytes, most: int) -> None:
    """Refuse brackets nested deeper than ``most``, before a parser recurses into them."""
    depth = 0
    for match in _BRACKETS.finditer(data):
        byte = match.group()
        if byte in (b"{", b"["):
            depth += 1
            if depth > 2 * most:
                raise _too_deep(most)
        elif byte in (b"}", b"]"):
            depth -= 1


def _too_deep(most: int) -> LimitError:
    return LimitError(
        f"the schema's brackets are nested more than {2 * most} deep, twice `max_nesting`",
        hint="raise `max_nesting`, or use $defs and $ref",
        limit="max_nesting",
    )


def _refuse_constant(name: str) -> Any:
    raise SchemaJsonError(f"the schema has {name}, which is no JSON", hint="write a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise SchemaJsonError(
                    f"the key {key!r} stands twice in one object",
                    hint="keep one of the two",
                    key=key,
                )
            seen.add(key)
    return found


def _has_surrogate(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                return True
        elif isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item
    return False

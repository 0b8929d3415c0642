"""Cuts what a set is compiled from into batches with line numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cdec.core.errors import FieldError, UsageError
from cdec.core.sets.entities import EntityBatch, TokenBatch


def entity_batches(lines: Iterable[Any], size: int) -> Iterator[EntityBatch]:
    """Cut a source of entities into batches of at most ``size``.

    Args:
        lines: Strings, mappings with ``text`` and perhaps ``id``, or ``EntityBatch`` objects. The
            first two are numbered from line 1.
        size: Largest batch, entities.

    Yields:
        Batches in the source's order.

    Raises:
        FieldError: A mapping whose ``text`` is no string or whose ``id`` is no string or integer.
        UsageError: Anything else in the source.
    """
    if isinstance(lines, str | bytes | Mapping):
        raise UsageError(
            f"compile_set was given one {type(lines).__name__}, expected many entities",
            hint="give an iterable of strings, for example text.splitlines()",
        )
    items = iter(lines)
    line = 1
    for first in items:
        if isinstance(first, EntityBatch):
            yield from _pieces(first, size)
            line += len(first.texts)
            continue
        # subtle: a source of batches must not be read ahead; one of strings must be, for speed.
        some = [first, *islice(items, size - 1)]
        if set(map(type, some)) == {str}:
            yield EntityBatch(some, range(line, line + len(some)))
        else:
            yield from _from_mixed(some, line, size)
        line += len(some)


def token_batches(rows: Iterable[Any], size: int) -> Iterator[TokenBatch]:
    """Cut token rows, or ``TokenBatch`` objects, into batches of at most ``size``."""
    items = iter(rows)
    line = 1
    for first in items:
        if isinstance(first, TokenBatch):
            for a in range(0, len(first.rows), size):
                yield TokenBatch(first.rows[a : a + size], first.lines[a : a + size])
            line += len(first.rows)
            continue
        some = [first, *islice(items, size - 1)]
        if any(isinstance(row, TokenBatch) for row in some):
            raise UsageError("a source holds both token rows and TokenBatch objects")
        yield TokenBatch(some, range(line, line + len(some)))
        line += len(some)


def _pieces(batch: EntityBatch, size: int) -> Iterator[EntityBatch]:
    if len(batch.lines) != len(batch.texts) or len(batch.ids or batch.texts) != len(batch.texts):
        raise UsageError(
            f"a batch of {len(batch.texts)} texts has {len(batch.lines)} line numbers and "
            f"{len(batch.ids or [])} ids; expected one a text"
        )
    if len(batch.texts) <= size:
        yield batch
        return
    for a in range(0, len(batch.texts), size):
        ids = None if batch.ids is None else batch.ids[a : a + size]
        yield EntityBatch(batch.texts[a : a + size], batch.lines[a : a + size], ids)


def _from_mixed(items: Sequence[Any], line: int, size: int) -> Iterator[EntityBatch]:
    """Make batches of strings and mappings (and of batches that come after them)."""
    texts: list[str] = []
    ids: list[str | None] = []
    for number, item in enumerate(items, line):
        if isinstance(item, EntityBatch):
            raise UsageError("a source holds both single entities and EntityBatch objects")
        text, entity_id = (item, None) if isinstance(item, str) else _from_mapping(item, number)
        texts.append(text)
        ids.append(entity_id)
    named = None
    if any(entity_id is not None for entity_id in ids):
        named = [str(line + i) if name is None else name for i, name in enumerate(ids)]
    yield from _pieces(EntityBatch(texts, range(line, line + len(texts)), named), size)


def _from_mapping(item: Any, line: int) -> tuple[str, str | None]:
    if not isinstance(item, Mapping):
        raise UsageError(
            f"entity {line} is a {type(item).__name__}, expected a string or a mapping with text",
            line=line,
        )
    text, entity_id = item.get("text"), item.get("id")
    if not isinstance(text, str):
        found = f"of type {type(text).__name__}" if "text" in item else "missing"
        raise FieldError(
            f"line {line}: the field 'text' is {found}, expected a string",
            hint="give the text as 'text', and perhaps an 'id'",
            line=line,
            field="text",
        )
    if entity_id is None or isinstance(entity_id, str):
        return text, entity_id
    if isinstance(entity_id, int) and not isinstance(entity_id, bool):
        return text, str(entity_id)
    raise FieldError(
        f"line {line}: the field 'id' is of type {type(entity_id).__name__}, expected a string "
        "or an integer",
        line=line,
        field="id",
    )

"""Documents to refer to, read: files by URI, folders, and JSON that is given as it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cdec.compilers.schemas.options import SchemaLimits
from cdec.compilers.schemas.source import read_json
from cdec.core.errors import CdecError, InputMissingError, LimitError, UsageError
from cdec.core.schemas.references import Reference, without_fragment

Refs: TypeAlias = "Mapping[str, Any] | Path | Sequence[Mapping[str, Any] | Path]"
"""Documents by URI, each a dict or bool, JSON text, or the path of a file; a folder; or several."""
_MOST_FILES = 10_000


def references_of(refs: Refs, limits: SchemaLimits | None = None) -> tuple[Reference, ...]:
    """Read the documents that schemas may refer to; nothing else is ever read, or fetched.

        references_of({"https://example.org/item.json": Path("item.json")})

    Args:
        refs: Documents by URI, each a schema as a dict or a bool, its text or the path of its file;
            or a folder, whose files ending in ``.json`` are found by their ``$id`` and by their
            names; or a sequence of both, in which what comes first goes before.
        limits: ``max_schema_bytes`` of each, ``max_reference_bytes`` of all.

    Returns:
        What ``SchemaOptions`` takes as ``references``. Cost: every file is read once.

    Raises:
        InputMissingError: A file or folder cannot be read.
        LimitError: Too many bytes, or files.
        EncodingError: A file is not UTF-8.
        SchemaError: What is given by URI is no JSON; such files of folders are left out.
    """
    limits = limits or SchemaLimits()
    parts = [refs] if isinstance(refs, Mapping | Path) else refs
    found: list[Reference] = []
    left = limits.max_reference_bytes
    for one in (one for part in parts for one in _of_part(part, limits)):
        left -= len(one.text)
        if left < 0:
            raise _too_much(limits.max_reference_bytes)
        found.append(one)
    return tuple(found)


def _of_part(part: Any, limits: SchemaLimits) -> Iterator[Reference]:
    if isinstance(part, Mapping):
        for uri, given in part.items():
            yield _by_uri(str(uri), given, limits)
    elif isinstance(part, Path):
        yield from _in_folder(part, limits)
    else:
        raise UsageError(
            f"`refs` has {type(part).__name__}, expected documents by URI, or the path of a folder",
            field="refs",
        )


def _by_uri(uri: str, given: Any, limits: SchemaLimits) -> Reference:
    """Return a document that was given for a URI."""
    uri, file = without_fragment(uri), ""
    if isinstance(given, Path):
        file, given = str(given), _read(given, limits.max_schema_bytes)
    elif isinstance(given, dict | bool):
        given = json.dumps(given)
    called = file or uri
    try:
        value, text = read_json(given, limits)
    except CdecError as error:
        error.message = f"{called}: {error.message}"
        error.args = (error.message,)
        error.details.setdefault("path", called)
        raise
    return Reference(uri, file, "", _id_of(value), text)


def _in_folder(folder: Path, limits: SchemaLimits) -> Iterator[Reference]:
    """Yield the documents of a folder and those within it, by name; links are not followed."""
    if not folder.is_dir():
        raise InputMissingError(
            f"{folder} is no folder", hint="give a folder of JSON Schemas", path=str(folder)
        )
    seen = 0
    for within, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(name for name in names if name.endswith(".json")):
            path = Path(within, name)
            if path.is_symlink() or not path.is_file():
                continue
            seen += 1
            if seen > _MOST_FILES:
                raise LimitError(
                    f"{folder} has more than {_MOST_FILES:,} files that end in .json",
                    hint="give a smaller folder, or the documents one by one",
                    limit="files to refer to",
                    path=str(folder),
                )
            yield from _of_file(path, path.relative_to(folder).as_posix(), limits)


def _of_file(path: Path, tail: str, limits: SchemaLimits) -> Iterator[Reference]:
    """Yield the document of a folder's file; nothing of a file that holds no schema."""
    data = _read(path, limits.max_schema_bytes)
    try:
        value, text = read_json(data, limits)
    except CdecError:
        return
    if isinstance(value, dict | bool):
        yield Reference("", str(path), tail, _id_of(value), text)


def _id_of(value: Any) -> str:
    """Return the absolute URI that a document says it has."""
    if isinstance(value, dict):
        for keyword in ("$id", "id"):
            own = value.get(keyword)
            if isinstance(own, str) and ":" in own:
                return without_fragment(own)
    return ""


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputMissingError(
            f"{path} cannot be read: {error.strerror}", hint="check the name", path=str(path)
        ) from error
    if len(data) > most:
        raise LimitError(
            f"{path} has more than {most:,} bytes",
            hint="raise `max_schema_bytes`, or leave it out",
            limit="max_schema_bytes",
            path=str(path),
        )
    return data


def _too_much(most: int) -> LimitError:
    return LimitError(
        f"the documents to refer to have more than {most:,} bytes",
        hint="raise `max_reference_bytes`, or give fewer of them",
        limit="max_reference_bytes",
    )

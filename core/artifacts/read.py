"""Reading an artifact file: map it, check it in a fixed order, give its arrays.

The order: size, frame (``artifact_frame``), compression, version, kind, extension types, schema,
digest (``artifact_digest``), Arrow's own validation, ranges of every index (one file a kind).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.core.artifacts.contents import COPIED_BYTES, ArtifactLimits, contents_of
from cdec.core.artifacts.digest import DIGEST_KEY, VerifiedFiles, verify_digest
from cdec.core.artifacts.frame import Frame, read_frame
from cdec.core.artifacts.write import FORMAT_VERSION
from cdec.core.errors import (
    ArtifactFormatError,
    ArtifactInvalidError,
    ArtifactSchemaError,
    ArtifactVersionError,
    LimitError,
)
from cdec.core.files.fetched import local_copy
from cdec.core.files.remote import FilePath, Place

_AGAIN = "compile the artifact again"
UNNAMED = Path("artifact")
"""Stands for the path of an artifact that is no file."""


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """A verified artifact; the arrays are read-only, views of the mapped file if it is one.

    ``path`` is what it was opened by, a path or a URL; ``local`` is the file on this machine.
    """

    kind: str
    metadata: dict[str, str]
    arrays: dict[str, NDArray[Any]]
    path: Place
    local: Path = UNNAMED


@dataclass(frozen=True, slots=True)
class ArtifactKind:
    """A kind of artifact.

    Attributes:
        columns: Column name -> element type, as numpy names it.
        check_shape: Checks lengths and options, each time that a file opens, so that not even a
            file that was called good by mistake leads outside of an array; raises
            ``ArtifactInvalidError``.
        check: Checks the ranges of every index, once for a file; raises ``ArtifactInvalidError``.
        checks_version: Changes when ``check`` does, so that remembered files are checked again.
    """

    columns: Mapping[str, str]
    check_shape: Callable[[Mapping[str, NDArray[Any]], Mapping[str, str]], None]
    check: Callable[[Mapping[str, NDArray[Any]], Mapping[str, str]], None]
    checks_version: int

    def check_all(self, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
        """Check lengths, options and the ranges of every index.

        Raises:
            ArtifactInvalidError: An invariant does not hold.
        """
        self.check_shape(arrays, metadata)
        self.check(arrays, metadata)


def checks_of(name: str, kind: ArtifactKind) -> str:
    """Return what the memory of verified files calls the checks of a kind, by its name."""
    return f"{name}-{FORMAT_VERSION}.{kind.checks_version}"


def map_verified(
    path: Path,
    kinds: Mapping[str, ArtifactKind],
    limits: ArtifactLimits,
    *,
    copy: bool = False,
    name: Place | None = None,
) -> ArtifactFile:
    """Map a file and verify it, or remember that it was verified (see ``VerifiedFiles``).

    Frame, schema, Arrow layout, lengths and options are checked every time; digest and ranges once
    for a file.

    Args:
        path: The file.
        kinds: The kinds of artifact that may be read.
        limits: What reading may cost.
        copy: Read it into memory whatever its size.
        name: What it was opened by, for messages, if not the path.

    Returns:
        Kind, schema metadata and arrays.

    Raises:
        As ``cdec.core.artifacts.kinds.open_artifact``, but for the mismatch.
    """
    name = path if name is None else name
    data, status = contents_of(path, limits, sys.maxsize if copy else COPIED_BYTES)
    frame = read_frame(memoryview(data), str(name))
    kind = _check_frame(memoryview(data), frame, kinds, str(name))
    checks = checks_of(frame.metadata["cdec.kind"], kind)
    verified, digest = VerifiedFiles(checks), frame.metadata.get(DIGEST_KEY, "")
    if verified.knows(str(path), status, digest):
        reader = _open_arrow(data, kind, str(name))
        arrays = _arrays(reader, kind, str(name), validate=False)
        kind.check_shape(arrays, frame.metadata)
        return ArtifactFile(frame.metadata["cdec.kind"], frame.metadata, arrays, name, path)
    file = replace(_verified(data, frame, kind, name), local=path)
    verified.remember(str(path), status, digest)
    return file


def peek_metadata(path: FilePath) -> dict[str, str]:
    """Return what a file says of itself in its schema metadata; nothing of it is verified.

    Args:
        path: The file; that of a URL is fetched, as ``read_artifact`` does.

    Returns:
        The metadata; no ``cdec.kind`` in an Arrow file of another program. Cost: two small reads,
        whatever the size of the file.

    Raises:
        InputMissingError: It cannot be read.
        ArtifactFormatError, ArtifactChecksumError, LimitError: It is damaged or no Arrow file.
    """
    data, _ = contents_of(local_copy(path), ArtifactLimits(), 0)
    return read_frame(memoryview(data), str(path)).metadata


def verify_bytes(data: bytes, kinds: Mapping[str, ArtifactKind]) -> ArtifactFile:
    """Verify an artifact held in memory: all checks of ``map_verified``, nothing remembered."""
    frame = read_frame(memoryview(data), str(UNNAMED))
    kind = _check_frame(memoryview(data), frame, kinds, str(UNNAMED))
    return _verified(data, frame, kind, UNNAMED)


def _verified(data: Any, frame: Frame, kind: ArtifactKind, path: Place) -> ArtifactFile:
    reader = _open_arrow(data, kind, str(path))
    verify_digest(memoryview(data), frame, str(path))
    arrays = _arrays(reader, kind, str(path), validate=True)
    kind.check_all(arrays, frame.metadata)
    return ArtifactFile(frame.metadata["cdec.kind"], frame.metadata, arrays, path)


def _check_frame(
    data: memoryview, frame: Frame, kinds: Mapping[str, ArtifactKind], path: str
) -> ArtifactKind:
    """Check compression, version, extension types and batches, in this order."""
    if frame.is_compressed:
        if DIGEST_KEY in frame.metadata:
            # A damaged header may look compressed; then it is the damage that should be told.
            verify_digest(data, frame, path)
        raise LimitError(
            f"{path} has compressed buffers; artifacts are mapped and never decompressed",
            hint=_AGAIN,
            path=path,
            limit="uncompressed buffers only",
        )
    if "cdec.kind" not in frame.metadata:
        raise ArtifactFormatError(
            f"{path} is an Arrow file, but no cdec artifact", hint=_AGAIN, path=path
        )
    written, version = frame.metadata.get("cdec.version", "?"), frame.metadata.get("cdec.format")
    if version != str(FORMAT_VERSION):
        raise ArtifactVersionError(
            f"{path} has format version {version}, written by cdec {written}; this cdec reads "
            f"version {FORMAT_VERSION}",
            hint=f"upgrade cdec to {written} or later, or compile the artifact again",
            path=path,
        )
    name = frame.metadata["cdec.kind"]
    if name not in kinds:
        raise ArtifactVersionError(
            f"{path} is an artifact of kind {name!r}; this cdec reads {', '.join(kinds)}",
            hint=f"upgrade cdec to {written} or later",
            path=path,
        )
    if frame.extension is not None:
        raise _schema_error(path, f"column {frame.extension} has an extension type", "plain types")
    if frame.batches != 1 or frame.dictionaries:
        found = f"{frame.batches} batches and {frame.dictionaries} dictionaries"
        raise _schema_error(path, found, "one batch and no dictionary")
    return kinds[name]


def _schema_error(path: str, found: str, expected: str, **details: object) -> ArtifactSchemaError:
    return ArtifactSchemaError(
        f"{path}: {found}; expected {expected}", hint=_AGAIN, path=path, **details
    )


def _open_arrow(data: Any, kind: ArtifactKind, path: str) -> Any:
    """Open the file with pyarrow and compare its schema with the kind's."""
    try:
        reader = pa.ipc.open_file(pa.py_buffer(data))
        types = {field.name: field.type for field in reader.schema}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactFormatError(
            f"{path}: damaged Arrow file: {error}", hint=_AGAIN, path=path
        ) from None
    for name in kind.columns:
        if name not in types:
            raise _schema_error(path, f"no column {name}", "all columns", column=name)
    for name in reader.schema.names:
        if name not in kind.columns or reader.schema.names.count(name) > 1:
            raise _schema_error(path, f"a column {name!r}", "no such column", column=name)
        expected = pa.type_for_alias(kind.columns[name])
        found = types[name]
        if not pa.types.is_large_list(found) or found.value_type != expected:
            shape = f"large_list<{expected}>"
            raise _schema_error(path, f"column {name} is {found}", shape, column=name)
    return reader


def _arrays(
    reader: Any, kind: ArtifactKind, path: str, *, validate: bool
) -> dict[str, NDArray[Any]]:
    """Return the columns as read-only numpy views; the Arrow layout is checked in any case."""
    try:
        batch = reader.get_batch(0)
        batch.validate(full=validate)
        if batch.num_rows != 1:
            raise _schema_error(path, f"{batch.num_rows} rows", "one row")
        return {name: _view(batch.column(name), name) for name in kind.columns}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactInvalidError(
            f"{path}: damaged Arrow batch: {error}", hint=_AGAIN, path=path
        ) from None


def _view(column: Any, name: str) -> NDArray[Any]:
    """Return the one list of a column as a numpy array, without a copy."""
    # subtle: to_numpy of pyarrow imports pandas where there is one, which takes half a second.
    offsets = np.from_dlpack(column.offsets)
    values = column.values
    if column.null_count or values.null_count or offsets[0] != 0 or offsets[1] != len(values):
        raise ValueError(f"column {name} is not one whole list")
    array: NDArray[Any] = np.from_dlpack(values).view()
    array.flags.writeable = False
    return array

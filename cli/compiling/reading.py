"""The bytes of a source: a file, perhaps compressed, or stdin."""

from __future__ import annotations

from pathlib import Path

from cdec.core.errors import LimitError


def read_whole(source: str | Path, most: int, limit: str) -> bytes:
    """Read a source to its end.

    Args:
        source: A path, or ``-`` for stdin.
        most: Most bytes, after decompression.
        limit: Name of the parameter that says so.

    Raises:
        LimitError: It is longer.
        InputMissingError: There is no such file.
        EncodingError: UTF-16 or UTF-32.
    """
    from cdec.data.input.source import (
        ENTITY_LIMITS,
        SourceStats,
        open_source,
        read_chunks,
        source_name,
    )

    data = bytearray()
    name = source_name(source)
    with open_source(source) as stream:
        for chunk in read_chunks(stream, name, limits=ENTITY_LIMITS, stats=SourceStats()):
            data += chunk
            if len(data) > most:
                raise LimitError(
                    f"{name} has more than {most} bytes",
                    hint=f"raise `{limit}`, or make it smaller",
                    limit=limit,
                )
    return bytes(data)


def plain_name(source: str) -> str:
    """Return a file's name without the ending of a compression."""
    from cdec.data.input.decompress import SUFFIXES

    return next((source.removesuffix(end) for end in SUFFIXES if source.endswith(end)), source)


def stem_of(source: str) -> str:
    """Return a file's name without its last ending; empty for stdin."""
    return "" if source == "-" else Path(plain_name(source)).stem

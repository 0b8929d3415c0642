"""Reading the xz-compressed files of the shared data."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of an xz-compressed JSONL file."""
    with lzma.open(path) as lines:
        for line in lines:
            yield orjson.loads(line)


def read_lines(path: Path) -> list[str]:
    """Return the lines of an xz-compressed text file."""
    return lzma.decompress(path.read_bytes()).decode().splitlines()

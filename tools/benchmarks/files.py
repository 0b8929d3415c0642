"""Reading the xz-compressed files of the shared data."""

from __future__ import annotations

import lzma
from pathlib import Path

from cdec.integrations.findings.laboratory import read_jsonl as read_jsonl


def read_lines(path: Path) -> list[str]:
    """Return the lines of an xz-compressed text file."""
    return lzma.decompress(path.read_bytes()).decode().splitlines()

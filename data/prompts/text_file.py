"""Reads a file whole as one text: a prompt, or a template of prompts."""

from __future__ import annotations

from pathlib import Path

from cdec.core.errors import LimitError
from cdec.data.input.lines import LineBlock, decode_line, numbered_lines
from cdec.data.input.source import bom_length, open_source, source_name


def read_text_file(path: str | Path, *, max_bytes: int, what: str, hint: str) -> str:
    """Read a file as one text; one newline at its very end, which editors add, is not part of it.

    Args:
        path: The file; ``-`` is stdin.
        max_bytes: Longest file.
        what: What it is, for the message of a file that is too long.
        hint: What to do about one.

    Raises:
        InputMissingError: It cannot be read.
        EncodingError: It is not UTF-8.
        LimitError: It is longer than ``max_bytes``.
    """
    name = source_name(path)
    data = bytearray()
    with open_source(path) as stream:
        # subtle: a pipe gives what it has, not what was asked for.
        while len(data) <= max_bytes and (part := stream.read(max_bytes + 1 - len(data))):
            data += part
    if len(data) > max_bytes:
        raise LimitError(
            f"{name} is longer than {max_bytes} bytes, too long for a {what}",
            hint=hint,
            limit=f"{what} bytes {max_bytes}",
        )
    start = bom_length(bytes(data[:3]))
    lines = [
        decode_line(line, name, number, offset)
        for number, offset, line in numbered_lines(LineBlock(1, start, bytes(data[start:])))
    ]
    return "\n".join(lines)

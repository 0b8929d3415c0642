"""What stands on a terminal after what was written to it."""

from __future__ import annotations

import re

_PIECES = re.compile(r"\x1b\[K|\r\n|\r|\n|[^\x1b\r\n]+|.", re.DOTALL)


def screen(written: str) -> list[str]:
    """Return the lines that are left; only what progress uses is known.

    Args:
        written: Text with carriage returns, newlines and erasures of the rest of a line.
    """
    lines, column = [""], 0
    for piece in _PIECES.findall(written):
        if piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif piece == "\r":
            column = 0
        elif piece in ("\n", "\r\n"):
            lines.append("")
            column = 0
        else:
            assert piece != "\x1b", "a control code that progress does not use"
            line = lines[-1]
            lines[-1] = line[:column] + piece + line[column + len(piece) :]
            column += len(piece)
    return lines


def frames(written: str) -> list[str]:
    """Return every line that was drawn or printed, one after the other."""
    return [part for part in re.split(r"\x1b\[K|\r?\n|\r", written) if part]

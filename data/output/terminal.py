"""Text and JSON that are shown: nothing in them moves the cursor, reorders or hides."""

from __future__ import annotations

import unicodedata

HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Control, format (bidirectional marks among them), surrogate, private use, line and paragraph
separators: what could move the cursor, reorder or hide text."""


def escape_json(text: str) -> str:
    r"""Return JSON that means the same, with such characters of its strings as ``\\uNNNN``.

    Args:
        text: JSON; its line ends stay.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in HIDDEN_CATEGORIES:
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def escape(text: str) -> str:
    r"""Return ``text`` with every control and format character as ``\xNN`` or ``\uNNNN``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN_CATEGORIES:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

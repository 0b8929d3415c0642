"""White space and escapes that the texts of a schema may have, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["described_escapes", "described_whitespace", "escapes_of", "whitespace_of"]

_WHITESPACE = {
    "usual": "usual: none, one blank behind : and ,, or lines indented by 2 or 4 blanks or a tab, "
    "one style a text",
    "compact": "compact: none",
    "pretty": "pretty: lines indented by 2 blanks",
}


def whitespace_of(options: Mapping[str, Any]) -> str:
    """Return the white space of the texts of an artifact, given its options."""
    return str(options.get("whitespace", "any"))


def escapes_of(options: Mapping[str, Any]) -> str:
    """Return the escapes of the texts of an artifact; all where it does not know the option."""
    return str(options.get("escapes", "any"))


def described_whitespace(options: Mapping[str, Any]) -> str:
    """Return the white space of texts in words."""
    most = options.get("max_whitespace")
    bound = f"at most {most:,} in a row" if isinstance(most, int) else "?"
    return _WHITESPACE.get(whitespace_of(options), f"any: {bound}")


def described_escapes(options: Mapping[str, Any]) -> str:
    """Return the escapes of texts in words."""
    if escapes_of(options) == "usual":
        return 'usual: of printable ASCII only " and \\ are escaped'
    return "any"

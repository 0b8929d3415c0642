"""Regular expressions as JSON Schema writes them (ECMA-262) in the syntax of Python's ``re``."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

from cdec.compilers.grammars.automata.charsets import Ranges, complement, normalised
from cdec.core.grammars.errors import RegexUnsupportedError

_TOKEN = re.compile(
    r"\\u\{(?P<braced>[0-9A-Fa-f]+)\}"
    r"|\\u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2})"
    r"|\\c(?P<control>[A-Za-z])"
    r"|\\(?P<sign>[pP])(?:\{(?P<property>[^{}]*)\}|(?P<letter>[A-Z]))"
    r"|\(\?<(?P<name>[A-Za-z_$][\w$]*)>"
    r"|\\k<(?P<back>[A-Za-z_$][\w$]*)>"
    r"|\\.|\[|\]|.",
    re.S,
)
_LONG_NAMES = {
    "letter": "L", "uppercase_letter": "Lu", "lowercase_letter": "Ll", "titlecase_letter": "Lt",
    "cased_letter": "LC", "modifier_letter": "Lm", "other_letter": "Lo", "mark": "M",
    "nonspacing_mark": "Mn", "spacing_mark": "Mc", "enclosing_mark": "Me", "number": "N",
    "decimal_number": "Nd", "digit": "Nd", "letter_number": "Nl", "other_number": "No",
    "punctuation": "P", "connector_punctuation": "Pc", "dash_punctuation": "Pd",
    "open_punctuation": "Ps", "close_punctuation": "Pe", "initial_punctuation": "Pi",
    "final_punctuation": "Pf", "other_punctuation": "Po", "symbol": "S", "math_symbol": "Sm",
    "currency_symbol": "Sc", "modifier_symbol": "Sk", "other_symbol": "So", "separator": "Z",
    "space_separator": "Zs", "line_separator": "Zl", "paragraph_separator": "Zp", "other": "C",
    "control": "Cc", "format": "Cf", "surrogate": "Cs", "private_use": "Co", "unassigned": "Cn",
}  # fmt: skip
_NAMED: dict[str, tuple[str, ...]] = {"LC": ("Lu", "Ll", "Lt"), "L&": ("Lu", "Ll", "Lt")}


def python_pattern(pattern: str) -> str:
    """Return ``pattern`` as ``re`` reads it.

    What both read alike stays as it is; ``\\cX``, ``\\u{...}``, surrogate pairs, general categories
    (``\\p{Lu}``) and named groups are rewritten.

    Raises:
        RegexUnsupportedError: A property that is no general category.
    """
    if "\\" not in pattern and "(?<" not in pattern:
        return pattern
    out: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text in ("[", "]"):
            in_class = text == "[" or (in_class and out[-1] in ("[", "[^"))
        if token["braced"]:
            out.append(_escaped(min(int(token["braced"], 16), sys.maxunicode)))
        elif token["high"]:
            high, low = int(token["high"], 16), int(token["low"], 16)
            out.append(_escaped(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)))
        elif token["control"]:
            out.append(_escaped(ord(token["control"]) & 31))
        elif token["sign"]:
            name = token["property"] if token["letter"] is None else token["letter"]
            members = _members(_category(name, pattern), token["sign"] == "P")
            out.append(members if in_class else f"[{members}]")
        elif token["name"] and not in_class:
            out.append(f"(?P<{token['name'].replace('$', '_')}>")
        elif token["back"] and not in_class:
            out.append(f"(?P={token['back'].replace('$', '_')})")
        else:
            out.append(text)
    return "".join(out)


def _members(ranges: Ranges, negated: bool) -> str:
    kept = complement(ranges) if negated else ranges
    return "".join(f"{_escaped(low)}-{_escaped(high)}" for low, high in kept)


def _category(name: str, pattern: str) -> Ranges:
    """Return the characters of a general category, by its short or its long name."""
    plain = name.split("=", 1)[1] if name.split("=")[0] in ("gc", "General_Category") else name
    if plain in ("Any", "ASCII"):
        return ((0, sys.maxunicode if plain == "Any" else 127),)
    short = _LONG_NAMES.get(plain.lower(), plain)
    found = [c for c in _categories() if c in _NAMED.get(short, (short,)) or c[0] == short]
    if not found:
        raise RegexUnsupportedError(
            f"pattern {pattern!r}: property {name!r} is no general category of Unicode",
            hint="write the characters out as a class, or use a general category as \\p{L} or "
            "\\p{Lu}",
            feature="property",
        )
    return normalised(span for c in found for span in _categories()[c])


@cache
def _categories() -> dict[str, Ranges]:
    found: dict[str, list[tuple[int, int]]] = {}
    first, last = 0, unicodedata.category("\0")
    for code in range(1, sys.maxunicode + 1):
        kind = unicodedata.category(chr(code))
        if kind != last:
            found.setdefault(last, []).append((first, code - 1))
            first, last = code, kind
    found.setdefault(last, []).append((first, sys.maxunicode))
    return {kind: tuple(spans) for kind, spans in found.items()}


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"

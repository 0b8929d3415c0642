"""Regular expressions of the decimal numbers, days and times on one side of a bound."""

from __future__ import annotations

import re
from fractions import Fraction

_MORE = r"(?:\.[0-9]+)?"


def one_of(options: list[str]) -> str:
    """Return what matches one of some expressions; of none, what matches nothing."""
    return f"(?:{'|'.join(options)})" if options else r"[^\s\S]"


def whole(*options: str) -> str:
    """Return the pattern of a schema that matches one of some expressions as a whole."""
    return f"^{one_of(list(options))}$"


def at_least(bound: Fraction, *, excluded: bool = False, around: tuple[str, str] = ("", "")) -> str:
    """Return the decimal numbers from a bound on, without exponents and leading zeros.

    Args:
        bound: With finitely many decimal digits.
        excluded: Without the bound itself.
        around: What stands between sign and digits, and behind these.
    """
    before, behind = around
    if bound > 0 or (bound == 0 and excluded):
        return one_of([f"{before}{_larger(bound, excluded)}{behind}"])
    smaller = _smaller(-bound, excluded)
    return one_of([f"{before}{_any_number()}{behind}", f"-{before}{smaller}{behind}"])


def at_most(bound: Fraction, *, excluded: bool = False, around: tuple[str, str] = ("", "")) -> str:
    """Return the decimal numbers up to a bound; see ``at_least``."""
    before, behind = around
    if bound < 0 or (bound == 0 and excluded):
        return one_of([f"-{before}{_larger(-bound, excluded)}{behind}"])
    smaller = _smaller(bound, excluded)
    return one_of([f"-{before}{_any_number()}{behind}", f"{before}{smaller}{behind}"])


def from_text(bound: str, *, excluded: bool = False) -> str:
    """Return the texts of a bound's form that do not come before it: ``2026-11-24``."""
    return one_of([*_differing(bound, 1), *([] if excluded else [bound])])


def up_to_text(bound: str, *, excluded: bool = False) -> str:
    """Return the texts of a bound's form that do not come behind it."""
    return one_of([*_differing(bound, -1), *([] if excluded else [bound])])


def _any_number() -> str:
    return f"(?:0|[1-9][0-9]*){_MORE}"


def _digits(bound: Fraction) -> tuple[str, str]:
    """Return the digits before and behind the point, of a number that is not negative."""
    before, rest = divmod(bound, 1)
    behind = ""
    while rest:
        digit, rest = divmod(rest * 10, 1)
        behind += str(digit)
    return str(before), behind


def _beside(digit: str, side: int, least: str = "0") -> str:
    """Return the digits above (1) or below (-1) one, from ``least`` on; "" for none."""
    low, high = (chr(ord(digit) + 1), "9") if side > 0 else (least, chr(ord(digit) - 1))
    return f"[{low}-{high}]" if low <= high else ""


def _larger(bound: Fraction, excluded: bool) -> str:
    before, behind = _digits(bound)
    n = len(before)
    options = [f"[1-9][0-9]{{{n},}}{_MORE}"]
    for i, digit in enumerate(before):
        if digit < "9":
            options.append(f"{before[:i]}{_beside(digit, 1)}[0-9]{{{n - 1 - i}}}{_MORE}")
    for i, digit in enumerate(behind):
        if digit < "9":
            options.append(rf"{before}\.{behind[:i]}{_beside(digit, 1)}[0-9]*")
    if excluded:
        options.append(rf"{before}\.{behind}[0-9]*[1-9][0-9]*")
    else:
        options.append(rf"{before}\.{behind}[0-9]*" if behind else f"{before}{_MORE}")
    return one_of(options)


def _smaller(bound: Fraction, excluded: bool) -> str:
    before, behind = _digits(bound)
    n = len(before)
    options = [f"(?:0|[1-9][0-9]{{0,{n - 2}}}){_MORE}"] if n > 1 else []
    for i, digit in enumerate(before):
        below = _beside(digit, -1, "1" if i == 0 and n > 1 else "0")
        if below:
            options.append(f"{before[:i]}{below}[0-9]{{{n - 1 - i}}}{_MORE}")
    for i, digit in enumerate(behind):
        options.append(rf"{before}\.{behind[:i]}" if i else before)
        if digit > "0":
            options.append(rf"{before}\.{behind[:i]}{_beside(digit, -1)}[0-9]*")
    if not excluded:
        options.append(rf"{before}\.{behind}0*" if behind else rf"{before}(?:\.0+)?")
    return one_of(options)


def _differing(bound: str, side: int) -> list[str]:
    """Return the texts of a bound's form that first differ from it by a larger or smaller digit."""
    found = []
    for i, digit in enumerate(bound):
        beside = _beside(digit, side) if digit.isdigit() else ""
        if beside:
            rest = re.sub("[0-9]", "[0-9]", bound[i + 1 :])
            found.append(f"{bound[:i]}{beside}{rest}")
    return found

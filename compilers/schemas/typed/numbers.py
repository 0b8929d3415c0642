"""Numbers of Python types: ranges as patterns of their digits, doubles as readers round them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from cdec.core.schemas.own_keywords import NUMBERS

_MORE = r"(?:\.[0-9]+)?"
_EXACT_DIGITS = 15
"""Digits that a decimal number keeps when a double holds it in between."""
_STEPS = 4_000_000
"""Multiples of a step that no double is which pydantic takes for multiples: it allows the step's
billionth between a double and the multiple that it stands for."""
_MOST_DIGITS = 30
"""Digits before the point of a decimal that has no bound, and behind it."""
_SIDES = (
    ("gt", "exclusiveMinimum", "minimum", math.inf),
    ("lt", "exclusiveMaximum", "maximum", -math.inf),
)


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


def _written(bound: Fraction) -> tuple[str, str]:
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
    before, behind = _written(bound)
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
    before, behind = _written(bound)
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


def double(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the numbers that are read as doubles within bounds.

    An excluded bound becomes the double beside it: what lies nearer is read as the bound.

    Args:
        bounds: ``gt``, ``ge``, ``lt``, ``le``, ``multiple_of``; None binds nothing.
    """
    return {"type": "number", NUMBERS: "doubles"} | double_bounds(bounds)


def double_bounds(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of bounds as doubles hold them; see ``double``."""
    low, high = bounds.get("ge"), bounds.get("le")
    made: dict[str, Any] = {}
    for name, excluded, included, beside in _SIDES:
        bound = bounds.get(name)
        if bound is None:
            continue
        if bound == 0:
            made[excluded] = 0
        elif included == "minimum":
            low = max([math.nextafter(float(bound), beside), *([] if low is None else [low])])
        else:
            high = min([math.nextafter(float(bound), beside), *([] if high is None else [high])])
    step = bounds.get("multiple_of")
    if step is not None:
        made["multipleOf"] = _plain(step)
        most = _most_multiple(step)
        low = max(-most, -most if low is None else low)
        high = min(most, most if high is None else high)
    made |= {} if low is None else {"minimum": _plain(low)}
    return made | ({} if high is None else {"maximum": _plain(high)})


def decimal(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of decimals: strings of their digits, or numbers that doubles keep.

    Args:
        bounds: As for ``double``, with ``max_digits`` and ``decimal_places``.
    """
    digits, places = bounds.get("max_digits"), bounds.get("decimal_places")
    step = bounds.get("multiple_of")
    text = _decimal_text(bounds)
    plain = {name: bound for name, bound in bounds.items() if name not in ("multiple_of",)}
    limited = double_bounds(plain)
    if step is not None:
        limited |= {"multipleOf": _plain(step)}
        places = _places(step) if places is None else min(places, _places(step))
    numbers: dict[str, Any] = {"type": "number", NUMBERS: "doubles"} | limited
    if digits is not None and places is not None and places >= digits:
        # No digit is left before the point, and 0 counts as one.
        numbers["not"] = {"const": 0}
    if digits is not None or places is not None:
        most = min(_EXACT_DIGITS, _EXACT_DIGITS if digits is None else digits)
        kinds = range(most + 1) if places is None else [min(places, most)]
        numbers["anyOf"] = [_digits(most, behind) for behind in kinds]
    return {"anyOf": [numbers, *([] if text is None else [text])]}


def integer_text(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of strings that spell an integer within bounds, as keys of objects do.

    Args:
        keywords: ``minimum`` and its like, as the schema of the integer has them.
    """
    patterns = [whole("0|-?[1-9][0-9]*"), *_bound_patterns(_named(keywords))]
    return {"type": "string", "allOf": [{"pattern": pattern} for pattern in patterns]}


def double_text(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of strings that spell a double within bounds, without an exponent."""
    form = whole(r"-?(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,30})?")
    patterns = [form, *_bound_patterns(_named(keywords))]
    return {"type": "string", "allOf": [{"pattern": pattern} for pattern in patterns]}


def _named(keywords: Mapping[str, Any]) -> dict[str, Any]:
    names = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
    return {names[name]: bound for name, bound in keywords.items() if name in names}


def _decimal_text(bounds: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the strings of decimals; None where a step has no form that digits alone show."""
    digits, places = bounds.get("max_digits"), bounds.get("decimal_places")
    step = bounds.get("multiple_of")
    if step is not None:
        if exact(step) != Fraction(1, 10 ** _places(step)):
            return None
        places = _places(step) if places is None else min(places, _places(step))
    limits = _bound_patterns(bounds)
    if digits is not None and places is not None and places >= digits:
        limits.append("[1-9]")
    exponent = "(?:[eE][+-]?[0-9]{1,2})?" if digits is places is None and not limits else ""
    form = f"-?{_form(digits, places)}{exponent}"
    return {"type": "string", "allOf": [{"pattern": p} for p in (whole(form), *limits)]}


def _form(digits: int | None, places: int | None) -> str:
    """Return the numbers of so many digits, of which so many stand behind the point."""
    if digits is None:
        return _fixed(_MOST_DIGITS, _MOST_DIGITS if places is None else places)
    if places is not None:
        return _fixed(max(digits - places, 0), min(places, digits))
    kinds = [_fixed(digits - behind, behind) for behind in range(digits + 1)]
    return f"(?:{'|'.join(kinds)})"


def _fixed(before: int, behind: int) -> str:
    front = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return front + (rf"(?:\.[0-9]{{1,{behind}}})?" if behind else "")


def _bound_patterns(bounds: Mapping[str, Any]) -> list[str]:
    made = []
    for name, excluded, of in (
        *(("gt", True, at_least), ("ge", False, at_least)),
        *(("lt", True, at_most), ("le", False, at_most)),
    ):
        if bounds.get(name) is not None:
            made.append(whole(of(exact(bounds[name]), excluded=excluded)))
    return made


def _digits(digits: int, behind: int) -> dict[str, Any]:
    """Return the keywords of numbers of so many digits, ``behind`` of them behind the point."""
    most = 10 ** (digits - behind)
    return {
        "multipleOf": _plain(float(Fraction(1, 10**behind))),
        "exclusiveMinimum": -most,
        "exclusiveMaximum": most,
    }


def exact(value: Any) -> Fraction:
    """Return a number as it is written: of a float the shortest text that reads as it."""
    return Fraction(str(value))


def _places(step: Any) -> int:
    """Return how many digits a step has behind the point."""
    places, rest = 0, exact(step)
    while rest.denominator > 1:
        places, rest = places + 1, rest * 10
    return places


def _most_multiple(step: Any) -> float:
    """Return up to where multiples of a step are read as such, or as doubles that pass for them."""
    held = Fraction(float(step))
    if held != exact(step):
        return float(step) * _STEPS
    # All multiples of its lowest bit are doubles so far.
    return float(Fraction(2**53 * (held.numerator & -held.numerator), held.denominator))


def _plain(value: Any) -> int | float:
    """Return a number as JSON writes it: an int where it is one."""
    value = float(value) if not isinstance(value, int) else value
    return int(value) if value == int(value) and abs(value) < 2**63 else value

"""JSON texts as values whose numbers are exact."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGIT = re.compile("[1-9]")
LONG = 1000
"""Digits from which an integer is read as a decimal: Python's own reading is quadratic."""
_MOST_EXPONENT = 10**17


def read_json(text: str, *, finite: bool = False) -> Any:
    """Return the value of a JSON text; of names that stand twice in an object, the last one's.

    Args:
        text: Of any length.
        finite: Refuse numbers that doubles cannot hold.

    Returns:
        Numbers are int or Decimal; an exponent too large for Decimal is cut to one that is not.

    Raises:
        ValueError: It is no JSON, a string in it has half a surrogate pair, or a number is refused.
        RecursionError: Too deep.
    """
    return json.loads(
        _without_surrogates(text),
        parse_int=_finite(_integer) if finite else _integer,
        parse_float=_finite(_decimal) if finite else _decimal,
        parse_constant=_constant,
    )


def is_finite(text: str) -> bool:
    """Say whether readers of doubles take a number neither for infinity nor wrongly for 0."""
    read = float(text)
    return not math.isinf(read) and (read != 0 or not _DIGIT.search(re.split("[eE]", text)[0]))


def is_multiple(value: int | Decimal, of: int | Decimal) -> bool:
    """Say whether one number is a whole multiple of another, exactly, whatever their exponents."""
    own, power = _scaled(value)
    divisor, divisor_power = _scaled(of)
    if own == 0 or divisor == 0:
        return own == 0
    shift = power - divisor_power
    # subtle: neither mantissa ends in zero, so where the divisor has the larger power of ten, its
    # multiples do not end where the value does.
    return shift >= 0 and own * pow(10, shift, divisor) % divisor == 0


def _scaled(value: int | Decimal) -> tuple[int, int]:
    """Return mantissa and power of ten; a mantissa other than 0 does not end in zero."""
    sign, digits, power = Decimal(value).as_tuple()
    assert isinstance(power, int)
    ending = next((i for i, digit in enumerate(reversed(digits)) if digit), len(digits))
    kept = digits[: len(digits) - ending] or (0,)
    # subtle: `int` of a text refuses more than 4,300 digits.
    return int(Decimal((sign, kept, 0))), power + ending


def _finite(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def finite(text: str) -> Any:
        if not is_finite(text):
            raise ValueError(f"{text[:40]} is no finite double")
        return read(text)

    return finite


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < LONG else Decimal(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, exponent = re.split("[eE]", text)
        sign, digits, power = Decimal(mantissa).as_tuple()
        assert isinstance(power, int)
        # subtle: not by multiplying, which would round to the context's precision.
        power += max(-_MOST_EXPONENT, min(_MOST_EXPONENT, int(exponent[:20])))
        return Decimal((sign, digits, power))


def _constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _without_surrogates(text: str) -> str:
    r"""Return a text none of whose strings has half a surrogate pair.

    Raises:
        ValueError: One has: ``"\ud800"``.
    """
    if "\\u" in text:
        # subtle: pairs that are escaped are one character once read.
        read = json.loads(text)
        pending = [read]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                pending += value.keys()
                pending += value.values()
            elif isinstance(value, list):
                pending += value
            elif isinstance(value, str) and _SURROGATE.search(value):
                raise ValueError("half a surrogate pair")
    return text

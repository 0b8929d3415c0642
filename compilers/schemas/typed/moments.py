"""Schemas of days, times and durations within bounds, as texts that come in their order.

What a bound cuts in the middle is left out where no order of texts tells it: times of a day of a
bound, durations of several units.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from cdec.compilers.regular.formats import DATE
from cdec.compilers.schemas.typed.numbers import at_least, at_most, from_text, up_to_text, whole
from cdec.compilers.schemas.typed.texts import EAST, OFFSET, TEXTS, TIME, WEST
from cdec.core.schemas.own_keywords import NOTE

_DAY = datetime.timedelta(days=1)
_UNITS = (("PT", "S", 1), ("PT", "M", 60), ("PT", "H", 3600), ("P", "D", 86400))
_FORMS = (
    r"PT(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?S",
    "PT(?:0|[1-9][0-9]{0,6})M",
    "PT(?:0|[1-9][0-9]{0,5})H",
    "P(?:0|[1-9][0-9]{0,7})D",
)
"""Durations of one unit. Longer ones pydantic does not take."""


def date(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of days.

    Args:
        bounds: ``gt``, ``ge``, ``lt``, ``le``; ``now_op``: ``past`` or ``future``.
    """
    patterns = _ordered(bounds, lambda day: str(day.isoformat()))
    made: dict[str, Any] = {"type": "string", "format": "date"}
    today = datetime.date.today()
    if bounds.get("now_op") == "past":
        patterns.append(whole(up_to_text(today.isoformat(), excluded=True)))
    elif bounds.get("now_op") == "future":
        patterns.append(whole(from_text(today.isoformat(), excluded=True)))
    return made | _all(patterns) | _told_by(bounds)


def time(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of times; those with bounds are without offset."""
    made = TEXTS["time"]
    names = [name for name in ("gt", "ge", "lt", "le") if bounds.get(name) is not None]
    if not names:
        return made
    patterns = [rf"^{TIME}$", "^[0-9]{2}:[0-9]{2}:[0-9]{2}"]
    for name in names:
        bound = bounds[name]
        second, is_whole = bound.strftime("%H:%M:%S"), bound.microsecond == 0
        beside = (from_text if name[0] == "g" else up_to_text)(second, excluded=True)
        options = [rf"{beside}(?:\.[0-9]+)?"]
        if name == "ge" and is_whole:
            options.append(rf"{second}(?:\.[0-9]+)?")
        elif name == "le":
            options.append(second)
        patterns.append(whole(*options))
    return {"type": "string"} | _all(patterns)


def moment(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of date-times; ``tz_constraint`` says whether they have an offset.

    A day of local time is another day of UTC's where the offset leads there: with one to the east
    an earlier one, to the west a later one.
    """
    zone = bounds.get("tz_constraint")
    given = [bounds[name] for name in ("gt", "ge", "lt", "le") if bounds.get(name) is not None]
    if any(bound.tzinfo is not None for bound in given):
        zone = zone or "aware"
    elif given:
        zone = zone or "naive"
    offset = {"aware": OFFSET, "naive": ""}.get(str(zone), f"{OFFSET}?")
    patterns = [whole(f"{DATE}T{TIME}{offset}")]
    for name in ("gt", "ge", "lt", "le"):
        if bounds.get(name) is not None:
            patterns.append(_beyond(bounds[name], name))
    now = datetime.datetime.now(datetime.UTC).date()
    here = datetime.date.today()
    if bounds.get("now_op") == "past":
        patterns.append(_until(min(now, here) - _DAY))
    elif bounds.get("now_op") == "future":
        patterns.append(_since(max(now, here) + _DAY))
    return {"type": "string"} | _all(patterns) | _told_by(bounds)


def duration(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of durations; those with a bound other than 0 are of one unit."""
    given = {
        name: bound.total_seconds() if isinstance(bound, datetime.timedelta) else bound
        for name, bound in bounds.items()
        if name in ("gt", "ge", "lt", "le") and bound is not None
    }
    made = TEXTS["duration"]
    if not any(given.values()):
        signs = [*(["^P"] * bool(given.keys() & {"gt", "ge"}))]
        zero = ["^-|^[^1-9]*$"] * ("le" in given) + ["^-"] * ("lt" in given)
        some = ["[1-9]"] * bool(given.keys() & {"gt", "lt"})
        more = [{"pattern": pattern} for pattern in (*signs, *zero, *some)]
        return made | {"allOf": [*made["allOf"], *more]}
    patterns = [whole(*(f"-?{form}" for form in _FORMS))]
    for name, seconds in given.items():
        options = [
            _side(name, seconds, seconds_of, (before, unit)) for before, unit, seconds_of in _UNITS
        ]
        patterns.append(whole(*options))
    return {"type": "string"} | _all(patterns)


def _side(name: str, bound: float, unit: int, around: tuple[str, str]) -> str:
    """Return the durations of one unit on one side of a bound."""
    excluded = name in ("gt", "lt")
    of = at_least if name[0] == "g" else at_most
    exact = Fraction(str(bound))
    if unit == 1:
        return of(exact, excluded=excluded, around=around)
    # Of whole minutes, hours and days the nearest within the bound is as good as the bound.
    count = math.ceil(exact / unit) if name[0] == "g" else math.floor(exact / unit)
    return of(Fraction(count), excluded=excluded and count * unit == exact, around=around)


def _beyond(bound: datetime.datetime, name: str) -> str:
    """Return the date-times of the days that lie wholly on one side of a bound."""
    moved = bound if bound.tzinfo is None else bound.astimezone(datetime.UTC)
    if name[0] == "l":
        return _until(moved.date() - _DAY)
    begins = moved.time() == datetime.time(0) and name == "ge"
    return _since(moved.date() + (datetime.timedelta(0) if begins else _DAY))


def _since(first: datetime.date) -> str:
    later = first + _DAY if first < datetime.date.max else first
    plain, east = from_text(first.isoformat()), from_text(later.isoformat())
    return whole(f"{plain}T{TIME}(?:Z|{WEST})?", f"{east}T{TIME}{EAST}")


def _until(last: datetime.date) -> str:
    earlier = last - _DAY if last > datetime.date.min else last
    plain, west = up_to_text(last.isoformat()), up_to_text(earlier.isoformat())
    return whole(f"{plain}T{TIME}(?:Z|{EAST})?", f"{west}T{TIME}{WEST}")


def _ordered(bounds: Mapping[str, Any], written: Any) -> list[str]:
    """Return the patterns of the bounds of texts that come in the order of what they say."""
    return [
        whole((from_text if name[0] == "g" else up_to_text)(written(bounds[name]), excluded=out))
        for name, out in (("gt", True), ("ge", False), ("lt", True), ("le", False))
        if bounds.get(name) is not None
    ]


def _all(patterns: list[str]) -> dict[str, Any]:
    return {"allOf": [{"pattern": pattern} for pattern in patterns]} if patterns else {}


def _told_by(bounds: Mapping[str, Any]) -> dict[str, Any]:
    if not bounds.get("now_op"):
        return {}
    today = datetime.date.today().isoformat()
    return {NOTE: f"past and future are told by {today}, the day on which the type was read"}

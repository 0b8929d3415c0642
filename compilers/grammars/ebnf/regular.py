"""Algebra of regular expressions whose pattern never matches the empty text.

An expression with a large count is kept only while it is one-unambiguous (Brüggemann-Klein and
Wood, "One-unambiguous regular languages", 1998): each character decides where in the expression
it is read, so the automaton has no more states than the expression has positions. Without that
``[ab]* a [ab]{40}`` would need 2**40 of them; as rules its parts stay small.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cdec.compilers.grammars.automata.characters import Ranges, normalised
from cdec.compilers.grammars.ebnf.lex import class_pattern

MAX_PATTERN = 2000
MAX_POSITIONS = 10_000
MAX_DEPTH = 30
LARGE_COUNT = 32

_ATOM, _SEQUENCE, _CHOICE = 0, 1, 2


class TooLargeError(Exception):
    """An expression that is better kept as rules; never leaves the front end."""


@dataclass(frozen=True, slots=True)
class Regular:
    """The language of ``pattern``, and the empty text if ``nullable``.

    Attributes:
        pattern: Python's syntax, matches no empty text; "" where the empty text is all there is.
        level: How tightly the pattern binds: atom, sequence or choice.
        nullable: Whether the empty text belongs.
        positions: Characters of the pattern with its counts written out; bounds its automaton.
        depth: Brackets within brackets.
        literal: The one text of the pattern, or None.
        ranges: The characters of a pattern that is a single one, else ().
        first: Characters that a text may begin with, sorted ranges.
        more: Characters that may go on behind a text that could also have ended.
        clear: One-unambiguous; ``first`` and ``more`` mean something only then.
        counted: Holds a count above ``LARGE_COUNT``.
        name: Of the rule it is all of, else "".
    """

    pattern: str
    level: int = _ATOM
    nullable: bool = False
    positions: int = 1
    depth: int = 0
    literal: str | None = None
    ranges: Ranges = ()
    first: Ranges = ()
    more: Ranges = ()
    clear: bool = True
    counted: bool = False
    name: str = ""


EMPTY = Regular("", nullable=True, positions=0)


def literal(text: str) -> Regular:
    """Return the language of one text."""
    if not text:
        return EMPTY
    single = len(text) == 1
    begin = ((ord(text[0]), ord(text[0])),)
    return Regular(
        re.escape(text),
        _ATOM if single else _SEQUENCE,
        positions=len(text),
        literal=text,
        ranges=begin if single else (),
        first=begin,
    )


def one_of(ranges: Ranges) -> Regular:
    """Return the language of single characters in sorted ranges."""
    low, high = ranges[0]
    if len(ranges) == 1 and low == high:
        return literal(chr(low))
    return Regular(class_pattern(ranges), ranges=ranges, first=ranges)


def concatenate(left: Regular, right: Regular) -> Regular:
    """Return the texts of ``left`` followed by those of ``right``.

    Raises:
        TooLargeError: The pattern would pass a bound.
    """
    if not left.pattern:
        return right
    if not right.pattern:
        return left
    is_nullable = left.nullable or right.nullable
    if left.literal is not None and right.literal is not None and not is_nullable:
        return _bounded(_joined_literals(left, right))
    pattern = (_optional(left) if left.nullable else _inside(left)) + (
        _optional(right) if right.nullable else _inside(right)
    )
    level = _SEQUENCE
    positions = left.positions + right.positions
    if left.nullable and right.nullable:
        # subtle: both may be absent, never both at once: something of left, or else of right.
        pattern = f"{_inside(left)}{_optional(right)}|{right.pattern}"
        level, positions = _CHOICE, positions + right.positions
    made = Regular(
        pattern,
        level,
        nullable=left.nullable and right.nullable,
        positions=positions,
        depth=max(left.depth, right.depth) + 1,
        counted=left.counted or right.counted,
    )
    return _bounded(_followed(_bounded(made), left, right))


def _joined_literals(left: Regular, right: Regular) -> Regular:
    text = f"{left.literal}{right.literal}"
    return Regular(
        left.pattern + right.pattern,
        _SEQUENCE,
        positions=len(text),
        literal=text,
        first=left.first,
    )


def _followed(made: Regular, left: Regular, right: Regular) -> Regular:
    """Return ``made``, which is ``left right``, with what is known of its characters."""
    clear = left.clear and right.clear and _apart([left.more, right.first])
    clear = clear and (not left.nullable or _apart([left.first, right.first]))
    if not clear:
        return replace(made, clear=False)
    return replace(
        made,
        first=_union(left.first, right.first if left.nullable else ()),
        more=_union(right.more, left.more, right.first) if right.nullable else right.more,
    )


def choose(parts: Sequence[Regular]) -> Regular:
    """Return the texts of any of ``parts``; single characters become one class.

    Raises:
        TooLargeError: The pattern would pass a bound.
    """
    nullable = any(part.nullable for part in parts)
    distinct = list({part.pattern: part for part in parts if part.pattern}.values())
    singles = [part for part in distinct if part.ranges]
    if len(singles) > 1:
        ranges = normalised(pair for part in singles for pair in part.ranges)
        distinct = [part for part in distinct if not part.ranges] + [one_of(ranges)]
    if len(distinct) < 2:
        only = distinct[0] if distinct else EMPTY
        return replace(only, nullable=nullable)
    made = Regular(
        "|".join(part.pattern for part in distinct),
        _CHOICE,
        nullable=nullable,
        positions=sum(part.positions for part in distinct),
        depth=max(part.depth for part in distinct),
        counted=any(part.counted for part in distinct),
    )
    firsts = [part.first for part in distinct]
    if not (all(part.clear for part in distinct) and _apart(firsts)):
        return _bounded(replace(made, clear=False))
    return _bounded(
        replace(made, first=_union(*firsts), more=_union(*(part.more for part in distinct)))
    )


def repeat(part: Regular, least: int, most: int | None) -> Regular:
    """Return ``least`` to ``most`` texts of ``part`` in a row; None is no bound.

    Raises:
        TooLargeError: The pattern would pass a bound.
    """
    if most == 0 or not part.pattern:
        return EMPTY
    nullable = part.nullable or least == 0
    least = 1 if nullable else least
    if (least, most) == (1, 1):
        return replace(part, nullable=nullable)
    text, depth = _tight(part)
    made = Regular(
        text + _counts(least, most),
        _SEQUENCE,
        nullable=nullable,
        positions=part.positions * (least if most is None else most),
        depth=depth,
        clear=part.clear and _apart([part.more, part.first]),
        counted=part.counted or (most or least) > LARGE_COUNT,
    )
    more = part.more if least == most else _union(part.more, part.first)
    return _bounded(replace(made, first=part.first, more=more))


def _counts(least: int, most: int | None) -> str:
    if most is None:
        return "+" if least == 1 else f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _inside(part: Regular) -> str:
    return f"(?:{part.pattern})" if part.level == _CHOICE else part.pattern


def _tight(part: Regular) -> tuple[str, int]:
    grouped = part.level != _ATOM
    return (f"(?:{part.pattern})" if grouped else part.pattern), part.depth + grouped


def _optional(part: Regular) -> str:
    return _tight(part)[0] + "?"


def _union(*sets: Ranges) -> Ranges:
    present = [ranges for ranges in sets if ranges]
    if len(present) < 2:
        return present[0] if present else ()
    return normalised(pair for ranges in present for pair in ranges)


def _apart(sets: Sequence[Ranges]) -> bool:
    """Return whether no two of the sets have a character in common."""
    ordered = sorted(pair for ranges in sets for pair in ranges)
    return all(low[1] < high[0] for low, high in pairwise(ordered))


def _bounded(made: Regular) -> Regular:
    large = len(made.pattern) > MAX_PATTERN or made.positions > MAX_POSITIONS
    if large or made.depth > MAX_DEPTH or (made.counted and not made.clear):
        raise TooLargeError
    return made

"""Checks of one regular expression: syntax, what is not regular, counts, nesting."""

from __future__ import annotations

from re import _constants, _parser
from typing import Any, NamedTuple

from cdec.compilers.grammars.definition import GrammarLimits, Terminal

_FEATURES: dict[object, str] = {
    _constants.GROUPREF: "back-reference",
    _constants.GROUPREF_EXISTS: "conditional group",
    _constants.ATOMIC_GROUP: "atomic group",
    _constants.POSSESSIVE_REPEAT: "possessive quantifier",
}
_LOOKS = (_constants.ASSERT, _constants.ASSERT_NOT, _constants.AT, _constants.FAILURE)
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


class PatternFacts(NamedTuple):
    """What a regular expression contains.

    Attributes:
        features: Constructs that are not regular, in the pattern's order.
        largest_count: Of its counted repetitions.
        is_unbounded: It matches texts of any length.
        is_nullable: It matches the empty text.
        is_lazy: Some quantifier prefers fewer repetitions.
    """

    features: tuple[str, ...]
    largest_count: int
    is_unbounded: bool
    is_nullable: bool
    is_lazy: bool


def examine(pattern: str) -> PatternFacts:
    """Parse a regular expression as ``re`` does, and look at it.

    Args:
        pattern: Python syntax.

    Returns:
        Its facts. Cost: linear.

    Raises:
        re.error: It is none.
        OverflowError: A count that ``re`` cannot hold.
        RecursionError: Brackets nested deeper than ``re`` can follow.
    """
    parsed = _parser.parse(pattern)
    features: list[str] = []
    largest = 0
    is_lazy = False
    pending: list[Any] = [parsed]
    while pending:
        for op, value in pending.pop().data:
            if op in _FEATURES:
                features.append(_FEATURES[op])
            if op in _REPEATS:
                counts = [count for count in value[:2] if count is not _constants.MAXREPEAT]
                largest = max(largest, *counts)
            is_lazy |= op is _constants.MIN_REPEAT and value[0] != value[1]
            pending += _parts(op, value)
    shortest, longest = parsed.getwidth()
    is_unbounded = longest >= _constants.MAXREPEAT
    return PatternFacts(tuple(features), largest, is_unbounded, shortest == 0, is_lazy)


def ends_early(terminal: Terminal) -> bool:
    """Say whether a terminal's texts are those at whose end ``re.match`` ends, under ``dynamic``.

    So it is where a quantifier is lazy: of ``/".*?"/`` the text ``"a" "`` is none. Elsewhere its
    texts are those of ``re.fullmatch``.

    Args:
        terminal: With a pattern that ``re`` reads. Cost: linear in it.
    """
    if terminal.is_string or terminal.words or "?" not in terminal.pattern:
        return False
    return examine(terminal.pattern).is_lazy


def looks_around(parsed: Any) -> bool:
    """Say whether a pattern that ``re`` has parsed contains an anchor or look-around."""
    pending: list[Any] = [parsed]
    while pending:
        for op, value in pending.pop().data:
            if op in _LOOKS:
                return True
            pending += _parts(op, value)
    return False


def largest_count(parsed: Any) -> int:
    """Return the largest count of a repetition in what ``re`` has parsed, 0 where there is none."""
    pending, largest = [parsed], 0
    while pending:
        for op, value in pending.pop():
            if op in _REPEATS:
                counts = [count for count in value[:2] if count is not _constants.MAXREPEAT]
                largest = max(largest, *counts)
            pending += _parts(op, value)
    return largest


def bracket_depth(pattern: str) -> int:
    """Return how deep groups nest, without recursion; what is no pattern gives some number."""
    depth = deepest = 0
    in_class = escaped = False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif character == ")":
            depth -= 1
    return deepest


def check_depth(pattern: str, limits: GrammarLimits) -> bool:
    """Say whether a pattern nests no deeper than the limit."""
    return pattern.count("(") <= limits.max_nesting or bracket_depth(pattern) <= limits.max_nesting


def _parts(op: object, value: Any) -> list[Any]:
    if op is _constants.SUBPATTERN:
        return [value[-1]]
    if op is _constants.BRANCH:
        return list(value[1])
    if op is _constants.ASSERT or op is _constants.ASSERT_NOT:
        return [value[1]]
    if op in _REPEATS:
        return [value[2]]
    if op is _constants.ATOMIC_GROUP:
        return [value]
    return []

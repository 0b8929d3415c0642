"""Checks of one regular expression: syntax, what is not regular, counts, nesting."""

from __future__ import annotations

import re
import warnings
from re import _constants, _parser
from typing import Any, NamedTuple

from cdec.compilers.deep_calls import deep_calls
from cdec.compilers.grammars.automata.naming import place, where
from cdec.compilers.grammars.automata.refusals import class_of_others, nesting_error
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.core.grammars.errors import RegexSyntaxError

_FEATURES: dict[object, str] = {
    _constants.GROUPREF: "back-reference",
    _constants.GROUPREF_EXISTS: "conditional group",
    _constants.ATOMIC_GROUP: "atomic group",
    _constants.POSSESSIVE_REPEAT: "possessive quantifier",
}
_LOOK_AROUND = (_constants.ASSERT, _constants.ASSERT_NOT)
_LOOKS = (*_LOOK_AROUND, _constants.AT, _constants.FAILURE)
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


class PatternFacts(NamedTuple):
    """What a regular expression contains.

    Attributes:
        features: Constructs that are not regular, in the pattern's order.
        largest_count: Of its counted repetitions.
        is_unbounded: It matches texts of any length.
        is_nullable: It matches the empty text.
        is_lazy: Some quantifier prefers fewer repetitions.
        looks_aside: It has look-ahead or look-behind; anchors are none.
    """

    features: tuple[str, ...]
    largest_count: int
    is_unbounded: bool
    is_nullable: bool
    is_lazy: bool
    looks_aside: bool


def parse_pattern(terminal: Terminal, limits: GrammarLimits) -> Any:
    """Return the pattern of ``terminal`` as ``re``'s own parser reads it.

    Args:
        terminal: Its ``pattern`` is read.
        limits: max_nesting holds.

    Raises:
        RegexSyntaxError: ``re`` refuses the pattern; ``position`` in characters, where known.
        RegexUnsupportedError: It names a class by a property of Unicode.
        LimitError: Brackets nest too deep.
    """
    _check_nesting(terminal, limits)
    try:
        with warnings.catch_warnings(), deep_calls(limits.max_nesting):
            warnings.simplefilter("ignore")
            return _parser.parse(terminal.pattern)
    except (re.error, OverflowError, ValueError) as error:
        found = error.pos if isinstance(error, re.error) else None
        if str(error).lower().startswith(r"bad escape \p"):
            raise class_of_others(terminal) from None
        raise RegexSyntaxError(
            f"{where(terminal)} is no regular expression: {error}",
            hint="write it in the syntax of Python's re module",
            **place(terminal),
            **({} if found is None else {"position": found}),
        ) from None
    except RecursionError:
        raise nesting_error(terminal, limits) from None


def _check_nesting(terminal: Terminal, limits: GrammarLimits) -> None:
    """Refuse brackets too deep for the recursive parser of ``re``; a cheap upper bound."""
    if bracket_depth(terminal.pattern) > limits.max_nesting:
        raise nesting_error(terminal, limits)


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
    return facts_of(_parser.parse(pattern))


def width_of(pattern: str) -> list[int]:
    """Return the fewest and most characters of a pattern's texts, as ``re`` counts them.

    Raises:
        re.error, OverflowError, RecursionError: As ``examine``.
    """
    return list(map(int, _parser.parse(pattern).getwidth()))


def facts_of(parsed: Any) -> PatternFacts:
    """Return the facts of a pattern that ``re`` has parsed; cost: linear."""
    features: list[str] = []
    largest = 0
    is_lazy = looks_aside = False
    pending: list[Any] = [parsed]
    while pending:
        for op, value in pending.pop().data:
            if op in _FEATURES:
                features.append(_FEATURES[op])
            if op in _REPEATS:
                counts = [count for count in value[:2] if count is not _constants.MAXREPEAT]
                largest = max(largest, *counts)
            is_lazy |= op is _constants.MIN_REPEAT and value[0] != value[1]
            looks_aside |= op in _LOOK_AROUND
            pending += _parts(op, value)
    shortest, longest = parsed.getwidth()
    is_unbounded = longest >= _constants.MAXREPEAT
    is_nullable = shortest == 0
    return PatternFacts(tuple(features), largest, is_unbounded, is_nullable, is_lazy, looks_aside)


def ends_early(terminal: Terminal) -> bool:
    """Say whether a terminal's texts are those at whose end ``re.match`` ends, under ``dynamic``.

    So it is where a quantifier is lazy: of ``/".*?"/`` the text ``"a" "`` is none. Elsewhere its
    texts are those of ``re.fullmatch``.

    Args:
        terminal: With a pattern that ``re`` reads. Cost: linear in it.
    """
    if terminal.is_string or terminal.words or terminal.is_whole or "?" not in terminal.pattern:
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


def matches_empty(parsed: Any) -> bool:
    """Say whether the empty text matches a pattern that ``re`` has parsed, without look-around.

    Cost: linear in the pattern, whatever its counts, and one Python call within another for each
    bracket within another.
    """
    for op, value in parsed.data:
        if op is _constants.SUBPATTERN:
            is_empty = matches_empty(value[-1])
        elif op is _constants.BRANCH:
            is_empty = False
            for branch in value[1]:
                is_empty = is_empty or matches_empty(branch)
        elif op in _REPEATS:
            is_empty = value[0] == 0 or matches_empty(value[2])
        elif op is _constants.AT:
            is_empty = _holds_in_empty(value)
        else:
            is_empty = False
        if not is_empty:
            return False
    return True


def _holds_in_empty(anchor: object) -> bool:
    if anchor is _constants.AT_NON_BOUNDARY:
        # subtle: versions of Python differ in whether the empty text has a place within no word.
        return re.search(r"\B", "") is not None
    return anchor is not _constants.AT_BOUNDARY


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

"""Checks of one regular expression, and their errors: syntax, regularity, counts, nesting."""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator
from re import _constants, _parser
from typing import Any, NamedTuple

from cdec.compilers.deep_calls import deep_calls
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyTerminalError, RegexSyntaxError, RegexUnsupportedError

_SHOWN = 60
"""Characters of a pattern that stand in a message."""
NESTED_LOOK = "look-around within a look-behind"
_REFUSED = {
    sre.GROUPREF: ("back-reference", "a back-reference is"),
    sre.GROUPREF_EXISTS: ("conditional", "a conditional group is"),
    sre.POSSESSIVE_REPEAT: ("possessive", "a possessive quantifier is"),
    sre.ATOMIC_GROUP: ("atomic group", "an atomic group is"),
    NESTED_LOOK: ("look-around", "look-around within a look-behind is"),
}
_FEATURES: dict[object, str] = {
    _constants.GROUPREF: "back-reference",
    _constants.GROUPREF_EXISTS: "conditional group",
    _constants.ATOMIC_GROUP: "atomic group",
    _constants.POSSESSIVE_REPEAT: "possessive quantifier",
}
_LOOK_AROUND = (_constants.ASSERT, _constants.ASSERT_NOT)
_LOOKS = (*_LOOK_AROUND, _constants.AT, _constants.FAILURE)
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


def where(terminal: Terminal) -> str:
    """Name ``terminal`` and its line for a message."""
    if terminal.is_whole:
        return f"the regular expression {shortened(terminal.value)!r}"
    line = f" (line {terminal.line})" if terminal.line else ""
    return f"{terminal.noun} {terminal.name}{line}"


def place(terminal: Terminal) -> dict[str, object]:
    """Return ``terminal``'s name and, where known, place as an error's details."""
    if terminal.is_whole:
        return {"pattern": shortened(terminal.value)}
    details: dict[str, object] = {"name": terminal.name}
    if terminal.line:
        details |= {"line": terminal.line, "column": terminal.column}
    return details


def shortened(pattern: str) -> str:
    """Return a pattern as messages show it."""
    return pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "..."


def nesting_error(terminal: Terminal, limits: GrammarLimits) -> LimitError:
    """Return the error of brackets within more than max_nesting brackets."""
    return LimitError(
        f"{where(terminal)} nests brackets deeper than {limits.max_nesting}",
        hint="write it with fewer brackets, or raise `max_nesting`",
        limit="max_nesting",
        **place(terminal),
    )


def too_many_states(terminal: Terminal, limits: GrammarLimits) -> LimitError:
    """Return the error of an automaton with more than max_states states."""
    return LimitError(
        f"the automaton of {where(terminal)} has more than {limits.max_states} states",
        hint="make the terminal simpler, repeat fewer times, or raise `max_states`",
        limit="max_states",
        **place(terminal),
    )


def too_much_written_out(terminal: Terminal, limits: GrammarLimits) -> LimitError:
    """Return the error of repetitions that take more than max_states states."""
    return LimitError(
        f"{where(terminal)} has more than {limits.max_states} states when its repetitions are "
        "written out",
        hint="repeat fewer times, or raise `max_states`",
        limit="max_states",
        **place(terminal),
    )


def too_many_copies(terminal: Terminal, count: int, limits: GrammarLimits) -> LimitError:
    """Return the error of a count beyond max_repeat."""
    return LimitError(
        f"{where(terminal)} repeats {count} times, more than {limits.max_repeat}",
        hint="repeat fewer times, or raise `max_repeat`",
        limit="max_repeat",
        **place(terminal),
    )


def unsupported(terminal: Terminal, op: Any) -> RegexUnsupportedError:
    """Return the error of a construct that is not regular."""
    feature, what = _REFUSED.get(op, (str(op).lower(), f"{op} is"))
    hint = "describe the text itself: alternatives, classes and repetitions are enough for every "
    hint += "regular language"
    if op is sre.GROUPREF:
        hint = r"write out what may be repeated: aa|bb for (a|b)\1"
    elif not terminal.is_whole:
        hint += "; give terminals priorities where they compete"
    return RegexUnsupportedError(
        f"{where(terminal)}: {what} not regular, so no automaton can follow it",
        hint=hint,
        feature=feature,
        **place(terminal),
    )


def class_of_others(terminal: Terminal) -> RegexUnsupportedError:
    r"""Return the error of ``\p{...}``, which other engines know."""
    return RegexUnsupportedError(
        rf"{where(terminal)} has \p{{...}}, a property of Unicode, which is none of re's classes",
        hint=r"write it with re's own classes and ranges: [^\W\d_] are letters, \w letters, digits "
        "and _, of any script",
        feature=r"\p",
        **place(terminal),
    )


def empty_terminal(terminal: Terminal, what: str) -> EmptyTerminalError:
    """Return the error of a terminal that matches the empty text."""
    place = f"line {terminal.line}: " if terminal.line else ""
    details: dict[str, object] = {"name": terminal.name}
    if terminal.line:
        details |= {"line": terminal.line, "column": terminal.column}
    return EmptyTerminalError(
        f"{place}terminal {terminal.name} matches {what}, and a lexer would never get past it",
        hint="make it match at least one character, and optional where it is used: NAME?",
        **details,
    )


class PatternFacts(NamedTuple):
    """Constructs that a regular expression contains.

    Attributes:
        features: Constructs that are not regular, in the pattern's order.
        largest_count: Of its counted repetitions.
        is_lazy: Some quantifier prefers fewer repetitions.
        looks_aside: It has look-ahead or look-behind; anchors are none.
    """

    features: tuple[str, ...]
    largest_count: int
    is_lazy: bool
    looks_aside: bool


def parse_pattern(terminal: Terminal, limits: GrammarLimits) -> Any:
    """Return the pattern of ``terminal`` as ``re``'s own parser reads it.

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
    is_lazy = looks_aside = False
    for op, value in _items(parsed):
        if op in _FEATURES:
            features.append(_FEATURES[op])
        is_lazy |= op is _constants.MIN_REPEAT and value[0] != value[1]
        looks_aside |= op in _LOOK_AROUND
    return PatternFacts(tuple(features), largest_count(parsed), is_lazy, looks_aside)


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
    return any(op in _LOOKS for op, _ in _items(parsed))


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
    repeats = (value[:2] for op, value in _items(parsed) if op in _REPEATS)
    counts = (count for both in repeats for count in both if count is not _constants.MAXREPEAT)
    return max(map(int, counts), default=0)


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


def _items(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the items of what ``re`` has parsed, those within others behind all beside these."""
    pending: list[Any] = [parsed]
    while pending:
        for op, value in pending.pop().data:
            yield op, value
            pending += _parts(op, value)


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

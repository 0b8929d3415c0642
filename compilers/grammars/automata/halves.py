"""A pattern as two that follow one another, where one automaton for both would be too large.

``.*a.{18}b`` needs a state for every set of places in the last 19 characters at which an ``a``
stood. Read as ``.*a`` and then ``.{18}b``, each of these places is a reading of its own.
"""

from __future__ import annotations

import re
import re._parser as sre_parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cdec.compilers.grammars.automata.anchors import without_outer_anchors
from cdec.compilers.grammars.automata.pattern_checks import ends_early
from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import ByteAutomaton, GrammarLimits, Terminal
from cdec.core.errors import LimitError

_ANCHORS = re.compile(r"\A(?:\^|\\A)+|(?:\$|\\Z)+\Z")
_GROUP = re.compile(r"(SUBPATTERN, \()\d+")
_LONGEST = 300
"""Characters of a pattern that is cut; every place in it is tried."""
_MOST_STATES = 10_000
"""States of each half."""

Half = tuple[Terminal, ByteAutomaton]


def halves(terminal: Terminal, limits: GrammarLimits) -> tuple[Half, Half] | None:
    """Return two terminals, one behind the other, that match the texts of ``terminal``.

    Args:
        terminal: A regular expression that must match a text as a whole.
        limits: Of automata.

    Returns:
        Terminals with automata, of the last cut that leaves both small; None where there is none,
        or where the text of a terminal ends depends on the order in which ``re`` tries.
    """
    if terminal.conjoined or terminal.denied:
        return None
    if terminal.is_string or len(terminal.pattern) > _LONGEST or ends_early(terminal):
        return None
    bounded = replace(limits, max_states=min(limits.max_states, _MOST_STATES))
    for left, right in reversed(list(_cuts(_bare(terminal)))):
        found: list[Half] = []
        for pattern in (left, right):
            part = replace(terminal, pattern=pattern, value=pattern, is_whole=False, words=())
            try:
                automaton = compile_terminal(part, prioritised=False, limits=bounded)
            except LimitError:
                break
            found.append((part, automaton))
        if len(found) == 2 and not any(automaton.is_open for _, automaton in found):
            return found[0], found[1]
    return None


def _bare(terminal: Terminal) -> str:
    """Return a terminal's pattern, without anchors at its ends where it is all of a text."""
    if not terminal.is_whole:
        return terminal.pattern
    bare = _ANCHORS.sub("", terminal.pattern)
    whole = _named(without_outer_anchors(sre_parser.parse(terminal.pattern)))
    return bare if _items(bare) == whole else terminal.pattern


def _cuts(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to cut a pattern in two of which ``re`` reads the same, one behind the other.

    Args:
        pattern: Without flags inside that hold for both halves.
    """
    whole = _items(pattern)
    for at in range(1, len(pattern)) if whole else ():
        left, right = _items(pattern[:at]), _items(pattern[at:])
        if left and right and [*left, *right] == whole:
            yield pattern[:at], pattern[at:]


def _items(pattern: str) -> list[str] | None:
    """Return what ``re`` reads in a sequence, None where it refuses it or flags are set."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = sre_parser.parse(pattern)
    except (re.error, OverflowError, ValueError, RecursionError):
        return None
    if parsed.state.flags & ~re.U:
        return None
    return _named(parsed)


def _named(parsed: Any) -> list[str]:
    """Return the items of a pattern, the same whatever the numbers of its groups."""
    return [_GROUP.sub(r"\1", repr(item)) for item in parsed.data]

"""Errors of patterns that cannot be automata, or only too large ones."""

from __future__ import annotations

import re._constants as sre  # type: ignore[import-not-found]
from typing import Any

from cdec.compilers.grammars.automata.naming import place, where
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyTerminalError, RegexUnsupportedError

NESTED_LOOK = "look-around within a look-behind"
_FEATURES = {
    sre.GROUPREF: ("back-reference", "a back-reference is"),
    sre.GROUPREF_EXISTS: ("conditional", "a conditional group is"),
    sre.POSSESSIVE_REPEAT: ("possessive", "a possessive quantifier is"),
    sre.ATOMIC_GROUP: ("atomic group", "an atomic group is"),
    NESTED_LOOK: ("look-around", "look-around within a look-behind is"),
}


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
    feature, what = _FEATURES.get(op, (str(op).lower(), f"{op} is"))
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

"""Whether a regular expression has texts at all, and more than the empty one."""

from __future__ import annotations

from collections.abc import Sequence

from cdec.compilers.grammars.automata.naming import place, where
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar
from cdec.core.errors import Notice
from cdec.core.grammars.errors import EmptyLanguageError


def require_texts(grammar: Grammar, automata: Sequence[ByteAutomaton]) -> tuple[Notice, ...]:
    """Refuse a regular expression that no text matches; of another grammar nothing is said.

    Args:
        grammar: As it was read.
        automata: One a terminal, without the empty text.

    Returns:
        ``W_EMPTY_STRING_ONLY`` where there is one text, and that is empty.

    Raises:
        EmptyLanguageError: There is none.
    """
    if grammar.dialect != "regex" or any(automata[0].accepting):
        return ()
    terminal = grammar.terminals[0]
    left = where(terminal)
    if terminal.conjoined or terminal.denied:
        left += " and what `conjoined` and `deny_regex` ask"
    if not any(rule.rhs == () for rule in grammar.rules):
        raise EmptyLanguageError(
            f"no text matches {left}",
            hint="an empty class or an anchor within the text can make it so: a^b matches nothing",
            **place(terminal),
        )
    return (Notice("W_EMPTY_STRING_ONLY", f"the empty text matches {left}, and no other does"),)

"""Bounds on ignored white space: runs of at most so many blanks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cdec.compilers.grammars.automata.program import parse_program
from cdec.compilers.grammars.automata.terminal import compile_terminal, packed
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits, Terminal
from cdec.core.errors import Notice
from cdec.core.grammars.blanks import overlong_pattern, run_pattern

OVERLONG = "__OVERLONG_BLANKS"
_MOST_CHARACTERS = 64
"""Characters of a set that may be blanks: Unicode has fewer."""


def bound_blanks(
    grammar: Grammar, most: int | None, limits: GrammarLimits
) -> tuple[Grammar, str, tuple[Notice, ...]]:
    """Bound the runs of white space that a grammar ignores.

    The ignored terminals that match white space alone become one, whose texts are the allowed runs,
    and which never follows itself. That is the grammar's own language but for longer runs, where
    every blank is ignored by itself, no rule names one and nothing else begins with one. Where that
    is not so, the grammar stays as it is, with a notice.

    Under ``contextual`` and ``basic`` the shortest overlong runs are a terminal that no rule takes:
    a lexer that meets one stops there, as it should. Under ``dynamic`` the terminal's own context
    leaves it out.

    Args:
        grammar: From a front end.
        most: The bound, as in ``cdec.core.grammars.blanks``; 0 ignores no blank; None for no bound.

    Returns:
        The grammar, the characters that are bounded ("" for none), and the notices about what is
        not. Cost: one more reading of the terminals' patterns.
    """
    blank = {} if most is None else _blank_terminals(grammar, limits)
    if most is None or not blank:
        return grammar, "", _unbounded(grammar, grammar.ignored, "")
    characters = frozenset().union(*blank.values())
    why = _obstacle(grammar, blank.keys(), characters, limits)
    if why:
        return grammar, "", _unbounded(grammar, grammar.ignored, why)
    others = _unbounded(grammar, grammar.ignored - blank.keys(), "")
    return _bounded(grammar, blank.keys(), characters, most), "".join(sorted(characters)), others


def _bounded(
    grammar: Grammar, blank: Collection[int], characters: frozenset[str], most: int
) -> Grammar:
    """Put one terminal, and one of overlong runs, in the place of the first of ``blank``."""
    first = min(blank)
    terminals: list[Terminal] = []
    number: dict[int, int] = {}
    for old, terminal in enumerate(grammar.terminals):
        if old == first and most:
            pattern = overlong_pattern(characters, most)
            terminals.append(replace(_regular(terminal, pattern), name=OVERLONG))
            terminals.append(_regular(terminal, run_pattern(characters, most)))
        elif old not in blank:
            number[old] = len(terminals)
            terminals.append(terminal)
    ignored = {number[old] for old in grammar.ignored if old not in blank}
    at = next((n for n, terminal in enumerate(terminals) if terminal.name == OVERLONG), None)
    rules = tuple(
        replace(rule, rhs=tuple(number[s] if s >= 0 else s for s in rule.rhs))
        for rule in grammar.rules
    )
    return replace(
        grammar,
        terminals=tuple(terminals),
        rules=rules,
        ignored=frozenset(ignored if at is None else ignored | {at + 1}),
        refused=frozenset() if at is None else frozenset({at}),
        alone=frozenset() if at is None else frozenset({at + 1}),
    )


def _regular(terminal: Terminal, pattern: str) -> Terminal:
    return replace(terminal, pattern=pattern, value=pattern, is_string=False, flags=frozenset())


def _blank_terminals(grammar: Grammar, limits: GrammarLimits) -> dict[int, frozenset[str]]:
    """Return the ignored terminals that match white space alone, with its characters."""
    found = {}
    for number in sorted(grammar.ignored):
        characters = _characters(grammar.terminals[number], limits)
        if characters and all(map(str.isspace, characters)):
            found[number] = characters
    return found


def _characters(terminal: Terminal, limits: GrammarLimits) -> frozenset[str]:
    """Return the characters of a terminal's texts; none where they are many, or not all."""
    found: set[str] = set()
    program = parse_program(terminal, limits)
    if program.looks:
        return frozenset()
    for ranges in program.charsets:
        for low, high in ranges:
            if high - low >= _MOST_CHARACTERS:
                return frozenset()
            found.update(map(chr, range(low, high + 1)))
    return frozenset(found)


def _obstacle(
    grammar: Grammar, blank: Collection[int], characters: frozenset[str], limits: GrammarLimits
) -> str:
    """Say why blanks cannot be bounded without another change of the language; "" if they can."""
    used = {symbol for rule in grammar.rules for symbol in rule.rhs}
    named = sorted(used.intersection(blank))
    if named:
        return f"a rule names {grammar.terminals[named[0]].name}"
    alone = [
        compile_terminal(grammar.terminals[n], prioritised=False, limits=limits) for n in blank
    ]
    for character in sorted(characters):
        if not any(_reads(automaton, character, whole=True) for automaton in alone):
            return f"{character!r} is not ignored by itself"
    for number, terminal in enumerate(grammar.terminals):
        if number in blank:
            continue
        if terminal.is_string:
            begins = any(text[:1] in characters for text in terminal.literals)
        else:
            automaton = compile_terminal(terminal, prioritised=False, limits=limits)
            begins = any(_reads(automaton, character, whole=False) for character in characters)
        if begins:
            return f"{terminal.name} may begin with a blank"
    return ""


def _reads(automaton: ByteAutomaton, character: str, *, whole: bool) -> bool:
    """Say whether a terminal's texts include a character, or (not ``whole``) begin with it."""
    delta, state = packed(automaton), 0
    for byte in character.encode("utf-8", "surrogatepass"):
        state = int(delta[state, byte])
        if state < 0:
            return False
    return bool(automaton.accepting[state]) or not whole


def _unbounded(grammar: Grammar, numbers: Collection[int], why: str) -> tuple[Notice, ...]:
    """Return the warning that what is ignored may be repeated without end."""
    if not numbers:
        return ()
    names = [grammar.terminals[number].name for number in sorted(numbers)]
    because = f"; `max_whitespace` does not bound them, since {why}" if why else ""
    return (
        Notice(
            "W_UNBOUNDED_WHITESPACE",
            f"ignored terminals may be repeated without bound ({', '.join(names)}): a model can "
            f"spend its tokens on them{because}",
            {"terminals": names},
        ),
    )

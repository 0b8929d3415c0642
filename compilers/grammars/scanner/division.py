"""Division of terminals: overlapping ones into disjoint parts, large ones in two, narrowed ones.

With ``A: /[a-z]+/`` and ``B: /[a-z]+/`` a word of n letters splits into 2^n times as many sequences
of terminals as with one of them. So under ``dynamic`` the texts of overlapping terminals are
divided by *which* of them match: each part is a terminal, and what was a terminal becomes a rule
over its parts. Terminals too large for one automaton are read as two that follow one another. A
regular expression that others narrow has the texts that match some of them, and none of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cdec.compilers.grammars.automata.program import Counting
from cdec.compilers.grammars.automata.terminal import (
    PatternPart,
    compile_terminal,
    packed,
    smallest_automaton,
    split_pattern,
)
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.regex import whole_terminal
from cdec.compilers.grammars.scanner.build import Scanner, build_scanner
from cdec.core.errors import LimitError
from cdec.core.native import library

MOST_PARTS = 64
"""Parts of one grammar's overlapping terminals; with more of them they stay as they are."""
_MOST_STATES = 50_000
"""States of the automaton in which overlaps are looked for."""


def without_overlaps(
    grammar: Grammar,
    automata: Sequence[ByteAutomaton],
    nullable: frozenset[int],
    limits: GrammarLimits,
) -> tuple[Grammar, Sequence[ByteAutomaton], frozenset[int]]:
    """Divide overlapping terminals that match infinitely many texts each.

    A keyword within a name has two readings, no more, and stays a terminal.

    Args:
        grammar: For the generalised parser; rules use no ignored terminal.
        automata: One a terminal, none accepting the empty text.
        nullable: Terminals that match the empty text besides.
        limits: ``max_states`` holds.

    Returns:
        Grammar, automata and nullable terminals for the same texts. Terminals keep their numbers;
        those that became rules are ``refused``. Cost: that of a scanner over these terminals, and
        one minimisation a part.
    """
    used = {symbol for rule in grammar.rules for symbol in rule.rhs if symbol >= 0}
    # What is counted has to be told from what is not.
    free = (number for number in used if grammar.terminals[number].max_tokens is None)
    asked = sorted(number for number in free if _is_infinite(automata[number]))
    scanner = _joined(grammar, automata, asked, limits)
    if scanner is None:
        return grammar, automata, nullable
    parts = states_by_matches(scanner)
    cut = {number for part in parts if len(part) > 1 for number in part}
    wanted = [part for part in parts if cut.intersection(part)]
    if not cut or len(wanted) > MOST_PARTS:
        return grammar, automata, nullable
    terminals, made = list(grammar.terminals), list(automata)
    bodies: dict[int, list[tuple[int, ...]]] = {number: [] for number in sorted(cut)}
    for part in wanted:
        for number in part:
            bodies[number].append((len(terminals),))
        name = "|".join(terminals[number].name for number in part)
        terminals.append(replace(terminals[part[0]], name=name))
        made.append(automaton_of(scanner, parts[part]))
    for number in cut & nullable:
        bodies[number].append(())
    return _with_rules(grammar, terminals, bodies), made, nullable - cut


def _with_rules(
    grammar: Grammar,
    terminals: Sequence[Terminal],
    bodies: Mapping[int, Sequence[tuple[int, ...]]],
) -> Grammar:
    """Return a grammar in which rules stand for some terminals.

    Args:
        terminals: All, the new ones behind the others.
        bodies: The alternatives of each such terminal; a single symbol stands for it by itself.
    """
    names, stands_for, rules = list(grammar.nonterminals), dict[int, int](), list[Rule]()
    for number, alternatives in bodies.items():
        if len(alternatives) == len(alternatives[0]) == 1:
            stands_for[number] = alternatives[0][0]
            continue
        stands_for[number] = ~len(names)
        rules += [Rule(len(names), body) for body in alternatives]
        names.append(grammar.terminals[number].name)
    own = (
        replace(rule, rhs=tuple(stands_for.get(symbol, symbol) for symbol in rule.rhs))
        for rule in grammar.rules
    )
    return replace(
        grammar,
        terminals=tuple(terminals),
        nonterminals=tuple(names),
        rules=(*own, *rules),
        refused=grammar.refused | bodies.keys(),
    )


def _is_infinite(automaton: ByteAutomaton) -> bool:
    """Say whether an automaton without useless states has a cycle."""
    return bool(library.has_cycle(np.ascontiguousarray(packed(automaton).rows)))


def _joined(
    grammar: Grammar, automata: Sequence[ByteAutomaton], asked: list[int], limits: GrammarLimits
) -> Scanner | None:
    """Return an automaton that tells which asked terminals match; None if it is too large."""
    if len(asked) < 2:
        return None
    bounded = replace(limits, max_states=min(limits.max_states, _MOST_STATES))
    try:
        return build_scanner(grammar, automata, [frozenset(asked)], lexer="dynamic", limits=bounded)
    except LimitError:
        return None


def states_by_matches(scanner: Scanner) -> dict[tuple[int, ...], list[int]]:
    """Return the states of the scanner by the terminals that match there."""
    parts: dict[tuple[int, ...], list[int]] = {}
    offsets, matches = scanner.match_offsets.tolist(), scanner.match_terminals.tolist()
    for state in np.flatnonzero(np.diff(scanner.match_offsets)).tolist():
        parts.setdefault(tuple(matches[offsets[state] : offsets[state + 1]]), []).append(state)
    return parts


def automaton_of(scanner: Scanner, states: list[int]) -> ByteAutomaton:
    """Return the automaton of the texts that end in some states of the scanner."""
    labels = np.zeros(len(scanner.live_row), np.int32)
    labels[states] = 1
    (start,) = scanner.context_start.tolist()
    return smallest_automaton(
        scanner.byte_class, scanner.delta, labels, scanner.copies, start=start
    )


def with_split_patterns(
    grammar: Grammar, automaton_of: Callable[[Terminal], ByteAutomaton], limits: GrammarLimits
) -> tuple[Grammar, list[ByteAutomaton]]:
    """Make rules of terminals that are too large, if they can be cut in two.

    Args:
        grammar: Its rules use no ignored terminal.
        automaton_of: Compiles a terminal.

    Returns:
        A grammar for the same texts, and automata of all its terminals. The parts have the last
        numbers; terminals that were cut are ``refused``.

    Raises:
        LimitError: A terminal is too large and cannot be cut.
    """
    automata, cuts = list[ByteAutomaton](), dict[int, tuple[PatternPart, PatternPart]]()
    for number, terminal in enumerate(grammar.terminals):
        try:
            automata.append(automaton_of(terminal))
        except LimitError:
            is_whole = number in grammar.ignored or terminal.max_tokens is not None
            cut = None if is_whole else split_pattern(terminal, limits)
            if cut is None:
                raise
            cuts[number] = cut
            automata.append(cut[1][1])  # a stand-in: no rule uses the terminal any more
    first = len(automata)
    bodies = {number: [(first + 2 * i, first + 2 * i + 1)] for i, number in enumerate(cuts)}
    parts = [part for cut in cuts.values() for part in cut]
    automata += [automaton for _, automaton in parts]
    return _with_rules(
        grammar, [*grammar.terminals, *(part for part, _ in parts)], bodies
    ), automata


def compile_narrowed(
    terminal: Terminal, limits: GrammarLimits, counting: Counting | None
) -> ByteAutomaton:
    """Return the automaton of a terminal that other patterns narrow.

    All patterns are read at once, as a scanner reads terminals; a text is kept where the right ones
    of them match.

    Args:
        terminal: All of a text, with ``conjoined`` and ``denied``.
        limits: max_states, max_nesting and max_repeat hold for every pattern, and max_states for
            all of them together.
        counting: What may be left out of counted repetitions; None: nothing.

    Returns:
        The smallest automaton. Cost: that of each pattern, and of the tuples of their states that
        texts come to.

    Raises:
        CdecError: As ``compile_terminal``.
    """
    wanted = (terminal.pattern, *terminal.conjoined)
    patterns = [whole_terminal(pattern) for pattern in (*wanted, *terminal.denied)]
    automata = [
        compile_terminal(pattern, prioritised=False, limits=limits, counting=counting)
        for pattern in patterns
    ]
    every = frozenset(range(len(patterns)))
    grammar = Grammar(tuple(patterns), (), (), 0, frozenset(), None, "", "regex")
    scanner = build_scanner(grammar, automata, [every], lexer="dynamic", limits=limits)
    matched = states_by_matches(scanner)
    kept = matched.get(tuple(range(len(wanted))), [])
    return automaton_of(scanner, kept)

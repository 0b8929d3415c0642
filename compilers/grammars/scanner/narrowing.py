"""A regular expression that others narrow: texts that match some of them, and none of the rest."""

from __future__ import annotations

from cdec.compilers.grammars.automata.counting import Counting
from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits, Terminal
from cdec.compilers.grammars.regex.read import whole_terminal
from cdec.compilers.grammars.scanner.build import build_scanner
from cdec.compilers.grammars.scanner.overlaps import automaton_of, states_by_matches


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

"""Scanner and parse tables of a deterministic lexer that lead nowhere but to complete texts.

Lark's lexer does not ask whether a longest match can be used, and its parser does not ask whether
what it shifts can be completed. So a text may be begun that nothing completes. In what is made here
it cannot: every reading of the text stands for itself (the scanner knows which longer matches must
not come, ``product``), and every stack has a completion (the tables know what lies beneath,
``split``). The language is the same: what is left out has no completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cdec.compilers.grammars.parser.conflicts import terminal_name
from cdec.compilers.grammars.scanner.contexts import Contexts
from cdec.compilers.grammars.soundness.adjacency import Letter
from cdec.compilers.grammars.soundness.beneath import find_kinds
from cdec.compilers.grammars.soundness.decide import Readings
from cdec.compilers.grammars.soundness.parts import Parts
from cdec.compilers.grammars.soundness.product import product_scanner
from cdec.compilers.grammars.soundness.split import Splitter


def prune(made: Parts, readings: Readings) -> Parts:
    """Leave out what nothing completes.

    Args:
        made: Of a deterministic lexer.
        readings: What ``decide`` found out about it.

    Returns:
        The same language, and only texts that can be completed. No terminal is ignored any more,
        and one that the pending matches tell apart has copies behind all others. Cost: of the new
        tables and the new scanner, some times those of the old ones.

    Raises:
        LimitError: They are too large.
    """
    grammar, tables = made.grammar, made.tables
    lr_context = made.contexts.of_state.tolist()
    letters = readings.adjacency.letters
    number_of, extra = _numbers(letters, len(grammar.terminals))
    terminals = (*grammar.terminals, *(grammar.terminals[terminal] for terminal in extra))
    new = replace(grammar, terminals=terminals, ignored=frozenset())
    names = [terminal_name(grammar, terminal) for terminal in range(len(grammar.terminals))]
    kinds = find_kinds(tables, readings.completions, readings.ahead)
    skipped = grammar.ignored
    splitter = Splitter(tables, kinds, letters, number_of, readings.ahead, skipped, names)
    split = splitter.run(len(terminals))
    contexts: dict[tuple[int, int], int] = {}
    of_state = np.zeros(split.tables.num_states, np.int32)
    for state, boundary in enumerate(split.boundaries):
        if boundary is not None:
            key = (lr_context[boundary[0]], boundary[1])
            of_state[state] = contexts.setdefault(key, len(contexts))
    after = tuple(
        tuple(np.unique(of_state[states]).tolist()) for states in split.tables.contexts_after
    )
    nowhere = np.full(len(terminals), -1, np.int32)
    nothing = tuple(frozenset[int]() for _ in contexts)
    return Parts(
        new,
        Contexts(nothing, of_state, nowhere, after),
        product_scanner(
            made.scanner, readings.adjacency, list(contexts), number_of, len(terminals)
        ),
        split.tables,
    )


def _numbers(letters: Sequence[Letter], num_terminals: int) -> tuple[list[int], list[int]]:
    """Number letters as terminals: a terminal's first letter as itself, others behind them all.

    Returns:
        The number of each letter, and the terminals that the numbers behind them all stand for.
    """
    met: set[int] = set()
    extra: list[int] = []
    numbers = []
    for terminal, _ in letters:
        if terminal in met:
            numbers.append(num_terminals + len(extra))
            extra.append(terminal)
        else:
            met.add(terminal)
            numbers.append(terminal)
    return numbers, extra

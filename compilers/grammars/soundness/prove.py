"""Proof that every allowed token has a completion; else a grammar that leads to nothing else.

Lark's lexer does not ask whether a longest match can be used, and its parser does not ask whether
what it shifts can be completed. So a text may be begun that nothing completes. In what is pruned it
cannot: every parser configuration stands for itself (the scanner knows which longer matches must
not come), and every stack has a completion (the tables know what lies beneath, ``split``). The
language is the same: what is left out has no completion.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.parser.derivations import Stack, StackParser
from cdec.compilers.grammars.scanner.build import Parts, Scanner, live_rows
from cdec.compilers.grammars.scanner.competition import Contexts
from cdec.compilers.grammars.soundness.coverage import check_coverage
from cdec.compilers.grammars.soundness.decide import MAX_REDUCTIONS, LexerFacts, decide
from cdec.compilers.grammars.soundness.lookahead import Adjacency, Node, TerminalInContext
from cdec.compilers.grammars.soundness.split import Splitter, find_stack_classes
from cdec.compilers.grammars.states import (
    Numbering,
    UncountableError,
    lacks_some,
    merge_classes,
    merged_states,
)
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.grammars.special import MARKER, is_stand_in
from cdec.core.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport

MAX_NODES = 50_000
"""States of the scanner, before equal ones are merged, before the question is left open."""
_MAX_STEPS = 40_000
"""Bytes to try, shortest texts first: some tenths of a second."""
_Configuration = tuple[Stack, int]
"""Stack, and the scanner's state in the terminal that is under way."""
_Configurations = tuple[_Configuration, ...]
"""The configuration under way, then its fallbacks (``cdec.core.grammars.columns``)."""


def product_scanner(
    scanner: Scanner,
    adjacency: Adjacency,
    contexts: Sequence[Node],
    number_of: Sequence[int],
    num_terminals: int,
) -> Scanner:
    """Join a scanner with its pending matches.

    Args:
        scanner: Of a deterministic lexer.
        adjacency: Its letters and pending matches.
        contexts: Of the new scanner: context of the old one, and what is pending.
        number_of: Per letter: the terminal that it is in the new scanner.
        num_terminals: Of the new scanner.

    Returns:
        The smallest such scanner; its states complete letters, as terminals of their own.

    Raises:
        LimitError: More than ``MAX_NODES`` states.
    """
    nodes = Numbering[Node]()
    starts = [nodes((int(scanner.context_start[x]), pending)) for x, pending in contexts]
    rows: list[NDArray[np.int32]] = []
    ready = nodes.keys
    labels: list[int] = []
    while len(rows) < len(ready):
        node = ready[len(rows)]
        letter = adjacency.completed(node)
        labels.append(number_of[letter] + 1 if letter >= 0 else 0)
        states, after = adjacency.step(node)
        row = np.full(len(states), -1, np.int32)
        known: dict[Node, int] = {}
        for place in np.flatnonzero(states >= 0).tolist():
            target = int(states[place]), int(after[place])
            if target not in known:
                known[target] = nodes(target)
            row[place] = known[target]
        rows.append(row)
        if len(ready) > MAX_NODES:
            raise LimitError(f"more than {MAX_NODES} pairs of readings", limit="max_states")
    own = np.array(labels, np.int32)
    begins = np.array(starts, np.int32)
    delta, old, numbers = merged_states(np.stack(rows), own, begins)
    byte_class, delta = merge_classes(scanner.byte_class, delta)
    completes = own[old] > 0
    match_offsets = np.concatenate([[0], np.cumsum(completes)]).astype(np.int32)
    matches = (own[old][completes] - 1).astype(np.int32)
    live = live_rows(delta, match_offsets, matches, num_terminals)
    return Scanner(byte_class, delta, match_offsets, matches, *live, numbers[begins])


def prune(made: Parts, facts: LexerFacts) -> Parts:
    """Leave out what nothing completes.

    Args:
        made: Of a deterministic lexer.
        facts: What ``decide`` found out about it.

    Returns:
        The same language, and only texts that can be completed. No terminal is ignored any more,
        and one that the pending matches tell apart has copies behind all others. Cost: of the new
        tables and the new scanner, some times those of the old ones.

    Raises:
        LimitError: They are too large.
    """
    grammar, tables = made.grammar, made.tables
    lr_context = made.contexts.of_state.tolist()
    letters = facts.adjacency.letters
    number_of, extra = _numbers(letters, len(grammar.terminals))
    terminals = (*grammar.terminals, *(grammar.terminals[terminal] for terminal in extra))
    new = replace(grammar, terminals=terminals, ignored=frozenset())
    classes = find_stack_classes(tables, facts.completions, facts.ahead)
    splitter = Splitter(tables, classes, letters, number_of, facts.ahead, grammar)
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
        product_scanner(made.scanner, facts.adjacency, list(contexts), number_of, len(terminals)),
        split.tables,
    )


def _numbers(
    letters: Sequence[TerminalInContext], num_terminals: int
) -> tuple[list[int], list[int]]:
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


def find_example(whole: Parts, pruned: Parts) -> bytes | None:
    """Return the shortest text that is allowed by the one and not by the other.

    Args:
        whole: Of a deterministic lexer.
        pruned: The same without what nothing completes.

    Returns:
        A text whose last byte leads into a dead end; None where none was met among short texts.
    """
    before, after = _Lexing(whole), _Lexing(pruned)
    classes = _bytes_of_classes(whole, pruned)
    start = before.start, after.start
    seen = {start}
    ready: deque[tuple[_Configurations, _Configurations, bytes]] = deque([(*start, b"")])
    steps = 0
    while ready and steps < _MAX_STEPS:
        left, right, text = ready.popleft()
        steps += len(classes)
        for byte in classes:
            both = before.step(left, byte), after.step(right, byte)
            if not both[0] or both in seen:
                continue
            longer = text + bytes([byte])
            if not both[1]:
                return longer
            seen.add(both)
            ready.append((*both, longer))
    return None


def _bytes_of_classes(whole: Parts, pruned: Parts) -> list[int]:
    """Return a byte of each class that both scanners know, letters where there are some."""
    chosen: dict[tuple[int, int], int] = {}
    letters = [byte for byte in range(128) if chr(byte).isalnum()]
    for byte in [*letters, *range(256)]:
        key = int(whole.scanner.byte_class[byte]), int(pruned.scanner.byte_class[byte])
        chosen.setdefault(key, byte)
    return sorted(chosen.values())


class _Lexing:
    """A deterministic lexer and its parser, a byte at a time."""

    def __init__(self, parts: Parts) -> None:
        scanner = parts.scanner
        self._ignored = parts.grammar.ignored
        self._parser = StackParser(parts.tables, MAX_REDUCTIONS)
        self._byte_class = scanner.byte_class.tolist()
        self._delta = scanner.delta.tolist()
        self._match = np.full(len(scanner.delta), -1, np.int32)
        completes = np.flatnonzero(np.diff(scanner.match_offsets))
        self._match[completes] = scanner.match_terminals[scanner.match_offsets[completes]]
        bounds = scanner.live_offsets.tolist()
        self._live = [
            scanner.live_terminals[bounds[row] : bounds[row + 1]].tolist()
            for row in scanner.live_row.tolist()
        ]
        self._starts = scanner.context_start[parts.contexts.of_state].tolist()
        self._shifted: dict[tuple[Stack, int], Stack | None] = {}
        self.start: _Configurations = (((0,), self._starts[0]),)

    def step(self, configurations: _Configurations, byte: int) -> _Configurations:
        """Return the configurations after a byte; none where the mask would not allow it."""
        after: list[_Configuration] = []
        is_alive = False
        for stack, state in configurations:
            state = self._delta[state][self._byte_class[byte]]
            if state < 0:
                continue
            live = self._live[state]
            if live:
                after.append((stack, state))
                is_alive = is_alive or any(self._shift(stack, t) is not None for t in live)
            if self._match[state] >= 0:
                shifted = self._shift(stack, int(self._match[state]))
                if shifted is not None:
                    after.append((shifted, self._starts[shifted[-1]]))
                    is_alive = True
                break
        return tuple(after) if is_alive else ()

    def _shift(self, stack: Stack, terminal: int) -> Stack | None:
        if terminal in self._ignored:
            return stack
        key = stack, terminal
        if key not in self._shifted:
            self._shifted[key] = self._parser.read(stack, terminal)
        return self._shifted[key]


def prove(made: Parts, lexer: Lexer, vocabulary: Vocabulary, report: GrammarReport) -> Parts:
    """Note in the report whether after every allowed token the text has a completion.

    Returns:
        The parts without what nothing completes, where the lexer lets texts begin so and what is
        left can be told within limits; else the same.

    Raises:
        EmptyLanguageError: No text is in the language.
        UncountableError: Something is to be left out of a scanner that lacks copies.
    """
    found = decide(
        made.grammar,
        made.scanner,
        made.tables,
        lexer=lexer,
        contexts=made.contexts.terminals,
        lr_context=made.contexts.of_state,
    )
    if found.empty:
        raise EmptyLanguageError(
            f"no text satisfies the grammar under `lexer` {lexer}: {found.reason}",
            hint="take `lexer` dynamic, or change the terminals that swallow each other",
            lexer=lexer,
        )
    lexing = lexer != "dynamic"
    is_sound, reason = found.is_sound, found.reason
    if found.facts is not None:
        if lacks_some(made.scanner.copies):
            raise UncountableError  # configurations are told apart by more than counts
        try:
            pruned = prune(made, found.facts)
        except LimitError as limit:
            reason = f"{found.reason} (not left out: {limit.message})"
        else:
            is_sound, reason = True, _left_out(find_example(made, pruned), found.reason)
            # Configurations stand for themselves there, as under ``dynamic``.
            made, lexing = pruned, False
    told = vocabulary
    if any(terminal.is_set for terminal in made.grammar.terminals):
        # What stands for members is no text, and members are looked at where they are given.
        told = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=())
    elif any(is_stand_in(terminal.value) for terminal in made.grammar.terminals):
        # No token ends between the two bytes of a special one, so that the first may be taken for
        # a token; the second is left to be one, as a byte of other characters.
        told = Vocabulary([*vocabulary.token_bytes, bytes([MARKER])], eos_token_ids=())
    coverage = check_coverage(made.grammar, made.scanner, told, lexing=lexing)
    report.is_sound = is_sound and coverage.is_whole
    report.sound_reason = (coverage.reason if is_sound else "") or reason
    report.notices += coverage.notices
    return made


def _left_out(example: bytes | None, why: str) -> str:
    """Say what was pruned, by an example where there is one."""
    if example is None:
        return f"what nothing completes is left out ({why})"
    text = json.dumps(example.decode("utf-8", "backslashreplace"), ensure_ascii=False)
    text = text.replace("\\\\x", "\\x")  # half a character
    return f"what nothing completes is left out, such as texts that begin {text}"

"""Decision of soundness and emptiness: completions of all that a lexer and its parser begin.

*Sound* means: after every allowed token the text still has a completion. The generalised parser
gives that by itself: it holds viable prefixes of a grammar without useless rules. A deterministic
lexer does not: what it reads as one long terminal is not there as two short ones, and the next
terminal may never come. So all pairs (LR state after a shift, pending matches) that can occur are
collected (``completions``), for each the ways to go on are computed, and every stack below such a
pair is walked down: some way must lead to the end of the text. The stacks walked are all paths of
the LR automaton, a few more than the parser can build. So a proof holds, and a failure may be
spurious: a search for a real stack without completion then decides whether the reason says
"unsound" or "unproved".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar, Lexer
from cdec.compilers.grammars.parser.derivations import Stack, StackParser
from cdec.compilers.grammars.parser.tables import ParseTables, bits, terminal_name
from cdec.compilers.grammars.soundness.completions import (
    ACCEPT,
    Boundary,
    Completions,
    Ways,
    drop_dominated_letters,
    find_boundaries,
)
from cdec.compilers.grammars.soundness.lookahead import (
    NOTHING_PENDING,
    Adjacency,
    TerminalInContext,
)
from cdec.core.errors import LimitError

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner


_MAX_SEARCHED = 3_000
"""Stacks to look at, shortest texts first."""
MAX_REDUCTIONS = 10_000
"""Reductions before one terminal, beyond which it is taken for refused: the search misses that."""
_MAX_STACKS = 200_000
"""Pairs (LR state, ways on from above it) that the proof may visit."""


def all_prefixes_viable(
    tables: ParseTables,
    letters: Sequence[TerminalInContext],
    ahead: Mapping[Boundary, int],
    ignored: frozenset[int],
) -> bool:
    """Say whether every stack has a completion because no boundary withholds a terminal.

    Args:
        ahead: Per boundary that can occur: the letters that can follow, as bits, ignored terminals
            between left out of account.
        ignored: Ignored terminals: the parser does not see them where a rule names them, either.

    Returns:
        True is a proof; False decides nothing. Cost: of the letters of every distinct set.
    """
    if not tables.is_whole:
        return False
    following: dict[int, frozenset[int]] = {}
    for (state, _), numbers in ahead.items():
        if numbers not in following:
            found = frozenset(letters[number].terminal for number in bits(numbers))
            following[numbers] = found - ignored
        if not tables.accepts[state] <= following[numbers]:
            return False
    return True


def find_dead_end(
    tables: ParseTables,
    adjacency: Adjacency,
    ahead: Mapping[Boundary, int],
    completions: Completions,
    ignored: frozenset[int],
) -> list[int] | None:
    """Return terminals after which no completion exists, or None if no such text was met.

    Only stacks with nothing pending count: else the pending match may still complete the text.

    Args:
        adjacency: Letters and pending matches.
        ahead: Per boundary: the letters that can follow, ignored ones between.
    """
    parser = StackParser(tables, MAX_REDUCTIONS)
    start: tuple[Stack, int] = ((0,), NOTHING_PENDING)
    seen = {start}
    ready: deque[tuple[Stack, int, list[int]]] = deque([(*start, [])])
    while ready:
        stack, pending, text = ready.popleft()
        if pending == NOTHING_PENDING and not _completes(stack, pending, completions):
            return text
        for number in bits(ahead[stack[-1], pending]):
            letter = adjacency.letters[number]
            if letter.terminal in ignored:
                continue
            after = parser.read(stack, letter.terminal)
            if after is not None and (after, letter.pending) not in seen:
                if len(seen) >= _MAX_SEARCHED:
                    return None
                seen.add((after, letter.pending))
                ready.append((after, letter.pending, [*text, letter.terminal]))
    return None


def _completes(stack: Stack, pending: int, completions: Completions) -> bool:
    """Return whether some text completes this very stack."""
    ways = completions.of((stack[-1], pending))
    for state in reversed(stack[:-1]):
        ways = completions.under(state, ways)
    return ACCEPT in ways


class LexerFacts(NamedTuple):
    """Findings about a deterministic lexer and its parser.

    Attributes:
        adjacency: Letters and pending matches.
        ahead: Per boundary: the letters that can follow, ignored ones among them, as bits.
        completions: How stacks can be completed.
    """

    adjacency: Adjacency
    ahead: Mapping[Boundary, int]
    completions: Completions


@dataclass(frozen=True, slots=True)
class Soundness:
    """Findings about the completions of a grammar's texts.

    Attributes:
        empty: No text is in the language; None: not decided within limits.
        is_sound: Proved: after every allowed token the text has a completion.
        reason: What proves it, or what stands in the way.
        facts: Where it is not proved: what ``prune`` goes on with, if that is known.
    """

    empty: bool | None
    is_sound: bool
    reason: str
    facts: LexerFacts | None = field(default=None, compare=False, repr=False)


_SOUND = Soundness(
    False, True, "every stack of the parser has a completion that the lexer lets pass"
)


def decide(
    grammar: Grammar,
    scanner: Scanner,
    tables: ParseTables,
    lexer: Lexer,
    *,
    contexts: Sequence[frozenset[int]],
    lr_context: NDArray[np.int32],
) -> Soundness:
    """Decide emptiness and soundness of a compiled grammar.

    Args:
        grammar: Analysed.
        scanner: Of this grammar and lexer.
        tables: Generalised ones for ``dynamic``, else LALR(1).
        lexer: ``contextual``, ``basic`` or ``dynamic``.
        contexts: The scanner's contexts: competing terminals.
        lr_context: int32[N] context of each LR state.

    Returns:
        The findings. Cost: C, 255 LR states: 0.3 s.
    """
    if lexer == "dynamic":
        productive = any(rule.lhs == grammar.start for rule in tables.rules)
        if tables.start_nullable or productive:
            return Soundness(False, True, "the generalised parser keeps viable prefixes only")
        return Soundness(True, False, "the start rule derives no text")
    try:
        return _Lexing(grammar, scanner, tables, contexts, lr_context).decide()
    except LimitError as limit:
        return Soundness(None, False, f"soundness unproved: {limit.message}")


class _Lexing:
    """The decision under a deterministic lexer."""

    def __init__(
        self,
        grammar: Grammar,
        scanner: Scanner,
        tables: ParseTables,
        contexts: Sequence[frozenset[int]],
        lr_context: NDArray[np.int32],
    ) -> None:
        self._grammar = grammar
        self._tables = tables
        self._context = lr_context.tolist()
        self._adjacency = Adjacency(scanner, grammar.ignored, self._shiftable(len(contexts)))
        self._ahead = find_boundaries(tables, self._adjacency, self._context)
        self._letters = self._adjacency.letters

    def _shiftable(self, num_contexts: int) -> list[int]:
        """Return, per context, what is shifted without a reduction in all its states, as bits."""
        found = [-1] * num_contexts
        tables = self._tables
        for state, symbol in enumerate(tables.access_symbol.tolist()):
            if state and symbol < 0:
                continue  # terminals begin after a shift, or at the start
            begin, stop = tables.action_offsets[state : state + 2].tolist()
            shifts = tables.action_values[begin:stop] >= 0
            terminals = tables.action_terminals[begin:stop][shifts].tolist()
            found[self._context[state]] &= sum(1 << terminal for terminal in terminals)
        return [max(terminals, 0) for terminals in found]

    def decide(self) -> Soundness:
        stuck_terminal = self._stuck_terminal()
        known = self._tables, self._letters, self._ahead, self._grammar.ignored
        if not stuck_terminal and all_prefixes_viable(*known):
            return _SOUND
        completions = Completions(self._tables, self._letters, drop_dominated_letters(*known))
        if ACCEPT not in completions.of((0, NOTHING_PENDING)):
            return Soundness(
                True, False, "the lexer takes the longest terminals and the rules never complete"
            )
        failure = self._stuck_stack(completions) or stuck_terminal
        if failure is None:
            return _SOUND
        dead_end = find_dead_end(
            self._tables, self._adjacency, self._ahead, completions, self._grammar.ignored
        )
        reason = f"soundness unproved: {failure}"
        if dead_end is not None:
            names = " ".join(terminal_name(self._grammar, terminal) for terminal in dead_end)
            reason = f"unsound: nothing completes a text that begins {names}"
        facts = LexerFacts(self._adjacency, self._ahead, completions)
        return Soundness(False, False, reason, facts)

    def _stuck_stack(self, completions: Completions) -> str | None:
        """Walk down the stacks under every boundary; return what is wrong, or None."""
        seen: list[list[Ways]] = [[] for _ in range(self._tables.num_states)]
        waiting: list[tuple[int, Ways]] = []
        for boundary in self._ahead:
            ways = completions.of(boundary)
            if not (ways if boundary[0] else ACCEPT in ways):
                return f"nothing can follow {self._name_of(boundary[0])}"
            waiting.append((boundary[0], ways))
        visited = 0
        while waiting:
            state, ways = waiting.pop()
            if any(_contains(ways, less) for less in seen[state]):
                continue
            seen[state].append(ways)
            visited += 1
            if visited > _MAX_STACKS:
                raise LimitError(f"more than {_MAX_STACKS} stacks to look at", limit="max_states")
            for below in completions.predecessors[state]:
                left = completions.under(below, ways)
                if not (left if below else ACCEPT in left):
                    return f"{self._name_of(state)} after {self._name_of(below)} may be a dead end"
                if below:
                    waiting.append((below, left))
        return None

    def _stuck_terminal(self) -> str | None:
        """Return a terminal that may begin and that a pending match bars from ending, or None."""
        contexts: dict[tuple[int, int], int] = {}
        examples: dict[tuple[int, int], int] = {}
        for state, pending in self._ahead:
            if pending != NOTHING_PENDING:
                key = (self._context[state], pending)
                accepted = sum(1 << terminal for terminal in self._tables.accepts[state])
                contexts[key] = contexts.get(key, 0) | accepted
                examples.setdefault(key, state)
        skipped = sum(1 << terminal for terminal in self._grammar.ignored)
        for key, accepted in contexts.items():
            for barred, possible in self._adjacency.blocked(*key).values():
                if barred & (accepted | skipped) and not possible & skipped:
                    name = terminal_name(self._grammar, bits(barred)[0])
                    return (
                        f"right after {self._name_of(examples[key])}, {name} may be begun with "
                        "bytes that belong to a longer terminal, which the parser then refuses"
                    )
        return None

    def _name_of(self, state: int) -> str:
        """Return the symbol that leads to an LR state."""
        symbol = int(self._tables.access_symbol[state])
        if state == 0:
            return "the start"
        if symbol < 0:
            return self._tables.nonterminals[~symbol]
        return terminal_name(self._grammar, symbol)


def _contains(ways: Ways, less: Ways) -> bool:
    """Return whether ``ways`` has all of ``less``: what ``less`` can complete, it can."""
    return all(way in ways and not letters & ~ways[way] for way, letters in less.items())

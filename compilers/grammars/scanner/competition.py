"""Competition of terminals: contexts, keywords, ignored terminals, and where each begins.

Contexts are read off the parse tables. A literal K is a keyword of a regular expression R of equal
priority if R's match on K's text is all of it (``_create_unless`` in lark's lexer). Where both
compete, a text that R matched and K matches in full is a K. If moreover K's flags are among R's, K
is embedded: it does not compete by itself. Ignored terminals that may yet reach the parser get a
copy, so that one is read, one dropped.

A scanner state is a row of codes, ascending: ``2 * state`` of a terminal's automaton (states of all
terminals are numbered through) where the terminal competes; plus 1 where it is followed only to
know whether a text is a keyword. The first terminal that completes beats all behind it for good, as
in one large alternation; a keyword is followed while an expression that becomes it competes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.terminal import packed
from cdec.compilers.grammars.definition import NOTHING, ByteAutomaton, Grammar, Lexer, Terminal

if TYPE_CHECKING:
    from cdec.compilers.grammars.parser.tables import ParseTables


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a grammar, X of them, none twice.

    Attributes:
        terminals: The competing terminals of each context.
        of_state: int32[N] context while this LR state is on top (dynamic: [0] only).
        of_terminal: int32[T] dynamic: context after this terminal; else -1.
        after: For each terminal the contexts that may hold once it is complete, ascending.
    """

    terminals: tuple[frozenset[int], ...]
    of_state: NDArray[np.int32]
    of_terminal: NDArray[np.int32]
    after: tuple[tuple[int, ...], ...]


def find_contexts(grammar: Grammar, tables: ParseTables, lexer: Lexer) -> Contexts:
    """Return the contexts that a lexer distinguishes.

    Args:
        grammar: Analysed.
        tables: Of this grammar; generalised ones for ``dynamic``.
        lexer: ``contextual``: terminals with an action in lark's LR state, and ignored ones, as
            its contextual lexer has them. ``basic``: all. ``dynamic``: terminals that can follow
            the last one by the tables, a superset of those the parser will accept; but for those
            that never follow themselves.

    Returns:
        Contexts. Cost: O(actions).
    """
    if lexer == "dynamic":
        return _dynamic(grammar, tables)
    everywhere = frozenset(range(len(grammar.terminals)))
    numbers: dict[frozenset[int], int] = {}
    of_state = np.zeros(tables.num_states, np.int32)
    for state, accepted in enumerate(tables.competing):
        competing = accepted | grammar.everywhere
        chosen = everywhere if lexer == "basic" else frozenset(competing)
        of_state[state] = numbers.setdefault(chosen, len(numbers))
    after = [
        tuple(range(len(numbers)))  # an ignored terminal leaves the stack, and so the context
        if terminal in grammar.ignored
        else tuple(np.unique(of_state[_states_after(tables, terminal)]).tolist())
        for terminal in range(len(grammar.terminals))
    ]
    nowhere = np.full(len(grammar.terminals), -1, np.int32)
    return Contexts(tuple(numbers), of_state, nowhere, tuple(after))


def _dynamic(grammar: Grammar, tables: ParseTables) -> Contexts:
    everywhere = frozenset(range(len(grammar.terminals))) - grammar.refused
    numbers: dict[frozenset[int], int] = {}
    first = frozenset(tables.accepts[0] | grammar.ignored)
    of_state = np.full(tables.num_states, numbers.setdefault(first, 0), np.int32)
    of_terminal = np.zeros(len(grammar.terminals), np.int32)
    for terminal in range(len(grammar.terminals)):
        chosen = everywhere - ({terminal} & grammar.alone)
        if terminal not in grammar.ignored:
            states: Sequence[int] = _states_after(tables, terminal).tolist()
            chosen = grammar.ignored.union(*(tables.accepts[state] for state in states))
        of_terminal[terminal] = numbers.setdefault(frozenset(chosen), len(numbers))
    after = tuple((context,) for context in of_terminal.tolist())
    return Contexts(tuple(numbers), of_state, of_terminal, after)


def _states_after(tables: ParseTables, terminal: int) -> NDArray[np.int64]:
    """Return the LR states that shifting a terminal leads to."""
    return np.asarray(sorted(tables.contexts_after[terminal]), np.int64)


class Keywords(NamedTuple):
    """Regular expressions by keyword: terminal numbers, ascending.

    retyped: Those whose matches become the keyword. embedding: Those that keep it from competing.
    """

    retyped: dict[int, tuple[int, ...]]
    embedding: dict[int, tuple[int, ...]]


def find_keywords(terminals: Sequence[Terminal], automata: Sequence[ByteAutomaton]) -> Keywords:
    """Return the keywords among ``terminals``.

    Args:
        terminals: In the order in which they compete.
        automata: Prioritised, one a terminal.

    Returns:
        The relation over all terminals; it holds in a context where both are. Cost: regular
        expressions x bytes of literals of the same priority.
    """
    literals: dict[int, list[tuple[int, bytes]]] = {}
    for number, terminal in enumerate(terminals):
        # Of the literals of a list all or none are keywords, so one speaks for all.
        spelled = _spelled(terminal.literals[0]) if terminal.is_string else b""
        if spelled:
            literals.setdefault(terminal.priority, []).append((number, spelled))
    retyped: dict[int, list[int]] = {}
    embedding: dict[int, list[int]] = {}
    for number, terminal in enumerate(terminals):
        if terminal.is_string or terminal.priority not in literals:
            continue
        for keyword in _matched(automata[number], literals[terminal.priority]):
            retyped.setdefault(keyword, []).append(number)
            if terminals[keyword].flags <= terminal.flags:
                embedding.setdefault(keyword, []).append(number)
    return Keywords(
        {keyword: tuple(numbers) for keyword, numbers in retyped.items()},
        {keyword: tuple(numbers) for keyword, numbers in embedding.items()},
    )


def _spelled(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # no UTF-8 text holds a lone surrogate
        return b""


def _matched(automaton: ByteAutomaton, literals: Sequence[tuple[int, bytes]]) -> list[int]:
    """Return the literals on which the automaton's match is the whole text."""
    delta = packed(automaton)
    rows, byte_class = delta.rows.tolist(), delta.byte_class.tolist()
    accepting = automaton.accepting
    found = []
    for number, text in literals:
        state = 0
        for byte in text:
            state = rows[state][byte_class[byte]]
            if state < 0:
                break
        if state >= 0 and accepting[state]:
            found.append(number)
    return found


def with_ignored_copies(grammar: Grammar) -> Grammar:
    """Give every ignored terminal that a rule uses an ignored copy, and stop ignoring itself.

    In ``start: A "c" A`` with ``%ignore "c"`` each ``c`` may be dropped or read. Only ``dynamic``
    follows both: the other lexers drop such a terminal wherever they meet it, as lark does.

    Args:
        grammar: Analysed, so that every rule is in use.

    Returns:
        A grammar for the same texts in which no rule uses an ignored terminal; the copies have the
        last numbers and the names of their originals. Cost: linear in the rules.
    """
    used = {symbol for rule in grammar.rules for symbol in rule.rhs if symbol >= 0}
    both = sorted(grammar.ignored & used)
    if not both:
        return grammar
    first = len(grammar.terminals)
    return replace(
        grammar,
        terminals=grammar.terminals + tuple(grammar.terminals[number] for number in both),
        ignored=(grammar.ignored - used) | set(range(first, first + len(both))),
    )


def with_keyword_copies(grammar: Grammar, automata: Sequence[ByteAutomaton]) -> Grammar:
    """Give every ignored keyword a copy for the places where lark's lexer does not ignore it.

    Lark drops what an ignored terminal matched; a text that another expression matched and that
    then becomes an ignored keyword is handed to the parser. So under ``%ignore " "`` beside
    ``TEXT: /[^<]+/`` a lone space, where TEXT competes, is a token that the rules must name.

    Args:
        grammar: Any; for ``contextual`` and ``basic``.
        automata: One a terminal, prioritised.

    Returns:
        The grammar with rules that name the copies; these match nothing by themselves, and have the
        last numbers and their originals' names. Cost: as ``find_keywords``.
    """
    if not any(grammar.terminals[number].is_string for number in grammar.ignored):
        return grammar
    retyped = find_keywords(grammar.terminals, automata).retyped
    handed = [
        number
        for number in sorted(grammar.ignored & retyped.keys())
        if not grammar.ignored.issuperset(retyped[number])
    ]
    if not handed:
        return grammar
    copy = {number: len(grammar.terminals) + i for i, number in enumerate(handed)}
    copies = [
        replace(grammar.terminals[number], pattern=NOTHING, is_string=False) for number in handed
    ]
    rules = [
        replace(rule, rhs=tuple(copy.get(symbol, symbol) for symbol in rule.rhs))
        for rule in grammar.rules
    ]
    return replace(grammar, terminals=(*grammar.terminals, *copies), rules=tuple(rules))


def read_copies(grammar: Grammar) -> dict[int, int]:
    """Return, of ignored terminals that have one, the copy that is not ignored."""
    read = {
        terminal.name: number
        for number, terminal in enumerate(grammar.terminals)
        if number not in grammar.ignored
    }
    names = {number: grammar.terminals[number].name for number in grammar.ignored}
    return {number: read[name] for number, name in names.items() if name in read}


class Competitors(NamedTuple):
    """The automata of T terminals side by side, over common byte classes, and their keywords.

    Attributes:
        offsets: int64[S + 1].
        kinds, targets: int32, edges of a state by byte class.
        accepts: bool[S].
        owners: int32[S] terminal of a state.
        keyword_offsets: int64[T + 1].
        expressions: int32, the regular expressions that become each keyword.
        classes: Number of byte classes.
        competing: Whether terminals compete; otherwise each goes its own way.
    """

    offsets: NDArray[np.int64]
    kinds: NDArray[np.int32]
    targets: NDArray[np.int32]
    accepts: NDArray[np.bool_]
    owners: NDArray[np.int32]
    keyword_offsets: NDArray[np.int64]
    expressions: NDArray[np.int32]
    classes: int
    competing: bool


def start_codes(
    contexts: Sequence[frozenset[int]], bases: list[int], keywords: Keywords, terminals: Competitors
) -> Iterator[NDArray[np.int32]]:
    """Yield the codes in which each context's terminals begin; embedded keywords do not compete.

    Args:
        contexts: Sets of terminals.
        bases: First state of each terminal.
        keywords, terminals: Of the grammar.
    """
    ends, expressions = terminals.keyword_offsets.tolist(), terminals.expressions.tolist()
    for context in contexts:
        embedded = {t for t in context if not context.isdisjoint(keywords.embedding.get(t, ()))}
        competing = context - embedded
        codes = [
            bases[t] << 1 | (t in embedded)
            for t in sorted(context)
            if t in competing or not competing.isdisjoint(expressions[ends[t] : ends[t + 1]])
        ]
        yield np.array(codes, np.int32)


def completed(
    terminals: Competitors,
    becomes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    codes: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (match_offsets int64[n + 1], match_terminals int32): what each state completes.

    Args:
        becomes: int32[T] what a text is that became a keyword.
        offsets, codes: int64[n + 1] and int32, the rows of the states.
    """
    n = len(offsets) - 1
    ends = np.flatnonzero(terminals.accepts[codes >> 1])
    states = np.repeat(np.arange(n), np.diff(offsets))[ends]
    owners = terminals.owners[codes[ends] >> 1]
    places = np.flatnonzero(codes[ends] & 1 == 0)
    if terminals.competing:
        places = places[np.unique(states[places], return_index=True)[1]]
    matches = owners[places]
    match_offsets = np.searchsorted(states[places], np.arange(n + 1)).astype(np.int64)
    if terminals.competing:
        winner = np.full(n, -1, np.int32)
        winner[states[places]] = matches
        keyword = _first_keywords(terminals, states, owners, winner)
        retyped = np.flatnonzero(keyword >= 0)
        winner[retyped] = becomes[keyword[retyped]]
        matches = winner[states[places]]
    return match_offsets, matches


def _first_keywords(
    terminals: Competitors,
    states: NDArray[np.int64],
    ended: NDArray[np.int32],
    winner: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Return the first keyword that the text of each state's winner is, -1 for none: int32[n].

    Args:
        states, ended: int[m] states, ascending, and each terminal whose text ends there.
        winner: int32[n] the first of them that competes, -1 for none.
    """
    found = np.full(len(winner), -1, np.int32)
    counts = np.diff(terminals.keyword_offsets)[ended]
    which = np.repeat(np.arange(len(states)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    expressions = terminals.expressions[terminals.keyword_offsets[ended[which]] + within]
    which = which[expressions == winner[states[which]]]
    became, first = np.unique(states[which], return_index=True)
    found[became] = ended[which[first]]
    return found

"""Texts that are lost where conflicts are decided for shifting: a search, and the notice of one.

That a conflict is resolved for shifting may leave the language as it is: an ``else`` that could
belong to either of two statements is taken by the inner one, and no text is refused. Or it may not:
with ``start: atom (bond? atom)*``, ``atom: "C" (bond? DIGIT)*``, ``bond: "="`` the ``=`` of ``C=C``
is taken for a digit's. Which of the two it is cannot be decided in general. Here the parser goes on
both ways at once, from a shortest text that leads to the conflict: as the tables do, and as if the
rule had ended. A text that the second way goes on reading and the first does not is lost. Where
none is found with so much work, it is taken that there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from cdec.compilers.grammars.automata.terminal import PackedDelta, packed
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar
from cdec.compilers.grammars.parser.derivations import Derivations, Place, Stack
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.core.errors import Notice

_PLACES = 200
_TERMINALS = 3
"""Of each conflict are tried, and so many conflicts."""
_WORK = 30_000
"""Stacks that are made in all; about a quarter of a second."""
_ITEMS = 100_000
"""Items that are looked at in all on the way to conflicts; about as much."""
_TRIED = 200
_PREFERRED = (
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    b" !#$%&()*+,-./:;<=>?@[]^_{|}~\"'\\"
)
_ORDER = (*_PREFERRED, *(byte for byte in range(256) if byte not in _PREFERRED))


def lost_texts(derivations: Derivations, tables: ParseTables) -> Iterator[tuple[int, ...]]:
    """Look for texts that the rules allow and that the tables refuse.

    Args:
        derivations: Of the tables.
        tables: LALR(1), with the conflicts in which the shift was taken.

    Yields:
        Terminals in order. Cost: at most half a second in all.
    """
    places: dict[int, set[Place]] = {}
    for conflict in tables.resolved[:_PLACES]:
        for terminal in conflict.terminals[:_TERMINALS]:
            found = places.setdefault(terminal, set())
            found.update(Place(conflict.state, rule, terminal) for rule in conflict.rules)
    searches = [
        _Search(derivations, place, stack, symbols)
        for terminal, found in sorted(places.items())
        for place, stack, symbols in derivations.reach(found, terminal, _ITEMS // len(places))
    ]
    # Each gets a little, and what is left is shared among those that have not come to an end.
    share = 200
    while searches and derivations.work < _WORK:
        for search in searches:
            yield from search.go_on(derivations.work + share)
        searches = [search for search in searches if not search.is_over]
        share *= 2


class _Search:
    """Texts from one conflict on, shortest first, that are read in both ways."""

    def __init__(
        self, derivations: Derivations, place: Place, stack: Stack, symbols: list[int]
    ) -> None:
        self.is_over = False
        self._derivations = derivations
        self._steps = self._run(derivations, place, stack, symbols)

    def go_on(self, work: int) -> Iterator[tuple[int, ...]]:
        """Read on until so much work is done; yield the lost texts that are met."""
        while self._derivations.work < work:
            lost = next(self._steps, ())
            if lost == ():
                self.is_over = True
                return
            if lost is not None:
                yield lost

    def _run(
        self, derivations: Derivations, place: Place, stack: Stack, symbols: list[int]
    ) -> Iterator[tuple[int, ...] | None]:
        """Yield None after every step, or a lost text."""
        before = derivations.text_of(symbols)
        if before is None:
            return
        taken: Stack | None = (0,)
        for terminal in before:
            taken = None if taken is None else derivations.read(taken, terminal)
        after = derivations.ends_here(stack, place)
        met: set[tuple[Stack, Stack]] = set()
        ahead: deque[tuple[tuple[int, ...], list[Stack], Stack | None]] = deque()
        ahead.append(((*before, place.terminal), after, taken))
        while ahead:
            text, stacks, taken = ahead.popleft()
            taken = None if taken is None else derivations.read(taken, text[-1])
            for stack in stacks:
                if taken is None:
                    yield _whole(derivations, text, stack)
                elif stack != taken and (stack, taken) not in met:
                    met.add((stack, taken))
                    for terminal in derivations.ahead(stack):
                        following = derivations.stacks_after(stack, terminal)
                        if following:
                            ahead.append(((*text, terminal), following, taken))
                        yield None


def _whole(derivations: Derivations, text: tuple[int, ...], stack: Stack) -> tuple[int, ...] | None:
    """Return a text with what ends it; None where that is long."""
    if text[-1] == derivations.end:
        return text[:-1]
    rest = derivations.completion(stack)
    return None if rest is None else (*text, *rest)


def text_lost_by_shifting(
    grammar: Grammar, tables: ParseTables, automata: Sequence[ByteAutomaton]
) -> str | None:
    """Return a text that the rules allow and that lark's parser refuses for its shifts.

    Where one of two terminals that both match is what the rules need, and the other one what the
    tables go on with, nothing is lost: so each candidate is spelled, with blanks between if blanks
    are ignored, and read as lark's contextual lexer and LALR parser would.

    Args:
        tables: LALR(1); some conflicts were resolved for shifting.
        automata: Prioritised, one a terminal.

    Returns:
        None where no such text was found, which does not prove that there is none. Cost: at most
        half a second.
    """
    derivations = Derivations(tables)
    lexer = _Lexer(grammar, tables, automata)
    blank = lexer.blank()
    for terminals in islice(lost_texts(derivations, tables), _TRIED):
        words = [lexer.shortest(terminal) for terminal in terminals]
        if any(word is None for word in words):
            continue
        spelled = [word for word in words if word is not None]
        text = blank.join(spelled)
        if not lexer.accepts(derivations, text):
            return text.decode()
    return None


def shift_notice(grammar: Grammar, tables: ParseTables, lost: str | None) -> Notice:
    """Return the notice about shift/reduce conflicts, the first of them by name."""
    names = [*(terminal.name for terminal in grammar.terminals), "the end"]
    first = tables.resolved[0]
    rule = tables.rules[first.rules[0]]
    ended, ahead = tables.nonterminals[rule.lhs], names[first.terminals[0]]
    count = len(tables.resolved)
    refused = "no text was found that this refuses"
    if lost is not None:
        refused = f"this refuses {lost!r}, which `lexer` dynamic takes"
    details: dict[str, object] = {"count": count, "terminal": ahead, "rule": ended}
    return Notice(
        "W_SHIFT_REDUCE",
        f"in {count} states a rule could end or go on, and going on was chosen, as Lark does "
        f"(the first: before {ahead}, where {ended} could end); {refused}",
        details if lost is None else {**details, "text": lost},
    )


class _Lexer:
    """Lark's contextual lexer on short texts, by the automata of terminals."""

    def __init__(
        self, grammar: Grammar, tables: ParseTables, automata: Sequence[ByteAutomaton]
    ) -> None:
        self._grammar = grammar
        self._competing = tables.competing
        self._automata = automata
        self._deltas: dict[int, PackedDelta] = {}
        self._words: dict[int, bytes | None] = {}

    def blank(self) -> bytes:
        """Return the shortest ignored blank; none: the empty text."""
        words = [self.shortest(terminal) for terminal in sorted(self._grammar.ignored)]
        return min((word for word in words if word and word.isspace()), key=len, default=b"")

    def shortest(self, terminal: int) -> bytes | None:
        """Return a shortest text of a terminal that is not empty, of letters if possible."""
        if terminal not in self._words:
            self._words[terminal] = self._search(terminal)
        return self._words[terminal]

    def accepts(self, derivations: Derivations, text: bytes) -> bool:
        """Say whether lark's lexer and parser read a text to its end."""
        stack: Stack | None = (0,)
        place = 0
        while stack is not None and place < len(text):
            terminal, length = self._next(stack[-1], text, place)
            if terminal < 0:
                return False
            place += length
            if terminal not in self._grammar.ignored:
                stack = derivations.read(stack, terminal)
        return stack is not None and derivations.read(stack, derivations.end) is not None

    def _next(self, state: int, text: bytes, place: int) -> tuple[int, int]:
        """Return the terminal that is read in a state and its length; -1 where none is."""
        for terminal in sorted(self._competing[state] | self._grammar.ignored):
            length = self._match(terminal, text, place)
            if length:
                return self._keyword(state, terminal, text[place : place + length]), length
        return -1, 0

    def _keyword(self, state: int, terminal: int, word: bytes) -> int:
        """Return the literal that a regular expression's match is, where that competes."""
        terminals = self._grammar.terminals
        for other in sorted(self._competing[state]):
            literal = terminals[other]
            if not terminals[terminal].is_string and literal.is_string:
                same = literal.priority == terminals[terminal].priority
                if same and literal.value.encode("utf-8", "replace") == word:
                    return other
        return terminal

    def _match(self, terminal: int, text: bytes, place: int) -> int:
        delta, accepting = self._delta(terminal), self._automata[terminal].accepting
        state = length = 0
        for number in range(place, len(text)):
            state = int(delta[state, text[number]])
            if state < 0:
                break
            if accepting[state]:
                length = number + 1 - place
        return length

    def _delta(self, terminal: int) -> PackedDelta:
        if terminal not in self._deltas:
            self._deltas[terminal] = packed(self._automata[terminal])
        return self._deltas[terminal]

    def _search(self, terminal: int) -> bytes | None:
        literal = self._grammar.terminals[terminal]
        if literal.is_string:
            return literal.value.encode("utf-8", "replace") or None
        delta, accepting = self._delta(terminal), self._automata[terminal].accepting
        came: dict[int, bytes] = {0: b""}
        todo = deque([0])
        while todo:
            state = todo.popleft()
            targets = delta[state]
            for byte in _ORDER:
                target = int(targets[byte])
                if target >= 0 and accepting[target]:
                    return came[state] + bytes([byte])
                if target >= 0 and target not in came:
                    came[target] = came[state] + bytes([byte])
                    todo.append(target)
        return None

"""A text that a grammar loses where its conflicts are decided for shifting, spelled and checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from cdec.compilers.grammars.automata.terminal import PackedDelta, packed
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar
from cdec.compilers.grammars.parser.derivations import Derivations, Stack
from cdec.compilers.grammars.parser.differences import lost_texts
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.core.errors import Notice

_TRIED = 200
_PREFERRED = (
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    b" !#$%&()*+,-./:;<=>?@[]^_{|}~\"'\\"
)
_ORDER = (*_PREFERRED, *(byte for byte in range(256) if byte not in _PREFERRED))


def text_lost_by_shifting(
    grammar: Grammar, tables: ParseTables, automata: Sequence[ByteAutomaton]
) -> str | None:
    """Return a text that the rules allow and that lark's parser refuses for its shifts.

    Where one of two terminals that both match is what the rules need, and the other one what the
    tables go on with, nothing is lost: so each candidate is spelled, with blanks between if blanks
    are ignored, and read as lark's contextual lexer and LALR parser would.

    Args:
        grammar: The grammar.
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

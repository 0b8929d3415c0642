"""Completions of the parser's stacks: how the rules under way can end, before which terminals.

The parser is a pushdown system whose input is chosen letter by letter (``lookahead``), so whether
some text completes a stack is a question of reachability (Bouajjani, Esparza and Maler 1997). For
an LR parser the answer has a simple form: a state p leaves the stack when what follows the dot in
one of its kernel items ``A -> x . y`` has been parsed and the item is reduced. So for every
*boundary* (state after a shift, pending matches) and every *head* (state after a reduction, next
letter) the set of its *ways* is computed: kernel items, with the letters before which each may be
reduced.

All sets of letters are the bits of integers; ways are computed as a least fixpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from cdec.compilers.grammars.parser.tables import ParseTables, action_rows, bits, goto_rows
from cdec.compilers.grammars.soundness.lookahead import (
    NOTHING_PENDING,
    Adjacency,
    TerminalInContext,
)
from cdec.compilers.grammars.states import Numbering
from cdec.core.errors import LimitError

Way = tuple[int, int]
"""A rule, and how many symbols of it are on the stack: from the state in question downwards."""
ACCEPT: Way = (-1, 0)
"""The way in which the text ends and is complete."""
Ways = dict[Way, int]
Boundary = tuple[int, int]
"""LR state reached by a shift (or 0), set of pending matches."""
_BOUNDARY, _LETTER, _CROWD = range(3)
_Head = tuple[int, int, int]
"""LR state after a shift and number of a set of letters, ``_BOUNDARY``; or LR state after a
reduction and letter, ``_LETTER``; or such a state and number of a large set, ``_CROWD``."""
_MANY = 24
"""Letters that are looked up one by one; of more, their union is a head of its own."""
_MAX_WAYS = 4_000_000
"""Ways that may be taken over from one state to the one below, half a microsecond each."""
_ROUNDS = 3
_MAX_RIVALS = 40
"""Letters of one terminal that are compared with each other."""


class Completions:
    """Ways of boundaries and heads.

    Attributes:
        predecessors: Per LR state: the states it can stand on.
        reductions: Per LR state: rules it reduces by, their lengths, and before which letters.
        shifts: Per LR state: terminal -> state; the end of the text is ``end_terminal``.
        gotos: Per LR state: nonterminal -> state.
        following: All letters that can follow a boundary, and the end of the text, as bits.
    """

    def __init__(
        self,
        tables: ParseTables,
        letters: Sequence[TerminalInContext],
        ahead: Mapping[Boundary, int],
    ) -> None:
        """Compute the ways of all boundaries.

        Args:
            ahead: Per boundary: the letters that can follow. The end of the text, letter
                ``len(letters)``, is taken to follow everywhere.
        """
        self._letters = letters
        self._end = len(letters)
        self._taken_over = 0
        self._letter_sets = Numbering[int]()
        # Boundaries of one state that the same letters can follow are one head.
        self._sets = {
            boundary: self._letter_sets(following) for boundary, following in ahead.items()
        }
        self.end_terminal = len(tables.contexts_after)
        by_terminal = [0] * (self.end_terminal + 1)
        for number, letter in enumerate(letters):
            by_terminal[letter.terminal] |= 1 << number
        by_terminal[self.end_terminal] = 1 << self._end
        self._read_tables(tables, by_terminal)
        self.following = 1 << self._end
        for following in self._letter_sets.keys:
            self.following |= following
        self._values: dict[_Head, Ways] = {}
        self._users: dict[_Head, set[_Head]] = {}
        self._after_returns: dict[tuple[int, int, int], Ways] = {}
        self._waiting: deque[_Head] = deque()
        self._queued: set[_Head] = set()
        # States met last are deep in rules, and the others wait for them.
        for boundary in sorted(ahead, reverse=True):
            self._ways_of(self._head(boundary), None)
        self._settle()

    def _read_tables(self, tables: ParseTables, by_terminal: list[int]) -> None:
        """Collect, per state, shifts and reductions with their letters, and gotos."""
        states = range(tables.num_states)
        self._lhs = tables.rule_lhs.tolist()
        lengths = tables.rule_length.tolist()
        self.shifts: list[dict[int, int]] = [{} for _ in states]
        self._shiftable = [0 for _ in states]
        self.reductions: list[list[tuple[int, int, int]]] = []
        self._empty = [0 for _ in states]
        for state, actions in enumerate(action_rows(tables)):
            reduced: dict[int, int] = {}
            for terminal, value in actions.items():
                if value >= 0:
                    self.shifts[state][terminal] = value
                    self._shiftable[state] |= by_terminal[terminal]
                else:
                    reduced[~value] = reduced.get(~value, 0) | by_terminal[terminal]
            self.reductions.append([(rule, lengths[rule], on) for rule, on in reduced.items()])
            self._empty[state] = sum(on for rule, on in reduced.items() if not lengths[rule])
        self.gotos = goto_rows(tables)
        self.predecessors: list[list[int]] = [[] for _ in states]
        for state in states:
            for target in [*self.shifts[state].values(), *self.gotos[state].values()]:
                self.predecessors[target].append(state)

    def take_over(self, ways: Ways) -> Ways:
        """Count ways that a state takes over from the one above, and return them.

        Raises:
            LimitError: There are too many.
        """
        self._taken_over += len(ways)
        if self._taken_over > _MAX_WAYS:
            raise LimitError(f"more than {_MAX_WAYS:,} ways on to look at", limit="max_states")
        return ways

    def of(self, boundary: Boundary) -> Ways:
        """Return the ways of a boundary."""
        return self._values[self._head(boundary)]

    def under(self, state: int, above: Ways) -> Ways:
        """Return the ways of a state that stands under one with the ways ``above``."""
        popped = _Closure(self, state, None)
        popped.add_ways(above)
        ways = popped.ways
        for nonterminal, letters in popped.returned.items():
            for way, on in self._after_return(state, nonterminal, letters).items():
                ways[way] = ways.get(way, 0) | on
        return ways

    def _after_return(self, state: int, nonterminal: int, letters: int) -> Ways:
        """Return the ways of a state on which a nonterminal is parsed before ``letters``, once.

        subtle: what several nonterminals and letters lead to is the union of what each does.
        """
        key = state, nonterminal, letters
        while key not in self._after_returns:
            work = _Closure(self, state, None)
            work.add_return(nonterminal, letters)
            ways = work.run()
            if self._waiting:
                self._settle()  # heads that no boundary led to
            else:
                self._after_returns[key] = ways
        return self._after_returns[key]

    def before(self, state: int, letter: int) -> Ways:
        """Return the ways of a state that a reduction led to, where a letter comes next."""
        head = (state, letter, _LETTER)
        self._ways_of(head, None)
        self._settle()
        return self._values[head]

    def read_on(self, state: int) -> int:
        """Return the letters that a state shifts or ends an empty rule before."""
        return (self._shiftable[state] | self._empty[state]) & self.following

    def _head(self, boundary: Boundary) -> _Head:
        return boundary[0], self._sets[boundary], _BOUNDARY

    def after_reduction(self, state: int, letters: int, user: _Head | None) -> list[Ways]:
        """Return the ways of a state that a reduction led to, for letters it does not reduce on."""
        if letters.bit_count() > _MANY:
            return [self._ways_of((state, self._letter_sets(letters), _CROWD), user)]
        return [self._ways_of((state, letter, _LETTER), user) for letter in bits(letters)]

    def _ways_of(self, head: _Head, user: _Head | None) -> Ways:
        """Return what is known of a head's ways, and have ``user`` computed again if it grows."""
        if head not in self._values:
            self._values[head] = {}
            self._users[head] = set()
            self._waiting.append(head)
            self._queued.add(head)
        if user is not None:
            self._users[head].add(user)
        return self._values[head]

    def _settle(self) -> None:
        """Compute until nothing grows, in rounds, so that a head waits for all that it reads."""
        while self._waiting:
            head = self._waiting.popleft()
            self._queued.discard(head)
            ways = self._compute(head)
            if ways != self._values[head]:
                self._values[head] = ways
                fresh = self._users[head] - self._queued
                self._queued |= fresh
                self._waiting.extend(fresh)

    def _compute(self, head: _Head) -> Ways:
        state, number, kind = head
        if kind == _CROWD:
            union: Ways = {}
            for letter in bits(self._letter_sets.keys[number]):
                for way, on in self._ways_of((state, letter, _LETTER), head).items():
                    union[way] = union.get(way, 0) | on
            return union
        work, sets = _Closure(self, state, head), self._letter_sets.keys
        letters = 1 << number if kind == _LETTER else sets[number] | 1 << self._end
        for rule, length, on in self.reductions[state]:
            if letters & on:
                if length:
                    work.add_way((rule, length), letters & on)
                else:
                    work.add_return(self._lhs[rule], letters & on)
        for letter in bits(letters & self._shiftable[state]):
            if letter == self._end:
                work.add_way(ACCEPT, 1)
                continue
            terminal, pending = self._letters[letter]
            target = self.shifts[state][terminal]
            if (target, pending) in self._sets:  # else the letter cannot come next
                work.add_ways(self._ways_of(self._head((target, pending)), head))
        return work.run()


class _Closure:
    """Collects the ways of one state from what happens above it."""

    def __init__(self, completions: Completions, state: int, reader: _Head | None) -> None:
        self._all = completions
        self._gotos = completions.gotos[state]
        self._reader = reader
        self.ways: Ways = {}
        self.returned: dict[int, int] = {}
        self._fresh: dict[int, int] = {}

    def add_way(self, way: Way, letters: int) -> None:
        self.ways[way] = self.ways.get(way, 0) | letters

    def add_return(self, nonterminal: int, letters: int) -> None:
        """Note that ``nonterminal`` is parsed on top of the state, before any of ``letters``."""
        known = self.returned.get(nonterminal, 0)
        if letters & ~known:
            self.returned[nonterminal] = known | letters
            self._fresh[nonterminal] = self._fresh.get(nonterminal, 0) | (letters & ~known)

    def add_ways(self, above: Ways) -> None:
        """Take over the ways of the state right above, which they pop."""
        for way, letters in self._all.take_over(above).items():
            rule, symbols = way
            if way == ACCEPT:
                self.add_way(way, letters)
            elif symbols == 1:
                self.add_return(self._all._lhs[rule], letters)
            else:
                self.add_way((rule, symbols - 1), letters)

    def run(self) -> Ways:
        """Follow what was returned to the state; return its ways."""
        while self._fresh:
            nonterminal, letters = self._fresh.popitem()
            target = self._gotos.get(nonterminal)
            if target is None:
                continue
            for rule, length, on in self._all.reductions[target]:
                if length and letters & on:
                    self.add_ways({(rule, length): letters & on})
            # A letter that is shifted, or that makes the parser reduce an empty rule, starts
            # something above the target: that is a head of its own.
            ahead = letters & (self._all._shiftable[target] | self._all._empty[target])
            for ways in self._all.after_reduction(target, ahead, self._reader) if ahead else ():
                self.add_ways(ways)
        return self.ways


def find_boundaries(
    tables: ParseTables, adjacency: Adjacency, lr_context: Sequence[int]
) -> dict[Boundary, int]:
    """Return every boundary that can occur, with the letters that can follow it.

    A few that cannot occur may be among them: a letter on which the parser reduces first is taken
    to be shifted wherever its terminal can be.

    Args:
        adjacency: Letters and pending matches; it meets its letters here.
        lr_context: Context of each LR state.

    Returns:
        Boundary -> letters as bits, ignored terminals between left out of account.
    """
    return _Search(tables, adjacency, lr_context).run()


class _Search:
    def __init__(
        self, tables: ParseTables, adjacency: Adjacency, lr_context: Sequence[int]
    ) -> None:
        self._tables = tables
        self._actions = action_rows(tables)
        self._adjacency = adjacency
        self._context = lr_context
        self._closures: dict[tuple[int, int], int] = {}
        self._everywhere = 0  # letters that have been shifted wherever they can be
        self._by_terminal = [0] * len(tables.contexts_after)
        self._seen_letters = 0
        self._accepted: dict[tuple[frozenset[int], int], int] = {}

    def run(self) -> dict[Boundary, int]:
        found: dict[Boundary, int] = {}
        waiting: list[Boundary] = [(0, NOTHING_PENDING)]
        while waiting:
            boundary = waiting.pop()
            if boundary in found:
                continue
            state, pending = boundary
            key = (self._context[state], pending)
            if key not in self._closures:
                self._closures.update(self._adjacency.closure(*key, self._closures))
            found[boundary] = self._closures[key]
            waiting.extend((state, left) for left in self._adjacency.left_by_ignored(*key))
            waiting.extend(self._after(state, found[boundary]))
        return found

    def _after(self, state: int, ahead: int) -> list[Boundary]:
        """Return the boundaries at the ends of the terminals that can follow."""
        letters = self._adjacency.letters
        shifts, shifted = self._shifts(state)
        after = [
            (shifts[letters[number].terminal], letters[number].pending)
            for number in bits(ahead & shifted)
        ]
        reduced = ahead & self._accepted_letters(state) & ~shifted & ~self._everywhere
        self._everywhere |= reduced
        for number in bits(reduced):
            terminal, pending = letters[number]
            after.extend(
                (target, pending) for target in self._tables.contexts_after[terminal].tolist()
            )
        return after

    def _shifts(self, state: int) -> tuple[dict[int, int], int]:
        """Return where a state's own shifts lead, and their letters as bits."""
        self._sort_letters()
        shifts = {t: target for t, target in self._actions[state].items() if target >= 0}
        shifts.pop(len(self._by_terminal), None)  # the end of the text
        shifted = 0
        for terminal in shifts:
            shifted |= self._by_terminal[terminal]
        return shifts, shifted

    def _accepted_letters(self, state: int) -> int:
        """Return the letters of all terminals on which a state has an action."""
        accepts = self._tables.accepts[state]
        key = (accepts, self._seen_letters)
        if key not in self._accepted:
            letters = 0
            for terminal in accepts:
                letters |= self._by_terminal[terminal]
            self._accepted[key] = letters
        return self._accepted[key]

    def _sort_letters(self) -> None:
        """Take up the letters that were met since the last call."""
        letters = self._adjacency.letters
        for number in range(self._seen_letters, len(letters)):
            if letters[number].terminal not in self._adjacency.ignored:
                self._by_terminal[letters[number].terminal] |= 1 << number
        self._seen_letters = len(letters)


def drop_dominated_letters(
    tables: ParseTables,
    letters: Sequence[TerminalInContext],
    ahead: Mapping[Boundary, int],
    ignored: frozenset[int],
) -> dict[Boundary, int]:
    """Leave out letters in whose place a better one can stand.

    A letter is as good as another of its terminal if whatever can follow the other can follow it,
    whichever state the shift leads to. White space that is ignored ends most pending matches, and
    then one letter of each terminal is left.

    Args:
        ahead: Per boundary: letters that can follow, as bits.
        ignored: Ignored terminals; the parser does not see their letters.

    Returns:
        ``ahead`` with fewer letters. Whether a stack can be completed stays the same: a completion
        through a letter that is gone exists through the one that took its place.
    """
    groups: dict[int, list[int]] = {}
    skipped = 0
    met = 0
    for following in ahead.values():
        met |= following
    for number in bits(met):
        letter = letters[number]
        if letter.terminal in ignored:
            skipped |= 1 << number
        else:
            groups.setdefault(letter.terminal, []).append(number)
    current = {boundary: following & ~skipped for boundary, following in ahead.items()}
    rivals = [group for group in groups.values() if 1 < len(group) <= _MAX_RIVALS]
    for _ in range(_ROUNDS):
        better = _better(tables, letters, current, rivals)
        if not better:
            break
        reduced = {following: _reduce(following, better) for following in set(current.values())}
        if all(before == after for before, after in reduced.items()):
            break
        current = {boundary: reduced[following] for boundary, following in current.items()}
    return current


def _better(
    tables: ParseTables,
    letters: Sequence[TerminalInContext],
    ahead: Mapping[Boundary, int],
    rivals: Sequence[Sequence[int]],
) -> dict[int, tuple[int, int]]:
    """Return, per letter, those as good as it: (all of them, of these the first equal one)."""
    found = {}
    for group in rivals:
        after = tables.contexts_after[letters[group[0]].terminal].tolist()
        # subtle: where a boundary does not occur (-1), neither letter may be asked for it.
        rows = [[ahead.get((state, letters[n].pending), -1) for state in after] for n in group]
        for number, row in zip(group, rows, strict=True):
            dominating = 0
            equal = number
            for other, their in zip(group, rows, strict=True):
                if their == row:
                    equal = min(equal, other)
                elif all(_within(mine, yours) for mine, yours in zip(row, their, strict=True)):
                    dominating |= 1 << other
            if dominating or equal != number:
                found[number] = (dominating, equal)
    return found


def _within(mine: int, yours: int) -> bool:
    """Return whether a boundary that occurs (not -1) has one with as many letters beside it."""
    return mine < 0 or (yours >= 0 and not mine & ~yours)


def _reduce(following: int, better: Mapping[int, tuple[int, int]]) -> int:
    """Return a set of letters with one of each kind, and none where a better one is there too."""
    kept = 0
    for number in bits(following):
        dominating, equal = better.get(number, (0, number))
        if not dominating & following:
            kept |= 1 << equal
    return kept

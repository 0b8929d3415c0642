"""Threads that look around: where a pattern can stand, with what it still wants of the text.

A *thread* is a node of a program and the *wants* it carries: look-ahead that was begun and is not
decided yet. A want is a *run*, numbered: the threads of the look-ahead's own pattern, moved along
with the text; ``run`` must come to match, ``~run`` must not. What look-behind asks is known at
once from the *history*: for every look-behind the nodes that its pattern stands at, begun anew at
every place.

The states of regular expressions with look-ahead as alternating automata are described by Miyazaki
and Minamide ("Derivatives of regular expressions with lookahead", 2019); here wants are
conjunctions, and threads keep the order in which Python's matcher tries them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from cdec.compilers.grammars.automata.characters import Atoms
from cdec.compilers.grammars.automata.program import (
    END_OF_TEXT,
    ENTER,
    LEAVE,
    MATCH,
    START_OF_TEXT,
    Program,
)
from cdec.compilers.grammars.states import Numbering

ENDED = -1
"""Node of a thread that matched earlier, if what it wants comes true."""
NEVER, CERTAIN = 0, 1
"""Runs that cannot match any more, and that have matched."""
_DEEPEST = 100
Wants: TypeAlias = tuple[int, ...]
Thread: TypeAlias = tuple[int, Wants]
Threads: TypeAlias = tuple[Thread, ...]
History: TypeAlias = int


def outer_looks(program: Program) -> frozenset[int]:
    """Return the nodes with look-behind that may look at what stands before the program's start."""
    nearest = _distances(program)
    return frozenset(
        node
        for node, look in program.looks.items()
        if not look.is_ahead and nearest.get(node, 0) < _width(program, look.body)
    )


def looks_ahead(program: Program) -> frozenset[int]:
    """Return the nodes from which a way through the program comes to a look-ahead."""
    sources: dict[int, list[int]] = {}
    for node, goes in enumerate(program.goes):
        for target in goes:
            sources.setdefault(target, []).append(node)
    found = {node for node, look in program.looks.items() if look.is_ahead}
    pending = list(found)
    while pending:
        fresh = set(sources.get(pending.pop(), ())) - found
        found |= fresh
        pending += fresh
    return frozenset(found)


def _distances(program: Program) -> dict[int, int]:
    """Return the fewest characters read before each node, those in look-ahead counted."""
    nearest = {program.start: 0}
    level, distance = [program.start], 0
    while level:
        following: list[int] = []
        while level:
            node = level.pop()
            look = program.looks.get(node)
            targets = [*program.goes[node], *([look.body] if look and look.is_ahead else [])]
            reads = program.reads[node] >= 0
            for target in targets:
                if nearest.get(target, distance + 2) > distance + reads:
                    nearest[target] = distance + reads
                    (following if reads else level).append(target)
        level, distance = following, distance + 1
    return nearest


def _width(program: Program, body: int) -> int:
    """Return the characters that a look-behind looks back: any way through it has as many."""
    node, width = body, 0
    while node != MATCH:
        width += program.reads[node] >= 0
        if not program.goes[node]:
            return 0
        node = program.goes[node][-1]
    return width


class Looking:
    """The threads of one program; everything is computed once and numbered.

    Args:
        program: With look-around or without.
        atoms: Of its charsets, and perhaps of others.
        blind: Look-behind that may look at what stands before the program's start always holds,
            whatever it asks.
    """

    def __init__(self, program: Program, atoms: Atoms, *, blind: bool = False) -> None:
        self._program = program
        offsets, members = atoms.offsets.tolist(), atoms.members.tolist()
        self._read = [frozenset(members[a:b]) for a, b in pairwise(offsets)]
        self._end = _atom_of(atoms, END_OF_TEXT)
        behind = [look.body for look in program.looks.values() if not look.is_ahead]
        self._places = {body: place for place, body in enumerate(dict.fromkeys(behind))}
        self._outer = outer_looks(program) if blind else frozenset()
        self._runs: list[Threads] = [(), ()]
        self._numbers: dict[Threads, int] = {}
        self._steps: dict[tuple[int, int, History], int] = {}
        self._closures: dict[tuple[int, History], Threads] = {}
        self._history = Numbering[tuple[frozenset[int], ...]]()
        self._history_steps: dict[tuple[History, int], History] = {}
        self._plain: dict[int, frozenset[int]] = {}
        self._fresh = tuple(self._standing(body) for body in self._places)
        self.unknown = self._history(self._fresh)
        """The history of which nothing is known."""
        start = _atom_of(atoms, START_OF_TEXT)
        self.first = self.history_after(self.unknown, start)
        """The history at the start of a text."""

    def history_after(self, history: History, atom: int) -> History:
        """Return the history one character later."""
        key = (history, atom)
        if key not in self._history_steps:
            sets = [
                fresh.union(*(self._standing(self._goes(n)) for n in nodes if self._reads(n, atom)))
                for nodes, fresh in zip(self._history.keys[history], self._fresh, strict=True)
            ]
            self._history_steps[key] = self._history(tuple(sets))
        return self._history_steps[key]

    def forget(self, history: History, kept: frozenset[int]) -> History:
        """Return a history in which only the look-behind of some patterns knows anything."""
        sets = zip(self._places, self._history.keys[history], self._fresh, strict=True)
        return self._history(tuple(own if body in kept else new for body, own, new in sets))

    def begin(self, start: int, history: History) -> Threads:
        """Return the threads that begin at a node, first choice first."""
        return self._closure(start, history, 0)

    def after(self, threads: Threads, atom: int, history: History) -> list[Thread]:
        """Return the threads one character later, in order; of those that matched what they wait
        for (``ENDED``, with no wants where it came true).

        Args:
            threads: As ``begin`` or this gave them.
            atom: What the character is.
            history: After it.
        """
        found: list[Thread] = []
        for node, wants in threads:
            left = self.wants_after(wants, atom, history)
            if left is None or (node <= MATCH and not wants):
                continue
            if node <= MATCH:
                found.append((ENDED, left))
            elif self._reads(node, atom):
                following = self._closure(self._goes(node), history, 0)
                found += (
                    (other, joined)
                    for other, own in following
                    if (joined := _joined(left, own)) is not None
                )
        return found

    def wants_after(self, wants: Wants, atom: int, history: History) -> Wants | None:
        """Return what is still wanted one character later; None where it cannot come true."""
        left: set[int] = set()
        for want in wants:
            run = self._run_after(want if want >= 0 else ~want, atom, history)
            if run in (NEVER, CERTAIN):
                if (run == CERTAIN) != (want >= 0):
                    return None
            elif (~run if want >= 0 else run) in left:
                return None
            else:
                left.add(run if want >= 0 else ~run)
        return tuple(sorted(left))

    def may_end(self, wants: Wants, history: History) -> bool:
        """Say whether the text may end here, as far as ``wants`` go."""
        if not wants:
            return True
        end = self._end
        return all(
            (self._run_after(max(want, ~want), end, history) == CERTAIN) == (want >= 0)
            for want in wants
        )

    def run_of(self, threads: Iterable[Thread]) -> int:
        """Return the number of a run: the order of its threads means nothing."""
        kept = set(threads)
        if any(node <= MATCH and not wants for node, wants in kept):
            return CERTAIN
        plain = {(ENDED if node == MATCH else node, wants) for node, wants in kept}
        content = tuple(sorted(without_weaker(sorted(plain, key=lambda t: len(t[1])))))
        if not content:
            return NEVER
        if content not in self._numbers:
            self._numbers[content] = len(self._runs)
            self._runs.append(content)
        return self._numbers[content]

    def _run_after(self, run: int, atom: int, history: History) -> int:
        key = (run, atom, history)
        if key not in self._steps:
            self._steps[key] = self.run_of(self.after(self._runs[run], atom, history))
        return self._steps[key]

    def _reads(self, node: int, atom: int) -> bool:
        charset = self._program.reads[node]
        return charset >= 0 and atom in self._read[charset]

    def _goes(self, node: int) -> int:
        return self._program.goes[node][0]

    def _standing(self, start: int) -> frozenset[int]:
        """Return the nodes of a look-behind's pattern that read, or MATCH, from a node on."""
        if start not in self._plain:
            program, found, pending, seen = self._program, set(), [start], {start}
            while pending:
                node = pending.pop()
                if node == MATCH or program.reads[node] >= 0:
                    found.add(node)
                    continue
                fresh = set(program.goes[node]) - seen
                seen |= fresh
                pending += fresh
            self._plain[start] = frozenset(found)
        return self._plain[start]

    def _closure(self, start: int, history: History, depth: int) -> Threads:
        """Return the threads from a node on, in the order a backtracking matcher comes to them.

        subtle: iterations that read nothing are followed as in ``determinise``.
        """
        if (start, history) in self._closures:
            return self._closures[start, history]
        if depth > _DEEPEST:
            raise RecursionError
        program = self._program
        found: dict[Thread, None] = {}
        seen: set[tuple[int, int, Wants]] = set()
        todo: list[tuple[int, int, Wants]] = [(start, 0, ())]
        while todo:
            place = todo.pop()
            node, entered, wants = place
            if program.reads[node] >= 0 or node == MATCH:
                found[node, wants] = None
                continue
            if place in seen:
                continue
            seen.add(place)
            goes = program.goes[node]
            if node in program.looks:
                left = self._looked(node, wants, history, depth)
                todo += [] if left is None else [(goes[0], entered, left)]
            elif program.guard[node] == ENTER:
                todo.append((goes[0], entered + 1, wants))
            elif program.guard[node] == LEAVE:
                todo.append((goes[0], entered - 1, wants) if entered else (goes[1], 0, wants))
            else:
                todo.extend((target, entered, wants) for target in reversed(goes))
        threads = tuple(found)
        self._closures[start, history] = threads
        return threads

    def _looked(self, node: int, wants: Wants, history: History, depth: int) -> Wants | None:
        """Return the wants behind a node that looks around; None where it does not hold."""
        look = self._program.looks[node]
        if not look.is_ahead:
            matched = MATCH in self._history.keys[history][self._places[look.body]]
            return wants if node in self._outer or matched != look.is_negative else None
        run = self.run_of(self._closure(look.body, history, depth + 1))
        if run in (NEVER, CERTAIN):
            return wants if (run == CERTAIN) != look.is_negative else None
        return _joined(wants, (~run if look.is_negative else run,))


def without_weaker(threads: Iterable[Thread]) -> list[Thread]:
    """Leave out threads that stand where an earlier one does and want no less."""
    kept: list[Thread] = []
    wanted: dict[int, list[frozenset[int]]] = {}
    for node, wants in threads:
        earlier = wanted.setdefault(node, [])
        own = frozenset(wants)
        if not any(other <= own for other in earlier):
            earlier.append(own)
            kept.append((node, wants))
    return kept


def in_order(threads: Iterable[Thread]) -> tuple[Threads, bool]:
    """Drop the threads that can win nothing, as Python's matcher takes its first match.

    Returns:
        The threads, and whether a match is certain: then nothing is left behind it, and the match
        itself only if it ends here (``MATCH``). Behind a match that is not certain, threads that
        want the same are dropped.
    """
    kept: list[Thread] = []
    ends: list[frozenset[int]] = []
    for node, wants in without_weaker(threads):
        own = frozenset(wants)
        if any(other <= own for other in ends):
            continue
        if node <= MATCH and not wants:
            return tuple(kept + [(MATCH, ())] * (node == MATCH)), True
        if node <= MATCH:
            ends.append(own)
        kept.append((node, wants))
    return tuple(kept), False


def _joined(left: Wants, right: Wants) -> Wants | None:
    """Return both wants together; None where they contradict each other."""
    if not left or not right:
        return left or right
    both = {*left, *right}
    return None if any(~want in both for want in both) else tuple(sorted(both))


def _atom_of(atoms: Atoms, code: int) -> int:
    """Return a character's atom; one of its own, which nothing reads, if it is in no charset."""
    return next((atom for low, high, atom in atoms.runs if low <= code <= high), atoms.number)

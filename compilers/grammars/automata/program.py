r"""Programs of ordered threads over characters: regular expressions in Python's syntax.

The program is what a backtracking matcher would walk, as a graph: a thread stands at a node that
reads one character; ``follow`` lists, for every node, the threads after its character in the order
in which Python's matcher would try them. Whoever keeps threads in that order and drops all behind
the first that matches has leftmost-first semantics without backtracking (Cox, "Regular Expression
Matching: the Virtual Machine Approach", 2009), with one exception that is Python's own: an
iteration of a loop that read nothing is not followed by another one, but by what follows the loop.

Anchors ``^ $ \b \B \A \Z`` are the look-around that they stand for: where a text begins and where
it ends are two characters beyond Unicode, so that a pattern looks at them as it looks at any other
character; no text holds them. Counted repetitions are written out whole, or as the copies that tell
how others behave.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from cdec.compilers.grammars.automata.characters import (
    MAX_CODE_POINT,
    Ranges,
    charset,
    complement,
    normalised,
)
from cdec.compilers.grammars.automata.pattern_checks import (
    NESTED_LOOK,
    largest_count,
    looks_around,
    parse_pattern,
    too_many_copies,
    too_many_states,
    too_much_written_out,
    unsupported,
)
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.compilers.grammars.states import SPREAD, CounterStates, no_copies

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_FEW = 8
"""Copies, beginning with which a repetition is counted."""
_LONG = 100
"""Characters of a literal that a repetition is told apart from by its first copies."""
_SHORT = 16
"""Characters in a row that no token is searched for."""
END_OF_TEXT = MAX_CODE_POINT + 1
START_OF_TEXT = MAX_CODE_POINT + 2
_END: Ranges = ((END_OF_TEXT, END_OF_TEXT),)
_START: Ranges = ((START_OF_TEXT, START_OF_TEXT),)
_NEWLINE: Ranges = ((10, 10),)
_BEGINNINGS = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
_ENDS = (sre.AT_END, sre.AT_END_STRING)
Choice: TypeAlias = tuple[tuple[bool, tuple[Ranges, ...]], ...]
"""Conditions that must all hold: whether one looks ahead, and the characters there."""
MATCH = 0
"""The node of a thread that has matched."""
ENTER, LEAVE = 1, 2
"""Marks of nodes: an iteration that must not be repeated if it reads nothing begins, ends."""
_RANGES_ALLOWED = 8
"""Ranges of all classes of characters for each state that is allowed: a bound on memory."""
_CHARACTER_OPS = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_Build = Generator["tuple[Any, int, int]", int, int]


class Counted(NamedTuple):
    """Copies of a counted repetition among the nodes of a program, the last copy first.

    Attributes:
        first, width: The first node; nodes of a copy.
        copies: Those that were written out.
        more: Those that were left out.
    """

    first: int
    width: int
    copies: int
    more: int


@dataclass(frozen=True)
class Counting:
    """Measure of what is left out of counted repetitions.

    Attributes:
        reach: The most characters of a set that one token reads, those cut by its ends included.
        cut: Copy behind which copies are left out.
    """

    reach: Callable[[Ranges], int]
    cut: int = _FEW

    @classmethod
    def of(cls, terminals: Sequence[Terminal], vocabulary: Vocabulary) -> Counting:
        """Return what may be left out beside literals, which are read at the same time."""
        literals = (text for terminal in terminals for text in terminal.literals)
        longest = max(map(len, literals), default=0)
        return cls(Reach(vocabulary), max(_FEW, min(longest, _LONG) + 2))

    def counts(self, count: int, body: Any) -> bool:
        """Say whether a repetition is counted; of nested ones only the largest is."""
        return count >= _FEW and count >= largest_count(body)

    def copies(self, counted: Sequence[Counted], nodes: int) -> CounterStates | None:
        """Return the counts of a program's nodes; None where it counts nothing."""
        if not counted:
            return None
        found = no_copies(nodes, self.cut)
        found = found._replace(copy=found.copy.copy(), more=found.more.copy())
        for first, width, written, more in counted:
            own = np.arange(first, first + width * written)
            at = written - 1 - np.arange(width * written) // width
            found.copy[own], found.more[own[at > 0]] = at, more
            inside = own[(at > 0) & (at < written - 1)]
            found.following[inside] = inside - width
        return found

    def written(self, count: int, charsets: Iterable[Ranges]) -> int:
        """Return the copies to be written out of ``count`` that read characters of some sets."""
        read = normalised(chain.from_iterable(charsets))
        return min(count, self.cut + SPREAD + self.reach(read) + 2)


@dataclass
class Reach:
    """The most characters of a set in a row within one token; each set is asked about once."""

    vocabulary: Vocabulary
    _found: dict[Ranges, int] = field(default_factory=dict)

    def __call__(self, ranges: Ranges) -> int:
        """Return the number for a set; 2 more for characters that the token's ends cut."""
        if ranges not in self._found:
            self._found[ranges] = self._search(ranges)
        return self._found[ranges]

    def _search(self, ranges: Ranges) -> int:
        if not ranges:
            return 0
        members = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
        found, longest = re.compile(f"[{members}]+"), _SHORT
        # Longest tokens first: no text has more characters than bytes.
        for text in self._tokens():
            if len(text) <= longest:
                break
            runs = found.findall(text.decode("utf-8", "replace"))
            longest = max(longest, max(map(len, runs), default=0))
        return longest + 2

    def _tokens(self) -> list[bytes]:
        table = self.vocabulary.token_bytes
        longer = [text for text in table if len(text) > _SHORT]
        return sorted(longer, key=len, reverse=True)


class Look(NamedTuple):
    """A condition on what stands around a place in the text.

    Attributes:
        body: Node of the program that must match, from the place on or up to it.
        is_ahead: It looks ahead; otherwise behind.
        is_negative: It must not match.
    """

    body: int
    is_ahead: bool
    is_negative: bool


def without_outer_anchors(tree: Any) -> Any:
    r"""Leave out ``^ \A`` where a pattern begins, and ``$ \Z`` where it ends.

    Of a pattern that is all of a text they say nothing. Those in alternatives and groups at the
    pattern's ends are found as well.

    Args:
        tree: A pattern as ``re``'s parser reads it; it is changed.

    Returns:
        The same. Cost: linear in the items at the ends.
    """
    for last, anchors in ((False, _BEGINNINGS), (True, _ENDS)):
        pending = [tree]
        while pending:
            items = pending.pop().data
            while items and items[-1 if last else 0][0] is sre.AT:
                if items[-1 if last else 0][1] not in anchors:
                    break
                del items[-1 if last else 0]
            if not items:
                continue
            op, value = items[-1 if last else 0]
            if op is sre.SUBPATTERN:
                pending.append(value[-1])
            elif op is sre.BRANCH:
                pending += value[1]
    return tree


def looks_within(goes: Sequence[Sequence[int]], looks: Collection[int], body: int) -> bool:
    """Say whether a way through a program's nodes from ``body`` on looks around."""
    pending, seen = [body], {body}
    while pending:
        node = pending.pop()
        if node in looks:
            return True
        fresh = set(goes[node]) - seen
        seen |= fresh
        pending += fresh
    return False


def choices_of(kind: Any, flags: int) -> tuple[Choice, ...]:
    """Return the conditions one of which must hold at an anchor.

    Args:
        kind: AT_... code of ``re``'s parser.
        flags: ``re.M`` and ``re.A`` as they hold at the anchor.
    """
    if kind is sre.AT_BEGINNING or kind is sre.AT_BEGINNING_STRING:
        of_lines = kind is sre.AT_BEGINNING and flags & re.M
        return (((False, ((*_NEWLINE, *_START) if of_lines else _START,)),),)
    if kind is sre.AT_END_STRING:
        return (((True, (_END,)),),)
    if kind is sre.AT_END:
        if flags & re.M:
            return (((True, ((*_NEWLINE, *_END),)),),)
        return ((True, (_NEWLINE, _END)),), ((True, (_END,)),)
    word = charset(((sre.CATEGORY, sre.CATEGORY_WORD),), flags & re.A)
    sides = word, normalised((*complement(word), *_END, *_START))
    opposite = kind is sre.AT_BOUNDARY
    return tuple(
        ((True, (sides[1 - here if opposite else here],)), (False, (sides[here],)))
        for here in (0, 1)
    )


@dataclass(slots=True)
class Program:
    """Nodes of a pattern: node 0 is MATCH; any other reads a character or leads on without one.

    Attributes:
        reads: Number of the charset that the node reads, -1 for a node that reads nothing.
        goes: Node after the character; for others the nodes to try, in order; at the end of a
            guarded iteration: where to go if it read nothing, and where otherwise.
        guard: ENTER where a guarded iteration begins, LEAVE where it ends, else 0.
        charsets: Distinct sets of characters.
        looks: Nodes that read nothing and ask what stands around them.
        start: First node.
        counts: Ranges of nodes that are copies of one another.
    """

    reads: list[int] = field(default_factory=lambda: [-1])
    goes: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    guard: list[int] = field(default_factory=lambda: [0])
    charsets: list[Ranges] = field(default_factory=list)
    looks: dict[int, Look] = field(default_factory=dict)
    start: int = 0
    counts: list[Counted] = field(default_factory=list)


def parse_program(
    terminal: Terminal, limits: GrammarLimits, counting: Counting | None = None
) -> Program:
    """Compile the pattern of ``terminal`` to threads.

    Args:
        terminal: Its ``pattern`` is read as ``re.compile`` reads it.
        limits: max_nesting, max_repeat and max_states hold.
        counting: What may be left out; None: nothing.

    Returns:
        The program; counted repetitions are written out, {m,n} with n copies but for what is left
        out. Of a pattern that looks around nothing is.

    Raises:
        RegexSyntaxError: ``re`` refuses the pattern.
        RegexUnsupportedError: It is not regular.
        LimitError: It passes a limit.
    """
    tree = parse_pattern(terminal, limits)
    if terminal.is_whole:
        tree = without_outer_anchors(tree)
    if counting is not None and looks_around(tree):
        counting = None
    return _Builder(terminal, limits, counting).run(tree, int(tree.state.flags))


class _Builder:
    """Builds a program from its end to its start, so every node knows what follows it."""

    def __init__(
        self, terminal: Terminal, limits: GrammarLimits, counting: Counting | None
    ) -> None:
        self._terminal = terminal
        self._limits = limits
        self._counting = counting
        self._program = Program()
        self._charset_numbers: dict[Ranges, int] = {}
        self._ranges = 0

    def run(self, tree: Any, flags: int) -> Program:
        """Drive the builders, which yield what they need built: nesting costs no Python stack."""
        stack: list[_Build] = [self._sequence(tree, flags, MATCH)]
        answer: int | None = None
        while stack:
            try:
                wanted = stack[-1].send(answer)  # type: ignore[arg-type]
                stack.append(self._sequence(*wanted))
                answer = None
            except StopIteration as stop:
                answer = stop.value
                stack.pop()
        self._program.start = answer or 0
        return self._program

    def _node(self, reads: int, goes: tuple[int, ...], guard: int = 0) -> int:
        program = self._program
        program.reads.append(reads)
        program.goes.append(goes)
        program.guard.append(guard)
        if len(program.reads) > 2 * self._limits.max_states:
            raise too_much_written_out(self._terminal, self._limits)
        return len(program.reads) - 1

    def _sequence(self, items: Any, flags: int, after: int) -> _Build:
        for op, argument in reversed(list(items)):
            if op in _CHARACTER_OPS:
                after = self._character(op, argument, flags, after)
            elif op is sre.SUBPATTERN:
                _, added, removed, inner = argument
                after = yield inner, _combined(flags, added, removed), after
            elif op is sre.BRANCH:
                branches = []
                for branch in argument[1]:
                    branches.append((yield branch, flags, after))
                after = self._node(-1, tuple(branches))
            elif op is sre.MAX_REPEAT or op is sre.MIN_REPEAT:
                after = yield from self._repeat(argument, op is sre.MIN_REPEAT, flags, after)
            elif op is sre.ASSERT or op is sre.ASSERT_NOT:
                direction, inner = argument
                body = yield inner, flags, MATCH
                after = self._look(Look(body, direction > 0, op is sre.ASSERT_NOT), after)
            elif op is sre.AT:
                after = self._anchor(argument, flags, after)
            elif op is sre.FAILURE:
                after = self._node(-1, ())
            else:
                raise unsupported(self._terminal, op)
        return after

    def _character(self, op: Any, argument: Any, flags: int, after: int) -> int:
        return self._node(self._charset(op, argument, flags), (after,))

    def _charset(self, op: Any, argument: Any, flags: int) -> int:
        """Return the number of a class of characters, new or known."""
        items = tuple(argument) if op is sre.IN else ((op, argument),)
        return self._number(charset(items, flags & (re.I | re.S | re.A)))

    def _number(self, ranges: Ranges) -> int:
        number = self._charset_numbers.setdefault(ranges, len(self._charset_numbers))
        if number == len(self._program.charsets):
            self._program.charsets.append(ranges)
            self._ranges += len(ranges)
            if self._ranges > _RANGES_ALLOWED * self._limits.max_states:
                raise too_many_states(self._terminal, self._limits)
        return number

    def _look(self, look: Look, after: int) -> int:
        """Build a node that asks what stands around it; ``re`` has fixed the width of look-behind.

        Raises:
            RegexUnsupportedError: A look-behind that itself looks around.
        """
        if not look.is_ahead and looks_within(self._program.goes, self._program.looks, look.body):
            raise unsupported(self._terminal, NESTED_LOOK)
        node = self._node(-1, (after,))
        self._program.looks[node] = look
        return node

    def _anchor(self, kind: Any, flags: int, after: int) -> int:
        """Build ``^ $ \\b \\B \\A \\Z`` as the look-around that they stand for."""
        entries = []
        for choice in choices_of(kind, flags):
            entry = after
            for is_ahead, characters in choice:
                body = MATCH
                for ranges in reversed(characters):
                    body = self._node(self._number(ranges), (body,))
                entry = self._look(Look(body, is_ahead, False), entry)
            entries.append(entry)
        return entries[0] if len(entries) == 1 else self._node(-1, tuple(entries))

    def _repeat(self, argument: Any, lazy: bool, flags: int, after: int) -> _Build:
        """Build body{low,high}: mandatory copies, then optional ones or a loop."""
        low, high, body = argument
        endless = high is sre.MAXREPEAT
        self._check_count(int(low) if endless else int(high))
        plain = len(body) == 1 and body[0][0] in _CHARACTER_OPS
        rest = after
        if endless:
            rest = yield from self._loop(body, lazy, flags, after, plain, skippable=low == 0)
            low = max(low - 1, 0)
        else:
            rest = yield from self._copies(high - low, (body, flags, plain), after, lazy)
        return (yield from self._copies(low, (body, flags, plain), rest))

    def _copies(self, count: int, what: Any, after: int, lazy: bool | None = None) -> _Build:
        """Build copies of a body, the last one first; all mandatory where ``lazy`` is None."""
        body, flags, plain = what
        reads = self._charset(body[0][0], body[0][1], flags) if plain and count else -1
        first, counting = len(self._program.reads), self._counting
        counts = counting is not None and counting.counts(count, body)
        self._counting = None if counts else counting
        rest, written, at = after, count, 0
        while at < written:
            if lazy is None:
                rest = self._node(reads, (rest,)) if plain else (yield body, flags, rest)
            elif plain:
                iteration = self._node(reads, (rest,))
                rest = self._node(-1, (after, iteration) if lazy else (iteration, after))
            else:
                iteration = yield from self._iteration(body, flags, after, rest, plain)
                rest = self._node(-1, (after, iteration) if lazy else (iteration, after))
            at += 1
            if counts and counting is not None and at == 1:
                width = len(self._program.reads) - first
                used = {number for number in self._program.reads[first:] if number >= 0}
                charsets = [self._program.charsets[number] for number in used]
                written = counting.written(count, charsets)
                self._program.counts.append(Counted(first, width, written, count - written))
        self._counting = counting
        return rest

    def _iteration(self, body: Any, flags: int, after: int, rest: int, plain: bool) -> _Build:
        """Build one optional iteration; one that reads nothing goes on with ``after``."""
        if plain:
            entry = yield body, flags, rest
            return int(entry)
        end = self._node(-1, (after, rest), LEAVE)
        entry = yield body, flags, end
        return self._node(-1, (entry,), ENTER)

    def _loop(
        self, body: Any, lazy: bool, flags: int, after: int, plain: bool, *, skippable: bool
    ) -> _Build:
        """Build body* or, unless ``skippable``, body+: a choice that an iteration comes back to.

        subtle: the last mandatory iteration may be guarded like the optional ones. If it reads
        nothing, Python tries one more at the same place, which finds the same threads again.
        """
        choice = self._node(-1, ())
        iteration = yield from self._iteration(body, flags, after, choice, plain)
        self._program.goes[choice] = (after, iteration) if lazy else (iteration, after)
        return choice if skippable else iteration

    def _check_count(self, count: int) -> None:
        if count > self._limits.max_repeat:
            raise too_many_copies(self._terminal, count, self._limits)


def _combined(flags: int, added: int, removed: int) -> int:
    """Return the flags inside ``(?added-removed:...)``; a, u and l replace one another."""
    kinds = re.A | re.U | re.L
    if added & kinds:
        flags &= ~kinds
    return (flags | added) & ~removed

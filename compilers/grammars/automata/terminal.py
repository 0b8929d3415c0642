"""Automata of terminals over bytes: of patterns, of lists of words, of patterns split in two."""

from __future__ import annotations

import re
import re._parser as sre_parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.characters import (
    TooManyStatesError,
    byte_tree,
    expand,
    partition,
)
from cdec.compilers.grammars.automata.determinise import determinise, determinise_looking
from cdec.compilers.grammars.automata.pattern_checks import ends_early, too_many_states
from cdec.compilers.grammars.automata.program import Counting, parse_program, without_outer_anchors
from cdec.compilers.grammars.definition import ByteAutomaton, GrammarLimits, Terminal
from cdec.compilers.grammars.states import (
    CounterStates,
    copies_in_bytes,
    joined_copies,
    merge_classes,
    merged_copies,
    merged_states,
)
from cdec.core.errors import LimitError
from cdec.core.grammars.columns import MARKER as MARKER_OF_SETS
from cdec.core.grammars.special import MARKER, is_stand_in

_ANCHORS = re.compile(r"\A(?:\^|\\A)+|(?:\$|\\Z)+\Z")
_GROUP = re.compile(r"(SUBPATTERN, \()\d+")
_LONGEST = 300
"""Characters of a pattern that is cut; every place in it is tried."""
_MOST_STATES = 10_000
"""States of each part."""
PatternPart = tuple[Terminal, ByteAutomaton]


def words_automaton(
    words: Sequence[str],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Return the automaton over the bytes of some texts: their trie, with equal ends once.

    The last accepting state on the path of a text is where the longest word that begins it ends.

    Args:
        words: One text at least; those without a UTF-8 form are left out.

    Returns:
        (byte_class int32[256], delta int32[n, K] from state 0, -1 dead, accepting bool[n]).
        Cost: nodes of the trie x K.
    """
    edges: dict[int, int] = {}
    ends = []
    for word in words:
        node = 0
        try:
            spelled = word.encode()
        except UnicodeEncodeError:
            continue
        for byte in spelled:
            node = edges.setdefault(node << 8 | byte, len(edges) + 1)
        ends.append(node)
    keys = np.fromiter(edges, np.int64, len(edges))
    used, kinds = np.unique(keys & 255, return_inverse=True)
    byte_class = np.zeros(256, np.int32)
    byte_class[used] = np.arange(1, len(used) + 1)
    delta = np.full((len(edges) + 1, len(used) + 1), -1, np.int32)
    delta[keys >> 8, kinds.ravel() + 1] = np.arange(1, len(edges) + 1)
    labels = np.zeros(len(delta), np.int32)
    labels[ends] = 1
    smallest, old, _ = merged_states(delta, labels, np.zeros(1, np.int32))
    byte_class, smallest = merge_classes(byte_class, smallest)
    return byte_class, smallest, labels[old] != 0


class PackedDelta:
    """``int32[n, 256]`` kept by byte classes; ``np.asarray`` gives it in full.

    Attributes:
        byte_class: int32[256].
        rows: int32[n, K] next state of each state and class, -1 where the automaton stops.
    """

    __slots__ = ("byte_class", "rows")

    def __init__(self, byte_class: NDArray[np.int32], rows: NDArray[np.int32]) -> None:
        self.byte_class = byte_class
        self.rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        """(states, 256)."""
        return len(self.rows), 256

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.int32]:
        return self.rows[:, self.byte_class].astype(dtype or np.int32, copy=False)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, tuple):
            state, byte = at
            return self.rows[state, self.byte_class[byte]]
        return self.rows[at][..., self.byte_class]


def packed(automaton: ByteAutomaton) -> PackedDelta:
    """Return the automaton's transitions by byte classes, whichever way it keeps them."""
    if isinstance(automaton.delta, PackedDelta):
        return automaton.delta
    full = np.asarray(automaton.delta, np.int32)
    return PackedDelta(*merge_classes(np.arange(256, dtype=np.int32), full))


def compile_terminal(
    terminal: Terminal,
    *,
    prioritised: bool,
    limits: GrammarLimits,
    counting: Counting | None = None,
) -> ByteAutomaton:
    """Return the automaton of one terminal.

    Args:
        terminal: Pattern in Python's syntax.
        prioritised: The last accepting state on the path of a text is where ``re.match`` ends
            (leftmost-first alternatives, greedy and lazy quantifiers). Otherwise the accepted
            texts are those of ``re.fullmatch``.
        limits: max_states, max_nesting and max_repeat hold.
        counting: Copies of counted repetitions that are left out for now; None: none.

    Returns:
        The smallest such automaton, from state 0. If the empty text matches, ``accepting[0]`` is
        true. Cost: of the subset construction; counted repetitions are written out.

    Raises:
        UncountableError: What is left out could not be put in afterwards.
        RegexSyntaxError: ``re`` refuses the pattern.
        RegexUnsupportedError: The pattern is not regular.
        LimitError: A limit is passed.
    """
    if terminal.is_set or is_stand_in(terminal.value):
        marker = MARKER_OF_SETS if terminal.is_set else MARKER
        return _chain(bytes([marker, ord(terminal.value) & 0xFF]))
    if terminal.words:
        byte_class, delta, accepts = words_automaton(terminal.words)
        if len(delta) > limits.max_states:
            raise too_many_states(terminal, limits)
        return ByteAutomaton(PackedDelta(byte_class, delta), accepts.tolist())
    if terminal.is_string and terminal.flags.isdisjoint("il"):
        literal = _literal(terminal.value)
        if literal is not None:
            return literal
    program = parse_program(terminal, limits, counting)
    atoms = partition(program.charsets)
    is_open = False
    if program.looks:
        looking = determinise_looking(
            program, atoms, limits, whole=terminal.is_whole, prioritised=prioritised
        )
        if looking is None:
            raise too_many_states(terminal, limits)
        characters, is_open = looking
    else:
        characters = determinise(
            program,
            atoms,
            prioritised=prioritised,
            terminal=terminal,
            limits=limits,
            counts=counting.copies(program.counts, len(program.reads)) if counting else None,
        )
    try:
        byte_class, rows = expand(characters.delta, byte_tree(atoms.runs), limits.max_states)
    except TooManyStatesError:
        raise too_many_states(terminal, limits) from None
    accepting = np.zeros(len(rows), np.int32)
    accepting[: len(characters.accepting)] = characters.accepting
    copies = characters.copies and copies_in_bytes(rows, characters.copies)
    return smallest_automaton(byte_class, rows, accepting, copies, is_open=is_open)


def smallest_automaton(
    byte_class: NDArray[np.int32],
    rows: NDArray[np.int32],
    labels: NDArray[np.int32],
    copies: CounterStates | None,
    *,
    start: int = 0,
    is_open: bool = False,
) -> ByteAutomaton:
    """Return the smallest automaton that accepts what a deterministic one does.

    Args:
        byte_class: int32[256].
        rows: int32[n, K], -1 dead.
        labels: int32[n], not 0 where a text may end.
        copies: Of counted repetitions, by state.

    Raises:
        UncountableError: Equal states lack different numbers of copies.
    """
    delta, old, numbers = merged_states(rows, labels, np.full(1, start, np.int32))
    copies = copies and merged_copies(copies, numbers, len(delta))
    packed_delta = PackedDelta(*merge_classes(byte_class, delta))
    return ByteAutomaton(packed_delta, (labels[old] != 0).tolist(), is_open, copies)


def within(automaton: ByteAutomaton, alphabet: NDArray[np.bool_]) -> ByteAutomaton:
    """Return the automaton of the texts that have certain bytes alone.

    Args:
        automaton: As ``compile_terminal`` gives it.
        alphabet: bool[256] bytes that texts may have.

    Returns:
        ``automaton`` itself if it reads no others; else the smallest one.

    Raises:
        UncountableError: Copies that were left out could not be put in afterwards.
    """
    delta = packed(automaton)
    reads: NDArray[np.bool_] = np.any(delta.rows >= 0, axis=0)
    if not reads[delta.byte_class[~alphabet]].any():
        return automaton
    rows = np.pad(delta.rows, ((0, 0), (0, 1)), constant_values=-1)
    byte_class = np.where(alphabet, delta.byte_class, rows.shape[1] - 1).astype(np.int32)
    labels = np.array(automaton.accepting, np.int32)
    # Classes of which no byte is left must lead nowhere as well.
    rows[:, np.setdiff1d(np.arange(rows.shape[1]), byte_class)] = -1
    return smallest_automaton(byte_class, rows, labels, automaton.copies, is_open=automaton.is_open)


def has_texts(automaton: ByteAutomaton) -> bool:
    """Say whether an automaton accepts any text but the empty one."""
    rows = packed(automaton).rows
    return bool(np.array(automaton.accepting, np.bool_)[rows[rows >= 0]].any())


def without_empty(automaton: ByteAutomaton) -> ByteAutomaton:
    """Return the automaton of the same texts but for the empty one.

    Args:
        automaton: As ``compile_terminal`` gives it, not prioritised.

    Returns:
        ``automaton`` itself if the empty text does not match; else one with a start state of its
        own, for the old one may be met again after some bytes.
    """
    if not automaton.accepting[0]:
        return automaton
    delta = packed(automaton)
    rows = delta.rows
    shifted = np.where(rows >= 0, rows + 1, -1).astype(np.int32)
    labels = np.array([0, *automaton.accepting], np.int32)
    with_start = np.concatenate([shifted[:1], shifted])
    copies = joined_copies([None, automaton.copies], [1, len(rows)])
    return smallest_automaton(
        delta.byte_class, with_start, labels, copies, is_open=automaton.is_open
    )


def _literal(text: str) -> ByteAutomaton | None:
    """Return the chain of the bytes of ``text``; None if it is no Unicode text."""
    try:
        return _chain(text.encode())
    except UnicodeEncodeError:
        return None


def _chain(spelled: bytes) -> ByteAutomaton:
    """Return the automaton of one text."""
    class_of = {byte: number for number, byte in enumerate(dict.fromkeys(spelled), 1)}
    byte_class = np.zeros(256, np.int32)
    byte_class[list(class_of)] = list(class_of.values())
    rows = np.full((len(spelled) + 1, len(class_of) + 1), -1, np.int32)
    steps = np.arange(len(spelled))
    rows[steps, byte_class[list(spelled)]] = steps + 1
    return ByteAutomaton(PackedDelta(byte_class, rows), [*([False] * len(spelled)), True])


def split_pattern(
    terminal: Terminal, limits: GrammarLimits
) -> tuple[PatternPart, PatternPart] | None:
    """Return two terminals, one behind the other, that match the texts of ``terminal``.

    Args:
        terminal: A regular expression that must match a text as a whole.

    Returns:
        Terminals with automata, of the last cut that leaves both small; None where there is none,
        or where the text of a terminal ends depends on the order in which ``re`` tries.
    """
    if terminal.conjoined or terminal.denied:
        return None
    if terminal.is_string or len(terminal.pattern) > _LONGEST or ends_early(terminal):
        return None
    bounded = replace(limits, max_states=min(limits.max_states, _MOST_STATES))
    for left, right in reversed(list(_cuts(_bare(terminal)))):
        found: list[PatternPart] = []
        for pattern in (left, right):
            part = replace(terminal, pattern=pattern, value=pattern, is_whole=False, words=())
            try:
                automaton = compile_terminal(part, prioritised=False, limits=bounded)
            except LimitError:
                break
            found.append((part, automaton))
        if len(found) == 2 and not any(automaton.is_open for _, automaton in found):
            return found[0], found[1]
    return None


def _bare(terminal: Terminal) -> str:
    """Return a terminal's pattern, without anchors at its ends where it is all of a text."""
    if not terminal.is_whole:
        return terminal.pattern
    bare = _ANCHORS.sub("", terminal.pattern)
    whole = _named(without_outer_anchors(sre_parser.parse(terminal.pattern)))
    return bare if _items(bare) == whole else terminal.pattern


def _cuts(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to cut a pattern in two of which ``re`` reads the same, one behind the other.

    Args:
        pattern: Without flags inside that hold for both parts.
    """
    whole = _items(pattern)
    for at in range(1, len(pattern)) if whole else ():
        left, right = _items(pattern[:at]), _items(pattern[at:])
        if left and right and [*left, *right] == whole:
            yield pattern[:at], pattern[at:]


def _items(pattern: str) -> list[str] | None:
    """Return what ``re`` reads in a sequence, None where it refuses it or flags are set."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = sre_parser.parse(pattern)
    except (re.error, OverflowError, ValueError, RecursionError):
        return None
    if parsed.state.flags & ~re.U:
        return None
    return _named(parsed)


def _named(parsed: Any) -> list[str]:
    """Return the items of a pattern, the same whatever the numbers of its groups."""
    return [_GROUP.sub(r"\1", repr(item)) for item in parsed.data]

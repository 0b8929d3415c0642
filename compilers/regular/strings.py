"""Sets of Unicode strings, by patterns, formats, lengths and words; their partition.

A set is an automaton for each interval of lengths: large counts of characters need no states. Keys
of an object are told apart by which of some sets hold them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from cdec.compilers.regular.automaton import (
    Automaton,
    byte_ranges,
    cells_of,
    everything,
    labelled_union,
    nothing,
    words_automaton,
)
from cdec.compilers.regular.edges import (
    Edges,
    all_lengths,
    automaton_edges,
    count_texts,
    described,
    lengths_between,
    longest_text,
    ranges_of,
    shortest_text,
    texts_in_order,
    with_words,
)
from cdec.compilers.regular.formats import LONGEST, format_automaton
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.core.errors import LimitError

Operation = Callable[[Automaton, Automaton], Automaton]
Part = tuple[Edges, int, int]
"""Automaton, fewest characters, most or -1."""
_FEW = 64
"""Words that a finite pattern is written as."""


class LengthInterval(NamedTuple):
    """The strings with at least ``low`` characters, up to where the next interval begins."""

    low: int
    automaton: Automaton


NO_STRINGS = (LengthInterval(0, nothing()),)


def pointwise(
    left: tuple[LengthInterval, ...], right: tuple[LengthInterval, ...], combine: Operation
) -> tuple[LengthInterval, ...]:
    """Return what ``combine`` makes of two sets of strings, interval of lengths by interval."""
    if len(left) == len(right) == 1:
        return (LengthInterval(0, combine(left[0].automaton, right[0].automaton)),)
    lows = sorted({interval.low for interval in (*left, *right)})
    return normalised(LengthInterval(low, combine(_at(left, low), _at(right, low))) for low in lows)


def _at(intervals: tuple[LengthInterval, ...], length: int) -> Automaton:
    return next(interval.automaton for interval in reversed(intervals) if interval.low <= length)


def normalised(intervals: Iterable[LengthInterval]) -> tuple[LengthInterval, ...]:
    """Leave out empty intervals, and cuts between equal automata."""
    found: list[LengthInterval] = []
    for interval in intervals:
        if found and found[-1].low == interval.low:
            found.pop()
        if not found or found[-1].automaton != interval.automaton:
            found.append(interval)
    return tuple(found)


def spans(intervals: tuple[LengthInterval, ...]) -> Iterator[tuple[int, int, Automaton]]:
    """Yield (low, high or -1, automaton) of intervals that may hold strings, bounds if needed."""
    ends = [interval.low - 1 for interval in intervals[1:]]
    for (low, automaton), high in zip(intervals, [*ends, -1], strict=True):
        shortest = shortest_text(automaton)
        if shortest < 0 or 0 <= high < shortest:
            continue
        longest = longest_text(automaton)
        if 0 <= longest < low:
            continue
        is_bound = high >= 0 and not 0 <= longest <= high
        yield low if low > shortest else 0, high if is_bound else -1, automaton


def string_parts(
    intervals: tuple[LengthInterval, ...], extra: frozenset[str], missing: frozenset[str]
) -> list[Part]:
    """Return parts whose union is a set of strings; see ``Strings.parts``.

    Args:
        intervals: Automata by lengths. extra: Words besides. missing: Words that are out.
    """
    bounded = list(spans(intervals))
    if not bounded:
        return [_words_part(extra)] if extra else []
    if len(bounded) == 1 and bounded[0][:2] == (0, -1) and (extra or missing):
        return [_part_with_words(bounded[0][2], extra, missing)]
    found = [_words_part(extra)] if extra else []
    for low, high, automaton in bounded:
        rest = automaton - words_automaton(missing) if missing else automaton
        if low and not all_lengths(rest):
            rest, low = rest & lengths_between(low, -1), 0
        if not rest.is_empty:
            found.append((_known_edges(rest), low, high))
    return found


@lru_cache(maxsize=1024)
def _known_edges(automaton: Automaton) -> Edges:
    """Return an automaton's edges; known ones again."""
    return automaton_edges(automaton)


def _words_part(words: frozenset[str]) -> Part:
    spelled = sorted(word.encode() for word in words)
    return with_words(spelled, np.zeros(len(spelled), np.int32)), 0, -1


def _part_with_words(automaton: Automaton, extra: frozenset[str], missing: frozenset[str]) -> Part:
    spelled = sorted([*(w.encode() for w in extra), *(w.encode() for w in missing)])
    out = {word.encode() for word in missing}
    labels = np.array([-1 if word in out else 0 for word in spelled], np.int32)
    return with_words(spelled, labels, *ranges_of(automaton)), 0, -1


class Strings:
    """An immutable set of Unicode strings without surrogates.

    It is an automaton for each interval of lengths, with words that are in and words that are out
    besides: long lists of words and large counts cost nothing until edges are asked for. Values
    that were made alike are equal; whether sets are equal in any case, ``(a ^ b).is_empty`` says.

    Raises:
        LimitError: An operation passes the number of states that is allowed.
    """

    __slots__ = ("_extra", "_hash", "_intervals", "_missing")

    ANY: ClassVar[Strings]
    NONE: ClassVar[Strings]

    def __init__(
        self,
        intervals: tuple[LengthInterval, ...],
        extra: frozenset[str] = frozenset(),
        missing: frozenset[str] = frozenset(),
    ) -> None:
        """Do not call it: ``words``, ``pattern``, ``format`` and ``lengths`` make values.

        Args:
            intervals: Ascending, the first from 0; neighbours differ.
            extra: Words besides. missing: Words of the intervals that are not in the set.
        """
        self._intervals = intervals
        self._extra = extra
        self._missing = missing
        self._hash = hash((intervals, extra, missing))

    @staticmethod
    def words(words: Iterable[str]) -> Strings:
        """Return the set of some words; those with surrogates are left out."""
        return Strings(NO_STRINGS, frozenset(word for word in words if _is_text(word)))

    @staticmethod
    def pattern(pattern: str) -> Strings:
        """Return the strings in which a regular expression is found.

        Args:
            pattern: See ``patterns.pattern_automaton``.

        Raises:
            RegexSyntaxError: It is no pattern.
            RegexUnsupportedError: It is not regular.
        """
        return Strings.of_automaton(pattern_automaton(pattern))

    @staticmethod
    def format(name: str) -> Strings | None:
        """Return the strings of a format of JSON Schema, None for a name that is none.

        Raises:
            RegexUnsupportedError: The format is not regular.
        """
        automaton = format_automaton(name)
        if automaton is None:
            return None
        return Strings.of_automaton(automaton) & Strings.lengths(0, LONGEST.get(name))

    @staticmethod
    def of_automaton(automaton: Automaton) -> Strings:
        """Return the texts that an automaton accepts."""
        return _absorbed((LengthInterval(0, automaton),))

    @staticmethod
    def lengths(low: int = 0, high: int | None = None) -> Strings:
        """Return the strings with ``low`` to ``high`` characters, None: any number."""
        intervals = [LengthInterval(0, nothing()), LengthInterval(max(low, 0), everything())]
        if high is not None:
            intervals.append(LengthInterval(max(high + 1, low, 0), nothing()))
        return Strings(normalised(intervals))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Strings)
            and self._hash == other._hash
            and self._intervals == other._intervals
            and self._extra == other._extra
            and self._missing == other._missing
        )

    def __and__(self, other: Strings) -> Strings:
        return self._merged(other, Automaton.__and__, bool.__and__)

    def __or__(self, other: Strings) -> Strings:
        return self._merged(other, Automaton.__or__, bool.__or__)

    def __sub__(self, other: Strings) -> Strings:
        return self._merged(other, Automaton.__sub__, lambda a, b: a and not b)

    def __xor__(self, other: Strings) -> Strings:
        return (self - other) | (other - self)

    def __invert__(self) -> Strings:
        intervals = tuple(LengthInterval(low, ~automaton) for low, automaton in self._intervals)
        return Strings(intervals, self._missing, self._extra)

    def __contains__(self, text: str) -> bool:
        return _is_text(text) and self.holds([text])[0]

    def _merged(
        self, other: Strings, combine: Operation, decide: Callable[[bool, bool], bool]
    ) -> Strings:
        words = [*({*self._extra, *self._missing, *other._extra, *other._missing})]
        intervals = pointwise(self._intervals, other._intervals, combine)
        if not words:
            return _absorbed(intervals)
        mine, theirs, base = self.holds(words), other.holds(words), Strings(intervals).holds(words)
        extra, missing = set[str](), set[str]()
        for word, left, right, is_based in zip(words, mine, theirs, base, strict=True):
            if decide(left, right) != is_based:
                (missing if is_based else extra).add(word)
        return _absorbed(intervals, frozenset(extra), frozenset(missing))

    def holds(self, texts: list[str]) -> list[bool]:
        """Say which texts are in the set."""
        if len(self._intervals) == 1 and self._intervals[0].automaton in (everything(), nothing()):
            found = [self._intervals[0].automaton is everything()] * len(texts)
        elif len(self._intervals) == 1:
            found = self._intervals[0].automaton.accepted(texts).tolist()
        else:
            found = [False] * len(texts)
            lows = [interval.low for interval in self._intervals]
            places: dict[int, list[int]] = {}
            for i, text in enumerate(texts):
                places.setdefault(bisect_right(lows, len(text)) - 1, []).append(i)
            for interval, own in places.items():
                accepted = self._intervals[interval].automaton.accepted([texts[i] for i in own])
                for i, is_in in zip(own, accepted.tolist(), strict=True):
                    found[i] = is_in
        if not self._extra and not self._missing:
            return found
        return [
            text in self._extra or (is_in and text not in self._missing)
            for text, is_in in zip(texts, found, strict=True)
        ]

    @property
    def is_empty(self) -> bool:
        """True where the set holds no string."""
        if self._extra:
            return False
        missing = len(self._missing)
        for low, high, automaton in spans(self._intervals):
            if count_texts(automaton, low, high, missing) > missing:
                return False
        return not missing or next(self._texts(1), None) is None

    @property
    def is_everything(self) -> bool:
        """True where the set holds every string."""
        return (~self).is_empty

    def count(self, limit: int) -> int | None:
        """Return how many strings there are; None if there are more than ``limit``."""
        left = limit + len(self._missing) - len(self._extra)
        for low, high, automaton in spans(self._intervals):
            if left >= 0:
                left -= count_texts(automaton, low, high, left)
        return None if left < 0 else limit - left

    def finite(self, limit: int) -> tuple[str, ...] | None:
        """Return the strings in order of their UTF-8, None if there are more than ``limit``."""
        if self.count(limit) is None:
            return None
        return tuple(sorted({*self._extra, *self._texts(limit)}))

    def _texts(self, most: int) -> Iterator[str]:
        """Yield strings of the intervals that are not missing, shortest first.

        Args:
            most: No more are asked for; cost is not much more than theirs.
        """
        found = 0
        for low, high, automaton in spans(self._intervals):
            for text in texts_in_order(automaton, low, high):
                if text not in self._missing:
                    yield text
                    found += 1
                    if found >= most:
                        return

    @property
    def listed(self) -> frozenset[str] | None:
        """The strings, where they are kept as a list; else None."""
        return self._extra if self._intervals == NO_STRINGS else None

    @property
    def exceptions(self) -> frozenset[str]:
        """Words that are told apart from what automata say of them."""
        return self._extra | self._missing

    @property
    def whole(self) -> Automaton | None:
        """The automaton that alone describes the set; None where lengths or words do as well."""
        is_whole = len(self._intervals) == 1 and not self._extra and not self._missing
        return self._intervals[0].automaton if is_whole else None

    def without_exceptions(self) -> Strings:
        """Return the set that automata alone describe."""
        return Strings(self._intervals)

    def automaton(self) -> Automaton:
        """Return the set as one automaton, lengths and words written out.

        Raises:
            LimitError: It has too many states.
        """
        found = nothing()
        for low, high, automaton in spans(self._intervals):
            bounded = (low, high) != (0, -1)
            found |= automaton & lengths_between(low, high) if bounded else automaton
        if self._missing:
            found -= words_automaton(self._missing)
        return found | words_automaton(self._extra) if self._extra else found

    def parts(self) -> list[tuple[Edges, int, int]]:
        """Return automata with numbers of characters whose union is the set.

        Returns:
            (edges with label 0, fewest characters, most or -1). Where the fewest are not 0, every
            state of the edges can go on to any number of characters from its shortest on.
        """
        return string_parts(self._intervals, self._extra, self._missing)


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _absorbed(
    intervals: tuple[LengthInterval, ...],
    extra: frozenset[str] = frozenset(),
    missing: frozenset[str] = frozenset(),
) -> Strings:
    """Make a value; one automaton with few strings becomes words."""
    if len(intervals) == 1:
        words = _few_words(intervals[0].automaton)
        if words is not None:
            return Strings(NO_STRINGS, (words - missing) | extra)
    return Strings(intervals, extra, missing)


@lru_cache(maxsize=4096)
def _few_words(automaton: Automaton) -> frozenset[str] | None:
    """Return the strings of an automaton with few of them."""
    if count_texts(automaton, 0, -1, _FEW) > _FEW:
        return None
    return frozenset(texts_in_order(automaton, 0, -1))


Strings.ANY = Strings((LengthInterval(0, everything()),))
Strings.NONE = Strings(NO_STRINGS)


def partition(
    languages: Sequence[Strings], limit: int = 10_000
) -> list[tuple[frozenset[int], Strings]]:
    """Split all strings by which of some sets hold them.

    Returns:
        (numbers of the sets, the strings that are in these and in no other), cells without strings
        left out; first those that few sets hold. Lists of words cost little.

    Raises:
        LimitError: More than ``limit`` cells.
    """
    listed = {i: s.listed for i, s in enumerate(languages) if s.listed is not None}
    others = [i for i in range(len(languages)) if i not in listed]
    words = list({word: None for language in languages for word in language.exceptions})
    members: dict[str, list[int]] = {word: [] for word in words}
    for i, own in listed.items():
        for word in own or ():
            members[word].append(i)
    for i in others:
        for word, is_in in zip(words, languages[i].holds(words), strict=True):
            if is_in:
                members[word].append(i)
    groups: dict[frozenset[int], list[str]] = {}
    for word, holders in members.items():
        groups.setdefault(frozenset(holders), []).append(word)
    cells = {held: Strings.words(alike) for held, alike in groups.items()}
    named = Strings.words(words)
    for held, base in _cells([languages[i].without_exceptions() for i in others], limit):
        strings = base - named if words else base
        if not strings.is_empty:
            numbers = frozenset(others[i] for i in held)
            cells[numbers] = cells[numbers] | strings if numbers in cells else strings
    if len(cells) > limit:
        raise _too_many(limit)
    return sorted(cells.items(), key=lambda cell: sorted(cell[0]))


def _cells(languages: list[Strings], limit: int) -> list[tuple[frozenset[int], Strings]]:
    """Split all strings by which of some sets without lists of words hold them."""
    plain = [(i, s.whole) for i, s in enumerate(languages)]
    alike = [(i, automaton) for i, automaton in plain if automaton is not None]
    joint = cells_of(tuple(automaton for _, automaton in alike), limit)
    if joint is None:
        raise _too_many(limit)
    cells = [
        (frozenset(alike[at][0] for at in held), Strings.of_automaton(automaton))
        for held, automaton in joint
    ]
    for i, automaton in plain:
        if automaton is None:
            cells = [
                (own, part)
                for held, strings in cells
                for own, part in (
                    (held, strings - languages[i]),
                    (held | {i}, strings & languages[i]),
                )
                if not part.is_empty
            ]
            if len(cells) > limit:
                raise _too_many(limit)
    return cells


def labelled(words: Sequence[str], regions: Sequence[Strings]) -> Edges:
    """Return the automaton that says which key of an object a text is.

    Args:
        words: Distinct, in the order of their UTF-8: label i for ``words[i]``.
        regions: Disjoint sets without any of the words: label ``len(words) + j`` for the j-th.

    Returns:
        Its edges, with the words that can still be reached from each state (``state_low`` and
        ``state_high``) and whether a region can (``state_open``).

    Raises:
        LimitError: It has too many states.
    """
    of_word = {word.encode(): i for i, word in enumerate(words)}
    for word in {word for region in regions for word in region.exceptions}:
        holders = (j for j, region in enumerate(regions) if word in region)
        of_word.setdefault(word.encode(), next(holders, -1 - len(words)) + len(words))
    every = sorted(of_word)
    labels = np.array([of_word[word] for word in every], np.int32)
    if not regions:
        return with_words(every, labels, singles=len(words))
    bases = [region.without_exceptions().automaton() for region in regions]
    byte_class, rows, found = labelled_union(bases)
    found = np.where(found > 0, found - 1 + len(words), -1).astype(np.int32)
    ranges = byte_ranges(byte_class, rows)
    if not every:
        return described(ranges, found, 0)
    return with_words(every, labels, ranges, found, len(words))


def _too_many(limit: int) -> LimitError:
    return LimitError(
        f"the keys of an object fall into more than {limit} kinds",
        hint="use fewer patterns that overlap, or raise `max_states`",
        limit="max_states",
    )

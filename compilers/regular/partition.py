"""Partition of strings by the sets that hold them; the automaton that tells an object's keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cdec.compilers.regular.automaton import byte_ranges, cells_of, labelled_union
from cdec.compilers.regular.edges import Edges, described, with_words
from cdec.compilers.regular.strings import Strings
from cdec.core.errors import LimitError


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

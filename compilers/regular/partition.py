"""The strings by which of some sets hold them, and the automaton that tells an object's keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cdec.compilers.regular.automaton import labelled_union
from cdec.compilers.regular.edge_kernels import byte_ranges
from cdec.compilers.regular.edges import Edges, described, with_words
from cdec.compilers.regular.strings import Strings
from cdec.core.errors import LimitError


def partition(
    languages: Sequence[Strings], limit: int = 10_000
) -> list[tuple[frozenset[int], Strings]]:
    """Split all strings by which of some sets hold them.

    Args:
        languages: The sets.
        limit: Most cells.

    Returns:
        (numbers of the sets, the strings that are in these and in no other), cells without strings
        left out; first those that few sets hold. Lists of words cost little.

    Raises:
        LimitError: More than ``limit`` cells.
    """
    worded = [i for i, language in enumerate(languages) if language.listed is not None]
    others = [i for i in range(len(languages)) if languages[i].listed is None]
    cells = [(frozenset[int](), Strings.ANY)]
    for i in others:
        split = []
        for members, strings in cells:
            inside = strings & languages[i]
            split += [
                (own, part)
                for own, part in ((members, strings - inside), (members | {i}, inside))
                if not part.is_empty
            ]
        cells = split
        if len(cells) > limit:
            raise _too_many(limit)
    if not worded:
        return sorted(cells, key=lambda cell: sorted(cell[0]))
    holders: dict[str, set[int]] = {}
    for i in worded:
        for word in languages[i].listed or ():
            holders.setdefault(word, set()).add(i)
    words = list(holders)
    groups: dict[frozenset[int], list[str]] = {}
    for members, strings in cells:
        held = strings.holds(words)
        for word, is_in in zip(words, held, strict=True):
            if is_in:
                groups.setdefault(frozenset(members | holders[word]), []).append(word)
    if len(groups) > limit:
        raise _too_many(limit)
    named = Strings.words(words)
    rest = [(members, strings - named) for members, strings in cells]
    found = [(members, strings) for members, strings in rest if not strings.is_empty]
    found += ((members, Strings.words(own)) for members, own in groups.items())
    return sorted(found, key=lambda cell: sorted(cell[0]))


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

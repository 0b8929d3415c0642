"""Fewer letters for the same answer: of one terminal's letters only the least restricted count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.soundness.adjacency import Letter
from cdec.compilers.grammars.soundness.completions import Boundary

_ROUNDS = 3
_MAX_RIVALS = 40
"""Letters of one terminal that are compared with each other."""


def drop_dominated_letters(
    tables: ParseTables,
    letters: Sequence[Letter],
    ahead: Mapping[Boundary, int],
    ignored: frozenset[int],
) -> dict[Boundary, int]:
    """Leave out letters in whose place a better one can stand.

    A letter is as good as another of its terminal if whatever can follow the other can follow it,
    whichever state the shift leads to. White space that is ignored ends most pending matches, and
    then one letter of each terminal is left.

    Args:
        tables: LALR(1) tables.
        letters: Letters by number.
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
    letters: Sequence[Letter],
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

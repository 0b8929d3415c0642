"""Boundaries of pre-tokens, decided token by token: guesses, and what must not match for each.

Where a pre-tokenizer cuts may depend on what follows: of three blanks the last belongs to the next
word, if one comes. So whoever writes tokens guesses between two of them that a pre-token ends
there, or that none does, and a guess lives as long as the text can bear it out. A *place* is all
that counts of the text before: for every splitting step an ordered list of the ways in which its
pattern may go on (as in a backtracking matcher, the first that matches wins), and the ways that
must not match any more, because a boundary before them was guessed that they would override. Of
every whole text exactly one line of guesses is left. Cost: places and classes of characters are few
(tens), and all are made at once.

Source: ordered threads, R. Cox, "Regular Expression Matching: the Virtual Machine Approach" (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CanonicalError
from cdec.core.spelling.patterns import AHEAD, ATOM, FORK, MATCH, Program

DEAD_PLACE = -1
_MOST_PLACES = 20_000
_Ways: TypeAlias = "tuple[int, ...]"
_Step: TypeAlias = "tuple[_Ways, _Ways]"
"""Of one splitting step: the ways that must not match, and those that go on, best first."""
_Place: TypeAlias = "tuple[_Step, ...]"


class _Matcher:
    """Threads of one program over classes of characters; the class past the last is the end."""

    def __init__(self, program: Program, holds: NDArray[np.bool_]) -> None:
        self._steps = program.steps
        self._holds = holds.tolist()
        self._end = len(holds)
        self.start: _Ways = (program.start,)
        self._known: dict[tuple[_Ways, int], tuple[_Ways, bool]] = {}

    def after(self, ways: _Ways, char: int) -> tuple[_Ways, bool]:
        """Return the ways after a character of a class, down to the first match; and if one does.

        A match is one before that character, which is only looked at for it.
        """
        known = self._known.get((ways, char))
        if known is None:
            targets: dict[int, None] = {}
            seen: set[int] = set()
            matched = any(self._follow(way, char, targets, seen) for way in ways)
            known = self._known[ways, char] = tuple(targets), matched
        return known

    def _follow(self, way: int, char: int, targets: dict[int, None], seen: set[int]) -> bool:
        if way in seen:
            return False
        seen.add(way)
        step = self._steps[way]
        if step.kind == MATCH:
            return True
        if step.kind == FORK:
            return any(self._follow(each, char, targets, seen) for each in step.to)
        held = char != self._end and self._holds[char][step.atom]
        if step.kind == AHEAD:
            return held != step.negated and self._follow(step.to[0], char, targets, seen)
        assert step.kind == ATOM
        if held:
            targets.setdefault(step.to[0])
        return False


class Splits:
    """All places of a pre-tokenizer, and the steps between them.

    Args:
        programs: Of its splitting steps, in order; each cuts the pieces that those before leave.
        holds: bool[classes, atoms], as ``CharacterClasses.holds``.

    Attributes:
        first: Per class, the place after the first character of a text; int32[classes].
        within: int32[places, classes] place after a character that stands in the same pre-token as
            the one before; DEAD_PLACE where none does.
        across: Per place and class, the places after a character before which a pre-token ended.
        may_end: bool[places] whether a text may end there.

    Raises:
        CanonicalError: A step leaves characters that no match holds, or the places are too many.
    """

    def __init__(self, programs: Sequence[Program], holds: NDArray[np.bool_]) -> None:
        self._matchers = [_Matcher(program, holds) for program in programs]
        self._end = len(holds)
        self._numbers: dict[_Place, int] = {}
        self._places: list[_Place] = []
        for matcher, program in zip(self._matchers, programs, strict=True):
            self._require_matches(matcher, program)
        first = [self._number(self._begun(char)) for char in range(self._end)]
        self.first: NDArray[np.int32] = np.array(first, np.int32)
        within: list[list[int]] = []
        across: list[list[tuple[int, ...]]] = []
        while len(within) < len(self._places):
            place = self._places[len(within)]
            within.append([self._within(place, char) for char in range(self._end)])
            across.append([self._across(place, char) for char in range(self._end)])
        self.within: NDArray[np.int32] = np.array(within, np.int32).reshape(-1, self._end)
        self.across = across
        self.may_end: NDArray[np.bool_] = np.array([self._ends(p) for p in self._places], np.bool_)
        self._leave_out_dead_ends()

    def _require_matches(self, matcher: _Matcher, program: Program) -> None:
        """Refuse a step with which some character is in no match, wherever it stands."""
        for char in range(self._end):
            ways, matched = matcher.after(matcher.start, char)
            # Behind its first character a match is sure, whatever comes next.
            sure = all(matcher.after(ways, ahead)[1] for ahead in range(self._end + 1))
            if matched or not ways or not sure:
                raise CanonicalError(
                    "the tokenizer's pre-tokenizer leaves some characters unmatched: where it cuts "
                    "a text there is not known here",
                    hint="leave `canonical` out",
                    atoms=program.atoms,
                )

    def _number(self, place: _Place) -> int:
        number = self._numbers.setdefault(place, len(self._places))
        if number == len(self._places):
            self._places.append(place)
            if number >= _MOST_PLACES:
                raise CanonicalError(
                    f"the tokenizer's pre-tokenizer has more than {_MOST_PLACES:,} places",
                    hint="leave `canonical` out",
                )
        return number

    def _begun(self, char: int) -> _Place:
        """Return the place after the first character of a piece."""
        return tuple(((), each.after(each.start, char)[0]) for each in self._matchers)

    def _forbidden(self, step: int, place: _Place, char: int) -> _Ways | None:
        """Return the ways that must not match, after a character; None where one has."""
        ways, matched = self._matchers[step].after(place[step][0], char)
        return None if matched else tuple(sorted(ways))

    def _goes_on(self, step: int, place: _Place, char: int) -> _Step | None:
        """Return a step after a character before which it does not cut; None where it must."""
        forbidden = self._forbidden(step, place, char)
        ways = self._matchers[step].after(place[step][1], char)[0]
        return None if forbidden is None or not ways else (forbidden, ways)

    def _cuts(self, step: int, place: _Place, char: int) -> _Step | None:
        """Return a step after a character before which it cuts; None where it does not."""
        matcher = self._matchers[step]
        forbidden = self._forbidden(step, place, char)
        better, matched = matcher.after(place[step][1], char)
        if forbidden is None or not matched:
            return None
        return tuple(sorted({*forbidden, *better})), matcher.after(matcher.start, char)[0]

    def _step_ends(self, step: int, place: _Place) -> bool:
        forbidden, ways = place[step]
        after = self._matchers[step].after
        return not after(forbidden, self._end)[1] and after(ways, self._end)[1]

    def _ends(self, place: _Place) -> bool:
        return all(self._step_ends(step, place) for step in range(len(place)))

    def _within(self, place: _Place, char: int) -> int:
        steps = [self._goes_on(step, place, char) for step in range(len(place))]
        found = tuple(step for step in steps if step is not None)
        return self._number(found) if len(found) == len(place) else DEAD_PLACE

    def _across(self, place: _Place, char: int) -> tuple[int, ...]:
        """Return the places where one step cuts, those before do not, those after begin anew."""
        found = []
        for cutting in range(len(place)):
            before = [self._goes_on(step, place, char) for step in range(cutting)]
            cut = self._cuts(cutting, place, char)
            ends = all(self._step_ends(step, place) for step in range(cutting + 1, len(place)))
            kept = tuple(step for step in before if step is not None)
            if cut is not None and ends and len(kept) == cutting:
                found.append(self._number((*kept, cut, *self._begun(char)[cutting + 1 :])))
        return tuple(found)

    def _leave_out_dead_ends(self) -> None:
        """Drop the places from which no characters lead to an end."""
        alive, before = self.may_end.copy(), -1
        while alive.sum() != before:
            before = int(alive.sum())
            ahead = alive[self.within] & (self.within >= 0)
            alive |= ahead.any(axis=1)
            for place, row in enumerate(self.across):
                alive[place] |= any(alive[to] for to_class in row for to in to_class)
        self.within[(self.within >= 0) & ~alive[self.within]] = DEAD_PLACE
        self.across = [[tuple(t for t in to if alive[t]) for to in row] for row in self.across]
        self.first[~alive[self.first]] = DEAD_PLACE

    def __len__(self) -> int:
        return len(self._places)

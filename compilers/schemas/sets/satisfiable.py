"""Satisfiability of goals, through arrays and objects, as a least fixed point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cdec.compilers.regular.edges import Edges
from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.sets.array_cases import ArrayCase, ArrayCases, Distinct, UndecidedError
from cdec.compilers.schemas.sets.at_least import AtLeast
from cdec.compilers.schemas.sets.expansion import Expansion, UnderWayError
from cdec.compilers.schemas.sets.object_cases import ObjectCases
from cdec.compilers.schemas.sets.shapes import FALSE, TRUE, ArrayShape, Goal, conjunction
from cdec.core.errors import LimitError
from cdec.core.schemas.errors import SchemaUnsupportedError

_FEW_VALUES = 512
"""Values that are told apart where items must all differ."""
_FEW_STRINGS = _FEW_VALUES
"""Of these, strings; more are remembered."""
TOKENS_DIFFER = (
    "which strings can still differ from those before within their number of tokens is not known"
)
_MOST_VALUES = 1 << 39
"""Strings that are counted there."""


def is_endless(edges: Edges) -> bool:
    """Return whether from each state that reaches a region infinitely many of its texts go on.

    Every state of a trimmed automaton goes on for ever if each has an edge to another such.

    Args:
        edges: Of keys, whose ``state_open`` says what reaches a region; of strings all do.
    """
    opens = edges.state_open.astype(np.bool_)
    source = np.repeat(np.arange(len(opens)), np.diff(edges.state_edges))
    goes_on = np.zeros(len(opens), np.bool_)
    goes_on[source[opens[edges.edge_target]]] = True
    return bool((goes_on | ~opens).all())


class Satisfiable:
    """Decides whether goals have values, each once.

    A goal that is met while it is being decided counts as empty; an answer that rests on that is
    kept only if it is yes, or once nothing outside is left that it rests on.

    Attributes:
        objects, arrays: The cases of shapes, as far as goals are decided.
    """

    def __init__(self, expansion: Expansion) -> None:
        most = expansion.options.limits.max_alternatives
        self.objects = ObjectCases(self, most)
        at_least = AtLeast(expansion, self, self.cases_of_array, self.objects)
        self.arrays = ArrayCases(self, self._few_values, at_least, most)
        self._expansion = expansion
        self._known: dict[Goal, bool] = {TRUE: True, FALSE: False}
        self._under_way: dict[Goal, int] = {}
        self._lowest = 0
        self._base = 0
        self._a_string = Schema("", {"type": "string"}, "", expansion.document.draft)
        expansion.is_empty_for_sure = self.is_empty_for_sure

    def __call__(self, goal: Goal) -> bool:
        """Return whether a goal has a value."""
        known = self._known.get(goal)
        if known is not None:
            return known
        depth = len(self._under_way)
        if goal in self._under_way:
            if self._under_way[goal] < self._base:
                raise UnderWayError
            self._lowest = min(self._lowest, self._under_way[goal])
            return False
        self._under_way[goal] = depth
        before, self._lowest = self._lowest, depth
        try:
            answer = self._decide(goal)
        finally:
            del self._under_way[goal]
            is_whole = self._lowest >= depth
            self._lowest = before if is_whole else min(before, self._lowest)
        if answer or is_whole:
            self._known[goal] = answer
        return answer

    def is_empty_for_sure(self, goal: Goal) -> bool:
        """Say whether a goal has no value; False where that is not known, in its own expansion."""
        before, self._base = self._base, len(self._under_way)
        try:
            with self._expansion.from_outside():
                return not self(goal)
        except (UnderWayError, SchemaUnsupportedError, LimitError):
            return False
        finally:
            self._base = before

    def _decide(self, goal: Goal) -> bool:
        found = self._expansion.expand(goal)
        if found.has_scalars:
            return True
        if any(map(self.cases_of_array, found.arrays)):
            return True
        return any(next(self.objects.of(shape), None) is not None for shape in found.objects)

    def cases_of_array(self, shape: ArrayShape) -> list[ArrayCase]:
        """Return the cases of a shape; without demands that counting does not decide, if lenient.

        Raises:
            SchemaUnsupportedError: There are such demands, and the schema is compiled strictly.
        """
        while True:
            try:
                return list(self.arrays.of(shape))
            except UndecidedError as error:
                self._expansion.refuse(error.path, error.path.rsplit("/", 1)[1], error.reason)
                kept = tuple(c for c in shape.contains if c.path != error.path)
                unique = () if error.path in shape.unique else shape.unique
                repeating = () if error.path in shape.repeating else shape.repeating
                shape = replace(shape, contains=kept, unique=unique, repeating=repeating)

    def _few_values(self, goal: Goal, path: str) -> Distinct | None:
        """Return the values of a goal as items that must all differ.

        None where others than strings are many. How many members a set has is known where it is
        given.

        Raises:
            UndecidedError: Others stand beside the members of a set, which could hold them; or
                strings may have so many tokens.
        """
        found, goals = self._expansion.expand(goal), self._expansion.goals
        if found.limited:
            raise UndecidedError(path, TOKENS_DIFFER)
        numbers, strings = found.numbers.finite(_FEW_VALUES), found.strings.finite(_FEW_STRINGS)
        if found.members and (
            len(found.members) > 1
            or not all(members.sets for members in found.members)
            or not found.strings.is_empty
            or found.objects
            or found.arrays
            or numbers is None
        ):
            raise UndecidedError(path, "members of a set and other values must all differ")
        if found.objects or found.arrays or numbers is None:
            return None
        words = [{"null": None, "true": True, "false": False}[word] for word in sorted(found.words)]
        values = (*words, *numbers, *(strings or ()))
        constants = tuple(goals.constant(value, path) for value in values)
        some_strings = conjunction((goal, goals.of(self._a_string)))
        if found.members:
            return Distinct(constants, some_strings, None)
        if strings is not None:
            return Distinct(constants, None, len(constants))
        # No text comes to as many items as cannot be counted.
        others = found.strings.count(_MOST_VALUES)
        most = None if others is None else others + len(constants)
        return Distinct(constants, some_strings, most)

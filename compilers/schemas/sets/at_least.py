"""Numbers of values that goals have at least: what uniqueness of items asks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdec.compilers.schemas.sets.array_cases import ArrayCase
from cdec.compilers.schemas.sets.expansion import Expansion
from cdec.compilers.schemas.sets.object_cases import ObjectCases
from cdec.compilers.schemas.sets.shapes import FALSE, TRUE, ArrayShape, Goal, ObjectShape


class AtLeast:
    """Counts the values of goals from below.

    Args:
        expansion: Of the schema.
        has_value: Whether a goal has a value.
        arrays: Returns the cases of a shape of arrays. objects: Those of objects.
    """

    def __init__(
        self,
        expansion: Expansion,
        has_value: Callable[[Goal], bool],
        arrays: Callable[[ArrayShape], list[ArrayCase]],
        objects: ObjectCases,
    ) -> None:
        self._expansion = expansion
        self._has_value = has_value
        self._arrays = arrays
        self._objects = objects
        self._under_way: set[Goal] = set()
        self._known: dict[tuple[Goal, int], int] = {}

    def __call__(self, goal: Goal, most: int) -> int:
        """Return how many values a goal has: ``most``, if as many, or at least so many.

        Of objects and arrays that hold themselves, and of members of sets, fewer may be counted.
        """
        if goal in (TRUE, FALSE):
            return most if goal == TRUE else 0
        if goal in self._under_way:
            return 1
        known = self._known.get((goal, most))
        if known is None:
            self._under_way.add(goal)
            try:
                known = self._count(goal, most)
            finally:
                self._under_way.remove(goal)
            if not self._under_way:
                self._known[goal, most] = known
        return known

    def _count(self, goal: Goal, most: int) -> int:
        found = self._expansion.expand(goal)
        numbers = found.numbers & self._expansion.numbers
        listed = numbers.finite(most)
        strings = found.strings.count(most)
        count = len(found.words) + bool(found.limited) + (most if listed is None else len(listed))
        count += most if strings is None else strings
        if count < most and found.arrays:
            count += max(self._of_array(shape, most) for shape in found.arrays)
        if count < most and found.objects:
            count += max(self._of_object(shape, most) for shape in found.objects)
        return min(count, most)

    def _of_array(self, shape: ArrayShape, most: int) -> int:
        cases = self._arrays(shape)
        if not cases:
            return 0
        cut = cases[0].shape
        if cut.unique or cut.contains or cases[0].groups or cases[0].distinct or len(cases) > 1:
            return 1
        if cut.high is None:
            return most
        return product_of((self(cut.item(i), most) for i in range(cut.high)), most)

    def _of_object(self, shape: ObjectShape, most: int) -> int:
        case = next(self._objects.of(shape), None)
        if case is None:
            return 0
        cut = case.shape
        is_free = cut.high is None or cut.high > len(cut.required)
        if is_free and any(self._has_value(cell.goal) for cell in case.cells):
            return most
        if cut.exists or cut.high is not None or cut.low > len(cut.required):
            return 1
        goals = [(name in cut.required, cut.goal(name)) for name in case.names]
        counts = (
            self(goal, most) + (not is_required)
            for is_required, goal in goals
            if self._has_value(goal)
        )
        return product_of(counts, most)


def product_of(counts: Iterable[int], most: int) -> int:
    """Return a product, or ``most`` where it is as large; no more factors are asked for then."""
    product = 1
    for count in counts:
        product *= count
        if product >= most:
            return most
    return product

"""Emit: goals become the values, arrays, objects and choices of a program."""

from __future__ import annotations

from collections.abc import Sequence

from cdec.compilers.regular.edges import Edges
from cdec.compilers.regular.numbers import Numbers, union_raw
from cdec.compilers.regular.partition import labelled
from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.program.columns import Choice, Columns
from cdec.compilers.schemas.sets.array_cases import ArrayCase
from cdec.compilers.schemas.sets.endless import is_endless
from cdec.compilers.schemas.sets.expansion import Expansion
from cdec.compilers.schemas.sets.goals import Goal, conjunction
from cdec.compilers.schemas.sets.object_cases import ObjectCase, too_many
from cdec.compilers.schemas.sets.satisfiable import Satisfiable
from cdec.compilers.schemas.sets.shapes import ArrayShape, ObjectShape
from cdec.compilers.schemas.sets.sharing import contrary
from cdec.core.errors import LimitError


class Emitter:
    """Writes the values that can be reached from a goal, each once.

    Args:
        expansion: Of the goals.
        satisfiable: Which goals have values.
    """

    def __init__(self, expansion: Expansion, satisfiable: Satisfiable) -> None:
        self.columns = Columns()
        self._expansion = expansion
        self._has_value = satisfiable
        self._options = expansion.options
        self._values: dict[Goal, int] = {}
        self._waiting: list[Goal] = []
        self._arrays: dict[ArrayShape, list[int]] = {}
        self._objects: dict[ObjectShape, list[int]] = {}
        self._raw: dict[tuple[Numbers, frozenset[str]], int] = {}
        self._strings: dict[Strings, list[tuple[int, int, int]]] = {}

    def emit(self, goal: Goal) -> None:
        """Write the value of a goal, which becomes value 0, and all that it holds.

        Raises:
            LimitError: More values, or states, than allowed.
        """
        self._value(goal)
        done = 0
        while done < len(self._waiting):
            self._fill(self._waiting[done])
            done += 1

    def _value(self, goal: Goal) -> int:
        """Return the number of a goal's value, which is written later."""
        number = self._values.get(goal)
        if number is None:
            number = self._values[goal] = len(self._waiting)
            most = self._options.limits.max_values
            if number >= most:
                raise LimitError(
                    f"the schema has more than {most:,} different kinds of value",
                    hint="raise `max_values`",
                    limit="max_values",
                )
            self._waiting.append(goal)
        return number

    def _fill(self, goal: Goal) -> None:
        found = self._expansion.expand(goal)
        raw = -1
        numbers = found.numbers & self._expansion.numbers
        if found.words or not numbers.is_empty:
            raw = self._raw_start(numbers, found.words)
        arrays: dict[int, None] = {}
        for array in found.arrays:
            arrays |= dict.fromkeys(self._array(array))
        objects: dict[int, None] = {}
        for shape in found.objects:
            objects |= dict.fromkeys(self._object(shape))
        places = sorted(set(self._expansion.goals.places(goal)))
        self.columns.add_value(raw, self._parts(found.strings), list(arrays), list(objects), places)

    def _raw_start(self, numbers: Numbers, words: frozenset[str]) -> int:
        key = (numbers, words)
        if key not in self._raw:
            self._raw[key] = self._pool(union_raw(numbers, sorted(words)))
        return self._raw[key]

    def _parts(self, strings: Strings) -> list[tuple[int, int, int]]:
        """Return start state, fewest and most characters of the parts of a language."""
        if strings.is_empty:
            return []
        if strings not in self._strings:
            self._strings[strings] = [
                (self._pool(edges), low, high) for edges, low, high in strings.parts()
            ]
        return self._strings[strings]

    def _pool(self, edges: Edges) -> int:
        start = self.columns.add_automaton(edges)
        most = self._options.limits.max_states
        if self.columns.num_states > most:
            raise LimitError(
                f"the automata of the schema have more than {most:,} states",
                hint="raise `max_states`, or simplify its patterns and counts",
                limit="max_states",
            )
        return start

    def _array(self, shape: ArrayShape) -> list[int]:
        known = self._arrays.get(shape)
        if known is None:
            cases = self._has_value.cases_of_array(shape)
            known = self._arrays[shape] = [self._array_case(case) for case in cases]
        return known

    def _array_case(self, case: ArrayCase) -> int:
        shape = case.shape
        if case.constants is not None:
            return self._distinct_items(shape, case.constants, case.strings)
        high = -1 if shape.high is None else shape.high
        positions = [self._item_choices(shape, i) for i in range(len(shape.prefix))]
        is_closed = shape.high is not None and shape.high <= len(shape.prefix)
        rest = [] if is_closed else self._item_choices(shape, len(shape.prefix))
        counters = [(c.low, -1 if c.high is None else c.high) for c in shape.contains]
        for goal, number in case.groups:
            rest.append(Choice(self._value(goal), (len(counters),)))
            counters.append((number, number))
        positions.append(rest)
        return self.columns.add_array(shape.low, high, positions, counters, distinct=False)

    def _distinct_items(
        self, shape: ArrayShape, constants: Sequence[Goal], strings: Goal | None
    ) -> int:
        """Write arrays of constants, once each, and of strings that are remembered."""
        choices = [Choice(self._value(goal), (i,)) for i, goal in enumerate(constants)]
        high = -1 if shape.high is None else shape.high
        if strings is not None:
            choices.append(Choice(self._value(strings), ()))
        elif high < 0 or high > len(constants):
            high = len(constants)
        counters = [(0, 1)] * len(constants)
        return self.columns.add_array(
            shape.low, high, [choices], counters, distinct=strings is not None
        )

    def _item_choices(self, shape: ArrayShape, index: int) -> list[Choice]:
        """Return what an item may be: with each set of what is to be contained, or without."""
        options: list[tuple[Goal, tuple[int, ...]]] = [(shape.item(index), ())]
        for number, contains in enumerate(shape.contains):
            if index < contains.first:
                continue
            following = []
            for goal, counted in options:
                held = conjunction((goal, contains.goal))
                if self._has_value(held):
                    following.append((held, (*counted, number)))
                if contains.high is not None:
                    # An item that counts must be counted where there is a maximum.
                    goal = conjunction((goal, contrary(contains.goal)))
                if held != goal and self._has_value(goal):
                    following.append((goal, counted))
            options = following
        return [
            Choice(self._value(goal), counted) for goal, counted in options if self._has_value(goal)
        ]

    def _object(self, shape: ObjectShape) -> list[int]:
        known = self._objects.get(shape)
        if known is None:
            cases = self._has_value.objects.of(shape)
            known = self._objects[shape] = [self._object_case(case) for case in cases]
        return known

    def _object_case(self, case: ObjectCase) -> int:
        shape = case.shape
        declared = {name: rank for rank, name in enumerate(case.names)}
        names, slots = [], []
        for name in sorted(case.names, key=str.encode):
            held = [i for i, exists in enumerate(shape.exists) if name in exists.names]
            choices = self._property_choices(shape, shape.goal(name), held)
            if choices:
                names.append(name)
                slots.append((name, choices, name in shape.required, declared[name]))
        regions = []
        for cell in case.cells:
            choices = self._property_choices(shape, cell.goal, sorted(cell.exists))
            if choices:
                regions.append(cell.names)
                slots.append(("", choices, False, -1))
        keys = labelled(names, regions) if slots else None
        # A name that came twice would count twice, or be the one that has to exist and then not.
        distinct = bool(regions) and (shape.low > 1 or bool(shape.exists))
        if distinct and keys is not None and not is_endless(keys):
            path = shape.exists[0].path if shape.exists else "/minProperties"
            reason = "some of its names could not be told from those before"
            self._expansion.refuse(path, path.rsplit("/", 1)[1], reason)
            distinct = False
        return self.columns.add_object(
            shape.low,
            -1 if shape.high is None else shape.high,
            -1 if keys is None else self._pool(keys),
            slots,
            [(1, -1)] * len(shape.exists),
            ordered=self._options.property_order == "declared",
            distinct=distinct,
        )

    def _property_choices(
        self, shape: ObjectShape, goal: Goal, held: Sequence[int]
    ) -> list[Choice]:
        """Return what a property may be: with each set of what must exist, or without."""
        options: list[tuple[Goal, tuple[int, ...]]] = [(goal, ())]
        for number in held:
            following = []
            for one, counted in options:
                met = conjunction((one, shape.exists[number].goal))
                if self._has_value(met):
                    following.append((met, (*counted, number)))
                # What is met in any case need not be left uncounted.
                if met != one:
                    following.append((one, counted))
            options = following
            if len(options) > self._options.limits.max_alternatives:
                raise too_many(shape.exists[number].path, self._options.limits.max_alternatives)
        return [
            Choice(self._value(met), counted) for met, counted in options if self._has_value(met)
        ]

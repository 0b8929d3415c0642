"""Program of a schema: goals become the values, arrays, objects and choices of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.regular.edges import Edges, pooled
from cdec.compilers.regular.numbers import Numbers, union_raw
from cdec.compilers.regular.strings import Strings, labelled
from cdec.compilers.schemas.sets.array_cases import ArrayCase, Distinct, contrary
from cdec.compilers.schemas.sets.expansion import Expansion
from cdec.compilers.schemas.sets.members import Members
from cdec.compilers.schemas.sets.object_cases import ObjectCase, too_many
from cdec.compilers.schemas.sets.regexes import REGEXES, Regexes
from cdec.compilers.schemas.sets.satisfiable import TOKENS_DIFFER, Satisfiable, is_endless
from cdec.compilers.schemas.sets.shapes import ArrayShape, Goal, ObjectShape, conjunction
from cdec.core.errors import LimitError
from cdec.core.mask import offsets_of
from cdec.core.schemas.own_keywords import SET
from cdec.core.schemas.program import COLUMNS, REGION_RANK
from cdec.core.schemas.regex_strings import RegexStart
from cdec.core.sets.chosen import MemberChoice

_INDENTED = 4
"""Times as many blanks as on a line may indent one."""


def no_blanks() -> Edges:
    """Return the automaton of the empty run."""
    return _edges([[]])


@lru_cache(maxsize=16)
def bounded_blanks(most: int) -> Edges:
    """Return the automaton of runs with ``most`` blanks on a line, as many line breaks, and four
    times as many blanks behind a break.

    Cost: 4 * most ** 2 states.
    """
    # State i: i blanks on the first line. Then, for each break, its state and those of its blanks.
    width = _INDENTED * most + 1
    states: list[list[tuple[bytes, int]]] = []
    for i in range(most + 1):
        to_break = [(b"\n", most + 1)] if most else []
        onward = [(b"\t", i + 1), (b"\r", i + 1), (b" ", i + 1)] if i < most else []
        states.append(onward + to_break)
    for line in range(most):
        first = most + 1 + line * width
        for i in range(width):
            to_break = [(b"\n", first + width)] if line + 1 < most else []
            here = first + i + 1
            onward = [(b"\t", here), (b"\r", here), (b" ", here)] if i + 1 < width else []
            states.append(onward + to_break)
    return _edges(states)


def _edges(states: list[list[tuple[bytes, int]]]) -> Edges:
    n = len(states)
    for edges in states:
        edges.sort()
    flat = [edge for edges in states for edge in edges]
    low = np.array([byte[0] for byte, _ in flat], np.uint8)
    offsets = offsets_of([len(edges) for edges in states])
    zeros = np.zeros(n, np.int32)
    return Edges(
        offsets,
        low,
        low.copy(),
        np.array([target for _, target in flat], np.int32),
        zeros,
        zeros,
        np.zeros(n, np.uint8),
        zeros,
        zeros,
        np.ones(n, np.uint8),
    )


class Choice(NamedTuple):
    """One way to fill a position or a slot: a value, and the counters that it adds to."""

    value: int
    counters: tuple[int, ...]


Alternative = tuple[tuple[int, int, int], int | None]
"""Strings: start state, fewest and most characters, and most tokens."""
Slot = tuple[str, list[Choice], bool, int]
"""Name ("" for a region), choices, whether it is required, and its place among declared names."""


class Columns:
    """Collects the columns of a program; see ``cdec.core.schemas.program``.

    Attributes:
        num_states: States of all automata so far.
        budgets: Alternatives of strings and the most tokens that they may have.
    """

    def __init__(self) -> None:
        self.num_states = 0
        self.budgets: list[tuple[int, int]] = []
        self._automata: list[Edges] = []
        self._lists: dict[str, list[int]] = {name: [] for name in COLUMNS}
        for name in COLUMNS:
            if name.endswith("_offsets"):
                self._lists[name].append(0)
        self._slot_choices: list[Choice] = []
        self._slot_ends: list[int] = []
        self._places: list[bytes] = []
        self._keys: list[bytes] = []

    def add_automaton(self, edges: Edges) -> int:
        """Add an automaton to the pool and return its start state."""
        start = self.num_states
        self._automata.append(edges)
        self.num_states += len(edges.state_label)
        return start

    def add_value(
        self,
        raw: int,
        strings: Sequence[Alternative],
        arrays: Sequence[int],
        objects: Sequence[int],
        places: Sequence[str],
    ) -> None:
        """Add the next value: its alternatives, and the JSON pointers that it comes from."""
        put = self._lists
        put["raw_start"].append(raw)
        for (start, low, high), tokens in strings:
            if tokens is not None:
                self.budgets.append((len(put["string_start"]), tokens))
            put["string_start"].append(start)
            put["string_min"].append(low)
            put["string_max"].append(high)
        put["string_offsets"].append(len(put["string_start"]))
        put["array_ids"] += arrays
        put["array_offsets"].append(len(put["array_ids"]))
        put["object_ids"] += objects
        put["object_offsets"].append(len(put["object_ids"]))
        self._places.append("\n".join(places).encode("utf-8", "replace"))

    def add_array(
        self,
        sizes: tuple[int, int],
        positions: Sequence[Sequence[Choice]],
        counters: Sequence[tuple[int, int]],
        *,
        distinct: bool,
    ) -> int:
        """Add an array, its last position the rest, and return its number.

        Args:
            sizes: Least and most items; -1 for any number.
        """
        put = self._lists
        put["array_distinct"].append(distinct)
        self._add_bounds("array", sizes)
        for choices in positions:
            for choice in choices:
                self._add_choice(choice)
            put["position_choice_offsets"].append(len(put["choice_value"]))
        put["array_position_offsets"].append(len(put["position_choice_offsets"]) - 1)
        self._add_counters("array", counters)
        return len(put["array_min"]) - 1

    def add_object(
        self,
        sizes: tuple[int, int],
        key: int,
        slots: Sequence[Slot],
        counters: Sequence[tuple[int, int]],
        *,
        ordered: bool,
        distinct: bool,
    ) -> int:
        """Add an object, single slots first, of as many members as ``sizes``; return its number."""
        put = self._lists
        self._add_bounds("object", sizes)
        put["object_key"].append(key)
        put["object_ordered"].append(ordered)
        put["object_distinct"].append(distinct)
        for name, choices, required, rank in slots:
            self._slot_choices += choices
            self._slot_ends.append(len(self._slot_choices))
            put["slot_single"].append(rank >= 0)
            put["slot_required"].append(required)
            put["slot_rank"].append(rank if rank >= 0 else REGION_RANK)
            self._keys.append(name.encode() if rank >= 0 else b"")
        put["object_slot_offsets"].append(len(self._slot_ends))
        self._add_counters("object", counters)
        return len(put["object_min"]) - 1

    def let_repeat(self, array: int) -> None:
        """Let the items of an array be equal."""
        self._lists["array_distinct"][array] = False

    def items_of(self, array: int) -> set[int]:
        """Return the values that items of an array may have."""
        put = self._lists
        first, last = put["array_position_offsets"][array : array + 2]
        ends = put["position_choice_offsets"]
        return set(put["choice_value"][ends[first] : ends[last]])

    def _members_of(self, made: int) -> set[int]:
        """Return the values that members of an object may have."""
        first, last = self._lists["object_slot_offsets"][made : made + 2]
        ends = [0, *self._slot_ends]
        return {choice.value for choice in self._slot_choices[ends[first] : ends[last]]}

    def values_with_budgets(self) -> set[int]:
        """Return the values that are, or hold at any depth, strings of so many tokens at most."""
        put = self._lists
        numbers = [string for string, _ in self.budgets]
        found = set((np.searchsorted(put["string_offsets"], numbers, "right") - 1).tolist())
        within: list[set[int]] = []
        for value in range(len(put["raw_start"])):
            arrays = put["array_ids"][slice(*put["array_offsets"][value : value + 2])]
            objects = put["object_ids"][slice(*put["object_offsets"][value : value + 2])]
            parts = [*map(self.items_of, arrays), *map(self._members_of, objects)]
            within.append(set().union(*parts))
        while more := {v for v, held in enumerate(within) if held & found} - found:
            found |= more
        return found

    def _add_choice(self, choice: Choice) -> None:
        put = self._lists
        put["choice_value"].append(choice.value)
        put["choice_counters"] += choice.counters
        put["choice_counter_offsets"].append(len(put["choice_counters"]))

    def _add_bounds(self, of: str, bounds: tuple[int, int]) -> None:
        for name, bound in zip(("min", "max"), bounds, strict=True):
            self._lists[f"{of}_{name}"].append(bound)

    def _add_counters(self, of: str, counters: Sequence[tuple[int, int]]) -> None:
        put = self._lists
        for counter in counters:
            self._add_bounds(f"{of}_counter", counter)
        put[f"{of}_counter_offsets"].append(len(put[f"{of}_counter_min"]))

    def arrays(self, blanks: Edges, layout: int, vocabulary: Any) -> dict[str, NDArray[Any]]:
        """Return all columns; slots' choices stand behind those of positions.

        Args:
            blanks: Runs of white space between JSON's tokens.
            layout: The column ``indent``.
        """
        put = self._lists
        put["blank_start"], put["indent"] = [self.add_automaton(blanks)], [layout]
        base = len(put["choice_value"])
        for choice in self._slot_choices:
            self._add_choice(choice)
        put["slot_choice_offsets"] = [base, *(base + end for end in self._slot_ends)]
        found: dict[str, Any] = dict(put)
        pool, _ = pooled(self._automata)
        found |= pool._asdict()
        found["place_offsets"], found["place_bytes"] = _joined(self._places)
        found["key_offsets"], found["key_bytes"] = _joined(self._keys)
        found["vocabulary_offsets"] = vocabulary.byte_offsets
        found["vocabulary_bytes"] = vocabulary.flat_bytes
        return {
            name: np.ascontiguousarray(np.asarray(found[name], np.dtype(kind)).reshape(-1))
            for name, kind in COLUMNS.items()
        }


def _joined(parts: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    return offsets_of([len(part) for part in parts]), np.frombuffer(b"".join(parts), np.uint8)


class Emitter:
    """Writes the values that can be reached from a goal, each once."""

    def __init__(self, expansion: Expansion, satisfiable: Satisfiable) -> None:
        self.columns = Columns()
        self._expansion = expansion
        self._has_value = satisfiable
        self._options = expansion.options
        self._values: dict[Goal, int] = {}
        self._waiting: list[Goal] = []
        self._arrays: dict[ArrayShape, list[int]] = {}
        self._objects: dict[ObjectShape, list[int]] = {}
        self._distinct: dict[int, str] = {}
        self._raw: dict[tuple[Numbers, frozenset[str]], int] = {}
        self._strings: dict[Strings, list[tuple[int, int, int]]] = {}
        self._regexes: dict[Members, list[tuple[int, int, int]]] = {}
        self.members: dict[Members | RegexStart, int] = {}
        """Members of sets and pieces of documents that are strings somewhere, regular expressions
        from a state on, and their numbers."""

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
        self._refuse_limited_items()

    def _refuse_limited_items(self) -> None:
        """Refuse items that must differ and hold strings of so many tokens at most."""
        if not self.columns.budgets:
            return
        holding = self.columns.values_with_budgets()
        for array, path in self._distinct.items():
            if holding & self.columns.items_of(array):
                self._expansion.refuse(path, path.rsplit("/", 1)[1], TOKENS_DIFFER)
                self.columns.let_repeat(array)

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
        plain = self._parts(found.strings)
        for members in sorted(found.members, key=lambda members: members.order):
            plain += self._members(members)
        strings: list[Alternative] = [(part, None) for part in plain]
        for most, limited in found.limited:
            strings += [(part, most) for part in self._parts(limited)]
        self.columns.add_value(raw, strings, list(arrays), list(objects), places)

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

    def _members(self, members: Members) -> list[tuple[int, int, int]]:
        """Return the alternative of members of sets, which stand in no automaton.

        All strings but members of a set cannot be walked: where they are let pass, all strings are.
        """
        if not members.sets:
            path = self._expansion.negated[min(members.without)]
            reason = "strings that are no members of a set cannot be told"
            self._expansion.refuse(path, SET, reason)
            return self._parts(members.strings)
        if REGEXES in members.sets:
            if members not in self._regexes:
                parts = REGEXES.parts(members.strings)
                found = [(RegexStart(self._pool(edges)), low) for edges, low in parts]
                self._regexes[members] = [(self._numbered(one), low, -1) for one, low in found]
            return self._regexes[members]
        return [(self._numbered(members), 0, -1)]

    def _numbered(self, members: Members | RegexStart) -> int:
        return -1 - self.members.setdefault(members, len(self.members))

    def held_members(self) -> list[MemberChoice | RegexStart]:
        """Return what the alternatives of members are, by their numbers."""
        return [
            one
            if isinstance(one, RegexStart)
            else MemberChoice(
                tuple(
                    sorted((name for name in one.sets if not isinstance(name, Regexes)), key=str)
                ),
                tuple(sorted(one.without)),
                None if one.strings is Strings.ANY else tuple(self._parts(one.strings)),
            )
            for one in self.members
        ]

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
        items = case.distinct
        if items is not None and (items.constants or items.others != shape.rest):
            return self._distinct_items(shape, items)
        high = -1 if shape.high is None else shape.high
        positions = [self._item_choices(shape, i) for i in range(len(shape.prefix))]
        is_closed = shape.high is not None and shape.high <= len(shape.prefix)
        rest = [] if is_closed else self._item_choices(shape, len(shape.prefix))
        counters = [(c.low, -1 if c.high is None else c.high) for c in shape.contains]
        for goal, number in case.groups:
            rest.append(Choice(self._value(goal), (len(counters),)))
            counters.append((number, number))
        positions.append(rest)
        is_distinct = items is not None
        number = self.columns.add_array(
            (shape.low, high), positions, counters, distinct=is_distinct
        )
        if is_distinct:
            self._distinct[number] = shape.unique[0]
        return number

    def _distinct_items(self, shape: ArrayShape, items: Distinct) -> int:
        """Write arrays of constants, once each, and of other values, which are remembered."""
        choices = [Choice(self._value(goal), (i,)) for i, goal in enumerate(items.constants)]
        if items.others is not None:
            choices.append(Choice(self._value(items.others), ()))
        return self.columns.add_array(
            (shape.low, -1 if shape.high is None else shape.high),
            [choices],
            [(0, 1)] * len(items.constants),
            distinct=items.others is not None,
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
            (shape.low, -1 if shape.high is None else shape.high),
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

"""Goals and shapes: conjunctions of subschemas, and the sets of JSON values that they are.

A value belongs to a goal if every literal of it says so. Literals are integers, ``2 * atom`` for an
atom and ``2 * atom + 1`` for its negation, so that goals are small tuples that compare fast.

A set of values is a union, type by type; of arrays and objects, alternatives called shapes. Shapes
are conjunctions: what they hold within is given as goals, expanded when it is needed, so that
recursive schemas end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from cdec.compilers.regular.numbers import Numbers
from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.sets.members import (
    Members,
    both_members,
    joined_members,
    undecided,
    without_listed,
)

Goal: TypeAlias = tuple[int, ...]
TRUE: Goal = ()
"""Every value."""
FALSE: Goal = (-1,)
"""No value."""
COMMENTS = frozenset({"title", "description", "$comment", "default", "examples"})
"""Keywords that say nothing of values."""
_CONTRARY = COMMENTS | {"not"}
WORDS = frozenset({"null", "true", "false"})


class Constant:
    """One JSON value, compared as JSON Schema does: 1 is 1.0, and the order of keys means nothing.

    Attributes:
        value: The JSON. path: Where it stands.
    """

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path


class Goals:
    """Numbers the atoms, and makes goals of them."""

    def __init__(self) -> None:
        self.atoms: list[Schema | Constant] = []
        self._schemas: dict[Schema, int] = {}
        self._constants: dict[object, int] = {}
        self._types: dict[tuple[str, ...], Schema] = {}
        self._firsts: set[int] = set()

    def of(self, schema: Schema, *, positive: bool = True) -> Goal:
        """Return the values that a schema accepts, or those that it refuses."""
        if isinstance(schema.value, bool) or not schema.keywords:
            accepts = schema.value is not False
            return TRUE if accepts is positive else FALSE
        if "not" in schema.keywords and schema.keywords.keys() <= _CONTRARY:
            return self.of(schema.child("not"), positive=not positive)
        number = self._schemas.get(schema)
        if number is None:
            number = self._schemas[schema] = len(self.atoms)
            self.atoms.append(schema)
        return (2 * number + (not positive),)

    def of_types(self, names: tuple[str, ...], draft: int) -> Goal:
        """Return the values of some types; as a part of a goal, it is looked at first."""
        if names not in self._types:
            self._types[names] = Schema("", {"type": list(names)}, "", draft)
        return self.first(self._types[names])

    def first(self, schema: Schema) -> Goal:
        """Return the values that a schema accepts; as a part of a goal, it is looked at first."""
        goal = self.of(schema)
        self._firsts.update(goal)
        return goal

    def in_order(self, goal: Goal) -> list[int]:
        """Return the literals of a goal in the order in which they are looked at.

        Contraries come last: what they are contraries of is often told apart by then.
        """
        return sorted(goal, key=lambda literal: (literal not in self._firsts, literal & 1))

    def constant(self, value: Any, path: str, *, positive: bool = True) -> Goal:
        """Return one value, or all others."""
        key = canonical(value)
        number = self._constants.get(key)
        if number is None:
            number = self._constants[key] = len(self.atoms)
            self.atoms.append(Constant(value, path))
        return (2 * number + (not positive),)

    def places(self, goal: Goal) -> list[str]:
        """Return the JSON pointers of what a goal is made of."""
        return [self.atoms[literal >> 1].path for literal in goal if literal >= 0]


def conjunction(goals: Iterable[Goal]) -> Goal:
    """Return the values of all goals; FALSE where one contradicts another outright."""
    found = [goal for goal in goals if goal]
    if len(found) < 2:
        return found[0] if found else TRUE
    literals = set[int]().union(*found)
    if -1 in literals or any(literal ^ 1 in literals for literal in literals):
        return FALSE
    return tuple(sorted(literals))


def canonical(value: Any) -> object:
    """Return a hashable that is equal for equal JSON values."""
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value).normalize() + 0)
    if isinstance(value, list):
        return ("array", *map(canonical, value))
    if isinstance(value, dict):
        return ("object", *sorted((name, canonical(item)) for name, item in value.items()))
    return value


class Contains(NamedTuple):
    """Numbers of items that must, and may, belong to a goal, from some index on."""

    goal: Goal
    low: int
    high: int | None
    path: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Arrays.

    Attributes:
        prefix: Goals of the first items. rest: Of all others.
        low, high: Numbers of items; ``high`` None for any.
        contains: How many items of which goals.
        unique: JSON pointers of the keywords that ask for items without equals.
        repeating: JSON pointers of those that must not hold: two items are equal.
    """

    prefix: tuple[Goal, ...] = ()
    rest: Goal = TRUE
    low: int = 0
    high: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: tuple[str, ...] = ()
    repeating: tuple[str, ...] = ()

    def item(self, index: int) -> Goal:
        """Return the goal of an item."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True)
class Block:
    """Properties by one schema: each name's goal, each pattern's, and all others'.

    A name that is matched by patterns belongs to their goals as well; ``rest`` is for those that
    nothing names or matches.
    """

    names: tuple[tuple[str, Goal], ...] = ()
    patterns: tuple[tuple[Strings, Goal], ...] = ()
    rest: Goal = TRUE

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", dict(self.names))
        object.__setattr__(self, "_hash", hash((self.names, self.patterns, self.rest)))

    def __hash__(self) -> int:
        return int(self.__dict__["_hash"])

    def goal(self, name: str) -> Goal:
        """Return the goal of a property."""
        by_name: dict[str, Goal] = self.__dict__["_by_name"]
        if not self.patterns:
            return by_name.get(name, self.rest)
        found = [by_name[name]] if name in by_name else []
        found += [goal for strings, goal in self.patterns if name in strings]
        return conjunction(found) if found else self.rest


class Exists(NamedTuple):
    """A property must exist, with a name of a language and a value of a goal."""

    names: Strings
    goal: Goal
    path: str


@dataclass(frozen=True)
class ObjectShape:
    """Objects.

    Attributes:
        blocks: All of them hold.
        required: Names.
        low, high: Numbers of properties; ``high`` None for any.
        exists: Properties that must exist.
    """

    blocks: tuple[Block, ...] = ()
    required: frozenset[str] = frozenset()
    low: int = 0
    high: int | None = None
    exists: tuple[Exists, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "_goals", {})

    @cached_property
    def held(self) -> frozenset[Block]:
        """Its blocks as a set."""
        return frozenset(self.blocks)

    @cached_property
    def _hash(self) -> int:
        return hash((self.held, self.required, self.low, self.high, self.exists))

    def __hash__(self) -> int:
        return self._hash

    def goal(self, name: str) -> Goal:
        """Return the goal of a property."""
        known: dict[str, Goal] = self.__dict__["_goals"]
        found = known.get(name)
        if found is None:
            goals = [goal for block in self.blocks if (goal := block.goal(name))]
            found = known[name] = conjunction(goals) if len(goals) > 1 else (goals or [TRUE])[0]
        return found

    @property
    def names(self) -> list[str]:
        """Names that are mentioned, as declared, then the required ones."""
        found = {name: None for block in self.blocks for name, _ in block.names}
        return list(found | dict.fromkeys(sorted(self.required)))


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of JSON values.

    Attributes:
        words: Of ``null``, ``true`` and ``false``.
        numbers, strings: Exactly which.
        arrays, objects: Alternatives, which may overlap.
        members: Strings of it that are members of sets as well, or pieces of records' fields.
        limited: Strings of it that have at most so many tokens: that number, and which.
    """

    words: frozenset[str] = frozenset()
    numbers: Numbers = Numbers.NONE
    strings: Strings = Strings.NONE
    arrays: tuple[ArrayShape, ...] = ()
    objects: tuple[ObjectShape, ...] = ()
    members: tuple[Members, ...] = ()
    limited: tuple[tuple[int, Strings], ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True where nothing is left, whatever goals within say."""
        return not (self.arrays or self.objects or self.has_scalars)

    @property
    def has_scalars(self) -> bool:
        """True where a word, a number or a string is among the values."""
        if self.words or self.members or self.limited:
            return True
        if self.numbers is not Numbers.NONE and not self.numbers.is_empty:
            return True
        return self.strings is not Strings.NONE and not self.strings.is_empty


ANY_ARRAY, ANY_OBJECT = ArrayShape(), ObjectShape()
NOTHING = ValueSet()
ANYTHING = ValueSet(WORDS, Numbers.ANY, Strings.ANY, (ANY_ARRAY,), (ANY_OBJECT,))
SCALARS = replace(ANYTHING, arrays=(), objects=())


def union(sets: Iterable[ValueSet]) -> ValueSet:
    """Return the values of any of the sets."""
    words: frozenset[str] = frozenset()
    members: list[Members] = []
    numbers, strings = Numbers.NONE, Strings.NONE
    limited: list[tuple[int, Strings]] = []
    arrays: dict[ArrayShape, None] = {}
    objects: dict[ObjectShape, None] = {}
    for one in sets:
        words |= one.words
        members += one.members
        limited += one.limited
        if one.numbers is not Numbers.NONE:
            numbers = one.numbers if numbers is Numbers.NONE else numbers | one.numbers
        if one.strings is not Strings.NONE:
            strings = one.strings if strings is Strings.NONE else strings | one.strings
        arrays |= dict.fromkeys(one.arrays)
        objects |= dict.fromkeys(one.objects)
    all_arrays = (ANY_ARRAY,) if ANY_ARRAY in arrays else tuple(arrays)
    all_objects = (ANY_OBJECT,) if ANY_OBJECT in objects else tuple(objects)
    held = () if strings is Strings.ANY else joined_members(members)
    most = _by_number(limited)
    return ValueSet(words, numbers, strings, all_arrays, all_objects, held, most)


def _by_number(limited: Sequence[tuple[int, Strings]]) -> tuple[tuple[int, Strings], ...]:
    """Return strings of at most so many tokens, those of one number together."""
    found: dict[int, Strings] = {}
    for most, strings in limited:
        if not strings.is_empty:
            found[most] = found[most] | strings if most in found else strings
    return tuple(sorted(found.items(), key=lambda item: item[0]))


def _both_limited(a: ValueSet, b: ValueSet) -> tuple[tuple[int, Strings], ...]:
    """Return the strings of both that one of them holds to a number of tokens."""
    if not a.limited and not b.limited:
        return ()
    found = [(most, _both_strings(strings, b.strings)) for most, strings in a.limited]
    found += [(most, _both_strings(strings, a.strings)) for most, strings in b.limited]
    found += [
        (min(most, other), _both_strings(strings, others))
        for most, strings in a.limited
        for other, others in b.limited
    ]
    return _by_number(found)


def _both_strings(a: Strings, b: Strings) -> Strings:
    if a is Strings.NONE or b is Strings.NONE:
        return Strings.NONE
    if a is Strings.ANY or b is Strings.ANY:
        return b if a is Strings.ANY else a
    return a & b


def _both_members(a: ValueSet, b: ValueSet) -> tuple[Members, ...]:
    """Return the strings of both that are members of sets.

    Raises:
        SchemaUnsupportedError: They must have so many tokens as well, or pieces of documents must
            satisfy something else.
    """
    if not a.members and not b.members:
        return ()
    for one, other in ((a, b), (b, a)):
        if one.members and other.limited:
            first = min(one.members, key=lambda members: members.order)
            name = min([*first.sets, *first.without], key=str)
            raise undecided(name)
    return both_members(a.members, b.members, a.strings, b.strings)


def both(
    a: ValueSet, b: ValueSet, arrays: Sequence[ArrayShape], objects: Sequence[ObjectShape]
) -> ValueSet:
    """Return the values of both sets, of which the arrays and objects are given."""
    numbers, strings = a.numbers, _both_strings(a.strings, b.strings)
    if numbers is Numbers.NONE or b.numbers is Numbers.NONE:
        numbers = Numbers.NONE
    elif b.numbers is not Numbers.ANY:
        numbers = b.numbers if numbers is Numbers.ANY else numbers & b.numbers
    words, members, limited = a.words & b.words, _both_members(a, b), _both_limited(a, b)
    members, listed = without_listed(members)
    strings = strings if listed is Strings.NONE else strings | listed
    return ValueSet(words, numbers, strings, tuple(arrays), tuple(objects), members, limited)


def both_arrays(a: ArrayShape, b: ArrayShape) -> ArrayShape | None:
    """Return the arrays of both shapes; None where the shapes exclude each other outright."""
    if a is ANY_ARRAY or b is ANY_ARRAY:
        return b if a is ANY_ARRAY else a
    low, high = max(a.low, b.low), _least(a.high, b.high)
    if high is not None and high < low:
        return None
    pairs = zip_longest(a.prefix, b.prefix)
    prefix = tuple(
        conjunction((a.rest if x is None else x, b.rest if y is None else y)) for x, y in pairs
    )
    contains = tuple(dict.fromkeys((*a.contains, *b.contains)))
    unique = tuple(dict.fromkeys((*a.unique, *b.unique)))
    repeating = tuple(dict.fromkeys((*a.repeating, *b.repeating)))
    if repeating and (unique or (high is not None and high < 2)):
        return None
    return ArrayShape(prefix, conjunction((a.rest, b.rest)), low, high, contains, unique, repeating)


def both_objects(a: ObjectShape, b: ObjectShape) -> ObjectShape | None:
    """Return the objects of both shapes; None where the shapes exclude each other outright."""
    if a is ANY_OBJECT or b is ANY_OBJECT:
        return b if a is ANY_OBJECT else a
    required = a.required | b.required
    low, high = max(a.low, b.low), _least(a.high, b.high)
    if high is not None and high < max(low, len(required)):
        return None
    blocks = tuple(dict.fromkeys((*a.blocks, *b.blocks)))
    exists = tuple(dict.fromkeys((*a.exists, *b.exists)))
    return ObjectShape(blocks, required, low, high, exists)


def without(name: str) -> ObjectShape:
    """Return the objects that lack a property."""
    return ObjectShape((Block(((name, FALSE),)),))


def joined(shapes: Sequence[ObjectShape]) -> tuple[ObjectShape, ...]:
    """Return alternatives, of which those that lack a name are joined with those that have it.

    Objects that lack a name, and those where it has a value of a goal, together are those in which
    it has no other value.
    """
    known, joint = set(shapes), set[str]()
    found: dict[ObjectShape, None] = {}
    for shape in shapes:
        name = next(iter(shape.required)) if len(shape.required) == 1 else None
        if name is not None and without(name) in known:
            valued = ObjectShape((Block(((name, shape.goal(name)),)),))
            if shape == replace(valued, required=shape.required):
                joint.add(name)
                shape = valued
        found[shape] = None
    lacking = {without(name) for name in joint}
    return tuple(shape for shape in found if shape not in lacking)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)

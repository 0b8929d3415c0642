"""Expansion of goals to ``ValueSet``, by a handler for each keyword.

A keyword has two handlers: of the values that it accepts, and of those that it refuses. A schema is
the intersection of the former; its negation is the union of the latter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from cdec.compilers.regular.numbers import Numbers
from cdec.compilers.schemas.document import Document, Schema
from cdec.compilers.schemas.options import SchemaOptions
from cdec.compilers.schemas.sets.discriminators import Discriminators
from cdec.compilers.schemas.sets.products import FEW, Products, width
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    FALSE,
    NOTHING,
    Constant,
    Goal,
    Goals,
    ValueSet,
    conjunction,
    joined,
    union,
)
from cdec.core.errors import CdecError, LimitError, Notice
from cdec.core.schemas.errors import SchemaUnsupportedError

Handler: TypeAlias = "Callable[[Expansion, Schema, Any], ValueSet]"


_OF_ALL = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""Keywords that look at all that stands beside them."""


class UnderWayError(Exception):
    """Question that rests on an expansion that is not finished."""


class Expansion:
    """Expands goals of one document, each once.

    Args:
        document: The schema.
        options: ``lenient``, ``formats``, ``numbers`` and ``limits`` are read.
        handlers: By keyword: of what it accepts and of what it refuses.
        constants: Returns the values of a goal that is one constant, or all but it.

    Attributes:
        numbers: Those that there are: ``options.numbers`` says whether all, or finite doubles.
        is_empty_for_sure: Whether a goal is known to have no value.
        unenforced: What was recorded as not enforced, by path and keyword: the reason.
        negated: Names of sets whose members are refused somewhere, and where first.
        notices: Warnings, by what they are about.
        costs: By keyword: uses, seconds, and alternatives made.
    """

    def __init__(
        self,
        document: Document,
        options: SchemaOptions,
        handlers: dict[str, tuple[Handler, Handler]],
        constants: Callable[[Expansion, Constant, bool], ValueSet],
    ) -> None:
        self.document = document
        self.options = options
        self.numbers = Numbers.FINITE if options.numbers == "finite" else Numbers.ANY
        self.goals = Goals()
        self.is_empty_for_sure: Callable[[Goal], bool] = lambda goal: False
        self.unenforced: dict[tuple[str, str], str] = {}
        self.negated: dict[str, str] = {}
        self.notices: dict[tuple[str, str], Notice] = {}
        self.costs: dict[str, dict[str, float]] = {}
        self._handlers = handlers
        self._constants = constants
        self._discriminators = Discriminators(document, self.goals)
        self._products = Products(self._discriminators, options.limits.max_alternatives)
        self._known: dict[Goal, ValueSet] = {}
        self._beside: dict[Schema, Goal] = {}
        self._under_way: dict[Goal, int] = {}
        self._lowest = 0
        """Depth of the goal furthest out that a result under way stands on."""
        self._base = 0
        """Goals under way at lower depths must not be asked for."""
        self._contexts: list[tuple[int, ValueSet]] = []
        """Sets met with those being made now, and the depth of the goal that each is of."""

    def expand(self, goal: Goal) -> ValueSet:
        """Return the values of a goal, one level deep.

        A goal that is met within its own expansion adds nothing to it: the least fixed point. What
        was made of such a goal is forgotten, up to the one it stands on.
        """
        known = self._known.get(goal)
        if known is not None:
            return known
        if goal == FALSE:
            return NOTHING
        reduced = self._discriminators.reduced(goal) if len(goal) > 2 else goal
        if reduced != goal:
            return self.expand(reduced)
        depth = len(self._under_way)
        if goal in self._under_way:
            if self._under_way[goal] < self._base:
                raise UnderWayError
            self._lowest = min(self._lowest, self._under_way[goal])
            return NOTHING
        self._under_way[goal] = depth
        before, self._lowest = self._lowest, depth
        try:
            if len(goal) == 1:
                result = self._literal(goal[0])
            else:
                literals = self.goals.in_order(goal)
                result = self.meet(self.expand((literal,)) for literal in literals)
        finally:
            del self._under_way[goal]
            is_whole = self._lowest >= depth
            self._lowest = before if is_whole else min(before, self._lowest)
        if is_whole:
            self._known[goal] = result
        return result

    @contextmanager
    def from_outside(self) -> Iterator[None]:
        """Refuse what rests on goals that are under way now, with ``UnderWayError``."""
        before, self._base = self._base, len(self._under_way)
        contexts, self._contexts = self._contexts, []
        try:
            yield
        finally:
            self._base, self._contexts = before, contexts

    def meet(self, sets: Iterable[ValueSet]) -> ValueSet:
        """Return the values of all sets.

        Raises:
            LimitError: More alternatives than ``max_alternatives``.
        """
        result, made = ANYTHING, list[ValueSet]()
        many = FEW
        depth = len(self._under_way) - 1
        self._contexts.append((depth, result))
        try:
            for one in sets:
                made.append(one)
                result = self._products.both(result, one)
                if width(result) > many:
                    result = self._in_context(result, made)
                    many = max(FEW, 2 * width(result))
                if result is NOTHING:
                    break
                self._contexts[-1] = (depth, result)
        finally:
            self._contexts.pop()
        return result

    def _in_context(self, result: ValueSet, made: Sequence[ValueSet]) -> ValueSet:
        """Return the conjunction of some sets, or what the sets that it is met with leave of it.

        The latter stands on the goals that say so.
        """
        contexts = [context for context in self._contexts[:-1] if context[1] is not ANYTHING]
        try:
            found = self._products.all([*(context for _, context in contexts), *made])
        except LimitError:
            return result
        if width(found) >= width(result):
            return result
        self._lowest = min([self._lowest, *(depth for depth, _ in contexts)])
        return found

    def beside(self, schema: Schema, keyword: str) -> Goal:
        """Return the values that satisfy the keywords beside one; TRUE where there are none."""
        if schema not in self._beside:
            kept = {
                name: value
                for name, value in schema.keywords.items()
                if name != keyword and name in self._handlers and name not in _OF_ALL
            }
            other = Schema(schema.path, kept, schema.base, schema.draft)
            other.children = schema.children
            self._beside[schema] = self.goals.first(other)
        return self._beside[schema]

    def are_disjoint(self, a: Goal, b: Goal) -> bool:
        """Say whether two goals are known to have no value in common, where they are asked about.

        What they are met with counts as well: two branches that a property tells apart are disjoint
        if it is required beside them. The result then stands on the goal that says so.
        """
        joint = conjunction((a, b))
        if self._discriminators.conflict(joint):
            return True
        if self.is_empty_for_sure(joint):
            return True
        contexts = [context for context in self._contexts if context[1] is not ANYTHING]
        if not contexts:
            return False
        try:
            with self.from_outside():
                left = self.expand(joint)
                for depth, context in reversed(contexts):
                    left = self._products.both(left, context)
                    if left.is_nothing:
                        self._lowest = min(self._lowest, depth)
                        return True
        except (UnderWayError, SchemaUnsupportedError, LimitError):
            pass
        return False

    def unsupported(self, schema: Schema, keyword: str, reason: str) -> ValueSet:
        """Record a keyword that masks do not enforce, and let everything pass.

        Raises:
            SchemaUnsupportedError: Unless compiled leniently.
        """
        self.refuse(f"{schema.path}/{keyword}", keyword, reason)
        return ANYTHING

    def refuse(self, path: str, keyword: str, reason: str) -> None:
        """Record a keyword that masks do not enforce.

        Raises:
            SchemaUnsupportedError: Unless compiled leniently.
        """
        if not self.options.lenient:
            raise SchemaUnsupportedError(
                f"{path} cannot be enforced: {reason}",
                hint="write it another way, or compile with `lenient`: then it is recorded, and "
                "`valid` says what the jsonschema package thinks of each sample",
                path=path,
                keyword=keyword,
            )
        self.unenforced.setdefault((path, keyword), reason)

    def note(self, path: str, keyword: str, code: str, message: str) -> None:
        """Keep a warning about a keyword."""
        self.notices.setdefault(
            (path, keyword), Notice(code, message, {"path": path, "keyword": keyword})
        )

    def _literal(self, literal: int) -> ValueSet:
        atom = self.goals.atoms[literal >> 1]
        positive = literal & 1 == 0
        if isinstance(atom, Constant):
            return self._constants(self, atom, positive)
        said = [(name, atom.keywords[name]) for name in self._handlers if name in atom.keywords]
        sets = (self._handled(atom, keyword, value, positive) for keyword, value in said)
        if positive:
            return self.meet(sets)
        refused = union(sets)
        return replace(refused, objects=joined(refused.objects))

    def _handled(self, schema: Schema, keyword: str, value: Any, positive: bool) -> ValueSet:
        """Return what one keyword accepts, or refuses; errors say where it stands."""
        accept, refuse = self._handlers[keyword]
        started = time.perf_counter()
        try:
            found = (accept if positive else refuse)(self, schema, value)
        except SchemaUnsupportedError:
            raise
        except LimitError as error:
            if not self.options.lenient or error.details.get("limit") != "max_alternatives":
                error.details.setdefault("path", f"{schema.path}/{keyword}")
                raise
            found = self.unsupported(schema, keyword, error.message)
        except CdecError as error:
            if "path" not in error.details:
                error.details["path"] = f"{schema.path}/{keyword}"
                error.message = f"{schema.path}/{keyword}: {error.message}"
                error.args = (error.message,)
            raise
        cost = self.costs.setdefault(keyword, {"uses": 0, "seconds": 0.0, "alternatives": 0})
        cost["uses"] += 1
        cost["seconds"] += time.perf_counter() - started
        cost["alternatives"] += len(found.arrays) + len(found.objects)
        return found

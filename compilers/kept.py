"""What a run compiled, or made of constraints, on its way: the most recently used of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from cdec.compilers.child.source import PROCESS_LIMITS
from cdec.core.child.process import LostServerError
from cdec.core.errors import CdecError, LimitError, OutputError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint

ConstraintT = TypeVar("ConstraintT", bound="Constraint")


class _Entry(NamedTuple):
    """What was compiled, or why it could not be."""

    constraint: Constraint | CdecError
    size: int


class KeptConstraints:
    """Constraints by what was asked for; equal requests share one, so that they share sessions.

    What could not be compiled is remembered as well, as words without the frames that it was raised
    in: a thousand records with one mistake cost one compilation, and the memory of one. What took
    too much time or memory is compiled anew: that may have been the machine's.

    Args:
        count: Most constraints kept.
        size: Most bytes of them together; the newest is kept whatever its size.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._total = 0

    def get(self, asked: Hashable, make: Callable[[], tuple[Constraint, int]]) -> Constraint:
        """Return a constraint.

        Args:
            asked: What tells it from others.
            make: Compiles it, where it is not there; returns its bytes too.

        Raises:
            CdecError: What ``make`` raised; an equal one for the same request, but where the system
                failed, or a limit of the process was passed.
        """
        if asked not in self._entries:
            try:
                entry = _Entry(*make())
            except CdecError as error:
                if _is_of_the_moment(error):
                    raise
                entry = _Entry(error.again(), 0)
            self._entries[asked] = entry
            self._total += entry.size
            self._make_room()
        self._entries.move_to_end(asked)
        found = self._entries[asked].constraint
        if isinstance(found, CdecError):
            raise found.again()
        return found

    def _make_room(self) -> None:
        """Forget what was not used for longest; constraints in use live on with their users."""
        while len(self._entries) > 1 and (
            len(self._entries) > self._count or self._total > self._size
        ):
            _, oldest = self._entries.popitem(last=False)
            self._total -= oldest.size


def _is_of_the_moment(error: CdecError) -> bool:
    """Say whether an error is the system's at that moment, and not of what was asked for."""
    if isinstance(error, LimitError):
        return error.details.get("limit") in PROCESS_LIMITS
    return isinstance(error, OutputError | LostServerError)


class Recent(Generic[ConstraintT]):
    """Constraints by what was asked for, the most recently used of them.

    Args:
        most: How many to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, ConstraintT] = OrderedDict()

    def get(self, asked: Hashable, make: Callable[[], ConstraintT]) -> ConstraintT:
        """Return the constraint that was asked for; ``make`` makes it if it is not there."""
        if asked not in self._kept:
            self._kept[asked] = make()
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(asked)
        return self._kept[asked]

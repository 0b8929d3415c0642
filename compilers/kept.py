"""What a run compiled, or made of constraints, on its way: the most recently used of it."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from cdec.core.child.process import LostServerError
from cdec.core.errors import CdecError, LimitError, OutputError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary

PROCESS_LIMITS = ("compile_seconds", "compile_megabytes")
"""Limits whose passing says as much of the machine at that moment as of the source."""
_VERSION = version("cdec")

ConstraintT = TypeVar("ConstraintT", bound="Constraint")


class _Entry(NamedTuple):
    """What was compiled, or why it could not be."""

    constraint: Constraint | CdecError
    size: int


class KeptConstraints:
    """Constraints by what was asked for; equal requests share one, so that they share sessions.

    What could not be compiled is remembered as well, as words without the frames that it was raised
    in: a thousand records with one mistake cost one compilation, and the memory of one. What took
    too much time or memory is compiled anew: that may have been the machine's. Several threads may
    ask; nothing waits for what another one makes.

    Args:
        count: Most constraints kept.
        size: Most bytes of them together; the newest is kept whatever its size.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def get(self, asked: Hashable, make: Callable[[], tuple[Constraint, int]]) -> Constraint:
        """Return a constraint.

        Args:
            asked: What tells it from others.
            make: Compiles it, where it is not there; returns its bytes too.

        Raises:
            CdecError: What ``make`` raised; an equal one for the same request, but where the system
                failed, or a limit of the process was passed.
        """
        found = self.find(asked)
        if found is not None:
            return found
        try:
            constraint, size = make()
        except CdecError as error:
            if not _is_of_the_moment(error):
                self._keep(asked, _Entry(error.again(), 0))
            raise
        self._keep(asked, _Entry(constraint, size))
        return constraint

    def find(self, asked: Hashable) -> Constraint | None:
        """Return a constraint that is there; None for one that would have to be made.

        Raises:
            CdecError: It could not be made.
        """
        with self._lock:
            entry = self._entries.get(asked)
            if entry is None:
                return None
            self._entries.move_to_end(asked)
        if isinstance(entry.constraint, CdecError):
            raise entry.constraint.again()
        return entry.constraint

    def _keep(self, asked: Hashable, entry: _Entry) -> None:
        with self._lock:
            before = self._entries.pop(asked, None)
            self._total += entry.size - (0 if before is None else before.size)
            self._entries[asked] = entry
            self._make_room()

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


def shared_name(decides: Mapping[str, Any], vocabulary: Vocabulary) -> str:
    """Return the name of a file that holds what would be compiled, and nothing else.

    Args:
        decides: All that decides it beside the vocabulary and the version of cdec.
        vocabulary: That it is compiled for.
    """
    of_all = {
        "version": _VERSION,
        "vocabulary": vocabulary.vocabulary_hash,
        "tokenization": vocabulary.tokenization_hash,
        "eos": list(vocabulary.eos_token_ids),
    }
    body = json.dumps(of_all | dict(decides), sort_keys=True, default=str)
    return f"{sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()}.arrow"


class Recent(Generic[ConstraintT]):
    """Constraints by what was asked for, the most recently used of them; for several threads.

    Args:
        most: How many to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, ConstraintT] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, asked: Hashable) -> ConstraintT | None:
        """Return the constraint that was asked for, if it is there."""
        with self._lock:
            if asked in self._kept:
                self._kept.move_to_end(asked)
            return self._kept.get(asked)

    def get(self, asked: Hashable, make: Callable[[], ConstraintT]) -> ConstraintT:
        """Return the constraint that was asked for; ``make`` makes it if it is not there."""
        found = self.find(asked)
        if found is not None:
            return found
        made = make()
        with self._lock:
            self._kept[asked] = made
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made

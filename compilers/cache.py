"""Constraints of what a run met on its way: compiled in the child, the most recently used kept."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.compilers.child.compiler import ChildCompiler
from cdec.core.artifacts.opened import open_bytes
from cdec.core.child.process import LostServerError, needing_system
from cdec.core.errors import ArtifactError, CdecError, LimitError, Notice, OutputError
from cdec.core.files.whole import scratch_folder
from cdec.core.progress import FirstOfEach
from cdec.core.recent import Recent

if TYPE_CHECKING:
    from typing import Self

    from cdec.compilers.kinds import SourceOptions
    from cdec.core.constraint import Constraint
    from cdec.core.files.cache import CacheFolder
    from cdec.core.tokens.vocabulary import Vocabulary

_MEMO_BYTES = 32 << 20
"""Of each: many of them are open at once, and each serves few texts."""
PROCESS_LIMITS = ("compile_seconds", "compile_megabytes")
"""Limits whose passing says as much of the machine at that moment as of the source."""
_VERSION = version("cdec")


class ConstraintCache:
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
        self._entries: Recent[Constraint | CdecError] = Recent(count, size)

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
                self._entries.put(asked, error.again())
            raise
        self._entries.put(asked, constraint, size)
        return constraint

    def find(self, asked: Hashable) -> Constraint | None:
        """Return a constraint that is there; None for one that would have to be made.

        Raises:
            CdecError: It could not be made.
        """
        entry = self._entries.find(asked)
        if isinstance(entry, CdecError):
            raise entry.again()
        return entry


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
        "special": sorted(vocabulary.special_tokens.items()),
    }
    body = json.dumps(of_all | dict(decides), sort_keys=True, default=str)
    return f"{sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()}.arrow"


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Limits of constraints given as texts.

    Attributes:
        count: Constraints kept.
        size: Bytes of their artifacts together; the newest is kept whatever its size.
    """

    count: int = 64
    size: int = 1 << 30


class SourceCache:
    """Text → constraint; equal texts share one, so that their draws share sessions.

    The child process starts with the first text. A text that could not be compiled is remembered as
    well: a thousand records with one bad grammar cost one compilation.

    A context manager: the child process ends with it, and what was compiled stays usable.

    Args:
        vocabulary: Of the model that will draw.
        kept: Holds what was compiled, within its own limits; None makes one of ``limits``.
        limits: Of the cache.
        shared: Where artifacts are kept for other processes of this user, too.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        kept: ConstraintCache | None = None,
        *,
        limits: CacheLimits | None = None,
        shared: CacheFolder | None = None,
    ) -> None:
        limits = limits or CacheLimits()
        self._notices = FirstOfEach("texts")
        self._vocabulary = vocabulary
        self._kept = kept or ConstraintCache(limits.count, limits.size)
        self._shared = shared
        self._child: ChildCompiler | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def of(self, text: str, options: SourceOptions[Any]) -> Constraint:
        """Return the constraint of a text.

        Args:
            text: The source.
            options: What it is and how to compile it; completed by its ``for_text``.

        Raises:
            CdecError: As for the compiler; the same again for the same text.
        """
        asked = (options.source, text, options)
        return self._kept.get(asked, lambda: self._compiled(text, options.for_text(text)))

    def find(self, text: str, options: SourceOptions[Any]) -> Constraint | None:
        """Return the constraint of a text that was compiled here; None for another.

        Raises:
            CdecError: It could not be compiled.
        """
        return self._kept.find((options.source, text, options))

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first of each code, with their number."""
        return self._notices.take()

    def close(self) -> None:
        """End the child process; what was compiled stays usable."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _compiled(self, text: str, options: SourceOptions[Any]) -> tuple[Constraint, int]:
        decides = {"source": options.source, "text": text, "options": options.deciding()}
        name = shared_name(decides, self._vocabulary)
        found = None if self._shared is None else self._shared.read(name)
        if found is not None:
            # One that is damaged is compiled, and kept, again.
            with suppress(ArtifactError):
                constraint = open_bytes(found, self._vocabulary)
                constraint.memo_bytes = _MEMO_BYTES
                return constraint, len(found)
        with needing_system("compiling"):
            return self._newly_compiled(text, options, name)

    def _newly_compiled(
        self, text: str, options: SourceOptions[Any], name: str
    ) -> tuple[Constraint, int]:
        if self._child is None:
            self._child = ChildCompiler(options.kind)
        # subtle: the file goes once it is mapped.
        with scratch_folder() as folder:
            path = folder / f"{options.source}.arrow"
            report = self._child.compile(text, self._vocabulary, path, options)
            for notice in report.notices:
                self._notices.add(notice)
            if self._shared is not None:
                self._shared.keep(name, path.read_bytes())
            return _open(path, self._vocabulary), report.bytes


def _open(path: Path, vocabulary: Vocabulary) -> Constraint:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    constraint = open_bytes(mapped, vocabulary)
    constraint.memo_bytes = _MEMO_BYTES
    return constraint

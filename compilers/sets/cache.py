"""SetCache: lists of texts as constraints, compiled when they are met, kept in a bounded cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from cdec.compilers.cache import shared_name
from cdec.core.errors import ArtifactError, DataError, Notice
from cdec.core.files.whole import scratch_folder
from cdec.core.progress import FirstOfEach

if TYPE_CHECKING:
    from cdec.compilers.cache import ConstraintCache
    from cdec.compilers.sets.options import SetLimits, SetReport
    from cdec.core.constraint import Constraint
    from cdec.core.files.cache import CacheFolder
    from cdec.core.tokens.vocabulary import Vocabulary


class SetCache:
    """Texts → the set of them, as ``set_constraint`` makes it; equal lists share one.

    Args:
        vocabulary: Of the model that will draw.
        kept: Holds what was compiled; may hold other constraints too.
        limits: Of each set.
        name: What errors call a list.
        shared: Where sets are kept for other processes of this user, too.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        kept: ConstraintCache,
        limits: SetLimits | None = None,
        *,
        name: str = "texts",
        shared: CacheFolder | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._kept = kept
        self._limits = limits
        self._name = name
        self._shared = shared
        self._notices = FirstOfEach("lists")

    def of(self, texts: tuple[str, ...]) -> Constraint:
        """Return the constraint of some texts.

        Raises:
            CdecError: As ``set_constraint``; the same again for the same texts.
        """
        return self._kept.get(texts, lambda: self._compiled(texts))

    def find(self, texts: tuple[str, ...]) -> Constraint | None:
        """Return the constraint of texts that was compiled here; None for others.

        Raises:
            CdecError: It could not be compiled.
        """
        return self._kept.find(texts)

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first of each code, with their number."""
        return self._notices.take()

    def _compiled(self, texts: tuple[str, ...]) -> tuple[Constraint, int]:
        from cdec.compilers.sets.compile import compiled_set

        if self._shared is not None:
            return self._of_file(texts, self._shared)
        with self._told():
            constraint, report = compiled_set(texts, self._vocabulary, limits=self._limits)
        self._note(report)
        return constraint, report.bytes

    def _of_file(self, texts: tuple[str, ...], shared: CacheFolder) -> tuple[Constraint, int]:
        """Return a set that is kept, or keep it."""
        from cdec.compilers.sets.compile import compile_set
        from cdec.core.artifacts.opened import open_bytes

        decides = {"source": "set", "texts": texts, "limits": self._limits}
        name = shared_name(decides, self._vocabulary)
        found = shared.read(name)
        if found is not None:
            # One that is damaged is compiled, and kept, again.
            with suppress(ArtifactError):
                return open_bytes(found, self._vocabulary), len(found)
        with scratch_folder() as folder, self._told():
            path = folder / "set.arrow"
            report = compile_set(texts, self._vocabulary, path, limits=self._limits)
            data = path.read_bytes()
        self._note(report)
        shared.keep(name, data)
        return open_bytes(data, self._vocabulary), len(data)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say of an error which texts it is about."""
        try:
            yield
        except DataError as error:
            error.message = f"{self._name}: {error.message}"
            error.args = (error.message,)
            raise

    def _note(self, report: SetReport) -> None:
        for notice in report.notices:
            named = f"{self._name}: {notice.message}"
            self._notices.add(Notice(notice.code, named, notice.details))

"""SetCache: lists of texts as constraints, compiled when they are met, kept in a bounded cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.errors import DataError, Notice
from cdec.core.notices import FirstOfEach

if TYPE_CHECKING:
    from cdec.compilers.kept import KeptConstraints
    from cdec.compilers.sets.report import SetLimits
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary


class SetCache:
    """Texts → the set of them, as ``set_constraint`` makes it; equal lists share one.

    Args:
        vocabulary: Of the model that will draw.
        kept: Holds what was compiled; may hold other constraints too.
        limits: Of each set.
        name: What errors call a list.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        kept: KeptConstraints,
        limits: SetLimits | None = None,
        *,
        name: str = "texts",
    ) -> None:
        self._vocabulary = vocabulary
        self._kept = kept
        self._limits = limits
        self._name = name
        self._notices = FirstOfEach("lists")

    def of(self, texts: tuple[str, ...]) -> Constraint:
        """Return the constraint of some texts.

        Raises:
            CdecError: As ``set_constraint``; the same again for the same texts.
        """
        return self._kept.get(texts, lambda: self._compiled(texts))

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first of each code, with their number."""
        return self._notices.take()

    def _compiled(self, texts: tuple[str, ...]) -> tuple[Constraint, int]:
        from cdec.compilers.sets.constraint import compiled_set

        try:
            constraint, report = compiled_set(texts, self._vocabulary, limits=self._limits)
        except DataError as error:
            error.message = f"{self._name}: {error.message}"
            error.args = (error.message,)
            raise
        for notice in report.notices:
            named = f"{self._name}: {notice.message}"
            self._notices.add(Notice(notice.code, named, notice.details))
        return constraint, report.bytes

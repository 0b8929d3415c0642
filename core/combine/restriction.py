"""Restrictions of many constraints alike: other constraints to satisfy too, texts to leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, overload

from cdec.core.errors import Notice, UsageError
from cdec.core.progress import FirstOfEach

if TYPE_CHECKING:
    from cdec.core.combine.denial import DeniedTexts
    from cdec.core.constraint import Constraint

_DEAD_ENDS = (
    "whether every beginning that both allow has an end that both allow is not known; "
    "a text that gets stuck has finish_reason dead_end"
)


class Restriction:
    """Conjoins constraints with others, then leaves denied texts out.

        restriction = Restriction({"short.arrow": open_artifact("short.arrow")}, ["Paris"])
        smaller = restriction.of(open_artifact("cities.arrow"), "cities.arrow")

    Args:
        others: Constraints that texts must satisfy as well, by the words that notices call them.
        denied: Texts never to emit, as ``member_text`` gives them.

    Attributes:
        others: As given.
    """

    def __init__(
        self, others: Mapping[str, Constraint] | None = None, denied: Sequence[str] = ()
    ) -> None:
        self.others = dict(others or {})
        self._denied = list(dict.fromkeys(text.encode() for text in denied))
        self._trie: DeniedTexts | None = None
        self._notices = FirstOfEach("constraints")

    def __bool__(self) -> bool:
        """Say whether anything is asked."""
        return bool(self.others or self._denied)

    def of(self, constraint: Constraint | None, name: str) -> Constraint:
        """Return what is left of a constraint.

        Args:
            constraint: None stands for all texts: what is left are those of the others.
            name: What notices call it.

        Returns:
            A constraint; the one given where nothing is asked. Cost: as ``conjoin`` and ``deny``.

        Raises:
            EmptySetError: Nothing is left.
            UsageError: Denied texts, and no constraint to leave them out of.
        """
        from cdec.core.combine.denial import DeniedTexts, deny

        chosen = self.conjoined(constraint, self.others, name)
        if chosen is None:
            raise UsageError(
                f"`deny` leaves texts of a constraint out, and {name} has none",
                hint="leave `deny` out, or give a constraint",
            )
        if not self._denied:
            return chosen
        if chosen.listed is None and self._trie is None:
            self._trie = DeniedTexts(self._denied, chosen.vocabulary)
        left = deny(chosen, self._denied, denied=self._trie)
        if unknown := left.facts.denied_unknown:
            message = f"{name}: {unknown} of {len(self._denied)} denied texts are no members"
            self._notices.add(Notice("W_DENY_UNKNOWN", message, {"unknown": unknown}))
        return left

    @overload
    def conjoined(
        self, constraint: Constraint, others: Mapping[str, Constraint], name: str
    ) -> Constraint: ...
    @overload
    def conjoined(
        self, constraint: Constraint | None, others: Mapping[str, Constraint], name: str
    ) -> Constraint | None: ...
    def conjoined(
        self, constraint: Constraint | None, others: Mapping[str, Constraint], name: str
    ) -> Constraint | None:
        """Return the texts of a constraint and of others, by the words that notices call them.

        Raises:
            EmptySetError: They have no text in common.
        """
        from cdec.core.combine.conjunction import ConjunctionConstraint, conjoin

        chosen = constraint
        for other in others.values():
            chosen = other if chosen is None else conjoin(chosen, other)
        if others and isinstance(chosen, ConjunctionConstraint):
            words = f"{name} and {', '.join(others)}"
            self._notices.add(Notice("W_DEAD_ENDS", f"{words}: {_DEAD_ENDS}", {}))
        return chosen

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first of each code, with their number."""
        return self._notices.take()

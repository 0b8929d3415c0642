"""ConstraintSource: a constraint that is made when the vocabulary is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from cdec.core.constraint import Constraint

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


class ConstraintSource(ABC):
    """The source of a constraint, which is made when the vocabulary is known."""

    @abstractmethod
    def of(self, vocabulary: Vocabulary) -> Constraint:
        """Return the constraint for a vocabulary; asked again, the same.

        Raises:
            CdecError: It cannot be compiled.
        """


Held: TypeAlias = Constraint | ConstraintSource
"""What texts may be held to."""


def made_for(given: Any, vocabulary: Vocabulary) -> Any:
    """Return what was given, but the constraint of a source; in a list or tuple, of each.

    Raises:
        CdecError: A source cannot be compiled.
    """
    if isinstance(given, list | tuple):
        return [made_for(each, vocabulary) for each in given]
    return given.of(vocabulary) if isinstance(given, ConstraintSource) else given

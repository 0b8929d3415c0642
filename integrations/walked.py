"""Walked: a session of one constraint in which an engine's texts are followed, token by token."""

from __future__ import annotations

from typing import Any

from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.errors import UsageError

_MOST_STATES = 1 << 20
"""States that a session may hold before new texts get another one."""


class Walked:
    """A session of one constraint, shared by the texts that are walked in it.

    Args:
        constraint: Of the texts.
        device: As for ``Constraint.session``.

    Attributes:
        start: The state before the first token.
    """

    def __init__(self, constraint: Constraint, device: str = "cpu") -> None:
        self.constraint = constraint
        self.session = constraint.session(device)
        self.start = int(self.session.start(1)[0])

    @property
    def is_full(self) -> bool:
        """Whether new texts should begin in another session."""
        return self.session.statistics()["states"] > _MOST_STATES

    def after(self, states: Any, tokens: Any) -> Any:
        """Follow one token a text.

        Args:
            states, tokens: int64[n], arrays or tensors as the session takes them; ids that no text
                holds lead to DEAD.

        Returns:
            int64[n]; DONE stays DONE, whatever an engine writes behind the end. On a device nothing
            waits for the host.
        """
        known = (tokens >= 0) & (tokens < self.constraint.vocabulary.width)
        moved = self.session.advance(states, tokens * known)
        goes_on, is_done = known & (states >= 0), states == DONE
        return moved * goes_on + DEAD * (~goes_on & ~is_done) + DONE * is_done

    def require_width(self, width: int) -> None:
        """Refuse scores of fewer columns than the constraint has tokens.

        Raises:
            UsageError: They are.
        """
        size = self.constraint.vocabulary.size
        if width < size:
            raise UsageError(
                f"the scores have {width} columns, and the constraint's vocabulary {size} tokens",
                hint="Compile the constraint for the model's own tokenizer.",
            )

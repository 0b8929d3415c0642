"""ConstraintFacts: what is declared of a constraint, each fact with its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


class ConstraintFacts:
    """What samplers and commands ask of a constraint before they use it.

    What is a property here may be a class attribute, an attribute or a property of a subclass.

    Attributes:
        kind: What messages call it. Nothing is decided by it.
        vocabulary: Of the model that draws; samplers and combinations refuse another.
        memo_bytes: Most bytes of masks and memos that its sessions keep for each other from call to
            call, if any; set before the first. What they need in any case is not counted.
        mask_work: Most steps of a parser for one mask or token, if there is one; set likewise.
        begun: What stands in the prompt already of the texts; tokens come after it.
        prefill: What all texts begin with because it was written before; samples carry it.
    """

    kind: str
    vocabulary: Vocabulary
    memo_bytes: int = 0
    mask_work: int = 0
    begun: bytes = b""
    prefill: str | None = None

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens of the longest member or more, end event not counted; None where unbounded.

        Samplers take it for the limit of new tokens.
        """
        return None

    @cached_property
    def is_sound(self) -> bool:
        """Whether every allowed token is proved to have a completion. Shown by ``inspect``."""
        return False

    @cached_property
    def ends_itself(self) -> bool:
        """Whether the last token of a member may give DONE without an end id.

        Scores count no end event there; denial refuses such constraints.
        """
        return False

    @cached_property
    def lists_members(self) -> bool:
        """Whether the members are a list: ``candidates``, ``deny_texts``, ``restricted_to`` answer.

        Of two constraints, the texts and fields of the one that lists them are shown.
        """
        return False

    @cached_property
    def has_terminals(self) -> bool:
        """Whether texts are read as terminals: ``with_lookahead`` and ``explain`` answer."""
        return False

    @cached_property
    def takes_bytes(self) -> bool:
        """Whether sessions can ``advance_bytes``: healing needs it, denial counts members by it."""
        return False

    @cached_property
    def has_speculation_keys(self) -> bool:
        """Whether sessions have ``speculation_keys``; drafts from counts leave others alone."""
        return False

    @cached_property
    def lookahead(self) -> int | None:
        """Terminals that may begin within a token after its first; None for any number.

        Samples carry a number, because it forbids tokens that the texts would allow.
        """
        return None

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The artifact's metadata; counts and trees are kept by its ``cdec.digest``."""
        return {}

    @cached_property
    def frames(self) -> Sequence[tuple[bytes, bytes]]:
        """What may be forced before and after a member, as (head, tail) pairs; verdicts try all."""
        return [(b"", b"")]

    @cached_property
    def denied_unknown(self) -> int:
        """How many of the texts that were denied are no members; a warning says it."""
        return 0

    @cached_property
    def unenforced(self) -> Sequence[Mapping[str, str]]:
        """What its source demands and its masks leave open: ``path``, ``keyword``, ``reason``."""
        return ()

    @cached_property
    def reasons(self) -> Mapping[str, str]:
        """Why parameters mean nothing here, by name, for messages."""
        return {}

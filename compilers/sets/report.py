"""Limits and report of a set compilation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from cdec.core.errors import Notice
from cdec.core.options import check_limits, limit

Normalization: TypeAlias = Literal["none", "nfc", "nfkc"]
LeadingSpace: TypeAlias = Literal["auto", "always", "never", "both"]
BadLines: TypeAlias = Literal["error", "skip"]


@dataclass(frozen=True, slots=True)
class SetLimits:
    """Limits of a set compilation; passing one is a ``LimitError`` that names it.

    Duplicates count as entities; the tokens of an entity include prefix and suffix.

    Raises:
        UsageError: One is out of bounds.
    """

    max_entities: int = limit(2**31 - 1, "Most entities.")
    max_entry_tokens: int = limit(4096, "Most tokens of one entity.", unit="tokens")

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(slots=True)
class SetReport:
    """What a set compilation did.

    Attributes:
        path: The artifact.
        entities: Distinct members.
        duplicates: Further occurrences of members, all of them kept as sources.
        skipped: Entities left out because they are bad (``bad_lines="skip"``).
        blank: Blank entities left out.
        denied: Entities left out because they are on the deny-list.
        rows: Token rows; more than entities where members have two forms.
        tokens: Tokens of all rows.
        longest: Tokens of the longest row.
        nodes: Nodes of the trie.
        bytes: Size of the artifact.
        seconds: Seconds by phase. ``tokenize`` is the tokenizer's own time, which runs beside
            ``read`` (reading and checking); ``total`` is wall time.
        options: The options as recorded in the artifact.
        notices: Warnings.
    """

    path: Path
    entities: int = 0
    duplicates: int = 0
    skipped: int = 0
    blank: int = 0
    denied: int = 0
    rows: int = 0
    tokens: int = 0
    longest: int = 0
    nodes: int = 0
    bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers recorded in the artifact."""
        names = ["entities", "duplicates", "skipped", "blank", "denied"]
        names += ["rows", "tokens", "longest", "nodes"]
        return {name: int(getattr(self, name)) for name in names}

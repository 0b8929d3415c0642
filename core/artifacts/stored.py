"""StoredConstraint: a constraint that opens from an artifact, and what it says of itself."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from cdec.core.artifacts.read import ArtifactFile, ArtifactKind
from cdec.core.constraint import Constraint
from cdec.core.errors import UsageError
from cdec.core.record_fields.shown import cut, line
from cdec.core.tokens.vocabulary import Vocabulary


class TreeReport(Protocol):
    """Part of what an artifact compiled its texts to, for people and programs."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-ready data; bytes that are no UTF-8 are escaped."""

    def lines(self) -> list[str]:
        """Return it as indented lines, every text quoted; control characters are as they are."""


class StoredConstraint(Constraint):
    """The base of every class that ``cdec.core.artifacts.kinds.CONSTRAINTS`` names.

    What it can be asked belongs to the class, so that options are refused before a file is opened.

    Attributes:
        artifact: Columns of the file and their check.
        tree_parameters: Names of the parameters that ``tree`` takes; none where there is no tree.
        size_said: How many members there are, for people; empty where they are no list.
    """

    artifact: ClassVar[ArtifactKind]
    tree_parameters: ClassVar[frozenset[str]] = frozenset()
    size_said: str = ""
    lists_members = False
    has_terminals = False
    takes_bytes = False
    has_speculation_keys = False
    reasons: Mapping[str, str] = MappingProxyType({})

    @classmethod
    @abstractmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> StoredConstraint:
        """Open a verified artifact of this kind; the vocabulary's fingerprints agree with it."""

    @classmethod
    def looks_ahead(cls, metadata: Mapping[str, str]) -> bool:
        """Whether a lookahead can change the masks of an artifact with these metadata."""
        return cls.has_terminals

    def __repr__(self) -> str:
        source, name = self.metadata.get("cdec.source", ""), self.vocabulary.name
        has_name = source and not source.startswith("<")
        text = self.metadata.get(f"cdec.{self.kind}", "")
        return line(
            type(self).__name__,
            repr(source) if has_name else cut(text) if text else "",
            self.size_said,
            f"for {name!r}" if name else "",
        )

    def summary(self) -> dict[str, Any]:
        """Return what the artifact's metadata say, JSON-ready; law: its ``kind`` is this one's."""
        return {
            key.removeprefix("cdec."): _json_or_text(value) for key, value in self.metadata.items()
        }

    def statistics(self) -> Mapping[str, int | float]:
        """Return sizes by name: counts, bytes."""
        return {}

    def tree(self, **parameters: int) -> TreeReport:
        """Return part of the compiled structure.

        Args:
            parameters: Those of ``tree_parameters``; all have defaults.

        Raises:
            UsageError: There is nothing to show.
        """
        raise UsageError(f"`tree` means nothing to a {self.kind}", hint="leave it out")


def _json_or_text(value: str) -> Any:
    """Metadata values that are JSON objects, lists or counts become those; all else is text."""
    if value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value

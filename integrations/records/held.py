"""What all records of a run are held to: artifacts that are read, and wait for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.combine.free.free_text import FreeText, MarkerLimits
    from cdec.core.files.remote import FilePath
    from cdec.data.prompts.record import PromptRecord

DEFAULT = ""
"""Stands for the artifact of the records that name none."""


@dataclass(frozen=True, kw_only=True)
class RunConstraint:
    """What all records of a run are held to; its artifacts are read, and wait for a model.

    Attributes:
        named: Verified artifacts by name; DEFAULT names the one of records that name none.
        others: Those that all texts must satisfy as well, by the words that name them.
        denied: Texts never to emit.
        lookahead: Terminals that tokens of grammars may begin beyond their first; None for any
            number.
        heal: Whether the cut end of prompts is healed.
        prefill: What texts of records that bring none begin with; None for nothing.
        free: What the model writes freely for records that do not say; None for nothing.
        marker_limits: Of the markers of records; None takes those of ``free``, or the defaults.
    """

    named: Mapping[str, ArtifactFile] = field(default_factory=dict)
    others: Mapping[str, ArtifactFile] = field(default_factory=dict)
    denied: Sequence[str] = ()
    lookahead: int | None = None
    heal: bool = False
    prefill: str | None = None
    free: FreeText | None = None
    marker_limits: MarkerLimits | None = None

    @classmethod
    def read(
        cls, named: Mapping[str, FilePath], others: Sequence[FilePath] = (), **values: Any
    ) -> RunConstraint:
        """Read and verify the artifacts of a run.

        Args:
            named: By name, as in the attributes.
            others: Those that all texts must satisfy as well.
            values: The other attributes.

        Raises:
            CdecError: One is missing or damaged, or no constraint.
        """
        from cdec.core.artifacts.kinds import read_artifact

        return cls(
            named={name: read_artifact(path) for name, path in named.items()},
            others={str(path): read_artifact(path) for path in others},
            **values,
        )

    def prefill_of(self, record: PromptRecord) -> str | None:
        """Return what the texts of a record begin with; None for nothing."""
        return self.prefill if record.prefill is None else record.prefill

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the artifacts, by name."""
        return {name: file.metadata["cdec.digest"] for name, file in self.named.items()}

    @property
    def other_digests(self) -> list[str]:
        """Digests of the artifacts that all satisfy, sorted: their order makes no difference."""
        return sorted(file.metadata["cdec.digest"] for file in self.others.values())

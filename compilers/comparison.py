"""What compiling an artifact again showed: which of its columns and metadata are what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ArtifactInvalidError

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile


@dataclass(slots=True)
class Comparison:
    """An artifact held against what was compiled again.

    Attributes:
        file: The artifact.
        same: Columns and entries of the metadata that are equal.
        differing: Those that are not.
        given: Those that the rest follows from, or that follow from nothing in the artifact.
    """

    file: ArtifactFile
    same: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)

    def columns(self, again: Mapping[str, NDArray[Any]]) -> None:
        """Compare columns; bit by bit, all of them."""
        for name, array in again.items():
            self.hold(name, np.array_equal(self.file.arrays[name], array))

    def entries(self, again: Mapping[str, str]) -> None:
        """Compare entries of the metadata, as text."""
        for name, value in again.items():
            self.hold(name, self.file.metadata.get(name) == value)

    def hold(self, name: str, is_same: bool) -> None:
        """Note whether one column or entry is what it should be."""
        (self.same if is_same else self.differing).append(name)

    def finish(self) -> None:
        """Note what was taken as it is.

        Raises:
            ArtifactInvalidError: Something differs; it names all that does.
        """
        known = {*self.same, *self.differing}
        names = [*self.file.arrays, *self.file.metadata]
        self.given = [name for name in names if name not in known]
        if self.differing:
            raise ArtifactInvalidError(
                f"{self.file.path} is not what its source compiles to: {', '.join(self.differing)} "
                f"of {len(known)} columns and entries differ",
                hint="compile it again from a source that you trust",
                path=str(self.file.path),
                differing=list(self.differing),
            )

    def to_json(self) -> dict[str, list[str]]:
        """Return what was found, JSON-ready."""
        return {"same": self.same, "given": self.given}

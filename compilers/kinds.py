"""Kinds of source as the compilers see them: what each is compiled with, compiled by, verified by.

A new kind is a ``SourceKind`` in its compiler's room, named in its row of ``cdec.core.kinds``; one
that the limited child compiles brings a subclass of ``SourceOptions`` and one of ``SourceReport``.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from cdec.compilers.report import Comparison, ReportT, SourceReport
from cdec.core.kinds import SOURCE_KINDS, found

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.progress import Progress
    from cdec.core.tokens.vocabulary import Vocabulary

_NOT_DECIDING = ("limits", "name", "made_from")


class CompileLimits(Protocol):
    """Limits of every kind of source: those that hold for the process."""

    @property
    def compile_seconds(self) -> float:
        """CPU seconds for one source."""

    @property
    def compile_megabytes(self) -> int:
        """Memory for one source, MiB above what the server takes."""


ReportT_co = TypeVar("ReportT_co", bound=SourceReport, covariant=True)


class SourceOptions(ABC, Generic[ReportT_co]):
    """The base of the dataclasses of what a source is compiled with; all fields have defaults.

    The type parameter is the report of compiling it.

    Attributes:
        source: Messages call a source so.
        report: Class of the report; who asks a child reads it without the compiler.
        limits: What compiling may cost.
        name: Name of the source, recorded and shown, never opened.
        made_from: What the artifact records of its making; empty for nothing.
    """

    __slots__ = ()

    source: ClassVar[str]
    report: ClassVar[type[SourceReport]]
    limits: CompileLimits
    name: str
    made_from: str

    @property
    def kind(self) -> str:
        """Key in ``SOURCE_KINDS``."""
        return self.source

    def to_json(self) -> dict[str, Any]:
        """Return the options as one JSON-ready object."""
        options: Any = self
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(options), default=str))
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the options that ``to_json`` wrote."""
        limits: Any = type(cls().limits)
        return cls(**cls._restored(values | {"limits": limits(**values["limits"])}))

    @classmethod
    def _restored(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields' values, those that JSON does not know made again."""
        return values

    def deciding(self) -> dict[str, Any]:
        """Return what of ``to_json`` decides the artifact; a limit that was passed wrote none."""
        said = {k: v for k, v in self.to_json().items() if k not in _NOT_DECIDING}
        # What is not asked leaves what was kept before one could ask for it.
        return {k: v for k, v in said.items() if k != "set_digests" or v}

    def recording(self, made_from: str) -> Self:
        """Return the options with what the artifact is to record of its making."""
        options: Any = self
        recorded: Self = dataclasses.replace(options, made_from=made_from)
        return recorded

    def for_text(self, text: str) -> Self:
        """Return the options for a text that comes without a file's name."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind(Generic[ReportT]):
    """Compiler of one kind of source, and verifier of its artifacts.

    Attributes:
        verify: Compiles an artifact again from what it holds, and compares.
        options: Class of the options.
        compile: Called in the child with source, vocabulary, path, options, and ``force`` and
            ``progress`` by name; writes the artifact. Sets, whose sources are streams, have none.
        warm_up: Called once in the server, before the first fork for such a source: compiles a
            little, so that modules are loaded.
        settle: Called once in the server, before the second fork: makes tables that many sources
            use and that a single one would hardly pay for.
        prepare: Called once in the server with each vocabulary: makes what all forks share.
    """

    verify: Callable[[ArtifactFile, Progress], Comparison]
    options: type[SourceOptions[ReportT]] = SourceOptions
    compile: Callable[..., ReportT] | None = None
    warm_up: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None
    prepare: Callable[[Vocabulary], object] = lambda _vocabulary: None


def source_kind(name: str) -> SourceKind[Any]:
    """Return how sources of a kind are compiled.

    Raises:
        KeyError: There is no such kind.
    """
    kind: SourceKind[Any] = found(SOURCE_KINDS[name].compiler)
    return kind

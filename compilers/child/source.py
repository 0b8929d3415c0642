"""What the limited child compiles: its options, and the table of compilers.

A new kind of source is a subclass of ``SourceOptions``, one of ``SourceReport``, a ``SourceKind``
in its compiler's room, and a line in ``SOURCES``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from cdec.compilers.child.report import ReportT, SourceReport

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.tokens.vocabulary import Vocabulary

SOURCES: dict[str, str] = {
    "grammar": "cdec.compilers.grammars.source_kind:GRAMMARS",
    "regex": "cdec.compilers.grammars.source_kind:REGEXES",
    "schema": "cdec.compilers.schemas.source_kind:SCHEMAS",
}
"""Every kind of source that the child compiles: module and ``SourceKind``, imported there."""


_NOT_DECIDING = ("limits", "name", "made_from")


class CompileLimits(Protocol):
    """What every kind of source bounds: the limits that hold for the process."""

    @property
    def compile_seconds(self) -> float:
        """CPU seconds for one source."""

    @property
    def compile_megabytes(self) -> int:
        """Memory for one source, MiB above what the server takes."""


ReportT_co = TypeVar("ReportT_co", bound=SourceReport, covariant=True)


class SourceOptions(ABC, Generic[ReportT_co]):
    """What a source is compiled with; the type parameter is the report of compiling it.

    Attributes:
        source: Messages call a source so.
        report: Class of the report; who asks a child reads it without the compiler.
        limits: What compiling may cost.
    """

    __slots__ = ()

    source: ClassVar[str]
    report: ClassVar[type[SourceReport]]
    limits: CompileLimits

    @property
    def kind(self) -> str:
        """Key in ``SOURCES``."""
        return self.source

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the options as one JSON-ready object; ``name`` and ``made_from`` among them."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the options that ``to_json`` wrote."""

    def deciding(self) -> dict[str, Any]:
        """Return what of ``to_json`` decides the artifact; a limit that was passed wrote none."""
        return {k: v for k, v in self.to_json().items() if k not in _NOT_DECIDING}

    def recording(self, made_from: str) -> Self:
        """Return the options with what the artifact is to record of its making."""
        return self.from_json(self.to_json() | {"made_from": made_from})

    def for_text(self, text: str) -> Self:
        """Return the options for a text that comes without a file's name."""
        return self


@dataclass(frozen=True, slots=True)
class SourceKind(Generic[ReportT]):
    """How the child compiles one kind of source.

    Attributes:
        options: Class of the options.
        compile: Called with source, vocabulary, path, options, and ``force`` and ``progress`` by
            name; writes the artifact.
        warm_up: Called once in the server, before the first fork for such a source: compiles a
            little, so that modules are loaded.
        settle: Called once in the server, before the second fork: makes tables that many sources
            use and that a single one would hardly pay for.
        prepare: Called once in the server with each vocabulary: makes what all forks share.
    """

    options: type[SourceOptions[ReportT]]
    compile: Callable[..., ReportT]
    warm_up: Callable[[], None]
    settle: Callable[[], None]
    prepare: Callable[[Vocabulary], object]


def source_kind(name: str) -> SourceKind[Any]:
    """Return how sources of a kind are compiled.

    Raises:
        KeyError: There is no such kind.
    """
    module, attribute = SOURCES[name].split(":")
    found: SourceKind[Any] = vars(importlib.import_module(module))[attribute]
    return found

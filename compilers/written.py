"""What is built in memory, written: what compiles every kind of source that is read whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.compilers.kinds import SourceOptions
from cdec.compilers.report import Clock, ReportT
from cdec.core.artifacts.write import write_artifact
from cdec.core.errors import DataError
from cdec.core.files.whole import refuse_existing
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cdec.core.tokens.vocabulary import Vocabulary


def writer(
    kind: str,
    build: Callable[..., tuple[dict[str, NDArray[Any]], dict[str, str], ReportT]],
    phases: Mapping[str, str],
) -> Callable[..., ReportT]:
    """Return what a ``SourceKind`` has as ``compile``: builds in memory, then writes the artifact.

    Args:
        kind: Of the artifact.
        build: Takes source, vocabulary, options, path and progress, and returns the columns, the
            metadata and the report of an artifact that is not written yet.
        phases: Of the report; the last is ``write``.
    """

    def compile_with(
        source: str | bytes,
        vocabulary: Vocabulary,
        path: str | Path,
        options: SourceOptions[ReportT],
        *,
        force: bool = False,
        progress: Progress = silent,
    ) -> ReportT:
        path = Path(path)
        refuse_existing(path, force=force)
        started = time.perf_counter()
        try:
            columns, metadata, report = build(source, vocabulary, options, path, progress)
        except DataError as error:
            if options.name != type(options)().name:
                error.message = f"{options.name}: {error.message}"
                error.args = (error.message,)
            raise
        with Clock(report, phases, progress).phase("write"):
            write_artifact(path, kind, columns, metadata, force=force)
        report.bytes = path.stat().st_size
        report.seconds["total"] = time.perf_counter() - started
        return report

    return compile_with

"""The way of one source to its artifact: it is up to date, or is compiled in the limited child."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from cdec.cli.compiling.made_from import MadeFrom
from cdec.cli.compiling.next_command import next_command
from cdec.cli.frame.console import notice_objects
from cdec.cli.frame.interruption import keeping
from cdec.cli.frame.tables import print_json, print_table
from cdec.cli.runs.tokenizer import load_vocabulary, loading
from cdec.compilers.child.report import ReportT
from cdec.compilers.child.source import SourceOptions

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.compiling import CompileOptions
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Job(Generic[ReportT]):
    """One source to compile.

    Attributes:
        kind: Of the artifact.
        data: The source.
        output: The artifact.
        compiled_with: Options of the compiler.
        decided_by: What of the options decides the artifact; None: all that the options say does.
        recorded: Returns what ``to_json`` of a report says of an artifact that is there.
        rows: Returns what people are shown of a report.
        prompt: An example, for the command that is typed next.
    """

    kind: str
    data: bytes
    output: Path
    compiled_with: SourceOptions[ReportT]
    decided_by: Mapping[str, object] | None = None
    recorded: Callable[[ArtifactFile], dict[str, Any]]
    rows: Callable[[ReportT], list[tuple[str, str]]]
    prompt: str = "For example: "

    @property
    def made_from(self) -> MadeFrom:
        """The options that decide the artifact."""
        decided = self.compiled_with.deciding() if self.decided_by is None else self.decided_by
        return MadeFrom(self.kind, decided)

    @property
    def source_hash(self) -> str:
        """SHA-256 of the source."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def recording(self) -> SourceOptions[ReportT]:
        """The options of the compiler, with what the artifact records of its making."""
        return self.compiled_with.recording(self.made_from.recorded(self.source_hash))


def compile_one(
    job: Job[ReportT],
    options: CompileOptions,
    run: Run,
    more: Callable[[ReportT], None] | None = None,
) -> int:
    """Compile a source, unless the artifact that is there is the same, and print what was done.

    Args:
        job: The source.
        options: Of the command.
        run: What was typed.
        more: Prints what stands below the table for people; None for nothing.

    Returns:
        The exit status.

    Raises:
        OutputExistsError: Something else is there, and ``force`` was not given.
        CdecError: As for the compiler.
    """
    output = job.output
    if output.is_file() and not options.force:
        vocabulary = partial(load_named, options, run)
        file = job.made_from.require_same(output, vocabulary, lambda: job.source_hash)
        run.console.note(f"{output} is up to date")
        if options.json:
            print_json(run.console, said_of(job, file))
        else:
            run.console.note(f"next: {next_command(output, options, job.prompt)}")
        return 0
    with keeping(run, output):
        report = _compile(job, options, run)
    run.console.warn(report.notices)
    if options.json:
        said = {"notices": notice_objects(report.notices), "up_to_date": False}
        print_json(run.console, report.to_json() | said)
    elif not options.quiet:
        print_table(run.console, job.rows(report))
        if more is not None:
            more(report)
        run.console.note(f"next: {next_command(output, options, job.prompt)}")
    return 0


def said_of(job: Job[Any], file: ArtifactFile) -> dict[str, Any]:
    """Return the summary of an artifact that is up to date, in the words of a report."""
    return {
        "path": str(file.path),
        **job.recorded(file),
        "bytes": file.local.stat().st_size,
        "seconds": {},
        "notices": [],
        "up_to_date": True,
    }


def load_named(options: CompileOptions, run: Run) -> Vocabulary:
    """Load the vocabulary to compile for, and say which it is."""
    with run.console.stage(loading(options.tokenizer or options.model)):
        vocabulary, name = load_vocabulary(options.tokenizer, options.model, options.revision)
    run.console.note(f"tokenizer: {name}")
    return vocabulary


def _compile(job: Job[ReportT], options: CompileOptions, run: Run) -> ReportT:
    """Compile in the limited child, which starts while the tokenizer is read."""
    from cdec.compilers import ChildCompiler

    with ChildCompiler(job.compiled_with.kind) as child:
        vocabulary = load_named(options, run)
        with run.console.stage("starting the compiler") as progress:
            return child.compile(
                job.data,
                vocabulary,
                job.output,
                job.recording,
                force=options.force,
                progress=progress,
            )

"""Options and work of compile commands: one source or many, unless artifacts are up to date."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.sources import MadeFrom, counts_of, stem_of
from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.console import notice_objects, typed_error
from cdec.cli.frame.declaration import CommonOptions, option
from cdec.cli.frame.interruption import keeping
from cdec.cli.frame.progress import plural
from cdec.cli.frame.tables import print_columns, print_json, print_table, shown_bytes
from cdec.cli.options import shared
from cdec.cli.runs.tokenizer import load_vocabulary, loading
from cdec.core.errors import CdecError, OutputError, UsageError
from cdec.core.progress import Progress, Stage, silent

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.kinds import CompileCommand
    from cdec.compilers.child.compiler import ChildCompiler
    from cdec.compilers.kinds import SourceOptions
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary

_HEADER = ("source", "artifact", "size", "seconds")
_COMPILED, _UP_TO_DATE, _FAILED = "compiled", "up to date", "failed"


@dataclass(frozen=True, kw_only=True)
class CompileOptions(CommonOptions):
    """Options of an artifact: its place, its tokenizer, and what is said of it."""

    output: Path | None = option(
        None,
        "Artifact to write; if not given the input's name, ending in .arrow, beside it.",
        shared.OUTPUT,
        metavar="FILE",
        common=True,
        typed_only=True,
    )
    tokenizer: str | None = option(
        None,
        "Tokenizer file, folder or hub name; the embedded model's if not given.",
        shared.MODEL,
        metavar="NAME_OR_PATH",
        common=True,
        names_model=shared.names_model,
    )
    model: str | None = shared.model_option()
    revision: str | None = shared.revision_option()
    force: bool = shared.force_option()
    json: bool = shared.json_option()
    progress: bool | None = shared.progress_option()


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """One source to compile.

    Attributes:
        command: The row of its kind.
        output: The artifact.
        options: Of the command.
        run: What was typed.
    """

    command: CompileCommand
    output: Path
    options: CompileOptions
    run: Run

    @property
    @abstractmethod
    def made_from(self) -> MadeFrom:
        """The options that decide the artifact."""

    @abstractmethod
    def source_hash(self) -> str:
        """Return SHA-256 of the source."""

    @abstractmethod
    def compile(self, vocabulary: Callable[[], Vocabulary]) -> Any:
        """Compile it for the vocabulary that is loaded meanwhile, and return the report."""


@dataclass(frozen=True, kw_only=True)
class TextJob(Job):
    """A source that is one text, compiled in the limited child.

    Attributes:
        data: The text, undecoded.
        compiled_with: Options of the compiler.
        decided_by: What of the options decides the artifact; None: all that the options say does.
    """

    data: bytes
    compiled_with: SourceOptions[Any]
    decided_by: Mapping[str, object] | None = None

    @property
    def made_from(self) -> MadeFrom:
        decided = self.compiled_with.deciding() if self.decided_by is None else self.decided_by
        return MadeFrom(self.command.kind, decided)

    def source_hash(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def compile_by(self, child: ChildCompiler, vocabulary: Vocabulary, progress: Progress) -> Any:
        """Compile by a child that is there, and return the report."""
        options = self.compiled_with.recording(self.made_from.recorded(self.source_hash()))
        return child.compile(
            self.data,
            vocabulary,
            self.output,
            options,
            force=self.options.force,
            progress=progress,
        )

    def compile(self, vocabulary: Callable[[], Vocabulary]) -> Any:
        from cdec.compilers.child.compiler import ChildCompiler

        # The child starts while the tokenizer is read.
        with ChildCompiler(self.compiled_with.kind) as child:
            loaded = vocabulary()
            with self.run.console.stage("starting the compiler") as progress:
                return self.compile_by(child, loaded, progress)


def compile_one(job: Job, more: Callable[[Any], None] | None = None) -> int:
    """Compile a source, unless the artifact that is there is the same, and print what was done.

    Args:
        job: The source.
        more: Prints what stands below the table for people; None for nothing.

    Returns:
        The exit status.

    Raises:
        OutputExistsError: Something else is there, and ``force`` was not given.
        CdecError: As for the compiler.
    """
    output, options, run = job.output, job.options, job.run
    if output.is_file() and not options.force:
        vocabulary = partial(load_named, options, run)
        file = job.made_from.require_same(output, vocabulary, job.source_hash)
        run.console.note(f"{output} is up to date")
        if options.json:
            print_json(run.console, job.command.recorded(file) | {"up_to_date": True})
        elif not options.quiet:
            _tell_next(job)
        return 0
    with keeping(run, output):
        report = job.compile(partial(load_named, options, run))
    run.console.warn(report.notices)
    if options.json:
        said = {"notices": notice_objects(report.notices), "up_to_date": False}
        print_json(run.console, report.to_json() | said)
    elif not options.quiet:
        print_table(run.console, job.command.rows(report))
        if more is not None:
            more(report)
        _tell_next(job)
    return 0


def recorded_summary(file: ArtifactFile, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of an artifact that is there, in the words of a report.

    Args:
        file: The artifact.
        described: What its kind alone says.
    """
    return {
        "path": str(file.path),
        **described,
        **counts_of(file),
        "bytes": file.local.stat().st_size,
        "seconds": {},
        "notices": [],
    }


def load_named(options: CompileOptions, run: Run) -> Vocabulary:
    """Load the vocabulary to compile for, and say which it is."""
    with run.console.stage(loading(options.tokenizer or options.model)):
        vocabulary, name = load_vocabulary(options.tokenizer, options.model, options.revision)
    run.console.note(f"tokenizer: {name}")
    return vocabulary


def _tell_next(job: Job) -> None:
    """Say what to type next, with the model that the artifact was compiled for."""
    from cdec.core.artifacts.read import peek_metadata

    options = job.options
    model = options.model
    if model is None and options.tokenizer is not None:
        # A tokenizer that is a file is no model.
        model = "MODEL" if Path(options.tokenizer).is_file() else options.tokenizer
    words = ["cdec", "sample", "-a", str(job.output)]
    words += [] if model is None else ["-m", model]
    words += [] if options.revision is None else ["--revision", options.revision]
    sets = json.loads(peek_metadata(job.output).get("cdec.sets", "[]"))
    prompt = ["-i", "RECORDS"] if shared.holds_documents(sets) else ["--prompt", job.command.prompt]
    job.run.console.note(f"next: {shlex.join([*words, *shared.set_words(sets), *prompt])}")


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of one source of many: its summary, or an error."""

    source: str
    output: Path
    outcome: str
    said: dict[str, Any]
    error: CdecError | None = None


def compile_many(
    sources: Sequence[str],
    kind: str,
    folder: Path,
    job_of: Callable[[str, Path], TextJob],
    options: CompileOptions,
    run: Run,
) -> int:
    """Compile sources that have not got their artifact yet; what fails does not stop the others.

    Args:
        sources: As typed.
        kind: Of all of them.
        folder: Of the artifacts, which have the names of their sources; made if it is not there.
        job_of: Reads a source for an artifact.
        options: Of the command.
        run: What was typed.

    Returns:
        The exit status: 3 where some failed.

    Raises:
        UsageError: Two sources of one name, or stdin, which has none.
        OutputError: The folder cannot be made.
        CdecError: The vocabulary cannot be loaded.
    """
    outputs = _outputs_in(folder, sources)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror}", path=str(folder)) from error
    rows: list[list[str]] = []
    outcomes: Counter[str] = Counter()
    run.kept = lambda: f"{plural(outcomes[_COMPILED], 'artifacts')} written"
    with (
        _compiling(outputs, kind, job_of, options, run) as results,
        run.console.stage("compiling", len(outputs), "sources") as progress,
    ):
        for number, done in enumerate(results, 1):
            outcomes[done.outcome] += 1
            _tell(done, options, run)
            rows += [] if done.error else [_row(done)]
            progress(Stage("compiling", number, len(outputs), "sources"))
    if not options.json and not options.quiet:
        print_columns(run.console, _HEADER, rows)
    known = (_COMPILED, _UP_TO_DATE, _FAILED)
    counted = ", ".join(f"{outcomes[name]:,} {name}" for name in known if outcomes[name])
    run.console.note(f"{plural(len(outputs), 'sources')}: {counted}")
    return SOME_RECORDS_FAILED if outcomes[_FAILED] else 0


def _outputs_in(folder: Path, sources: Sequence[str]) -> dict[str, Path]:
    """Return the artifact of each source."""
    outputs: dict[Path, str] = {}
    for source in sources:
        if not stem_of(source):
            raise UsageError("stdin has no name for an artifact in --out-dir", hint="give a file")
        output = folder / f"{stem_of(source)}.arrow"
        if output in outputs:
            raise UsageError(
                f"{outputs[output]} and {source} would both be {output}",
                hint="rename one of them, or compile it on its own",
            )
        outputs[output] = source
    return {source: output for output, source in outputs.items()}


@contextmanager
def _compiling(
    outputs: Mapping[str, Path],
    kind: str,
    job_of: Callable[[str, Path], TextJob],
    options: CompileOptions,
    run: Run,
) -> Iterator[Iterator[_Done]]:
    """Give what becomes of the sources, in their order, as it comes."""
    from cdec.compilers.child.compiler import ChildCompiler

    workers = min(len(outputs), os.cpu_count() or 1)
    idle: SimpleQueue[ChildCompiler] = SimpleQueue()
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers, thread_name_prefix="compile"))
        for _ in range(workers):
            idle.put(stack.enter_context(ChildCompiler(kind)))
        # An interrupt among other things: what has not begun never does.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        vocabulary = load_named(options, run)
        futures: list[Future[_Done]] = [
            pool.submit(_one, source, output, job_of, vocabulary, idle)
            for source, output in outputs.items()
        ]
        yield (future.result() for future in futures)


def _one(
    source: str,
    output: Path,
    job_of: Callable[[str, Path], TextJob],
    vocabulary: Vocabulary,
    idle: SimpleQueue[ChildCompiler],
) -> _Done:
    """Read and compile one source, unless its artifact is up to date."""
    try:
        job = job_of(source, output)
        if output.is_file() and not job.options.force:
            file = job.made_from.require_same(output, lambda: vocabulary, job.source_hash)
            said = job.command.recorded(file) | {"up_to_date": True}
            return _Done(source, output, _UP_TO_DATE, said)
        child = idle.get()
        try:
            report = job.compile_by(child, vocabulary, silent)
        finally:
            idle.put(child)
    except CdecError as error:
        if source not in error.message:
            error.message = f"{source}: {error.message}"
            error.args = (error.message,)
        return _Done(source, output, _FAILED, {}, error)
    said = report.to_json() | {"notices": report.notices, "up_to_date": False}
    return _Done(source, output, _COMPILED, said)


def _tell(done: _Done, options: CompileOptions, run: Run) -> None:
    """Print what became of a source: an error and warnings on stderr, with ``json`` an object."""
    if options.json:
        said = done.said | {"source": done.source}
        if done.error is not None:
            said["error"] = typed_error(done.error).to_json()
        else:
            said["notices"] = notice_objects(done.said["notices"])
        print_json(run.console, said)
    elif done.error is not None:
        run.console.error(done.error)
    else:
        run.console.warn(done.said["notices"])


def _row(done: _Done) -> list[str]:
    seconds = done.said["seconds"].get("total")
    shown = done.outcome if seconds is None else f"{seconds:.3f}"
    return [done.source, str(done.output), shown_bytes(done.said["bytes"]), shown]

"""Many sources at once, each in its own artifact: compiled side by side, failures listed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.in_child import Job, load_named, said_of
from cdec.cli.compiling.reading import stem_of
from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.console import notice_objects, typed_error
from cdec.cli.frame.progress import plural
from cdec.cli.frame.tables import print_columns, print_json, shown_bytes
from cdec.core.errors import CdecError, OutputError, UsageError
from cdec.core.progress import Stage

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.compiling import CompileOptions
    from cdec.compilers.child.compiler import ChildCompiler
    from cdec.core.tokens.vocabulary import Vocabulary

_HEADER = ("source", "artifact", "size", "seconds")
_COMPILED, _UP_TO_DATE, _FAILED = "compiled", "up to date", "failed"


@dataclass(frozen=True, slots=True)
class Asked:
    """One of many sources.

    Attributes:
        source: As typed.
        output: The artifact.
        job: Reads the source, and returns what is to be compiled.
    """

    source: str
    output: Path
    job: Callable[[], Job[Any]]


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of one source: its summary, the seconds it took, or an error."""

    outcome: str
    said: dict[str, Any]
    error: CdecError | None = None


def outputs_in(folder: Path, sources: Sequence[str]) -> dict[str, Path]:
    """Return the artifact of each source: in one folder, by the sources' names.

    Raises:
        UsageError: Two of one name, or stdin, which has none.
    """
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


def compile_many(
    asked: Sequence[Asked], kind: str, folder: Path, options: CompileOptions, run: Run
) -> int:
    """Compile sources that have not got their artifact yet; what fails does not stop the others.

    Args:
        asked: The sources.
        kind: Of all of them, in the table of what the child compiles.
        folder: Of the artifacts; made if it is not there.
        options: Of the command.
        run: What was typed.

    Returns:
        The exit status: 3 where some failed.

    Raises:
        OutputError: The folder cannot be made.
        CdecError: The vocabulary cannot be loaded.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror}", path=str(folder)) from error
    rows: list[list[str]] = []
    outcomes: Counter[str] = Counter()
    run.kept = lambda: f"{plural(outcomes[_COMPILED], 'artifacts')} written"
    with (
        _compiling(asked, kind, options, run) as results,
        run.console.stage("compiling", len(asked), "sources") as progress,
    ):
        for number, (one, done) in enumerate(zip(asked, results, strict=True), 1):
            outcomes[done.outcome] += 1
            _tell(one, done, options, run)
            rows += [] if done.error else [_row(one, done)]
            progress(Stage("compiling", number, len(asked), "sources"))
    if not options.json and not options.quiet:
        print_columns(run.console, _HEADER, rows)
    known = (_COMPILED, _UP_TO_DATE, _FAILED)
    counted = ", ".join(f"{outcomes[name]:,} {name}" for name in known if outcomes[name])
    run.console.note(f"{plural(len(asked), 'sources')}: {counted}")
    return SOME_RECORDS_FAILED if outcomes[_FAILED] else 0


@contextmanager
def _compiling(
    asked: Sequence[Asked], kind: str, options: CompileOptions, run: Run
) -> Iterator[Iterator[_Done]]:
    """Give what becomes of the sources, in their order, as it comes."""
    from cdec.compilers import ChildCompiler

    workers = min(len(asked), os.cpu_count() or 1)
    idle: SimpleQueue[ChildCompiler] = SimpleQueue()
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers, thread_name_prefix="compile"))
        for _ in range(workers):
            idle.put(stack.enter_context(ChildCompiler(kind)))
        # An interrupt among other things: what has not begun never does.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        vocabulary = load_named(options, run)
        futures: list[Future[_Done]] = [
            pool.submit(_one, one, vocabulary, options.force, idle) for one in asked
        ]
        yield (future.result() for future in futures)


def _one(
    one: Asked, vocabulary: Vocabulary, force: bool, idle: SimpleQueue[ChildCompiler]
) -> _Done:
    """Read and compile one source, unless its artifact is up to date."""
    try:
        job = one.job()
        if one.output.is_file() and not force:
            file = job.made_from.require_same(
                one.output, lambda: vocabulary, lambda: job.source_hash
            )
            return _Done(_UP_TO_DATE, said_of(job, file))
        child = idle.get()
        try:
            report = child.compile(job.data, vocabulary, one.output, job.recording, force=force)
        finally:
            idle.put(child)
    except CdecError as error:
        if one.source not in error.message:
            error.message = f"{one.source}: {error.message}"
            error.args = (error.message,)
        return _Done(_FAILED, {}, error)
    return _Done(_COMPILED, report.to_json() | {"notices": report.notices, "up_to_date": False})


def _tell(one: Asked, done: _Done, options: CompileOptions, run: Run) -> None:
    """Print what became of a source: an error and warnings on stderr, with ``json`` an object."""
    if options.json:
        said = done.said | {"source": one.source}
        if done.error is not None:
            said["error"] = typed_error(done.error).to_json()
        else:
            said["notices"] = notice_objects(done.said["notices"])
        print_json(run.console, said)
        return
    if done.error is not None:
        run.console.error(done.error)
        return
    run.console.warn(done.said["notices"])


def _row(one: Asked, done: _Done) -> list[str]:
    seconds = done.said["seconds"].get("total")
    shown = done.outcome if seconds is None else f"{seconds:.3f}"
    return [one.source, str(one.output), shown_bytes(done.said["bytes"]), shown]

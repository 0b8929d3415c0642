"""Compiling in a limited child process: one preloaded server, one fork of it for every source."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from cdec.compilers.kinds import SourceOptions
from cdec.compilers.report import ReportT
from cdec.core import errors as core_errors
from cdec.core.child.process import ServerFaultError, ServerProcess, Worker, needing_system
from cdec.core.child.serving import Message
from cdec.core.errors import CdecError, LimitError
from cdec.core.files.whole import refuse_existing
from cdec.core.grammars import errors as grammar_errors
from cdec.core.progress import Progress, Stage, silent
from cdec.core.schemas import errors as schema_errors

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_NO_MEMORY = re.compile("allocat|bad_alloc|memory", re.IGNORECASE)


class ChildUsage(NamedTuple):
    """CPU seconds of a fork on all cores, and its largest resident size, shared pages included."""

    cpu_seconds: float
    peak_bytes: int


class ChildCompiler(Worker):
    """Compiles grammars and the like in a child process under limits of time and memory.

    The server is started with the object, in the background, and again after it was killed. A
    source's fork may take ``limits.compile_seconds`` of CPU time on all cores together, twice that
    and five seconds of wall time, and ``limits.compile_megabytes`` above what the server takes. It
    leaves nothing behind but the artifact. Calls from several threads wait for each other.

    A context manager; ``close`` ends the server, and so does the end of this process, however it
    comes.

    Args:
        source: Kind of source to be ready for; others are loaded with their first.

    Raises:
        OutputError: The system gives no process.

    Attributes:
        usage: What the last source took; None before the first, and where its fork was killed.
    """

    def __init__(self, source: str = "grammar") -> None:
        super().__init__()
        self.usage: ChildUsage | None = None
        self._asked: set[str] = set()
        self._ready: set[str] = set()
        self._vocabulary: Vocabulary | None = None
        with needing_system("compiling"):
            self._server = self._start()
            self._load(self._server, source)

    def __enter__(self) -> ChildCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def compile(
        self,
        source: str | bytes,
        vocabulary: Vocabulary,
        path: str | Path,
        options: SourceOptions[ReportT],
        *,
        force: bool = False,
        progress: Progress = silent,
    ) -> ReportT:
        """Compile a source into an artifact, as ``compile_grammar`` and its like do.

        Args:
            source: The text.
            vocabulary: The tokens; sent to the server once.
            path: The artifact.
            options: What it is, how to read and compile it, and the limits.
            force: Replace an existing file.
            progress: Told when a phase begins, and of kernels that are compiled first.

        Returns:
            What was done. Cost: that of compiling and some 20 milliseconds; the first call also
            waits for the server, about a second.

        Raises:
            LimitError: Past ``compile_seconds`` or ``compile_megabytes``, too.
            OutputError: The system gives no process; or as without a child.
            CdecError: As without a child; or the child broke down.
        """
        refuse_existing(path, force=force)
        data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
        body = {
            "kind": "compile",
            "source": options.kind,
            "options": options.to_json(),
            "path": str(Path(path).absolute()),
            "force": force,
        }
        message = Message(body, data)
        with self._lock, needing_system("compiling"):
            report = self._exchange(lambda: self._compiled(message, vocabulary, options, progress))
        report.path = Path(path)
        return report

    def close(self) -> None:
        """End the server, and a fork that is under way."""
        self._stop()

    def _start(self, *words: str) -> ServerProcess:
        return ServerProcess("cdec.compilers.child.server", "compiles", *words)

    def _forget(self) -> None:
        self._asked, self._ready, self._vocabulary = set(), set(), None

    def _load(self, server: ServerProcess, source: str) -> None:
        """Let the server get ready for a kind of source, in the background."""
        server.send(Message({"kind": "load", "source": source}))
        self._asked.add(source)

    def _compiled(
        self,
        message: Message,
        vocabulary: Vocabulary,
        options: SourceOptions[ReportT],
        progress: Progress,
    ) -> ReportT:
        """Send a source to a server that is ready for its kind and knows the vocabulary."""
        server = self._running()
        if options.kind not in self._asked:
            self._load(server, options.kind)
        while self._asked != self._ready:
            told = server.receive()
            if told is not None and not _is_stage(told, progress):
                self._ready.add(told.body["source"])
        if self._vocabulary is not vocabulary:
            server.send(_vocabulary_message(vocabulary))
            self._vocabulary = vocabulary
        server.forget_printed()
        server.send(message)
        # What may stand there when it is asked again is of its fork.
        message.body["force"] = True
        return self._answer(server, options, progress)

    def _answer(
        self, server: ServerProcess, options: SourceOptions[ReportT], progress: Progress
    ) -> ReportT:
        """Return the report of the source that was sent, or raise what became of it."""
        self.usage = None
        deadline = time.monotonic() + 2 * options.limits.compile_seconds + 5
        result: ReportT | CdecError | None = None
        while True:
            message = server.receive(deadline)
            if message is None:
                raise _out_of_time(options)
            body = message.body
            if body["kind"] == "ended":
                break
            if not _is_stage(message, progress):
                result = _result(message, options, server)
        self._is_asked = False
        self.usage = ChildUsage(body["cpu_seconds"], body["peak_bytes"])
        if result is None:
            result = _death(body["status"], body["cpu_seconds"], options, server)
        if isinstance(result, CdecError):
            raise result
        return result


def compile_in_child(
    source: str | bytes,
    vocabulary: Vocabulary,
    path: str | Path,
    options: SourceOptions[ReportT],
    *,
    force: bool = False,
    progress: Progress = silent,
) -> ReportT:
    """Compile one source in a ``ChildCompiler`` of its own; for several, keep one."""
    with ChildCompiler(options.kind) as child:
        return child.compile(source, vocabulary, path, options, force=force, progress=progress)


def _is_stage(message: Message, progress: Progress) -> bool:
    """Say whether a message tells how far work is, and pass it on."""
    if message.body["kind"] != "stage":
        return False
    progress(Stage(**message.body["stage"]))
    return True


def _vocabulary_message(vocabulary: Vocabulary) -> Message:
    offsets = vocabulary.byte_offsets.astype("<i8").tobytes()
    body = {
        "kind": "vocabulary",
        "offset_bytes": len(offsets),
        "eos": list(vocabulary.eos_token_ids),
        "special": sorted(vocabulary.special_token_ids),
        "width": vocabulary.width,
        "name": vocabulary.name,
        "words": dict(vocabulary.special_tokens),
    }
    return Message(body, offsets + vocabulary.flat_bytes.tobytes())


def _result(
    message: Message, options: SourceOptions[ReportT], server: ServerProcess
) -> ReportT | CdecError:
    """Return what a fork says came of its source."""
    body = message.body
    if body["kind"] == "report":
        return cast("ReportT", options.report.from_message(body["report"]))
    if body["kind"] == "error":
        return _error(body["error"])
    if body["kind"] == "memory":
        return _out_of_memory(options)
    failure = server.broken(f"failed: {body['fault']}")
    failure.__cause__ = ServerFaultError(body["traceback"])
    return failure


def _death(
    status: int, cpu_seconds: float, options: SourceOptions[Any], server: ServerProcess
) -> CdecError:
    """Return what the end of a fork that said nothing means."""
    printed = server.printed()
    if status == -signal.SIGXCPU or cpu_seconds >= options.limits.compile_seconds:
        return _out_of_time(options)
    if status == -signal.SIGKILL or (
        status == -signal.SIGABRT and _NO_MEMORY.search(str(printed)) is not None
    ):
        # Nobody else kills it: the system does so where memory is short. And native libraries abort
        # where they get none.
        return _out_of_memory(options)
    failure = server.broken(f"ended by {signal.Signals(-status).name if status < 0 else status}")
    failure.__cause__ = printed
    return failure


def _out_of_time(options: SourceOptions[Any]) -> LimitError:
    return LimitError(
        f"compiling the {options.source} took more than {options.limits.compile_seconds:g} seconds",
        hint=f"raise `compile_seconds`, or make the {options.source} smaller",
        limit="compile_seconds",
    )


def _out_of_memory(options: SourceOptions[Any]) -> LimitError:
    return LimitError(
        f"compiling the {options.source} took more than {options.limits.compile_megabytes} "
        "megabytes",
        hint=f"raise `compile_megabytes`, or make the {options.source} smaller",
        limit="compile_megabytes",
    )


def _error(values: Mapping[str, Any]) -> CdecError:
    """Return the error that a fork raised: of the same class, text and details."""
    details: dict[str, Any] = values["details"]
    found = _ERRORS.get(str(values["class"]), CdecError)
    return found(values["message"], hint=values["hint"], **details)


_ERRORS: dict[str, type[CdecError]] = {
    name: value
    for module in (core_errors, grammar_errors, schema_errors)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, CdecError)
}

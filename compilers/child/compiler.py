"""Compiling in a limited child process: one preloaded server, one fork of it for every source."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from cdec.compilers.child.protocol import error_from_json, told_stage
from cdec.compilers.child.report import ReportT
from cdec.compilers.child.source import SourceOptions
from cdec.core.child.process import (
    LostServerError,
    ServerFaultError,
    ServerProcess,
    needing_system,
)
from cdec.core.child.protocol import Message
from cdec.core.errors import CdecError, LimitError
from cdec.core.files.whole import refuse_existing
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


_NO_MEMORY = re.compile("allocat|bad_alloc|memory", re.IGNORECASE)


_TRIES = 2
"""A server that ended without reason, such as by somebody's ``kill``, is asked once more."""


class ChildUsage(NamedTuple):
    """CPU seconds of a fork on all cores, and its largest resident size, shared pages included."""

    cpu_seconds: float
    peak_bytes: int


class ChildCompiler:
    """Compiles grammars and the like in a child process under limits of time and memory.

    The server is started with the object, in the background, and again after it was killed. A
    source's fork may take ``limits.compile_seconds`` of CPU time on all cores together, twice that
    and five seconds of wall time, and ``limits.compile_megabytes`` above what the server takes. It
    leaves nothing behind but the artifact. Calls from several threads wait for each other.

    A context manager; ``close`` ends the server, and so does the end of this process, however it
    comes.

    Args:
        source: Kind of source to be ready for, of ``SOURCES``; others are loaded with their first.

    Raises:
        OutputError: The system gives no process.

    Attributes:
        usage: What the last source took; None before the first, and where its fork was killed.
    """

    def __init__(self, source: str = "grammar") -> None:
        self.usage: ChildUsage | None = None
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._ready: set[str] = set()
        self._is_idle = True
        self._vocabulary: Vocabulary | None = None
        self._server: ServerProcess | None = None
        with needing_system("compiling"):
            self._server = _started()
            self._load(self._server, source)

    def __enter__(self) -> ChildCompiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The server's process id; None where none runs."""
        return None if self._server is None else self._server.pid

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
        with self._lock, needing_system("compiling"):
            for tries in range(1, _TRIES + 1):
                try:
                    server = self._prepared(options.kind, vocabulary, progress)
                    server.forget_printed()
                    server.send(Message(body, data))
                    report = self._answer(server, options, progress)
                    break
                except LostServerError:
                    if tries == _TRIES:
                        raise
                    # What may stand there by now is of its fork.
                    body["force"] = True
                finally:
                    # An interrupt among other things: no fork outlives the wish for its result.
                    if not self._is_idle:
                        self._stop()
        report.path = Path(path)
        return report

    def close(self) -> None:
        """End the server, and a fork that is under way."""
        self._stop()

    def _stop(self) -> None:
        server, self._server = self._server, None
        self._asked, self._ready, self._is_idle, self._vocabulary = set(), set(), True, None
        if server is not None:
            server.kill()

    def _load(self, server: ServerProcess, source: str) -> None:
        """Let the server get ready for a kind of source, in the background."""
        server.send(Message({"kind": "load", "source": source}))
        self._asked.add(source)

    def _prepared(self, source: str, vocabulary: Vocabulary, progress: Progress) -> ServerProcess:
        """Return a server that is ready for a kind of source and knows the vocabulary."""
        if self._server is None or not self._server.is_running:
            self._stop()
            self._server = _started()
        self._is_idle = False
        if source not in self._asked:
            self._load(self._server, source)
        while self._asked != self._ready:
            message = self._server.receive()
            stage = told_stage(message)
            if stage is not None:
                progress(stage)
            elif message is not None:
                self._ready.add(message.body["source"])
        if self._vocabulary is not vocabulary:
            self._server.send(_vocabulary_message(vocabulary))
            self._vocabulary = vocabulary
        return self._server

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
            stage = told_stage(message)
            if stage is not None:
                progress(stage)
            else:
                result = _result(message, options, server)
        self._is_idle = True
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


def _started() -> ServerProcess:
    return ServerProcess("cdec.compilers.child.server", "compiles")


def _vocabulary_message(vocabulary: Vocabulary) -> Message:
    offsets = vocabulary.byte_offsets.astype("<i8").tobytes()
    body = {
        "kind": "vocabulary",
        "offset_bytes": len(offsets),
        "eos": list(vocabulary.eos_token_ids),
        "special": sorted(vocabulary.special_token_ids),
        "width": vocabulary.width,
        "name": vocabulary.name,
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
        return error_from_json(body["error"])
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

"""The limited child's own side: a preloaded server that forks one process for every source.

Run by ``ChildCompiler`` alone. For each kind of source that it is asked for, the server imports
what compiling needs, and before the second source it makes the tables that many use; it reads the
vocabulary once, and then forks: a source meets a process that is ready, and what it breaks, fills
or exhausts ends with that process.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.compilers.kinds import SourceKind, SourceOptions, source_kind
from cdec.core.child.serving import (
    PIECE,
    Inbox,
    Message,
    claim_pipes,
    end_with_parent,
    limit_memory,
    limit_time,
    messages,
    write,
)
from cdec.core.errors import CdecError
from cdec.core.lazy import uncollected
from cdec.core.progress import Stage

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_MANY = 2
"""With so many sources of a kind, what most of them use is made once for all that follow."""
_LOOK_EVERY_S = 2.0
_STILL_S = 20.0
"""A fork that uses no processor for so long waits for what will not come."""


def main(parent: int) -> None:
    """Serve on stdin and stdout until the parent closes its end: messages as ``Worker`` sends them.

    ``load``, ``vocabulary`` and ``compile`` come; ``ready``, and of a fork ``stage``, ``report``,
    ``error`` and the like and at last ``ended`` go.
    """
    requests, answers = claim_pipes()
    known = _Known()
    for message in messages(requests, parent):
        kind = message.body["kind"]
        if kind == "load":
            name = message.body["source"]
            known.load(name)
            write(answers, Message({"kind": "ready", "source": name}))
        elif kind == "vocabulary":
            known.meet(message)
        else:
            _answer(message, known, requests, answers)


class _Known:
    """What every fork of the server finds: kinds of sources that are loaded, and the vocabulary."""

    def __init__(self) -> None:
        self.kinds: dict[str, SourceKind[Any]] = {}
        self._served: Counter[str] = Counter()
        self._vocabulary: Vocabulary | None = None
        self._prepared: set[str] = set()

    def load(self, name: str) -> None:
        """Load a kind of source."""
        with uncollected():
            import cdec.core.artifacts.write  # noqa: F401  # loaded for the forks

            self.kinds[name] = source_kind(name)
            self.kinds[name].warm_up()

    def kind_for(self, name: str) -> SourceKind[Any]:
        """Return the kind of the source that is compiled next, ready for many after the first."""
        self._served[name] += 1
        if self._served[name] == _MANY:
            with uncollected():
                self.kinds[name].settle()
        return self.kinds[name]

    def meet(self, message: Message) -> None:
        """Take the vocabulary of the sources that follow."""
        from cdec.core.tokens.vocabulary import Vocabulary

        body = message.body
        offsets = np.frombuffer(message.data[: body["offset_bytes"]], "<i8").tolist()
        flat = message.data[body["offset_bytes"] :]
        tokens = [flat[a:b] for a, b in itertools.pairwise(offsets)]
        self._vocabulary = Vocabulary(
            tokens,
            body["eos"],
            body["special"],
            width=body["width"],
            name=body["name"],
            special_tokens=body["words"],
        )
        self._prepared = set()

    def vocabulary_for(self, name: str) -> Vocabulary:
        """Return the vocabulary, prepared for a kind of source."""
        assert self._vocabulary is not None
        if name not in self._prepared:
            self.kinds[name].prepare(self._vocabulary)
            self._prepared.add(name)
        return self._vocabulary


def _answer(message: Message, known: _Known, requests: int, answers: int) -> None:
    """Fork, let the fork compile, pass on what it says, and say how it ended."""
    name = message.body["source"]
    kind, vocabulary = known.kind_for(name), known.vocabulary_for(name)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.close(requests)
        _be_the_child(message, kind, vocabulary, writing)
    os.close(writing)
    try:
        _relay(reading, requests, answers, child)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    ended = {
        "kind": "ended",
        "status": os.waitstatus_to_exitcode(status),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        # Kilobytes, but bytes on macOS.
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }
    write(answers, Message(ended))


def _relay(reading: int, requests: int, answers: int, child: int) -> None:
    """Pass whole messages on until the fork closes its end.

    Whatever else comes from the parent meanwhile, its going included, ends the fork and this.
    """
    inbox, spent, since = Inbox(), -1, time.monotonic()
    while True:
        ready, _, _ = select.select([reading, requests], [], [], _LOOK_EVERY_S)
        if not ready:
            now = _cpu_ticks(child)
            if now != spent:
                spent, since = now, time.monotonic()
            elif time.monotonic() - since > _STILL_S:
                # subtle: a new thread that finds no memory ends without a word, and the one that
                # waits for it waits for ever.
                write(answers, Message({"kind": "memory"}))
                os.kill(child, signal.SIGKILL)
                return
            continue
        since = time.monotonic()
        if requests in ready:
            os.kill(child, signal.SIGKILL)
            os.wait4(child, 0)
            os._exit(0)
        data = os.read(reading, PIECE)
        if not data:
            return
        for message in inbox.feed(data):
            write(answers, message)


def _cpu_ticks(pid: int) -> int:
    """Return the processor time of a process; the same once it stands still."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return time.monotonic_ns()


def _be_the_child(
    message: Message, kind: SourceKind[Any], vocabulary: Vocabulary, writing: int
) -> None:
    """Compile one source under limits, say what came of it, and end; never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        end_with_parent()
        options = kind.options.from_json(message.body["options"])
        limit_time(max(1, ceil(options.limits.compile_seconds)))
        limit_memory(options.limits.compile_megabytes)
        # Grammars are made of many small objects, and few of them are cycles that are left.
        gc.set_threshold(200_000)
        write(writing, _outcome(message, kind, vocabulary, options, writing))
        status = 0
    finally:
        # subtle: no clean-up of an interpreter that two processes share.
        os._exit(status)


def _outcome(
    message: Message,
    kind: SourceKind[Any],
    vocabulary: Vocabulary,
    options: SourceOptions[Any],
    writing: int,
) -> Message:
    def tell(stage: Stage) -> None:
        write(writing, Message({"kind": "stage", "stage": asdict(stage)}))

    body = message.body
    assert kind.compile is not None, "streams are compiled where they are read"
    try:
        report = kind.compile(
            message.data, vocabulary, body["path"], options, force=body["force"], progress=tell
        )
    except CdecError as error:
        said = {"message": error.message, "hint": error.hint, "details": error.details}
        return Message({"kind": "error", "error": {"class": type(error).__name__, **said}})
    except MemoryError:
        return Message({"kind": "memory"})
    except Exception as error:
        shown = f"{type(error).__name__}: {error}"
        return Message({"kind": "fault", "fault": shown, "traceback": traceback.format_exc()})
    return Message({"kind": "report", "report": report.to_message()})

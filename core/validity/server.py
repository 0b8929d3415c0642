"""The side of the process that gives verdicts: builds parsers, keeps them, reads texts.

Run by ``Judge`` alone. Each verdict has a timer of the system's behind it, so that what never looks
at the time (a regular expression, lark's building of tables, all of jsonschema) ends with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from cdec.core.child.limits import claim_pipes, end_with_parent, limit_memory
from cdec.core.child.protocol import PIECE, Inbox, Message, pack, write_all
from cdec.core.validity.language import OutOfTime, Parse

_GRACE_S = 0.25
"""Between the time at which a parser should stop and that at which the process is stopped."""
_LOOK_EVERY_S = 5.0
NO_MEMORY = 3
"""Exit status where the memory does not suffice."""


def main() -> None:
    """Serve on stdin and stdout; the arguments are those of ``Judge``."""
    parent, follows, megabytes = (int(word) for word in sys.argv[2:5])
    readers = Readers()
    requests, answers = claim_pipes()
    # The parent answers the terminal's Ctrl-C: it closes the pipe or kills this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # subtle: what a parent ignores or blocks is handed down.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    if follows:
        end_with_parent()
    readers.load(sys.argv[5])
    gc.collect()
    gc.freeze()
    limit_memory(megabytes)
    write_all(answers, pack(Message({"kind": "ready"})))
    try:
        serve(_messages(requests, parent), answers, readers)
    except MemoryError:
        # subtle: no clean-up, which would need some.
        os._exit(NO_MEMORY)


class Readers:
    """The modules that read languages, loaded when they are first named."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def load(self, name: str) -> Any:
        """Return a reader, ready."""
        if name not in self._loaded:
            module: Any = importlib.import_module(name)
            module.load()
            self._loaded[name] = module
        return self._loaded[name]


def serve(messages: Iterator[Message], answers: int, readers: Readers) -> None:
    """Answer each message: a text, and what it must be a member of.

    Args:
        messages: ``number`` of the language, ``seconds`` of processor time, ``forget`` (numbers of
            languages that are not asked for again); with a first text its ``language``.
        answers: Descriptor to write ``built``, after a first text's parser, and ``verdict`` to.
        readers: Of languages; loading one is not counted to a verdict's seconds.

    Raises:
        MemoryError: The memory does not suffice.
    """
    parsers: dict[int, Parse | None] = {}
    for message in messages:
        body = message.body
        for number in body["forget"]:
            parsers.pop(number, None)
        if "language" in body:
            name, parts = body["language"]
            reader = readers.load(name)
        # subtle: its default action ends the process in the middle of whatever C code it is in,
        # and needs nobody who is still there to send it.
        signal.setitimer(signal.ITIMER_PROF, body["seconds"] + _GRACE_S)
        deadline = time.process_time() + body["seconds"]
        said: dict[str, object] = {"kind": "verdict", "verdict": None}
        try:
            if "language" in body:
                parsers[body["number"]] = reader.parser_of(*parts)
                write_all(answers, pack(Message({"kind": "built"})))
            said["verdict"] = _verdict(parsers[body["number"]], message.data, deadline)
        except OutOfTime:
            said["is_late"] = True
        except MemoryError:
            raise
        except Exception as error:
            # Of a reader, at what it takes for readable and is not.
            said["fault"] = f"{type(error).__name__}: {error}"
            parsers[body["number"]] = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_all(answers, pack(Message(said)))


def _verdict(parse: Parse | None, text: bytes, deadline: float) -> object:
    return None if parse is None else parse(text.decode("utf-8"), deadline)


def _messages(requests: int, parent: int) -> Iterator[Message]:
    """Yield what comes until the parent closes its end, or is gone."""
    inbox = Inbox()
    while True:
        # subtle: a process that the parent forked off may hold the pipe open after its end.
        while not select.select([requests], [], [], _LOOK_EVERY_S)[0]:
            if os.getppid() != parent:
                return
        data = os.read(requests, PIECE)
        if not data:
            return
        yield from inbox.feed(data)

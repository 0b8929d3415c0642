"""Verdicts from a process that can be killed: one process for all languages of this one."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections import OrderedDict
from itertools import count
from typing import Any, NamedTuple

from cdec.core.child.process import ServerProcess
from cdec.core.child.protocol import Message
from cdec.core.errors import CdecError, Notice
from cdec.core.notices import FirstOfEach
from cdec.core.validity.language import Language
from cdec.core.validity.server import NO_MEMORY

_PARSERS = 16
"""Parsers kept in the process: those of a batch of records with sources of their own, and more."""
_MEGABYTES = 1024
"""Of memory that the process may take above what it has when it is ready."""
_START_S = 60.0
_TRIES = 2
"""A process that ended without reason, such as by somebody's ``kill``, is asked once more."""


class Answer(NamedTuple):
    """What came of asking for a verdict.

    Attributes:
        verdict: Whether the text is a member, or what else the reader says of it; None where that
            is not known.
        lost: Why it is not known, as the end of a sentence; None where the text was judged, or
            its reader cannot say.
        is_built: Whether the language has a parser; False where making it was cut off.
    """

    verdict: Any
    lost: str | None = None
    is_built: bool = True


class Judge:
    """Asks a process whether texts are members of languages, under limits of time and memory.

    The process is started with the first question and again after it was killed; it keeps the
    parsers of the languages that were asked for last. It ends with ``close`` and with this process,
    however that ends. Calls from several threads wait for each other.

    Args:
        megabytes: Of memory that the process may take above what it has when it is ready.
    """

    def __init__(self, megabytes: int = _MEGABYTES) -> None:
        self._megabytes = megabytes
        self._notices = FirstOfEach("texts")
        self._numbers = count()
        self._lock = threading.Lock()
        self._known: OrderedDict[Language, int] = OrderedDict()
        self._server: ServerProcess | None = None
        self._is_asked = False

    @property
    def pid(self) -> int | None:
        """The process's id; None where none runs."""
        return None if self._server is None else self._server.pid

    def ask(self, language: Language, text: bytes, seconds: float) -> Answer:
        """Say whether a text is a member of a language.

        Args:
            language: Compared by what it says; its parser is made with its first text.
            text: In UTF-8.
            seconds: Of processor time, for making the parser and reading the text together; the
                whole may take twice that and five seconds by the clock.

        Returns:
            The verdict. Cost: the parser's, and a tenth of a millisecond; the first call also
            waits for the process, a quarter of a second.
        """
        with self._lock:
            for _ in range(_TRIES):
                try:
                    answer = self._asked(language, text, seconds)
                except OSError as error:
                    return Answer(None, f"could not be decided: no process: {error.strerror}")
                finally:
                    # An interrupt among other things: an answer that comes late is never taken for
                    # that to the next question.
                    if self._is_asked:
                        self._stop()
                if answer is not None:
                    return answer
            return Answer(None, "could not be decided: the process that decides it broke down")

    def note(self, message: str) -> None:
        """Keep a warning, for whoever takes them."""
        with self._lock:
            self._notices.add(Notice("W_UNDECIDED", message))

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first, with their number."""
        with self._lock:
            return self._notices.take()

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._stop()

    def abandon(self) -> None:
        """Leave the process to the one that this one was forked off from."""
        # subtle: the lock may be held by a thread that is not here.
        self._lock = threading.Lock()
        server, self._server = self._server, None
        self._known.clear()
        self._is_asked = False
        if server is not None:
            server.abandon()

    def _stop(self) -> int | None:
        """End the process, if there is one, and return its exit status."""
        server, self._server = self._server, None
        self._known.clear()
        self._is_asked = False
        return None if server is None else server.kill()

    def _asked(self, language: Language, text: bytes, seconds: float) -> Answer | None:
        """Ask once; None where the process ended without reason."""
        is_built = False
        late = f"took longer than {seconds:g} seconds to decide"
        said, begun = None, time.monotonic()
        try:
            server = self._prepared(language.reader)
            self._is_asked = True
            is_built = language in self._known
            begun = time.monotonic()
            deadline = begun + 2 * seconds + 5
            if server.send(self._question(language, text, seconds), deadline):
                said = server.receive(deadline)
                if said is not None and said.body["kind"] == "built":
                    is_built = True
                    said = server.receive(deadline)
        except CdecError:
            is_crowded = len(self._known) > 1
            status = self._stop()
            # subtle: the status reads 0 where the caller lets the system wait for children.
            if status == -signal.SIGPROF or (not status and time.monotonic() - begun > seconds):
                return Answer(None, late, is_built)
            if status == NO_MEMORY and not is_crowded:
                full = f"took more than {self._megabytes} megabytes to decide"
                return Answer(None, full, is_built)
            # Somebody killed it, or others' parsers filled it.
            return None
        if said is None:
            return Answer(None, late, is_built)
        self._is_asked = False
        return Answer(said.body["verdict"], late if "is_late" in said.body else None)

    def _prepared(self, reader: str) -> ServerProcess:
        """Return the process, ready for a question.

        Args:
            reader: What a process that is started now loads first.

        Raises:
            OSError: None can be started.
            CdecError: It ended.
        """
        if self._server is not None and self._server.is_running:
            return self._server
        self._stop()
        follows = threading.current_thread() is threading.main_thread()
        words = (os.getpid(), int(follows), self._megabytes, reader)
        self._server = server = ServerProcess(
            "cdec.core.validity.server", "judges texts", *map(str, words)
        )
        self._is_asked = True
        if server.receive(time.monotonic() + _START_S) is None:
            raise TimeoutError(0, f"none is ready after {_START_S:g} seconds")
        return server

    def _question(self, language: Language, text: bytes, seconds: float) -> Message:
        """Return the message that asks; the process knows the language afterwards."""
        body: dict[str, object] = {"seconds": seconds, "forget": []}
        if language not in self._known:
            body["language"] = language
            self._known[language] = next(self._numbers)
            if len(self._known) > _PARSERS:
                body["forget"] = [self._known.popitem(last=False)[1]]
        self._known.move_to_end(language)
        return Message(body | {"number": self._known[language]}, text)


JUDGE = Judge()
"""Of this process. subtle: state of a module, because a process is what there should be one of:
each constraint's own would be sixty-four for a batch of records with sources of their own. No
verdict depends on it."""

atexit.register(JUDGE.close)
os.register_at_fork(after_in_child=JUDGE.abandon)

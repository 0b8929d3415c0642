"""Verdicts on texts from a process that can be killed: one for all languages of this one."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections import OrderedDict
from itertools import count
from typing import Any, NamedTuple

from cdec.core.child.process import LostServerError, ServerProcess, Worker
from cdec.core.child.readers import NO_MEMORY, Language
from cdec.core.child.serving import Message
from cdec.core.errors import Notice
from cdec.core.progress import FirstOfEach

DEFAULT_SECONDS = 5.0
"""Processor time that one verdict may take, making the parser included."""
_MOST_LOST = 3
"""Texts without verdict after which a language is given up, if no more than these were judged."""
_PARSERS = 16
"""Parsers kept in the process: those of a batch of records with sources of their own, and more."""
_MEGABYTES = 1024
"""Of memory that the process may take above what it has when it is ready."""
_START_S = 60.0


class Answer(NamedTuple):
    """A verdict, or the reason why there is none.

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


class Judge(Worker):
    """Asks a process whether texts are members of languages, under limits of time and memory.

    The process is started with the first question and again after it was killed; it keeps the
    parsers of the languages that were asked for last. It ends with ``close`` and with this process.

    Args:
        megabytes: Of memory that the process may take above what it has when it is ready.
    """

    def __init__(self, megabytes: int = _MEGABYTES) -> None:
        super().__init__()
        self._megabytes = megabytes
        self._notices = FirstOfEach("texts")
        self._numbers = count()
        self._known: OrderedDict[Language, int] = OrderedDict()

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
            try:
                return self._exchange(lambda: self._asked(language, text, seconds))
            except LostServerError:
                return Answer(None, "could not be decided: the process that decides it broke down")
            except OSError as error:
                return Answer(None, f"could not be decided: no process: {error.strerror}")

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
        self._stop()
        if server is not None:
            server.abandon()

    def _forget(self) -> None:
        self._known.clear()

    def _asked(self, language: Language, text: bytes, seconds: float) -> Answer:
        """Ask once.

        Raises:
            LostServerError: The process ended without reason.
        """
        is_built = False
        late = f"took longer than {seconds:g} seconds to decide"
        said, begun = None, time.monotonic()
        try:
            server = self._running(language.reader)
            is_built = language in self._known
            begun = time.monotonic()
            deadline = begun + 2 * seconds + 5
            if server.send(self._question(language, text, seconds), deadline):
                said = server.receive(deadline)
                if said is not None and said.body["kind"] == "built":
                    is_built = True
                    said = server.receive(deadline)
        except LostServerError:
            is_crowded = len(self._known) > 1
            status = self._stop()
            # subtle: the status reads 0 where the caller lets the system wait for children.
            if status == -signal.SIGPROF or (not status and time.monotonic() - begun > seconds):
                return Answer(None, late, is_built)
            if status == NO_MEMORY and not is_crowded:
                full = f"took more than {self._megabytes} megabytes to decide"
                return Answer(None, full, is_built)
            # Somebody killed it, or others' parsers filled it.
            raise
        if said is None:
            return Answer(None, late, is_built)
        self._is_asked = False
        return Answer(said.body["verdict"], late if "is_late" in said.body else None)

    def _start(self, *words: str) -> ServerProcess:
        follows = threading.current_thread() is threading.main_thread()
        words = (str(int(follows)), str(self._megabytes), *words)
        server = ServerProcess("cdec.core.child.readers", "judges texts", *words)
        # subtle: known and owed an answer before the wait, so that an interrupt ends it.
        self._server, self._is_asked = server, True
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


class TextChecker:
    """The independent check of one language's texts, in a process that can be killed.

    A language whose parser could not be made in time is not tried again. Nor is one most of whose
    texts, three at least, ran out of time or memory: what is left of a run does not wait for it.

    Args:
        language: Of the constraint.
        seconds: Limit of one verdict, of processor time.
        judge: Where verdicts come from.
    """

    def __init__(
        self, language: Language, *, seconds: float = DEFAULT_SECONDS, judge: Judge = JUDGE
    ) -> None:
        self._language = language
        self._seconds = seconds
        self._judge = judge
        self._given_up: str | None = None
        self._judged = 0
        self._lost = 0

    def __call__(self, text: bytes) -> bool | None:
        """Return whether a text is a member; None where that is not known.

        Cost: the first call builds the parser; what a text costs is said where its reader is.
        """
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return False
        if self._given_up is not None:
            self._judge.note(self._given_up)
            return None
        answer = self._judge.ask(self._language, text, self._seconds)
        if answer.lost is None:
            self._judged += 1
            verdict: bool | None = answer.verdict
            return verdict
        self._lost += 1
        message = f"whether a text is in its language {answer.lost}: `valid` is null"
        if not answer.is_built or self._lost >= max(_MOST_LOST, self._judged + 1):
            self._given_up = message
        self._judge.note(message)
        return None

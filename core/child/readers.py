"""Independent readers of texts, in the process of ``Judge``: built, kept, asked under a timer.

Each verdict has a timer of the system's behind it, so that what never looks at the time (a regular
expression, lark's building of tables, all of jsonschema) ends with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from cdec.core.child.serving import (
    Message,
    claim_pipes,
    end_with_parent,
    limit_memory,
    messages,
    write,
)

_GRACE_S = 0.25
"""Between the time at which a parser should stop and that at which the process is stopped."""
NO_MEMORY = 3
"""Exit status where the memory does not suffice."""

Parse = Callable[[str, float], object]
"""Takes a text and the time (``time.process_time()``) to stop at; says whether it is a member, None
where that cannot be decided. Readers that are asked something else say other JSON."""


class OutOfTime(Exception):  # noqa: N818  # not an error: an answer
    """The deadline has passed."""


class Language(NamedTuple):
    """A language as its judge gets it, compared by what it says.

    Attributes:
        reader: Dotted name of the module that reads it. It has ``parser_of(*parts)``, which returns
            a ``Parse`` (None where the parts cannot be read), and ``load()``, which does beforehand
            what all its parsers need.
        parts: As an artifact stores them.
    """

    reader: str
    parts: tuple[str, ...]


def main(parent: int, follows: str, megabytes: str, reader: str) -> None:
    """Serve on stdin and stdout.

    Args:
        parent: Process id.
        follows: ``1`` where the thread that made this process lives as long as its own.
        megabytes: Of memory above what the process has when it is ready.
        reader: Module that is loaded first.
    """
    requests, answers = claim_pipes()
    # subtle: what a parent ignores or blocks is handed down.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    if int(follows):
        end_with_parent()
    _load(reader)
    gc.collect()
    gc.freeze()
    limit_memory(int(megabytes))
    write(answers, Message({"kind": "ready"}))
    try:
        serve(messages(requests, parent), answers)
    except MemoryError:
        # subtle: no clean-up, which would need some.
        os._exit(NO_MEMORY)


@cache
def _load(name: str) -> Any:
    """Return the module that reads a kind of language, ready."""
    module: Any = importlib.import_module(name)
    module.load()
    return module


def serve(questions: Iterator[Message], answers: int) -> None:
    """Answer each message: a text, and what it must be a member of.

    Args:
        questions: ``number`` of the language, ``seconds`` of processor time, ``forget`` (numbers of
            languages that are not asked for again); with a first text its ``language``.
        answers: Descriptor to write ``built``, after a first text's parser, and ``verdict`` to.

    Raises:
        MemoryError: The memory does not suffice.
    """
    parsers: dict[int, Parse | None] = {}
    for message in questions:
        body = message.body
        for number in body["forget"]:
            parsers.pop(number, None)
        if "language" in body:
            name, parts = body["language"]
            # Not counted to a verdict's seconds.
            reader = _load(name)
        # subtle: its default action ends the process in the middle of whatever C code it is in,
        # and needs nobody who is still there to send it.
        signal.setitimer(signal.ITIMER_PROF, body["seconds"] + _GRACE_S)
        deadline = time.process_time() + body["seconds"]
        said: dict[str, object] = {"kind": "verdict", "verdict": None}
        try:
            if "language" in body:
                parsers[body["number"]] = reader.parser_of(*parts)
                write(answers, Message({"kind": "built"}))
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
        write(answers, Message(said))


def _verdict(parse: Parse | None, text: bytes, deadline: float) -> object:
    return None if parse is None else parse(text.decode("utf-8"), deadline)

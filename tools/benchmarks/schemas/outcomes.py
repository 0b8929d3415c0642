"""What becomes of a schema and its instances: right, refused with an error, or wrong."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.errors import CdecError
from cdec.core.schemas.references import Reference
from cdec.core.schemas.validity import parser_of
from cdec.core.tokens.vocabulary import Vocabulary
from tools.benchmarks.schemas.cases import Case, Instance

STATUSES = ("right", "excused", "recorded", "refused", "wrong")
"""``excused``: wrong of instances only where the jsonschema package agrees with cdec. ``recorded``:
invalid ones are accepted, and keywords are named that are not enforced."""


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        status: One of ``STATUSES``.
        error: The code of the error that it was refused with, its path and message.
        wrong: Wrong verdicts: spelling, text, what was expected, and what jsonschema says.
        unenforced: Keywords that were recorded instead of enforced.
        seconds: Of compiling.
    """

    status: str
    error: str = ""
    wrong: list[dict[str, Any]] = field(default_factory=list)
    unenforced: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0


class Late(Exception):  # noqa: N818  # not an error: an answer
    """It took longer than it may."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise ``Late`` in what takes longer by the clock; between two calls of compiled code."""

    def raise_late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, raise_late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome_of(
    case: Case,
    vocabulary: Vocabulary,
    *,
    lenient: bool = False,
    seconds: int = 60,
    references: tuple[Reference, ...] = (),
) -> Outcome:
    """Compile a case's schema, and follow every spelling of its instances byte by byte.

    Args:
        references: Documents that schemas may refer to.
    """
    options = SchemaOptions(formats=case.formats, lenient=lenient, references=references)  # type: ignore[arg-type]
    options = options.for_text(case.source)
    begun = time.perf_counter()
    try:
        with at_most(seconds):
            constraint = schema_constraint(case.source, vocabulary, options)
    except CdecError as error:
        spent = time.perf_counter() - begun
        return _refused(case, error, spent)
    except (Late, SystemError):
        # subtle: compiled code that is interrupted raises a SystemError.
        return Outcome("wrong", f"no end within {seconds} s", seconds=seconds)
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {error}"[:300])
    outcome = Outcome("right", seconds=time.perf_counter() - begun)
    outcome.unenforced = json.loads(constraint.metadata.get("cdec.unenforced", "[]"))
    try:
        with at_most(seconds):
            session = constraint.session()
            for instance in case.instances:
                outcome.wrong += _wrong(session, case, instance, constraint.metadata)
    except (Late, SystemError):
        return Outcome("wrong", f"instances: no end within {seconds} s")
    except Exception as error:
        return Outcome("wrong", f"instances: {type(error).__name__}: {error}"[:300])
    against = [found for found in outcome.wrong if found["jsonschema"] is found["expected"]]
    if outcome.wrong:
        outcome.status = "wrong" if against else "excused"
    if against and outcome.unenforced and not any(found["expected"] for found in against):
        outcome.status = "recorded"
    return outcome


def follows(session: Any, text: str) -> bool:
    """Say whether a session takes a text byte by byte, and may end there."""
    states = session.advance_bytes(session.start(1), [text.encode()])
    return bool(states[0] >= 0 and session.is_complete(states)[0])


def _wrong(
    session: Any, case: Case, instance: Instance, metadata: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    seen = set()
    for spelling, text in instance.texts().items():
        try:
            text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair, which no text has.
            continue
        if text not in seen and follows(session, text) is not instance.valid:
            referred = metadata.get("cdec.references", "[]")
            parse = parser_of(case.source, case.formats, references=referred)
            yield {
                "spelling": spelling,
                "text": text,
                "expected": instance.valid,
                "jsonschema": None if parse is None else parse(text, 0.0),
                "description": instance.description,
            }
            seen.add(text)
            return
        seen.add(text)


def _refused(case: Case, error: CdecError, seconds: float) -> Outcome:
    message = f"{error.code}: {error}"[:300]
    if error.code == "E_EMPTY_LANGUAGE":
        valid = [instance for instance in case.instances if instance.valid]
        status = "wrong" if valid else "right"
        return Outcome(status, message, seconds=seconds)
    return Outcome("refused", message, seconds=seconds)

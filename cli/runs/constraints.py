"""The artifacts of a run, opened once, and which of them a record is held to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.runs.artifact_files import read_artifact
from cdec.cli.runs.narrowing import Narrowing
from cdec.cli.runs.record_grammars import CacheLimits, RecordGrammars
from cdec.core.errors import FieldError, Notice, UsageError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.prompts.read import BadRecord, PromptRecord

DEFAULT = ""
"""Stands for the artifact of the records that name none."""
_WITHOUT_COMPILER = ("regex", "schema")
_HOW_TO = "-a ARTIFACT (make one with cdec compile-set FILE or cdec compile-grammar FILE)"


def parse_named(pairs: Sequence[str]) -> dict[str, Path]:
    """Return name → path for every ``--constraint NAME=ARTIFACT``.

    Raises:
        UsageError: No ``=``, an empty part, or a name given twice.
    """
    named: dict[str, Path] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise UsageError(
                f"--constraint is {pair!r}, expected NAME=ARTIFACT",
                hint="write for example --constraint cities=cities.arrow",
            )
        if name in named:
            raise UsageError(f"--constraint names {name!r} twice", hint="give each its own name")
        named[name] = Path(path)
    return named


def artifact_paths(default: Path | None, named: Sequence[str]) -> dict[str, Path]:
    """Return the artifacts of a run by name; DEFAULT names the one of ``--artifact``.

    Raises:
        UsageError: A ``--constraint`` that is no NAME=ARTIFACT.
    """
    pairs = parse_named(named)
    return pairs if default is None else {DEFAULT: default, **pairs}


def verify_artifacts(paths: Mapping[str, Path]) -> dict[str, str]:
    """Verify artifacts before a model is loaded; return their digests by name.

    Raises:
        CdecError: One is missing or damaged.
    """
    return {name: read_artifact(path).metadata["cdec.digest"] for name, path in paths.items()}


class Constraints:
    """Opened artifacts: one for the records that name none, others by name; and own grammars.

    A context manager: the child process that compiles grammars ends with it.

    Args:
        paths: As ``artifact_paths`` gives them.
        vocabulary: The model's; a mismatch is an error.
        deny: Texts never to emit.
        limits: Of the grammars that records bring; None takes the defaults.
        conjoined: Artifacts that every record's texts must satisfy as well, as
            ``conjoined_paths`` gives them.

    Attributes:
        notices: Warnings about denied texts that an artifact does not hold, and about dead ends.

    Raises:
        CdecError: An artifact cannot be opened, or nothing is left of one.
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        vocabulary: Vocabulary,
        deny: Sequence[str] = (),
        limits: CacheLimits | None = None,
        conjoined: Mapping[str, Path] | None = None,
    ) -> None:
        from cdec.compilers import GrammarLimits
        from cdec.core.artifacts.kinds import open_artifact

        limits = limits or CacheLimits(GrammarLimits())
        self._narrowing = Narrowing(conjoined or {}, vocabulary, deny, limits.count)
        self._opened = {
            name: open_artifact(path, vocabulary=vocabulary) for name, path in paths.items()
        }
        self._narrowed = {
            name: self._narrowing.of(self._opened[name], str(path)) for name, path in paths.items()
        }
        self.notices: list[Notice] = self._narrowing.take_notices()
        self.grammars = RecordGrammars(vocabulary, limits)

    def __enter__(self) -> Constraints:
        return self

    def __exit__(self, *_: object) -> None:
        self.grammars.close()

    def take_notices(self) -> list[Notice]:
        """Return the warnings about records' own constraints since the last call."""
        return [*self.grammars.notices, *self._narrowing.take_notices()]

    def of(self, record: PromptRecord, *, required: bool) -> Constraint | None:
        """Return what a record's samples must belong to.

        Args:
            record: Its ``constraint``, ``candidates`` and grammar fields are looked at.
            required: Whether the method needs a constraint.

        Raises:
            FieldError: An unknown name, unknown candidates, a kind without a compiler here, or no
                constraint at all.
            CdecError: Its grammar cannot be compiled.
        """
        for field in _WITHOUT_COMPILER:
            if getattr(record, field) is not None:
                raise FieldError(
                    f"the record brings a {field}, and this version compiles sets and grammars",
                    hint="write it as a grammar, or compile the allowed texts: cdec compile-set",
                    field=field,
                )
        if record.grammar is not None:
            return self._narrowing.of(self.grammars.of(record.grammar), "the record's grammar")
        constraint = self._named(record.constraint)
        if constraint is None and (required or record.candidates is not None):
            raise FieldError(
                "the record names no constraint and the run has no artifact",
                hint=f"name the artifact: {_HOW_TO}",
                field="constraint",
            )
        if constraint is None:
            return self._narrowing.of(None, "the record")
        narrowed = self._narrowed[record.constraint or DEFAULT]
        if record.candidates is None:
            return narrowed
        return self._candidates(record.candidates, constraint, narrowed)

    def _candidates(self, texts: Sequence[str], constraint: Any, narrowed: Any) -> Constraint:
        """Return the set of some members of a record's artifact."""
        if constraint.kind != "set":
            raise FieldError(
                f"candidates choose among the members of a set, the artifact is a "
                f"{constraint.kind}",
                hint="compile the texts with cdec compile-set and name that artifact",
                field="candidates",
            )
        if hasattr(narrowed, "candidates"):
            chosen: Constraint = narrowed.candidates(texts)
            return chosen
        # The set is too large to be held to the others row by row; its candidates are not.
        few = constraint.candidates(texts)
        return self._narrowing.once(few, "the record's candidates", warn=False)

    def _named(self, name: str | None) -> Constraint | None:
        if name is None:
            return self._opened.get(DEFAULT)
        if name == DEFAULT or name not in self._opened:
            known = ", ".join(repr(known) for known in self._opened if known != DEFAULT)
            raise FieldError(
                f"no constraint is named {name!r}; known: {known or 'none'}",
                hint="give it with --constraint NAME=ARTIFACT",
                field="constraint",
            )
        return self._opened[name]


def needs_artifact(who: str, command: str) -> UsageError:
    """Return the error of a run without an artifact, where ``who`` needs one.

    Args:
        who: The method, or the command.
        command: The command, such as ``cdec sample``.
    """
    return UsageError(f"{who} needs an artifact", hint=f"name the artifact: {command} {_HOW_TO}")


def refuse_unconstrained(
    records: Iterator[PromptRecord | BadRecord], needed: UsageError
) -> Iterator[PromptRecord | BadRecord]:
    """Look at the first record of a run without artifacts: it must bring a grammar of its own.

    Later records without a constraint become error objects in their places.

    Args:
        records: Of the input.
        needed: The error of a run that needs an artifact.

    Raises:
        UsageError: ``needed``; it does not.
    """
    first = next(records, None)
    if first is None or getattr(first, "grammar", None) is None:
        raise needed
    return itertools.chain([first], records)

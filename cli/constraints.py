"""The artifacts of a run, opened once, and which of them a record is held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import FieldError, Notice, UsageError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.vocabulary import Vocabulary
    from cdec.data.prompts import PromptRecord

DEFAULT = ""
"""Stands for the artifact of the records that name none."""
_WITHOUT_COMPILER = ("grammar", "regex", "schema")
HOW_TO = "name the artifact: cdec sample -a ARTIFACT (make one with cdec compile-set FILE)"


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
    from cdec.core.artifact import read_artifact

    return {name: read_artifact(path).metadata["cdec.digest"] for name, path in paths.items()}


class Constraints:
    """Opened artifacts: one for the records that name none, others by name.

    Args:
        paths: As ``artifact_paths`` gives them.
        vocabulary: The model's; a mismatch is an error.
        deny: Texts never to emit.

    Attributes:
        notices: Warnings about denied texts that an artifact does not hold.

    Raises:
        CdecError: An artifact cannot be opened, or denying leaves nothing.
    """

    def __init__(
        self, paths: Mapping[str, Path], vocabulary: Vocabulary, deny: Sequence[str] = ()
    ) -> None:
        self.notices: list[Notice] = []
        denied = [text.encode() for text in deny]
        self._opened = {name: self._open(path, vocabulary, denied) for name, path in paths.items()}

    def _open(self, path: Path, vocabulary: Vocabulary, deny: Sequence[bytes]) -> Constraint:
        from cdec.core.artifact import open_artifact

        constraint: Any = open_artifact(path, vocabulary=vocabulary)
        if deny:
            constraint = constraint.deny_texts(deny)
            unknown = constraint.denied_unknown
            if unknown:
                message = f"{path}: {unknown} of {len(deny)} denied texts are no members"
                self.notices.append(Notice("W_DENY_UNKNOWN", message, {"unknown": unknown}))
        opened: Constraint = constraint
        return opened

    def of(self, record: PromptRecord, *, required: bool) -> Constraint | None:
        """Return what a record's samples must belong to.

        Args:
            record: Its ``constraint``, ``candidates`` and grammar fields are looked at.
            required: Whether the method needs a constraint.

        Raises:
            FieldError: An unknown name, unknown candidates, a kind without a compiler here, or no
                constraint at all.
        """
        for field in _WITHOUT_COMPILER:
            if getattr(record, field) is not None:
                raise FieldError(
                    f"the record brings a {field}, and this version compiles sets only",
                    hint="compile the allowed texts with cdec compile-set",
                    field=field,
                )
        constraint: Any = self._named(record.constraint)
        if constraint is None and (required or record.candidates is not None):
            raise FieldError(
                "the record names no constraint and the run has no artifact",
                hint=HOW_TO,
                field="constraint",
            )
        if record.candidates is not None:
            constraint = constraint.candidates(record.candidates)
        chosen: Constraint | None = constraint
        return chosen

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

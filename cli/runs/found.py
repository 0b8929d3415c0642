"""The artifact of a command that names none: the only one in the working directory."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.record_sources import said_of_sourceless, source_fields, sourceless
from cdec.core.errors import (
    CdecError,
    InputMissingError,
    Notice,
    TokenizerMismatchError,
    UsageError,
)
from cdec.integrations.records.held import DEFAULT
from cdec.integrations.records.requirements import HOW_TO_MAKE_ONE

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.core.files.remote import Place
    from cdec.core.models.base import LanguageModel
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.integrations.records.held import RunConstraint

_SHOWN = 8
"""Most files that a message lists."""
_BAD_RECORDS = 64
"""Most bad records that are set aside until one is met that says what it needs."""


@dataclass(frozen=True)
class Found:
    """The ``.arrow`` files of a folder, in the order of their names.

    Attributes:
        artifacts: Those that texts can be held to, and of which kind each is. Names of one file
            count once.
        others: The rest, with what is the matter with each.
    """

    artifacts: dict[Path, str]
    others: dict[Path, str]

    def listed(self) -> str:
        """Return the files for a message."""
        shown = self.artifacts or self.others
        names = [f"{path} ({what})" for path, what in itertools.islice(shown.items(), _SHOWN)]
        more = len(shown) - _SHOWN
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def find_artifacts(folder: Path = Path(), *, but: Collection[Place] = ()) -> Found:
    """Look at the ``.arrow`` files of a folder; only their schema metadata is read.

    Args:
        folder: The folder; not those within it. Hidden files are not looked at.
        but: Files that do not count.

    Returns:
        What is there; nothing where the folder cannot be read. Cost: some 0.1 ms a file.
    """
    found = Found({}, {})
    seen = {file for path in but if (file := _identity(Path(path))) is not None}
    for path in _arrow_files(folder):
        file = _identity(path)
        if file is None or file in seen:
            continue
        seen.add(file)
        is_artifact, what = _kind(path)
        (found.artifacts if is_artifact else found.others)[path] = what
    return found


def _arrow_files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            # subtle: Python follows links here, so a link to a file is one, and a dead one none.
            names = [e.name for e in entries if e.name.endswith(".arrow") and e.is_file()]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if not name.startswith(".")]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _kind(path: Path) -> tuple[bool, str]:
    """Return whether a file is an artifact of texts, and its kind or what it is instead."""
    from cdec.core.artifacts.kinds import CONSTRAINTS
    from cdec.core.artifacts.read import peek_metadata

    try:
        kind = peek_metadata(path).get("cdec.kind")
    except InputMissingError:
        return False, "cannot be read"
    except CdecError:
        return False, "damaged, or no Arrow file"
    if kind is None:
        return False, "of another program"
    return kind in CONSTRAINTS, kind


def named_or_found(artifact: Place | None, run: Run, who: str) -> Place:
    """Return the artifact of a command that needs one, and name it if it was not typed.

    Args:
        artifact: As typed, or of ``cdec.toml``; None takes the only one in the working directory.
        run: What was typed; its console is told.
        who: What needs an artifact, such as ``cdec check``.

    Raises:
        UsageError: None is named, and the working directory holds none or several.
    """
    if artifact is not None:
        return artifact
    return found_artifact(run, who)


def found_artifact(run: Run, who: str, *, but: Collection[Place] = ()) -> Path:
    """Return the only artifact in the working directory, and name it.

    Args:
        run: What was typed; its console is told.
        who: What needs an artifact.
        but: Files that do not count: what the command names already.

    Raises:
        UsageError: There is none, or there are several.
    """
    found = find_artifacts(but=but)
    if (path := _only_one(found, run)) is not None:
        return path
    if found.artifacts:
        first = next(iter(found.artifacts))
        raise UsageError(
            f"{who} needs an artifact, and this folder has {len(found.artifacts)}: "
            f"{found.listed()}",
            hint=f"name one: {_with_artifact(run.words, str(first))}",
        )
    held = f" that can be used: {found.listed()}" if found.others else ""
    raise UsageError(
        f"{who} needs an artifact, and this folder has none{held}",
        hint=f"make one with {HOW_TO_MAKE_ONE}, or name one: "
        f"{_with_artifact(run.words, 'ARTIFACT')}",
    )


def optional_artifact(run: Run) -> Path | None:
    """Return the only artifact in the working directory, for a command that can do without.

    Args:
        run: What was typed; its console is told, also where there are several.
    """
    found = find_artifacts()
    if len(found.artifacts) > 1:
        run.console.note(f"artifact: none; name one of {found.listed()} with -a")
    return _only_one(found, run)


def _only_one(found: Found, run: Run) -> Path | None:
    if len(found.artifacts) != 1:
        return None
    (path,) = found.artifacts
    run.console.note(f"artifact: {path} (the only one in this folder)")
    return path


def artifact_for_records(
    records: Iterator[PromptRecord | BadRecord],
    run: Run,
    who: str,
    *,
    needed: bool = True,
    but: Collection[Place] = (),
) -> tuple[Iterator[PromptRecord | BadRecord], Path | None]:
    """Return the artifact of a run that names none, unless its records bring what they need.

    The first record that can be read decides; where it brings a constraint of its own, later ones
    without become error objects in their places.

    Args:
        records: Of the input.
        run: What was typed; its console is told.
        who: What needs an artifact, or would be held to it.
        needed: Whether it makes no sense without one; else several are as good as none.
        but: Files that do not count.

    Returns:
        All records, and the artifact; None where they need none.

    Raises:
        UsageError: They need one, and the working directory holds none or several.
    """
    records, first = _first_record(records)
    if first is None or not first.brings_constraint:
        return records, found_artifact(run, who, but=but) if needed else optional_artifact(run)
    if first.candidates is not None:
        _tell_unused(find_artifacts(but=but), run)
    return records, None


def told_of_sourceless(
    records: Iterator[PromptRecord | BadRecord], run: Run
) -> Iterator[PromptRecord | BadRecord]:
    """Return all records; warn where typed options are about nothing that the first brings.

    Args:
        records: Of the input; the first is awaited where such options were typed.
        run: What was typed; its console is told.
    """
    if not source_fields().keys() & run.typed:
        return records
    records, first = _first_record(records)
    if first is None:
        return records
    brought = [*first.sources, *(() if first.candidates is None else ["candidates"])]
    if names := sourceless(run.typed, brought):
        said = f"{said_of_sourceless(names)}, and the first record brings none"
        run.console.warn([Notice("W_UNUSED_OPTION", said)])
    return records


def _first_record(
    records: Iterator[PromptRecord | BadRecord],
) -> tuple[Iterator[PromptRecord | BadRecord], PromptRecord | None]:
    """Return all records, and the first one that can be read; None where it is far or not there."""
    from cdec.data.prompts.record import PromptRecord

    head: list[PromptRecord | BadRecord] = []
    for record in records:
        head.append(record)
        if isinstance(record, PromptRecord):
            return itertools.chain(head, records), record
        if len(head) == _BAD_RECORDS:
            break
    return itertools.chain(head, records), None


def _tell_unused(found: Found, run: Run) -> None:
    """Say that candidates are not looked up in the folder's artifact, as ids of its entities."""
    if len(found.artifacts) == 1:
        (path,) = found.artifacts
        run.console.note(
            f"artifact: none, as records bring candidates; for those of {path} add -a {path}"
        )


def without_misfit(held: RunConstraint, model: LanguageModel, run: Run) -> RunConstraint:
    """Return a run without the artifact that was found, if it is for another tokenizer.

    Args:
        held: With the artifact that ``optional_artifact`` found, or none.
        model: The run's.
        run: Its console is told.
    """
    from cdec.core.artifacts.kinds import require_vocabulary

    file = held.named.get(DEFAULT)
    if file is None:
        return held
    try:
        require_vocabulary(file, model.vocabulary)
    except TokenizerMismatchError:
        run.console.note(f"artifact: none, as {file.path} is for another tokenizer")
        return replace(held, named={})
    return held


def _with_artifact(words: tuple[str, ...], artifact: str) -> str:
    """Return a command as it was typed, but with an artifact."""
    from cdec.cli.frame.declaration import parameters_of
    from cdec.cli.frame.registry import options_class_of

    command, *rest = words
    parameter = parameters_of(options_class_of(command)).get("artifact")
    is_argument = parameter is not None and parameter.declared.positional
    # A name that begins with a dash would be read as an option.
    artifact = f"./{artifact}" if artifact.startswith("-") else artifact
    typed = ["cdec", command, *([] if is_argument else ["-a"]), artifact, *rest]
    return shlex.join(typed)

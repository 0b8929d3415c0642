"""Artifacts of commands: found where none is named, read, compiled of a source, opened."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.kinds import command_of
from cdec.cli.options.one_line import Source
from cdec.cli.options.shared import parse_pairs
from cdec.core.errors import (
    HOW_TO_MAKE_ONE,
    ArtifactFormatError,
    ArtifactVersionError,
    CdecError,
    InputMissingError,
    TokenizerMismatchError,
    UsageError,
)
from cdec.core.files.remote import place_of
from cdec.core.kinds import SOURCE_KINDS, artifact_kinds
from cdec.core.kinds import found as found_at
from cdec.core.progress import Progress, silent
from cdec.data.rows.formats import FORMATS

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.files.remote import Place
    from cdec.core.tokens.vocabulary import Vocabulary


_SHOWN = 8
"""Most files that a message lists."""


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
    from cdec.core.artifacts.read import peek_metadata

    try:
        kind = peek_metadata(path).get("cdec.kind")
    except InputMissingError:
        return False, "cannot be read"
    except CdecError:
        return False, "damaged, or no Arrow file"
    if kind is None:
        return False, "of another program"
    return kind in artifact_kinds(), kind


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


def _with_artifact(words: tuple[str, ...], artifact: str) -> str:
    """Return a command as it was typed, but with an artifact."""
    from cdec.cli.frame.declaration import parameters_of
    from cdec.cli.frame.registry import options_class_of

    command, *rest = words
    parameter = parameters_of(options_class_of(command)).get("artifact")
    is_argument = parameter is not None and parameter.positional
    # A name that begins with a dash would be read as an option.
    artifact = f"./{artifact}" if artifact.startswith("-") else artifact
    typed = ["cdec", command, *([] if is_argument else ["-a"]), artifact, *rest]
    return shlex.join(typed)


def read_artifact(
    path: Place | Source, run: Run, copy: bool = False, *, progress: Progress = silent
) -> ArtifactFile:
    """Read and verify the artifact of a constraint; one of a URL is fetched, of a source compiled.

    Raises:
        UsageError: It is what ``--tree`` keeps.
        CdecError: It is missing or damaged, or cannot be compiled.
    """
    from cdec.core.artifacts import opened

    if isinstance(path, Source):
        file: ArtifactFile = found_at(SOURCE_KINDS[path.kind].in_place)(path, run)
        return file
    try:
        return opened.read_artifact(path, copy=copy, progress=progress)
    except ArtifactFormatError as error:
        if command := _COMPILING.get(path.suffix.lower()) if isinstance(path, Path) else None:
            error.hint = f"compile it first: {shlex.join(['cdec', command, str(path)])}"
        raise
    except ArtifactVersionError:
        _refuse_tree(path)
        raise


_COMPILING = {
    **dict.fromkeys((".txt", ".jsonl", ".csv", ".tsv", *FORMATS["parquet"].endings), "compile-set"),
    **dict.fromkeys((".lark", ".ebnf", ".gbnf"), "compile-grammar"),
    ".json": "compile-schema",
}
"""How a name ends that is a source's → the command that makes an artifact of it."""


def _refuse_tree(path: Place) -> None:
    """Refuse a tree of prefixes, which is kept as an artifact is."""
    from cdec.core.artifacts.read import ArtifactLimits, map_verified
    from cdec.core.files.fetched import local_copy
    from cdec.samplers.learning.saved import KINDS

    try:
        tree = map_verified(local_copy(path), KINDS, ArtifactLimits())
    except CdecError:
        return
    raise UsageError(
        f"{path} is no constraint: it is a tree that --tree kept, "
        f"{len(tree.arrays['parent']):,} prefixes that the draws of one record have met",
        hint="give it to --tree of cdec sample or cdec mass, with that record's model, prompt and "
        "artifact",
    )


def require_terminals(file: ArtifactFile) -> None:
    """Refuse a lookahead for an artifact of terminals where nothing stands beyond the first."""
    from cdec.core.artifacts.opened import constraint_class

    if not constraint_class(file.kind).looks_ahead(file.metadata):
        raise UsageError(
            f"--lookahead means nothing to {file.path}: a regular expression is one terminal, and "
            "no token begins another",
            hint="leave it out",
        )


def bind_for(file: ArtifactFile, vocabulary: Vocabulary | None) -> StoredConstraint:
    """Open a verified artifact for a model's vocabulary.

    Raises:
        TokenizerMismatchError: It was compiled for another one; the hint is what to type.
    """
    from cdec.core.artifacts.opened import bind_artifact

    try:
        return bind_artifact(file, vocabulary)
    except TokenizerMismatchError as error:
        if not isinstance(file.path, Path):
            raise  # nobody knows where it should be written
        name = vocabulary.name if vocabulary is not None else ""
        again = recompiling(file.path, bind_artifact(file).summary(), name or "MODEL")
        error.hint = error.hint if again is None else f"compile it again: {again}"
        raise


def recompiling(path: Path, described: Mapping[str, Any], tokenizer: str) -> str | None:
    """Return the command that writes an artifact again; None where nobody knows it.

    Args:
        path: Of the artifact, which is replaced.
        described: What it says of itself: its source and the options that made it.
        tokenizer: Of the model that it shall fit.
    """
    command = command_of(described)
    if command is None:
        return None
    tail = ["--tokenizer", tokenizer, "-o", str(path), "--force"]
    return f"{command.again(path, described)} {shlex.join(tail)}"


def parse_named(pairs: Sequence[str], flag: str = "--constraint") -> dict[str, Place]:
    """Return name → path for every ``--constraint NAME=ARTIFACT``, or another such option.

    Raises:
        UsageError: As ``parse_pairs``.
    """
    return {name: place_of(path) for name, path in parse_pairs(pairs, flag).items()}

"""The artifacts that a run names: read and verified once, before a model loads."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.shared import require_utf8
from cdec.core.errors import (
    ArtifactFormatError,
    ArtifactVersionError,
    CdecError,
    UsageError,
    needs_grammar,
)
from cdec.core.files.remote import place_of
from cdec.core.progress import Progress, silent
from cdec.data.suffixes import PARQUET
from cdec.integrations.records.held import DEFAULT, RunConstraint
from cdec.samplers.registry import METHODS

if TYPE_CHECKING:
    from cdec.cli.options.constraint import ConstraintOptions
    from cdec.cli.options.sampling import SampleOptions
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.files.remote import Place


@dataclass(frozen=True, kw_only=True)
class ArtifactPaths:
    """Where the artifacts of a run are.

    Attributes:
        named: By name; DEFAULT names the one of ``--artifact``.
        others: Those of ``--and``, by the words that name them.
    """

    named: Mapping[str, Place]
    others: Mapping[str, Place]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.named or self.others)

    @classmethod
    def of(cls, artifact: Place | None, options: ConstraintOptions) -> ArtifactPaths:
        """Return what was typed.

        Raises:
            UsageError: A ``--constraint`` that is no NAME=ARTIFACT, or an artifact given twice.
        """
        named = parse_named(options.constraint)
        default = {} if artifact is None else {DEFAULT: artifact}
        return cls(named=default | named, others=_others(options.conjoined))


def parse_named(pairs: Sequence[str]) -> dict[str, Place]:
    """Return name → path for every ``--constraint NAME=ARTIFACT``.

    Raises:
        UsageError: No ``=``, an empty part, or a name given twice.
    """
    named: dict[str, Place] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise UsageError(
                f"--constraint is {pair!r}, expected NAME=ARTIFACT",
                hint="write for example --constraint cities=cities.arrow",
            )
        if name in named:
            raise UsageError(f"--constraint names {name!r} twice", hint="give each its own name")
        named[name] = place_of(path)
    return named


def _others(paths: Sequence[Place]) -> dict[str, Place]:
    named = {f"--and {path}": path for path in paths}
    if len(named) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"--and names {twice} twice", hint="leave one of them out")
    return named


def read_held(
    paths: ArtifactPaths,
    denied: Sequence[str],
    options: ConstraintOptions,
    progress: Progress = silent,
) -> RunConstraint:
    """Read and verify what all records of a run are held to.

    Args:
        paths: Of the run.
        denied: Texts never to emit.
        options: As typed.
        progress: Told how much of those of URLs is fetched.

    Raises:
        CdecError: One is missing or damaged, or no constraint.
        UsageError: ``--prefill`` is no UTF-8.
    """
    read = partial(read_artifact, copy=options.copy, progress=progress)
    return RunConstraint(
        named={name: read(path) for name, path in paths.named.items()},
        others={words: read(path) for words, path in paths.others.items()},
        denied=denied,
        lookahead=options.lookahead,
        heal=options.heal,
        prefill=require_utf8(options.prefill, "--prefill") if options.prefill else None,
    )


def read_artifact(path: Place, copy: bool = False, *, progress: Progress = silent) -> ArtifactFile:
    """Read and verify the artifact of a constraint; one of a URL is fetched first.

    Raises:
        UsageError: It is what ``--tree`` keeps.
        CdecError: It is missing or damaged.
    """
    from cdec.core.artifacts import kinds

    try:
        return kinds.read_artifact(path, copy=copy, progress=progress)
    except ArtifactFormatError as error:
        if command := _COMPILING.get(path.suffix.lower()) if isinstance(path, Path) else None:
            error.hint = f"compile it first: {shlex.join(['cdec', command, str(path)])}"
        raise
    except ArtifactVersionError:
        _refuse_tree(path)
        raise


_COMPILING = {
    **dict.fromkeys((".txt", ".jsonl", ".csv", ".tsv", *PARQUET), "compile-set"),
    **dict.fromkeys((".lark", ".ebnf", ".gbnf"), "compile-grammar"),
    ".json": "compile-schema",
}
"""How a name ends that is a source's → the command that makes an artifact of it."""


def _refuse_tree(path: Place) -> None:
    """Refuse a tree of prefixes, which is kept as an artifact is.

    Raises:
        UsageError: It is one.
    """
    from cdec.core.artifacts.contents import ArtifactLimits
    from cdec.core.artifacts.read import map_verified
    from cdec.core.files.fetched import local_copy
    from cdec.samplers.learning.saved.file import KINDS

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


def require_grammars(
    options: SampleOptions, held: RunConstraint, *, guessing: str | None = None
) -> None:
    """Refuse options that need a grammar where the run has none, before a model loads.

    Args:
        options: All options.
        held: What all records are held to.
        guessing: The option by which tokens are guessed from counts, if they are.

    Raises:
        UsageError: An artifact is a set; there is none, and no record can bring one; or a lookahead
            for a method without masks.
    """
    from cdec.core.artifacts.kinds import constraint_class

    asked = {"lookahead": held.lookahead is not None, "heal": held.heal}
    parameters = [name for name, is_asked in asked.items() if is_asked]
    parameters += [] if guessing is None else ["draft counts"]
    if not parameters:
        return
    if held.lookahead is not None and not METHODS[options.method].masks:
        raise UsageError(
            f"--lookahead means nothing to --method {options.method}, which has no masks",
            hint="leave it out",
        )
    files = [*held.named.values(), *held.others.values()]
    if options.has_texts and not files:
        raise needs_grammar(parameters[0], "there is no artifact")
    for file in files:
        kind = constraint_class(file.kind)
        can = {
            "lookahead": kind.has_terminals,
            "heal": kind.takes_bytes,
            "draft counts": kind.has_speculation_keys,
        }
        lacking = [parameter for parameter in parameters if not can[parameter]]
        if lacking:
            raise needs_grammar(lacking[0], f"{file.path} is a {file.kind}", kind.reasons)
        if held.lookahead is not None:
            require_terminals(file)


def require_terminals(file: ArtifactFile) -> None:
    """Refuse a lookahead for an artifact of terminals where nothing stands beyond the first.

    Raises:
        UsageError: It is a regular expression.
    """
    from cdec.core.artifacts.kinds import constraint_class

    if not constraint_class(file.kind).looks_ahead(file.metadata):
        raise UsageError(
            f"--lookahead means nothing to {file.path}: a regular expression is one terminal, and "
            "no token begins another",
            hint="leave it out",
        )


def require_members(options: SampleOptions, held: RunConstraint) -> None:
    """Refuse free text where no constraint follows it, before a model loads.

    Raises:
        UsageError: There is no artifact, and no record can bring one.
    """
    if held.free is None or not options.has_texts or held.named or held.others:
        return
    raise UsageError(
        "free text ends where a constraint begins, and there is none",
        hint="name the artifact with -a, or leave --after and --between out",
    )

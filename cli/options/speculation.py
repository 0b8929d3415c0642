"""The options of speculation, and the file in which its counts are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options.shared import METHOD, refuse_unused
from cdec.core.errors import OutputError, OutputExistsError

if TYPE_CHECKING:
    from cdec.cli.sample import Options
    from cdec.samplers.drafts.counts import Counts


@dataclass(frozen=True, kw_only=True)
class SpeculationOptions(CommonOptions):
    """Options of ``greedy`` and ``masked`` that make decoding faster, and the file of counts."""

    opportunistic: Annotated[
        bool,
        typer.Option(
            "--opportunistic",
            help="greedy, masked: compute a mask only where the model's own choice is refused; "
            "weights are then null.",
            rich_help_panel=METHOD,
        ),
    ] = False
    speculate: Annotated[
        int,
        typer.Option(
            "--speculate",
            metavar="S",
            help="greedy, masked: guess up to S tokens of a grammar's text from counts, and "
            "evaluate them in one forward pass; changes no text. 0 is off. speculative: short for "
            "--draft counts --gamma S.",
            rich_help_panel=METHOD,
        ),
    ] = 0
    speculate_threshold: Annotated[
        float,
        typer.Option(
            "--speculate-threshold",
            metavar="P",
            help="Guess tokens whose estimated probability is above P.",
            rich_help_panel=METHOD,
        ),
    ] = 0.4
    counts: Annotated[
        Path | None,
        typer.Option(
            "--counts",
            metavar="FILE",
            help="Begin with the counts that --save-counts wrote.",
            rich_help_panel=METHOD,
        ),
    ] = None
    save_counts: Annotated[
        Path | None,
        typer.Option(
            "--save-counts",
            metavar="FILE",
            help="Write the counts at the end of the run; the file of --counts may be named again.",
            rich_help_panel=METHOD,
        ),
    ] = None


def check_speculation(options: Options, typed: frozenset[str], *, guesses: bool) -> None:
    """Refuse options that mean nothing without speculation, and a file that cannot be written.

    Args:
        options: All options.
        typed: Fields that stood on the command line.
        guesses: Whether tokens are guessed from counts.

    Raises:
        UsageError: One was typed and nothing is guessed.
        OutputError: ``--save-counts`` names a folder, or a place in one that is not there.
        OutputExistsError: It names a file that the run does not begin with.
    """
    if not guesses:
        fields = ("speculate_threshold", "counts", "save_counts")
        refuse_unused(fields, typed, "without --speculate S or --draft counts")
    path = options.save_counts
    if not guesses or path is None:
        return
    # Asked before the run: at its end, what was learnt would be lost.
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {folder}"
        raise OutputError(
            f"cannot write the counts to {path}: {why}",
            hint="create the folder, or name another file with --save-counts",
            path=str(path),
        )
    if not path.exists() or options.force:
        return
    begun = options.counts
    if begun is None or not begun.exists() or not path.samefile(begun):
        raise OutputExistsError(
            f"{path} exists",
            hint="go on with it (--counts FILE), replace it (--force), or name another file",
            path=str(path),
        )


def load_counts(options: Options, *, guesses: bool) -> Counts:
    """Return the counts that ``--counts`` names, or new ones; ``guesses`` says if they are used.

    Raises:
        CdecError: As ``Counts.load``.
    """
    from cdec.samplers.drafts.counts import Counts

    if options.counts is None or not guesses:
        return Counts()
    return Counts.load(options.counts)


def save_counts(options: Options, counts: Counts, *, guesses: bool) -> None:
    """Write the counts where ``--save-counts`` names a file, if there are ``guesses``.

    Raises:
        OutputError: It cannot be written.
    """
    if options.save_counts is not None and guesses:
        counts.save(options.save_counts)

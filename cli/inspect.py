"""``cdec inspect``: what an artifact holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from cdec.cli import options as shared
from cdec.cli.command import CommonOptions, Run
from cdec.cli.options import refuse_unused, require_at_least
from cdec.cli.tables import flatten, print_json, print_table


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec inspect``; the documented defaults stand here."""

    artifact: shared.ArtifactArgument
    tree: Annotated[
        bool, typer.Option("--tree", help="Show part of the trie.", rich_help_panel=shared.OUTPUT)
    ] = False
    depth: Annotated[
        int, typer.Option("--depth", help="Levels of --tree.", rich_help_panel=shared.OUTPUT)
    ] = 3
    width: Annotated[
        int,
        typer.Option("--width", help="Children a node of --tree.", rich_help_panel=shared.OUTPUT),
    ] = 8
    json: shared.JsonOption = False


def execute(options: Options, run: Run) -> int:
    """Show what an artifact holds.

    Kind, sizes, tokenizer, hashes and statistics.

    \b
    Examples:
      cdec inspect titles.arrow
      cdec inspect titles.arrow --json | jq .counts
      cdec inspect titles.arrow --tree --depth 2
    """
    from cdec.cli.pipeline import describe_artifact, tree_lines

    require_at_least(options.depth, 1, "--depth")
    require_at_least(options.width, 1, "--width")
    if not options.tree:
        refuse_unused(("depth", "width"), run.typed, "without --tree")
    described, tree = describe_artifact(options)
    if options.json:
        print_json(run.console, described if tree is None else described | {"tree": tree})
        return 0
    print_table(run.console, flatten(described))
    if tree is not None:
        run.console.data("")
        for line in tree_lines(tree):
            run.console.data(line)
    return 0

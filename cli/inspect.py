"""``cdec inspect``: what an artifact holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions, Run
from cdec.cli.frame.tables import flatten, print_json, print_table
from cdec.cli.options import shared
from cdec.cli.options.shared import refuse_unused, require_at_least


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec inspect``; the documented defaults stand here."""

    artifact: shared.ArtifactArgument
    tree: Annotated[
        bool,
        typer.Option(
            "--tree",
            help="Show part of a set's trie, or one subterminal tree of a grammar.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False
    depth: Annotated[
        int, typer.Option("--depth", help="Sets: levels of --tree.", rich_help_panel=shared.OUTPUT)
    ] = 3
    width: Annotated[
        int,
        typer.Option(
            "--width",
            help="Children a node of --tree; grammars: groups, and tokens a group.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = 8
    state: Annotated[
        int,
        typer.Option(
            "--state",
            metavar="N",
            help="Grammars: the scanner state whose tree --tree shows.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = 0
    json: shared.JsonOption = False


def execute(options: Options, run: Run) -> int:
    """Show what an artifact holds.

    Kind, sizes, tokenizer, hashes and statistics; of a grammar also its lexer, whether every
    allowed token is proved to have a completion, and with --json its source.

    \b
    Examples:
      cdec inspect titles.arrow
      cdec inspect titles.arrow --json | jq .counts
      cdec inspect titles.arrow --tree --depth 2
      cdec inspect json.arrow --tree --state 5
    """
    from cdec.cli.frame.grammar_tree import subterminal_tree_lines
    from cdec.cli.runs.pipeline import describe_artifact, tree_lines

    require_at_least(options.depth, 1, "--depth")
    require_at_least(options.width, 1, "--width")
    if not options.tree:
        refuse_unused(("depth", "width", "state"), run.typed, "without --tree")
    described, tree = describe_artifact(options)
    is_set = described["kind"] == "set"
    refuse_unused(("state",) if is_set else ("depth",), run.typed, f"to a {described['kind']}")
    if options.json:
        print_json(run.console, described if tree is None else described | {"tree": tree})
        return 0
    # The source of a grammar is a page of its own: in the object, not in the table.
    print_table(run.console, flatten({k: v for k, v in described.items() if k != "grammar"}))
    if tree is not None:
        run.console.data("")
        for line in tree_lines(tree) if is_set else subterminal_tree_lines(tree):
            run.console.data(line)
    return 0

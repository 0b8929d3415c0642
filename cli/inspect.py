"""``cdec inspect``: what an artifact holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.console import escape
from cdec.cli.frame.tables import flatten, print_json, print_table
from cdec.cli.options.reading import InspectOptions as Options
from cdec.cli.options.shared import refuse_unused
from cdec.cli.runs.artifacts import read_artifact

if TYPE_CHECKING:
    from cdec.core.sets.report import TreeNode


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


_FOR_MACHINES = frozenset({"cdec.names", "cdec.characters"})
"""Metadata as long as a grammar that says nothing its source does not."""


def describe_artifact(
    options: Options,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what is known of an artifact and, if asked for, part of its tree."""
    from cdec.core.artifacts.kinds import bind_artifact

    file = read_artifact(options.artifact)
    constraint: Any = bind_artifact(file)
    metadata: dict[str, Any] = {
        key.removeprefix("cdec."): _json_or_text(value)
        for key, value in file.metadata.items()
        if key not in _FOR_MACHINES
    }
    if file.kind == "grammar":
        metadata |= {"sound": constraint.is_sound, "grammar": file.metadata["cdec.grammar"]}
    described: dict[str, Any] = {
        "path": str(options.artifact),
        "bytes": options.artifact.stat().st_size,
        **metadata,
        "statistics": constraint.statistics(),
        "columns": {name: f"{array.dtype}[{len(array)}]" for name, array in file.arrays.items()},
    }
    if not options.tree:
        return described, None
    if file.kind == "grammar":
        from cdec.cli.frame.grammar_tree import tree_to_json
        from cdec.core.grammars.tree_report import describe_subterminal_tree

        view = describe_subterminal_tree(constraint, options.state, options.width)
        return described, tree_to_json(view)
    return described, _tree(constraint.describe_tree(options.depth, options.width))


def _json_or_text(value: str) -> Any:
    """Metadata values that are JSON objects, lists or counts become those; all else is text."""
    if value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def tree_lines(node: Mapping[str, Any], indent: int = 0) -> list[str]:
    """Return a described trie as indented lines, every text quoted and escaped."""
    member = "  member" if node["is_member"] else ""
    # The root has a text of its own where the set has a single row.
    label = f'"{escape(node["text"])}"' if indent or node["text"] else "(root)"
    lines = [f"{'  ' * indent}{label}  {node['rows']:,}{member}"]
    for child in node["children"]:
        lines += tree_lines(child, indent + 1)
    if node["hidden"]:
        lines.append(f"{'  ' * (indent + 1)}... {node['hidden']:,} more")
    return lines


def _tree(node: TreeNode) -> dict[str, Any]:
    """Return a node as JSON-ready data; bytes that are no UTF-8 are escaped."""
    return {
        "text": node.text.decode("utf-8", "backslashreplace"),
        "token_ids": node.token_ids,
        "rows": node.rows,
        "is_member": node.is_member,
        "children": [_tree(child) for child in node.children],
        "hidden": node.hidden,
    }

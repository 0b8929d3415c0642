"""A subterminal tree as ``inspect --tree`` prints it: JSON-ready, and as lines for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.console import escape

if TYPE_CHECKING:
    from cdec.core.grammars.tree_report import TreeView

_SHOWN_LIVE = 6


def tree_to_json(view: TreeView) -> dict[str, Any]:
    """Return a tree as JSON-ready data; bytes that are no UTF-8 are escaped."""
    described = dataclasses.asdict(view)
    for group in described["groups"]:
        group["samples"] = [piece.decode("utf-8", "backslashreplace") for piece in group["samples"]]
    return described


def subterminal_tree_lines(tree: Mapping[str, Any]) -> list[str]:
    """Return a tree as indented lines: groups of tokens, and under each the ways to read them."""
    ended = f", completes {' '.join(tree['completes'])}" if tree["completes"] else ""
    lines = [
        f"scanner state {tree['state']}{ended}: inside {_names(tree['live']) or 'nothing'}",
        f"tree {tree['tree']}, of {tree['shared_by']:,} scanner states",
    ]
    for group in tree["groups"]:
        samples = ", ".join(f'"{escape(sample)}"' for sample in group["samples"])
        more = ", ..." if group["tokens"] > len(group["samples"]) else ""
        lines.append(f"  {group['tokens']:,} tokens: {samples}{more}")
        lines += [f"    {_branch(branch)}" for branch in group["branches"]]
    if tree["hidden"]:
        lines.append(f"  ... {tree['hidden']:,} more groups")
    if tree["verified"]:
        lines.append(f"  {tree['verified']:,} tokens are read byte by byte")
    return lines


def _branch(branch: Mapping[str, Any]) -> str:
    """Return a way to read a token: what ends in it, then what is under way."""
    done = " ".join(map(escape, branch["path"]))
    if branch["live"] is None:
        return f"{done} |"
    return f"{done} | inside {_names(branch['live'])}".strip()


def _names(names: Sequence[str]) -> str:
    shown = " ".join(map(escape, names[:_SHOWN_LIVE]))
    hidden = len(names) - _SHOWN_LIVE
    return shown + (f" and {hidden} more" if hidden > 0 else "")

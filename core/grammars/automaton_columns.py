"""Invariants of the columns of the automaton of masks (``cdec.core.grammars.columns``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import Columns, require, require_ends, require_length, require_range

__all__ = ["check_automaton", "check_automaton_shape"]


def check_automaton_shape(arrays: Columns) -> None:
    """Check the lengths of the automaton's columns and the ends of their offsets."""
    made = len(arrays["automaton_tree"])
    require_ends(arrays, "automaton_offsets", made, len(arrays["automaton_entries"]))
    require_length(arrays, "automaton_suspension", len(arrays["automaton_row"]), "wait a question")
    parts = len(arrays["automaton_part_offsets"]) - 1
    require(parts >= 0, "automaton_part_offsets", "at least one offset")
    require_ends(arrays, "automaton_part_offsets", parts, len(arrays["automaton_part_terminals"]))
    require_length(arrays, "automaton_after", len(arrays["automaton_steps"]), "state a step")


def check_automaton(arrays: Columns) -> None:
    """Check every index of the automaton; that its steps are right, compiling again tells."""
    trees, terminals = len(arrays["tree_taken"]), len(arrays["ignored"])
    states = trees + len(arrays["automaton_tree"])
    require_range(arrays, "automaton_tree", 0, trees)
    require(not (arrays["automaton_offsets"] % 2).any(), "automaton_offsets", "pairs of entries")
    asked = arrays["automaton_entries"][1::2]
    known = (asked >= -1) & (asked < len(arrays["automaton_row"]))
    require(known.all(), "automaton_entries", "questions that are there")
    counts = np.diff(arrays["automaton_offsets"]) // 2
    items = np.repeat(_items(arrays)[arrays["automaton_tree"]], counts)
    found = arrays["automaton_entries"][::2]
    require(((found >= 0) & (found < items)).all(), "automaton_entries", "items of the tree")
    require(
        (np.diff(arrays["automaton_part_offsets"]) > 0).all(),
        "automaton_part_offsets",
        "terminals in each part",
    )
    require_range(arrays, "automaton_part_terminals", 0, terminals)
    require_range(arrays, "automaton_row", -1, 2**31 - 1)
    require_range(arrays, "automaton_suspension", 0, 2**62)
    left = arrays["automaton_suspension"] & 0xFFFFFFFF
    longest = int(arrays["rule_length"].max(initial=0))
    require((left <= longest).all(), "automaton_suspension", "at most a rule's length to read")
    require_range(arrays, "automaton_steps", 0, states << 32)
    lr_states = len(arrays["action_offsets"]) - 1
    require(
        ((arrays["automaton_steps"] & 0xFFFFFFFF) < lr_states).all(), "automaton_steps", "LR states"
    )
    require_range(arrays, "automaton_after", trees, states)


def _items(arrays: Columns) -> NDArray[np.int64]:
    """Return how many items each tree has: path nodes, branches, tokens read byte by byte."""
    branches = np.diff(arrays["group_branches"][arrays["tree_groups"]])
    return np.diff(arrays["tree_paths"]) + branches + np.diff(arrays["tree_verify"])

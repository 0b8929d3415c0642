"""The artifact kind ``grammar``: the invariants of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ArtifactInvalidError
from cdec.core.grammars.columns import GrammarArrays, arrays_from

__all__ = ["check_grammar"]

_LEXERS = ("contextual", "basic", "dynamic")


def check_grammar(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Check every index of a grammar's arrays, so that no kernel can read outside of them.

    Path nodes must come after their parents. That reductions find enough on the stack, and end,
    depends on all of the tables together; the kernels see to it.

    Args:
        columns: The arrays.
        metadata: The schema metadata; ``cdec.options`` and ``cdec.vocabulary_size`` are used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: one read of every array.
    """
    arrays = arrays_from(columns)
    general = _check_metadata(metadata, arrays)
    _check_scanner(arrays)
    _check_contexts(arrays, general)
    _check_parser(arrays)
    _check_paths(arrays)
    _check_groups(arrays)


def _require(holds: object, column: str, expected: str) -> None:
    if not holds:
        raise ArtifactInvalidError(
            f"column {column} breaks an invariant: expected {expected}",
            hint="compile the artifact again",
            column=column,
        )


def _check_metadata(metadata: Mapping[str, str], arrays: GrammarArrays) -> bool:
    """Check what opening reads of the metadata; say whether the parser is the generalised one."""
    try:
        options, names = json.loads(metadata["cdec.options"]), json.loads(metadata["cdec.names"])
        dict(json.loads(metadata["cdec.counts"]))
        known = options["lexer"] in _LEXERS and isinstance(options["start"], str)
        counts = [len(names[key]) for key in ("terminals", "nonterminals", "rules")]
    except (ValueError, KeyError, TypeError, RecursionError):
        known, counts = False, [0, 0, 0]
    _require(known, "cdec.options", "options, names and counts of compile-grammar as JSON")
    _require(counts[0] == len(arrays.ignored), "cdec.names", "one name a terminal")
    _require(counts[2] == len(arrays.rule_lhs), "cdec.names", "one entry a rule")
    _require("cdec.grammar" in metadata, "cdec.grammar", "the source text")
    _require(metadata.get("cdec.sound") in ("0", "1"), "cdec.sound", "0 or 1")
    size = metadata.get("cdec.vocabulary_size", "")
    _require(
        size == str(len(arrays.vocabulary_offsets) - 1), "vocabulary_offsets", "one a token id"
    )
    return bool(options["lexer"] == "dynamic")


def _range(arrays: GrammarArrays, column: str, low: int, high: int) -> None:
    """Require values in [low, high)."""
    array = getattr(arrays, column)
    if len(array):
        inside = array.min() >= low and array.max() < high
        _require(inside, column, f"values in [{low}, {high})")


def _length(arrays: GrammarArrays, column: str, length: int, of: str) -> None:
    _require(len(getattr(arrays, column)) == length, column, f"one {of} ({length})")


def _offsets(arrays: GrammarArrays, column: str, count: int, end: int) -> None:
    """Require ``count + 1`` offsets that begin at 0, never fall and end at ``end``."""
    array = getattr(arrays, column)
    _require(len(array) == count + 1, column, f"{count + 1} offsets")
    _require(array[0] == 0 and array[-1] == end, column, f"offsets from 0 to {end}")
    _require((array[1:] >= array[:-1]).all(), column, "offsets that never fall")


def _check_scanner(arrays: GrammarArrays) -> None:
    states, terminals = len(arrays.live_row), len(arrays.ignored)
    _require(states and len(arrays.delta) % states == 0, "delta", "as many rows as live_row")
    classes = len(arrays.delta) // states
    _length(arrays, "byte_class", 256, "class a byte")
    _range(arrays, "byte_class", 0, classes)
    _range(arrays, "delta", -1, states)
    _offsets(arrays, "match_offsets", states, len(arrays.match_terminals))
    _range(arrays, "match_terminals", 0, terminals)
    rows = len(arrays.live_offsets) - 1
    _require(rows >= 0, "live_offsets", "at least one offset")
    _offsets(arrays, "live_offsets", rows, len(arrays.live_terminals))
    _range(arrays, "live_row", 0, rows)
    _range(arrays, "live_terminals", 0, terminals)
    _range(arrays, "ignored", 0, 2)


def _check_contexts(arrays: GrammarArrays, general: bool) -> None:
    contexts, terminals = len(arrays.context_start), len(arrays.ignored)
    _range(arrays, "context_start", 0, len(arrays.live_row))
    _length(arrays, "lr_context", len(arrays.action_offsets) - 1, "context an LR state")
    _require(len(arrays.lr_context), "lr_context", "at least the start")
    _require(0 <= arrays.lr_context[0] < contexts, "lr_context", "a context to start with")
    _range(arrays, "lr_context", -1 if general else 0, contexts)
    _length(arrays, "terminal_context", terminals, "context a terminal")
    _range(arrays, "terminal_context", 0 if general else -1, contexts)


def _check_parser(arrays: GrammarArrays) -> None:
    states, rules = len(arrays.action_offsets) - 1, len(arrays.rule_lhs)
    terminals = len(arrays.ignored)
    _offsets(arrays, "action_offsets", states, len(arrays.action_terminals))
    _length(arrays, "action_values", len(arrays.action_terminals), "value an action")
    _range(arrays, "action_terminals", 0, terminals + 1)
    _range(arrays, "action_values", -rules, states)
    _offsets(arrays, "goto_offsets", states, len(arrays.goto_symbols))
    _length(arrays, "goto_states", len(arrays.goto_symbols), "state a goto")
    _range(arrays, "goto_states", 0, states)
    _range(arrays, "goto_symbols", 0, 2**31 - 1)
    _ascending(arrays, "action_terminals", "action_offsets", strictly=False)
    _ascending(arrays, "goto_symbols", "goto_offsets", strictly=True)
    _length(arrays, "rule_length", rules, "length a rule")
    _range(arrays, "rule_length", 0, 2**31 - 1)
    _range(arrays, "rule_lhs", 0, 2**31 - 1)
    _offsets(arrays, "item_offsets", states, len(arrays.item_rules))
    _length(arrays, "item_dots", len(arrays.item_rules), "dot an item")
    _range(arrays, "item_rules", -1, rules)
    _range(arrays, "item_dots", 0, 2**31 - 1)


def _ascending(arrays: GrammarArrays, column: str, offsets: str, *, strictly: bool) -> None:
    """Require values that ascend within each range of offsets: searches rely on it."""
    array = getattr(arrays, column)
    if len(array) < 2:
        return
    rises = array[1:] > array[:-1] if strictly else array[1:] >= array[:-1]
    begins = getattr(arrays, offsets)
    inner = begins[(begins > 0) & (begins < len(array))]
    rises[inner - 1] = True
    _require(rises.all(), column, "ascending values within a state")


def _check_paths(arrays: GrammarArrays) -> None:
    trees, paths = len(arrays.tree_paths) - 1, len(arrays.path_parent)
    _require(trees > 0, "tree_paths", "at least one tree")
    _length(arrays, "tree_of_state", len(arrays.live_row), "tree a scanner state")
    _range(arrays, "tree_of_state", 0, trees)
    _offsets(arrays, "tree_paths", trees, paths)
    for column in ("path_terminal", "path_byte", "path_next"):
        _length(arrays, column, paths, "value a path node")
    own = np.arange(paths) - np.repeat(arrays.tree_paths[:-1], np.diff(arrays.tree_paths))
    before = (arrays.path_parent >= -1) & (arrays.path_parent < own)
    _require(before.all(), "path_parent", "parents before their children")
    _range(arrays, "path_terminal", -1, len(arrays.ignored))
    classes = len(arrays.delta) // len(arrays.live_row)
    enters = arrays.path_terminal < 0
    _range(arrays, "path_byte", -1, classes)
    _range(arrays, "path_next", -1, len(arrays.live_row))
    _require((arrays.path_byte[enters] >= 0).all(), "path_byte", "a byte class at ENTER nodes")
    _require((arrays.path_next[enters] >= 0).all(), "path_next", "a state at ENTER nodes")


def _check_groups(arrays: GrammarArrays) -> None:
    trees, groups = len(arrays.tree_paths) - 1, len(arrays.group_dense)
    branches, size = len(arrays.branch_path), len(arrays.vocabulary_offsets) - 1
    words = (size + 31) // 32
    _offsets(arrays, "tree_groups", trees, groups)
    _offsets(arrays, "group_branches", groups, branches)
    _offsets(arrays, "group_tokens", groups, len(arrays.tokens))
    _offsets(arrays, "tree_verify", trees, len(arrays.verify_tokens))
    for column in ("branch_live", "branch_depth"):
        _length(arrays, column, branches, "value a branch")
    group_tree = np.repeat(np.arange(trees), np.diff(arrays.tree_groups))
    branch_tree = np.repeat(group_tree, np.diff(arrays.group_branches))
    paths = np.diff(arrays.tree_paths)[branch_tree]
    inside = (arrays.branch_path >= -1) & (arrays.branch_path < paths)
    _require(inside.all(), "branch_path", "path nodes of the branch's tree")
    _range(arrays, "branch_live", -1, len(arrays.live_offsets) - 1)
    _range(arrays, "branch_depth", 0, 2**31 - 1)
    _require(len(arrays.dense_masks) % max(words, 1) == 0, "dense_masks", "whole rows")
    dense = len(arrays.dense_masks) // max(words, 1)
    _range(arrays, "group_dense", -1, dense)
    _length(arrays, "tree_taken", trees, "row a tree")
    _range(arrays, "tree_taken", -1, dense)
    _range(arrays, "tokens", 0, size)
    _range(arrays, "verify_tokens", 0, size)
    _offsets(arrays, "vocabulary_offsets", size, len(arrays.vocabulary_bytes))

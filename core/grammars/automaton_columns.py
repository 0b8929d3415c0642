"""Invariants of the columns of the automaton of masks, and of an indenter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import Columns, require, require_ends, require_length, require_range
from cdec.core.grammars.columns import COLUMN_ROLE, GrammarArrays
from cdec.core.grammars.indenter import MAX_COLUMNS

__all__ = [
    "check_automaton",
    "check_automaton_shape",
    "check_indent_shape",
    "check_indents",
    "compacted",
    "stored_lists",
]

_ALLOWED, _WAITING, _STATE, _PART = 0, 1, 2, -3
"""Kinds of lists, as ``native/grammars/mask_lists.h`` names them."""
_WITHIN = 1 << 29
"""Of ``native/grammars/mask_tokens.cc``: rows from here on are places in a token."""


def check_automaton_shape(arrays: Columns) -> None:
    """Check the lengths of the automaton's columns and the ends of their offsets."""
    lists = len(arrays["automaton_offsets"]) - 1
    require(lists >= 0, "automaton_offsets", "at least one offset")
    require_ends(arrays, "automaton_offsets", lists, len(arrays["automaton_items"]))
    steps = len(arrays["automaton_read"])
    require_ends(arrays, "automaton_step_offsets", len(arrays["tree_taken"]) + lists, steps)
    require_length(arrays, "automaton_after", steps, "state a step")


def check_automaton(arrays: Columns) -> None:
    """Check every index of the automaton; that its steps are right, compiling again tells."""
    trees, items = len(arrays["tree_taken"]), arrays["automaton_items"]
    offsets = arrays["automaton_offsets"]
    counts = np.diff(offsets) - 1
    require(bool((counts >= 0).all()), "automaton_offsets", "at least one item a list")
    first = items[offsets[:-1]]
    kinds = np.where(first >= 0, first & 3, first)
    require(
        bool(((kinds >= -3) & (kinds <= _STATE) & (first >> 2 < trees)).all()),
        "automaton_items",
        "lists of known kinds and trees",
    )
    _check_items(arrays, kinds, counts)
    _check_states(arrays, kinds, counts)
    require_range(arrays, "automaton_read", 0, len(arrays["action_offsets"]) - 1)
    require_range(arrays, "automaton_after", trees, trees + len(kinds))
    after = kinds[arrays["automaton_after"] - trees]
    require(bool((after == _STATE).all()), "automaton_after", "states of the automaton")


def _check_items(arrays: Columns, kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Check what lists of bits and of items that wait hold: as many as there are in their tree."""
    offsets, items = arrays["automaton_offsets"], arrays["automaton_items"]
    groups, tokens = np.diff(arrays["tree_groups"]), np.diff(arrays["tree_verify"])
    branches = np.diff(arrays["group_branches"][arrays["tree_groups"]])
    most = np.diff(arrays["tree_paths"]) + branches + tokens
    lists = np.flatnonzero(kinds == _ALLOWED)
    words = (groups + tokens + 63) // 64
    good = counts[lists] == words[items[offsets[lists]] >> 2]
    require(bool(good.all()), "automaton_items", "a bit for every group and token of the tree")
    beyond = (groups + tokens)[items[offsets[lists]] >> 2] % 64
    last = items[offsets[lists + 1] - 1]
    good = (beyond == 0) | (counts[lists] == 0) | (last >> beyond == 0)
    require(bool(good.all()), "automaton_items", "no bit beyond those of the tree")
    places, owner = _places_of(offsets, np.flatnonzero(kinds == _WAITING))
    found = items[places]
    good = (found >= 0) & (found >> 32 < most[items[offsets[owner]] >> 2])
    require(bool(good.all()), "automaton_items", "nodes, branches, tokens of the tree")
    require(bool(_are_rows(arrays, kinds, found).all()), "automaton_items", "rows that are there")
    found = items[_places_of(offsets, np.flatnonzero(kinds == _PART))[0]]
    good = (found >= 0) & (found < len(arrays["ignored"]))
    require(bool(good.all()), "automaton_items", "terminals in parts of rows")


def _are_rows(
    arrays: Columns, kinds: NDArray[np.int64], found: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which items wait with a row: none, a live row, a part of one, or a place in a token."""
    row = (found & 0xFFFFFFFF) - 1
    rows, longest = (
        len(arrays["live_offsets"]) - 1,
        int(np.diff(arrays["vocabulary_offsets"]).max()),
    )
    part = np.clip(row - rows - len(arrays["tree_taken"]), 0, max(len(kinds) - 1, 0))
    is_part = (part == row - rows - len(arrays["tree_taken"])) & (kinds[part] == _PART)
    is_within = (row >= _WITHIN) & (row < _WITHIN + longest * len(arrays["ignored"]))
    are: NDArray[np.bool_] = (row < rows) | is_part | is_within
    return are


def _check_states(arrays: Columns, kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Check the lists that states name: of the right kind, and of the state's tree."""
    lists = np.flatnonzero(kinds == _STATE)
    require(bool((counts[lists] % 2 == 1).all()), "automaton_items", "pairs in states")
    offsets, items = arrays["automaton_offsets"], arrays["automaton_items"]
    places, owner = _places_of(offsets, lists)
    found, named = items[places], _places(counts[lists]) % 2 == 0
    number, owner = found[named] - len(arrays["tree_taken"]), owner[named]
    require(
        bool(((number >= 0) & (number < owner)).all()), "automaton_items", "lists before the state"
    )
    wanted = np.where(_places(counts[lists])[named] == 0, _ALLOWED, _WAITING)
    tree = items[offsets[number]] >> 2
    same = (kinds[number] == wanted) & (tree == items[offsets[owner]] >> 2)
    require(bool(same.all()), "automaton_items", "lists of the kind and tree that a state needs")
    left = found[~named]
    longest = int(arrays["rule_length"].max(initial=0))
    require(
        bool(((left >= 0) & (left & 0xFFFFFFFF <= longest)).all()),
        "automaton_items",
        "at most a rule's length to read",
    )


def _places_of(
    offsets: NDArray[np.int64], lists: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the items of lists stand, but for the first of each, and each item's list."""
    sizes = offsets[lists + 1] - offsets[lists] - 1
    owner = np.repeat(lists, sizes)
    return offsets[owner] + 1 + _places(sizes), owner


def _places(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ... for every run of as many elements as ``sizes`` says."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def compacted(
    offsets: NDArray[np.int64],
    items: NDArray[np.int64],
    steps: NDArray[np.int64],
    after: NDArray[np.int64],
    *,
    first: int,
    live_rows: int,
) -> dict[str, NDArray[Any]]:
    """Return the columns of an automaton, without the lists that none of its states needs.

    Args:
        offsets: int64[A + 1], lists of an engine from number ``first`` on.
        items: int64, what they hold.
        steps: int64[n] ``state << 32 | LR state``, ascending.
        after: int64[n] the states after them.
        first: Number of the first list.
        live_rows: Rows from here on are parts of rows: lists.
    """
    heads, counts = items[offsets[:-1]], np.diff(offsets) - 1
    kinds = np.where(heads >= 0, heads & 3, heads)
    sources = (steps >> 32) - first
    kept = np.zeros(len(kinds), np.bool_)
    kept[sources[sources >= 0]] = True
    kept[after[after >= first] - first] = True
    states = np.flatnonzero(kept)
    names = _places_of(offsets, states)[0][_places(counts[states]) % 2 == 0]
    kept[items[names] - first] = True
    waiting = _places_of(offsets, np.flatnonzero(kept & (kinds == _WAITING)))[0]
    row = (items[waiting] & 0xFFFFFFFF) - 1 - live_rows - first
    is_part = (row >= 0) & (row < len(kinds))
    kept[row[is_part]] = True

    number = np.cumsum(kept) - 1
    moved = items.copy()
    moved[names] = first + number[items[names] - first]
    moved[waiting[is_part]] += number[row[is_part]] - row[is_part]
    lists = np.flatnonzero(kept)
    ends = np.concatenate([[0], np.cumsum(counts[lists] + 1)])
    every = np.repeat(offsets[lists] - ends[:-1], counts[lists] + 1) + np.arange(ends[-1])
    renamed = np.where(sources < 0, sources, number[np.maximum(sources, 0)]) + first
    states = np.arange(first + len(lists) + 1)
    return {
        "automaton_offsets": ends,
        "automaton_items": moved[every],
        "automaton_step_offsets": np.searchsorted(renamed, states).astype(np.int64),
        "automaton_read": (steps & 0xFFFFFFFF).astype(np.int32),
        "automaton_after": (first + number[np.maximum(after - first, 0)]).astype(np.int32),
    }


def stored_lists(arrays: GrammarArrays) -> int:
    """Return how many lists of the automaton an artifact holds; 0 if their ends are damaged."""
    offsets, steps = arrays.automaton_offsets, arrays.automaton_step_offsets
    lists = len(offsets) - 1
    good = lists >= 0 and len(steps) == len(arrays.tree_taken) + lists + 1
    good = good and offsets[0] == 0 and offsets[-1] == len(arrays.automaton_items)
    return lists if good and bool((np.diff(offsets) > 0).all()) else 0


def check_indent_shape(arrays: Columns, states: int, terminals: int) -> None:
    """Check the columns of an indenter: all are there, or none is."""
    is_indented = len(arrays["indent_symbols"]) > 0
    require_length(arrays, "indent_symbols", 4 * is_indented, "four numbers, or none")
    require_length(arrays, "indent_roles", terminals * is_indented, "role a terminal")
    require_length(arrays, "state_column", states * is_indented, "column a scanner state")
    if len(arrays["lr_plain"]) > 0:
        require_length(arrays, "lr_plain", len(arrays["lr_context"]), "state an LR state")


def check_indents(arrays: Columns) -> None:
    """Check every number of an indenter's columns."""
    require_range(arrays, "state_column", 0, MAX_COLUMNS + 1)
    require_range(arrays, "indent_roles", 0, COLUMN_ROLE + 2 * MAX_COLUMNS + 2)
    require_range(arrays, "lr_plain", 0, len(arrays["lr_context"]))
    symbols = arrays["indent_symbols"]
    known = (symbols[:3] >= -1) & (symbols[:3] < len(arrays["ignored"]))
    require(known.all(), "indent_symbols", "terminals that are there")
    most = symbols[3:]
    require(((most >= 0) & (most <= MAX_COLUMNS)).all(), "indent_symbols", "a number of columns")

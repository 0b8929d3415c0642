"""The artifact kind ``grammar``: the invariants of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import (
    Columns,
    is_texts,
    json_list,
    json_object,
    require,
    require_counts,
    require_digests,
    require_ends,
    require_length,
    require_range,
    require_rising,
    vocabulary_size,
)
from cdec.core.grammars.blanks import MAX_RUN
from cdec.core.grammars.columns import (
    COLUMN_ROLE,
    LIST_ALLOWED,
    LIST_PART,
    LIST_PENDING,
    LIST_STATE,
    MOST_SETS,
    MOST_STATES,
    RELATIVE,
    SET_TERMINALS_KEY,
    SETS_KEY,
    arrays_from,
    count_states,
    counted_up,
    items_of,
    state_of_row,
)
from cdec.core.grammars.indenter import MAX_COLUMNS
from cdec.core.grammars.special import KEY, SpecialTokens
from cdec.core.mask import mask_words
from cdec.core.sets.within import PINNED_KEY

_LEXERS = ("contextual", "basic", "dynamic")
_LARGEST = 2**31 - 1
_MOST_SYMBOLS = 1 << 20


def sets_of(metadata: Mapping[str, str], terminals: int) -> dict[str, int]:
    """Return the terminals whose texts are members of sets, by the names of these.

    Raises:
        ArtifactInvalidError: They are no terminals, or the lexer is one that tries patterns.
    """
    try:
        names = json.loads(metadata.get(SETS_KEY, "[]"))
        numbers = json.loads(metadata.get(SET_TERMINALS_KEY, "[]"))
    except (ValueError, RecursionError):
        names = numbers = None
    is_good = isinstance(names, list) and all(isinstance(n, str) and n for n in names)
    require(is_good and len(set(names)) == len(names) <= MOST_SETS, SETS_KEY, "distinct names")
    are = isinstance(numbers, list) and all(type(n) is int and 0 <= n < terminals for n in numbers)
    require(are and len(numbers) == len(names), SET_TERMINALS_KEY, "a terminal a set")
    lexer = json.loads(metadata.get("cdec.options", "{}")).get("lexer")
    require(not names or lexer == "dynamic", SETS_KEY, "the lexer dynamic")
    return dict(zip(names, numbers, strict=True))


def check_grammar_shape(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check lengths, ends of offsets and options: what a grammar takes for granted when it opens.

    Args:
        arrays: The columns.
        metadata: The schema metadata; ``cdec.options``, ``cdec.counts``, ``cdec.sound`` and
            ``cdec.vocabulary_size`` are used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: the same whatever the tables hold.
    """
    size = vocabulary_size(arrays, metadata)
    _check_metadata(metadata)
    sets_of(metadata, len(arrays["ignored"]))
    require_digests(metadata, PINNED_KEY)
    states, terminals = len(arrays["live_row"]), len(arrays["ignored"])
    require(states and len(arrays["delta"]) % states == 0, "delta", "as many rows as live_row")
    require(len(arrays["delta"]), "delta", "at least one class")
    require_length(arrays, "byte_class", 256, "class a byte")
    require_ends(arrays, "match_offsets", states, len(arrays["match_terminals"]))
    rows = len(arrays["live_offsets"]) - 1
    require(rows >= 0, "live_offsets", "at least one offset")
    require_ends(arrays, "live_offsets", rows, len(arrays["live_terminals"]))
    require(len(arrays["context_start"]), "context_start", "at least one context")
    check_loops(arrays, states)
    lr_states, rules = len(arrays["action_offsets"]) - 1, len(arrays["rule_lhs"])
    require(lr_states > 0, "action_offsets", "at least the start")
    require_length(arrays, "lr_context", lr_states, "context an LR state")
    require_length(arrays, "terminal_context", terminals, "context a terminal")
    require_ends(arrays, "action_offsets", lr_states, len(arrays["action_terminals"]))
    require_length(arrays, "action_values", len(arrays["action_terminals"]), "value an action")
    require_ends(arrays, "goto_offsets", lr_states, len(arrays["goto_symbols"]))
    require_length(arrays, "goto_states", len(arrays["goto_symbols"]), "state a goto")
    require_length(arrays, "rule_length", rules, "length a rule")
    require_ends(arrays, "item_offsets", lr_states, len(arrays["item_rules"]))
    require_length(arrays, "item_dots", len(arrays["item_rules"]), "dot an item")
    _check_tree_shape(arrays, states, size)
    check_indent_shape(arrays, states, terminals)


def _check_tree_shape(arrays: Columns, states: int, size: int) -> None:
    trees, paths = len(arrays["tree_paths"]) - 1, len(arrays["path_parent"])
    groups, branches = len(arrays["group_dense"]), len(arrays["branch_path"])
    require(trees > 0, "tree_paths", "at least one tree")
    require_length(arrays, "tree_of_state", states, "tree a scanner state")
    require_ends(arrays, "tree_paths", trees, paths)
    for column in ("path_terminal", "path_byte", "path_next"):
        require_length(arrays, column, paths, "value a path node")
    require_ends(arrays, "tree_groups", trees, groups)
    require_ends(arrays, "group_branches", groups, branches)
    require_ends(arrays, "group_tokens", groups, len(arrays["tokens"]))
    require_ends(arrays, "tree_verify", trees, len(arrays["verify_tokens"]))
    for column in ("branch_live", "branch_depth"):
        require_length(arrays, column, branches, "value a branch")
    require_length(arrays, "tree_taken", trees, "row a tree")
    check_automaton_shape(arrays)
    require(len(arrays["dense_masks"]) % mask_words(size) == 0, "dense_masks", "whole rows")


def check_grammar(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check every index of a grammar's arrays, so that nothing can read outside of them.

    Path nodes must come after their parents. That reductions find enough on the stack, and end,
    depends on all of the tables together; the engine sees to it. That the tables are those of the
    grammar is a matter of compiling it again (``compilers.grammars.verify``).

    Args:
        arrays: The columns; ``check_grammar_shape`` found them good.
        metadata: The schema metadata; ``cdec.options``, ``cdec.names`` and ``cdec.characters`` are
            used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: one read of every array.
    """
    for name, array in arrays.items():
        if name.endswith("_offsets") or name in _ALSO_OFFSETS:
            require_rising({name: array}, name)
    _check_names(metadata, arrays)
    general = json.loads(metadata["cdec.options"])["lexer"] == "dynamic"
    if general and "cdec.characters" in metadata:
        _check_characters(metadata)
    _check_scanner(arrays)
    _check_contexts(arrays, general)
    _check_parser(arrays)
    _check_paths(arrays)
    _check_groups(arrays)
    _check_tokens(arrays)
    check_automaton(arrays)
    check_indents(arrays)


_ALSO_OFFSETS = ("tree_paths", "tree_groups", "group_branches", "group_tokens", "tree_verify")


def _check_metadata(metadata: Mapping[str, str]) -> None:
    try:
        SpecialTokens.recorded(metadata)
    except (ValueError, RecursionError):
        require(False, KEY, "special tokens by their words, and tokens that are left out")
    options = json_object(metadata, "cdec.options")
    require_counts(metadata)
    texts = ("start", "lexer_reason", "dialect", "blanks")
    known = options.get("lexer") in _LEXERS and isinstance(options.get("start"), str)
    known &= all(isinstance(options.get(key, ""), str) for key in texts)
    require(known, "cdec.options", "options of compile-grammar as JSON")
    for key in ("conjoined", "deny_regex"):
        require(is_texts(options.get(key, [])), "cdec.options", f"{key} as patterns")
    longest = options.get("max_whitespace")
    is_run = longest is None or (type(longest) is int and 0 <= longest <= MAX_RUN)
    require(is_run, "cdec.options", f"max_whitespace of 0 to {MAX_RUN}")
    require(isinstance(options.get("indenter", ""), str | None), "cdec.options", "an indenter")
    require("cdec.grammar" in metadata, "cdec.grammar", "the source text")
    require(metadata.get("cdec.sound") in ("0", "1"), "cdec.sound", "0 or 1")


def _check_names(metadata: Mapping[str, str], arrays: Columns) -> None:
    names = json_object(metadata, "cdec.names")
    lists = [names.get(key) for key in ("terminals", "nonterminals", "patterns")]
    require(all(map(is_texts, lists)), "cdec.names", "lists of names")
    require(len(names["terminals"]) == len(arrays["ignored"]), "cdec.names", "one name a terminal")
    rules = json_list("cdec.names", names, "rules")
    require(all(map(_is_rule, rules)), "cdec.names", "rules with a left and a right side")
    lengths = [len(symbols) for _, symbols in rules]
    require(arrays["rule_length"].tolist() == lengths, "rule_length", "the lengths of the rules")


def _is_rule(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and is_texts(entry[1])
    )


def _check_characters(metadata: Mapping[str, str]) -> None:
    """Check the character grammar by which finished texts are judged under ``dynamic``."""
    table = json_object(metadata, "cdec.characters")
    sets, rules = (json_list("cdec.characters", table, name) for name in ("sets", "rules"))
    patterns, start = json_list("cdec.characters", table, "patterns"), table.get("start")
    require(is_texts(patterns), "cdec.characters", "patterns as texts")
    require(len(rules), "cdec.characters", "at least one rule")
    require(all(map(_is_ranges, sets)), "cdec.characters", "sets as rising pairs of code points")
    for rule in rules:
        is_rule = isinstance(rule, list) and len(rule) == 2 and isinstance(rule[1], list)
        require(is_rule, "cdec.characters", "rules with a left and a right side")
        numbers = [rule[0], *rule[1]]
        require(all(type(n) is int for n in numbers), "cdec.characters", "symbols as numbers")
        require(0 <= rule[0] < _MOST_SYMBOLS, "cdec.characters", "nonterminals from 0")
    known = 1 + max(rule[0] for rule in rules)
    inside = all(-known <= s < len(sets) + len(patterns) for _, symbols in rules for s in symbols)
    require(inside, "cdec.characters", "symbols that are there")
    is_start = type(start) is int and 0 <= start < known
    require(is_start, "cdec.characters", "a start that is there")


def _is_ranges(found: object) -> bool:
    if not isinstance(found, list) or len(found) % 2 or any(type(n) is not int for n in found):
        return False
    rising = all(a <= b for a, b in pairwise(found))
    return rising and (not found or (found[0] >= 0 and found[-1] <= 0x10FFFF))


def _check_scanner(arrays: Columns) -> None:
    states, terminals = len(arrays["live_row"]), len(arrays["ignored"])
    require_range(arrays, "byte_class", 0, len(arrays["delta"]) // states)
    check_steps(arrays, states)
    require_range(arrays, "match_terminals", 0, terminals)
    require_range(arrays, "live_row", 0, len(arrays["live_offsets"]) - 1)
    require_range(arrays, "live_terminals", 0, terminals)
    require_range(arrays, "ignored", 0, 2)


def _check_contexts(arrays: Columns, general: bool) -> None:
    contexts = len(arrays["context_start"])
    require_range(arrays, "context_start", 0, count_states(arrays_from(arrays)))
    require(0 <= arrays["lr_context"][0] < contexts, "lr_context", "a context to start with")
    require_range(arrays, "lr_context", -1 if general else 0, contexts)
    require_range(arrays, "terminal_context", 0 if general else -1, contexts)


def _check_parser(arrays: Columns) -> None:
    states, rules = len(arrays["action_offsets"]) - 1, len(arrays["rule_lhs"])
    require_range(arrays, "action_terminals", 0, len(arrays["ignored"]) + 1)
    require_range(arrays, "action_values", -rules, states)
    require_range(arrays, "goto_states", 0, states)
    require_range(arrays, "goto_symbols", 0, _LARGEST)
    _ascending(arrays, "action_terminals", "action_offsets", strictly=False)
    _ascending(arrays, "goto_symbols", "goto_offsets", strictly=True)
    for column in ("rule_length", "rule_lhs", "item_dots"):
        require_range(arrays, column, 0, _LARGEST)
    require_range(arrays, "item_rules", -1, rules)


def _ascending(arrays: Columns, column: str, offsets: str, *, strictly: bool) -> None:
    """Require values that ascend within each range of offsets: searches rely on it."""
    array = arrays[column]
    if len(array) < 2:
        return
    rises = array[1:] > array[:-1] if strictly else array[1:] >= array[:-1]
    begins = arrays[offsets]
    inner = begins[(begins > 0) & (begins < len(array))]
    rises[inner - 1] = True
    require(rises.all(), column, "ascending values within a state")


def _check_paths(arrays: Columns) -> None:
    states = len(arrays["live_row"])
    require_range(arrays, "tree_of_state", 0, len(arrays["tree_paths"]) - 1)
    own = counted_up(np.diff(arrays["tree_paths"]))
    parent = arrays["path_parent"]
    require(((parent >= -1) & (parent < own)).all(), "path_parent", "parents before their children")
    require_range(arrays, "path_terminal", -1, len(arrays["ignored"]))
    require_range(arrays, "path_byte", -1, len(arrays["delta"]) // states)
    require_range(arrays, "path_next", -1, count_states(arrays_from(arrays)))
    enters = arrays["path_terminal"] < 0
    require((arrays["path_byte"][enters] >= 0).all(), "path_byte", "a byte class at ENTER nodes")
    require((arrays["path_next"][enters] >= 0).all(), "path_next", "a state at ENTER nodes")


def _check_groups(arrays: Columns) -> None:
    trees = len(arrays["tree_paths"]) - 1
    group_tree = np.repeat(np.arange(trees), np.diff(arrays["tree_groups"]))
    branch_tree = np.repeat(group_tree, np.diff(arrays["group_branches"]))
    paths, at = np.diff(arrays["tree_paths"])[branch_tree], arrays["branch_path"]
    require(((at >= -1) & (at < paths)).all(), "branch_path", "path nodes of the branch's tree")
    require_range(arrays, "branch_live", -1, len(arrays["live_offsets"]) - 1)
    require_range(arrays, "branch_depth", 0, _LARGEST)


def _check_tokens(arrays: Columns) -> None:
    """Groups may hold tokens that spell something alone: no end id, no padding."""
    sizes = np.diff(arrays["vocabulary_offsets"])
    words = mask_words(len(sizes))
    dense = len(arrays["dense_masks"]) // words
    require_range(arrays, "group_dense", -1, dense)
    require_range(arrays, "tree_taken", -1, dense)
    for column in ("tokens", "verify_tokens"):
        require_range(arrays, column, 0, len(sizes))
        require((sizes[arrays[column]] > 0).all(), column, "tokens that spell something")
    spelling = np.zeros(32 * words, np.bool_)
    spelling[: len(sizes)] = sizes > 0
    others = ~np.packbits(spelling, bitorder="little").view("<u4")
    masks = arrays["dense_masks"].view(np.uint32).reshape(dense, words)
    require(not (masks & others).any(), "dense_masks", "tokens that spell something")


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
        bool(((kinds >= -3) & (kinds <= LIST_STATE) & (first >> 2 < trees)).all()),
        "automaton_items",
        "lists of known kinds and trees",
    )
    _check_items(arrays, kinds, counts)
    _check_states(arrays, kinds, counts)
    require_range(arrays, "automaton_read", 0, len(arrays["action_offsets"]) - 1)
    require_range(arrays, "automaton_after", trees, trees + len(kinds))
    after = kinds[arrays["automaton_after"] - trees]
    require(bool((after == LIST_STATE).all()), "automaton_after", "states of the automaton")


def _check_items(arrays: Columns, kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Check what lists of bits and of items that wait hold: as many as there are in their tree."""
    offsets, items = arrays["automaton_offsets"], arrays["automaton_items"]
    groups, tokens = np.diff(arrays["tree_groups"]), np.diff(arrays["tree_verify"])
    branches = np.diff(arrays["group_branches"][arrays["tree_groups"]])
    most = np.diff(arrays["tree_paths"]) + branches + tokens
    lists = np.flatnonzero(kinds == LIST_ALLOWED)
    words = (groups + tokens + 63) // 64
    good = counts[lists] == words[items[offsets[lists]] >> 2]
    require(bool(good.all()), "automaton_items", "a bit for every group and token of the tree")
    beyond = (groups + tokens)[items[offsets[lists]] >> 2] % 64
    last = items[offsets[lists + 1] - 1]
    good = (beyond == 0) | (counts[lists] == 0) | (last >> beyond == 0)
    require(bool(good.all()), "automaton_items", "no bit beyond those of the tree")
    places, owner = items_of(offsets, np.flatnonzero(kinds == LIST_PENDING))
    found = items[places]
    good = (found >= 0) & (found >> 32 < most[items[offsets[owner]] >> 2])
    require(bool(good.all()), "automaton_items", "nodes, branches, tokens of the tree")
    require(bool(_are_rows(arrays, kinds, found).all()), "automaton_items", "rows that are there")
    found = items[items_of(offsets, np.flatnonzero(kinds == LIST_PART))[0]]
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
    is_part = (part == row - rows - len(arrays["tree_taken"])) & (kinds[part] == LIST_PART)
    is_within = (row >= _WITHIN) & (row < _WITHIN + longest * len(arrays["ignored"]))
    are: NDArray[np.bool_] = (row < rows) | is_part | is_within
    return are


def _check_states(arrays: Columns, kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Check the lists that states name: of the right kind, and of the state's tree."""
    lists = np.flatnonzero(kinds == LIST_STATE)
    require(bool((counts[lists] % 2 == 1).all()), "automaton_items", "pairs in states")
    offsets, items = arrays["automaton_offsets"], arrays["automaton_items"]
    places, owner = items_of(offsets, lists)
    found, named = items[places], counted_up(counts[lists]) % 2 == 0
    number, owner = found[named] - len(arrays["tree_taken"]), owner[named]
    require(
        bool(((number >= 0) & (number < owner)).all()), "automaton_items", "lists before the state"
    )
    wanted = np.where(counted_up(counts[lists])[named] == 0, LIST_ALLOWED, LIST_PENDING)
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


def check_loops(arrays: Columns, rows: int) -> None:
    """Loops are few, so they are checked whenever a file is opened."""
    first, period = arrays["loop_row"].astype(np.int64), arrays["loop_period"].astype(np.int64)
    for column in ("loop_period", "loop_copies"):
        require_length(arrays, column, len(first), "value a loop")
        require_range(arrays, column, 1, MOST_STATES)
    require_range(arrays, "loop_row", 0, rows)
    ends = np.append(first[1:], rows)
    require((first + period <= ends).all(), "loop_row", "loops one after another")
    count = rows + int(((arrays["loop_copies"].astype(np.int64) - 1) * period).sum())
    require(count <= MOST_STATES, "loop_copies", f"at most {MOST_STATES} scanner states")


def check_steps(arrays: Columns, rows: int) -> None:
    """Relative steps stand in rows of loops alone, and lead to states, as all others do."""
    made = arrays_from(arrays)
    count, delta = count_states(made), arrays["delta"].reshape(rows, -1)
    relative = np.zeros(rows, np.bool_)
    first, expected = state_of_row(made), f"states from -1 to {count - 1}"
    loops = zip(made.loop_row, made.loop_period, made.loop_copies, strict=True)
    for row, period, copies in loops:
        relative[row : row + period] = True
        steps = delta[row : row + period].astype(np.int64)
        lowest = first[row : row + period, None] + steps + RELATIVE
        highest = lowest + (int(copies) - 1) * int(period)
        inside = (lowest >= 0) & (highest < count)
        require((inside | (steps >= -1)).all(), "delta", expected)
    plain = (delta >= -1) & (delta < count)
    require((plain | (relative[:, None] & (delta < 0))).all(), "delta", expected)

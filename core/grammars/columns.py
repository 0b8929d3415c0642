"""Columns of a compiled grammar: what the compiler writes, the artifact keeps, the engine reads.

**Scanner.** A *scanner state* (``cstate``) is a state of one deterministic automaton over byte
classes that already knows its context: which terminals compete there. ``-1`` is dead. A *context*
is a set of competing terminals; a terminal begins in ``context_start[x]``.

A *row* describes a scanner state. States and rows are numbered alike, but for *loops*, which stand
for repetitions counted to large numbers: ``loop_period`` rows from ``loop_row`` on describe
``loop_copies`` times as many states, copy after copy, and there an element of ``delta`` below -1 is
relative: the state at hand, plus the element, plus ``RELATIVE``. Later rows go on after the last.

* ``contextual``/``basic``: entering a state completes at most one terminal (priorities, keywords
  and leftmost-first alternatives are compiled in). The context is that of the LR state on top of
  the stack: ``lr_context[state]``. Where terminals look around, a state may complete several (one
  alone stands twice): ends of which the text behind them chooses at most one.
* ``dynamic``: entering a state completes any number of terminals; the context is that of the last
  completed terminal: ``terminal_context[t]``, at the start of the text ``lr_context[0]``.

**Parser.** LR tables. ``contextual``/``basic``: LALR(1), one action an entry, rules may be empty.
``dynamic``: a grammar without empty rules, several actions an entry, a graph-structured stack. The
end of the text is the terminal ``num_terminals``; the start symbol may be followed by it, and a
shift of it means that the text is complete. Only rules in use have numbers here.

**Trees.** One subterminal tree for each class of scanner states that behave alike within a token.
A tree is a list of *path nodes*, parents first, and of *groups* of tokens. Reading a token from
(stack S, scanner state c) gives *branches*: ways the token may be split at terminal ends. A branch
is allowed if its node is, and some terminal of its live row can be shifted after the node's stack
(no row: the token ends where a terminal ends, nothing more to ask). A group's tokens have equal
branches; a group is allowed if one of its branches is.

* SHIFT node: ``path_terminal[p] = t >= 0``: the parent's stack after shifting t (unchanged if t is
  ignored); fails if it cannot be shifted.
* ENTER node: ``path_terminal[p] = -1``: the parent's stack, provided the next terminal's first byte
  leads to the right scanner state: ``delta[context_start[context], path_byte[p]] == path_next[p]``.
  Its parent is a SHIFT node. There are none in ``dynamic``: SHIFT nodes follow each other.

**Indentation** (``contextual``/``basic``). With an indenter the scanner's line breaks are terminals
that no table names, one a column. A stack then carries the blocks and brackets that are open, and a
line break shifts what the indenter makes of it there: nothing, or the grammar's line break and then
INDENT or DEDENTs. Scanner states within a line break share a tree in which they count from 0.

**Parser configurations** (``contextual``/``basic``). A decoding state is a list of (stack, scanner
state): the one under way, then its fallback, the configuration in which the last completed terminal
has ended and the bytes since then are read anew, then the fallback of that, and so on. Entering a
state that completes t replaces all that follows by (stack after t, start of a terminal), or by
nothing if t cannot be shifted; a configuration whose scanner dies leaves its place to its fallback.
So is ``1..2`` read with NUMBER ``[0-9]+(\\.[0-9]+)?``: after ``1.`` the list is (inside NUMBER,
before a digit), (after NUMBER, one dot into ``..``). A state that completes several adds a
configuration for each and replaces nothing. Else only the last one may be at the start of a
terminal. The text is complete if the last one is and its stack accepts the end. In ``dynamic`` a
decoding state is a set of such pairs, and every completed terminal adds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import element_types


class GrammarArrays(NamedTuple):
    """All int32 unless noted; ``_offsets`` arrays have one more element than what they index.

    Sizes: C rows of scanner states, K byte classes, X contexts, H loops, T terminals, N LR states,
    R rules, L live rows, E trees, P path nodes, G groups, B branches, D dense masks, V tokens.
    """

    byte_class: NDArray[np.int32]  # [256] class of each byte, 0 <= class < K
    delta: NDArray[np.int32]  # [C * K] next scanner state, -1 dead, below -1 relative
    match_offsets: NDArray[np.int32]  # [C + 1]
    match_terminals: NDArray[np.int32]  # terminals completed on entering a state, ascending
    live_row: NDArray[np.int32]  # [C] which terminals can still complete after >= 1 more byte
    live_offsets: NDArray[np.int32]  # [L + 1]; an empty row: nothing more can complete
    live_terminals: NDArray[np.int32]  # ascending within a row
    context_start: NDArray[np.int32]  # [X] scanner state
    loop_row: NDArray[np.int32]  # [H] first row, ascending
    loop_period: NDArray[np.int32]  # [H] rows of one copy
    loop_copies: NDArray[np.int32]  # [H]
    lr_context: NDArray[np.int32]  # [N] context when this LR state is on top (dynamic: [0] only)
    terminal_context: NDArray[np.int32]  # [T] dynamic: context after a terminal; else -1
    ignored: NDArray[np.int32]  # [T] 1 where the terminal is ignored, else 0
    action_offsets: NDArray[np.int32]  # [N + 1]
    action_terminals: NDArray[np.int32]  # ascending within a state; T is the end of the text
    action_values: NDArray[np.int32]  # >= 0: shift to that LR state; < 0: reduce by rule ~value
    goto_offsets: NDArray[np.int32]  # [N + 1]
    goto_symbols: NDArray[np.int32]  # nonterminals, ascending within a state
    goto_states: NDArray[np.int32]
    rule_lhs: NDArray[np.int32]  # [R]
    rule_length: NDArray[np.int32]  # [R]
    item_offsets: NDArray[np.int32]  # [N + 1] kernel items of an LR state, for messages
    item_rules: NDArray[np.int32]
    item_dots: NDArray[np.int32]
    tree_of_state: NDArray[np.int32]  # [C]
    tree_paths: NDArray[np.int64]  # [E + 1] path nodes of each tree
    path_parent: NDArray[np.int32]  # [P] index within the tree, -1: the stack itself
    path_terminal: NDArray[np.int32]  # [P] terminal to shift, or -1: an ENTER node
    path_byte: NDArray[np.int32]  # [P] byte class, ENTER nodes only (else -1)
    path_next: NDArray[np.int32]  # [P] scanner state, ENTER nodes only (else -1)
    tree_groups: NDArray[np.int64]  # [E + 1] groups of each tree
    group_branches: NDArray[np.int64]  # [G + 1]
    branch_path: NDArray[np.int32]  # [B] index within the tree, -1: the stack itself
    branch_live: NDArray[np.int32]  # [B] live row, -1: the token ends where a terminal ends
    branch_depth: NDArray[np.int32]  # [B] further terminals begun after the first one touched
    group_dense: NDArray[np.int32]  # [G] row of dense_masks with the group's tokens, or -1
    group_tokens: NDArray[np.int64]  # [G + 1] into tokens; empty where group_dense >= 0
    tokens: NDArray[np.int32]  # token ids, ascending within a group, every duplicate listed
    tree_verify: NDArray[np.int64]  # [E + 1] into verify_tokens
    verify_tokens: NDArray[np.int32]  # tokens with too many branches: the engine steps their bytes
    tree_taken: NDArray[np.int32]  # [E] dense row of the tokens inside which the terminal that is
    # under way completes, so that no fallback sees them; -1: none (always in dynamic)
    dense_masks: NDArray[np.int32]  # [D * ceil(V / 32)] packed as cdec.core.mask packs
    automaton_offsets: NDArray[np.int64]  # [A + 1] lists of the automaton of masks, E and more
    automaton_items: NDArray[np.int64]  # what they hold, as ``mask_lists.h`` says
    automaton_step_offsets: NDArray[np.int64]  # [E + A + 1] steps from each list that is a state
    automaton_read: NDArray[np.int32]  # LR state that a step reads, ascending within a state
    automaton_after: NDArray[np.int32]  # the state after the step: a list
    indent_roles: NDArray[np.int32]  # [T] what an indenter makes of a terminal; [0]: there is none
    indent_symbols: NDArray[np.int32]  # [4] line break, INDENT, DEDENT (-1: none), most columns
    state_column: NDArray[np.int32]  # [C] columns of the line that the scanner is in; [0]
    lr_plain: NDArray[np.int32]  # [N] the LR state as which one goes on behind a dropped line
    # break, where terminals look around; [0]: itself
    vocabulary_offsets: NDArray[np.int64]  # [V + 1]
    vocabulary_bytes: NDArray[np.uint8]  # bytes of every token; none for special ones


OPEN_ROLE, CLOSE_ROLE, NOWHERE_ROLE, COLUMN_ROLE = 1, 2, 3, 4
"""Of a terminal in ``indent_roles`` (0: the parser's alone): brackets; a line break without a line
feed, or beyond the last column; from COLUMN_ROLE on, two for each column k: a line break with k
columns, and one with k more than its state's ``state_column``, in trees."""
RELATIVE = 1 << 30
"""Added to an element of ``delta`` that is relative."""
AUTOMATON = tuple(name for name in GrammarArrays._fields if name.startswith("automaton_"))
"""The columns of the automaton of masks, as far as it was made when compiling."""
COLUMNS: Mapping[str, str] = element_types(GrammarArrays)
"""Column name -> element type."""


SETS_KEY = "cdec.sets"
"""Metadata: names of the sets whose members terminals are."""
SET_TERMINALS_KEY = "cdec.set_terminals"
"""Metadata: the numbers of these terminals."""
MARKER = 0xFF
"""Byte that no text has: in the scanner it and the set's number stand for any member."""
MOST_SETS = 64
_STAND_INS = 0x10FF00


def stand_in(number: int) -> str:
    """Return the character that stands for any member of a set, where lark judges a text."""
    return chr(_STAND_INS + number)


def arrays_from(columns: Mapping[str, NDArray[Any]]) -> GrammarArrays:
    """Return the arrays of an artifact's columns."""
    return GrammarArrays(**{name: columns[name] for name in GrammarArrays._fields})


def no_automaton(trees: int) -> dict[str, NDArray[Any]]:
    """Return the columns of an automaton of which nothing was made, over a number of trees."""
    lengths = {"automaton_offsets": 1, "automaton_step_offsets": trees + 1}
    return {name: np.zeros(lengths.get(name, 0), COLUMNS[name]) for name in AUTOMATON}


def no_indents() -> dict[str, NDArray[Any]]:
    """Return the columns of a grammar without an indenter."""
    names = ("indent_roles", "indent_symbols", "state_column", "lr_plain")
    return {name: np.zeros(0, COLUMNS[name]) for name in names}


def no_loops() -> dict[str, NDArray[Any]]:
    """Return the columns of a scanner in which every row describes one state."""
    return {name: np.zeros(0, np.int32) for name in ("loop_row", "loop_period", "loop_copies")}


MOST_STATES = 1 << 29
"""Scanner states, those of all copies: a relative step stays within 32 bits."""


def count_states(arrays: GrammarArrays) -> int:
    """Return the number of scanner states."""
    more = (arrays.loop_copies.astype(np.int64) - 1) * arrays.loop_period
    return min(max(len(arrays.live_row) + int(more.sum()), 0), MOST_STATES)


def loop_states(arrays: GrammarArrays) -> NDArray[np.int64]:
    """Return the first state of every loop, int64[H]."""
    more = (arrays.loop_copies.astype(np.int64) - 1) * arrays.loop_period
    first: NDArray[np.int64] = arrays.loop_row + np.cumsum(more) - more
    return first


def row_of_state(arrays: GrammarArrays, state: int) -> int:
    """Return the row that describes a scanner state, 0 <= state < ``count_states``."""
    first = loop_states(arrays)
    loop = int(np.searchsorted(first, state, "right")) - 1
    if loop < 0:
        return state
    row, period = int(arrays.loop_row[loop]), int(arrays.loop_period[loop])
    within, length = state - int(first[loop]), period * int(arrays.loop_copies[loop])
    return row + (within % period if within < length else within - length + period)


def state_of_row(arrays: GrammarArrays) -> NDArray[np.int64]:
    """Return the first state that each row describes, int64[C]."""
    rows = np.arange(len(arrays.live_row))
    more = (arrays.loop_copies.astype(np.int64) - 1) * arrays.loop_period
    ends = arrays.loop_row.astype(np.int64) + arrays.loop_period
    passed = np.searchsorted(ends, rows, "right")
    found: NDArray[np.int64] = rows + np.concatenate([[0], np.cumsum(more)])[passed]
    return found


def state_of_tree(arrays: GrammarArrays) -> NDArray[np.int32]:
    """Return one scanner state for every tree, int32[E]; those of a tree behave alike in tokens."""
    state = np.zeros(len(arrays.tree_taken), np.int32)
    number = state_of_row(arrays)
    known = (arrays.tree_of_state >= 0) & (arrays.tree_of_state < len(state))
    state[arrays.tree_of_state[known]] = number[known]
    return state


LIST_ALLOWED, LIST_PENDING, LIST_STATE, LIST_PART = 0, 1, 2, -3
"""Kinds of lists, as ``native/grammars/mask_lists.h`` names them."""


def items_of(
    offsets: NDArray[np.int64], lists: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the items of lists stand, but for the first of each, and each item's list."""
    sizes = offsets[lists + 1] - offsets[lists] - 1
    owner = np.repeat(lists, sizes)
    return offsets[owner] + 1 + counted_up(sizes), owner


def counted_up(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ... for every run of as many elements as ``sizes`` says."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)

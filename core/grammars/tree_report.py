"""One subterminal tree of a grammar as plain data, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.grammars.columns import GrammarArrays
from cdec.core.grammars.loops import count_states, row_of_state
from cdec.core.grammars.names import Names
from cdec.core.mask import mask_words, unpack_mask
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["BranchView", "GroupView", "TreeView", "describe_subterminal_tree"]

_SHOWN_LIVE = 6
"""Terminals under way that a line names."""


@dataclass(frozen=True, slots=True)
class BranchView:
    """One way to read the tokens of a group.

    Attributes:
        path: Terminals that end within the token, in their order; ``>N`` stands before a terminal
            whose first byte leads to scanner state N.
        live: Terminals of which one must be taken by the parser after them; None where the token
            ends with a terminal.
        depth: Further terminals begun after the first one touched.
    """

    path: list[str]
    live: list[str] | None
    depth: int

    def line(self) -> str:
        """Return what ends in the tokens, then what is under way after them."""
        done = " ".join(self.path)
        return f"{done} |" if self.live is None else f"{done} | inside {_some(self.live)}".strip()


@dataclass(frozen=True, slots=True)
class GroupView:
    """Tokens that are read alike.

    Attributes:
        tokens: How many.
        samples: Bytes of some of them, the shortest first.
        branches: Ways to read them; the group is allowed if one of them is.
    """

    tokens: int
    samples: list[bytes]
    branches: list[BranchView]


@dataclass(frozen=True, slots=True)
class TreeView:
    """The tokens of one scanner state, in groups that are read alike.

    Attributes:
        state: The scanner state.
        tree: Number of its tree.
        shared_by: Rows of scanner states with this tree.
        completes: Terminals that have just been completed in this state.
        live: Terminals that it can still complete.
        groups: Those with most tokens.
        hidden: Groups left out.
        verified: Tokens that the engine steps byte by byte.
    """

    state: int
    tree: int
    shared_by: int
    completes: list[str]
    live: list[str]
    groups: list[GroupView]
    hidden: int
    verified: int

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-ready data; bytes that are no UTF-8 are escaped."""
        described = asdict(self)
        for group in described["groups"]:
            group["samples"] = [_text(piece) for piece in group["samples"]]
        return described

    def lines(self) -> list[str]:
        """Return it as indented lines: groups of tokens, and under each the ways to read them."""
        ended = f", completes {' '.join(self.completes)}" if self.completes else ""
        lines = [
            f"scanner state {self.state}{ended}: inside {_some(self.live) or 'nothing'}",
            f"tree {self.tree}, of {self.shared_by:,} scanner states",
        ]
        for group in self.groups:
            samples = ", ".join(f'"{_text(sample)}"' for sample in group.samples)
            more = ", ..." if group.tokens > len(group.samples) else ""
            lines.append(f"  {group.tokens:,} tokens: {samples}{more}")
            lines += [f"    {branch.line()}" for branch in group.branches]
        if self.hidden:
            lines.append(f"  ... {self.hidden:,} more groups")
        if self.verified:
            lines.append(f"  {self.verified:,} tokens are read byte by byte")
        return lines


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "backslashreplace")


def _some(names: Sequence[str]) -> str:
    hidden = len(names) - _SHOWN_LIVE
    return " ".join(names[:_SHOWN_LIVE]) + (f" and {hidden} more" if hidden > 0 else "")


def describe_subterminal_tree(
    arrays: GrammarArrays,
    vocabulary: Vocabulary,
    names: Names,
    state: int = 0,
    width: int = 8,
) -> TreeView:
    """Return the tree of a scanner state.

    Args:
        arrays: The compiled grammar.
        vocabulary: Of the model.
        names: Of terminals and rules.
        state: Scanner state, one of a loop included.
        width: Groups, and samples a group, to show.

    Raises:
        UsageError: There is no such state.
    """
    states = count_states(arrays)
    if not 0 <= state < states:
        raise UsageError(
            f"there is no scanner state {state}", hint=f"name one from 0 to {states - 1}"
        )
    row = row_of_state(arrays, state)
    tree = int(arrays.tree_of_state[row])
    first, stop = arrays.tree_groups[tree : tree + 2].tolist()
    members = [_members(arrays, group) for group in range(first, stop)]
    largest = sorted(range(stop - first), key=lambda i: -len(members[i]))
    terminals = names.terminal
    completed = arrays.match_terminals[slice(*arrays.match_offsets[row : row + 2])]
    return TreeView(
        state=state,
        tree=tree,
        shared_by=int((arrays.tree_of_state == tree).sum()),
        completes=[terminals(t) for t in completed.tolist()],
        live=_live(names, int(arrays.live_row[row])),
        groups=[
            _group(vocabulary, names, tree, first + i, members[i], width) for i in largest[:width]
        ],
        hidden=max(stop - first - width, 0),
        verified=int(np.diff(arrays.tree_verify[tree : tree + 2])[0]),
    )


def _members(arrays: GrammarArrays, group: int) -> NDArray[np.int32]:
    """Return the token ids of a group, ascending."""
    dense = int(arrays.group_dense[group])
    if dense < 0:
        return arrays.tokens[slice(*arrays.group_tokens[group : group + 2])]
    size = len(arrays.vocabulary_offsets) - 1
    words = mask_words(size)
    row = arrays.dense_masks[dense * words : (dense + 1) * words]
    return np.flatnonzero(unpack_mask(row[None], size)[0]).astype(np.int32)


def _group(
    vocabulary: Vocabulary,
    names: Names,
    tree: int,
    group: int,
    members: NDArray[np.int32],
    width: int,
) -> GroupView:
    arrays = names.arrays
    table = vocabulary.token_bytes
    pieces = sorted((table[i] for i in members.tolist()), key=lambda piece: (len(piece), piece))
    first, stop = arrays.group_branches[group : group + 2].tolist()
    base = int(arrays.tree_paths[tree])
    branches = [
        BranchView(
            path=_path(names, base, int(arrays.branch_path[branch])),
            live=_live(names, live) if live >= 0 else None,
            depth=int(arrays.branch_depth[branch]),
        )
        for branch, live in zip(
            range(first, stop), arrays.branch_live[first:stop].tolist(), strict=True
        )
    ]
    return GroupView(len(members), pieces[:width], branches)


def _path(names: Names, base: int, node: int) -> list[str]:
    """Return what stands between a tree's root and one of its path nodes."""
    arrays = names.arrays
    labels = []
    while node >= 0:
        terminal = int(arrays.path_terminal[base + node])
        entered = f">{arrays.path_next[base + node]}"
        labels.append(entered if terminal < 0 else names.terminal(terminal))
        # A parent stands before its children: this ends, whatever the file holds.
        node = min(int(arrays.path_parent[base + node]), node - 1)
    return labels[::-1]


def _live(names: Names, row: int) -> list[str]:
    arrays = names.arrays
    live = arrays.live_terminals[slice(*arrays.live_offsets[row : row + 2])]
    return names.each(live.tolist())

"""One subterminal tree: its path nodes, its groups of tokens, and its tokens that are stepped."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.mask_store import add_dense, add_token
from cdec.core.grammars.engine.pointers import (
    address,
    get,
    int32s,
    int64s,
    size,
    span,
    uint8s,
)
from cdec.core.grammars.engine.readings import read_text
from cdec.core.grammars.engine.stacks import failed
from cdec.core.kernels import inner

__all__ = ["add_group", "enters", "first_token", "tree_nodes", "verify_tokens"]


@inner
def tree_nodes(e: int, tree: int) -> int:
    """Return the number of a tree's path nodes."""
    paths = int64s(e, f.TREE_PATHS)
    first, stop = max(paths[tree], 0), min(paths[tree + 1], size(e, f.PATH_PARENT))
    return max(min(stop - first, size(e, f.NODE_STACK)), 0)


@inner
def first_token(e: int, group: int) -> int:
    """Return one token of a group, always the same: it stands for the group."""
    return int32s(e, f.GROUP_FIRST)[group]


@inner
def enters(e: int, stack: int, path: int) -> bool:
    """Say whether the next terminal's first byte leads to the scanner state of an ENTER node."""
    if stack < 0:
        return False
    vertex_state, classes = int32s(e, f.VERTEX_STATE)[stack], get(e, f.CLASSES)
    if vertex_state >= get(e, f.LR_STATES):
        return False
    context, byte_class = int32s(e, f.LR_CONTEXT)[vertex_state], int32s(e, f.PATH_BYTE)[path]
    if context < 0 or context >= get(e, f.CONTEXTS) or byte_class < 0 or byte_class >= classes:
        return False
    start = int32s(e, f.CONTEXT_START)[context]
    if start < 0 or start >= get(e, f.SCANNER_STATES):
        return False
    return int32s(e, f.DELTA)[start * classes + byte_class] == int32s(e, f.PATH_NEXT)[path]


@inner
def add_group(e: int, row: int, group: int) -> None:
    """Add the tokens of a group to a row."""
    dense = int32s(e, f.GROUP_DENSE)[group]
    if dense >= 0:
        add_dense(e, row, dense)
    else:
        _add_listed(e, row, group)


@inner
def _add_listed(e: int, row: int, group: int) -> None:
    """Add the listed tokens of a group to a row."""
    offsets, tokens = int64s(e, f.GROUP_TOKENS), int32s(e, f.TOKENS)
    low, high = span(offsets, group, size(e, f.TOKENS))
    for i in range(low, high):
        add_token(e, row, tokens[i])


@inner
def verify_tokens(e: int, row: int, tree: int, at: int, stack: int) -> bool:
    """Add the tokens with too many branches to be listed, by stepping their bytes.

    A token that continues the one before it, as rows of dashes do, continues its readings.
    """
    offsets, tokens = int64s(e, f.TREE_VERIFY), int32s(e, f.VERIFY_TOKENS)
    readings, starts, done, left = int32s(e, f.READINGS), int64s(e, f.VOCABULARY_OFFSETS), 0, 1
    text, begin = address(e, f.VOCABULARY_BYTES), 0
    low, high = span(offsets, tree, size(e, f.VERIFY_TOKENS))
    for i in range(low, high):
        token = tokens[i]
        if token < 0 or token >= get(e, f.VOCABULARY):
            continue
        length = starts[token + 1] - starts[token]
        if length < 0 or starts[token] < 0 or starts[token + 1] > size(e, f.VOCABULARY_BYTES):
            continue
        if not _continues(e, begin, done, starts[token], length):
            readings[0], readings[1], readings[2] = at, stack, 0
            done, left = 0, 1
        if left > 0:
            begin = starts[token]
            left = read_text(e, text + begin + done, length - done, left)
            done = length
        if left > 0:
            add_token(e, row, token)
        if failed(e):
            return False
    return not failed(e)


@inner
def _continues(e: int, begin: int, done: int, start: int, length: int) -> bool:
    """Say whether ``done`` bytes at ``begin`` were read and begin the token at ``start``.

    Not with a lookahead: what a token has ended so far is not kept between tokens.
    """
    if done == 0 or done > length or get(e, f.LOOKAHEAD) != f.UNLIMITED:
        return False
    text = uint8s(e, f.VOCABULARY_BYTES)
    same = 0
    while same < done and text[begin + same] == text[start + same]:
        same += 1
    return same == done

"""Walks of the vocabulary's tries from a state: the tokens whose bytes can follow there."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    has_room,
    int32s,
    int64s,
    size,
    uint8s,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import lacks
from cdec.core.schemas.engine.masks.possible import may_come
from cdec.core.schemas.engine.stepping import step
from cdec.core.schemas.engine.strings import step_automaton

__all__ = ["push_blanks", "run_ends_of", "walk"]


@inner
def run_ends_of(e: int, mark: int) -> int:
    """Return where in RUN_ENDS stands what each run of whitespace leads to from a state of blanks.

    subtle: 0 after a lack of room.
    """
    known, runs = int32s(e, f.BLANK_INDEX)[mark], size(e, f.RUN_OFFSETS) - 1
    if known >= 0:
        return known
    first = used(e, f.RUN_ENDS)
    if not has_room(e, f.RUN_ENDS, runs):
        return 0
    ends, offsets, text = int32s(e, f.RUN_ENDS), int64s(e, f.RUN_OFFSETS), uint8s(e, f.RUNS)
    for run in range(runs):
        state: int = mark
        for at in range(offsets[run], offsets[run + 1]):
            if state >= 0:
                state = step_automaton(e, state, text[at])
        ends[first + run] = state
    use(e, f.RUN_ENDS, first + runs)
    int32s(e, f.BLANK_INDEX)[mark] = first
    return first


@inner
def push_blanks(e: int, run_ends: int) -> None:
    """Add the tokens of whitespace alone to MASK_TOKENS."""
    tokens, n = int32s(e, f.BLANK_TOKENS), used(e, f.MASK_TOKENS)
    ends, run_of = int32s(e, f.RUN_ENDS), int32s(e, f.RUN_OF)
    if not has_room(e, f.MASK_TOKENS, size(e, f.BLANK_TOKENS)) or lacks(e):
        return
    out = int32s(e, f.MASK_TOKENS)
    for i in range(size(e, f.BLANK_TOKENS)):
        if ends[run_ends + run_of[tokens[i]]] >= 0:
            out[n] = tokens[i]
            n += 1
    use(e, f.MASK_TOKENS, n)


@inner
def walk(e: int, trie: int, state: int, run_ends: int) -> None:
    """Add the tokens of a trie that a state allows to MASK_TOKENS.

    Args:
        trie: One of WHOLE, CROSSING, ENDINGS, BEHIND.
        state: Before the trie's texts.
        run_ends: Of BEHIND: where the whitespace before the texts leads; else -1.
    """
    path, out = int32s(e, f.PATH), int32s(e, f.MASK_TOKENS)
    bytes_, depths = uint8s(e, trie + f.BYTE), int32s(e, trie + f.DEPTH)
    skips, offsets = int32s(e, trie + f.SKIP), int32s(e, trie + f.TOKENS)
    tokens, ends = int32s(e, trie + f.IDS), int32s(e, f.RUN_ENDS)
    run_of, labels = int32s(e, f.RUN_OF), int32s(e, f.STATE_LABEL)
    if lacks(e):
        return
    path[0] = state
    node, nodes, n = 0, size(e, trie + f.BYTE), used(e, f.MASK_TOKENS)
    while node < nodes:
        depth, byte, after = depths[node], bytes_[node], -1
        if may_come(e, path[depth - 1], byte):
            after = step(e, path[depth - 1], byte)
        if after < 0:
            if lacks(e):
                return
            node = skips[node]
            continue
        path[depth] = after
        first, last = offsets[node], offsets[node + 1]
        if not has_room(e, f.MASK_TOKENS, last - first):
            return
        for i in range(first, last):
            token, end = tokens[i], 0
            if run_ends >= 0:
                end = ends[run_ends + run_of[token]]
                end = labels[end] if end >= 0 else -1
            if end >= 0:
                out[n] = token
                n += 1
        use(e, f.MASK_TOKENS, n)
        node += 1

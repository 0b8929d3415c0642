"""Compiled loops that walk the trie of a set on the CPU; ``TrieView`` describes what they walk.

States, int64: ``0 <= s < TAIL`` is an inner node; from ``TAIL`` up it is a position in one row's
tail, ``(row + 1) << 32 | depth``; then DEAD and DONE. Leaves are never states: a step onto one
gives the tail state, so equal prefixes have equal states.

Arguments follow ``cdec.core.kernels``: the arrays may be views of a damaged file, so whatever is
read from them is checked before it is used as an index, and a bad index means "no child here".
subtle: inner functions take the arrays they read; taking the view made walks 50 times slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel
from cdec.core.sets.primitives import clear_words, copy_words, is_end, is_kept, search, set_bit

END = -1
DEAD = -1
DONE = -2
TAIL_SHIFT = 32
TAIL = 1 << TAIL_SHIFT
_DEPTH_MASK = TAIL - 1
_DENSE_DEGREE = 256


@inner
def _span(token: Any, link: Any, degree: Any, tokens: Any, row_offsets: Any, state: int) -> Any:
    """Return where the next tokens of ``state`` stand: (in_tail, first, stop, has_end).

    In a tail they are ``tokens[first:stop]`` (one token or none), else ``token[first:stop]``, END
    first where ``has_end``; a filter has not been asked yet.
    """
    nothing = np.int64(0)
    if state >= TAIL:
        row = (state >> TAIL_SHIFT) - 1
        if row >= len(row_offsets) - 1:
            return True, nothing, nothing, False
        first = row_offsets[row] + (state & _DEPTH_MASK)
        stop = row_offsets[row + 1]
        if first < 0 or first > stop or stop > len(tokens):
            return True, nothing, nothing, False
        return True, first, min(first + 1, stop), first == stop
    if state < 0 or state >= len(token):
        return False, nothing, nothing, False
    first = link[state]
    stop = first + degree[state]
    if first <= state or first >= stop or stop > len(token):
        return False, nothing, nothing, False
    return False, first, stop, token[first] == END


@inner
def _land(row_offsets: Any, ends_itself: bool, row: Any, depth: Any) -> int:
    """Return the state ``depth`` tokens into a row: DONE after the last if members end there."""
    if row < 0 or row >= len(row_offsets) - 1 or depth < 0 or depth > _DEPTH_MASK:
        return DEAD
    if ends_itself and row_offsets[row] + depth >= row_offsets[row + 1]:
        return DONE
    return int(((row + 1) << TAIL_SHIFT) | depth)


@kernel
def advance(view: Any, states: Any, token_ids: Any, out: Any) -> None:
    """Write the state after ``token_ids[i]`` from ``states[i]``, all int64[n]; O(log degree)."""
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, end_ids = view.tokens, view.row_offsets, view.end_ids
    kept, kept_rank, n_rows = view.kept, view.kept_rank, len(view.row_offsets) - 1
    for i in range(len(states)):
        state, sought = states[i], token_ids[i]
        out[i] = DEAD
        if sought < 0 or sought >= view.width:
            continue
        in_tail, first, stop, has_end = _span(token, link, degree, tokens, row_offsets, state)
        if is_end(end_ids, sought):
            if has_end and (in_tail or is_kept(row, count, kept, kept_rank, n_rows, first)):
                out[i] = DONE
        elif in_tail:
            if first < stop and tokens[first] == sought:
                at_row, depth = (state >> TAIL_SHIFT) - 1, (state & _DEPTH_MASK) + 1
                out[i] = _land(row_offsets, view.ends_itself, at_row, depth)
        else:
            child = search(token, first, stop, sought)
            if child < 0 or not is_kept(row, count, kept, kept_rank, n_rows, child):
                continue
            if degree[child] > 0:
                out[i] = child
            elif 0 <= row[child] < n_rows:
                depth = link[child] - row_offsets[row[child]]
                out[i] = _land(row_offsets, view.ends_itself, np.int64(row[child]), depth)


@inner
def _dense_slot(dense_nodes: Any, size: int, state: int) -> int:
    """Return the number of the packed mask of a node with ``size`` children, -1 if it has none."""
    return search(dense_nodes, 0, len(dense_nodes), state) if size >= _DENSE_DEGREE else -1


@kernel
def check(view: Any, states: Any, token_ids: Any, out: Any) -> None:
    """Say of ``token_ids`` int64[n, M] in ``out`` bool[n, M] what is allowed; O(log degree)."""
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, end_ids = view.tokens, view.row_offsets, view.end_ids
    kept, kept_rank, n_rows = view.kept, view.kept_rank, len(view.row_offsets) - 1
    dense_nodes, dense_masks, width = view.dense_nodes, view.dense_masks, view.width
    for i in range(len(states)):
        in_tail, first, stop, has_end = _span(token, link, degree, tokens, row_offsets, states[i])
        if has_end and not in_tail:
            has_end = is_kept(row, count, kept, kept_rank, n_rows, first)
        only = np.int64(tokens[first]) if in_tail and first < stop else np.int64(-1)
        slot = _dense_slot(dense_nodes, stop - first, states[i]) if len(kept) == 0 else -1
        for j in range(token_ids.shape[1]):
            sought = token_ids[i, j]
            if sought < 0 or sought >= width:
                out[i, j] = False
            elif is_end(end_ids, sought):
                out[i, j] = has_end
            elif in_tail:
                out[i, j] = sought == only
            elif slot >= 0:
                word = sought >> 5
                bits = dense_masks[slot, word] if word < dense_masks.shape[1] else np.uint32(0)
                out[i, j] = (bits >> np.uint32(sought & 31)) & 1 == 1
            else:
                child = search(token, first, stop, sought)
                out[i, j] = child >= 0 and is_kept(row, count, kept, kept_rank, n_rows, child)


@kernel
def is_complete(view: Any, states: Any, out: Any) -> None:
    """Say in ``out`` bool[n] where the text so far is a member, DONE included."""
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, kept, kept_rank = view.tokens, view.row_offsets, view.kept, view.kept_rank
    n_rows = len(row_offsets) - 1
    for i in range(len(states)):
        in_tail, first, _, has_end = _span(token, link, degree, tokens, row_offsets, states[i])
        if has_end and not in_tail:
            has_end = is_kept(row, count, kept, kept_rank, n_rows, first)
        out[i] = has_end or states[i] == DONE


@inner
def _set_bits(
    token: Any, row: Any, count: Any, kept: Any, kept_rank: Any, width: int, span: Any, bits: Any
) -> None:
    """Set the bits of the kept children in ``span`` that fit in ``bits`` uint32[words]."""
    first, stop, n_rows = span
    limit = min(width, len(bits) << 5)
    for child in range(first, stop):
        t = token[child]
        if t >= 0 and t < limit and is_kept(row, count, kept, kept_rank, n_rows, child):
            set_bit(bits, t)


@kernel
def fill_mask(view: Any, states: Any, mask: Any) -> None:
    """Overwrite ``mask`` uint32[n, words] with the exact masks of ``states`` int64[n].

    Cost: writing the words once, plus one bit a child of nodes with fewer than 256 children. A
    dense node's mask is copied; under a filter it is computed on first use.
    """
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, kept, kept_rank = view.tokens, view.row_offsets, view.kept, view.kept_rank
    dense_nodes, hot_ready = view.dense_nodes, view.hot_ready
    dense_masks, hot_masks = view.dense_masks, view.hot_masks
    n_rows, width, end_ids = len(row_offsets) - 1, view.width, view.end_ids
    for i in range(len(states)):
        in_tail, first, stop, has_end = _span(token, link, degree, tokens, row_offsets, states[i])
        span, slot = (first, stop, n_rows), _dense_slot(dense_nodes, stop - first, states[i])
        if slot >= 0 and len(kept) == 0:
            copy_words(dense_masks[slot], mask[i])
        elif slot >= 0:
            # subtle: two threads may do this at once; both write the same bits.
            if hot_ready[slot] == 0:
                bits = np.zeros(hot_masks.shape[1], np.uint32)
                _set_bits(token, row, count, kept, kept_rank, width, span, bits)
                copy_words(bits, hot_masks[slot])
                hot_ready[slot] = 1
            copy_words(hot_masks[slot], mask[i])
        else:
            clear_words(mask[i])
            if not in_tail:
                _set_bits(token, row, count, kept, kept_rank, width, span, mask[i])
            elif first < stop and 0 <= tokens[first] < width:
                set_bit(mask[i], tokens[first])
        if has_end and (in_tail or is_kept(row, count, kept, kept_rank, n_rows, first)):
            for end in end_ids:
                set_bit(mask[i], end)


@kernel
def count_allowed(view: Any, states: Any, offsets: Any) -> None:
    """Write the running totals of allowed tokens to ``offsets`` int64[n + 1]."""
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, kept, kept_rank = view.tokens, view.row_offsets, view.kept, view.kept_rank
    n_rows, width = len(row_offsets) - 1, view.width
    offsets[0] = 0
    for i in range(len(states)):
        in_tail, first, stop, has_end = _span(token, link, degree, tokens, row_offsets, states[i])
        n = 0
        if in_tail:
            n += first < stop and 0 <= tokens[first] < width
        elif len(kept) == 0:
            for child in range(first, stop):
                n += (token[child] >= 0) & (token[child] < width)
        else:
            has_end = has_end and is_kept(row, count, kept, kept_rank, n_rows, first)
            for child in range(first, stop):
                if 0 <= token[child] < width:
                    n += is_kept(row, count, kept, kept_rank, n_rows, child)
        offsets[i + 1] = offsets[i] + n + (len(view.end_ids) if has_end else 0)


@kernel
def fill_allowed(view: Any, states: Any, offsets: Any, ids: Any) -> None:
    """Write the allowed tokens to ``ids`` int32, ascending, end ids at their places."""
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, kept, kept_rank = view.tokens, view.row_offsets, view.kept, view.kept_rank
    n_rows, width, end_ids = len(row_offsets) - 1, view.width, view.end_ids
    for i in range(len(states)):
        in_tail, first, stop, has_end = _span(token, link, degree, tokens, row_offsets, states[i])
        at = offsets[i]
        source = tokens if in_tail else token
        if has_end and not in_tail:
            has_end = is_kept(row, count, kept, kept_rank, n_rows, first)
        end, ends = 0, len(end_ids) if has_end else 0
        if ends == 0 and offsets[i + 1] - at == stop - first:
            for place in range(first, stop):
                ids[at + place - first] = source[place]
            continue
        for place in range(first, stop):
            t = source[place]
            if t < 0 or t >= width:
                continue
            if not (in_tail or is_kept(row, count, kept, kept_rank, n_rows, place)):
                continue
            while end < ends and end_ids[end] < t:
                ids[at] = end_ids[end]
                at += 1
                end += 1
            ids[at] = t
            at += 1
        for later in range(end, ends):
            ids[at + later - end] = end_ids[later]


@kernel
def find_forced(view: Any, states: Any, out: Any) -> None:
    """Write the only possible next event to ``out`` int32[n], -1 where there is none or a choice.

    The end event is written as its first id. A state is left at its second event.
    """
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, kept, kept_rank = view.tokens, view.row_offsets, view.kept, view.kept_rank
    n_rows, width, end_ids = len(row_offsets) - 1, view.width, view.end_ids
    for i in range(len(states)):
        in_tail, first, stop, has_end = _span(token, link, degree, tokens, row_offsets, states[i])
        source = tokens if in_tail else token
        if has_end and not in_tail:
            has_end = is_kept(row, count, kept, kept_rank, n_rows, first)
        events, only = 0, np.int64(-1)
        if has_end and len(end_ids) > 0:
            events, only = 1, end_ids[0]
        for place in range(first, stop):
            t = source[place]
            if 0 <= t < width and (in_tail or is_kept(row, count, kept, kept_rank, n_rows, place)):
                events += 1
                only = np.int64(t)
                if events > 1:
                    break
        out[i] = only if events == 1 else -1

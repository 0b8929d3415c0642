"""The columns of a compiled JSON Schema: what the compiler writes and sessions follow texts by.

A schema becomes *values*: sets of JSON values, each a union of alternatives of every type. Value 0
is the whole text. What texts look like is said by deterministic automata over bytes, all in one
pool of *states*. There are four uses of them:

* *raw*: numbers, ``true``, ``false`` and ``null``, as the JSON text spells them;
* *strings*: what a string holds, escapes decoded, in UTF-8, without its quotes;
* *keys*: the same of the keys of an object; the label of an accepting state is the number of the
  key's slot within the object;
* *blanks*: runs of whitespace.

All are trimmed (from each state an accepting one is reachable), accept well-formed UTF-8 only, and
never a surrogate code point. Characters are counted at their first bytes.

A *choice* is one way to fill a position of an array or a slot of an object: the value it must have,
and the counters that it adds one to. Counters belong to the array or object; where an element could
have several choices, all of them are followed.

* **Arrays** have positions; the last is the *rest*, for every further element, and is always there,
  perhaps without choices.
* **Objects** have *slots*. *Single* slots are named keys, at most once each, in the byte order of
  their keys; they come first. *Regions* are sets of other keys, any number of them. In *ordered*
  objects the rank of each next key is above the last one's, but that regions (all of rank
  ``REGION_RANK``) may repeat, and no required slot is skipped.

The compiler sees to it that every value, array and object has a text, that every slot and every
position before the rest has a choice that can be filled, and that these local questions decide
whether a text can be completed:

* an object: keys so far, required slots missing and what counters lack are together at most its
  maximum; and keys so far and single slots left (any number where it has a region) at least its
  minimum;
* an array of i elements: its *capacity* is up to its maximum, or to the first position without an
  available choice. A choice is available while none of its counters is at its maximum; a rest whose
  choices all have counters with maxima offers the sum of what is left of these. Then i plus the
  capacity is at least the minimum, and what counters lack at most the capacity;
* where keys must be distinct: infinitely many go on from each of their states, so that one that was
  there before can always be made longer;
* where strings must be: what is spelled of one is the beginning of a string that was not there
  before; and the array's maximum is at most the number of its different elements, where these are
  finitely many;
* a string that is a member of a set: its trie says;
* another string: characters so far and the fewest further ones at most its maximum. Where it has a
  maximum, or a minimum above 0, every length from the fewest on is possible from every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import element_types


class SchemaArrays(NamedTuple):
    """``_offsets`` arrays have one more element than what they index; -1 is none.

    Sizes: S states, E edges, V values, C choices, A arrays, P positions, O objects, N slots, T
    tokens.
    """

    state_edges: NDArray[np.int64]  # [S + 1]
    edge_low: NDArray[np.uint8]  # [E] first byte; ranges of a state ascend and are disjoint
    edge_high: NDArray[np.uint8]  # [E] last byte
    edge_target: NDArray[np.int32]  # [E]
    state_label: NDArray[np.int32]  # [S] -1 not accepting; a slot's number for keys, else 0
    state_shortest: NDArray[np.int32]  # [S] fewest characters that begin on the way to acceptance
    state_free: NDArray[np.uint8]  # [S] FREE, ABSORBING or 0
    state_low: NDArray[np.int32]  # [S] keys: singles reachable are in [low, high); else 0
    state_high: NDArray[np.int32]  # [S]
    state_open: NDArray[np.uint8]  # [S] keys: 1 where a region is reachable; else 1
    raw_start: NDArray[np.int32]  # [V] state, or -1
    string_offsets: NDArray[np.int64]  # [V + 1] alternatives that are strings
    string_start: NDArray[np.int32]  # state; of members of a set -1 - its number
    string_min: NDArray[np.int64]  # characters
    string_max: NDArray[np.int64]  # characters, -1 unbounded
    array_offsets: NDArray[np.int64]  # [V + 1] alternatives that are arrays
    array_ids: NDArray[np.int32]  # array
    object_offsets: NDArray[np.int64]  # [V + 1] alternatives that are objects
    object_ids: NDArray[np.int32]  # object
    choice_value: NDArray[np.int32]  # [C] value; choices of positions come first, then of slots
    choice_counter_offsets: NDArray[np.int64]  # [C + 1]
    choice_counters: NDArray[np.int32]  # counters, by their numbers within the array or object
    array_min: NDArray[np.int64]  # [A] elements
    array_max: NDArray[np.int64]  # [A] elements, -1 unbounded
    array_distinct: NDArray[np.uint8]  # [A] 1: no string may be an element twice
    array_position_offsets: NDArray[np.int64]  # [A + 1] at least one each
    position_choice_offsets: NDArray[np.int64]  # [P + 1], from choice 0 on
    array_counter_offsets: NDArray[np.int64]  # [A + 1]
    array_counter_min: NDArray[np.int64]
    array_counter_max: NDArray[np.int64]  # -1 unbounded
    object_min: NDArray[np.int64]  # [O] keys
    object_max: NDArray[np.int64]  # [O] keys, -1 unbounded
    object_key: NDArray[np.int32]  # [O] start state of its keys, -1: there are none
    object_ordered: NDArray[np.uint8]  # [O] 0 or 1
    object_distinct: NDArray[np.uint8]  # [O] 1: no key of a region may stand twice
    object_slot_offsets: NDArray[np.int64]  # [O + 1]
    slot_choice_offsets: NDArray[np.int64]  # [N + 1], from the last position's choices on
    slot_single: NDArray[np.uint8]  # [N] 1 for a named key, 0 for a region
    slot_required: NDArray[np.uint8]  # [N] 0 or 1; 0 for regions
    slot_rank: NDArray[np.int32]  # [N] place in an ordered object
    object_counter_offsets: NDArray[np.int64]  # [O + 1]
    object_counter_min: NDArray[np.int64]
    object_counter_max: NDArray[np.int64]  # -1 unbounded
    blank_start: NDArray[np.int32]  # [1] state of the runs of whitespace that may stand anywhere
    indent: NDArray[np.int32]  # [1] 0; or, where the layout is json.dumps's and no other blanks may
    # stand, whatever ``blank_start`` says: columns of a level, or OWN_STYLE; plus USUAL_ESCAPES
    place_offsets: NDArray[np.int64]  # [V + 1]
    place_bytes: NDArray[np.uint8]  # JSON pointers into the schema, joined by line feeds
    key_offsets: NDArray[np.int64]  # [N + 1]
    key_bytes: NDArray[np.uint8]  # keys of single slots, UTF-8; nothing for regions
    vocabulary_offsets: NDArray[np.int64]  # [T + 1]
    vocabulary_bytes: NDArray[np.uint8]  # bytes of every token; none for special ones


FREE, ABSORBING = 1, 2
"""Of a state: whatever well-formed text follows, it can still be accepted; also, at every boundary
of characters after any text it is accepting, with the label of this state."""
REGION_RANK = 1 << 30
"""Rank of the regions of an ordered object; those of single slots are below."""
LARGEST = 1 << 40
"""Bounds of lengths and counts are below: a text never comes to it."""
MOST_INDENT = 64
OWN_STYLE = 128
"""Of ``indent``: each text keeps to one of json.dumps's styles, which its first white space tells:
none; one blank behind colons and commas; lines that are indented by two or four blanks or a tab."""
USUAL_ESCAPES = 256
"""Added to ``indent``: of printable ASCII only quotes and backslashes are escaped, by one more."""

SETS_KEY = "cdec.sets"
"""Metadata: names of the sets whose members are strings, in the order of their numbers."""

COLUMNS: Mapping[str, str] = element_types(SchemaArrays)
"""Column name -> element type."""


def arrays_from(columns: Mapping[str, Any]) -> SchemaArrays:
    """Return the arrays of an artifact's columns, contiguous and of the types of ``COLUMNS``.

    Args:
        columns: By name; lists of numbers will do.
    """
    return SchemaArrays(
        **{
            name: np.ascontiguousarray(columns[name], np.dtype(kind))
            for name, kind in COLUMNS.items()
        }
    )

"""The artifact kind ``schema``: the invariants of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import (
    Columns,
    json_object,
    require,
    require_digests,
    require_ends,
    require_length,
    require_range,
    require_rising,
    vocabulary_size,
)
from cdec.core.errors import UsageError
from cdec.core.schemas.program import (
    LARGEST,
    MOST_INDENT,
    OWN_STYLE,
    REGION_RANK,
    SETS_KEY,
    USUAL_ESCAPES,
)
from cdec.core.schemas.references import from_json
from cdec.core.schemas.regex_strings import RegexStart
from cdec.core.sets.chosen import MEMBERS_KEY, MemberChoice
from cdec.core.sets.quotes import SpanField
from cdec.core.sets.within import PINNED_KEY

__all__ = ["check_schema", "check_schema_shape", "held_members", "held_sets"]

_STATE = ("state_label", "state_shortest", "state_free", "state_low", "state_high", "state_open")
_BITS = (
    *("state_open", "array_distinct", "object_ordered", "object_distinct"),
    *("slot_single", "slot_required"),
)
_MINIMA = ("string_min", "array_min", "object_min", "array_counter_min", "object_counter_min")
_MAXIMA = ("string_max", "array_max", "object_max", "array_counter_max", "object_counter_max")


def check_schema_shape(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check lengths, ends of offsets and metadata: what is taken for granted when it opens.

    Args:
        arrays: The columns.
        metadata: The schema metadata; ``cdec.schema``, ``cdec.options``, ``cdec.unenforced``,
            ``cdec.sound`` and ``cdec.vocabulary_size`` are used.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: the same whatever the tables hold.
    """
    vocabulary_size(arrays, metadata)
    _check_metadata(metadata)
    lengths = {name: len(array) for name, array in arrays.items()}
    states, values = lengths["state_label"], lengths["raw_start"]
    choices, positions = lengths["choice_value"], lengths["position_choice_offsets"] - 1
    slots = lengths["slot_single"]
    require(states, "state_label", "at least one state")
    require(values, "raw_start", "at least one value")
    for name in _STATE:
        require_length(arrays, name, states, "value a state")
    for name in ("edge_high", "edge_target"):
        require_length(arrays, name, lengths["edge_low"], "value an edge")
    for name in ("string_min", "string_max"):
        require_length(arrays, name, lengths["string_start"], "bound a string")
    for one, other in (("array_min", "array_max"), ("object_min", "object_max")):
        require_length(arrays, other, lengths[one], "maximum a minimum")
    for name in ("array_counter", "object_counter"):
        require_length(arrays, f"{name}_max", lengths[f"{name}_min"], "maximum a minimum")
    require_length(arrays, "array_distinct", lengths["array_min"], "value an array")
    for name in ("object_key", "object_ordered", "object_distinct"):
        require_length(arrays, name, lengths["object_min"], "value an object")
    for name in ("slot_required", "slot_rank"):
        require_length(arrays, name, slots, "value a slot")
    for name in ("blank_start", "indent"):
        require_length(arrays, name, 1, "value")
    require_ends(arrays, "state_edges", states, lengths["edge_low"])
    require_ends(arrays, "string_offsets", values, lengths["string_start"])
    require_ends(arrays, "array_offsets", values, lengths["array_ids"])
    require_ends(arrays, "object_offsets", values, lengths["object_ids"])
    require_ends(arrays, "choice_counter_offsets", choices, lengths["choice_counters"])
    require_ends(arrays, "array_position_offsets", lengths["array_min"], positions)
    require_ends(arrays, "array_counter_offsets", lengths["array_min"], _of(arrays, "array"))
    require_ends(arrays, "object_slot_offsets", lengths["object_min"], slots)
    require_ends(arrays, "object_counter_offsets", lengths["object_min"], _of(arrays, "object"))
    require_ends(arrays, "place_offsets", values, lengths["place_bytes"])
    require_ends(arrays, "key_offsets", slots, lengths["key_bytes"])
    own = int(arrays["position_choice_offsets"][-1]) if positions >= 0 else -1
    require(own >= 0, "position_choice_offsets", "offsets from 0")
    require(arrays["position_choice_offsets"][0] == 0, "position_choice_offsets", "offsets from 0")
    require_length(arrays, "slot_choice_offsets", slots + 1, "offset a slot and one more")
    ends = arrays["slot_choice_offsets"]
    held = ends[0] == own and ends[-1] == choices
    require(held, "slot_choice_offsets", "the choices behind those of positions")


def _of(arrays: Columns, owner: str) -> int:
    return len(arrays[f"{owner}_counter_min"])


def _check_metadata(metadata: Mapping[str, str]) -> None:
    json_object(metadata, "cdec.options")
    require("cdec.schema" in metadata, "cdec.schema", "the source text")
    require(metadata.get("cdec.sound") in ("0", "1"), "cdec.sound", "0 or 1")
    try:
        from_json(metadata.get("cdec.references", "[]"))
    except (ValueError, RecursionError):
        require(False, "cdec.references", "documents with their digests")
    try:
        unenforced = json.loads(metadata.get("cdec.unenforced", ""))
    except (ValueError, RecursionError):
        unenforced = None
    is_list = isinstance(unenforced, list) and all(map(_is_note, unenforced))
    require(is_list, "cdec.unenforced", "a list of objects with path, keyword and reason")
    held_members(metadata)
    require_digests(metadata, PINNED_KEY)


def held_sets(metadata: Mapping[str, str]) -> dict[str, SpanField | None]:
    """Return what strings of a schema are members of, by name and in the order of their numbers.

    Returns:
        None for a set; of pieces of a document the record's field.

    Raises:
        ArtifactInvalidError: They are no distinct names.
    """
    expected = "a list of distinct names, or fields of documents"
    found: dict[str, SpanField | None] = {}
    try:
        entries = json.loads(metadata.get(SETS_KEY, "[]"))
        require(isinstance(entries, list), SETS_KEY, expected)
        for entry in entries:
            of = None if isinstance(entry, str) else SpanField.from_json(entry)
            found[entry if of is None else str(of)] = of
    except (ValueError, RecursionError, UsageError):
        entries = None
    require(entries is not None and len(found) == len(entries), SETS_KEY, expected)
    require("" not in found, SETS_KEY, expected)
    return found


def held_members(metadata: Mapping[str, str]) -> list[MemberChoice | RegexStart]:
    """Return which members strings of a schema are, in the order of their numbers.

    Raises:
        ArtifactInvalidError: They are of no set or field that the artifact holds.
    """
    sets = held_sets(metadata)
    plain = [MemberChoice((name if of is None else of,)) for name, of in sets.items()]
    if MEMBERS_KEY not in metadata:
        return [*plain]
    by_name = dict(zip(sets, plain, strict=True))
    expected = "members of the sets that the artifact holds"
    found: list[MemberChoice | RegexStart] = []
    try:
        entries = json.loads(metadata[MEMBERS_KEY])
        require(isinstance(entries, list), MEMBERS_KEY, expected)
        for entry in entries:
            choice = RegexStart.from_json(entry) or MemberChoice.from_json(entry)
            found.append(by_name.get(choice.names[0], choice) if choice.is_plain else choice)
    except (ValueError, RecursionError):
        require(False, MEMBERS_KEY, expected)
    known = {name for name, of in sets.items() if of is None}
    for choice in found:
        is_known = {*choice.names, *choice.without} <= (set(sets) if choice.is_plain else known)
        require(is_known, MEMBERS_KEY, expected)
    return found


def _is_note(entry: object) -> bool:
    fields = ("path", "keyword", "reason")
    return isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in fields)


def check_schema(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check every index of a program, so that nothing can read outside of its arrays.

    Labels of keys are checked where they are used: which object a state belongs to is not written.
    That the program is that of the schema is a matter of compiling it again.

    Args:
        arrays: The columns; ``check_schema_shape`` found them good.
        metadata: The schema metadata.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: one read of every array.
    """
    for name in arrays:
        if name.endswith("_offsets") or name == "state_edges":
            require_rising(arrays, name)
    _check_states(arrays)
    states, values = len(arrays["state_label"]), len(arrays["raw_start"])
    require_range(arrays, "raw_start", -1, states)
    members = held_members(metadata)
    require_range(arrays, "string_start", -len(members), states)
    starts = [part[0] for choice in members for part in choice.parts or ()]
    require(all(0 <= start < states for start in starts), MEMBERS_KEY, "parts that begin at states")
    require_range(arrays, "array_ids", 0, len(arrays["array_min"]))
    require_range(arrays, "object_ids", 0, len(arrays["object_min"]))
    require_range(arrays, "object_key", -1, states)
    require_range(arrays, "blank_start", 0, states)
    require_range(arrays, "choice_value", 0, values)
    layout = int(arrays["indent"][0]) & ~USUAL_ESCAPES
    require(0 <= layout <= MOST_INDENT or layout == OWN_STYLE, "indent", "a layout")
    for name in _BITS:
        require_range(arrays, name, 0, 2)
    for name in _MINIMA:
        require_range(arrays, name, 0, LARGEST)
    for name in _MAXIMA:
        require_range(arrays, name, -1, LARGEST)
    require(
        (np.diff(arrays["array_position_offsets"]) > 0).all(), "array_position_offsets", "rests"
    )
    _check_slots(arrays)
    _check_counters(arrays)


def _check_states(arrays: Columns) -> None:
    states = len(arrays["state_label"])
    require_range(arrays, "edge_target", 0, states)
    require_range(arrays, "state_label", -1, 1 << 31)
    require_range(arrays, "state_free", 0, 3)
    for name in ("state_shortest", "state_low", "state_high"):
        require_range(arrays, name, 0, 1 << 31)
    low, high = arrays["edge_low"], arrays["edge_high"]
    require((low <= high).all(), "edge_high", "no byte below edge_low")
    apart = low[1:] > high[:-1]
    begins = arrays["state_edges"]
    apart[begins[(begins > 0) & (begins < len(low))] - 1] = True
    require(apart.all(), "edge_low", "ranges that ascend within a state")


def _check_slots(arrays: Columns) -> None:
    """Single slots stand before regions, which are never required."""
    single = arrays["slot_single"].astype(np.bool_)
    rises = single[:-1] >= single[1:]
    begins = arrays["object_slot_offsets"]
    rises[begins[(begins > 0) & (begins < len(single))] - 1] = True
    require(rises.all(), "slot_single", "single slots before regions")
    require(not arrays["slot_required"][~single].any(), "slot_required", "no required regions")
    ranks = arrays["slot_rank"]
    require((ranks[~single] == REGION_RANK).all(), "slot_rank", f"{REGION_RANK} of regions")
    ranked = ranks[single]
    require(((ranked >= 0) & (ranked < REGION_RANK)).all(), "slot_rank", "ranks of single slots")


def _check_counters(arrays: Columns) -> None:
    """Counters of a choice are among those of the array or object whose choice it is."""
    counters = np.concatenate(
        [
            _spread(
                np.repeat(np.diff(arrays[f"{owner}_counter_offsets"]), np.diff(arrays[parts])),
                arrays[choices],
            )
            for owner, parts, choices in (
                ("array", "array_position_offsets", "position_choice_offsets"),
                ("object", "object_slot_offsets", "slot_choice_offsets"),
            )
        ]
    )
    most = _spread(counters, arrays["choice_counter_offsets"])
    used = arrays["choice_counters"]
    require(((used >= 0) & (used < most)).all(), "choice_counters", "counters of their owner")


def _spread(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    """Return each value as often as its range of ``offsets`` is long."""
    return np.repeat(values, np.diff(offsets))

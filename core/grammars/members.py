"""Members of sets within a text of a grammar: where each stands, and what stands for it to lark.

A text is read by the grammar alone, in which a marker stands for any member of a set, and by the
sets' own indices of texts: nothing here looks at the tries that masks walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cdec.core.grammars.columns import MARKER, stand_in
from cdec.core.grammars.session import GrammarSession
from cdec.core.session import DEAD
from cdec.core.sets.within import MemberTexts, character_end


class Member(NamedTuple):
    """A member in a text: the number of its set, its first byte, and the one behind its last."""

    number: int
    first: int
    end: int


@dataclass(frozen=True)
class Reading:
    """A text read by a grammar and its sets.

    Attributes:
        members: In their order, of one reading; None where none is a text of the grammar.
        begun: Numbers of sets, and where members of them may begin.
        is_cut: Whether the search for some member was cut off.
    """

    members: list[Member] | None
    begun: list[tuple[int, int]]
    is_cut: bool = False


def reading_of(session: GrammarSession, text: bytes, sets: Sequence[MemberTexts]) -> Reading:
    """Read a text; of several readings that with longer members first.

    Args:
        session: Of the grammar without its sets.
        text: Any bytes.
        sets: By their numbers.

    Returns:
        What was found. Cost: a step a byte, and a look-up for each length of a member where one
        may begin.
    """
    start = int(session.start(1)[0])
    open_places: list[tuple[int, int, tuple[Any, ...]]] = [(0, start, ())]
    seen, begun, is_cut = {(0, start)}, list[tuple[int, int]](), False
    while open_places:
        at, state, chosen = open_places.pop()
        if at == len(text) and bool(session.is_complete(np.array([state]))[0]):
            return Reading(_in_order(chosen), begun, is_cut)
        onward = []
        if at < len(text):
            onward.append((at + 1, _after(session, state, text[at : at + 1]), chosen))
        for number, of in enumerate(sets):
            behind = _after(session, state, bytes([MARKER, number]))
            if behind == DEAD:
                continue
            begun.append((number, at))
            for end in range(at + 1, min(len(text), at + of.longest) + 1):
                held = of.holds(text[at:end])
                is_cut |= held is None
                if held:
                    onward.append((end, behind, (Member(number, at, end), chosen)))
        for place in onward:
            if place[1] != DEAD and place[:2] not in seen:
                seen.add(place[:2])
                open_places.append(place)
    return Reading(None, begun, is_cut)


def refused_member_at(
    reading: Reading, text: bytes, byte: int, names: Sequence[str], sets: Sequence[MemberTexts]
) -> dict[str, str]:
    """Return as ``reason`` why a text is refused at a byte within a member; nothing elsewhere."""
    said = []
    for number, first in dict.fromkeys(reading.begun):
        if first < byte and sets[number].begins(text[first:byte]):
            end = character_end(text, byte)
            if end == byte and sets[number].holds(text[first:byte]):
                continue
            read = text[first:end].decode("utf-8", "replace")
            said.append(sets[number].refusal(names[number], read, end == byte))
    return {"reason": "; ".join(said)} if said else {}


def _after(session: GrammarSession, state: int, piece: bytes) -> int:
    return int(session.advance_bytes(np.array([state], np.int64), [piece])[0])


def _in_order(chosen: tuple[Any, ...]) -> list[Member]:
    found = []
    while chosen:
        member, chosen = chosen
        found.append(member)
    return found[::-1]


def with_stand_ins(text: bytes, members: Sequence[Member]) -> bytes:
    """Return a text with the character in the place of each member that stands for its set."""
    pieces, done = [], 0
    for number, first, end in members:
        pieces += [text[done:first], stand_in(number).encode()]
        done = end
    return b"".join([*pieces, text[done:]])


def has_stand_in(text: bytes, sets: int) -> bool:
    """Say whether a text has a character that stands for members of one of the sets."""
    return any(stand_in(number).encode() in text for number in range(sets))


def member_records(
    text: bytes, members: Sequence[Member], names: Sequence[str], sets: Sequence[MemberTexts]
) -> list[dict[str, Any]]:
    """Return members JSON-ready: ``set``, ``start`` and ``end`` in characters, ``id``, ``text``.

    Of pieces of documents ``quote`` and ``span`` for ``set`` and ``id``.
    """
    found = []
    for number, first, end in members:
        member = text[first:end].decode("utf-8", "replace")
        start = len(text[:first].decode("utf-8", "replace"))
        said = sets[number].record(member) or {}
        place = {"start": start, "end": start + len(member)}
        found.append({sets[number].noun: names[number], **place, **said})
    return found

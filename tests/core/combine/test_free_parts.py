"""Texts with free parts as one constraint: masks against plain Python, the laws of sessions."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.combine.free_parts import FreeTextConstraint
from cdec.core.combine.free_text import FreeText
from cdec.core.errors import UsageError
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes
from tests.laws.worlds import Row
from tests.samplers.free.two_stage import SPECIAL, World

S, E = SPECIAL
PIECES = (b"a", b"b", S, E, b"ab", b"|", b"|a", b"b|", b"a|")
MEMBERS = (b"a", b"ab", b"ba")
THINK = FreeText(after=("b<s>",), budget=2)
CASES = [
    FreeText(after=("|",)),
    FreeText(after=("<s>", "b|")),
    FreeText(after=("|",), budget=2),
    FreeText(after=("a<s>",), budget=0),
    # Markers that overlap: one within another, one that begins another, and a pair of one text.
    FreeText(after=("b|", "|b"), budget=3),
    FreeText(after=("aa", "aab", "ba")),
    FreeText(between=("|", "|"), regions=1, budget=1),
    FreeText(between=("ab", "b"), regions=1, budget=2),
    FreeText(after=("|",), closing="<e>", optional=True),
    FreeText(after=("<s>",), closing="|", budget=1),
    FreeText(between=("<s>", "<e>")),
    FreeText(between=("|", "<e>"), regions=1, budget=1),
    FreeText(between=("<s>", "|"), regions=2, budget=0),
    FreeText(after=("|",), thinking=THINK),
    FreeText(between=("|", "<e>"), thinking=THINK, regions=1),
    FreeText(after=("|",), thinking=FreeText(after=("<s>",))),
]


def as_bytes(marker: str) -> bytes:
    for piece, word in SPECIAL.items():
        marker = marker.replace(word, piece.decode("latin-1"))
    return marker.encode("latin-1")


class Read:
    """A text read token by token by its bytes alone; ``mode`` is None where it cannot be."""

    def __init__(self, world: World, free: FreeText) -> None:
        self.world, self.free = world, free
        end = free.end if free.closing is None else free.closing
        self.end = None if end is None else as_bytes(end)
        self.mode: str | None = "think" if free.thinking is not None else "free"
        self.text, self.written, self.regions, self.forced = b"", 0, 0, False
        self.force()

    @property
    def stage(self) -> FreeText:
        return self.free.thinking if self.mode == "think" else self.free  # type: ignore[return-value]

    @property
    def owes(self) -> bool:
        return self.mode in ("think", "free") and self.stage.owes(self.regions)

    def force(self) -> None:
        budget = self.stage.budget
        if self.owes and budget is not None and self.written >= budget:
            self.forced = True

    def opens(self, onward: bytes) -> bool:
        if self.mode == "think":
            return not any(as_bytes(m) in onward for m in self.free.markers)
        wholes = [m + (self.end or b"") for m in self.world.members]
        is_open = any(w.startswith(onward) and w != onward for w in wholes)
        return not onward or is_open or (self.end is None and onward in self.world.members)

    def step(self, token: int) -> None:
        piece = self.world.pieces[token]
        if self.mode == "part":
            self.part(self.text + piece)
            return
        markers = [as_bytes(m) for m in self.stage.markers]
        known = {b"".join(markers).count(s) and s for s in (S, E)}
        if piece in (S, E) and piece not in known:
            piece = b""  # stands in no marker
        whole = self.text + piece
        if self.forced and not self.leads(piece, markers[0]):
            self.mode = None
            return
        lengths = range(len(self.text) + 1, len(whole) + 1)
        ends = [n for n in lengths if any(whole[:n].endswith(m) for m in markers)]
        if not ends:
            self.text, self.written = whole, self.written + 1
            self.force()
            return
        onward = whole[ends[0] :]
        if not self.opens(onward):
            self.mode = None
        elif self.mode == "think":
            self.mode, self.text, self.written, self.forced = "free", onward, 0, False
            self.force()
        else:
            self.mode, self.text, self.forced = "part", onward, False

    def leads(self, piece: bytes, marker: bytes) -> bool:
        there = max(n for n in range(len(marker)) if self.text.endswith(marker[:n]))
        left = marker[there:]
        if left.startswith(piece) and piece:
            return True
        return piece.startswith(left) and self.opens(piece[len(left) :])

    def part(self, text: bytes) -> None:
        self.text = text
        wholes = [m + (self.end or b"") for m in self.world.members]
        done = [len(w) for w in wholes if text.startswith(w)] if self.end is not None else []
        if not done:
            self.mode = "part" if any(w.startswith(text) for w in wholes) else None
            return
        rest = text[min(done) :]
        if self.free.between is None:
            self.mode = "done" if not rest else None
        elif as_bytes(self.free.between[0]) in rest:
            self.mode = None
        else:
            self.mode, self.text, self.written, self.regions = "free", rest, 0, self.regions + 1
            self.force()

    @property
    def may_end(self) -> bool:
        if self.mode == "part":
            return self.end is None and self.text in self.world.members
        return self.mode in ("think", "free") and not self.owes


@pytest.mark.parametrize("free", CASES, ids=range(len(CASES)))
@pytest.mark.share(6)
def test_masks_are_those_of_a_text_read_by_its_bytes(free: FreeText) -> None:
    world = World(PIECES, MEMBERS)
    constraint = FreeTextConstraint(world.constraint(), free)
    session = constraint.session()

    def read(prefix: Row) -> Read:
        found = Read(world, free)
        for token in prefix:
            found.step(token)
        return found

    def allowed(prefix: Row) -> set[int]:
        if len(PIECES) in prefix:
            return set()
        here = read(prefix)
        if here.mode == "done":
            return set()
        found = {t for t in range(len(PIECES)) if read((*prefix, t)).mode is not None}
        return found | ({len(PIECES)} if here.may_end else set())

    prefixes = random_prefixes(session, np.random.default_rng(2), 60, 7)
    assert_allowed_is(session, prefixes, allowed, world.vocabulary.width)
    assert_session_laws(constraint, [], np.random.default_rng(3), max_states=80)


def test_markers_that_cannot_be_are_refused() -> None:
    inner = World(PIECES, MEMBERS).constraint()
    with pytest.raises(UsageError, match="can never appear"):
        FreeTextConstraint(inner, FreeText(after=("é",)))
    with pytest.raises(UsageError, match="spell the marker"):
        FreeTextConstraint(
            World((b"az", b"x"), (b"x",)).constraint(), FreeText(after=("z",), budget=1)
        )

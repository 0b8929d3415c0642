"""Compiled regexes, grammars and schemas behind free text: their own masks, verdicts and laws."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint
from cdec.core import FreeText, Vocabulary
from cdec.core.constraint import Constraint
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.free.draws import FreeParts
from tests.laws.gtest import g_test
from tests.laws.sessions import own_mask
from tests.samplers.free.test_free_law import drawn, joint, masked, target
from tests.samplers.free.two_stage import MEMBERS, PIECES, World

GRAMMAR = 'start: "a" ("b" "b"?)? | "ba"'
SCHEMA = '{"enum": [1, 11, 112, "x"]}'
DIGITS = (b"1", b"2", b"|", b"11", b"1|", b"|1", b'"', b'|"', b"x", b"12")
NUMBERS = (b"1", b"11", b"112", b'"x"')
AFTER = FreeText(after=("|",))
KINDS = pytest.mark.parametrize("name", ["regex", "grammar", "schema"])
MAKE: dict[str, Callable[[Vocabulary], Constraint]] = {
    "regex": lambda vocabulary: regex_constraint("a(bb?)?|ba", vocabulary),
    "grammar": lambda vocabulary: grammar_constraint(GRAMMAR, vocabulary),
    "schema": lambda vocabulary: schema_constraint(SCHEMA, vocabulary),
}
_MADE: dict[str, Constraint] = {}


@dataclass(frozen=True)
class Compiled(World):
    """A world whose constraint is compiled; its members are all that it accepts."""

    name: str = ""

    def constraint(self) -> Constraint:
        if self.name not in _MADE:
            _MADE[self.name] = MAKE[self.name](self.vocabulary)
        return _MADE[self.name]


def world_of(name: str) -> Compiled:
    is_schema = name == "schema"
    pieces, members = (DIGITS, NUMBERS) if is_schema else (PIECES, MEMBERS)
    return Compiled(pieces, members, name=name)


def accepts(name: str, text: str) -> bool:
    """By other readers than cdec's own."""
    if name == "schema":
        return text in ("1", "11", "112", '"x"') and json.loads(text) in (1, 11, 112, "x")
    return re.fullmatch("a(bb?)?|ba", text) is not None


@KINDS
@pytest.mark.parametrize("method", ["masked", "exact"])
def test_draws_have_the_law_of_both_stages(name: str, method: str) -> None:
    world = world_of(name)
    options = {"exact": {"fallback": "none"}}.get(method, {})
    request = Request.numbered(
        [0], world.constraint(), id="q", n=1500, seed=2, max_new_tokens=4, free=AFTER
    )
    (samples,) = SAMPLERS[method](**options).draw_batch(world.model(), [request])
    assert isinstance(samples, list), samples
    law = masked if method == "masked" else target
    assert g_test(drawn(samples), joint(world, [b"|"], law)) > 1e-4
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert ended and all(s.valid is True and accepts(name, s.text or "") for s in ended)
    # What stands before the marker is no part of what is judged.
    assert any(not accepts(name, (s.free_text + (s.text or ""))) for s in ended)


@KINDS
def test_texts_that_nothing_masks_are_judged_from_the_marker_on(name: str) -> None:
    world = world_of(name)
    request = Request.numbered([0], world.constraint(), id="q", n=300, max_new_tokens=6, free=AFTER)
    (samples,) = SAMPLERS["unconstrained"]().draw_batch(world.model(), [request])
    assert isinstance(samples, list)
    reached = [s for s in samples if s.marker is not None]
    for sample in reached:
        member = world.text(tuple(sample.token_ids)).partition(b"|")[2].decode()
        is_member = sample.finish_reason == "complete" and accepts(name, member)
        assert bool(sample.valid) == is_member, sample
    assert {bool(s.valid) for s in reached} == {True, False}


@KINDS
def test_masks_behind_the_marker_are_the_constraints_own_bit_for_bit(name: str) -> None:
    world = world_of(name)
    constraint, parts = world.constraint(), FreeParts()
    assert parts.constrained(constraint, AFTER, b"") is constraint
    spelt = {
        row[:n]: row[n:]
        for member in world.members
        for row in world.spellings(member)
        for n in range(len(row) + 1)
    }
    for begun in list(spelt):
        onward = world.text(begun)
        if not onward:
            continue
        started = parts.constrained(constraint, AFTER, onward)
        for rest, _ in ((row[len(begun) :], 0) for row in spelt if row[: len(begun)] == begun):
            own = own_mask(constraint, [*begun, *rest])
            assert np.array_equal(own_mask(started, [*rest]), own)
    between = replace(AFTER, after=(), between=("|", "|"))
    tagged = parts.constrained(constraint, between, b"")
    ends = [world.vocabulary.eos_token_ids[0]]
    for row in spelt:
        own, region = own_mask(constraint, [*row]), own_mask(tagged, [*row])
        may_end = bool(own[ends].all())
        own[ends] = False
        assert not region[ends].any() and not (own & ~region).any()
        added = [world.pieces[t] for t in np.flatnonzero(region & ~own).tolist()]
        assert all(b"|" in piece for piece in added)
        assert (b"|" in added) == may_end

"""The law of free text before constraints, and its costs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint
from cdec.core import Vocabulary
from cdec.core.combine.free_parts import FreeParts
from cdec.core.combine.free_text import FreeText
from cdec.core.constraint import Constraint
from cdec.core.models.loading import wrap_module
from cdec.integrations.findings import enumeration
from cdec.samplers import SAMPLERS, Request
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.laws.gtest import g_test
from tests.laws.sessions import own_mask
from tests.laws.worlds import Row, Toy, toy_set
from tests.samplers.free.two_stage import (
    END,
    LENGTH,
    MARKER,
    MEMBERS,
    PIECES,
    SET_WORLD,
    WORLD,
    Free,
    World,
)
from tests.samplers.smc_laws import smc

# --- The law of texts with a free part, P(free part) * Q(constrained part | free part),
# enumerated.

LIMIT = 4
DRAWS = 3000

Law = Callable[[Toy, int, Row], dict[Row | None, float]]
"""Of a constrained part, its tokens at most, and the free part before it."""


def joint(world: World, markers: list[bytes], law: Law) -> dict[object, float]:
    """Return the probability of every outcome: how the text ended, its tokens, where free ends."""
    outcomes: dict[object, float] = {}

    def add(key: object, p: float) -> None:
        outcomes[key] = outcomes.get(key, 0.0) + p

    for free in world.free_parts(markers, LIMIT):
        if free.kind == END:
            add(("no_marker", free.tokens, len(free.tokens)), free.p)
        elif free.kind == LENGTH or len(free.tokens) == LIMIT:
            add(("length", free.tokens, len(free.tokens)), free.p)
        else:
            toy = world.toy(free.tokens, free.onward)
            for row, p in law(toy, LIMIT - len(free.tokens), free.tokens).items():
                if row is None:
                    add("lost", free.p * p)
                else:
                    add(("complete", free.tokens + row, len(free.tokens)), free.p * p)
    return outcomes


def drawn(samples: list) -> list[object]:  # type: ignore[type-arg]
    return [
        "lost"
        if s.finish_reason == "dead_end"
        or (s.finish_reason == "length" and s.marker is not None and s.free_tokens < LIMIT)
        else (s.finish_reason, tuple(s.token_ids), s.free_tokens)
        for s in samples
    ]


def masked(toy: Toy, limit: int, *_: Row) -> dict[Row | None, float]:
    return enumeration.masked(toy, limit).law


def target(toy: Toy, limit: int, *_: Row) -> dict[Row | None, float]:
    """Return Q among the rows that fit; where none fits all is lost."""
    fits = [row for row in toy.members if len(row) <= limit]
    if not fits:
        return {None: 1.0}
    return dict(enumeration.target(Toy(toy.vocabulary, toy.probabilities, fits)))


def disc2(toy: Toy, limit: int, *_: Row) -> dict[Row | None, float]:
    return enumeration.disc(toy, 2, limit=limit)


def smc2(toy: Toy, limit: int, *_: Row) -> dict[Row | None, float]:
    law: dict[Row | None, float] = {}
    for (row, evidence, _), p in smc(toy, 2, 0.5, limit).items():
        key = row if evidence > 0 else None
        law[key] = law.get(key, 0.0) + p
    return law


@pytest.mark.share("method")
@pytest.mark.parametrize("world", [WORLD, SET_WORLD], ids=["bytes", "tokens"])
@pytest.mark.parametrize(
    ("method", "options", "law"),
    [
        ("masked", {}, masked),
        ("disc", {"max_tries": 2}, disc2),
        ("smc", {"particles": 2, "resample_below": 0.5}, smc2),
        ("exact", {"fallback": "none"}, target),
        ("speculative", {"draft": "prompt-lookup", "gamma": 2}, masked),
    ],
)
def test_draws_have_the_law_of_both_stages(
    world: World, method: str, options: dict[str, object], law: Law
) -> None:
    sampler = SAMPLERS[method](**options)
    request = Request.numbered(
        [0],
        world.constraint(),
        id="q",
        n=DRAWS,
        seed=1,
        max_new_tokens=LIMIT,
        free=FreeText(after=("|",)),
    )
    (samples,) = sampler.draw_batch(world.model(), [request])
    assert isinstance(samples, list), samples
    assert g_test(drawn(samples), joint(world, [b"|"], law)) > 1e-4


def parts_of(world: World, markers: list[bytes]) -> dict[Row, Free]:
    return {f.tokens: f for f in world.free_parts(markers, LIMIT) if f.kind == MARKER}


def test_weights_and_log_probabilities_are_those_of_the_parts() -> None:
    request = Request.numbered(
        [0], WORLD.constraint(), id=1, n=200, max_new_tokens=LIMIT, free=FreeText(after=("|",))
    )
    (samples,) = SAMPLERS["masked"]().draw_batch(WORLD.model(), [request])
    assert isinstance(samples, list)
    parts = parts_of(WORLD, [b"|"])
    seen = 0
    for sample in samples:
        if sample.finish_reason != "complete":
            continue
        seen += 1
        free = parts[tuple(sample.token_ids[: sample.free_tokens])]
        row = tuple(sample.token_ids[sample.free_tokens :])
        toy = WORLD.toy(free.tokens, free.onward)
        x = enumeration.masked(toy, LIMIT - len(free.tokens)).x[row]
        own = enumeration.log_prob(toy, row)
        assert sample.free_logprob == pytest.approx(free.log_p)
        assert sample.free_log_z == pytest.approx(free.log_z, abs=1e-12)
        assert sample.logprob == pytest.approx(free.log_p + own)
        assert sample.log_weight == pytest.approx(math.log(x))
        assert sample.log_candidate_weight == pytest.approx(math.log(x))
        assert sample.log_mass_lower <= math.log(_fitting(toy, LIMIT - len(free.tokens))) + 1e-9
        assert sample.log_mass_upper >= math.log(_fitting(toy, LIMIT - len(free.tokens))) - 1e-9
        whole = WORLD.text(tuple(sample.token_ids)).decode()
        assert sample.free_text + sample.text == whole and sample.free_text.endswith("|")
        assert sample.valid is True and sample.marker == "|" and sample.forced is False
    assert seen > 50


def _fitting(toy: Toy, limit: int) -> float:
    return sum(math.exp(enumeration.log_prob(toy, r)) for r in toy.members if len(r) <= limit)


def test_greedy_takes_the_most_probable_event_of_both_parts() -> None:
    for seed in range(12):
        world = World(WORLD.pieces, WORLD.members, seed=seed, end=0.02)
        request = Request.numbered(
            [0], world.constraint(), id=1, max_new_tokens=6, free=FreeText(after=("|",))
        )
        (samples,) = SAMPLERS["greedy"]().draw_batch(world.model(), [request])
        assert isinstance(samples, list)
        tokens: list[int] = []
        onward = None
        while onward is None and len(tokens) < 6:
            given = world.probabilities(tuple(tokens))
            text = world.text(tuple(tokens))
            ways = [t for t in range(8) if world.allowed(text, t, [b"|"])[0]]
            best = max(ways, key=lambda t: given[t])
            onward = world.allowed(text, best, [b"|"])[1]
            tokens.append(best)
        assert samples[0].token_ids[: len(tokens)] == tokens
        if onward is None or len(tokens) == 6:
            assert samples[0].finish_reason == "length"
            continue
        toy, row = world.toy(tuple(tokens), onward), ()
        while len(tokens) + len(row) < 6:
            given = toy.probabilities(row)
            ways = sorted({r[len(row)] for r in toy.members if r[: len(row)] == row and r != row})
            ends = row in toy.members
            best = max([*ways, *([8] if ends else [])], key=lambda t: (given[t], t < 8))
            if best == 8:
                break
            row = (*row, best)
        if samples[0].finish_reason == "complete":
            assert samples[0].token_ids == [*tokens, *row]
            assert samples[0].log_weight is None


def test_asap_learns_the_law_given_each_free_part() -> None:
    # One free part: the marker is sure at first.
    world = _sure_marker()
    request = Request.numbered(
        [0], world.constraint(), id=5, n=1500, max_new_tokens=4, free=FreeText(after=("|",))
    )
    (samples,) = SAMPLERS["asap"](burn_in=60).draw_batch(world.model(), [request])
    assert isinstance(samples, list)
    law = target(world.toy((2,), b""), 3)
    assert g_test([tuple(s.token_ids[1:]) for s in samples], dict(law)) > 1e-4
    assert all(s.free_tokens == 1 for s in samples)


def _sure_marker() -> World:
    class Sure(World):
        def probabilities(self, prefix: Row) -> np.ndarray:  # type: ignore[type-arg]
            if not prefix:
                return np.eye(9)[2]
            return super().probabilities(prefix)

    return Sure(WORLD.pieces, WORLD.members)


def test_unconstrained_draws_strike_nothing_out() -> None:
    request = Request.numbered(
        [0],
        WORLD.constraint(),
        id=1,
        n=DRAWS,
        max_new_tokens=LIMIT,
        free=FreeText(after=("|",)),
    )
    (samples,) = SAMPLERS["unconstrained"]().draw_batch(WORLD.model(), [request])
    assert isinstance(samples, list)
    law: dict[object, float] = {}
    for free in WORLD.free_parts([b"|"], LIMIT, strict=False):
        law[free.tokens] = law.get(free.tokens, 0.0) + free.p
    assert g_test([tuple(s.token_ids[: s.free_tokens]) for s in samples], law) > 1e-4
    for sample in samples:
        whole = WORLD.text(tuple(sample.token_ids))
        member = whole[whole.find(b"|") + 1 :] if b"|" in whole else None
        is_member = sample.finish_reason == "complete" and member in WORLD.members
        assert bool(sample.valid) == is_member, (sample, whole)
        assert sample.log_weight == (0.0 if is_member else None)


# --- Compiled regexes, grammars and schemas behind free text: their own masks, verdicts and laws.

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
@pytest.mark.share(2)
def test_compiled_draws_have_the_law_of_both_stages(name: str, method: str) -> None:
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


# --- What free text costs: the model reads the prompt and each token of it once.

ROWS = [[20, 21, 22], [20, 30], [40]]
PROMPT = [5, 6, 7, 8, 9, 10]


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize(
    "free",
    [FreeText(after=("\x07",), budget=9), FreeText(between=("\x07", "\x0b"), regions=3, budget=4)],
    ids=["after", "between"],
)
def test_every_token_is_read_once(name: str, free: FreeText) -> None:
    model = wrap_module(tiny_module(name), VOCABULARY)
    constraint, read = toy_set(ROWS, VOCABULARY), 0
    for seed in range(4):
        request = Request.numbered(
            PROMPT, constraint, id=1, n=1, seed=seed, max_new_tokens=40, free=free
        )
        (samples,) = SAMPLERS["masked"]().draw_batch(model, [request])
        assert isinstance(samples, list)
        (sample,) = samples
        now, read = model.total_usage.tokens - read, model.total_usage.tokens
        # A decoder's first token is of no prompt.
        assert sample.target_tokens == now - (name == "t5")
        # Behind a region its own tokens are read again.
        regions = () if free.end is None else sample.regions
        again = sum(region["tokens"] for region in regions)
        # A text that the model ends before it has a token is forced from its prompt on.
        again += len(PROMPT) if sample.forced else 0
        assert now <= len(sample.token_ids) + len(PROMPT) + 1 + again
    assert model.tree.live == 0

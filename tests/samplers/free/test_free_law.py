"""The law of texts with a free part, P(free part) * Q(constrained part | free part), enumerated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from cdec.core.combine.free_text import FreeText
from cdec.samplers import SAMPLERS, Request
from tests.laws.gtest import g_test
from tests.laws.toys import Row, Toy
from tests.samplers import enumeration
from tests.samplers.free.two_stage import END, LENGTH, MARKER, SET_WORLD, WORLD, Free, World
from tests.samplers.smc_laws import smc

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

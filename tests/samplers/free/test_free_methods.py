"""Every method behind free text: each draws its part as it draws any text, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.free_text import FreeText
from cdec.core.combine.tagged import StartedConstraint
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.integrations.findings import enumeration
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.registry import METHODS
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy
from tests.samplers.drafts.draft_laws import Rounds
from tests.samplers.drafts.draft_toys import Pair
from tests.samplers.free.test_free_law import drawn, joint
from tests.samplers.free.two_stage import SET_WORLD, WORLD, World
from tests.samplers.lookahead import lookahead_reference as reference
from tests.samplers.lookahead.lookahead_reference import TextReward

LIMIT = 4
DRAWS = 1500
AFTER = FreeText(after=("|",))
WORLDS = pytest.mark.parametrize("world", [WORLD, SET_WORLD], ids=["bytes", "tokens"])
DRAFT = replace(WORLD, seed=9)
"""Another law over the same tokens."""


def score(text: str) -> float:
    return text.count("b") / 2


def reward() -> TextReward:
    return TextReward(lambda text, _: score(text))


def draft() -> TabularModel:
    return TabularModel(DRAFT.probabilities, WORLD.vocabulary)


def options_of(method: str) -> dict[str, Any]:
    declared = METHODS[method]
    own = {"asap": {"burn_in": 3}, "exact": {"fallback": "none"}, "beam": {"beams": 24}}
    options: dict[str, Any] = dict(own.get(method, {}))
    if declared.needs_reward:
        options |= {"reward": reward(), "depth": 2, "branch": 3}
    if declared.needs_draft:
        options["draft"] = draft()
    return options


def samples_of(method: str, world: World, n: int, limit: int = LIMIT, **options: Any) -> Any:
    request = Request.numbered(
        [0], world.constraint(), id="q", n=n, seed=1, max_new_tokens=limit, free=AFTER
    )
    (samples,) = SAMPLERS[method](**options).draw_batch(world.model(), [request])
    assert isinstance(samples, list), samples
    return samples


def mentored(nats: float) -> Callable[[World, Row, Toy, int], dict[Row | None, float]]:
    def law(world: World, free: Row, toy: Toy, limit: int) -> dict[Row | None, float]:
        pair = Pair(toy, lambda prefix: DRAFT.probabilities((*free, *prefix)), limit=limit)
        found: dict[Row | None, float] = {}
        for (row, reason), p in Rounds(pair, pair.draft_law, 2, nats).law().items():
            key = row if reason == "complete" else None
            found[key] = found.get(key, 0.0) + p
        return found

    return law


def cdsl(world: World, free: Row, toy: Toy, limit: int) -> dict[Row | None, float]:
    ahead = lookahead(world, free, toy, limit, is_drafted=True)
    found: dict[Row | None, float] = {}
    for (row, finish), p in reference.law_of_cdsl(ahead, reference.Options()).items():
        key = row if finish == "complete" else None
        found[key] = found.get(key, 0.0) + p
    return found


def lookahead(
    world: World, free: Row, toy: Toy, limit: int, *, is_drafted: bool
) -> reference.World:
    """The constrained part; its reward sees what the marker's token began, too."""
    begun = "" if world.by_tokens else world.text(free).partition(b"|")[2].decode()
    return reference.World(
        toy,
        set(toy.members),
        limit,
        lambda text: score(begun + text),
        (lambda prefix: DRAFT.probabilities((*free, *prefix))) if is_drafted else None,
        branch=3,
        depth=2,
    )


@WORLDS
@pytest.mark.parametrize(
    ("method", "options", "law"),
    [
        ("mentored", {"gamma": 2, "divergence": 0.3}, mentored(0.3)),
        ("speculative", {"gamma": 2}, mentored(0.0)),
        ("cdsl", {"verify": "speculative", "depth": 2, "branch": 3}, cdsl),
    ],
)
@pytest.mark.share(1)
def test_draws_by_a_draft_have_the_law_of_both_stages(
    world: World, method: str, options: dict[str, Any], law: Any
) -> None:
    own = options | ({"reward": reward()} if METHODS[method].needs_reward else {})
    samples = samples_of(method, world, DRAWS, draft=draft(), **own)
    expected = joint(world, [b"|"], lambda toy, limit, free: law(world, free, toy, limit))
    assert g_test(drawn(samples), expected) > 1e-4


def greedy_free(world: World, limit: int) -> tuple[Row, bytes] | None:
    """Return the most probable free part and what its last token has behind the marker."""
    tokens: Row = ()
    while len(tokens) < limit:
        given = world.probabilities(tokens)
        ways = {t: world.allowed(world.text(tokens), t, [b"|"]) for t in range(len(world.pieces))}
        best = max([t for t, (ok, _) in ways.items() if ok], key=lambda t: given[t])
        if given[-1] > given[best]:
            return None
        tokens, onward = (*tokens, best), ways[best][1]
        if onward is not None:
            return tokens, onward
    return None


def greedy_worlds() -> Iterator[tuple[World, Row, bytes]]:
    """Yield worlds whose most probable free part ends, with it and what follows the marker."""
    for seed in range(14):
        for base in (WORLD, SET_WORLD):
            world = replace(base, seed=seed, end=0.02)
            found = greedy_free(world, 6)
            if found is not None:
                yield world, *found


def test_searches_find_the_most_probable_texts_behind_the_most_probable_free_part() -> None:
    seen = 0
    for world, free, onward in greedy_worlds():
        toy, limit = world.toy(free, onward), 8 - len(free)
        fits = [row for row in toy.members if len(row) <= limit]
        best = sorted(fits, key=lambda row: -enumeration.log_prob(toy, row))
        for method in ("topn", "beam"):
            own = {"beams": 64, "length_penalty": 0.0} if method == "beam" else {}
            samples = samples_of(method, world, 3, 8, **own)
            ended = [s for s in samples if s.finish_reason == "complete"]
            rows = [tuple(s.token_ids[len(free) :]) for s in ended]
            assert all(tuple(s.token_ids[: len(free)]) == free for s in samples)
            assert rows == best[:3], method
            seen += 1
            if method == "topn":
                total = sum(np.exp(enumeration.log_prob(toy, row)) for row in fits)
                for sample, row in zip(ended, rows, strict=True):
                    q = np.exp(enumeration.log_prob(toy, row)) / total
                    assert (
                        sample.probability_lower <= q + 1e-9
                        and sample.probability_upper >= q - 1e-9
                    )
    assert seen > 15


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
def test_rewards_look_ahead_behind_the_most_probable_free_part(method: str) -> None:
    seen = 0
    for world, free, onward in greedy_worlds():
        ahead = lookahead(
            world, free, world.toy(free, onward), 8 - len(free), is_drafted=method != "cdlh"
        )
        run = reference.cdlh(ahead)
        if method == "cdsl":
            run = reference.cdsl(ahead, reference.Options())
        (sample,) = samples_of(method, world, 1, 8, **options_of(method))
        assert tuple(sample.token_ids) == (*free, *run.tokens)
        assert sample.finish_reason == run.finish
        seen += 1
    assert seen > 8


OWN = ("log_weight", "log_candidate_weight", "finish_reason", "valid", "text", "method", "index")


@WORLDS
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.share(10)
def test_every_method_draws_its_part_as_if_free_text_were_the_prompt(
    world: World, method: str
) -> None:
    """With the same seeds, tokens, weights, verdicts and bounds are those without free text."""
    # Of a world in which searches, too, come to the marker.
    seeds = (replace(world, seed=seed, end=0.05) for seed in itertools.count())
    world = next(each for each in seeds if greedy_free(each, 5) is not None)
    samples = samples_of(method, world, 24, 6, **options_of(method))
    parts: dict[Row, list[Sample]] = {}
    for sample in samples:
        if sample.marker is not None and sample.free_tokens < 6:
            free = tuple(sample.token_ids[: sample.free_tokens])
            parts.setdefault(free, []).append(sample)
    assert parts
    for free, group in parts.items():
        onward = world.text(free).partition(b"|")[2]
        constraint = world.constraint()
        if onward:
            constraint = StartedConstraint(constraint, onward)
        model = TabularModel(
            lambda p, free=free: world.probabilities((*free, *p)), world.vocabulary
        )
        own = options_of(method)
        if "draft" in own:
            own["draft"] = TabularModel(
                lambda p, free=free: DRAFT.probabilities((*free, *p)), world.vocabulary
            )
        request = Request(
            [0],
            constraint,
            [sample.seed for sample in group],
            indices=[sample.index for sample in group],
            max_new_tokens=6 - len(free),
            id="q",
        )
        (alone,) = SAMPLERS[method](**own).draw_batch(model, [request])
        assert isinstance(alone, list), alone
        for sample, other in zip(group, alone, strict=True):
            assert sample.token_ids[len(free) :] == other.token_ids
            assert [getattr(sample, name) for name in OWN] == [getattr(other, name) for name in OWN]
            for name in ("log_mass", "log_mass_lower", "log_mass_upper", "kl_spent", "rank"):
                assert sample.diagnostics.get(name) == other.diagnostics.get(name), name

"""cdsl that verifies as the paper prints it: its law and what it accepts, by enumeration."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest

from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from tests.samplers.lookahead.lookahead_reference import Options, TextReward, law_of_cdsl
from tests.samplers.lookahead.test_cdlh_random import setting

DRAWS = 4000


def drawn_law(seed: int, verify: str) -> tuple[Counter[Any], dict[Any, float], list[str]]:
    """Return how often each text of a random toy was drawn, and the enumerated law."""
    toy, world, request, draft, options = setting(seed, "cdsl")
    request = dataclasses.replace(request, seeds=list(range(DRAWS)), max_new_tokens=5)
    world.limit = 5
    chosen = Options(tries=1, accept=0.3, reward=0.3, ratio=verify == "ratio")
    sampler = SAMPLERS["cdsl"](draft=draft, verify=verify, **options)
    model = TabularModel(toy.probabilities, toy.vocabulary)
    (samples,) = sampler.draw_batch(model, [request])
    assert isinstance(samples, list), samples
    found = Counter((tuple(each.token_ids), each.finish_reason) for each in samples)
    return found, law_of_cdsl(world, chosen), [each.exactness for each in samples]


@pytest.mark.parametrize("verify", ["ratio", "speculative"])
@pytest.mark.parametrize("seed", [7, 30, 51])
def test_the_law_is_the_enumerated_one(seed: int, verify: str) -> None:
    """Each count is within 5 standard deviations of what is expected; none is outside the law."""
    found, law, exactness = drawn_law(seed, verify)
    assert sum(law.values()) == pytest.approx(1.0)
    assert len(law) > 1, "the toy leaves something to chance"
    assert set(found) <= set(law)
    for text, probability in law.items():
        spread = np.sqrt(DRAWS * probability * (1 - probability))
        assert abs(found[text] - DRAWS * probability) <= 5 * spread + 1e-9, text
    assert set(exactness) == {"heuristic"}


def test_the_two_rules_have_different_laws() -> None:
    _, ratio, _ = drawn_law(30, "ratio")
    _, speculative, _ = drawn_law(30, "speculative")
    keys = ratio.keys() | speculative.keys()
    distance = sum(abs(ratio.get(key, 0.0) - speculative.get(key, 0.0)) for key in keys) / 2
    assert distance > 0.05


TARGET, DRAFT = [0.45, 0.35, 0.2, 0.0], [0.1, 0.6, 0.3, 0.0]


@pytest.mark.parametrize(("verify", "rate"), [("ratio", 0.35 / 0.6), ("speculative", 0.35)])
def test_a_drafted_token_is_accepted_with_min_1_q_over_p(verify: str, rate: float) -> None:
    """One token: the draft says b of probability .6 each time, the target gives it .35."""
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], [3], [3])
    models = [TabularModel(lambda prefix, law=law: law, vocabulary) for law in (TARGET, DRAFT)]  # type: ignore[misc]
    sampler = SAMPLERS["cdsl"](
        draft=models[1], reward=TextReward(lambda text, _: 1.0), depth=1, verify=verify,
        reward_threshold=0.0, accept_threshold=1.0, target_tries=0,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    samples = sampler.draw(models[0], None, "", n=DRAWS, rng=rng, max_new_tokens=1)
    share = np.mean([each.diagnostics["acceptance_rate"] == 1.0 for each in samples])
    assert abs(share - rate) <= 5 * np.sqrt(rate * (1 - rate) / DRAWS)
    texts = Counter(each.text for each in samples)
    assert texts["b"] / DRAWS == pytest.approx(share)
    # Not lossless: the target writes b with .35, and this rule with .58.
    assert (abs(texts["b"] / DRAWS - 0.35) < 0.05) == (verify == "speculative")


def test_what_the_draft_finds_less_likely_than_the_target_is_always_kept() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], [3], [3])
    surer = TabularModel(lambda prefix: [0.9, 0.05, 0.05, 0.0], vocabulary)
    draft = TabularModel(lambda prefix: [0.5, 0.25, 0.25, 0.0], vocabulary)
    sampler = SAMPLERS["cdsl"](draft=draft, reward=TextReward(lambda text, _: 1.0), verify="ratio")
    rng = np.random.default_rng(1)
    samples = sampler.draw(surer, None, "", n=200, rng=rng, max_new_tokens=6)
    assert {each.diagnostics["acceptance_rate"] for each in samples} == {1.0}
    assert {each.text for each in samples} == {"aaaaaa"}


def test_what_the_target_never_writes_is_never_kept() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], [3], [3])
    target = TabularModel(lambda prefix: [1.0, 0.0, 0.0, 0.0], vocabulary)
    draft = TabularModel(lambda prefix: [0.0, 1.0, 0.0, 0.0], vocabulary)
    sampler = SAMPLERS["cdsl"](draft=draft, reward=TextReward(lambda text, _: 1.0), verify="ratio")
    rng = np.random.default_rng(1)
    samples = sampler.draw(target, None, "", n=50, rng=rng, max_new_tokens=4)
    assert {each.text for each in samples} == {"aaaa"}

"""Lookahead and what it takes: accounts that chunks do not change, work and memory bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.samplers import SAMPLERS
from cdec.samplers.lookahead import sampler as lookahead_sampler
from cdec.samplers.lookahead.run import Lookahead
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from tests.laws.toys import random_toy, toy_set
from tests.samplers.lookahead.lookahead_reference import TextReward, drafts_of, hashed
from tests.samplers.lookahead.test_cdlh import VOCABULARY, counts_of, model_of

METHODS = ["cdlh", "cdlh-approx", "cdsl", "cdsl speculative"]
ACCOUNTS = ("target_calls", "draft_calls", "distinct_evaluations", "scenario_counts")
HUGE = 2**31 - 1


def drawn(method: str, seed: int, *, constrained: bool = False, **options: Any) -> list[Sample]:
    """Draw eight samples of one record from a random toy."""
    toy = random_toy(seed)
    name, _, verify = method.partition(" ")
    options = {"reward": TextReward(hashed(seed, 4)), "depth": 3, **options}
    if name != "cdlh":
        options["draft"] = TabularModel(drafts_of(toy, seed), toy.vocabulary)
    if verify:
        options |= {"verify": verify, "target_tries": 2}
    constraint = toy.constraint if constrained else None
    request = Request("", constraint, list(range(8)), max_new_tokens=7)
    samples = SAMPLERS[name](**options).draw_batch(toy.model(), [request])[0]
    assert isinstance(samples, list), samples
    return samples


def evaluated_sizes(patch: pytest.MonkeyPatch) -> list[int]:
    """Return where the number of prefixes of every evaluation to come will be noted."""
    sizes: list[int] = []
    evaluate = TabularModel.evaluate

    def spied(self: TabularModel, contexts: NDArray[np.int64]) -> Any:
        sizes.append(len(contexts))
        return evaluate(self, contexts)

    patch.setattr(TabularModel, "evaluate", spied)
    return sizes


def accounts(samples: list[Sample]) -> list[list[object]]:
    """Return what each draw is charged."""
    return [[sample.diagnostics.get(name) for name in ACCOUNTS] for sample in samples]


@pytest.mark.parametrize("method", METHODS)
def test_accounts_do_not_depend_on_which_draws_decode_together(method: str) -> None:
    for seed in range(12):
        constrained = seed % 2 == 1
        together = drawn(method, seed, constrained=constrained)
        for max_walks in (1, 9):
            parts = drawn(method, seed, constrained=constrained, max_walks=max_walks)
            assert [s.to_json() for s in parts] == [s.to_json() for s in together]


@pytest.mark.parametrize("method", METHODS)
def test_accounts_do_not_depend_on_which_draws_decode_first(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backwards(n: int, size: int) -> Iterator[NDArray[np.int64]]:
        yield from (np.array([draw]) for draw in reversed(range(n)))

    for seed in range(12):
        together = accounts(drawn(method, seed, constrained=seed % 2 == 1))
        with monkeypatch.context() as patch:
            patch.setattr(lookahead_sampler, "chunks", backwards)
            assert accounts(drawn(method, seed, constrained=seed % 2 == 1)) == together


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
def test_a_forced_tail_takes_steps_of_the_constraint_in_proportion(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    asked, taken = Batch.forced, Batch.advance_states

    def forced(self: Batch, request: NDArray[np.int64], states: Any) -> NDArray[np.int64]:
        nonlocal steps
        steps += len(request)
        return asked(self, request, states)

    def advance(self: Batch, request: NDArray[np.int64], states: Any, tokens: Any) -> Any:
        nonlocal steps
        steps += len(request)
        return taken(self, request, states, tokens)

    monkeypatch.setattr(Batch, "forced", forced)
    monkeypatch.setattr(Batch, "advance_states", advance)
    found = []
    for n in (30, 60, 120):
        steps = 0
        constraint = toy_set([[0, 1, 2] * (n // 3), [1]], VOCABULARY)
        options = {} if method == "cdlh" else {"draft": model_of({}, [0.25] * 4)}
        sampler = SAMPLERS[method](reward=TextReward(lambda text, _: float(len(text))), **options)
        sample = sampler.draw_batch(
            model_of({}, [0.25] * 4), [Request("", constraint, [1], max_new_tokens=n)]
        )[0][0]  # type: ignore[index]
        assert len(sample.token_ids) == n
        found.append(steps)
    # Twice the tail, about twice the steps; walking the tail anew at each token takes four times.
    assert found[2] - found[1] == 2 * (found[1] - found[0])
    assert found[2] < 12 * 120


@pytest.mark.parametrize("method", METHODS)
def test_no_more_prefixes_than_max_walks_are_evaluated_together(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = evaluated_sizes(monkeypatch)
    most = []
    for seed in range(8):
        together = drawn(method, seed, branch=4)
        most.append(max(sizes))
        sizes.clear()
        bounded = drawn(method, seed, branch=4, max_walks=2)
        assert max(sizes) <= 2
        sizes.clear()
        assert [s.to_json() for s in bounded] == [s.to_json() for s in together]
    assert max(most) > 2


@pytest.mark.parametrize(("options", "draws"), [({}, 2), ({"depth": HUGE}, 1), ({"branch": 8}, 1)])
def test_fewer_draws_decode_together_the_more_prefixes_each_of_them_needs(
    options: dict[str, int], draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    decode = Lookahead.decode

    def spied(self: Lookahead, request: NDArray[np.int64], *others: Any) -> Any:
        sizes.append(len(request))
        return decode(self, request, *others)

    monkeypatch.setattr(Lookahead, "decode", spied)
    drawn("cdsl", 0, **{"branch": 4, "depth": 3, "max_walks": 8, **options})
    # A huge depth counts as the length limit of 7, and a prefix of 0 tokens comes on top.
    assert sizes == [draws] * (8 // draws)


def test_a_long_forced_tail_is_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = evaluated_sizes(monkeypatch)
    request = Request("", toy_set([[0, 1, 2] * 10], VOCABULARY), [1], max_new_tokens=30)
    found = []
    for max_walks in (2048, 8):
        sizes.clear()
        sampler = SAMPLERS["cdlh"](reward=counts_of("a"), max_walks=max_walks)
        samples = sampler.draw_batch(model_of({}, [0.25] * 4), [request])[0]
        assert isinstance(samples, list), samples
        found.append(samples[0])
        # The tail's prefixes, the end's among them, and one call whatever is read at a time.
        assert sum(sizes) == 31
        assert max(sizes) == min(31, max_walks)
    assert found[0].diagnostics["target_calls"] == 1
    assert found[0].to_json() == found[1].to_json()


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
def test_options_beyond_all_bounds_take_no_more_memory_than_there_is_to_do(method: str) -> None:
    results = []
    for branch, size in ((4, 12), (HUGE, HUGE)):
        options: dict[str, Any] = {"branch": branch, "depth": size}
        if method != "cdlh":
            options["draft"] = model_of({"b": [0.1, 0.1, 0.7, 0.1]}, [0.2, 0.6, 0.1, 0.1])
        if method == "cdsl":
            options |= {"target_tries": size, "reward_threshold": 9.0}
        sampler = SAMPLERS[method](reward=counts_of("c"), **options)
        model = model_of({"b": [0.1, 0.1, 0.6, 0.2]}, [0.5, 0.3, 0.15, 0.05])
        request = Request("", None, [1, 2], max_new_tokens=12)
        samples = sampler.draw_batch(model, [request])[0]
        assert isinstance(samples, list), samples
        results.append([sample.to_json() for sample in samples])
    assert results[0] == results[1]


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
def test_calls_without_caches_do_not_depend_on_which_draws_decode_together(method: str) -> None:
    toy = random_toy(3)
    request = Request("", None, list(range(4)), max_new_tokens=7)
    found = set()
    for max_walks in (1, 7, 1000):
        options: dict[str, Any] = {"reward": TextReward(hashed(3, 4)), "max_walks": max_walks}
        if method != "cdlh":
            options["draft"] = TabularModel(drafts_of(toy, 3), toy.vocabulary)
        sampler = SAMPLERS[method](**options)
        sampler.draw_batch(toy.model(), [request])
        found.add(sampler.last_path_calls)
    assert len(found) == 1

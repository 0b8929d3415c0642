"""The method cdlh and its costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.lookahead import sampler as lookahead_sampler
from cdec.samplers.lookahead.run import Lookahead
from cdec.samplers.request import Request
from cdec.samplers.rewards import build_reward
from cdec.samplers.walks.batch import Batch
from tests.laws.worlds import Row, random_toy, toy_b, toy_set
from tests.samplers.lookahead.lookahead_reference import TextReward, drafts_of, hashed

# --- Lookahead by hand: what is scored, ties, ends, calls, options, and rewards that fail.

VOCABULARY = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])
RNG = np.random.default_rng


def model_of(tables: dict[str, list[float]], otherwise: list[float]) -> TabularModel:
    """Return a model over a, b, c and the end, by the text so far."""

    def probabilities(prefix: Row) -> list[float]:
        return tables.get("".join("abc"[t] for t in prefix), otherwise)

    return TabularModel(probabilities, VOCABULARY)


def counts_of(letter: str) -> TextReward:
    """Return a reward: how often a letter occurs."""
    return TextReward(lambda text, _: float(text.count(letter)))


def draw(model: TabularModel, method: str, limit: int, **options: Any) -> Sample:
    """Draw one sample without a constraint."""
    sampler = SAMPLERS[method](**options)
    return sampler.draw(model, None, "", rng=RNG(0), max_new_tokens=limit)[0]


A_FIRST = [0.6, 0.3, 0.06, 0.04]


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx"])
def test_the_reward_ahead_beats_the_more_probable_token(method: str) -> None:
    # After a comes a for ever; b leads to c, which only the rollout sees.
    tables = {"": A_FIRST, "b": [0.1, 0.1, 0.7, 0.1], "bc": [0.0, 0.0, 0.0, 1.0]}
    model = model_of(tables, [0.97, 0.01, 0.01, 0.01])
    options: dict[str, Any] = {"reward": counts_of("c"), "branch": 2, "depth": 1}
    if method == "cdlh-approx":
        options["draft"] = model_of(tables, [0.97, 0.01, 0.01, 0.01])
    assert draw(model, method, 2, **options).text == "bc"
    options["branch"] = 1
    assert draw(model, method, 2, **options).text == "aa"


def test_the_text_scored_holds_the_candidate_and_everything_before_it() -> None:
    # Scored without its candidates, both rollouts would look alike, and a would win the tie.
    model = model_of({}, A_FIRST)
    reward = counts_of("b")
    assert draw(model, "cdlh", 3, reward=reward, branch=2, depth=1).text == "bbb"
    assert set(reward.seen) == {"aa", "ba", "baa", "bba", "bbb"}


def test_one_token_is_emitted_a_position_although_several_candidates_improve() -> None:
    # The listing appends inside its loop over candidates: each better one would be emitted.
    model = model_of({}, [0.4, 0.3, 0.2, 0.1])
    worth = {"a": 0.1, "b": 0.2, "c": 0.3}
    reward = TextReward(lambda text, _: worth[text[0]] + len(text) / 100)
    assert draw(model, "cdlh", 2, reward=reward, branch=3, depth=1).text[0] == "c"
    assert len(draw(model, "cdlh", 2, reward=reward, branch=3, depth=1).token_ids) == 2


def test_of_equal_rewards_the_more_probable_candidate_wins() -> None:
    model = model_of({}, [0.2, 0.2, 0.5, 0.1])
    flat = TextReward(lambda text, _: 0.5)
    assert draw(model, "cdlh", 3, reward=flat, branch=3, depth=2).text == "ccc"
    even = model_of({}, [0.3, 0.3, 0.3, 0.1])
    assert draw(even, "cdlh", 3, reward=flat, branch=3, depth=2).text == "aaa"


def test_the_end_is_a_candidate_among_others() -> None:
    model = model_of({"": [0.9, 0.05, 0.03, 0.02]}, [0.5, 0.1, 0.1, 0.3])
    short = TextReward(lambda text, _: -float(len(text)))
    sample = draw(model, "cdlh", 5, reward=short, branch=2, depth=3)
    assert (sample.text, sample.finish_reason) == ("a", "complete")
    assert draw(model, "cdlh", 5, reward=short, branch=1, depth=3).text == "aaaaa"


def test_rollouts_are_cut_at_the_end_token_before_scoring() -> None:
    # Behind its end event, the text would go on to c.
    tables = {"": [0.6, 0.4, 0.0, 0.0], "a": [0.0, 0.0, 0.1, 0.9]}
    model = model_of(tables, [0.0, 0.0, 1.0, 0.0])
    reward = counts_of("c")
    draw(model, "cdlh", 4, reward=reward, branch=2, depth=2)
    assert "a" in reward.seen
    assert not any(text.startswith("ac") for text in reward.seen[:2])


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
def test_neither_texts_nor_rollouts_pass_the_length_limit(method: str) -> None:
    model = model_of({}, [0.5, 0.3, 0.2, 0.0])
    for limit in range(1, 5):
        reward = counts_of("b")
        options: dict[str, Any] = {"reward": reward, "depth": 7}
        if method != "cdlh":
            options["draft"] = model_of({}, [0.5, 0.2, 0.3, 0.0])
        sample = draw(model, method, limit, **options)
        assert (len(sample.token_ids), sample.finish_reason) == (limit, "length")
        assert all(len(text) <= limit for text in reward.seen)


def test_the_prompt_is_never_scored() -> None:
    class Heard(TabularModel):
        def encode_prompt(self, prompt: Any) -> list[int]:
            return [1, 1, 1]

    model = Heard(lambda prefix: [0.6, 0.0, 0.3, 0.1], VOCABULARY)
    reward = counts_of("b")
    sample = draw(model, "cdlh", 3, reward=reward)
    assert reward.seen and not any("b" in text for text in reward.seen)
    assert sample.diagnostics["reward"] == 0.0


def test_calls_of_a_case_counted_by_hand() -> None:
    # Two positions, candidates a and b, d = 2: the root; then a, aa, b, ba; at the second position,
    # a is known, and so is aa; ab is new. After the limit of 2 the most probable event decides.
    model = model_of({}, [0.5, 0.3, 0.2, 0.0])
    reward = counts_of("a")
    sampler = SAMPLERS["cdlh"](reward=reward, branch=2, depth=2)
    sample = sampler.draw(model, None, "", rng=RNG(0), max_new_tokens=2)[0]
    # Rollouts stop at the limit of 2 tokens: prefixes asked are (), a, b, and aa for the end.
    assert sample.text == "aa"
    assert sample.diagnostics["target_calls"] == 4
    assert sample.diagnostics["cost_per_token"] == 2.0
    assert sampler.last_path_calls == (0, 1 + 2 + 1, 2)
    assert sample.diagnostics["path_calls"] == 1 + 2 + 1
    sampler = SAMPLERS["cdlh"](reward=reward, branch=2, depth=2)
    sampler.draw(model, None, "", rng=RNG(0), max_new_tokens=20)
    draft, target, events = sampler.last_path_calls
    assert (draft, events) == (0, 20)
    # k d a position; one for the root and one for the end; the last two rollouts are cut short.
    assert target == 18 * 4 + 2 + 2


@pytest.mark.slow
def test_calls_of_the_draft_counted_by_hand() -> None:
    draft = model_of({}, [0.5, 0.2, 0.3, 0.0])
    model = model_of({}, [0.5, 0.3, 0.2, 0.0])
    sampler = SAMPLERS["cdlh-approx"](
        draft=draft, reward=counts_of("a"), branch=2, depth=2, cost_ratio=0.25
    )
    sample = sampler.draw(model, None, "", rng=RNG(0), max_new_tokens=4)[0]
    # Candidates at (), a, aa; rollouts ask at a aa, b ba; aaa, ab aba; aab. At aaa none: the limit.
    assert sample.text == "aaaa"
    assert sample.diagnostics["draft_calls"] == 8
    assert sample.diagnostics["target_calls"] == 5
    assert sample.diagnostics["cost_per_token"] == (5 + 0.25 * 8) / 4
    assert sampler.last_path_calls == (4 + 4 + 2, 5, 4)
    assert sample.diagnostics["path_calls"] == 5
    free = SAMPLERS["cdlh-approx"](draft=draft, reward=counts_of("a")).draw(
        model, None, "", rng=RNG(0)
    )[0]
    assert free.diagnostics["cost_per_token"] is None


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
def test_what_records_say_was_evaluated_is_what_the_models_evaluated(method: str) -> None:
    toy = random_toy(12)
    asked: dict[str, list[Row]] = {"target": [], "draft": []}

    def spied(name: str, law: Any) -> TabularModel:
        def probabilities(prefix: Row) -> Any:
            asked[name].append(prefix)
            return law(prefix)

        return TabularModel(probabilities, toy.vocabulary)

    options = {} if method == "cdlh" else {"draft": spied("draft", drafts_of(toy, 3))}
    sampler = SAMPLERS[method](reward=TextReward(hashed(5, 4)), **options)
    request = Request("", None, [1, 2, 3], max_new_tokens=8)
    samples = sampler.draw_batch(spied("target", toy.probabilities), [request])[0]
    assert isinstance(samples, list)
    totals = {
        name: sum(int(str(s.diagnostics.get(name, 0))) for s in samples)
        for name in ("distinct_evaluations", "draft_calls")
    }
    assert totals["distinct_evaluations"] == len(asked["target"]) == len(set(asked["target"]))
    assert totals["draft_calls"] == len(asked["draft"]) == len(set(asked["draft"]))


def test_the_reward_of_the_finished_text_is_recorded_soft_and_hard() -> None:
    model = model_of({}, [0.6, 0.3, 0.1, 0.0])
    for scale, soft, hard in ((0.5, 1.0, True), (0.2, 0.6, False), (-1.0, 0.0, False)):
        reward = TextReward(lambda text, _, scale=scale: scale * len(text))  # type: ignore[misc]
        found = draw(model, "cdlh", 3, reward=reward).diagnostics
        assert found["reward"] == pytest.approx(3 * scale)
        assert (found["satisfaction_soft"], found["satisfaction_hard"]) == (
            pytest.approx(soft),
            hard,
        )


def test_logprob_is_the_models_and_the_law_is_called_heuristic() -> None:
    toy = toy_b()
    sampler = SAMPLERS["cdlh"](reward=TextReward(hashed(1, 5)), branch=2, depth=2)
    sample = sampler.draw(toy.model(), toy.constraint, "", rng=RNG(0))[0]
    row = tuple(sample.token_ids)
    steps = [toy.probabilities(row[:i])[t] for i, t in enumerate([*row, 3])]
    assert sample.valid
    assert sample.logprob == pytest.approx(math.log(math.prod(steps)))
    assert (sample.log_weight, sample.exactness, sample.method) == (None, "heuristic", "cdlh")


def test_a_position_without_possible_events_is_a_dead_end() -> None:
    model = model_of({"": [0.0, 1.0, 0.0, 0.0]}, [0.0, 1.0, 0.0, 0.0])
    constraint = toy_set([(1, 0), (1, 2)], VOCABULARY)
    for method in ("cdlh", "cdlh-approx", "cdsl"):
        options = {} if method == "cdlh" else {"draft": model_of({}, [0.25] * 4)}
        sampler = SAMPLERS[method](reward=counts_of("a"), **options)
        sample = sampler.draw(model, constraint, "", rng=RNG(0))[0]
        assert (sample.text, sample.finish_reason, sample.logprob) == ("b", "dead_end", None)


def test_records_without_concepts_are_satisfied_at_once() -> None:
    model = model_of({}, [0.6, 0.3, 0.05, 0.05])
    sampler = SAMPLERS["cdlh"](reward=build_reward("coverage"))
    request = Request("", None, [1], max_new_tokens=4, input={"concepts": []})
    samples = sampler.draw_batch(model, [request])[0]
    assert isinstance(samples, list)
    assert samples[0].text == "aaaa"
    assert samples[0].diagnostics["satisfaction_hard"] is True


def test_the_mask_holds_for_draft_and_rollouts() -> None:
    # Unmasked, both models would write b; the set has none of it.
    model = model_of({}, [0.2, 0.6, 0.1, 0.1])
    constraint = toy_set([(0, 2), (2, 0), (0, 0), (2, 2, 0)], VOCABULARY)
    for method in ("cdlh", "cdlh-approx", "cdsl"):
        reward = counts_of("c")
        options = {} if method == "cdlh" else {"draft": model_of({}, [0.2, 0.7, 0.05, 0.05])}
        sampler = SAMPLERS[method](reward=reward, **options)
        sample = sampler.draw(model, constraint, "", rng=RNG(0))[0]
        assert sample.valid
        assert reward.seen and not any("b" in text for text in reward.seen)


def test_nothing_is_rolled_out_where_the_constraint_leaves_one_event() -> None:
    model = model_of({}, [0.4, 0.3, 0.2, 0.1])
    constraint = toy_set([(0, 1, 2, 0, 1)], VOCABULARY)
    reward = counts_of("c")
    sample = SAMPLERS["cdlh"](reward=reward).draw(model, constraint, "", rng=RNG(0))[0]
    assert sample.text == "abcab"
    # All six prefixes go through the target in one pass; the finished text alone is scored.
    assert (sample.diagnostics["target_calls"], sample.diagnostics["target_tokens"]) == (1, 5)
    assert reward.seen == ["abcab"]


def test_a_draft_whose_context_is_full_stops_looking_ahead() -> None:
    model = model_of({}, [0.5, 0.3, 0.2, 0.0])
    draft = model_of({}, [0.5, 0.3, 0.2, 0.0])
    draft.context_length = 3
    for method, options in (("cdlh-approx", {}), ("cdsl", {"reward_threshold": 9.0})):
        reward = counts_of("b")
        sample = draw(model, method, 8, draft=draft, reward=reward, **options)
        # Without rollouts the candidates alone are compared, and b is one of them.
        assert sample.text.endswith("bbb")
        assert max(map(len, reward.seen)) == 8


# --- Lookahead and what it takes: accounts that chunks do not change, work and memory bounded.

METHODS = ["cdlh", "cdlh-approx", "cdsl", "cdsl speculative"]
ACCOUNTS = ("target_calls", "draft_calls", "distinct_evaluations", "path_calls", "scenario_counts")
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
@pytest.mark.share(1)
def test_accounts_do_not_depend_on_which_draws_decode_together(method: str) -> None:
    for seed in range(12):
        constrained = seed % 2 == 1
        together = drawn(method, seed, constrained=constrained)
        for max_walks in (1, 9):
            parts = drawn(method, seed, constrained=constrained, max_walks=max_walks)
            assert [s.to_json() for s in parts] == [s.to_json() for s in together]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.share(1)
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
@pytest.mark.share(2)
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

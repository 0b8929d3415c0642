"""The method cdsl and its cost ratio."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.walks.randomness import CandidateUniforms
from tests.laws.worlds import Row, toy_set
from tests.samplers.lookahead.lookahead_reference import Options, TextReward, law_of_cdsl
from tests.samplers.lookahead.test_cdlh import RNG, VOCABULARY, counts_of, model_of
from tests.samplers.lookahead.test_cdlh_records import setting

# --- Speculative lookahead by hand: each scenario, its traps, both verifications, calls.

A, B, C = [0.7, 0.2, 0.1, 0.0], [0.2, 0.7, 0.1, 0.0], [0.1, 0.2, 0.7, 0.0]
"""Laws that prefer one letter and never end."""


def draw(target: Any, draft: Any, limit: int, n: int = 1, **options: Any) -> list[Sample]:
    """Draw with models given by a law, or by laws by text and one for the others."""
    models = [
        model_of(*law) if isinstance(law, tuple) else model_of({}, law) for law in (target, draft)
    ]
    options.setdefault("reward", counts_of("b"))
    sampler = SAMPLERS["cdsl"](draft=models[1], **options)
    return sampler.draw(models[0], None, "", n=n, rng=RNG(0), max_new_tokens=limit)


def scenarios(sample: Sample) -> dict[str, int]:
    """Return the scenarios that came up."""
    counts = sample.diagnostics["scenario_counts"]
    assert isinstance(counts, dict)
    return {name: n for name, n in counts.items() if n}


def test_s1_keeps_what_was_accepted_and_takes_no_bonus_token() -> None:
    sample = draw(B, B, 9, depth=4)[0]
    assert sample.text == "b" * 9
    # Rounds of 4, 4 and 1, and the end's position: with bonus tokens there would be two rounds.
    assert scenarios(sample) == {"S1": 3}
    # Each round is a call; the first prefix of a round and what it drafts are one sequence.
    assert sample.diagnostics["target_calls"] == 3
    assert sample.diagnostics["draft_calls"] == 9
    assert sample.diagnostics["acceptance_rate"] == 1.0
    assert sample.diagnostics["accepted_length"] == 3.0


def test_nothing_accepted_with_a_threshold_of_zero_still_goes_on() -> None:
    # n = 0, a = 0 >= 0 and r >= r_t is S1, which keeps nothing: it would loop.
    sample = draw(A, B, 6, accept_threshold=0.0, reward_threshold=0.0)[0]
    assert len(sample.token_ids) == 6
    assert scenarios(sample) == {"S1": 6}
    assert sample.diagnostics["acceptance_rate"] == 0.0
    # The event that is emitted then is one of cdlh-approx.
    approx = SAMPLERS["cdlh-approx"](draft=model_of({}, B), reward=counts_of("b"))
    expected = approx.draw(model_of({}, A), None, "", rng=RNG(0), max_new_tokens=6)[0]
    assert sample.token_ids == expected.token_ids


def test_s2_tries_the_targets_own_tokens_until_the_reward_ahead_is_good() -> None:
    # The target alone goes a, c; the draft, once it stands behind ac, goes on to b.
    target, draft = ({"a": C}, A), ({"ac": B}, C)
    options = {"reward": counts_of("b"), "reward_threshold": 1.0, "depth": 1}
    two = draw(target, draft, 3, target_tries=2, **options)[0]
    assert scenarios(two)["S2"] >= 1
    assert two.text[:2] == "ac"
    # With one try, that try is dropped, and cdlh-approx sees no b ahead but its own candidate.
    one = draw(target, draft, 3, target_tries=1, **options)[0]
    assert one.text[0] == "b"


def test_tries_that_fail_leave_nothing_behind() -> None:
    # c never comes: all tries fail, and each round emits exactly one event of cdlh-approx.
    sample = draw(A, B, 6, reward=counts_of("c"), reward_threshold=9.0, target_tries=3, depth=2)[0]
    approx = SAMPLERS["cdlh-approx"](draft=model_of({}, B), reward=counts_of("c"), depth=2)
    expected = approx.draw(model_of({}, A), None, "", rng=RNG(0), max_new_tokens=6)[0]
    assert sample.token_ids == expected.token_ids
    assert scenarios(sample) == {"S2": 6}


def test_s3_is_a_good_reward_with_a_refused_draft() -> None:
    sample = draw(A, C, 4, reward_threshold=0.0, target_tries=1, depth=2)[0]
    assert scenarios(sample) == {"S3": 4}
    assert sample.text == "aaaa"
    assert draw(A, C, 4, reward_threshold=0.0, target_tries=0, depth=2)[0].text != "aaaa"


@pytest.mark.parametrize(("on_reject", "text"), [("keep", "aab"), ("discard", "b")])
def test_s4_keeps_or_discards_what_was_accepted(on_reject: str, text: str) -> None:
    sample = draw(A, A, 7, depth=2, on_reject=on_reject, reward_threshold=1.0)[0]
    assert sample.text.startswith(text)
    assert scenarios(sample)["S4"] >= 1


def test_s2_discards_as_well_if_asked() -> None:
    # One of three is accepted: below one half.
    draft = ({"": A}, C)
    options = {"accept_threshold": 0.5, "target_tries": 0, "depth": 3, "branch": 2}
    assert draw(A, draft, 3, on_reject="keep", **options)[0].text[:2] == "ab"
    assert draw(A, draft, 3, on_reject="discard", **options)[0].text[0] == "b"


def test_an_accepted_end_finishes_the_text() -> None:
    laws = ({"": A, "a": [0.1, 0.1, 0.1, 0.7]}, B)
    for threshold, name in ((0.0, "S1"), (2.0, "S4")):
        sample = draw(laws, laws, 9, reward_threshold=threshold)[0]
        assert (sample.text, sample.finish_reason) == ("a", "complete")
        assert scenarios(sample) == {name: 1}
    dropped = draw(laws, laws, 9, reward_threshold=2.0, on_reject="discard")[0]
    assert dropped.text.startswith("b")


def test_a_draft_cut_at_its_end_is_judged_by_what_it_said() -> None:
    # Two events, both accepted: a = 1, not 2 / d.
    laws = ({"": A, "a": [0.1, 0.1, 0.1, 0.7]}, B)
    sample = draw(laws, laws, 9, depth=8, accept_threshold=1.0, reward_threshold=0.0)[0]
    assert scenarios(sample) == {"S1": 1}
    # So it is with the length limit: 3 of 3.
    sample = draw(B, B, 3, depth=8, accept_threshold=1.0)[0]
    assert scenarios(sample) == {"S1": 1}


def test_the_reward_sees_what_was_accepted_and_not_what_was_refused() -> None:
    # The draft's b is refused: r must not count it.
    sample = draw(A, B, 1, reward_threshold=1.0, depth=1, target_tries=0)[0]
    assert scenarios(sample) == {"S2": 1}


def test_speculative_verification_accepts_with_the_targets_masked_probability() -> None:
    # The draft says b for sure (p = 1 for it, whatever its law); q(b) = 0.2 / 0.3 under the mask.
    constraint = toy_set([(1,), (2,)], VOCABULARY)
    target = TabularModel(
        lambda prefix: [0.0, 0.0, 0.0, 1.0] if prefix else [0.7, 0.2, 0.1, 0.0], VOCABULARY
    )
    draft = TabularModel(lambda prefix: [0.2, 0.4, 0.35, 0.05], VOCABULARY)
    sampler = SAMPLERS["cdsl"](
        draft=draft,
        reward=TextReward(lambda text, _: 0.0),
        depth=1,
        verify="speculative",
        branch=1,
    )
    n = 4000
    samples = sampler.draw(target, constraint, "", n=n, rng=RNG(5))
    accepted = sum(sample.diagnostics["acceptance_rate"] == 1.0 for sample in samples)
    # Five standard errors of a share of 2/3; q/p with the draft's own p would accept all.
    assert abs(accepted / n - 2 / 3) < 5 * np.sqrt(2 / 9 / n)


def test_an_event_of_probability_zero_is_never_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(self: object, steps: NDArray[np.int64], walks: NDArray[np.int64]) -> Any:
        return np.zeros(len(steps))

    monkeypatch.setattr(CandidateUniforms, "at", zeros)
    sample = draw([1.0, 0.0, 0.0, 0.0], B, 4, verify="speculative")[0]
    assert sample.text == "aaaa"
    assert sample.diagnostics["acceptance_rate"] == 0.0
    some = draw([0.999, 0.001, 0.0, 0.0], B, 4, verify="speculative")[0]
    assert some.text == "bbbb"


def test_hard_verification_needs_no_random_numbers_and_draws_agree() -> None:
    hard = draw(A, ({"": B}, A), 6, n=5)
    assert len({sample.text for sample in hard}) == 1
    soft = draw(A, ({"": B}, A), 6, n=40, verify="speculative", reward_threshold=0.0)
    assert len({sample.text for sample in soft}) > 1


def test_calls_of_each_kind_of_round_counted_by_hand() -> None:
    """d = 2; the draft always says b, the target a."""
    model, draft = model_of({}, A), model_of({}, B)
    sampler = SAMPLERS["cdsl"](
        draft=draft, reward=counts_of("c"), branch=2, depth=2, target_tries=2, reward_threshold=9.0,
        cost_ratio=0.5,
    )  # fmt: skip
    sample = sampler.draw(model, None, "", rng=RNG(0), max_new_tokens=1)[0]
    # The limit of 1 leaves one draft event; one verification evaluates () and b. The try a reaches
    # the limit, where there is nothing to roll out; candidates a and b neither. The end: at a.
    assert sample.text == "a"
    assert sample.diagnostics["draft_calls"] == 1
    assert sample.diagnostics["target_calls"] == 2
    assert sample.diagnostics["distinct_evaluations"] == 3
    assert sample.diagnostics["cost_per_token"] == 2 + 0.5
    assert sampler.last_path_calls == (1, 2, 1)
    sampler.draw(model, None, "", rng=RNG(0), max_new_tokens=100)
    draft_calls, target_calls, events = sampler.last_path_calls
    assert events == 100
    # A round emits one event: 1 verification and the second try; 2 + 2 * 2 + 2 * 2 draft events.
    assert abs(target_calls - 2 * 100) <= 2
    assert abs(draft_calls - 10 * 100) <= 20


@pytest.mark.slow
def test_options_change_what_is_drawn() -> None:
    """Every option of the constructor is heeded."""
    rng = np.random.default_rng(4)
    laws: dict[str, dict[Row, NDArray[np.float64]]] = {"target": {}, "draft": {}}

    def model(name: str) -> TabularModel:
        def probabilities(prefix: Row) -> NDArray[np.float64]:
            if prefix not in laws[name]:
                own = np.random.default_rng([ord(name[0]), *prefix])
                shared = np.random.default_rng([1, *prefix])
                weights = shared.exponential(size=4) ** 2 + 0.3 * own.exponential(size=4)
                weights[3] *= 0.05
                laws[name][prefix] = weights / weights.sum()
            return laws[name][prefix]

        return TabularModel(probabilities, VOCABULARY)

    def texts(**options: Any) -> list[str]:
        found = []
        for at in range(12):
            letter = "abc"[at % 3]
            reward = TextReward(lambda text, _, x=letter: text[-3:].count(x) / 3)  # type: ignore[misc]
            sampler = SAMPLERS["cdsl"](draft=model("draft"), reward=reward, **options)
            sample = sampler.draw(model("target"), None, "", rng=rng, max_new_tokens=6 + at)[0]
            found.append(sample.text)
        return found

    base = texts()
    assert base == texts()
    for option, value in (
        ("branch", 1), ("depth", 1), ("target_tries", 0), ("accept_threshold", 1.0),
        ("reward_threshold", 1.0), ("verify", "speculative"), ("on_reject", "discard"),
    ):  # fmt: skip
        assert texts(**{option: value}) != base, option


# --- cdsl that verifies as the paper prints it: its law and what it accepts, by enumeration.

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


@pytest.mark.share(3)
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

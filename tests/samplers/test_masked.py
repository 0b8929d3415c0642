"""The methods masked, greedy and unconstrained."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from cdec.core.constraint import text_verdicts
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import log_prob, masked, mass
from cdec.samplers import SAMPLERS
from cdec.samplers.disc import DiscSampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from cdec.samplers.unconstrained import UnconstrainedSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy, random_toy, toy_b, toy_set
from tests.samplers.raw_means import watched

# --- Masked decoding: its mass estimate and bracket, dead ends.

DRAWS = heavy_or(10_000, 100_000)


def test_mass_is_estimated_from_all_draws_and_bracketed() -> None:
    toy = toy_b()
    truth = math.log(mass(toy))
    for n in (1, 3, 50):
        with watched() as estimates:
            samples = MaskedSampler().draw(
                toy.model(), toy.constraint, "", n=n, rng=np.random.default_rng(n)
            )
        fields = samples[0].diagnostics
        x = np.exp([sample.log_weight for sample in samples])
        assert estimates[0].log_mean == pytest.approx(math.log(x.mean()))
        assert fields["log_mass_lower"] <= truth + 1e-12
        assert fields["log_mass_upper"] >= truth - 1e-12
        assert fields["log_mass_lower"] <= fields["log_mass"] <= fields["log_mass_upper"]
        by_text: Counter[str] = Counter()
        for sample, weight in zip(samples, x, strict=True):
            by_text[sample.text] += weight
        squares = sum(weight**2 for weight in by_text.values())
        assert fields["ess"] == pytest.approx(x.sum() ** 2 / squares)
        if n > 1:
            expected = x.std(ddof=1) / math.sqrt(n) / x.mean()
            assert estimates[0].sampling_error == pytest.approx(expected)
        assert all(sample.diagnostics["log_mass"] == fields["log_mass"] for sample in samples)


def test_bracket_closes_when_everything_was_visited() -> None:
    toy = toy_b()
    samples = MaskedSampler().draw(
        toy.model(), toy.constraint, "", n=2000, rng=np.random.default_rng(5)
    )
    fields = samples[0].diagnostics
    assert fields["log_mass_lower"] == pytest.approx(math.log(mass(toy)), abs=1e-12)
    assert fields["log_mass_upper"] == pytest.approx(math.log(mass(toy)), abs=1e-12)


def dead_end_toy() -> Toy:
    """After a, nothing that the set allows has any probability."""
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])

    def probabilities(prefix: Row) -> np.ndarray:
        if prefix == (0,):
            return np.array([1.0, 0.0, 0.0])
        return np.array([0.6, 0.3, 0.1])

    return Toy(vocabulary, probabilities, [(0, 1), (1,)])


def test_zero_mass_is_a_dead_end_without_weight() -> None:
    toy = dead_end_toy()
    samples = MaskedSampler(max_walks=1 << 14).draw(
        toy.model(), toy.constraint, "", n=20_000, rng=np.random.default_rng(3)
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    assert g_test(outcomes, masked(toy).law) >= 1e-4
    stuck = next(sample for sample in samples if sample.finish_reason == "dead_end")
    assert (stuck.log_weight, stuck.log_candidate_weight, stuck.logprob) == (None, None, None)
    assert stuck.valid is False
    assert stuck.text == "a"
    # Dead ends count with weight 0: the estimate is of P(S) = 0.3 * 0.1.
    fields = stuck.diagnostics
    assert abs(fields["log_mass"] - math.log(0.03)) <= 4 * fields["log_mass_se"]
    assert fields["log_mass_upper"] == pytest.approx(math.log(0.03))


def test_all_end_ids_are_one_event() -> None:
    vocabulary = Vocabulary([b"a", b"", b""], eos_token_ids=[1, 2])
    model = TabularModel(lambda prefix: [0.5, 0.2, 0.3], vocabulary)
    constraint = toy_set([(0,), (0, 0)], vocabulary)
    samples = MaskedSampler().draw(model, constraint, "", n=200, rng=np.random.default_rng(0))
    logs = {s.text: s.logprob for s in samples}
    assert logs == pytest.approx({"a": math.log(0.25), "aa": math.log(0.125)})
    assert all(1 not in s.token_ids and 2 not in s.token_ids for s in samples)
    weights = [s.log_weight for s in samples if s.text == "a"]
    # Half of the mass after nothing, all of it after a: another a, or the end by either id.
    assert weights == pytest.approx([math.log(0.5)] * len(weights))


def test_forced_suffix_ends_a_member_without_an_end_event() -> None:
    toy = random_toy(4, ends_itself=True)
    exact = masked(toy)
    samples = MaskedSampler().draw(
        toy.model(), toy.constraint, "", n=300, rng=np.random.default_rng(1)
    )
    for sample in samples:
        row = tuple(sample.token_ids)
        assert row in toy.members
        assert sample.logprob == pytest.approx(log_prob(toy, row))
        assert sample.log_weight == pytest.approx(math.log(exact.x[row]), abs=1e-12)


def test_forced_prefix_and_suffix_are_charged_and_cut_from_the_text() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"<", b">", b""], eos_token_ids=[4])
    model = TabularModel(lambda prefix: [0.1, 0.2, 0.3, 0.1, 0.3], vocabulary)
    constraint = toy_set([(2, 0, 3), (2, 1, 3)], vocabulary, ends_itself=True, head=b"<", tail=b">")
    samples = MaskedSampler().draw(model, constraint, "", n=20, rng=np.random.default_rng(1))
    by_text = {sample.text: sample for sample in samples}
    assert set(by_text) == {"a", "b"}
    assert list(by_text["a"].token_ids) == [2, 0, 3]
    assert by_text["a"].logprob == pytest.approx(math.log(0.3 * 0.1 * 0.1))
    assert by_text["a"].log_weight == pytest.approx(math.log(0.3 * 0.3 * 0.1))
    assert by_text["a"].valid


def test_without_a_constraint_the_model_itself_is_sampled() -> None:
    toy = toy_b()
    plain = MaskedSampler().draw(toy.model(), None, "", n=50, rng=np.random.default_rng(2))
    free = UnconstrainedSampler().draw(toy.model(), None, "", n=50, rng=np.random.default_rng(2))
    assert [s.token_ids for s in plain] == [s.token_ids for s in free]
    assert all(s.log_weight == 0.0 for s in plain)


def test_top_m_verifies_the_likeliest_tokens_and_says_what_it_missed() -> None:
    toy = random_toy(21)
    everything = MaskedSampler(top_m=toy.vocabulary.width).draw(
        toy.model(), toy.constraint, "", n=40, rng=np.random.default_rng(2)
    )
    plain = MaskedSampler().draw(
        toy.model(), toy.constraint, "", n=40, rng=np.random.default_rng(2)
    )
    assert [s.token_ids for s in everything] == [s.token_ids for s in plain]
    assert all(s.diagnostics["missed_mass"] == 0 for s in everything)
    few = MaskedSampler(top_m=2).draw(
        toy.model(), toy.constraint, "", n=400, rng=np.random.default_rng(2)
    )
    for sample in few:
        kept, x = _top_m_path(toy, tuple(sample.token_ids), 2)
        assert sample.diagnostics["missed_mass"] == pytest.approx(1 - kept, abs=1e-12)
        assert sample.log_candidate_weight == pytest.approx(math.log(x), abs=1e-12)
        assert sample.log_weight is None
        assert sample.valid
    assert few[0].diagnostics["log_mass_upper"] >= math.log(mass(toy))
    assert few[0].diagnostics["log_mass"] is None


def _top_m_path(toy: Toy, row: Row, top_m: int) -> tuple[float, float]:
    """Return the product of top-M masses (1 where none is valid) and of Z over valid ones."""
    kept = x = 1.0
    for depth in range(len(row) + 1):
        prefix = row[:depth]
        given = toy.probabilities(prefix)
        allowed = {m[depth] for m in toy.members if m[:depth] == prefix and len(m) > depth}
        allowed |= set(toy.vocabulary.eos_token_ids) if prefix in toy.members else set()
        top = set(np.argsort(-given)[:top_m].tolist())
        if verified := allowed & top:
            ends = allowed & set(toy.vocabulary.eos_token_ids)
            kept *= given[list(top)].sum()
            # One end event: one of its ids among the top M stands for all of them.
            x *= given[list(verified | (ends if verified & ends else set()))].sum()
        else:
            x *= given[list(allowed)].sum()
    return kept, x


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_top_m_charges_the_end_event_with_all_end_ids(device: str) -> None:
    import torch

    class OnDevice(TabularModel):
        def _forward(self, nodes: np.ndarray) -> torch.Tensor:
            return torch.tensor(super()._forward(nodes))

    vocabulary = Vocabulary([b"a", b"b", b"", b""], eos_token_ids=[2, 3])
    model = OnDevice(lambda prefix: [0.3, 0.1, 0.35, 0.25], vocabulary)
    model.device = device
    constraint = toy_set([(0,), (0, 1)], vocabulary)
    for sampler in (MaskedSampler(top_m=2), DiscSampler(top_m=2, beams=2)):
        sample = sampler.draw(model, constraint, "", rng=np.random.default_rng(1))[0]
        assert list(sample.token_ids) == [0]
        assert sample.logprob == pytest.approx(math.log(0.3 * 0.6))


# --- Unconstrained sampling: the constraint only watches.


def test_a_member_in_other_tokens_is_valid_but_no_draw_of_the_target() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"ab", b""], eos_token_ids=[3])
    model = TabularModel(lambda prefix: [0.2, 0.3, 0.2, 0.3], vocabulary)
    constraint = toy_set([(2,)], vocabulary)
    samples = UnconstrainedSampler().draw(
        model, constraint, "", n=400, rng=np.random.default_rng(1), max_new_tokens=3
    )
    spelt = [s for s in samples if list(s.token_ids) == [0, 1] and s.finish_reason == "complete"]
    whole = [s for s in samples if list(s.token_ids) == [2] and s.finish_reason == "complete"]
    assert spelt and all((s.text, s.valid, s.log_weight) == ("ab", True, None) for s in spelt)
    assert whole and all((s.text, s.valid, s.log_weight) == ("ab", True, 0.0) for s in whole)


def test_a_set_with_a_suffix_ends_the_text_where_its_suffix_ends() -> None:
    vocabulary = Vocabulary([b"a", b"b", b">", b""], eos_token_ids=[3])
    model = TabularModel(lambda prefix: [0.3, 0.3, 0.3, 0.1], vocabulary)
    constraint = toy_set([(0, 2), (1, 1, 2)], vocabulary, ends_itself=True, tail=b">")
    samples = UnconstrainedSampler().draw(
        model, constraint, "", n=2000, rng=np.random.default_rng(1), max_new_tokens=3
    )
    members = [s for s in samples if s.log_weight == 0.0]
    assert {s.text for s in members} == {"a", "bb"}
    expected = pytest.approx(2 * math.log(0.3))
    assert all(s.logprob == expected for s in members if s.text == "a")
    share = sum(s.text == "a" for s in members) / 2000
    assert abs(share - 0.09) <= 4 * math.sqrt(0.09 * 0.91 / 2000)


def test_without_a_constraint_nothing_is_judged() -> None:
    toy = toy_b()
    samples = UnconstrainedSampler().draw(
        toy.model(), None, "", n=50, rng=np.random.default_rng(1), max_new_tokens=5
    )
    assert all(s.valid is None for s in samples)
    for sample in samples:
        complete = sample.finish_reason == "complete"
        assert sample.log_weight == (0.0 if complete else None)
        assert "log_mass" not in sample.diagnostics


def test_padding_and_special_ids_have_no_text() -> None:
    vocabulary = Vocabulary([b"a", b"", b""], eos_token_ids=[2], special_token_ids=[1], width=5)
    model = TabularModel(lambda prefix: [0.2, 0.2, 0.2, 0.2, 0.2], vocabulary)
    samples = UnconstrainedSampler().draw(
        model, None, "", n=50, rng=np.random.default_rng(1), max_new_tokens=6
    )
    assert all(set(s.text) <= {"a"} for s in samples)
    assert any(4 in s.token_ids for s in samples)


def test_a_text_needs_its_forced_suffix_and_not_the_space_of_the_set() -> None:
    vocabulary = Vocabulary([b" ", b"a", b" a", b">", b" a>", b""], eos_token_ids=[5])
    model = TabularModel(lambda prefix: [0.2, 0.2, 0.1, 0.2, 0.1, 0.2], vocabulary)
    spaced = toy_set([(2,)], vocabulary, head=b" ", prefix=b"")
    closed = toy_set([(4,)], vocabulary, head=b" ", tail=b">", prefix=b"", ends_itself=True)
    for constraint, tail in ((spaced, b""), (closed, b">")):
        samples = UnconstrainedSampler().draw(
            model, constraint, "", n=2000, rng=np.random.default_rng(1), max_new_tokens=3
        )
        complete = [s for s in samples if s.finish_reason == "complete"]
        for sample in complete:
            whole = vocabulary.decode(sample.token_ids)
            assert sample.valid == (whole in (b"a" + tail, b" a" + tail))
            (verdict,) = text_verdicts(constraint, [whole])
            assert not sample.valid or verdict["valid"]
            inside = whole.removesuffix(tail).removeprefix(b" ")
            if inside:
                assert sample.text == (inside if whole.endswith(tail) else whole).decode()
        found = {vocabulary.decode(s.token_ids) for s in complete if s.valid}
        assert found >= {b"a" + tail, b" a" + tail}


def test_a_text_with_tokens_that_have_no_bytes_is_no_member() -> None:
    vocabulary = Vocabulary([b"a", b"", b""], eos_token_ids=[2], special_token_ids=[1], width=4)
    model = TabularModel(lambda prefix: [0.3, 0.2, 0.3, 0.2], vocabulary)
    samples = UnconstrainedSampler().draw(
        model, toy_set([(0,)], vocabulary), "", n=500, rng=np.random.default_rng(1)
    )
    complete = [s for s in samples if s.finish_reason == "complete"]
    assert all(s.valid == (list(s.token_ids) == [0]) for s in complete)
    longer = UnconstrainedSampler().draw(
        model,
        toy_set([(0,)], vocabulary),
        "",
        n=500,
        rng=np.random.default_rng(1),
        max_new_tokens=4,
    )
    hidden = [s for s in longer if s.finish_reason == "complete" and {1, 3} & set(s.token_ids)]
    assert any(vocabulary.decode(s.token_ids) == b"a" for s in hidden)
    assert not any(s.valid for s in hidden)


# --- Records: log_mass is log_mass_unclipped within the bracket.

RECORDS = heavy_or(2_000, 40_000)
WAYS: dict[str, dict[str, Any]] = {
    "masked": {},
    "disc": {"K": 4},
    "asap": {"burn_in": 0, "round": 1},
    "exact": {"round": 1},
    "exact, abort": {"round": 1, "abort": True},
    "smc": {"particles": 4},
    "mcmc": {"steps": 2},
    "mass": {"round": 1},
}


def shown(name: str, toy: Toy, n: int, count: int = RECORDS) -> list[dict[str, Any]]:
    """Return what each of ``count`` records of n texts shows of its mass."""
    requests = [Request.numbered("", toy.constraint, id=i, n=n) for i in range(count)]
    if name == "mass":
        found = MassEstimator(candidates=n, **WAYS[name]).run(toy.model(), requests)
        return [each.to_json() for each in found if isinstance(each, Mass)]
    samples = SAMPLERS[name.partition(",")[0]](**WAYS[name]).draw_batch(toy.model(), requests)
    return [dict(each[0].diagnostics) for each in samples if isinstance(each, list)]


@pytest.mark.parametrize("name", WAYS)
def test_a_record_shows_the_same_within_its_bracket(name: str) -> None:
    for record in shown(name, toy_b(), 3, 50):
        unclipped, lower = record["log_mass_unclipped"], record["log_mass_lower"]
        most = max(-math.inf if each is None else each for each in (unclipped, lower))
        expected = min(most, record["log_mass_upper"])
        assert record["log_mass"] == (None if expected == -math.inf else expected)


def test_no_candidate_with_a_text_is_null_and_estimated_all_the_same() -> None:
    records = shown("exact, abort", toy_b(), 1, 50)
    nothing = [each for each in records if each["log_mass_unclipped"] is None]
    assert nothing and all(each["log_mass_reliable"] is not None for each in nothing)
    toy, sampler = toy_b(), SAMPLERS["masked"](top_m=2)
    (found,) = sampler.draw_batch(toy.model(), [Request.numbered("", toy.constraint, id=1)])
    assert not isinstance(found, Exception)
    unknown = found[0].diagnostics
    assert unknown["log_mass_unclipped"] is unknown["log_mass_reliable"] is None

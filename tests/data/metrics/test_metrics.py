"""Metrics against cases computed by hand, scikit-learn and scipy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from cdec.data.metrics.evaluation import metrics_of
from cdec.data.metrics.metric import ratio
from cdec.data.metrics.records import Evaluated, Target, folded
from cdec.data.metrics.resampling import RecordTerms, exchanged, interval, p_value, resampled

METRICS = metrics_of((1, 2, 10))
RNG_SEED = 20


def drawn(*texts: str | None, weights: Sequence[float | None] = (), **more: Any) -> list[Any]:
    """Return samples of these texts, with log weights where they are given."""
    logs = [None if w is None else math.log(w) for w in weights] or [None] * len(texts)
    finish = ("complete", "dead_end")
    return [
        {"text": text, "log_weight": log, "finish_reason": finish[text is None], **more}
        for text, log in zip(texts, logs, strict=True)
    ]


def value(name: str, *records: Evaluated) -> float:
    """Return a metric of records; nan where none of them allows it."""
    metric = METRICS[name]
    terms = [found for record in records if (found := metric.terms(record)) is not None]
    return float(metric.value(np.array(terms).sum(axis=0))) if terms else math.nan


def record(
    samples: list[Any], reference: Mapping[str, Any] | None = None, **more: Any
) -> Evaluated:
    return Evaluated("r", samples, reference, **more)


def test_a_match_counts_with_the_weight_of_its_draw() -> None:
    samples = drawn("a", "b", "a", weights=(1.0, 2.0, 5.0))
    assert value("exact_match", record(samples, {"answer": "a"})) == pytest.approx(6 / 8)
    assert value("exact_match", record(samples, {"answers": ["b", "c"]})) == pytest.approx(2 / 8)
    plain = record(samples, {"answer": "a"}, uses_weights=False)
    assert value("exact_match", plain) == pytest.approx(2 / 3)


def test_some_weights_and_some_none_count_equally() -> None:
    found = record(drawn("a", "b", weights=(9.0, None)), {"answer": "a"})
    assert found.is_partly_weighted and value("exact_match", found) == 0.5


def test_texts_without_an_end_are_no_answers_and_keep_their_share() -> None:
    samples = drawn("a", None)
    assert value("exact_match", record(samples, {"answer": "a"})) == 0.5
    cut = [{"text": "a", "finish_reason": "length"}]
    assert value("hits@10", record(cut, {"answer": "a"})) == 0.0


def test_a_record_without_samples_was_answered_wrongly() -> None:
    found = [record(drawn("a"), {"answer": "a"}), record([], {"answer": "b"})]
    assert value("exact_match", *found) == value("hits@1", *found) == 0.5
    assert value("micro_f1", *found) == pytest.approx(2 / 3)


def test_entities_are_known_by_their_ids() -> None:
    samples = [{"text": "Paris", "entity_ids": ["Q90", "Q830149"], "finish_reason": "complete"}]
    assert value("hits@1", record(samples, {"entity_ids": ["Q90"]})) == 1.0
    assert value("hits@1", record(samples, {"relevant": {"Q1": 2, "Q90": 1}})) == 1.0
    assert value("hits@1", record(samples, {"entity_ids": ["Q1"]})) == 0.0


def test_texts_are_folded_where_that_was_asked_for() -> None:
    samples = drawn("  the  CITY ")
    assert value("hits@1", record(samples, {"answer": "The city"})) == 0.0
    assert value("hits@1", record(samples, {"answer": "The city"}, as_compared=folded)) == 1.0


def test_f1_leaves_out_records_that_no_answer_is_right_for() -> None:
    nothing = record(drawn("x"), {"entity_ids": []})
    right, wrong = record(drawn("a"), {"answer": "a"}), record(drawn("b"), {"answer": "a"})
    assert value("micro_f1", nothing, right, wrong) == pytest.approx(0.5)


def test_f1_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(RNG_SEED)
    right, said = rng.integers(0, 4, 60).astype(str), rng.integers(0, 4, 60).astype(str)
    records = [record(drawn(s), {"answer": r}) for r, s in zip(right, said, strict=True)]
    assert value("micro_f1", *records) == pytest.approx(sk.f1_score(right, said, average="micro"))


@pytest.mark.parametrize("k", [1, 2, 10])
def test_gain_is_that_of_scikit_learn(k: int) -> None:
    rng = np.random.default_rng(RNG_SEED + k)
    for _ in range(20):
        grades = rng.integers(0, 4, 6).astype(float)
        grades[0] += 1
        names = [f"t{i}" for i in range(6)]
        order = rng.permutation(6)
        samples = drawn(*(names[i] for i in order), rank=1)
        relevant = dict(zip(names, grades.tolist(), strict=True))
        scores = np.empty((1, 6))
        scores[0, order] = np.arange(6, 0, -1)
        expected = sk.ndcg_score(grades[None], scores, k=k)
        found = record(samples, {"relevant": relevant})
        assert value(f"ndcg@{k}", found) == pytest.approx(expected)
        best = [relevant[names[i]] for i in order[:k]]
        assert value(f"relevance@{k}", found) == pytest.approx(sum(best) / k)


def test_r_precision_cuts_at_the_number_of_right_answers() -> None:
    ranking = drawn("a", "x", "b", "y", rank=1)
    assert value("r_precision", record(ranking, {"answers": ["a", "b"]})) == 0.5
    assert value("r_precision", record(ranking, {"answers": ["a", "b", "c"]})) == pytest.approx(
        2 / 3
    )
    assert math.isnan(value("exact_match", record(ranking, {"answers": ["a"]})))


@pytest.mark.parametrize(
    ("text", "right", "match", "f1"),
    [
        ('{"a": 1, "b": [2, 3]}', {"b": [2, 3.0], "a": 1.0}, 1, 1.0),
        ('{"a": 1, "b": [2, 4]}', {"a": 1, "b": [2, 3]}, 0, 2 / 3),
        ('{"a": true}', {"a": 1}, 0, 0.0),
        ('{"0": 5}', [5], 0, 0.0),
        ("{}", {}, 1, 1.0),
        ("[]", {}, 0, 0.0),
        ("[1, 2]", [2, 1], 0, 0.0),
        ("nothing", "nothing", 0, 0.0),
        ("NaN", None, 0, 0.0),
        ("[" * 100_000, [], 0, 0.0),
    ],
)
def test_values_are_equal_as_json_is(text: str, right: object, match: int, f1: float) -> None:
    found = record(drawn(text), {"value": right})
    assert value("value_match", found) == match
    assert value("value_f1", found) == pytest.approx(f1)


def test_valid_json_is_a_share_of_the_draws() -> None:
    assert value("json_valid", record(drawn('{"a": 1}', "{", "[1]", "01"))) == 0.5
    assert math.isnan(value("json_valid", record(drawn("Paris", "12"))))
    assert value("json_valid", record(drawn("Paris"), {"value": "Paris"})) == 0.0


Q = {"a": 0.5, "b": 0.3, "c": 0.2}
LAW = Target({text: math.log(p) for text, p in Q.items()}, -2.0)


def test_divergences_are_those_of_scipy() -> None:
    samples = drawn("a", "b", "b", "c", weights=(1, 1, 3, 5), logprob=0.0)
    shares, q = [0.1, 0.4, 0.5], list(Q.values())
    found = record(samples, target=LAW)
    assert value("kl", found) == pytest.approx(stats.entropy(shares, q))
    assert value("tv", found) == pytest.approx(np.abs(np.subtract(shares, q)).sum() / 2)
    gap = np.dot(q, np.log(q)) - np.dot(shares, np.log(q))
    assert value("expectation_gap", found) == pytest.approx(gap)
    assert value("effective_share", found) == pytest.approx(1 / np.square([1, 1, 3, 5]).sum() * 25)


def test_a_text_that_the_target_does_not_have_is_infinitely_far() -> None:
    found = record(drawn("a", "z"), target=LAW)
    assert value("kl", found) == math.inf
    assert value("tv", found) == pytest.approx((0.3 + 0.2 + 0.5) / 2)
    dead = record(drawn("a", None), target=LAW)
    assert value("kl", dead) == math.inf


def test_a_target_that_lists_too_little_gives_no_divergence() -> None:
    partial = Target({"a": math.log(0.5), "b": math.log(0.3)})
    assert math.isnan(value("kl", record(drawn("a"), target=partial)))


def test_rankings_are_no_draws() -> None:
    assert math.isnan(value("kl", record(drawn("a", "b", "c", rank=1), target=LAW)))


def test_the_window_differs_from_the_target_by_the_mass() -> None:
    samples = drawn("a", "b", "b", "c")
    for each in samples:
        each["logprob"] = math.log(Q[each["text"]]) + LAW.log_mass
    found = record(samples, target=LAW)
    assert value("kl_model", found) == pytest.approx(value("kl", found) - LAW.log_mass)


def test_the_window_holds_the_last_draws() -> None:
    early, late = drawn("a", logprob=-1.0) * 700, drawn("b", logprob=-3.0) * 500
    assert value("kl_model", record([*early, *late])) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("lower", "upper", "inside"), [(-2.5, -1.5, 1), (-1.9, -1.5, 0), (None, -2.2, 0)]
)
def test_a_bracket_holds_the_mass_or_not(lower: float | None, upper: float, inside: int) -> None:
    samples = drawn("a", log_mass_lower=lower, log_mass_upper=upper)
    assert value("mass_in_bracket", record(samples, target=LAW)) == inside


def test_an_estimate_is_within_two_standard_errors_or_not() -> None:
    for estimate, error, inside in ((-2.15, 0.1, 1), (-2.25, 0.1, 0)):
        samples = drawn("a", log_mass=estimate, log_mass_se=error)
        assert value("mass_within_2se", record(samples, target=LAW)) == inside


def test_perplexity_is_that_of_all_tokens_together() -> None:
    first = record([{"text": "a", "logprob": -3.0, "token_ids": [1, 2]}])
    second = record([{"text": "b", "logprob": -1.0, "token_ids": [1]}])
    assert value("perplexity", first, second) == pytest.approx(math.exp(4 / 3))


def classified(*probabilities: float, right: int) -> Evaluated:
    order = sorted(enumerate(probabilities), key=lambda each: -each[1])
    labels = [{"text": f"l{i}", "id": str(i), "probability": p} for i, p in order]
    return record([{"label": labels[0]["text"], "labels": labels}], {"label": f"l{right}"})


def test_calibration_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(RNG_SEED)
    p = rng.dirichlet([1, 1, 1], 80)
    right = rng.integers(0, 3, 80)
    records = [classified(*row, right=r) for row, r in zip(p.tolist(), right, strict=True)]
    onehot = np.eye(3)[right]
    assert value("brier", *records) == pytest.approx(np.square(p - onehot).sum(axis=1).mean())
    assert value("log_loss", *records) == pytest.approx(sk.log_loss(right, p, labels=[0, 1, 2]))
    assert value("hits@1", *records) == pytest.approx(sk.accuracy_score(right, p.argmax(axis=1)))


def test_the_calibration_error_is_computed_by_hand() -> None:
    records = [
        classified(0.95, 0.05, right=0),
        classified(0.91, 0.09, right=1),
        classified(0.55, 0.45, right=0),
    ]
    assert value("ece", *records) == pytest.approx((abs(0.95 + 0.91 - 1) + abs(0.55 - 1)) / 3)


def test_a_probability_at_the_edge_of_a_bin_belongs_below() -> None:
    terms = METRICS["ece"].terms(classified(0.5, 0.5, right=0))
    assert terms is not None and terms[4] == 1.0


def test_samples_are_calibrated_by_their_probability() -> None:
    samples = [{"text": "a", "finish_reason": "complete", "probability": 0.8}]
    assert value("ece", record(samples, {"answer": "b"})) == pytest.approx(0.8)
    assert math.isnan(value("ece", record(drawn("a"), {"answer": "b"})))


def test_costs_are_means_of_the_samples_that_tell_them() -> None:
    samples = [{"text": "a", "target_calls": 4}, {"text": "b", "target_calls": 0}, {"text": "c"}]
    assert value("target_calls", record(samples)) == 2.0


# --- Intervals and tests.


def terms_of(rng: np.random.Generator, n: int, shift: float = 0.0) -> RecordTerms:
    values = rng.normal(size=n) + shift
    return RecordTerms(np.arange(n), np.stack([values, np.ones(n)], axis=1))


def test_intervals_are_those_of_scipy() -> None:
    job = terms_of(np.random.default_rng(RNG_SEED), 50)
    (sums,) = resampled([job], 50, 9999, np.random.default_rng(1))
    found = interval(float(ratio(job.total)), ratio(sums), 0.9)
    theirs = stats.bootstrap(
        (job.terms[:, 0],),
        np.mean,
        confidence_level=0.9,
        n_resamples=9999,
        method="percentile",
        rng=np.random.default_rng(2),
    )
    # The 5 % quantile of 9,999 resampled means has a standard error of 0.0045 here.
    error = 0.03 * theirs.standard_error + 4 * 2.1 * theirs.standard_error / math.sqrt(9999)
    assert found.lower == pytest.approx(theirs.confidence_interval.low, abs=error)
    assert found.upper == pytest.approx(theirs.confidence_interval.high, abs=error)


def p_values(n: int, shift: float, resamples: int) -> tuple[float, float]:
    """Return our p-value of n records whose systems differ by a shift, and scipy's exact one."""
    rng = np.random.default_rng(RNG_SEED)
    first, second = terms_of(rng, n), terms_of(rng, n, shift)
    gap = RecordTerms(first.records, second.terms - first.terms)
    (moved,) = exchanged([gap], n, resamples, rng)
    theirs = stats.permutation_test(
        (second.terms[:, 0], first.terms[:, 0]),
        lambda x, y: np.mean(x) - np.mean(y),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    return p_value(first, second, moved, ratio), theirs.pvalue


def test_an_exact_test_is_that_of_scipy() -> None:
    ours, theirs = p_values(9, 0.8, 1)
    assert ours == pytest.approx(theirs)


@pytest.mark.slow
def test_a_drawn_test_is_near_the_exact_one() -> None:
    ours, exact = p_values(16, 0.5, 20_000)
    slack = 4 * math.sqrt(exact * (1 - exact) / 20_000)
    assert ours == pytest.approx(exact, abs=slack + 1e-4)


def test_equal_systems_do_not_differ() -> None:
    job = terms_of(np.random.default_rng(RNG_SEED), 30)
    gap = RecordTerms(job.records, job.terms - job.terms)
    (moved,) = exchanged([gap], 30, 50, np.random.default_rng(0))
    assert p_value(job, job, moved, ratio) == 1.0


def test_metrics_of_some_records_are_resampled_with_the_others() -> None:
    whole = terms_of(np.random.default_rng(RNG_SEED), 40)
    some = RecordTerms(whole.records[::2], whole.terms[::2])
    both = resampled([whole, some], 40, 30, np.random.default_rng(3))
    zeroed = whole.terms.copy()
    zeroed[1::2] = 0.0
    (expected,) = resampled([RecordTerms(whole.records, zeroed)], 40, 30, np.random.default_rng(3))
    np.testing.assert_allclose(both[1], expected)


def test_every_metric_says_what_it_is() -> None:
    for name, metric in METRICS.items():
        assert metric.meaning.endswith(".") and metric.needs and metric.name == name
        assert json.dumps(metric.meaning)
        assert metric.better in ("", "higher", "lower")

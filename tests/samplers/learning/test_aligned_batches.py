"""Aligned methods in batches and on random worlds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers import compile_grammar, compile_token_set
from cdec.core import CdecError, Sample, Vocabulary, load_model, open_artifact
from cdec.core.models.base import TreeModel
from cdec.core.models.language_model import LanguageModel
from cdec.core.models.tabular import TabularModel
from cdec.data.assets import embedded_model_path
from cdec.integrations.findings.enumeration import Law, log_prob, masked, mass, target
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.base import Sampler
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from cdec.samplers.walks.mass import Estimate
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.grammar_cases import compiled, random_grammar
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy, random_toy, toy_b, toy_set
from tests.samplers.learning.aligned_reference import opened, rounds_of_all
from tests.samplers.raw_means import watched

# --- Learning samplers in batches of unlike requests, on tensors, and on a real model.

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("asap", {"burn_in": 7, "round": 3}),
    ("asap", {"burn_in": 0, "until_converged": 0.05, "max_draws": 4}),
    ("exact", {"round": 5}),
    ("exact", {"round": 2, "abort": True}),
    ("exact", {"round": 3, "abort": True, "max_draws": 1, "fallback": "asap"}),
    ("exact", {"round": 3, "max_draws": 1, "K": 2}),
]


def drawn(sampler: Sampler, model: LanguageModel, requests: Sequence[Request]) -> list[Any]:
    """Draw a batch; errors are raised."""
    results = sampler.draw_batch(model, requests)
    for result in results:
        if isinstance(result, CdecError):
            raise result
    return results


def assert_same(ours: Sequence[Sample], theirs: Sequence[Sample], accuracy: float = 1e-12) -> None:
    """Compare samples field by field; sums over texts may be added in another order."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for name in ("id", "index", "text", "token_ids", "finish_reason", "exactness", "seed"):
            assert getattr(a, name) == getattr(b, name), name
        for name in ("logprob", "log_weight", "log_candidate_weight"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), abs=accuracy), name
        assert a.diagnostics == pytest.approx(b.diagnostics, abs=accuracy)


def mixed_requests() -> tuple[Toy, list[Request]]:
    """Return requests of several sets, free ones, limits and repeated sets among them."""
    toy = random_toy(8)
    sets = [toy_set(random_toy(seed).members, toy.vocabulary) for seed in (9, 10, 11)]
    own = toy_set(random_toy(9, ends_itself=True).members, toy.vocabulary, ends_itself=True)
    shapes: list[tuple[Any, int, int | None]] = [
        (toy.constraint, 9, None),
        (None, 4, 5),
        (sets[0], 1, None),
        (sets[1], 12, 2),
        (None, 1, 1),
        (own, 6, None),
        (sets[0], 5, 1),
        (sets[2], 0, None),
        (sets[2], 7, 1),
    ]
    requests = [
        Request([i % 3], c, range(100 * i, 100 * i + n), id=i, max_new_tokens=limit)
        for i, (c, n, limit) in enumerate(shapes)
    ]
    return toy, requests


@pytest.mark.share(6)
@pytest.mark.parametrize("how", [{}, {"max_walks": 1}, {"max_walks": 7, "tree_cache": 1}])
@pytest.mark.parametrize(("name", "options"), KINDS)
def test_records_do_not_depend_on_their_batch(
    name: str, options: dict[str, Any], how: dict[str, Any]
) -> None:
    toy, requests = mixed_requests()
    together = drawn(SAMPLERS[name](**options, **how), toy.model(), requests)
    backwards = drawn(SAMPLERS[name](**options), toy.model(), requests[::-1])[::-1]
    for request, samples, other in zip(requests, together, backwards, strict=True):
        (alone,) = drawn(SAMPLERS[name](**options), toy.model(), [request])
        assert_same(samples, alone)
        assert_same(other, alone)
        if request.constraint is None:
            assert {sample.log_weight for sample in samples} <= {0.0, None}


def test_a_request_that_cannot_be_opened_leaves_the_others_alone() -> None:
    toy = toy_b()
    other = Toy(random_toy(1).vocabulary, random_toy(1).probabilities, random_toy(1).members)
    requests = [
        Request("", toy.constraint, [1, 2]),
        Request("", other.constraint, [3]),
        Request("", toy.constraint, [4, 5]),
    ]
    for name in ("asap", "exact"):
        results = SAMPLERS[name]().draw_batch(toy.model(), requests)
        assert isinstance(results[1], CdecError)
        (alone,) = drawn(SAMPLERS[name](), toy.model(), [requests[2]])
        assert not isinstance(results[2], CdecError)
        assert_same(results[2], alone)


class HashModel(TreeModel):
    """A model whose scores are a hash of the prefix, float64 tensors on a device."""

    def encode_prompt(self, prompt: Any) -> list[int]:
        return list(prompt)

    def _forward(self, nodes: np.ndarray) -> Any:
        rows = []
        for node in nodes.tolist():
            rng = np.random.default_rng([3, *self.tokens(node)])
            row = rng.normal(size=self.vocabulary.width) * 2
            row[rng.random(len(row)) < 0.1] = -np.inf
            row[list(self.vocabulary.eos_token_ids)] = 1.0
            rows.append(row)
        return torch.tensor(np.array(rows))


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "options"), KINDS)
def test_tensors_and_the_host_draw_the_same(name: str, options: dict[str, Any]) -> None:
    toy, requests = mixed_requests()
    sampler = SAMPLERS[name](**options)
    on_host = drawn(sampler, HashModel(toy.vocabulary, device="cpu"), requests)
    on_device = drawn(sampler, HashModel(toy.vocabulary, device="torch:cpu"), requests)
    for ours, theirs in zip(on_host, on_device, strict=True):
        assert_same(ours, theirs, 1e-10)


def scored_law(model: LanguageModel, constraint: Any, rows: list[list[int]], prompt: Any) -> Law:
    """Return Q by scoring every member."""
    requests = [ScoreRequest(prompt, constraint, token_ids=row) for row in rows]
    logs = []
    for score in Scorer(model).run(requests):
        assert isinstance(score, Score)
        logs.append(score.logprob)
    p = np.exp(np.array(logs, float))
    return {tuple(row): float(q) for row, q in zip(rows, p / p.sum(), strict=True)}


@pytest.mark.parametrize(
    ("name", "options"),
    [("exact", {}), ("exact", {"abort": True, "max_draws": 3000}), ("asap", {"burn_in": 600})],
)
def test_draws_of_the_embedded_model_follow_the_scored_law(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model = load_model(embedded_model_path("draft"))
    vocabulary = model.vocabulary
    rng = np.random.default_rng(4)
    prompt = "Once upon a time"
    few = rng.choice(np.flatnonzero(vocabulary.is_ordinary), 4, replace=False)
    made = {tuple(rng.choice(few, rng.integers(1, 4)).tolist()) for _ in range(25)}
    rows = [list(row) for row in sorted(made)]
    compile_token_set(rows, vocabulary, tmp_path / "rows.arrow")
    constraint = open_artifact(tmp_path / "rows.arrow", vocabulary=vocabulary)
    law = scored_law(model, constraint, rows, prompt)
    (samples,) = drawn(SAMPLERS[name](**options), model, [Request(prompt, constraint, range(800))])
    assert all(sample.valid for sample in samples)
    assert g_test((tuple(sample.token_ids) for sample in samples), law) >= 1e-4


def test_grammars_on_the_embedded_model_give_valid_samples(tmp_path: Path) -> None:
    model = load_model(embedded_model_path("draft"))
    source = 'start: "yes" | "no" | "maybe" (" not")?\n'
    compile_grammar(source, model.vocabulary, tmp_path / "g.arrow")
    constraint = open_artifact(tmp_path / "g.arrow", vocabulary=model.vocabulary)
    for name, options in KINDS[:3]:
        requests = [Request(prompt, constraint, range(12)) for prompt in ("Is it? ", "Say: ")]
        for samples in drawn(SAMPLERS[name](**options), model, requests):
            for sample in samples:
                assert sample.finish_reason in ("complete", "budget")
                assert sample.text in {"yes", "no", "maybe", "maybe not"} and sample.valid
                assert sample.logprob is not None and math.isfinite(sample.logprob)


def test_a_second_run_on_the_same_model_draws_the_same() -> None:
    toy = toy_b()
    model: TabularModel = toy.model()
    request = Request("", toy.constraint, range(30))
    first = drawn(SAMPLERS["exact"](round=4), model, [request])[0]
    again = drawn(SAMPLERS["exact"](round=4), model, [request])[0]
    assert_same(first, again)


# --- Learning samplers on random sets, random grammars and random models, against enumeration.

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())
LETTERS = Vocabulary(
    [b"a", b"b", b"c", b"ab", b"ba", b"bc", b"", b""], eos_token_ids=[6, 7], width=9
)
LONGEST = 3
"""Tokens of a grammar's text at most: there are 6 + 36 + 216 of them."""
RECORDS = heavy_or(150, 300)


def draw_records(
    name: str, model: Any, constraint: Any, records: int, n: int, **how: Any
) -> list[list[Sample]]:
    """Draw ``n`` samples for each of ``records`` records that learn apart."""
    limit, rng = how.pop("limit", None), np.random.default_rng(how.pop("seed", 3))
    requests = [
        Request("", constraint, draw_seeds(rng, n), max_new_tokens=limit) for _ in range(records)
    ]
    found = []
    for drawn in SAMPLERS[name](max_walks=1 << 15, **how).draw_batch(model, requests):
        assert not isinstance(drawn, CdecError), drawn
        found.append(drawn)
    return found


def rows_of(records: list[list[Sample]]) -> list[Row]:
    return [tuple(sample.token_ids) for samples in records for sample in samples]


def check_exact(records: list[list[Sample]], law: Law, total: float) -> None:
    """Compare draws with Q, and certified bounds with P(S)."""
    if total == 0:
        found = {(s.finish_reason, s.log_weight, s.logprob) for r in records for s in r}
        assert found <= {("dead_end", None, None), ("length", None, None)}
        return
    assert {s.finish_reason for r in records for s in r} == {"complete"}
    # 40 tests at 1e-5 each: a correct sampler fails once in 2,500 choices of seeds.
    assert g_test(rows_of([r[:1] for r in records]), law) >= 1e-5
    assert g_test(rows_of(records), law) >= 1e-5
    for samples in records:
        lower, upper = (samples[-1].diagnostics[f"log_mass_{s}"] for s in ("lower", "upper"))
        assert lower <= math.log(total) + 1e-9 and upper >= math.log(total) - 1e-9


def check_mass(found: list[Estimate], first: Law, law: Law, total: float) -> None:
    """Compare the mean estimate with P(S), unless it rests on texts that are rarely drawn.

    Args:
        first: Law of the first candidates. law: Q.
    """
    shown = sum(q for row, q in law.items() if first.get(row, 0.0) * len(found) >= 25)
    if shown < 0.98:
        return
    estimates = np.exp([each.log_mean for each in found])
    error = estimates.std(ddof=1) / math.sqrt(len(found))
    assert abs(estimates.mean() - total) <= 4.5 * error + 0.02 * total


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(toy=TOYS, size=st.sampled_from([1, 2, 16]), abort=st.booleans(), n=st.integers(1, 5))
def test_exact_draws_of_random_sets_follow_q(toy: Toy, size: int, abort: bool, n: int) -> None:
    how: dict[str, Any] = {"round": size, "abort": abort, "max_draws": 10**6}
    total = mass(toy)
    law: Law = target(toy) if total > 0 else {}
    with watched() as found:
        records = draw_records("exact", toy.model(), toy.constraint, RECORDS, n, **how)
    check_exact(records, law, total)
    if total > 0:
        # Aborting candidates come out as P has it until something is known.
        first = {row: q * total for row, q in law.items()} if abort else masked(toy).law
        check_mass(found, first, law, total)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(toy=TOYS, size=st.sampled_from([1, 3, 16]))
def test_weighted_asap_records_of_random_sets_estimate_p(toy: Toy, size: int) -> None:
    count, n = RECORDS, 6
    # Later candidates of a text that is rare under P are few and heavy: their mean shows nothing.
    common = [row for row in toy.members if math.exp(log_prob(toy, row)) * count >= 15]
    shares = np.zeros((count, len(common)))
    how: dict[str, Any] = {"burn_in": 0, "round": size}
    with watched() as found:
        records = draw_records("asap", toy.model(), toy.constraint, count, n, **how)
    for record, samples in enumerate(records):
        weights = [0.0 if s.log_weight is None else math.exp(s.log_weight) for s in samples]
        for sample, weight in zip(samples, weights, strict=True):
            if weight and (row := tuple(sample.token_ids)) in common:
                shares[record, common.index(row)] += weight / n
        mean = np.average(weights, weights=np.arange(1, n + 1))
        assert math.exp(found[record].log_mean) == pytest.approx(mean)
    expected = np.array([math.exp(log_prob(toy, row)) for row in common])
    error = shares.std(axis=0, ddof=1) / math.sqrt(count)
    assert (np.abs(shares.mean(axis=0) - expected) <= 4.5 * error + 1e-9).all()


@settings(max_examples=20, deadline=None, derandomize=True)
@given(toy=TOYS, size=st.integers(1, 6), aborting=st.booleans())
def test_brackets_of_random_sets_hold_the_mass_after_every_round(
    toy: Toy, size: int, aborting: bool
) -> None:
    total, before = mass(toy), (0.0, 1.0)
    with opened(toy, 1, size, aborting=aborting) as (batch, rounds):
        for _ in range(20):
            rounds_of_all(batch, rounds, size)
            lower = math.exp(float(batch.tree.log_found[0]))
            upper = math.exp(rounds.log_root(0))
            assert before[0] - 1e-12 <= lower <= total + 1e-12
            assert total - 1e-12 <= upper <= before[1] + 1e-12
            before = (lower, upper)


class LetterModel:
    """A random model over LETTERS that sees the last two tokens and ends more often as it goes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, prefix: Row) -> np.ndarray:
        own = np.random.default_rng([self.seed, len(prefix), *prefix[-2:]])
        weights = own.exponential(size=LETTERS.width) + 1e-3
        weights[6:8] *= 1 + len(prefix)
        return np.asarray(weights / weights.sum())


def enumerate_texts(constraint: Any, model: LetterModel) -> dict[Row, float]:
    """Return P of every token sequence that spells a member, by the independent check."""
    texts: dict[Row, float] = {}
    verdicts: dict[bytes, bool | None] = {}
    for length in range(LONGEST + 1):
        for row in itertools.product(range(6), repeat=length):
            text = LETTERS.decode(row)
            if text not in verdicts:
                verdicts[text] = constraint.accepts(text)
            if verdicts[text]:
                p = math.prod(model(row[:i])[token] for i, token in enumerate(row))
                texts[row] = float(p * model(row)[6:8].sum())
    return texts


def grammars(folder: Path, wanted: int) -> list[tuple[int, Any]]:
    """Return random grammars that compile, with their numbers."""
    found: list[tuple[int, Any]] = []
    for seed in itertools.count():
        source = random_grammar(np.random.default_rng(seed), nullable=seed % 2 == 0)
        place = folder / str(seed)
        place.mkdir()
        try:
            found.append((seed, compiled(source, place, LETTERS)))
        except CdecError:
            continue
        if len(found) == wanted:
            return found
    return found


@pytest.mark.slow
def test_draws_of_random_grammars_follow_q(tmp_path: Path) -> None:
    bounded = 0
    for seed, constraint in grammars(tmp_path, 8):
        model = LetterModel(seed)
        texts = enumerate_texts(constraint, model)
        total = sum(texts.values())
        law: Law = {row: p / total for row, p in texts.items()}
        how: dict[str, Any] = {"limit": LONGEST, "seed": seed}
        exact = draw_records(
            *("exact", TabularModel(model, LETTERS), constraint, 100, 8),
            **how,
            round=1 + seed % 7,
            abort=seed % 3 == 0,
            max_draws=10**5,
        )
        check_exact(exact, law, total)
        if not texts:
            continue
        burnt = {"burn_in": 1000, "round": 50}
        (late,) = draw_records(
            "asap", TabularModel(model, LETTERS), constraint, 1, 1000, **how, **burnt
        )
        gap = late[0].diagnostics
        if gap["log_mass_upper"] - gap["log_mass_lower"] < 1e-9:
            bounded += 1
            assert g_test(rows_of([late]), law) >= 1e-5
        assert gap["log_mass_lower"] <= math.log(total) + 1e-9
        assert gap["log_mass_upper"] >= math.log(total) - 1e-9
    assert bounded >= 3

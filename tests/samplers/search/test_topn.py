"""The method topn, by tokens and by texts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import UsageError
from cdec.core.models.base import TreeModel
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import mass, target
from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.request import Request
from cdec.samplers.search.members import Found, SearchResult, ranked
from cdec.samplers.topn import TopnSampler
from tests.laws.grammar_cases import compiled
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b, toy_set
from tests.samplers.search.topn_cases import (
    ROUNDING,
    Spellings,
    assert_best,
    best_members,
    calls,
    evaluations,
    field,
    search,
    wide_toy,
)
from tests.samplers.smc_laws import dead_end_toy

# --- Best-first search: the n best members in order, proofs, and bounds that hold.

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())


@pytest.mark.share(3)
@pytest.mark.parametrize("toy", [toy_a(), toy_b()], ids="AB")
@pytest.mark.parametrize("round", [1, 4, 16])
def test_toys_give_their_members_in_order_with_bounds_that_hold(toy: Toy, round: int) -> None:
    for n in range(1, len(toy.members) + 3):
        assert_best(toy, n, round=round)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(toy=TOYS, n=st.integers(1, 10), round=st.sampled_from([1, 2, 16]))
def test_random_sets_agree_with_enumeration(toy: Toy, n: int, round: int) -> None:
    assert_best(toy, n, round=round)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [1, 7, 45, 200])
def test_prefixes_with_many_children_are_widened(seed: int, n: int) -> None:
    assert_best(wide_toy(seed), n)
    assert_best(wide_toy(seed), n, round=1, max_walks=1)


@pytest.mark.share(1)
@pytest.mark.parametrize("toy", [toy_a(), toy_b(), wide_toy(1)], ids=["A", "B", "wide"])
def test_the_bracket_closes_as_more_members_are_asked_for(toy: Toy) -> None:
    truth = math.log(mass(toy))
    before = (-math.inf, 0.0)
    for n in range(1, len(toy.members) + 2, 1 + len(toy.members) // 10):
        sample = search(toy, n)[0]
        bracket = tuple(sample.diagnostics[f"log_mass_{side}"] for side in ("lower", "upper"))
        assert before[0] - ROUNDING <= bracket[0] <= truth + ROUNDING
        assert before[1] + ROUNDING >= bracket[1] >= truth - ROUNDING
        before = bracket
    everything = search(toy, len(toy.members) + 1)
    assert everything[0].diagnostics["log_mass_upper"] == pytest.approx(truth, abs=ROUNDING)
    assert everything[0].diagnostics["log_mass_lower"] == pytest.approx(truth, abs=ROUNDING)
    assert len(everything) == len(toy.members)
    assert field(everything, "exhausted") == [False] * (len(toy.members) - 1) + [True]


def faint(prefix: Row) -> np.ndarray:
    """A model that puts 1e-9 on three choices, of one, two and three tokens."""
    table = {
        (): [1e-9, 0.6, 3e-9, 0.4 - 4e-9],
        (0,): [1e-3, 0.5, 0.5 - 2e-3, 1e-3],
        (2,): [0.9, 0.05, 1e-5, 0.05 - 1e-5],
        (2, 0): [0.2, 0.3, 1e-4, 0.5 - 1e-4],
    }
    return np.array(table.get(prefix, [0.1, 0.1, 0.1, 0.7]))


@pytest.mark.parametrize("ends_itself", [False, True])
def test_three_choices_have_their_exact_probabilities_which_sum_to_one(ends_itself: bool) -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], [3], [3])
    toy = Toy(vocabulary, faint, [(0, 0), (2, 0, 2), (2, 2)], ends_itself)
    truth = target(toy)
    samples = search(toy, 3)
    assert len({tuple(s.token_ids) for s in samples}) == 3
    for side in ("lower", "upper"):
        q = [s.diagnostics[f"probability_{side}"] for s in samples]
        assert sum(q) == pytest.approx(1, abs=ROUNDING)
        assert q == pytest.approx([truth[tuple(s.token_ids)] for s in samples], abs=ROUNDING)


def test_sixteen_and_more_choices_are_exact_too() -> None:
    vocabulary = Vocabulary([bytes([65 + t]) for t in range(24)] + [b""], [24], [24])

    def probabilities(prefix: Row) -> np.ndarray:
        weights = np.append(np.full(23, 1e-12), [1.0, 1.0])
        return weights / weights.sum()

    for count in (15, 16, 17, 23):
        toy = Toy(vocabulary, probabilities, [(t,) for t in range(count)])
        samples = search(toy, count)
        for side in ("lower", "upper"):
            q = [s.diagnostics[f"probability_{side}"] for s in samples]
            assert sum(q) == pytest.approx(1, abs=ROUNDING)


def test_ties_come_in_token_order() -> None:
    vocabulary = Vocabulary([b"a", b"b", b""], [2], [2])
    rows = list(itertools.product((0, 1), repeat=3))
    toy = Toy(vocabulary, lambda prefix: np.array([0.25, 0.25, 0.5]), rows)
    assert [tuple(s.token_ids) for s in search(toy, 8)] == rows
    halves = Toy(
        vocabulary,
        lambda prefix: np.array([0.5, 0.5, 0.0] if prefix else [0.5, 0.25, 0.25]),
        [(0, 1), (1,)],
        ends_itself=True,
    )
    assert [tuple(s.token_ids) for s in search(halves, 2)] == [(0, 1), (1,)]
    shorter = [tuple(s.token_ids) for s in search(toy, 3)]
    assert shorter == sorted(shorter) == [tuple(s.token_ids) for s in search(toy, 3)]


def test_a_record_does_not_depend_on_its_batch() -> None:
    vocabulary = toy_b().vocabulary
    others = [toy_set([(0, 0), (1,), (2, 2, 2), (2, 1)], vocabulary), None]
    requests = [
        Request("", toy_b().constraint, range(4)),
        Request([1], others[0], range(2)),
        Request("", toy_b().constraint, range(2)),
        Request([2], None, range(5), max_new_tokens=4),
    ]
    for walks in (1, 3, 2048):
        sampler = TopnSampler(round=3, max_walks=walks)
        together = sampler.draw_batch(toy_b().model(), requests)
        for request, samples in zip(requests, together, strict=True):
            assert sampler.draw_batch(toy_b().model(), [request])[0] == samples


def test_children_that_are_not_listed_count_in_the_upper_bound() -> None:
    width = 60
    vocabulary = Vocabulary([bytes([48 + t]) for t in range(width)] + [b""], [width], [width])
    toy = Toy(
        vocabulary, lambda _: np.full(width + 1, 1 / (width + 1)), [(t,) for t in range(50)], True
    )
    for n in (1, 20, 40, 50):
        found = search(toy, n, round=1)[0].diagnostics
        bracket = [found[f"log_mass_{side}"] for side in ("lower", "upper")]
        assert np.exp(bracket) == pytest.approx([n / (width + 1), 50 / (width + 1)], abs=ROUNDING)


def test_without_a_constraint_the_models_best_texts_come() -> None:
    toy = toy_b()
    limit, texts = 4, {}
    for length in range(limit + 1):
        for row in itertools.product(range(3), repeat=length):
            steps = [toy.probabilities(row[:i])[t] for i, t in enumerate((*row, 3))]
            texts[row] = math.log(math.prod(steps))
    ranked = sorted(texts.values(), reverse=True)
    for n in (1, 5, 30):
        samples = TopnSampler().draw(
            toy.model(), None, "", n=n, rng=np.random.default_rng(0), max_new_tokens=limit
        )
        assert [s.logprob for s in samples] == pytest.approx(ranked[:n])
        found = [math.exp(s.logprob) for s in samples]
        assert found == field(samples, "probability")
        bounds = [field(samples, f"probability_{side}") for side in ("lower", "upper")]
        assert all(
            low < p < high < low + ROUNDING for low, high, p in zip(*bounds, found, strict=True)
        )
        assert "log_mass_upper" not in samples[0].diagnostics
    missing = TopnSampler().draw(
        toy.model(), None, "", n=200, rng=np.random.default_rng(0), max_new_tokens=limit
    )
    assert sum(s.logprob is not None for s in missing) == len(texts)
    assert missing[-1].finish_reason == "length"


def test_a_peaked_model_is_searched_with_few_evaluations() -> None:
    width, length = 10, 8
    vocabulary = Vocabulary([b"%d" % t for t in range(width)] + [b""], [width], [width])

    def probabilities(prefix: Row) -> np.ndarray:
        weights = np.full(width + 1, 1e-3)
        weights[(3 * sum(prefix) + len(prefix)) % width] = 1.0
        weights[width] = 1.0 if len(prefix) == length else 1e-3
        return weights / weights.sum()

    model = TabularModel(probabilities, vocabulary)
    samples = TopnSampler(round=1).draw(
        model, None, "", n=3, rng=np.random.default_rng(0), max_new_tokens=length
    )
    # Prefixes of the best text alone, then of a few that leave it once; 11 ** 8 texts exist.
    assert evaluations(samples) <= 3 * (length + 1) + 3 * length
    assert all(field(samples, "proved"))


def test_a_larger_round_finds_the_same_members() -> None:
    toy = wide_toy(5)
    runs = [search(toy, 20, round=round) for round in (1, 5, 64)]
    assert len({tuple(tuple(s.token_ids) for s in run) for run in runs}) == 1
    assert evaluations(runs[0]) <= evaluations(runs[1]) <= evaluations(runs[2])
    assert runs[1][0].diagnostics["round"] == 5


def test_the_warped_model_is_ranked() -> None:
    toy = toy_b()
    model = toy.model().with_warping(temperature=0.3)
    samples = TopnSampler().draw(model, toy.constraint, "", n=6, rng=np.random.default_rng(0))

    def warped(prefix: Row) -> np.ndarray:
        weights = toy.probabilities(prefix) ** (1 / 0.3)
        return weights / weights.sum()

    truth = best_members(Toy(toy.vocabulary, warped, toy.members))
    assert [tuple(s.token_ids) for s in samples] == [row for _, row in truth]
    assert [s.logprob for s in samples] == pytest.approx([p for p, _ in truth], abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"by": "tokens"}, {"round": 0}, {"max_evaluations": 0}, {"max_walks": 0}, {"round": True}],
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        TopnSampler(**options)  # type: ignore[arg-type]


def test_what_has_no_probability_is_no_member() -> None:
    samples = search(dead_end_toy(), 3)
    assert [tuple(s.token_ids) for s in samples] == [(1,), (1, 1)]
    assert field(samples, "exhausted") == [False, True]
    q = [s.diagnostics["probability_upper"] for s in samples]
    assert sum(q) == pytest.approx(1, abs=ROUNDING)


def test_without_any_member_one_sample_says_so() -> None:
    vocabulary = Vocabulary([b"a", b"b", b""], [2], [2])
    toy = Toy(vocabulary, lambda prefix: np.array([0.0, 0.5, 0.5]), [(0,)])
    (sample,) = search(toy, 4)
    assert (sample.finish_reason, sample.valid) == ("dead_end", False)
    assert (sample.rank, sample.proved, sample.exhausted) == (None, None, True)


def test_a_text_that_ends_itself_spares_worse_prefixes_of_its_round() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], [3], [3])
    toy = Toy(
        vocabulary,
        lambda prefix: np.array([0.5, 0.3, 0.1, 0.1]),
        [(0,), (1, 0), (2, 1)],
        ends_itself=True,
    )
    samples = search(toy, 1, round=16)
    assert [tuple(s.token_ids) for s in samples] == [(0,)]
    assert evaluations(samples) == 1
    bracket = [math.exp(samples[0].diagnostics[f"log_mass_{s}"]) for s in ("lower", "upper")]
    assert bracket == pytest.approx([0.5, 0.9], abs=ROUNDING)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_tensors_are_searched_like_arrays(device: str) -> None:
    class Tensors(TreeModel):
        event_rounding = TabularModel.event_rounding

        def encode_prompt(self, prompt: Any) -> list[int]:
            return list(prompt)

        def _forward(self, nodes: np.ndarray) -> Any:
            rows = [toy.probabilities(tuple(self.tokens(node))) for node in nodes.tolist()]
            return torch.log(torch.tensor(np.array(rows, np.float64).reshape(len(nodes), -1)))

    torch = pytest.importorskip("torch")
    toy = wide_toy(7)
    model = Tensors(toy.vocabulary, device=device)
    samples = TopnSampler().draw(model, toy.constraint, [1], n=60, rng=np.random.default_rng(0))
    expected = search(toy, 60)
    assert [s.token_ids for s in samples] == [s.token_ids for s in expected]
    for name in ("probability_lower", "probability_upper"):
        assert field(samples, name) == pytest.approx(field(expected, name), abs=ROUNDING)


# --- Best-first search by text: sums over tokenisations, their bounds, and what is certain.

TEXTS = ["ab", "aab", "b", "abab", "aaaa", "ba"]


@pytest.fixture(scope="module")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> object:
    source = "start: " + " | ".join(f'"{text}"' for text in TEXTS) + "\n"
    return compiled(source, tmp_path_factory.mktemp("texts"), Spellings(TEXTS, 0).vocabulary)


def by_text(spellings: Spellings, grammar: object, n: int, **options: object) -> list[Sample]:
    """Return the n best texts."""
    if "max_evaluations" not in options:
        options = {"proved": True, **options}
    sampler = TopnSampler(by="text", **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    return sampler.draw(spellings.model(), grammar, "", n=n, rng=rng, max_new_tokens=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_all_texts_have_their_exact_sums(seed: int, grammar: object) -> None:
    spellings = Spellings(TEXTS, seed)
    samples = by_text(spellings, grammar, len(TEXTS) + 1)
    found = {s.text: s.diagnostics for s in samples}
    assert {text: d["log_text"] for text, d in found.items()} == pytest.approx(spellings.by_text)
    ranked = sorted(TEXTS, key=lambda text: -spellings.by_text[text])
    assert [s.text for s in samples] == ranked
    assert field(samples, "exhausted") == [False] * (len(ranked) - 1) + [True]
    for sample in samples:
        rows = [
            r for r in spellings.log_p if spellings.vocabulary.decode(r).decode() == sample.text
        ]
        assert sample.diagnostics["tokenisations"] == len(rows)
        best = max(rows, key=lambda row: spellings.log_p[row])
        assert tuple(sample.token_ids) == best
        assert sample.logprob == pytest.approx(spellings.log_p[best], abs=ROUNDING)
        log_q = spellings.by_text[sample.text] - spellings.log_mass
        for side in ("lower", "upper"):
            q = sample.diagnostics[f"probability_{side}"]
            assert q == pytest.approx(math.exp(log_q), abs=ROUNDING)
    assert {s.exactness for s in samples} == {"exact"}


@pytest.mark.share(10)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("round", [1, 8])
def test_a_few_texts_have_bounds_that_hold_and_certain_ranks_are_right(
    seed: int, round: int, grammar: object
) -> None:
    spellings = Spellings(TEXTS, seed)
    ranked = sorted(TEXTS, key=lambda text: -spellings.by_text[text])
    for n in range(1, len(TEXTS)):
        samples = by_text(spellings, grammar, n, round=round)
        assert len({s.text for s in samples}) == n
        assert all(field(samples, "proved"))
        sums = [s.diagnostics["log_text"] for s in samples]
        assert sums == sorted(sums, reverse=True)
        for i, sample in enumerate(samples):
            log_p = spellings.by_text[sample.text]
            assert sample.diagnostics["log_text"] <= log_p + ROUNDING
            known = sample.diagnostics
            lower, upper = known["probability_lower"], known["probability_upper"]
            q = math.exp(log_p - spellings.log_mass)
            assert lower <= q + ROUNDING
            assert upper >= q - ROUNDING
            if sample.exactness == "exact":
                assert sample.text == ranked[i]
        # No tokenisation that was missed has more than the last sum.
        missed = [
            p
            for row, p in spellings.log_p.items()
            if spellings.vocabulary.decode(row).decode() not in {s.text for s in samples}
        ]
        assert max(missed) <= sums[-1] + ROUNDING


@pytest.mark.slow
def test_some_ranks_are_certain_and_some_are_not(grammar: object) -> None:
    seen = set()
    for seed in range(12):
        for n in range(1, len(TEXTS)):
            samples = by_text(Spellings(TEXTS, seed), grammar, n, round=1)
            seen |= {s.exactness for s in samples}
    assert seen == {"exact", "heuristic"}


def test_sequences_of_one_text_are_members_of_their_own_unless_by_text(grammar: object) -> None:
    spellings = Spellings(TEXTS, 3)
    samples = TopnSampler().draw(
        spellings.model(), grammar, "", n=8, rng=np.random.default_rng(0), max_new_tokens=5
    )
    ranked = sorted(spellings.log_p, key=lambda row: -spellings.log_p[row])
    assert [tuple(s.token_ids) for s in samples] == ranked[:8]
    assert len({s.text for s in samples}) < 8
    assert "log_text" not in samples[0].diagnostics


def test_texts_of_the_model_alone_are_summed_too() -> None:
    spellings = Spellings([], 1)
    samples = TopnSampler(by="text").draw(
        spellings.model(), None, "", n=4, rng=np.random.default_rng(0), max_new_tokens=3
    )
    for sample in samples:
        total = Spellings([sample.text], 1).by_text[sample.text]
        lower, upper = (sample.diagnostics[f"probability_{side}"] for side in ("lower", "upper"))
        assert sample.diagnostics["log_text"] <= total + ROUNDING
        shown = math.exp(sample.diagnostics["log_text"])
        assert shown - ROUNDING < lower < shown
        assert upper >= math.exp(total) - ROUNDING


def test_a_set_has_one_tokenisation_a_text() -> None:
    plain, summed = search(toy_b(), 6), search(toy_b(), 6, by="text")
    assert [s.token_ids for s in plain] == [s.token_ids for s in summed]
    assert field(summed, "tokenisations") == [1] * 6
    bounds = field(plain, "probability_upper")
    assert field(summed, "probability_upper") == pytest.approx(bounds, abs=ROUNDING)


def test_a_budget_leaves_sums_that_are_lower_bounds(grammar: object) -> None:
    spellings = Spellings(TEXTS, 2)
    for budget in (1, 3, 6, 10, 20):
        samples = by_text(spellings, grammar, 3, max_evaluations=budget, round=2)
        assert calls(samples) <= budget
        for sample in samples:
            if sample.logprob is None:
                assert (sample.finish_reason, sample.text, sample.valid) == ("budget", None, None)
                continue
            assert sample.finish_reason == "complete"
            log_p = spellings.by_text[sample.text]
            assert sample.logprob <= sample.diagnostics["log_text"] <= log_p + ROUNDING
            q = math.exp(log_p - spellings.log_mass)
            assert q - ROUNDING <= sample.diagnostics["probability_upper"] <= 1


def test_a_rank_is_certain_if_the_open_mass_closes_no_gap_on_either_side() -> None:
    sums = [0.5, 0.49, 0.3, 0.1, 0.04]
    for log_bound, expected in ((-9.0, [0, 0, 1, 1, 0]), (-math.inf, [1, 1, 1, 1, 1])):
        found = Found(5, lambda context: context, lambda context: [context])
        for context, p in enumerate(sums):
            found.add(context, math.log(p))
        bracket = Bracket(math.log(0.9), math.log(0.95))
        known = SearchResult(bracket, math.log(0.05), log_bound, True, False, lambda log_p: 0.0)
        members = ranked(found, known, by_text=True)
        assert [member.is_certain for member in members] == [bool(e) for e in expected]
        assert all(member.proved for member in members)


@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_rank_is_not_certain_where_prefixes_were_left_out(size: int) -> None:
    vocabulary = Vocabulary(
        [b"ab.", b"c", b"d.", b"cd.", b""], eos_token_ids=[4], special_token_ids=[4]
    )

    def probabilities(prefix: Row) -> np.ndarray:
        after = {(): [0.40, 0.31, 0.0, 0.29, 0.0], (1,): [0.0, 0.0, 1.0, 0.0, 0.0]}
        return np.array(after.get(prefix, [0.0, 0.0, 0.0, 0.0, 1.0]))

    # "cd." has .60 in two tokenisations, more than the one of "ab.".
    toy = Toy(vocabulary, probabilities, [(0,), (1, 2), (3,)], ends_itself=True)
    for n in (1, 2):
        sampler = TopnSampler(by="text", round=size)
        samples = sampler.draw(toy.model(), toy.constraint, "", n=n, rng=np.random.default_rng(0))
        if samples[0].text != "cd.":
            assert samples[0].exactness == "heuristic"
    whole = TopnSampler(by="text", round=size).draw(
        toy.model(), toy.constraint, "", n=3, rng=np.random.default_rng(0)
    )
    assert [s.text for s in whole[:2]] == ["cd.", "ab."]

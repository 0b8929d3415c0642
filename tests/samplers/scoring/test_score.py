"""Scores of given texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.errors import (
    CdecError,
    ContextLengthError,
    EncodingError,
    FieldError,
    ModelError,
    TokenizerMismatchError,
    UntokenizableError,
    UsageError,
)
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import log_prob, masked, mass, target
from cdec.samplers.disc import DiscSampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from cdec.samplers.scoring.texts import token_ids_of
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b, toy_set
from tests.samplers.scoring.scores import checked, error_of, score

# --- Scores of given texts against enumeration: log P, sums of log Z, membership, bounds of Q.

SOME = 1e-9


def toys() -> list[Toy]:
    """Return the design's toys, random ones with two end ids, and some that end themselves."""
    return [
        toy_a(),
        toy_b(),
        *(random_toy(seed) for seed in range(12)),
        *(random_toy(seed, ends_itself=True) for seed in range(12)),
    ]


@pytest.mark.parametrize("toy", toys())
def test_every_member_has_its_enumerated_probability_and_weight(toy: Toy) -> None:
    exact = masked(toy)
    for row, found in zip(toy.members, score(toy, toy.members), strict=True):
        expected = log_prob(toy, row)
        assert (found.member, found.valid, found.first_refused) == (True, True, None)
        assert found.text == toy.vocabulary.decode(row).decode()
        assert found.events == len(row) + (not toy.ends_itself)
        if expected == -math.inf:
            assert (found.logprob, found.perplexity, found.probability_upper) == (None, None, None)
            continue
        assert found.logprob == pytest.approx(expected, abs=SOME)
        assert found.log_z_sum == pytest.approx(math.log(exact.x[row]), abs=SOME)
        assert found.log_masked == pytest.approx(math.log(exact.law[row]), abs=SOME)
        assert found.perplexity == pytest.approx(math.exp(-expected / found.events))


@pytest.mark.parametrize("toy", toys())
def test_all_members_close_the_bracket_and_some_contain_the_truth(toy: Toy) -> None:
    if mass(toy) == 0:
        for found in score(toy, toy.members):
            assert found.log_mass_lower is None
            # What a difference of sums may have lost to rounding is never denied.
            assert found.log_mass_upper is None or found.log_mass_upper < math.log(1e-12)
        return
    truth, law = math.log(mass(toy)), target(toy)
    for found in score(toy, toy.members):
        assert found.log_mass_lower == pytest.approx(truth, abs=SOME)
        # The bound leaves room for the rounding of sums: 1e-14 of each prefix's mass.
        assert found.log_mass_upper == pytest.approx(truth, abs=SOME + 1e-13 / mass(toy))
    for row in toy.members:
        (found,) = score(toy, [row])
        if law[row] == 0:
            continue
        assert found.log_mass_lower is not None and found.log_mass_upper is not None
        assert found.log_mass_lower - SOME <= truth <= found.log_mass_upper + SOME
        assert found.probability_lower is not None and found.probability_upper is not None
        assert found.probability_lower - SOME <= law[row] <= found.probability_upper + SOME
        assert found.probability is None or found.probability == pytest.approx(law[row], abs=SOME)


def test_the_upper_bound_is_what_the_scored_prefixes_leave() -> None:
    # Toy A by hand: along 00000 the mass of the five zeros and its end, and all behind a 1.
    (found,) = score(toy_a(), [(0, 0, 0, 0, 0)])
    assert found.log_mass_upper == pytest.approx(math.log(0.45**5 * 1e-8 + 0.55))
    assert found.log_mass_lower == pytest.approx(found.logprob)


def test_members_on_the_way_count_as_found() -> None:
    toy = toy_b()
    (found,) = score(toy, [(0, 1, 2)])  # a and ab are its beginnings
    seen = sum(math.exp(log_prob(toy, row)) for row in [(0,), (0, 1), (0, 1, 2)])
    assert found.log_mass_lower == pytest.approx(math.log(seen))


def test_duplicates_change_no_bound() -> None:
    toy = toy_b()
    once = score(toy, [(0, 1)])
    assert score(toy, [(0, 1)] * 5) == once * 5


def test_candidates_narrow_the_bracket_reproducibly() -> None:
    toy = toy_b()
    truth = math.log(mass(toy))
    (alone,) = score(toy, [(2, 1)])
    (few,) = score(toy, [(2, 1)], candidates=5)
    (many,) = score(toy, [(2, 1)], candidates=3000)
    assert score(toy, [(2, 1)], candidates=5) == [few]
    widths = [s.log_mass_upper - s.log_mass_lower for s in (alone, few, many)]  # type: ignore[operator]
    assert widths[0] > widths[1] > widths[2]
    assert many.log_mass_lower == pytest.approx(truth, abs=SOME)
    assert many.log_mass_upper == pytest.approx(truth, abs=SOME)
    assert few.probability is None
    assert many.probability == pytest.approx(target(toy)[2, 1])
    assert [few.logprob, few.log_z_sum] == [alone.logprob, alone.log_z_sum]


def test_pools_share_no_bounds() -> None:
    toy = toy_b()
    rows = [(0,), (2, 1)]
    requests = [
        ScoreRequest("", toy.constraint, token_ids=row, pool=pool) for pool, row in enumerate(rows)
    ]
    apart = checked(Scorer(toy.model()).run(requests))
    assert apart == [score(toy, [row])[0] for row in rows]
    assert apart != score(toy, rows)


def test_an_end_id_that_closes_the_ids_is_the_end_event() -> None:
    toy = random_toy(1)
    row = toy.members[0]
    plain, first, second, twice = score(toy, [row, (*row, 4), (*row, 5), (*row, 4, 4)])
    assert first == second == plain
    assert (twice.member, twice.first_refused) == (False, {"token": len(row), "byte": len(row)})


def test_without_constraint_the_end_is_optional() -> None:
    toy = toy_b()
    request = ScoreRequest("", token_ids=(0, 0, 1))
    (ended,) = checked(Scorer(toy.model()).run([request]))
    (cut,) = checked(Scorer(toy.model(), end=False).run([request]))
    total = sum(math.log(toy.probabilities((0, 0, 1)[:i])[t]) for i, t in enumerate((0, 0, 1)))
    assert (ended.events, cut.events) == (4, 3)
    assert ended.logprob == pytest.approx(log_prob(toy, (0, 0, 1)))
    assert cut.logprob == pytest.approx(total)
    assert cut.perplexity == pytest.approx(math.exp(-total / 3))
    assert "member" not in cut.to_json()
    (nothing,) = checked(Scorer(toy.model(), end=False).run([ScoreRequest("", token_ids=())]))
    assert (nothing.logprob, nothing.perplexity) == (0.0, None)


@pytest.mark.parametrize("method", [MaskedSampler, DiscSampler])
@pytest.mark.parametrize("make", [toy_a, toy_b, lambda: random_toy(7, ends_itself=True)])
def test_samples_score_as_they_were_drawn(make: Callable[[], Toy], method: Any) -> None:
    toy = make()
    model = toy.model().with_warping(0.7, top_p=0.95)
    samples = method().draw(model, toy.constraint, "", n=40, rng=np.random.default_rng(1))
    samples = [sample for sample in samples if sample.finish_reason == "complete"]
    requests = [ScoreRequest("", toy.constraint, s.text, s.token_ids) for s in samples]
    for sample, found in zip(samples, checked(Scorer(model).run(requests)), strict=True):
        assert found.logprob == pytest.approx(sample.logprob, abs=1e-6)
        assert found.log_z_sum == pytest.approx(sample.log_candidate_weight, abs=1e-6)
        assert (found.member, found.valid) == (True, sample.valid)


def test_a_length_limit_is_that_of_the_samplers() -> None:
    toy = toy_b()
    exact = masked(toy, limit=2)
    short = [row for row in toy.members if len(row) <= 2]
    for row, found in zip(short, score(toy, short, max_new_tokens=2), strict=True):
        assert found.log_z_sum == pytest.approx(math.log(exact.x[row]))
    (long,) = score(toy, [(0, 1, 2)], max_new_tokens=2)
    assert (long.member, long.valid, long.first_refused) == (False, True, {"token": 2, "byte": 2})
    # Mass beyond the limit is no mass of this set, in either bound.
    kept = math.log(sum(math.exp(log_prob(toy, row)) for row in short))
    found = score(toy, [*short, (1, 0, 2), (0, 1, 2), (2, 1, 1)], max_new_tokens=2)[0]
    assert found.log_mass_lower == pytest.approx(kept)
    assert found.log_mass_upper == pytest.approx(kept)


def test_chunks_change_no_score_and_prefixes_are_evaluated_once() -> None:
    toy = toy_a()
    calls: list[Row] = []

    def probabilities(prefix: Row) -> np.ndarray:
        calls.append(prefix)
        return toy.probabilities(prefix)

    rows = [*toy.members, (0, 1), (0, 1, 1)]
    whole = score(toy, rows, model=TabularModel(probabilities, toy.vocabulary))
    assert len(calls) == len(set(calls))
    assert set(calls) == {row[:i] for row in rows for i in range(len(row) + 1)}
    assert score(toy, rows, chunk_bytes=1) == whole
    assert score(toy, rows, chunk_bytes=100) == whole


def test_prompts_and_constraints_of_one_call_do_not_mix() -> None:
    toy = toy_b()
    other = toy_set([(0,), (1, 1)], toy.vocabulary)
    requests = [
        ScoreRequest("one", toy.constraint, token_ids=(0,)),
        ScoreRequest("two", other, token_ids=(0,)),
        ScoreRequest([0, 1], token_ids=(0,)),
        ScoreRequest("one", toy.constraint, token_ids=(1, 0, 2)),
        ScoreRequest("one", other, token_ids=(1, 1)),
    ]
    together = checked(Scorer(toy.model()).run(requests))
    for i in (1, 2, 4):
        assert together[i] == checked(Scorer(toy.model()).run([requests[i]]))[0]
    assert [together[0], together[3]] == score(toy, [(0,), (1, 0, 2)])


class TensorModel(TabularModel):
    """A tabular model whose scores are float32 tensors, as a device's are."""

    def __init__(self, toy: Toy, device: str) -> None:
        super().__init__(toy.probabilities, toy.vocabulary)
        self.device = device

    def _forward(self, nodes: Any) -> Any:
        import torch

        return torch.tensor(super()._forward(nodes), dtype=torch.float32)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("toy", [toy_b(), random_toy(4), random_toy(9, ends_itself=True)])
def test_tensors_give_what_arrays_give(toy: Toy, device: str) -> None:
    rows = [*toy.members, (1,), (0, 0, 0)]
    plain = score(toy, rows)
    tensors = score(toy, rows, model=TensorModel(toy, device), chunk_bytes=100)
    for ours, theirs in zip(plain, tensors, strict=True):
        first, second = ours.to_json(), theirs.to_json()
        assert first.keys() == second.keys()
        for key, value in first.items():
            # Float32 rounds each score by 6e-8 of its size; a text has a few of them.
            is_number = isinstance(value, float)
            expected = pytest.approx(value, rel=1e-5, abs=1e-5) if is_number else value
            assert second[key] == expected


def test_records_have_the_documented_keys() -> None:
    member, other = score(toy_b(), [(0,), (1,)])
    keys = [
        *("text", "token_ids", "tokens", "scored_text"),
        *("entity_ids", "logprob", "perplexity", "events"),
        *("log_z_sum", "log_masked", "member", "valid"),
    ]
    bounds = ["log_mass_lower", "log_mass_upper"]
    bounds += ["probability", "probability_lower", "probability_upper"]
    assert list(member.to_json()) == keys + bounds
    keys.remove("entity_ids")
    assert list(other.to_json()) == [*keys, "first_refused", *bounds]


# --- Scoring of what is no member, or no text at all; how texts are spelt.


@pytest.mark.parametrize(
    ("row", "token", "byte"),
    [
        ((), 0, 0),  # the end event: the empty text is no member
        ((1,), 1, 1),
        ((0, 0), 1, 1),
        ((0, 1, 2, 0, 0), 3, 3),
        ((2, 2), 1, 1),
        ((1, 0), 2, 2),
    ],
)
def test_others_are_refused_at_their_first_event(row: Row, token: int, byte: int) -> None:
    toy = toy_b()
    (found,) = score(toy, [row])
    assert (found.member, found.valid) == (False, False)
    assert found.first_refused == {"token": token, "byte": byte}
    assert found.logprob == pytest.approx(log_prob(toy, row))
    assert (found.log_z_sum, found.log_masked) == (None, None)
    assert (found.probability_lower, found.probability_upper) == (None, None)


def test_others_do_not_spoil_the_bounds() -> None:
    toy = toy_b()
    truth = math.log(mass(toy))
    rows = [(), (1,), (0, 0), (0, 1, 2, 0, 0), (2, 2), (0, 2), (2, 1)]
    for found in score(toy, rows):
        assert found.log_mass_lower is not None and found.log_mass_upper is not None
        assert found.log_mass_lower <= truth <= found.log_mass_upper
    # Nothing was found, and 00 leaves what does not begin with it: the bracket has no lower end.
    (alone,) = score(toy_a(), [(0, 1)])
    assert (alone.log_mass_lower, alone.member) == (None, False)
    assert alone.log_mass_upper >= math.log(mass(toy_a()))  # type: ignore[operator]


def test_texts_behind_the_end_of_a_member_are_refused() -> None:
    toy = random_toy(3, ends_itself=True)
    member = toy.members[0]
    (longer, shorter, right) = score(toy, [(*member, 0), member[:-1], member])
    assert longer.first_refused == {"token": len(member), "byte": len(member)}
    assert shorter.first_refused == {"token": len(member) - 1, "byte": len(member) - 1}
    # Where the constraint ends members itself, no end event is charged.
    assert [found.events for found in (longer, shorter, right)] == [
        len(member) + 1,
        len(member) - 1,
        len(member),
    ]
    assert right.member and right.log_mass_upper >= math.log(mass(toy)) - SOME  # type: ignore[operator]


def test_padding_ids_are_refused_and_have_no_text() -> None:
    toy = random_toy(2)  # width 7, six tokens
    (found,) = score(toy, [(*toy.members[0], 6)])
    assert (found.member, found.valid, found.tokens[-1]) == (False, False, "")


def test_texts_of_sets_are_spelt_as_their_rows() -> None:
    # b is one token, or the bytes of the member's own row: the set knows which.
    vocabulary = Vocabulary([b"a", b"b", b"ab", b"<", b">", b""], [5], [5])
    constraint = toy_set([(3, 0, 1, 4)], vocabulary, ends_itself=True, head=b"<", tail=b">")
    model = TabularModel(lambda prefix: np.full(6, 1 / 6), vocabulary)
    (found,) = checked(Scorer(model).run([ScoreRequest("", constraint, "ab")]))
    assert (found.token_ids, found.text, found.tokens) == ([3, 0, 1, 4], "ab", ["<", "a", "b", ">"])
    assert (found.logprob, found.log_z_sum) == pytest.approx((4 * math.log(1 / 6),) * 2)
    assert found.log_masked == 0.0
    # A text that is no member needs a tokenizer.
    assert isinstance(error_of(ScoreRequest("", constraint, "b"), model), UsageError)


def test_texts_of_restricted_sets_and_of_forced_parts_are_spelt_whole() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"ab", b"<", b">", b""], [5], [5])
    members = toy_set([(3, 0, 1, 4)], vocabulary, ends_itself=True, head=b"<", tail=b">")

    class Forced(WrappedConstraint):
        """A constraint that says what stands around its texts, and has no tokens for them."""

        def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
            return [b"<" + text + b">"] if any_text else super().whole_texts(text)

        def token_ids_of(self, text: bytes) -> list[int] | None:
            return None

    assert token_ids_of(vocabulary, WrappedConstraint(members), "ab", None) == [3, 0, 1, 4]
    vocabulary.encode = lambda texts: [[3, 2, 4]] if texts == ["<ab>"] else [[]]  # type: ignore[method-assign]
    assert token_ids_of(vocabulary, Forced(members), "ab", None) == [3, 2, 4]
    with pytest.raises(UntokenizableError):
        token_ids_of(vocabulary, Forced(members), "ba", None)
    with pytest.raises(EncodingError):
        token_ids_of(vocabulary, None, "\ud800", None)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (ScoreRequest("", token_ids=(0, 9)), FieldError),
        (ScoreRequest("", token_ids=(-1,)), FieldError),
        (ScoreRequest("", token_ids=(True,)), FieldError),
        (ScoreRequest("", text="ab", token_ids=(0, 2)), FieldError),
        (ScoreRequest(""), FieldError),
        (ScoreRequest([7], token_ids=(0,)), FieldError),
        (ScoreRequest("", toy_a().constraint, token_ids=(0,)), TokenizerMismatchError),
    ],
)
def test_bad_texts_are_errors_and_others_are_scored(
    request_: ScoreRequest, kind: type[CdecError]
) -> None:
    toy = toy_b()
    good = ScoreRequest("", toy.constraint, token_ids=(0,))
    error, found = Scorer(toy.model()).run([request_, good])
    assert isinstance(error, kind)
    assert found == score(toy, [(0,)])[0]


class SmallModel(TabularModel):
    """A tabular model with room for four tokens."""

    def __init__(self, toy: Toy) -> None:
        super().__init__(toy.probabilities, toy.vocabulary)
        self.context_length = 4


def test_texts_beyond_the_context_are_errors() -> None:
    toy = toy_a()
    long, right = Scorer(SmallModel(toy)).run(
        [ScoreRequest("", token_ids=(1,) * 5), ScoreRequest("", token_ids=(1,) * 4)]
    )
    assert isinstance(long, ContextLengthError) and long.hint
    assert isinstance(right, Score)
    assert right.logprob is None or right.logprob < 0


def test_scores_that_hold_nan_are_an_error() -> None:
    class Broken(TabularModel):
        def _forward(self, nodes: Any) -> Any:
            return np.full((len(nodes), self.vocabulary.width), np.nan)

    toy = toy_b()
    model = Broken(toy.probabilities, toy.vocabulary)
    for constraint in (None, toy.constraint):
        assert isinstance(error_of(ScoreRequest("", constraint, None, (0,)), model), ModelError)


def test_a_prompt_that_fails_takes_no_other_with_it() -> None:
    class Picky(TabularModel):
        def prefill(self, prompts: Any, warping: Any = None, begun: Any = None) -> Any:
            roots = super().prefill(prompts, warping, begun)
            self.bad = {r for r, p in zip(roots.tolist(), prompts, strict=True) if p == [0]}
            return roots

        def evaluate(self, contexts: Any) -> Any:
            if self.bad & set(np.asarray(contexts).tolist()):
                raise ModelError("this prompt breaks the model")
            return super().evaluate(contexts)

    toy = toy_b()
    prompts: list[list[int]] = [[], [0], [0, 1]]
    requests = [ScoreRequest(prompt, toy.constraint, None, (0,)) for prompt in prompts]
    first, broken, last = Scorer(Picky(toy.probabilities, toy.vocabulary)).run(requests)
    assert isinstance(broken, ModelError)
    assert first == last == score(toy, [(0,)])[0]


def test_candidates_without_a_longest_length_are_refused() -> None:
    toy = toy_b()

    class Endless(WrappedConstraint):
        """The toy's set, which does not say how long its members are."""

        max_tokens = None

    request = ScoreRequest("", Endless(toy.constraint), token_ids=(0,))
    error = error_of(request, toy.model(), candidates=2)
    assert isinstance(error, UsageError) and "max_new_tokens" in str(error.hint)
    (found,) = checked(Scorer(toy.model(), candidates=2, max_new_tokens=5).run([request]))
    assert found.member
    with pytest.raises(UsageError):
        Scorer(toy.model(), candidates=-1)

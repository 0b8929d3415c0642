"""Tabular models, and warped distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import FieldError, UsageError
from cdec.core.models import warping as warping_module
from cdec.core.models.tabular import TabularModel
from cdec.core.models.warping import Warping, normalizers
from cdec.core.tokens.vocabulary import Vocabulary

# --- TabularModel and the base of all language models: contexts, caching, usage, warping,
# release.

VOCABULARY = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])


def toy_b(prefix: tuple[int, ...]) -> np.ndarray:
    """The design's toy B: a hash of the prefix decides the weights."""
    h = 0
    for token in prefix:
        h = (5 * h + token + 1) % 23
    weights = np.array([1 + ((h * (t + 2) + 3 * t) % 7) for t in range(4)], float)
    return weights / weights.sum()


class Counted:
    """Toy B that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, prefix: tuple[int, ...]) -> np.ndarray:
        self.asked.append(prefix)
        return toy_b(prefix)


def test_log_probabilities_are_those_of_the_function() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    root = model.prefill(["ignored"])
    deeper = model.advance(model.advance(root, [0]), [1])
    logprobs = model.next_logprobs(np.concatenate([root, deeper, root]))
    expected = np.log([toy_b(()), toy_b((0, 1)), toy_b(())])
    np.testing.assert_allclose(logprobs, expected, atol=1e-15)


def test_equal_prefixes_are_one_context_and_asked_once() -> None:
    function = Counted()
    model = TabularModel(function, VOCABULARY)
    root = int(model.prefill([""])[0])
    rows = model.fork(root, 5)
    children = model.advance(rows, [0, 1, 0, 1, 0])
    assert len(set(children.tolist())) == 2
    distributions = model.evaluate(np.concatenate([rows, children]))
    model.evaluate(children)
    assert sorted(function.asked) == [(), (0,), (1,)]
    assert distributions.scores.shape == (3, 4)
    assert model.usage(root).evaluations == 3
    assert model.usage(root).tokens == 2


def test_prompts_have_contexts_of_their_own() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    first, second = model.prefill(["x", "x"]).tolist()
    model.evaluate([first])
    assert first != second
    assert model.usage(first).calls == 1
    assert model.usage(second).calls == 0


def test_blocks_of_several_steps_are_gathered_row_by_row() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    context = model.prefill([""])
    contexts, prefixes = [context], [()]
    for token in (2, 0, 1, 1):
        model.evaluate(context)
        context = model.advance(context, [token])
        contexts.append(context)
        prefixes.append((*prefixes[-1], token))
    order = np.random.default_rng(0).integers(0, 5, 50)
    logprobs = model.next_logprobs(np.concatenate(contexts)[order])
    np.testing.assert_allclose(logprobs, [np.log(toy_b(prefixes[i])) for i in order])


def test_extend_gives_every_position_and_rollback_returns() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    root = int(model.prefill([""])[0])
    logprobs, context = model.extend(root, [2, 1, 0])
    np.testing.assert_allclose(logprobs, np.log([toy_b((2,)), toy_b((2, 1)), toy_b((2, 1, 0))]))
    assert model.tokens(context) == [2, 1, 0]
    assert model.rollback([context, context], [3, 1]).tolist() == [
        root,
        int(model.advance(model.advance([root], [2]), [1])[0]),
    ]
    with pytest.raises(UsageError, match="beyond the prompt"):
        model.rollback([context], 4)


def test_a_small_budget_evaluates_again_and_gives_the_same() -> None:
    function = Counted()
    model = TabularModel(function, VOCABULARY, cache_bytes=2 * 4 * 8)
    root = model.prefill([""])
    children = model.advance(np.repeat(root, 3), [0, 1, 2])
    for _ in range(2):
        for child, token in zip(children.tolist(), range(3), strict=True):
            np.testing.assert_allclose(model.next_logprobs([child])[0], np.log(toy_b((token,))))
    assert len(function.asked) == 6
    # A batch larger than the budget, part of it kept and part not, is answered whole.
    np.testing.assert_allclose(
        model.next_logprobs(children), [np.log(toy_b((t,))) for t in range(3)]
    )


def test_release_frees_contexts_and_distributions() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    kept = model.prefill(["kept"])
    model.evaluate(model.advance(kept, [1]))
    bytes_before, live_before = model._distributions.bytes, model._tree.live
    for _ in range(3):
        roots = model.prefill(["a", "b"])
        model.evaluate(model.advance(np.repeat(roots, 2), [0, 1, 0, 1]))
        model.release(roots)
    assert model._tree.live == live_before
    assert model._distributions.bytes == bytes_before
    with pytest.raises(UsageError, match="does not exist"):
        model.evaluate(roots)
    with pytest.raises(UsageError, match="returned by prefill"):
        model.release(model.advance(kept, [1]))
    np.testing.assert_allclose(model.next_logprobs(kept)[0], np.log(toy_b(())))


def test_a_hundred_thousand_draws_in_lockstep_share_their_prefixes() -> None:
    function = Counted()
    model = TabularModel(function, VOCABULARY)
    contexts = model.fork(int(model.prefill([""])[0]), 100_000)
    rng = np.random.default_rng(3)
    for _ in range(3):
        distributions = model.evaluate(contexts)
        assert len(distributions.rows) == 100_000
        contexts = model.advance(contexts, rng.integers(0, 3, 100_000))
    assert len(function.asked) == 1 + 3 + 9


def test_each_prompt_keeps_its_own_warping_in_one_batch() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    plain = model.prefill([""])
    hot = model.with_warping(temperature=2.0).prefill([""])
    mixed = model.prefill(["", ""], warping=[Warping(top_k=1), None])
    rows = np.exp(model.next_logprobs(np.concatenate([plain, hot, mixed])))
    expected = toy_b(())
    root_law = expected**0.5 / (expected**0.5).sum()
    one_hot = (expected == expected.max()).astype(float)
    np.testing.assert_allclose(rows, [expected, root_law, one_hot, expected], atol=1e-12)
    child = model.advance(hot, [1])
    law = toy_b((1,)) ** 0.5
    np.testing.assert_allclose(np.exp(model.next_logprobs(child)[0]), law / law.sum())


def test_a_function_that_is_no_distribution_is_refused() -> None:
    for row, message in (
        ([0.5, 0.5, 0.5, 0.5], "sum to 2"),
        ([1.0, 0.0, 0.0], "shape"),
        ([1.5, -0.5, 0.0, 0.0], "negative"),
        ([np.nan, 1.0, 0.0, 0.0], "not finite"),
    ):
        model = TabularModel(lambda _, row=row: row, VOCABULARY)
        with pytest.raises(UsageError, match=message):
            model.evaluate(model.prefill([""]))


def test_probability_zero_is_minus_infinity_without_a_warning() -> None:
    model = TabularModel(lambda _: [0.0, 0.0, 0.0, 1.0], VOCABULARY)
    assert model.next_logprobs(model.prefill([""])).tolist() == [[-np.inf] * 3 + [0.0]]


def test_prompt_token_ids_are_checked() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    root = int(model.prefill([[0, 1, 2]])[0])
    assert model.prompt_length(root) == 3
    with pytest.raises(FieldError, match=r"outside 0\.\.3"):
        model.prefill([[0, 4]])
    with pytest.raises(FieldError, match="not an integer"):
        model.prefill([[0, 1.5]])
    with pytest.raises(UsageError, match=r"outside 0\.\.3"):
        model.advance([root], [4])


def test_ids_begin_anew_when_every_prompt_is_released() -> None:
    model = TabularModel(toy_b, VOCABULARY)
    first = model.prefill(["a", "b"])
    fresh = model.advance(np.repeat(first, 2), [0, 1, 0, 1])
    model.evaluate(fresh)
    model.release(first[:1])
    model.release(first[1:])
    again = model.prefill(["a", "b"])
    assert again.tolist() == first.tolist()
    later = model.advance(np.repeat(again, 2), [0, 1, 0, 1])
    assert later.tolist() == fresh.tolist()
    expected = [np.log(toy_b((token,))) for token in (0, 1, 0, 1)]
    np.testing.assert_allclose(model.next_logprobs(later), expected)


# --- Warping: temperature, top-k and top-p keep what they should, in numpy and torch alike.

PROBABILITIES = np.array([[0.5, 0.2, 0.15, 0.1, 0.05], [0.05, 0.1, 0.15, 0.2, 0.5]])


def warped(warping: Warping, kind: str, scores: np.ndarray | None = None) -> np.ndarray:
    """Return the warped distributions as probabilities."""
    block: Any = np.log(PROBABILITIES) if scores is None else scores.copy()
    if kind == "torch":
        block = torch.from_numpy(block)
    result = warping.apply(block)
    return np.exp(np.asarray(result) - np.asarray(normalizers(result))[:, None])


@pytest.fixture(params=["numpy", "torch"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_temperature_is_a_power_of_the_probabilities(kind: str) -> None:
    expected = PROBABILITIES**2 / (PROBABILITIES**2).sum(-1, keepdims=True)
    np.testing.assert_allclose(warped(Warping(temperature=0.5), kind), expected)


@pytest.mark.parametrize("temperature", [1e-7, 1e-30, 1e-38, 1e-45, 1e-300, 5e-324])
@pytest.mark.parametrize("kept", [np.float32, np.float64])
def test_a_temperature_near_0_leaves_the_best_tokens_whatever_the_precision(
    kind: str, kept: type, temperature: float
) -> None:
    scores = np.log(np.vstack([PROBABILITIES, [[0.4, 0.05, 0.4, 0.1, 0.05]]])).astype(kept)
    scores[0, 4] = -np.inf
    expected = [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0.5, 0, 0.5, 0, 0]]
    np.testing.assert_allclose(warped(Warping(temperature=temperature), kind, scores), expected)


def test_top_k_keeps_the_best_and_renormalises(kind: str) -> None:
    expected = [[0.5 / 0.7, 0.2 / 0.7, 0, 0, 0], [0, 0, 0, 0.2 / 0.7, 0.5 / 0.7]]
    np.testing.assert_allclose(warped(Warping(top_k=2), kind), expected)
    np.testing.assert_allclose(warped(Warping(top_k=9), kind), PROBABILITIES)


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, 1), (0.49, 1), (0.6, 2), (0.71, 3), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(kind: str, top_p: float, kept: int) -> None:
    rows = warped(Warping(top_p=top_p), kind)
    assert ((rows > 0).sum(-1) == kept).all()
    assert (rows[0, :kept] > 0).all()
    np.testing.assert_allclose(rows.sum(-1), 1)


def test_temperature_comes_before_top_p(kind: str) -> None:
    # At temperature 4 the best token holds 0.29, so a nucleus of 0.4 needs two.
    assert ((warped(Warping(temperature=4.0, top_p=0.4), kind) > 0).sum(-1) == 2).all()


def test_a_nucleus_wider_than_the_first_try_ranks_the_whole_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = np.random.default_rng(0).normal(size=(7, 300)) * np.array([[0.1], [9]] * 3 + [[1]])
    expected = warped(Warping(top_p=0.8), "numpy", scores)
    monkeypatch.setattr(warping_module, "_NUCLEUS_FIRST_TRY", 8)
    np.testing.assert_allclose(warped(Warping(top_p=0.8), "torch", scores), expected)
    kept = (expected > 0).sum(-1)
    assert kept.min() <= 8 < kept.max()


def test_normalisers_hold_to_a_millionth_for_large_float32_scores() -> None:
    rng = np.random.default_rng(1)
    scores = (rng.normal(size=(4, 50_000)) * 3 + 40).astype(np.float32)
    exact = normalizers(scores.astype(np.float64))
    for block in (scores, torch.from_numpy(scores)):
        np.testing.assert_allclose(np.asarray(normalizers(block)), exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "not a distribution"),
        ({"temperature": -1.0}, "positive"),
        ({"temperature": float("nan")}, "finite"),
        ({"temperature": "1"}, "number"),
        ({"top_k": 0}, "at least 1"),
        ({"top_k": 1.5}, "integer"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Warping(**options)


def test_temperature_zero_points_to_greedy() -> None:
    with pytest.raises(UsageError) as caught:
        Warping(temperature=0.0)
    assert "greedy" in str(caught.value.hint)

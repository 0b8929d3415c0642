"""TabularModel and the base of all language models: contexts, caching, usage, warping, release."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.errors import FieldError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.models.warping import Warping
from cdec.core.tokens.vocabulary import Vocabulary

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

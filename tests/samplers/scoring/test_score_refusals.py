"""Scoring of what is no member, or no text at all; how texts are spelt."""

from __future__ import annotations

import math
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
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from cdec.samplers.scoring.texts import token_ids_of
from tests.laws.toys import Row, Toy, random_toy, toy_a, toy_b, toy_set
from tests.samplers.enumeration import log_prob, mass
from tests.samplers.scoring.scores import checked, error_of, score

SOME = 1e-9


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

        def whole_text(self, text: bytes) -> bytes:
            return b"<" + text + b">"

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

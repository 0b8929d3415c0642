"""Drafts that do not fit: other vocabularies, other widths of scores, contexts too short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import ContextLengthError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from tests.laws.toys import Row
from tests.samplers.drafts.draft_laws import Rounds, drawn, hasten, p_value
from tests.samplers.drafts.draft_toys import (
    ENDS,
    LETTERS,
    WIDTH,
    Law,
    Pair,
    normalised,
    pairs,
    random_law,
    resized,
)

PAIRS = pairs()
WIDE = 1 << 17


class Short(TabularModel):
    """A tabular model with room for a few tokens of prompt and text."""

    def __init__(self, pair: Pair, context_length: int) -> None:
        super().__init__(pair.draft, pair.toy.vocabulary)
        self.context_length = context_length

    def encode_prompt(self, prompt: Any) -> list[int]:
        tokens = super().encode_prompt(prompt)
        if len(tokens) > (self.context_length or 0):
            raise ContextLengthError("the prompt is too long")
        return tokens


def draft_with(letters: Sequence[bytes], ends: Sequence[int], width: int = WIDTH) -> TabularModel:
    vocabulary = Vocabulary(letters, eos_token_ids=ends, width=width)
    law = np.full(width, 1 / width)
    return TabularModel(lambda prefix: law, vocabulary)


@pytest.mark.parametrize("make", [SpeculativeSampler, MentoredSampler])
def test_a_draft_of_another_vocabulary_is_refused(make: Any) -> None:
    pair = PAIRS["set"]
    other = draft_with([b"x", *LETTERS[1:]], ENDS)
    with pytest.raises(TokenizerMismatchError, match="vocabulary"):
        make(draft=other).draw(pair.toy.model(), pair.constraint, "", rng=np.random.default_rng(0))
    assert other._tree.live == 0


def test_a_draft_on_another_device_is_refused() -> None:
    pair = PAIRS["set"]
    draft = pair.draft_model()
    draft.device = "cuda:0"
    with pytest.raises(UsageError, match="cuda:0"):
        SpeculativeSampler(draft=draft).draw(
            pair.toy.model(), pair.constraint, "", rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("make", [SpeculativeSampler, MentoredSampler])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"draft": "no-such-kind"},
        {"draft": "prompt-lookup", "gamma": 0},
        {"draft": "prompt-lookup", "gamma": 1.5},
        {"draft": "prompt-lookup", "gamma": "often"},
        {"draft": "prompt-lookup", "draft_temperature": -1.0},
        {"draft": "prompt-lookup", "draft_temperature": float("nan")},
        {"draft": "prompt-lookup", "cost_ratio": 0.0},
    ],
)
def test_options_out_of_range_are_usage_errors(make: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"draft": "counts"},
        {"draft": "prompt-lookup", "divergence": -0.1},
        {"draft": "prompt-lookup", "divergence": float("nan")},
        {"draft": "prompt-lookup", "divergence": 0.1, "divergence_total": 1.0},
    ],
)
def test_divergences_that_make_no_sense_are_usage_errors(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MentoredSampler(**options)


def law_of_width(pair: Pair, width: int) -> Any:
    """Return the draft's law by prefix where its scores have another width than the target's."""

    def propose(prefix: Row) -> Law | None:
        # Outputs that only the target has read as the draft's last; those it lacks have no mass.
        seen = tuple(min(token, width - 1) for token in prefix)
        law = np.zeros(max(width, WIDTH))
        law[:width] = resized(pair.draft(seen), width)
        return normalised(pair.masses(prefix, law[:WIDTH]))[0] or None

    return propose


@pytest.mark.parametrize("name", ["set", "free"])
@pytest.mark.parametrize("width", [WIDTH - 1, WIDTH + 3])
def test_scores_of_another_width_change_no_law(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    hasten(monkeypatch, 11)
    sampler = MentoredSampler(
        draft=pair.draft_model(width), gamma=2, divergence=0.2, max_walks=WIDE
    )
    rounds = Rounds(pair, law_of_width(pair, width), 2, 0.2)
    assert p_value(drawn(sampler, pair, 15_000).joint(), rounds.joint_law()) >= 1e-4
    lossless = SpeculativeSampler(draft=pair.draft_model(width), gamma=2, max_walks=WIDE)
    plain = Rounds(pair, lambda prefix: None).law()
    assert p_value(drawn(lossless, pair, 15_000).outcomes, plain) >= 1e-4


@pytest.mark.parametrize("name", ["set", "free"])
def test_a_draft_whose_mass_lies_past_the_targets_width_proposes_the_rest(name: str) -> None:
    pair = PAIRS[name]

    def mostly_outside(prefix: Row) -> np.ndarray:
        return np.append(0.1 * pair.draft(prefix), [0.5, 0.4])

    draft = TabularModel(mostly_outside, pair.toy.vocabulary.with_width(WIDTH + 2))
    inside = SpeculativeSampler(draft=pair.draft_model(), gamma=2)
    outside = SpeculativeSampler(draft=draft, gamma=2)
    found, expected = (drawn(sampler, pair, 500) for sampler in (outside, inside))
    assert found.outcomes == expected.outcomes
    assert found.fields["acceptance_rate"] == expected.fields["acceptance_rate"]


def test_a_draft_without_the_targets_end_is_refused() -> None:
    pair = PAIRS["free"]
    narrow = Vocabulary(LETTERS[:5], eos_token_ids=[4])
    draft = TabularModel(lambda prefix: np.full(5, 0.2), narrow)
    with pytest.raises(TokenizerMismatchError):
        SpeculativeSampler(draft=draft).draw(
            pair.toy.model(), None, "", rng=np.random.default_rng(0), max_new_tokens=2
        )


@pytest.mark.parametrize("name", ["set", "free"])
@pytest.mark.parametrize("room", [-1, 0, 1])
def test_a_draft_goes_as_far_as_its_context(
    name: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    hasten(monkeypatch, 12)
    prompt = [0, 1]

    def propose(prefix: Row) -> Law | None:
        return pair.draft_law(prefix) if len(prefix) <= room else None

    sampler = MentoredSampler(
        draft=Short(pair, len(prompt) + room), gamma=3, divergence=0.3, max_walks=WIDE
    )
    draws = drawn(sampler, pair, 15_000, prompt=prompt)
    assert p_value(draws.joint(), Rounds(pair, propose, 3, 0.3).joint_law()) >= 1e-4
    if room < 0:
        assert set(draws.fields["acceptance_rate"]) == {None}
        assert set(draws.fields["draft_calls"]) == {0}


def test_a_short_draft_changes_no_text_that_it_does_not_propose() -> None:
    """One record has room for the draft, the other has not; each as if alone."""
    pair = PAIRS["set"]
    requests = [
        Request([0], pair.constraint, range(20), id=1),
        Request([0, 1, 2, 3], pair.constraint, range(20), id=2),
    ]
    results = [
        SpeculativeSampler(draft=Short(pair, 3), gamma=3).draw_batch(pair.toy.model(), part)
        for part in (requests, requests[:1], requests[1:])
    ]
    found: list[list[Any]] = [
        [[sample.to_json() for sample in samples] for samples in part if isinstance(samples, list)]
        for part in results
    ]
    assert found[0] == [*found[1], *found[2]]
    assert {sample["acceptance_rate"] for sample in found[0][1]} == {None}


def test_a_draft_that_forbids_itself_everything_proposes_nothing() -> None:
    """Its masked mass is 0 everywhere in the set: the target draws alone."""
    pair = PAIRS["set, dense"]
    mute = Pair(pair.toy, random_law(5, 0.0, (6,)))
    draws = drawn(SpeculativeSampler(draft=mute.draft_model(), gamma=3), mute, 2000)
    plain = drawn(SpeculativeSampler(draft="prompt-lookup", gamma=1), mute, 2000)
    assert draws.outcomes == plain.outcomes
    assert set(draws.fields["acceptance_rate"]) == {None}
    assert sum(draws.fields["draft_calls"]) > 0

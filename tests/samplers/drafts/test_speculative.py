"""The method speculative: drafts, batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import CdecError, ContextLengthError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.base import Sampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from tests.laws.worlds import Row, Toy
from tests.samplers.drafts.draft_laws import Rounds, drawn, p_value
from tests.samplers.drafts.draft_toys import (
    ENDS,
    LETTERS,
    PADDING,
    WIDTH,
    Law,
    Pair,
    made_pair,
    normalised,
    pairs,
    random_law,
    resized,
)
from tests.samplers.keyed import keyed

# --- Drafts that do not fit: other vocabularies, other widths of scores, contexts too short.

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


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["set", "free"])
@pytest.mark.parametrize("width", [WIDTH - 1, WIDTH + 3])
def test_scores_of_another_width_change_no_law(name: str, width: int) -> None:
    pair = PAIRS[name]
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
def test_a_draft_goes_as_far_as_its_context(name: str, room: int) -> None:
    pair = PAIRS[name]
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


# --- With a draft, too, nothing depends on what decodes together; and the accounts are right.

PAIR = pairs()["set"]
OTHER_ROWS: list[Row] = [(1, 1), (2, 0, 3, 1), (2, 2)]
KINDS: dict[str, dict[str, Any]] = {
    "model": {"gamma": 2},
    "long model": {"gamma": 16},
    "greedy model": {"gamma": 3, "draft_temperature": 0.0},
    "warm model": {"gamma": 3, "draft_temperature": 2.0},
    "prompt-lookup": {"draft": "prompt-lookup", "gamma": 2},
    "counts": {"draft": "counts", "gamma": 2},
    "greedy texts": {"greedy": True, "gamma": 3},
    "mentored": {"divergence": 0.2, "gamma": 2},
    "mentored, total": {"divergence_total": 0.3, "gamma": "auto"},
    "mentored prompt-lookup": {"draft": "prompt-lookup", "divergence": 0.5},
}
COSTS = ("target_calls", "target_tokens", "distinct_evaluations", "draft_calls", "cost_per_token")
COSTS += ("path_calls",)
RATES = ("acceptance_rate", "accepted_length")


def make(kind: str, max_walks: int = 1000, pair: Pair = PAIR, **more: Any) -> Sampler:
    """Return the sampler of a kind, with a fresh draft."""
    options: dict[str, Any] = {"draft": pair.draft_model(), "cost_ratio": 0.25} | KINDS[kind] | more
    if kind == "counts":
        options["counts"] = Counts(threshold=0.0)
    make_one = MentoredSampler if kind.startswith("mentored") else SpeculativeSampler
    return make_one(max_walks=max_walks, **options)


def records(results: Any, *, without: tuple[str, ...] = ()) -> list[list[dict[str, Any]]]:
    """Return samples as JSON objects with rounded sums; an error fails the test."""
    found: list[list[dict[str, Any]]] = []
    for samples in results:
        found.append([])
        for sample in samples:
            record = sample.to_json()
            found[-1].append({k: digits(v) for k, v in record.items() if k not in without})
    return found


def digits(value: Any) -> Any:
    """Return a number without its last digits, which hang on the order of a sum."""
    return round(value, 9) if isinstance(value, float) else value


def without_costs(kind: str) -> tuple[str, ...]:
    """Return the fields that may depend on the batch: counts learn from all that was drawn."""
    return (*COSTS, *RATES) if kind == "counts" else ()


def requests() -> list[Request]:
    """Return requests of several constraints and limits, of one vocabulary."""
    other = Toy(PAIR.toy.vocabulary, PAIR.toy.probabilities, OTHER_ROWS).constraint
    own = keyed(PAIR.toy)
    return [
        Request([0, 1, 0], own, seeds=range(6), id="a"),
        Request([2, 3, 2, 3], None, seeds=range(20, 25), id="b", max_new_tokens=3),
        Request([1, 2], other, seeds=range(40, 46), id="c"),
        Request([0, 1, 2, 0], own, seeds=range(60, 64), id="d", max_new_tokens=2),
        Request([], None, seeds=[5, 6, 7], id="e", max_new_tokens=1),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_other_requests_change_nothing(kind: str) -> None:
    together = make(kind).draw_batch(PAIR.toy.model(), requests())
    alone = [make(kind).draw_batch(PAIR.toy.model(), [one])[0] for one in requests()]
    skipped = without_costs(kind)
    assert records(together, without=skipped) == records(alone, without=skipped)


def chunked(kind: str, max_walks: int) -> Any:
    """Draw for a set and for none with so many walks at a time."""
    request = Request([0, 1, 0], keyed(PAIR.toy), seeds=range(40), id="a")
    free = Request([0, 1, 0], None, seeds=range(9), id="b", max_new_tokens=4)
    return make(kind, max_walks).draw_batch(PAIR.toy.model(), [request, free])


@pytest.mark.share("kind")
@pytest.mark.parametrize("max_walks", [1, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_change_no_text_and_no_account(kind: str, max_walks: int) -> None:
    skipped, whole = (*COSTS, *without_costs(kind)), chunked(kind, 1000)
    parts = chunked(kind, max_walks)
    assert records(parts, without=skipped) == records(whole, without=skipped)
    if kind != "counts":
        assert [fields(samples) for samples in parts] == [fields(samples) for samples in whole]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "counts"])
def test_a_seed_gives_the_same_text_whatever_the_other_draws(kind: str) -> None:
    many = make(kind).draw_batch(PAIR.toy.model(), [Request("", PAIR.constraint, seeds=range(30))])[
        0
    ]
    few = make(kind).draw_batch(PAIR.toy.model(), [Request("", PAIR.constraint, [17, 4])])[0]
    assert not isinstance(many, Exception) and not isinstance(few, Exception)
    assert [(s.token_ids, s.log_weight) for s in few] == [
        (many[i].token_ids, many[i].log_weight) for i in (17, 4)
    ]


def test_contexts_of_both_models_are_released() -> None:
    target, draft = PAIR.toy.model(), PAIR.draft_model()
    for kind in ("model", "mentored"):
        make(kind, 4, draft=draft).draw_batch(target, requests())
        assert target._tree.live == draft._tree.live == 0


class Watched(TabularModel):
    """A tabular model that notes what each forward pass evaluates."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.passes: list[list[Row]] = []

    def _forward(self, nodes: Any) -> Any:
        self.passes.append([tuple(self._tree.tokens(int(node))) for node in nodes])
        return super()._forward(nodes)


def always(row: Row) -> Any:
    """Return a model that gives these tokens, then the end, for sure."""

    def probabilities(prefix: Row) -> np.ndarray:
        law = np.zeros(PADDING + 1)
        law[row[len(prefix)] if len(prefix) < len(row) else ENDS[0]] = 1.0
        return law

    return probabilities


def fields(samples: list[Sample] | CdecError) -> list[dict[str, Any]]:
    """Return the accounts of a record's samples."""
    assert not isinstance(samples, CdecError)
    return [{k: s.diagnostics[k] for k in (*COSTS, *RATES)} for s in samples]


@pytest.mark.parametrize("max_walks", [1, 2])
def test_the_accounts_of_a_run_computed_by_hand(max_walks: int) -> None:
    """The draft says 0 1 2 end, the target 0 1 3 3 end; two equal draws.

    Round 1 proposes 0, 1: both accepted, 3 is the bonus. The target evaluates (), 0, 01 at once.
    Round 2 proposes after 013: the draft is past its row and says end; refused for 3.
    Round 3 proposes after 0133: end; accepted.
    """
    pair = made_pair(always((0, 1, 3, 3)), always((0, 1, 2)), is_masked=False, limit=6)
    target = Watched(pair.toy.probabilities, pair.toy.vocabulary)
    draft = Watched(pair.draft, pair.toy.vocabulary)
    sampler = SpeculativeSampler(draft=draft, gamma=2, cost_ratio=0.5, max_walks=max_walks)
    samples = sampler.draw(target, None, "", n=2, rng=np.random.default_rng(0), max_new_tokens=6)
    assert [sample.token_ids for sample in samples] == [[0, 1, 3, 3]] * 2
    assert [sorted(rows) for rows in target.passes] == [
        [(), (0,), (0, 1)],
        [(0, 1, 3)],
        [(0, 1, 3, 3)],
    ]
    assert [row for rows in draft.passes for row in rows] == [
        (),
        (0,),
        (0, 1, 3),
        (0, 1, 3, 3),
    ]
    tested = {"acceptance_rate": 3 / 4, "accepted_length": 3 / 3}
    first = {
        "target_calls": 3,
        "target_tokens": 4,
        "distinct_evaluations": 5,
        "draft_calls": 4,
        "cost_per_token": (0.5 * 4 + 3) / 5,
        "path_calls": 3,
    }
    # Without a cache each draw pays for itself.
    later = {**dict.fromkeys(COSTS, 0), "path_calls": 3}
    assert fields(samples) == [first | tested, later | tested]


def test_the_counters_say_what_both_models_computed() -> None:
    for seed in range(12):
        is_masked = seed % 2 == 0
        pair = made_pair(
            random_law(seed, 0.1),
            random_law(seed + 50, 0.1),
            is_masked=is_masked,
            limit=None if is_masked else 4,
        )
        target = Watched(pair.toy.probabilities, pair.toy.vocabulary)
        draft = Watched(pair.draft, pair.toy.vocabulary)
        sampler = SpeculativeSampler(draft=draft, gamma=(1, 3, 16)[seed % 3])
        prompt = [0, 1, 2]
        samples = sampler.draw(
            target,
            pair.constraint,
            prompt,
            n=1 + seed % 4,
            rng=np.random.default_rng(seed),
            max_new_tokens=pair.limit,
        )
        evaluated = [row for rows in target.passes for row in rows]
        assert len(evaluated) == len(set(evaluated))
        shares: dict[str, list[Any]] = {
            name: [sample.diagnostics[name] for sample in samples] for name in COSTS[:4]
        }
        sums = {name: sum(values) for name, values in shares.items()}
        assert sums["distinct_evaluations"] == len(evaluated)
        assert sums["target_tokens"] == len(evaluated) - 1 + len(prompt)
        assert sums["draft_calls"] == sum(map(len, draft.passes))
        if len(samples) == 1:
            assert sums["target_calls"] == len(target.passes)


# --- Aligned samplers with a draft: guesses change no text.


@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup"])
def test_guesses_change_no_text_of_disc(kind: str) -> None:
    pair: Pair = PAIRS["set, dense"]
    options: dict[str, Any] = {"draft": kind}
    if kind == "greedy model":
        options = {"draft": pair.draft_model(), "draft_temperature": 0.0}
    ours = drawn(DiscSampler(K=3, gamma=2, **options), pair, 1000, prompt=[0, 1, 2, 0])
    plain = drawn(DiscSampler(K=3), pair, 1000, prompt=[0, 1, 2, 0])
    assert ours.outcomes == plain.outcomes
    assert np.array_equal(ours.log_weight, plain.log_weight, equal_nan=True)

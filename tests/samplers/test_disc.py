"""The method disc: its law, many tries, waves."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.errors import CdecError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import expected_draws, mass
from cdec.samplers import disc
from cdec.samplers.disc import DiscSampler, batch_sizes
from cdec.samplers.drafts import speculate
from cdec.samplers.exact import MOST_TRIES, ExactSampler
from cdec.samplers.request import Request
from cdec.samplers.walks import decoding
from cdec.samplers.walks.decoding import decode
from cdec.samplers.walks.frontier import Frontier, Step
from cdec.samplers.walks.randomness import CandidateUniforms
from tests.laws.worlds import Toy, toy_a, toy_b
from tests.samplers import disc_records, raw_means
from tests.samplers.disc_laws import check_disc
from tests.samplers.drafts.draft_toys import pairs

# --- DISC's draws on toy A follow their exact law, at every K, with fresh and recycled fallback.


@pytest.mark.share(1)
@pytest.mark.parametrize("recycle", [False, True])
@pytest.mark.parametrize("tries", [1, 2, 4, 8])
def test_draws_follow_the_exact_law(tries: int, recycle: bool) -> None:
    check_disc(toy_a(), tries, recycle=recycle)


# --- DISC's draws on toy B follow their exact law, at every K, with fresh and recycled fallback.


@pytest.mark.share(1)
@pytest.mark.parametrize("recycle", [False, True])
@pytest.mark.parametrize("tries", [1, 2, 4, 8])
def test_draws_follow_the_exact_law_of_another_toy(tries: int, recycle: bool) -> None:
    check_disc(toy_b(), tries, recycle=recycle)


# --- More tries than decode together: K candidates of a draw go in parts, and nothing changes.

PAIR = pairs()["set"]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "recycle": {"recycle": True},
    "top-m": {"top_m": 3},
    "beams": {"beams": 2},
    "draft": {"draft": True, "gamma": 2},
}


def records(kind: str, tries: int, max_walks: int) -> list[list[dict[str, Any]]]:
    """Draw for a set and for none; return JSON objects with rounded sums."""
    options = dict(KINDS[kind])
    if "draft" in options:
        options["draft"] = PAIR.draft_model()
    ours = DiscSampler(K=tries, max_walks=max_walks, **options)
    asked = [
        Request([0, 1], PAIR.constraint, seeds=range(12)),
        Request([1], None, seeds=range(3), max_new_tokens=3),
    ]
    found = []
    for samples in ours.draw_batch(PAIR.toy.model(), asked):
        assert not isinstance(samples, CdecError)
        each = [sample.to_json() for sample in samples]
        found.append(
            [
                {k: round(v, 9) if isinstance(v, float) else v for k, v in one.items()}
                for one in each
            ]
        )
    return found


def without_calls(found: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Leave out how many calls the target took."""
    return [
        [{k: v for k, v in one.items() if k != "target_calls"} for one in each] for each in found
    ]


@pytest.mark.share("kind")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tries", [2, 17])
def test_parts_change_no_candidate(kind: str, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the calls of a target with a draft, since passes are other ones."""
    whole = without_calls(records(kind, tries, 10_000))
    assert not all(one["accepted"] for one in whole[0])
    for together in (2, 16) if tries > 2 else (2, 3):
        monkeypatch.setattr("cdec.samplers.disc.MOST_TOGETHER", together)
        for max_walks in (1, 40):
            assert without_calls(records(kind, tries, max_walks)) == whole


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_how_many_draws_decode_together_changes_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdec.samplers.disc.MOST_TOGETHER", 4)
    whole = records(kind, 11, 10_000)
    for max_walks in (1, 25, 60):
        assert records(kind, 11, max_walks) == whole


@pytest.mark.parametrize("is_drafted", [False, True])
def test_the_candidates_of_a_draw_decode_in_parts(
    is_drafted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    own = speculate.speculate_on if is_drafted else decode

    def watched(first: Any, walks: NDArray[np.int64], *others: Any, **options: Any) -> Any:
        sizes.append(len(walks))
        return own(first, walks, *others, **options)

    monkeypatch.setattr("cdec.samplers.walks.decoding.decode", watched)
    monkeypatch.setattr("cdec.samplers.drafts.speculate.speculate_on", watched)
    monkeypatch.setattr("cdec.samplers.disc.MOST_TOGETHER", 16)
    records("draft" if is_drafted else "plain", 50, 16)
    assert max(sizes) == 16
    assert sum(sizes) >= 12 * 50


def test_more_tries_than_memory_holds_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 4194304"):
        DiscSampler(K=(1 << 22) + 1)


def test_the_fallback_of_exact_refuses_more_tries_than_fit_together() -> None:
    with pytest.raises(UsageError, match="at most 65536"):
        ExactSampler(K=MOST_TRIES + 1)
    assert ExactSampler(K=MOST_TRIES + 1, fallback="asap").K == MOST_TRIES + 1


# --- DISC draws its candidates in waves: the same records as all at once, for fewer candidates.

RECORDED = json.loads(disc_records.FILE.read_text())


@pytest.mark.slow
def test_records_are_those_of_all_candidates_at_once() -> None:
    found = {
        label: disc_records.checksum(disc_records.drawn(*case))
        for label, *case in disc_records.cases()
    }
    assert found == RECORDED


@pytest.mark.parametrize("options", [{}, {"recycle": True}])
@pytest.mark.parametrize("fixed", [3, 40])
def test_candidates_for_the_mass_change_no_text(fixed: int, options: dict[str, Any]) -> None:
    toy = toy_b()
    plain, more = (
        disc_records.drawn(
            DiscSampler(K=7, mass_draws=number, **options), toy.model(), toy.constraint, None
        )
        for number in (1, fixed)
    )
    assert plain == more


def test_a_prompt_gets_in_a_batch_what_it_gets_alone() -> None:
    toy = toy_b()
    asked = [Request([], toy.constraint, seeds=range(9 * i, 9 * i + 3)) for i in range(12)]
    sampler = DiscSampler(K=16)
    together = sampler.draw_batch(toy.model(), asked)
    alone = [sampler.draw_batch(toy.model(), [each])[0] for each in asked]
    shown = [
        [[sample.to_json() for sample in samples] for samples in found]  # type: ignore[union-attr]
        for found in (together, alone)
    ]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("tries", "fixed", "most", "sizes"),
    [
        (1, 1, 99, [1]),
        (4, 1, 99, [1, 1, 2]),
        (20, 1, 99, [1, 1, 2, 4, 8, 4]),
        (20, 1, 4, [1, 1, 2, 4, 4, 4, 4]),
        (20, 3, 99, [3, 3, 6, 8]),
        (4, 9, 99, [9]),
    ],
)
def test_waves_double_what_was_drawn(tries: int, fixed: int, most: int, sizes: list[int]) -> None:
    found = list(batch_sizes(tries, fixed, most))
    assert [size for _, size in found] == sizes
    assert [first for first, _ in found] == [sum(sizes[:i]) for i in range(len(sizes))]


@contextmanager
def decoded() -> Iterator[list[int]]:
    """Collect how many walks each decoding takes."""
    sizes: list[int] = []

    def watched(batch: Any, request: NDArray[np.int64], *others: Any, **options: Any) -> Any:
        sizes.append(len(request))
        return decode(batch, request, *others, **options)

    with mock.patch.object(decoding, "decode", watched):
        yield sizes


@pytest.mark.parametrize("tries", [1, 4, 16])
@pytest.mark.parametrize("toy", [toy_a(), toy_b()], ids=["a", "b"])
def test_candidates_drawn_are_within_a_tenth_of_those_needed_and_one(toy: Toy, tries: int) -> None:
    draws = 1000
    with decoded() as sizes:
        rng = np.random.default_rng(tries)
        sampler = DiscSampler(K=tries, max_walks=1 << 15)
        sampler.draw(toy.model(), toy.constraint, "", n=draws, rng=rng)
    needed = expected_draws(toy, tries)
    # Candidates of a draw vary by no more than K, and K more where all are refused.
    slack = 4 * tries / math.sqrt(draws)
    assert needed - slack <= sum(sizes) / draws <= 1.1 * (needed + 1)


def test_prompts_of_a_batch_share_every_wave() -> None:
    toy = toy_b()
    asked = [Request([], toy.constraint, seeds=[seed]) for seed in range(50)]
    with decoded() as sizes:
        DiscSampler(K=4).draw_batch(toy.model(), asked)
    # Of 1, 1 and 2 candidates, and the 4 that are resampled.
    assert len(sizes) == 4
    assert sizes[0] == 50


def test_a_candidate_that_will_be_refused_is_given_up_at_once() -> None:
    # After "a" hardly anything is allowed, so a test almost surely fails there already.
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    law = np.array([0.001, 0.899, 0.1])
    toy = Toy(vocabulary, lambda prefix: law, [(0,) * 30, (0, *(0, 1) * 15)])
    evaluated = {}
    for name, tries in (("few", 1), ("many", 64)):
        rng = np.random.default_rng(0)
        (sample,) = DiscSampler(K=tries, recycle=False).draw(
            toy.model(), toy.constraint, "", n=1, rng=rng
        )
        assert not sample.diagnostics["accepted"]
        evaluated[name] = sample.diagnostics["distinct_evaluations"]
    assert evaluated["many"] == evaluated["few"]


WAYS: dict[str, dict[str, Any]] = {
    "masked": {},
    "drafted": {"draft": TabularModel(lambda prefix: [0.4, 0.3, 0.2, 0.1], toy_b().vocabulary)},
    "counts": {"draft": "counts", "gamma": 2},
    "beams": {"beams": 2},
}


@pytest.mark.share(4)
@pytest.mark.parametrize("gamma", [1, 3, "auto"])
@pytest.mark.parametrize("way", WAYS)
def test_giving_candidates_up_changes_no_sample(
    way: str, gamma: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**WAYS[way], **({"gamma": gamma} if "draft" in WAYS[way] else {})}
    toy, drawn, stepped = toy_b(), [], []
    take = Step.of

    def counted(frontier: Frontier, **how: bool) -> Step:
        stepped[-1] += len(frontier.request)
        return take(frontier, **how)

    monkeypatch.setattr(Step, "of", counted)
    for gives_up in (True, False):
        if not gives_up:
            monkeypatch.setattr(disc, "log_below", lambda tests: np.full(len(tests), -np.inf))
        stepped.append(0)
        request = Request("", toy.constraint, range(60))
        samples = DiscSampler(K=16, **options).draw_batch(toy.model(), [request])[0]
        names = ("draws", "accepted", "log_mass_unclipped")
        drawn.append(
            [(s.token_ids, s.log_weight, *(s.diagnostics[name] for name in names)) for s in samples]
        )
        long = long_toy()
        records = [Request("", long.constraint, [seed]) for seed in range(20)]
        stepped.append(0)
        found = DiscSampler(K=16, **options).draw_batch(long.model(), records)
        assert all(isinstance(each, list) for each in found)
    assert drawn[0] == drawn[1]
    # Nearly all of the first 16 candidates end after a few of their nine steps.
    assert stepped[1] < 0.8 * stepped[3]


def long_toy() -> Toy:
    """All texts of eight letters a and b, of which hardly one is accepted."""
    rows = list(itertools.product((0, 1), repeat=8))
    return Toy(toy_b().vocabulary, lambda prefix: np.array([0.3, 0.2, 0.4, 0.1]), rows)


class GridUniforms(CandidateUniforms):
    """The middles of a grid of four numbers: a draw's seed lists those of all its candidates."""

    def _fill(self, walks: Any, blocks: Any) -> None:
        for walk, block in zip(walks.tolist(), blocks, strict=True):
            self.blocks[walk] = block
            digits = int(self._seeds[walk]) >> (6 * int(self._candidates[walk]))
            numbers = [(digits >> (2 * i)) & 3 for i in range(3)]
            self.values[walk] = (np.resize(numbers, self.width) + 0.5) / 4


def even_toy() -> Toy:
    """A toy of which a grid of four numbers a choice is an exact enumeration.

    Masked decoding draws "a" with 1/2 (x = 1/4), "b" with 1/8 and "ba" with 3/8 (x = 1/2).
    """
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3])
    laws = {
        (): [0.25, 0.25, 0.5, 0.0],
        (0,): [0.0, 0.0, 0.5, 0.5],
        (1,): [0.75, 0.0, 0.0, 0.25],
        (1, 0): [0.0, 0.0, 0.0, 1.0],
    }
    return Toy(vocabulary, lambda prefix: np.array(laws[prefix]), [(0,), (1,), (1, 0)])


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [1, 2])
def test_the_mass_is_unbiased_by_exact_enumeration(fixed: int) -> None:
    toy = even_toy()
    truth = mass(toy)
    assert truth == pytest.approx(0.375)
    # All outcomes of two candidates, each a record of its own.
    asked = [Request([], toy.constraint, seeds=[seed]) for seed in range(64**2)]
    with (
        raw_means.watched() as found,
        mock.patch.object(decoding, "CandidateUniforms", GridUniforms),
    ):
        records = DiscSampler(K=2, mass_draws=fixed).draw_batch(toy.model(), asked)
    means = [math.exp(each.log_mean) for each in found]
    assert len(means) == 64**2
    assert np.mean(means) == pytest.approx(truth, rel=1e-12)
    samples = [samples[0] for samples in records if isinstance(samples, list)]
    is_accepted = [bool(sample.diagnostics["accepted"]) for sample in samples]
    assert np.mean(is_accepted) == pytest.approx(1 - (1 - truth) ** 2, rel=1e-12)
    # What is accepted has the law Q, and its weight is no estimate: it is larger on average.
    accepted = [s for s, is_one in zip(samples, is_accepted, strict=True) if is_one]
    assert np.mean([s.text == "a" for s in accepted]) == pytest.approx(1 / 3, rel=1e-12)
    weights = [math.exp(sample.log_candidate_weight or 0.0) for sample in accepted]
    assert np.mean(weights) > 1.1 * truth


def test_the_bracket_is_of_all_that_was_seen() -> None:
    toy = toy_b()
    widths = []
    for fixed in (1, 16):
        rng = np.random.default_rng(2)
        sampler = DiscSampler(K=16, mass_draws=fixed)
        (sample,) = sampler.draw(toy.model(), toy.constraint, "", n=1, rng=rng)
        fields = sample.diagnostics
        assert fields["log_mass_lower"] <= math.log(mass(toy)) <= fields["log_mass_upper"]
        assert (fields["ess"] == 1) is (fixed == 1)
        widths.append((fields["log_mass_lower"], sample.token_ids))
    assert widths[0][1] == widths[1][1]
    assert widths[0][0] > -math.inf

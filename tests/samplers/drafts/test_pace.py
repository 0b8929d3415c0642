"""The number of proposals that pays: simulated costs; and that it changes no text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cdec.core.sample import Sample
from cdec.samplers.base import Sampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.drafts import pace
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.drafts.pace import LENGTHS, Pace
from cdec.samplers.exact import ExactSampler
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from tests.samplers.drafts.draft_toys import Pair, made_pair, pairs, random_law
from tests.samplers.keyed import keyed

# --- Simulated texts, passes and drafts, by a clock that only they move.


@dataclass
class World:
    """What passes cost, and what is accepted.

    Attributes:
        cost: Seconds of a pass, by walks and proposals.
        accepted: Share of proposals accepted, by all tokens so far.
        walks: Texts of a batch. length: Mean tokens of a text. batches: Number of batches.
        reading: Seconds a text that a draft takes to read it; 0 of a draft that reads none.
        foresees: Whether steps tell what would have been proposed, as counts do.
    """

    cost: Callable[[int, int], float]
    accepted: Callable[[int], float]
    walks: int = 1
    length: int = 80
    batches: int = 20
    reading: float = 0.0
    foresees: bool = False

    def run(self, length: int | None, seed: int) -> tuple[float, list[int]]:
        """Decode with a fixed number of proposals, or None with those that pay.

        Returns:
            Seconds without their noise, and the numbers chosen.
        """
        rng, lengths = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        clock, spent, drawn = 0.0, 0.0, 0
        ours = Pace(reads_texts=self.reading > 0)
        chosen: list[int] = []
        for _ in range(self.batches):
            ours.begin(self.walks)
            left = 1 + lengths.poisson(self.length, self.walks)
            unread = True
            while left.any():
                open_ones = np.flatnonzero(left)
                n = len(open_ones)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(pace, "clock", lambda now=clock: now)
                    k = 0
                    if length is not None:
                        k = length
                    elif not ours.goes_on(n):
                        k = ours.choose(n, 1000)
                seconds = self.cost(n, k) + (self.reading * n if k and unread else 0.0)
                unread = unread and not k
                spent += seconds
                # A pass takes now longer, now shorter; one of a hundred is interrupted.
                noisy = seconds * np.exp(0.1 * rng.standard_normal())
                clock += noisy * (10 if rng.random() < 0.01 else 1)
                follows = rng.random((n, k)) < self.accepted(drawn)
                accepted = np.cumprod(follows, axis=1).sum(axis=1)
                tokens = np.minimum(left[open_ones], 1 + accepted)
                left[open_ones] -= tokens
                drawn += int(tokens.sum())
                told = int((rng.random(n) < self.accepted(drawn)).sum())
                if k:
                    ours.note(int(tokens.sum()), accepted)
                elif self.foresees:
                    ours.foresee(1, n, told)
                chosen.append(k)
        return spent, chosen


SMALL: Callable[[int, int], float] = lambda n, k: 2.5e-3 * (1 + 0.15 * k)  # noqa: E731
USELESS = {
    "counts, one text": World(SMALL, lambda t: 0.0),
    "costly passes, 32 texts": World(
        lambda n, k: 2e-3 + 1e-3 * n * (1 + 0.9 * k), lambda t: 0.5, 32
    ),
    "a model, one text": World(
        lambda n, k: 2.5e-3 * (1 + 0.4 * k), lambda t: 0.2, batches=30, reading=2e-3
    ),
    "a model, 64 texts": World(
        lambda n, k: 2e-3 + 4e-4 * n * (1 + 1.2 * k), lambda t: 0.5, 64, reading=1e-3
    ),
    "a good model, 64 short texts": World(
        lambda n, k: 2e-3 + 4e-4 * n * (1 + 0.6 * k), lambda t: 0.75, 64, 6, 60, reading=1e-3
    ),
}
USEFUL = {
    "counts, one text": World(SMALL, lambda t: 0.9),
    "counts that learn": World(SMALL, lambda t: 0.9 * min(1.0, t / 400), foresees=True),
    "cheap passes, 32 texts": World(
        lambda n, k: 2e-3 + 1e-4 * n * (1 + 0.3 * k), lambda t: 0.8, 32
    ),
    "a model, one text": World(lambda n, k: 2.5e-3 * (1 + 0.3 * k), lambda t: 0.85, reading=2e-3),
}


@pytest.mark.share("name")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", USELESS)
def test_a_draft_that_does_not_pay_costs_three_percent_at_most(name: str, seed: int) -> None:
    world = USELESS[name]
    spent, chosen = world.run(None, seed)
    late = chosen[len(chosen) // 2 :]
    assert late.count(0) >= 0.8 * len(late)
    # It was tried: what follows is no accident.
    assert any(chosen)
    assert spent <= 1.03 * world.run(0, seed)[0]


@pytest.mark.share("name")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", USEFUL)
def test_a_draft_that_pays_is_used_nearly_as_well_as_it_can_be(name: str, seed: int) -> None:
    world = USEFUL[name]
    fixed = {k: world.run(k, seed)[0] for k in LENGTHS}
    best = min(fixed, key=lambda k: fixed[k])
    spent, chosen = world.run(None, seed)
    assert best > 0
    assert spent <= 1.2 * fixed[best]
    assert spent <= 0.75 * fixed[0]
    if world.foresees:
        return
    late = chosen[-len(chosen) // 4 :]
    near = LENGTHS[max(1, LENGTHS.index(best) - 1) : LENGTHS.index(best) + 2]
    # The last texts of a batch are few, and each number of them is learnt for itself.
    assert sum(late.count(k) for k in near) >= 0.5 * len(late)


def test_a_draft_that_stops_paying_is_left() -> None:
    world = World(SMALL, lambda t: 0.9 if t < 800 else 0.0)
    for seed in range(4):
        spent, chosen = world.run(None, seed)
        assert chosen[-200:].count(0) >= 160
        assert max(chosen[:400]) >= 4
        assert spent <= world.run(0, seed)[0]


def test_no_more_is_proposed_than_there_is_room_for() -> None:
    ours = Pace(reads_texts=False)
    ours.begin(1)
    for most in (0, 1, 3, 9, 1000, 0, 5):
        for _ in range(60):
            k = ours.choose(1, most)
            assert k <= most and k in LENGTHS
            if k:
                ours.note(1 + k, np.array([k]))


# --- Texts and weights are those without a draft, however the clock makes the number jump.

METHODS: dict[str, tuple[type[Sampler], dict[str, Any], type[Sampler]]] = {
    "speculative": (SpeculativeSampler, {}, MaskedSampler),
    "speculative, greedy": (SpeculativeSampler, {"greedy": True}, GreedySampler),
    "masked": (MaskedSampler, {}, MaskedSampler),
    "masked, top-M": (MaskedSampler, {"top_m": 2}, MaskedSampler),
    "greedy, opportunistic": (GreedySampler, {"opportunistic": True}, GreedySampler),
    "disc": (DiscSampler, {"K": 3}, DiscSampler),
    "exact": (ExactSampler, {"round": 4}, ExactSampler),
}
DRAFTS = ("model", "warm model", "greedy model", "counts", "prompt-lookup")


def jump(patch: pytest.MonkeyPatch, seed: int) -> list[int]:
    """Let the number of proposals be any at any time; return the list of what is chosen."""
    rng = np.random.default_rng(seed)
    chosen: list[int] = []

    def choose(self: Pace, walks: int, most: int) -> int:
        chosen.append(int(rng.choice([length for length in LENGTHS if length <= most])))
        return chosen[-1]

    patch.setattr(Pace, "choose", choose)
    return chosen


def options_of(draft: str, pair: Pair, gamma: int | str) -> dict[str, Any]:
    if not draft.endswith("model"):
        return {"draft": draft, "gamma": gamma, "counts": Counts(threshold=0.0)}
    warm = {"warm model": 1.5, "greedy model": 0.0}.get(draft)
    return {"draft": pair.draft_model(), "gamma": gamma, "draft_temperature": warm}


def drawn(sampler: Sampler, pair: Pair) -> list[Any]:
    """Return what samples of two prompts say, but for costs; draws of an earlier batch aside."""
    constraint = keyed(pair.toy, fold=2) if pair.is_masked else None
    asked = [
        Request(prompt, constraint, range(first, first + 25), max_new_tokens=pair.limit)
        for prompt, first in (([0, 1, 2, 0], 0), ([2, 3, 2], 100))
    ]
    found = sampler.draw_batch(pair.toy.model(), asked)
    return [
        [(s.token_ids, s.finish_reason, s.logprob, s.log_weight) for s in samples_of(samples)]
        for samples in found
    ]


def samples_of(found: Any) -> list[Sample]:
    assert isinstance(found, list)
    return found


def near(found: Any) -> Any:
    """Return an approximation of nested samples: sums may be taken in another order."""
    return [
        [(tokens, reason, pytest.approx(p, abs=1e-9), w and pytest.approx(w, abs=1e-9))]
        for samples in found
        for tokens, reason, p, w in samples
    ]


def flat(found: Any) -> Any:
    return [[sample] for samples in found for sample in samples]


@pytest.mark.share(9)
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("method", METHODS)
def test_texts_and_weights_are_those_without_a_draft(
    method: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options, plain = METHODS[method]
    chosen = jump(monkeypatch, len(method) + len(draft))
    for name in ("set", "set, dense", "set that ends texts", "free"):
        pair = pairs()[name]
        if not pair.is_masked and method in ("exact", "disc"):
            continue
        own = {k: v for k, v in options.items() if k != "greedy"}
        expected = drawn(plain(**own), pair)
        numbers: tuple[int | str, ...] = ("auto",)
        if draft != "model" and draft != "warm model":
            # Draws of a model are put to the test of laws where their number is given.
            numbers = ("auto", 1, 2, 4, 8)
        for gamma in numbers:
            sampler = make(**options, **options_of(draft, pair, gamma))
            for _ in range(2):  # The second time with all that counts have learnt.
                assert flat(drawn(sampler, pair)) == near(expected), (name, gamma)
    assert len(set(chosen)) >= 4


@pytest.mark.parametrize("draft", ["model", "prompt-lookup"])
def test_what_a_divergence_draws_does_not_follow_the_clock(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pairs()["set"]

    def once() -> list[Any]:
        options = options_of(draft, pair, "auto")
        options.pop("counts", None)
        return drawn(MentoredSampler(divergence=0.3, **options), pair)

    still = once()
    chosen = jump(monkeypatch, 1)
    assert once() == still
    assert not chosen


@pytest.mark.slow
def test_a_clock_that_jumps_changes_no_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers come in blocks of 64 steps; drafts reach into the next one and back."""

    def target(prefix: Any) -> np.ndarray:
        law = random_law(prefix[-1] if prefix else 7, 0.2, (0, 1, 2, 3))(prefix[-2:])
        return np.asarray(law)

    def draft(prefix: Any) -> np.ndarray:
        return np.asarray(0.8 * target(prefix) + 0.2 * random_law(3, 0.0)(prefix[-1:]))

    pair = made_pair(target, draft, is_masked=False, limit=140)
    rng, now, chosen = np.random.default_rng(2), [0.0], []

    def clock() -> float:
        now[0] += float(rng.exponential())
        return now[0]

    def noted(self: Pace, walks: int, most: int) -> int:
        chosen.append(choose(self, walks, most))
        return chosen[-1]

    choose = Pace.choose
    monkeypatch.setattr(pace, "clock", clock)
    monkeypatch.setattr(pace, "SHARE", 1e6)
    monkeypatch.setattr(Pace, "choose", noted)
    expected = drawn(MaskedSampler(), pair)
    assert flat(drawn(SpeculativeSampler(draft=pair.draft_model()), pair)) == near(expected)
    assert set(chosen) == set(LENGTHS)

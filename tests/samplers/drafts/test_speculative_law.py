"""The law of speculative, its mutants, its digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.integrations.findings.enumeration import masked
from cdec.samplers.drafts import proposals as kernels
from cdec.samplers.drafts import speculate
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.drafts.models import ModelDrafting
from cdec.samplers.drafts.proposals import DRAWN, PLAIN, Guess, Judge, Level, Verdict
from cdec.samplers.drafts.verify import Verifier, on_host
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.speculative import SpeculativeSampler
from cdec.samplers.walks import events
from cdec.samplers.walks.frontier import END, Step
from cdec.samplers.walks.randomness import TEST, CandidateUniforms
from tests.laws.worlds import Row
from tests.samplers.drafts.draft_laws import DRAWS, Rounds, drawn, p_value
from tests.samplers.drafts.draft_toys import ENDS, PADDING, Law, Pair, made_pair, pairs, random_law
from tests.samplers.drafts.test_drafts_torch import LIMITS, numbers_for, opened_step, proposals
from tests.samplers.keyed import keyed

# --- Speculative decoding draws from the masked target, whatever the draft; weights are exact.

PAIRS = pairs()
WIDE = 1 << 17
FEWER = 10_000


def model_sampler(pair: Pair, **options: Any) -> SpeculativeSampler:
    return SpeculativeSampler(draft=pair.draft_model(), max_walks=WIDE, **options)


@pytest.mark.parametrize("name", PAIRS)
def test_both_enumerations_agree(name: str) -> None:
    pair = PAIRS[name]
    law = Rounds(pair, pair.draft_law, 2).law()
    plain = Rounds(pair, lambda prefix: None).law()
    assert law == pytest.approx(plain, abs=1e-12)
    if pair.is_masked:
        whole = masked(pair.toy, pair.limit)
        complete = {row: p for (row, reason), p in law.items() if reason == "complete"}
        assert complete == pytest.approx({r: p for r, p in whole.law.items() if r is not None})


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("name", "n", "options"),
    [
        ("set", DRAWS, {"gamma": 1}),
        ("set, dense", DRAWS, {"gamma": 4}),
        ("free", DRAWS, {"gamma": 3}),
        ("free", DRAWS, {"gamma": 16}),
        ("set", FEWER, {"gamma": 3, "draft_temperature": 2.0}),
        ("set that ends texts", FEWER, {"gamma": 3}),
        ("set, other support", FEWER, {"gamma": 3}),
        ("set, short limit", FEWER, {"gamma": 3}),
        ("free, no common event", FEWER, {"gamma": 2}),
    ],
)
def test_draws_follow_the_masked_target(name: str, n: int, options: dict[str, Any]) -> None:
    pair = PAIRS[name]
    draws = drawn(model_sampler(pair, **options), pair, n, seed=len(name))
    law = Rounds(pair, lambda prefix: None).law()
    assert p_value(draws.outcomes, law) >= 1e-4
    rates = [rate for rate in draws.fields["acceptance_rate"] if rate is not None]
    is_disjoint = name.endswith("no common event")
    assert (max(rates) == 0) if is_disjoint else (0 < np.mean(rates) < 1)


def test_a_draft_that_is_the_target_is_always_accepted() -> None:
    pair = PAIRS["free, draft is target"]
    draws = drawn(model_sampler(pair, gamma=2), pair, 20_000)
    assert p_value(draws.outcomes, Rounds(pair, lambda prefix: None).law()) >= 1e-4
    assert set(draws.fields["acceptance_rate"]) == {1.0}


@pytest.mark.share("kind")
@pytest.mark.parametrize("name", ["set", "free"])
@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup", "counts"])
def test_guesses_without_a_law_draw_what_masked_draws(name: str, kind: str) -> None:
    pair = PAIRS[name]
    prompt = [0, 1, 2, 0, 3, 1, 0, 0]
    options: dict[str, Any] = {"draft": kind, "counts": Counts(threshold=0.1), "max_walks": 50}
    if kind == "greedy model":
        options = {"draft": pair.draft_model(), "draft_temperature": 0}
    constraint = keyed(pair.toy, fold=2) if pair.is_masked else None
    samples = [
        sampler.draw(
            pair.toy.model(),
            constraint,
            prompt,
            n=2000,
            rng=np.random.default_rng(4),
            max_new_tokens=pair.limit,
        )
        for sampler in (SpeculativeSampler(gamma=3, **options), MaskedSampler())
    ]
    ours, plain = ([(s.token_ids, s.finish_reason, s.logprob) for s in part] for part in samples)
    assert ours == plain
    rates = [s.diagnostics["acceptance_rate"] for s in samples[0]]
    proposed = any(rate for rate in rates)
    assert proposed or (kind == "counts" and not pair.is_masked)


@pytest.mark.share(1)
@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup"])
def test_long_texts_use_their_numbers_as_masked_does(kind: str) -> None:
    """Numbers come in blocks of 64 steps, and a draft reaches into the next one and back."""

    def target(prefix: Any) -> np.ndarray:
        law = random_law(prefix[-1] if prefix else 7, 0.2, (0, 1, 2, 3))(prefix[-2:])
        return np.asarray(law)

    def draft(prefix: Any) -> np.ndarray:
        return np.asarray(0.8 * target(prefix) + 0.2 * random_law(3, 0.0)(prefix[-1:]))

    pair = made_pair(target, draft, is_masked=False, limit=140)
    options: dict[str, Any] = {"draft": kind}
    if kind == "greedy model":
        options = {"draft": pair.draft_model(), "draft_temperature": 0}
    ours = drawn(SpeculativeSampler(gamma=5, **options), pair, 5)
    assert ours.outcomes == drawn(MaskedSampler(), pair, 5).outcomes
    assert max(len(row) for row, _ in ours.outcomes) == 140
    assert 0 < np.mean(ours.fields["acceptance_rate"]) < 1


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["model", "greedy model", "counts", "prompt-lookup"])
def test_greedy_with_a_draft_is_greedy(kind: str) -> None:
    compared = 0
    for seed in range(60):
        is_masked, ends = seed % 3 > 0, seed % 2 == 1
        pair = made_pair(
            random_law(2 * seed, 0.2),
            random_law(2 * seed + 1, 0.2) if seed % 5 else random_law(2 * seed, 0.2),
            is_masked=is_masked,
            limit=(3 + seed % 4) if not is_masked or seed % 4 == 0 else None,
            ends_itself=ends,
        )
        options: dict[str, Any] = {"draft": kind, "counts": Counts(threshold=0.0)}
        if kind.endswith("model"):
            warm = None if kind == "model" else 0.0
            options = {"draft": pair.draft_model(), "draft_temperature": warm}
        gamma = (1, 3, 8)[seed % 3]
        found = [
            sampler.draw(
                pair.toy.model(),
                keyed(pair.toy, fold=2) if is_masked else None,
                [0, 1, 2, 0, 0],
                n=2,
                rng=np.random.default_rng(0),
                max_new_tokens=pair.limit,
            )
            for sampler in (
                SpeculativeSampler(greedy=True, gamma=gamma, **options),
                GreedySampler(),
            )
        ]
        ours, plain = (
            [(s.token_ids, s.finish_reason, s.logprob, s.log_weight) for s in part]
            for part in found
        )
        assert ours == plain
        compared += 1
    assert compared == 60


# --- Mistakes that verification must not make, each of which the law tests notice.
#
# A plain verifier chooses what the real one chooses; then one line of it at a time is made wrong.

PAIR = pairs()["set"]
MUTANT_DRAWS = 10_000
MUTANTS = ("raw draft", "raw target", "unmasked residual", "accepts at a ratio of zero")


@dataclass
class PlainJudge(Judge):
    """Verifies proposals one walk at a time, from the laws of a pair.

    Args:
        mutant: What is done wrong; nothing if empty.
        guesses: The law claimed for a greedy draft's proposals, by prefix.
    """

    pair: Pair
    uniforms: CandidateUniforms
    mutant: str = ""
    guesses: Callable[[Row], Law | None] | None = None
    tests: Any = None
    _known: dict[Row, tuple[Law, Law, Law]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tests = self.uniforms.stream(TEST)

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        picks, tests = (source.at(step.depth, alive) for source in (self.uniforms, self.tests))
        chosen = events.sample(step, picks)
        tokens, log_p = chosen.tokens.copy(), chosen.log_p.copy()
        accepted = (level.kinds != kernels.PLAIN) & (tokens == level.events)
        model = step.nodes.batch.model
        prefixes = [tuple(model.tokens(int(context))) for context in step.nodes.context]
        for walk in np.flatnonzero((level.kinds != kernels.PLAIN) & ~level.forced).tolist():
            prefix = prefixes[step.walk_node[walk]]
            if not self.pair.target_law(prefix)[1]:
                continue
            said = int(level.events[walk])
            accepted[walk] = self._accepts(prefix, said, tests[walk])
            tokens[walk] = said
            if not accepted[walk]:
                tokens[walk] = self._residual(prefix, picks[walk])
            raw = self.pair.toy.probabilities(prefix)
            mass = raw[list(ENDS)].sum() if tokens[walk] < 0 else raw[tokens[walk]]
            log_p[walk] = math.log(mass) if mass > 0 else -math.inf
        none = np.zeros(len(alive))
        chosen = replace(chosen, tokens=tokens, log_p=log_p)
        return Verdict(chosen, accepted, *[none] * (len(Verdict.__slots__) - 2))

    def _accepts(self, prefix: Row, said: int, test: float) -> bool:
        p, q, _ = self._laws(prefix)
        if self.mutant == "raw target":
            q = self.pair.masses(prefix, self.pair.toy.probabilities(prefix))
        ratio = q.get(said, 0.0) / p[said]
        if self.mutant == "accepts at a ratio of zero":
            # A generator of numbers in [0, 1) may give 0.
            return (0.0 if ratio == 0 else test) <= ratio
        return test < ratio

    def _residual(self, prefix: Row, pick: float) -> int:
        p, q, everything = self._laws(prefix)
        source = everything if self.mutant == "unmasked residual" else q
        rest = {e: mass - p.get(e, 0.0) for e, mass in source.items() if mass > p.get(e, 0.0)}
        rest = rest or q
        # By inversion in the order of ids, the end last.
        left = pick * sum(rest[e] for e in rest)
        ordered = sorted(rest, key=lambda e: (e < 0, e))
        for event in ordered:
            left -= rest[event]
            if left < 0:
                return event
        return ordered[-1]

    def _laws(self, prefix: Row) -> tuple[Law, Law, Law]:
        """Return p as claimed, q, and the unmasked q; once a prefix."""
        if prefix not in self._known:
            pair = self.pair
            p = (pair.draft_law if self.guesses is None else self.guesses)(prefix) or {}
            if self.mutant == "raw draft":
                p = pair.masses(prefix, pair.draft(prefix))
            free = replace(pair, is_masked=False, limit=9)
            everything = free.target_law(prefix)[0]
            self._known[prefix] = p, pair.target_law(prefix)[0], everything
        return self._known[prefix]


def judged_by(
    patch: pytest.MonkeyPatch, make: Callable[[CandidateUniforms], Any], pair: Pair = PAIR
) -> Callable[..., Any]:
    """Return a way to draw with another verifier."""

    patch.setattr(speculate, "Verifier", make)

    def draw(n: int = MUTANT_DRAWS, **options: Any) -> Any:
        sampler = SpeculativeSampler(
            draft=pair.draft_model(), gamma=3, max_walks=1 << 17, **options
        )
        return drawn(sampler, pair, n)

    return draw


def law(pair: Pair = PAIR) -> dict[Any, float]:
    return Rounds(pair, lambda prefix: None).law()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["set", "set that ends texts", "free"])
@pytest.mark.parametrize("is_greedy", [False, True])
def test_the_plain_verifier_draws_what_the_real_one_draws(
    name: str, is_greedy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pairs()[name]
    options = {"draft_temperature": 0.0} if is_greedy else {}
    guesses = pair.greedy_law if is_greedy else None
    plain = judged_by(monkeypatch, lambda u: PlainJudge(pair, u, guesses=guesses), pair)
    found = plain(2000, **options)
    real = judged_by(monkeypatch, lambda u: Verifier(u, guesses_have_law=True), pair)
    expected = real(2000, **options)
    assert found.outcomes == expected.outcomes
    assert found.log_p == pytest.approx(expected.log_p, abs=1e-12)
    assert found.fields["acceptance_rate"] == expected.fields["acceptance_rate"]


@pytest.mark.share(1)
@pytest.mark.parametrize("mutant", ["", *MUTANTS])
def test_the_law_shows_each_mistake(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = judged_by(monkeypatch, lambda u: PlainJudge(PAIR, u, mutant))
    p = p_value(draw().outcomes, law())
    assert p < 1e-4 if mutant else p >= 1e-4


@pytest.mark.parametrize("claimed", ["its own", "the draft's"])
def test_the_law_shows_a_greedy_draft_taken_for_a_drawn_one(
    claimed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess = ModelDrafting.guess

    def claiming(self: ModelDrafting, *arguments: Any) -> Guess:
        return replace(guess(self, *arguments), kind=DRAWN)

    if claimed == "the draft's":
        monkeypatch.setattr(ModelDrafting, "guess", claiming)
    draw = judged_by(monkeypatch, lambda u: Verifier(u, guesses_have_law=True))
    p = p_value(draw(draft_temperature=0.0).outcomes, law())
    assert p < 1e-4 if claimed == "the draft's" else p >= 1e-4


class Zeros:
    """Numbers that are exactly 0, as a generator may give them."""

    def at(self, steps: NDArray[np.int64], walks: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.zeros(len(walks))


def never_below() -> Pair:
    """Return a pair whose target has either none or no less than the draft of every event."""
    target, draft = np.zeros(PADDING + 1), np.zeros(PADDING + 1)
    target[[0, 1, 4]], draft[[0, 1, 2, 4]] = (0.5, 0.3, 0.2), (0.4, 0.3, 0.1, 0.2)
    return made_pair(lambda prefix: target, lambda prefix: draft, is_masked=False, limit=3)


@pytest.mark.parametrize("mutant", ["", "accepts at a ratio of zero"])
def test_a_test_number_of_zero_never_accepts_what_the_target_excludes(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's number decides nothing in this pair, so the law holds with zeros throughout."""
    pair = never_below()

    def make(uniforms: CandidateUniforms) -> PlainJudge:
        judge = PlainJudge(pair, uniforms, mutant)
        judge.tests = Zeros()
        return judge

    p = p_value(judged_by(monkeypatch, make, pair)(3000).outcomes, law(pair))
    assert p == 0.0 if mutant else p >= 1e-4


def test_the_compiled_verifier_holds_its_law_with_test_numbers_of_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = never_below()

    def make(uniforms: CandidateUniforms) -> Verifier:
        verifier = Verifier(uniforms)
        verifier.tests = Zeros()  # type: ignore[assignment]
        return verifier

    assert p_value(judged_by(monkeypatch, make, pair)(50_000).outcomes, law(pair)) >= 1e-4


# --- An event has one log probability, digit for digit, whether a draft proposed it or not.


@pytest.mark.parametrize("limits", [[0.0], LIMITS], ids=["lossless", "mentored"])
def test_log_probabilities_do_not_depend_on_proposals(limits: list[float]) -> None:
    step = opened_step("cpu", 60)
    scores = np.array(step.scores)
    for seed in range(20):
        # Scores of models are not normalised.
        step.scores[:] = scores * (1.0 + 0.1 * seed)
        step.log_normalizer[:] = np.log(np.exp(step.scores).sum(1))
        level, kinds = proposals(step, seed, 300)
        numbers = numbers_for(len(kinds), seed, limits)
        verdict = on_host(step, level, kinds, numbers)
        plain = events.sample(step, numbers[1])
        np.testing.assert_array_equal(verdict.chosen.log_z, plain.log_z)
        np.testing.assert_array_equal(verdict.chosen.log_end, plain.log_end)
        tokens, log_p = verdict.chosen.tokens, verdict.chosen.log_p
        alone = kinds == PLAIN
        assert tokens[alone].tolist() == plain.tokens[alone].tolist()
        assert log_p[alone].tolist() == plain.log_p[alone].tolist()
        row = step.rows[step.walk_node]
        expected = step.scores[row, tokens] - step.log_normalizer[row]
        expected = np.where(tokens == END, plain.log_end[step.walk_node], expected)
        assert log_p[tokens >= END].tolist() == expected[tokens >= END].tolist()
        assert (tokens[~alone] == END).any()

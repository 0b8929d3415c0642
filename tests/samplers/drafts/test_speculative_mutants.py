"""Mistakes that verification must not make, each of which the law tests notice.

A plain verifier chooses what the real one chooses; then one line of it at a time is made wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.samplers.drafts import proposals as kernels
from cdec.samplers.drafts import speculate
from cdec.samplers.drafts.models import ModelDrafting
from cdec.samplers.drafts.proposals import DRAWN, Guess, Level, Verdict
from cdec.samplers.drafts.verify import Verifier
from cdec.samplers.speculative import SpeculativeSampler
from cdec.samplers.walks import events
from cdec.samplers.walks.frontier import Step
from cdec.samplers.walks.randomness import TEST, CandidateUniforms
from tests.laws.toys import Row
from tests.samplers.drafts.draft_laws import Rounds, drawn, hasten, p_value
from tests.samplers.drafts.draft_toys import ENDS, PADDING, Law, Pair, made_pair, pairs

PAIR = pairs()["set"]
DRAWS = 10_000
MUTANTS = ("raw draft", "raw target", "unmasked residual", "accepts at a ratio of zero")


@dataclass
class PlainJudge:
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

    def draw(n: int = DRAWS, **options: Any) -> Any:
        sampler = SpeculativeSampler(
            draft=pair.draft_model(), gamma=3, max_walks=1 << 17, **options
        )
        return drawn(sampler, pair, n)

    return draw


def law(pair: Pair = PAIR) -> dict[Any, float]:
    return Rounds(pair, lambda prefix: None).law()


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


@pytest.mark.parametrize("mutant", ["", *MUTANTS])
def test_the_law_shows_each_mistake(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, 1)
    draw = judged_by(monkeypatch, lambda u: PlainJudge(PAIR, u, mutant))
    p = p_value(draw().outcomes, law())
    assert p < 1e-4 if mutant else p >= 1e-4


@pytest.mark.parametrize("claimed", ["its own", "the draft's"])
def test_the_law_shows_a_greedy_draft_taken_for_a_drawn_one(
    claimed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 2)
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
    hasten(monkeypatch, 3)

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
    hasten(monkeypatch, 4)

    def make(uniforms: CandidateUniforms) -> Verifier:
        verifier = Verifier(uniforms)
        verifier.tests = Zeros()  # type: ignore[assignment]
        return verifier

    assert p_value(judged_by(monkeypatch, make, pair)(50_000).outcomes, law(pair)) >= 1e-4

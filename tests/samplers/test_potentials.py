"""Potentials in smc: the law of populations by enumeration, unbiased weights, errors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from cdec.core.errors import UsageError
from cdec.core.sample import Sample
from cdec.integrations.findings.enumeration import log_prob
from cdec.samplers import Potential
from cdec.samplers.potentials import PotentialError, Product, weights_of
from cdec.samplers.request import Request
from cdec.samplers.smc import SmcSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b
from tests.samplers.smc_laws import Weights, branching_toy, dead_end_toy, evidence, outcome, smc

DRAWS = heavy_or(4_000, 20_000)
TOYS = {
    "a": toy_a(),
    "b": toy_b(),
    "branching": branching_toy(),
    "dead ends": dead_end_toy(),
    "ends itself": random_toy(4, ends_itself=True),
}


class Letters(Potential):
    """Every ``letter`` counts ``factor`` times, from the beginning on.

    Args:
        letter: The byte. factor: Of each.
        forbidden: Bytes of which no text has any.
        is_blind: Whether beginnings have no weights: the same law, worse chosen particles.
    """

    def __init__(
        self, letter: bytes, factor: float, forbidden: bytes = b"", is_blind: bool = False
    ) -> None:
        self.letter, self.factor, self.forbidden = letter, factor, forbidden
        self.is_blind = is_blind
        self.asked: list[tuple[str, bytes]] = []

    def weight(self, text: bytes) -> float:
        if any(byte in text for byte in self.forbidden):
            return 0.0
        return self.factor ** text.count(self.letter)

    def beginning(self, text: bytes) -> float:
        return 1.0 if self.is_blind else self.weight(text)

    def logs(self, values: Sequence[float]) -> list[float]:
        return [math.log(value) if value else -math.inf for value in values]

    def prefix(
        self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]
    ) -> list[float]:
        self.asked += [("prefix", text) for text in texts]
        return self.logs([self.beginning(text) for text in texts])

    def complete(
        self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]
    ) -> list[float]:
        self.asked += [("complete", text) for text in texts]
        return self.logs([self.weight(text) for text in texts])


def letters(toy: Toy, *, forbids: bool = False, blind: bool = False) -> Letters:
    """Return the potential of the toy's second token; it may forbid the first one."""
    first, second = toy.vocabulary.token_bytes[:2]
    return Letters(second, 3.0, first if forbids else b"", blind)


def by_rows(toy: Toy, potential: Letters) -> Weights:
    """Return the same weights, of rows."""
    decode = toy.vocabulary.decode
    return Weights(
        lambda row: potential.beginning(decode(row)), lambda row: potential.weight(decode(row))
    )


def draw(toy: Toy, n: int, particles: int, share: float, potential: object) -> list[Sample]:
    sampler = SmcSampler(particles=particles, resample_below=share, potential=potential)
    rng = np.random.default_rng([n, particles])
    return sampler.draw(toy.model(), toy.constraint, "", n=n, rng=rng)


def shortened(z: float) -> float:
    """Return evidence, which goes up to 100 here, to six digits; none is a tie of these."""
    return round(z + 3e-7, 6)


CASES = [
    (name, particles, share, forbids, blind)
    for name in TOYS
    for particles, share, forbids, blind in (
        (1, 0.5, False, False),
        (2, 0.95, False, False),
        (2, 0.95, False, True),
        (2, 0.95, True, False),
    )
]


@pytest.mark.parametrize(("name", "particles", "share", "forbids", "blind"), CASES)
def test_enumerated_evidence_weighs_every_member_with_p_times_its_weight(
    name: str, particles: int, share: float, forbids: bool, blind: bool
) -> None:
    """E[evidence * 1(chosen = w)] = P(w) phi(w), whatever the particles and what prefixes weigh."""
    toy = TOYS[name]
    potential = letters(toy, forbids=forbids, blind=blind)
    law = smc(toy, particles, share, phi=by_rows(toy, potential))
    assert math.fsum(law.values()) == pytest.approx(1.0)
    weighted: dict[Row | None, float] = defaultdict(float)
    for (row, z, _), p in law.items():
        weighted[row] += p * z
    for row in toy.members:
        truth = math.exp(log_prob(toy, row)) * potential.weight(toy.vocabulary.decode(row))
        # The evidence was rounded to 9 digits.
        assert weighted[row] == pytest.approx(truth, abs=2e-9)


@pytest.mark.share(7)
@pytest.mark.parametrize(("name", "particles", "share", "forbids", "blind"), CASES)
def test_populations_have_the_enumerated_law(
    name: str, particles: int, share: float, forbids: bool, blind: bool
) -> None:
    toy = TOYS[name]
    potential = letters(toy, forbids=forbids, blind=blind)
    law: dict[tuple[Row | None, float, int], float] = defaultdict(float)
    for (row, z, times), p in smc(toy, particles, share, phi=by_rows(toy, potential)).items():
        law[row, shortened(z), times] += p
    samples = draw(toy, DRAWS, particles, share, potential)
    shown = [(outcome(s), shortened(evidence(s)), s.diagnostics["resamplings"]) for s in samples]
    assert g_test(shown, law) >= 1e-4
    for sample in samples:
        assert sample.log_weight == sample.log_candidate_weight
        if outcome(sample) is None:
            assert sample.log_weight is sample.diagnostics["log_potential"] is None
        else:
            weight = potential.weight(sample.text.encode())
            assert math.exp(sample.diagnostics["log_potential"]) == pytest.approx(weight)
        # Evidence is no estimate of P(S) any more; what was visited bounds it all the same.
        assert sample.diagnostics["log_mass"] is None
        assert sample.diagnostics["log_mass_upper"] <= 0.0


def test_weighted_records_have_the_means_of_the_tilted_target() -> None:
    toy = toy_b()
    potential = letters(toy)
    tilted = {
        row: math.exp(log_prob(toy, row)) * potential.weight(toy.vocabulary.decode(row))
        for row in toy.members
    }
    samples = draw(toy, DRAWS, 4, 0.5, potential)
    weights = np.array([evidence(sample) for sample in samples])
    for values, truth in (
        (weights, sum(tilted.values())),
        (
            weights * [len(sample.token_ids) for sample in samples],
            sum(p * len(row) for row, p in tilted.items()),
        ),
    ):
        # Four standard errors: once in 16,000 runs.
        assert abs(values.mean() - truth) <= 4 * values.std() / math.sqrt(len(values))


def test_the_product_of_potentials_is_that_of_their_weights() -> None:
    toy = toy_b()
    first, second = Letters(b"b", 2.0), Letters(b"a", 0.5)
    texts, records = [b"ab", b"bb", b"c"], [{}] * 3
    for method in ("prefix", "complete"):
        found = np.exp(weights_of(Product([first, second]), method, texts, records))
        assert found == pytest.approx([2.0 * 0.5, 4.0, 1.0])
    both = draw(toy, 50, 3, 0.9, [first, second])
    joined = draw(toy, 50, 3, 0.9, Product([Product([first]), second]))
    assert [s.to_json() for s in both] == [s.to_json() for s in joined]


def test_a_potential_of_ones_changes_no_text() -> None:
    toy = toy_b()
    plain, weighed = (draw(toy, 60, 3, 0.9, each) for each in (None, Letters(b"a", 1.0)))
    for a, b in zip(plain, weighed, strict=True):
        assert (a.token_ids, a.diagnostics["resamplings"]) == (
            b.token_ids,
            b.diagnostics["resamplings"],
        )
        assert a.log_weight == pytest.approx(b.log_weight, abs=1e-12)


def test_texts_without_a_constraint_are_led_too() -> None:
    toy = toy_b()
    potential = Letters(b"a", 20.0)
    sampler = SmcSampler(particles=64, potential=potential)
    rng = np.random.default_rng(1)
    samples = sampler.draw(toy.model(), None, "", n=200, rng=rng, max_new_tokens=3)
    plain = SmcSampler().draw(toy.model(), None, "", n=200, rng=rng, max_new_tokens=3)
    counts = [
        np.mean([s.text.count("a") for s in drawn if s.finish_reason == "complete"])
        for drawn in (samples, plain)
    ]
    assert counts[0] > counts[1] + 0.5


def test_equal_texts_are_asked_for_once_a_step_and_records_are_given() -> None:
    toy = toy_b()
    seen: list[Mapping[str, object]] = []

    class Watched(Letters):
        def complete(
            self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]
        ) -> list[float]:
            seen.extend(records)
            assert len(set(texts)) == len(texts)
            return super().complete(texts, records)

    request = Request("", toy.constraint, range(30), input={"topic": "x"})
    SmcSampler(potential=Watched(b"a", 2.0)).draw_batch(toy.model(), [request])
    assert seen and all(record == {"topic": "x"} for record in seen)


def test_nothing_depends_on_the_batch_or_on_chunks() -> None:
    toy = toy_b()
    requests = [Request.numbered("", toy.constraint, id=i, n=4) for i in range(3)]
    options = {"particles": 3, "resample_below": 0.9, "potential": letters(toy)}
    whole, parts = (
        SmcSampler(max_walks=walks, **options).draw_batch(toy.model(), requests)
        for walks in (2048, 3)
    )
    for request, together, chunked in zip(requests, whole, parts, strict=True):
        (alone,) = SmcSampler(**options).draw_batch(toy.model(), [request])
        for same in zip(together, chunked, alone, strict=True):
            weights = [(s.token_ids, s.log_weight, s.diagnostics["log_potential"]) for s in same]
            assert weights[0] == weights[1] == weights[2]


class Broken(Letters):
    def __init__(self, gives: object) -> None:
        super().__init__(b"a", 1.0)
        self.gives = gives

    def prefix(self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]) -> object:
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        ([0.0, 0.0, 0.0], r"an array of shape \(3,\) for 1 texts"),
        ([math.nan], "gave nan for b''"),
        ([math.inf], "gave inf for b''"),
        ("x", "failed with ValueError"),
        (KeyError("topic"), "failed with KeyError: 'topic'"),
    ],
)
def test_what_is_no_weight_is_an_error_of_the_record(gives: object, said: str) -> None:
    with pytest.raises(PotentialError, match=said) as caught:
        draw(toy_b(), 1, 2, 0.5, Broken(gives))
    assert caught.value.code == "E_POTENTIAL" and caught.value.hint


@pytest.mark.parametrize("given", ["module:name", 3, [], [Letters(b"a", 1.0), 3]])
def test_what_is_no_potential_is_refused(given: object) -> None:
    with pytest.raises(UsageError, match="expected a Potential"):
        SmcSampler(potential=given)

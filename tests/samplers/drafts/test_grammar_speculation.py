"""Grammars under the samplers: laws with guesses, opportunistic masks, healing and a lookahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import compile_grammar
from cdec.core import open_artifact
from cdec.core.combine.healing import HealedConstraint
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.beam import BeamSampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_session_laws
from tests.laws.toys import toy_a
from tests.samplers.enumeration import masked, target, total_variation
from tests.samplers.keyed import bare

TOY_A = 'start: "00000" | "1" BIT BIT BIT BIT\nBIT: /[01]/\n'
TOKENS = [b"{", b"}", b'"', b"a", b"b", b":", b",", b'":', b'",', b'"}', b"ab", b'{"', b' "', b" "]
VOCABULARY = Vocabulary([*TOKENS, b""], eos_token_ids=[len(TOKENS)])
OBJECT = """
start: "{" [pair ("," pair)*] "}"
pair: STRING ":" STRING
STRING: /"[ab]{1,4}"/
%ignore / {1,2}/
"""


def compiled(source: str, vocabulary: Vocabulary, folder: Path, lexer: Any = None) -> Any:
    path = folder / "grammar.arrow"
    compile_grammar(source, vocabulary, path, lexer=lexer, force=True)
    return open_artifact(path, vocabulary=vocabulary)


@pytest.fixture(params=["contextual", "dynamic"])
def binary(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Toy A as a grammar."""
    return compiled(TOY_A, toy_a().vocabulary, tmp_path, request.param)


@pytest.fixture
def objects(tmp_path: Path) -> Any:
    """Flat objects of strings over a and b."""
    return compiled(OBJECT, VOCABULARY, tmp_path)


def model(seed: int = 3) -> TabularModel:
    """A model that mostly writes objects."""

    def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
        own = np.random.default_rng([seed, *prefix[-3:]])
        weights = own.exponential(size=len(TOKENS) + 1) ** 2 + 1e-3
        weights[13] *= 0.1
        return weights / weights.sum()

    return TabularModel(probabilities, VOCABULARY)


@pytest.mark.parametrize(
    "options",
    [{}, {"draft": "counts", "gamma": 3, "counts": Counts(threshold=0.1)}, {"opportunistic": True}],
    ids=["plain", "speculate", "opportunistic"],
)
def test_draws_follow_the_masked_law(binary: Any, options: dict[str, Any]) -> None:
    toy = toy_a()
    sampler = MaskedSampler(max_walks=1 << 13, **options)
    samples = sampler.draw(toy.model(), binary, "", n=20_000, rng=np.random.default_rng(2))
    assert g_test((tuple(s.token_ids) for s in samples), masked(toy).law) >= 1e-4
    assert {sample.valid for sample in samples} == {True}


def test_disc_gets_close_to_the_target(binary: Any) -> None:
    toy = toy_a()
    samples = DiscSampler(K=8).draw(toy.model(), binary, "", n=20_000, rng=np.random.default_rng(2))
    rows = [tuple(sample.token_ids) for sample in samples]
    found = {row: rows.count(row) / len(rows) for row in set(rows)}
    # Design, toy A: TV .003138 for K = 8; the rest is the noise of 20,000 draws over 17 texts.
    assert total_variation(found, target(toy)) < 0.02


def test_beams_are_members_without_repetition(objects: Any) -> None:
    samples = BeamSampler(beams=6).draw(
        model(), objects, "", n=6, rng=np.random.default_rng(0), max_new_tokens=12
    )
    whole = [sample for sample in samples if sample.finish_reason == "complete"]
    assert len({tuple(s.token_ids) for s in whole}) == len(whole) > 2
    assert all(sample.valid for sample in whole)


@pytest.mark.parametrize("make", [GreedySampler, MaskedSampler])
@pytest.mark.parametrize("seed", range(4))
def test_guesses_change_no_text(objects: Any, make: Any, seed: int) -> None:
    draw: dict[str, Any] = {"n": 20, "max_new_tokens": 40}
    rng = np.random.default_rng
    plain = make().draw(model(seed), objects, "", rng=rng(seed), **draw)
    sampler = make(draft="counts", gamma=4, counts=Counts(threshold=0.2))
    for _ in range(2):
        guessed = sampler.draw(model(seed), objects, "", rng=rng(seed), **draw)
        assert [bare(sample) for sample in guessed] == [bare(sample) for sample in plain]
    calls = [sum(s.diagnostics["target_calls"] for s in samples) for samples in (plain, guessed)]
    assert calls[1] < calls[0]


def test_saved_counts_serve_another_session(objects: Any, tmp_path: Path) -> None:
    sampler = GreedySampler(draft="counts", gamma=6)
    options: dict[str, Any] = {"rng": np.random.default_rng(0), "max_new_tokens": 40}
    sampler.draw(model(), objects, "", **options)
    sampler.drafting.counts.save(tmp_path / "counts.json")
    objects.session()
    again = open_artifact(tmp_path / "grammar.arrow", vocabulary=VOCABULARY)
    counts = Counts.load(tmp_path / "counts.json")
    counts.require_artifacts([again.metadata["cdec.digest"]])  # type: ignore[attr-defined]
    (cold,) = GreedySampler(draft="counts", gamma=6).draw(model(), again, "", **options)
    (warm,) = GreedySampler(draft="counts", gamma=6, counts=counts).draw(
        model(), again, "", **options
    )
    assert warm.token_ids == cold.token_ids
    assert warm.diagnostics["target_calls"] < cold.diagnostics["target_calls"]


@pytest.mark.parametrize("prefix", [b'{"', b'"', b'"a', b' "ab":'])
def test_healed_grammars_obey_the_laws(tmp_path: Path, prefix: bytes) -> None:
    # The texts behind the prefix: what is left of a pair.
    inner = compiled('start: /[ab]{0,2}/ /"?:?/ /[}a]/\n', VOCABULARY, tmp_path, "dynamic")
    table = {token: i for i, token in enumerate(TOKENS)}
    members = [
        [table[bytes([b])] for b in prefix + text] for text in (b'ab":}', b'a"}', b"}", b"aba")
    ]
    healed = HealedConstraint(inner, prefix)
    assert_session_laws(healed, members, np.random.default_rng(0))


def test_a_lookahead_shows_in_the_record_and_forbids_bridges(objects: Any) -> None:
    narrow = objects.with_lookahead(0)
    bridges = {TOKENS.index(token) for token in (b'":', b'",', b'"}', b'{"')}
    for constraint, expected in ((objects, True), (narrow, False)):
        samples = MaskedSampler().draw(
            model(), constraint, "", n=60, rng=np.random.default_rng(0), max_new_tokens=60
        )
        drawn = {token for sample in samples for token in sample.token_ids}
        assert bool(drawn & bridges) is expected
        looked = {sample.diagnostics.get("lookahead") for sample in samples}
        assert looked == ({None} if expected else {0})

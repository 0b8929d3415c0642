"""Token healing: how prompts are cut, what may spell the cut, and texts without it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cdec.core.combine.healing import HealedConstraint
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.unconstrained import UnconstrainedSampler
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes

BYTES = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"abca", b"a", b"", b"", b"cc"]
VOCABULARY = Vocabulary(BYTES, eos_token_ids=[9, 10], width=14)
TEXTS = [b"", b"a", b"ab", b"cab", b"cca", b"bcab", b"aaaa"]


def healed(prefix: bytes, texts: list[bytes] | None = None) -> HealedConstraint:
    return HealedConstraint(FiniteLanguage(texts or TEXTS, VOCABULARY), prefix)


@pytest.mark.parametrize("prefix", [b"a", b"ab", b"abc", b"bcc", b"abcabc"])
def test_sessions_obey_the_laws(prefix: bytes) -> None:
    constraint = healed(prefix)
    single = {text: i for i, text in enumerate(BYTES[:3])}
    members = [[single[bytes([b])] for b in prefix + text] for text in TEXTS]
    assert_session_laws(constraint, members, np.random.default_rng(0))


@pytest.mark.parametrize("prefix", [b"a", b"ab", b"bca", b"abcc"])
def test_exactly_the_tokens_on_the_way_to_a_member_are_allowed(prefix: bytes) -> None:
    session = healed(prefix).session()
    wholes = [prefix + text for text in TEXTS]

    def allowed(prefix_tokens: tuple[int, ...]) -> set[int]:
        text = VOCABULARY.decode(prefix_tokens)
        tokens = {
            token
            for token, added in enumerate(BYTES)
            if added and any(whole.startswith(text + added) for whole in wholes)
        }
        return tokens | ({9, 10} if text in wholes else set())

    prefixes = random_prefixes(session, np.random.default_rng(1), 40, 12)
    reachable = [p for p in prefixes if not {9, 10} & set(p)]
    assert_allowed_is(session, reachable, allowed, VOCABULARY.width)


def test_tokens_that_lead_to_bytes_without_tokens_are_not_allowed() -> None:
    # "x" has no token of its own: "a" would lead where nothing can go on.
    vocabulary = Vocabulary([b"a", b"ax", b"axy", b"y", b""], eos_token_ids=[4])
    session = HealedConstraint(FiniteLanguage([b"y"], vocabulary), b"ax").session()
    _, ids = session.allowed(session.start(1))
    assert ids.tolist() == [1, 2]


def test_the_cut_is_what_one_longer_token_could_replace() -> None:
    tokens = SortedTokens(VOCABULARY)
    assert tokens.cut([2, 0]) == ([2], b"a")
    # "ab" + "c" is not the beginning of a longer token, "abc" + "a" is none, "abc" is.
    assert tokens.cut([2, 0, 1, 2]) == ([2], b"abc")
    assert tokens.cut([0, 1, 2, 1]) == ([0, 1, 2], b"b")


def test_special_tokens_and_the_only_token_stay() -> None:
    tokens = SortedTokens(VOCABULARY)
    assert tokens.cut([0, 9]) == ([0, 9], b"")
    assert tokens.cut([9, 0]) == ([9], b"a")
    assert tokens.cut([0]) == ([0], b"")
    assert tokens.cut([]) == ([], b"")


def uniform() -> TabularModel:
    """Likes nothing more than anything else."""
    return TabularModel(lambda prefix: [1 / 12] * 12 + [0.0, 0.0], VOCABULARY)


def model() -> TabularModel:
    """Likes long tokens, and the end after several."""

    def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
        weights = np.array([len(text) ** 3 + 0.1 for text in BYTES] + [0.0, 0.0])
        weights[9:11] = [2.0 * len(prefix), 1.0 * len(prefix)]
        return weights / weights.sum()

    return TabularModel(probabilities, VOCABULARY)


def test_a_longer_token_bridges_the_prompts_end() -> None:
    (sample,) = GreedySampler().draw(
        model(), healed(b"ab", [b"ca", b"b"]), "", rng=np.random.default_rng(0)
    )
    assert sample.token_ids == [7]
    assert (sample.text, sample.valid, sample.finish_reason) == ("ca", True, "complete")
    ends = 3 / (sum(len(text) ** 3 + 0.1 for text in BYTES) - 0.2 + 3)
    first = 64.1 / sum(len(text) ** 3 + 0.1 for t, text in enumerate(BYTES) if t not in (9, 10))
    assert sample.logprob == pytest.approx(math.log(first * ends))


@pytest.mark.parametrize("options", [{}, {"opportunistic": True}, {"draft": "counts", "gamma": 3}])
def test_every_text_is_a_member_and_every_tokenisation_is_drawn(options: dict[str, object]) -> None:
    constraint = healed(b"ab", [b"", b"c"])
    samples = MaskedSampler(**options).draw(  # type: ignore[arg-type]
        uniform(), constraint, "", n=400, rng=np.random.default_rng(0)
    )
    assert {(s.text, s.valid) for s in samples} == {("", True), ("c", True)}
    spelt = {
        ids
        for n in (1, 2, 3)
        for ids in itertools.product(range(len(BYTES)), repeat=n)
        if not {9, 10} & set(ids) and VOCABULARY.decode(ids) in (b"ab", b"abc")
    }
    assert {tuple(s.token_ids) for s in samples} == spelt


def test_unconstrained_texts_are_judged_with_the_prefix() -> None:
    constraint = healed(b"ab", [b"", b"c"])
    samples = UnconstrainedSampler().draw(
        uniform(), constraint, "", n=2000, rng=np.random.default_rng(0), max_new_tokens=4
    )
    for sample in samples:
        whole = VOCABULARY.decode(sample.token_ids)
        is_member = sample.finish_reason == "complete" and whole in (b"ab", b"abc")
        assert sample.valid is is_member
        assert sample.text == whole.removeprefix(b"ab").decode()
    assert any(sample.valid for sample in samples)

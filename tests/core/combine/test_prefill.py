"""Begun answers: which tokens spell them, what stands in the prompt, the law of the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cdec.compilers import set_constraint
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.prefill import BegunConstraint, begin
from cdec.core.constraint import Constraint
from cdec.core.errors import PrefillError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS, Request
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes
from tests.laws.toys import toy_set

BYTES = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"abca", b"a", b"", b"", b"cc"]
VOCABULARY = Vocabulary(BYTES, eos_token_ids=[9, 10], width=14)
ENDS = {9, 10}
TEXTS = [b"", b"a", b"ab", b"abc", b"abca", b"cab", b"cca", b"bcab", b"aaaa"]
ORDINARY = [token for token, text in enumerate(BYTES) if text]


def spellings(text: bytes) -> list[tuple[int, ...]]:
    """Return every way to spell a text."""
    if not text:
        return [()]
    return [
        (token, *rest)
        for token in ORDINARY
        if text.startswith(BYTES[token])
        for rest in spellings(text[len(BYTES[token]) :])
    ]


def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
    """Some law over tokens that ends soon."""
    seed = int.from_bytes(bytes(prefix), "big") % 97
    weights = np.random.default_rng(seed).random(14) + 0.05
    weights[12:] = 0.0
    weights[9:11] += 0.4 * len(prefix)
    return weights / weights.sum()


def model_behind(read: list[int]) -> TabularModel:
    return TabularModel(lambda prefix: probabilities((*read, *prefix)), VOCABULARY)


def law(members: list[tuple[int, ...]], read: list[int]) -> dict[tuple[int, ...], float]:
    """Return P of each member's tokens and end, given that those in ``read`` are written."""
    found = {}
    for member in members:
        path = [probabilities((*read, *member[:n]))[token] for n, token in enumerate(member)]
        found[member] = math.prod(path) * probabilities((*read, *member))[9:11].sum()
    return found


SET = [(3, 2), (0, 5), (4, 0), (4,), (2,), (0, 1), (3,), (6, 1, 7)]


@pytest.mark.parametrize("prefill", ["", "a", "ab", "abc", "abca", "c", "bcab"])
def test_sessions_of_begun_texts_obey_the_laws(prefill: str) -> None:
    constraint = begin(FiniteLanguage(TEXTS, VOCABULARY), prefill)
    wholes = [text for text in TEXTS if text.startswith(prefill.encode())]
    members = [spelt for text in wholes for spelt in spellings(text)]
    members = [
        row[len(constraint.read) :]
        for row in members
        if row[: len(constraint.read)] == (tuple(constraint.read))
    ]
    assert_session_laws(constraint, members, np.random.default_rng(0))
    assert {constraint.member_text(row) for row in members} == set(wholes)


@pytest.mark.parametrize("prefill", ["a", "ab", "abc", "c", "ca"])
def test_sessions_of_begun_members_obey_the_laws(prefill: str) -> None:
    inner = toy_set(SET, VOCABULARY)
    constraint = begin(inner, prefill)
    read = tuple(constraint.read)
    members = [row for row in SET if VOCABULARY.decode(row).startswith(prefill.encode())]
    assert all(row[: len(read)] == read for row in members)
    assert_session_laws(constraint, [row[len(read) :] for row in members], np.random.default_rng(0))


def test_exactly_the_tokens_that_spell_the_beginning_are_allowed() -> None:
    for prefill in ("a", "ab", "abc", "bca"):
        constraint = begin(FiniteLanguage(TEXTS, VOCABULARY), prefill, into_prompt=False)
        session = constraint.session()
        wholes = [text for text in TEXTS if text.startswith(prefill.encode())]

        def allowed(prefix: tuple[int, ...], wholes: list[bytes] = wholes) -> set[int]:
            text = VOCABULARY.decode(prefix)
            tokens = {t for t in ORDINARY if any(w.startswith(text + BYTES[t]) for w in wholes)}
            return tokens | (ENDS if text in wholes else set())

        prefixes = random_prefixes(session, np.random.default_rng(1), 40, 12)
        reachable = [prefix for prefix in prefixes if not ENDS & set(prefix)]
        assert constraint.read == []
        assert_allowed_is(session, reachable, allowed, VOCABULARY.width)


def test_what_all_members_begin_with_goes_into_the_prompt() -> None:
    inner = toy_set([(3, 2, 0), (3, 2), (3, 1), (0, 5, 0)], VOCABULARY)
    assert begin(inner, "ab").read == []  # "ab" and "a"
    fewer = toy_set([(3, 2, 0), (3, 2), (3, 1)], VOCABULARY)
    assert begin(fewer, "ab").read == []  # a token of all spells it whole, and may go beyond
    assert begin(fewer, "abc").read == [3]
    assert begin(fewer, "abc").max_tokens == 2
    assert begin(fewer, "abc", into_prompt=False).read == []


def _check_law(constraint: BegunConstraint, expected: dict[tuple[int, ...], float]) -> None:
    """Check the draws of two methods, their masses and weights against an enumerated law."""
    mass = sum(expected.values())
    q = {member: p / mass for member, p in expected.items()}
    model = model_behind(constraint.read)
    samples = SAMPLERS["exact"]().draw(model, constraint, "", n=2000, rng=np.random.default_rng(1))
    assert {sample.exactness for sample in samples} == {"exact"}
    assert all(sample.valid and sample.prefill == constraint.prefill for sample in samples)
    assert g_test([tuple(sample.token_ids) for sample in samples], q) > 1e-4
    for sample in samples:
        assert sample.logprob == pytest.approx(math.log(expected[tuple(sample.token_ids)]))
    last = samples[-1]
    assert last.log_mass_lower - 1e-9 <= math.log(mass) <= last.log_mass_upper + 1e-9
    masked = SAMPLERS["masked"]().draw(model, constraint, "", n=2000, rng=np.random.default_rng(2))
    counts = Counter(tuple(sample.token_ids) for sample in masked)
    for sample in masked:
        # Masked decoding draws w with P(w) / prod Z, and the weight is prod Z.
        drawn = expected[tuple(sample.token_ids)] / math.exp(sample.log_weight)
        share = counts[tuple(sample.token_ids)] / len(masked)
        assert abs(share - drawn) < 5 * math.sqrt(drawn * (1 - drawn) / len(masked)) + 1e-9


@pytest.mark.parametrize("prefill", ["a", "ab", "abca", "c"])
@pytest.mark.parametrize("into_prompt", [True, False])
def test_the_law_is_that_of_texts_that_begin_so(prefill: str, into_prompt: bool) -> None:
    inner = FiniteLanguage(TEXTS, VOCABULARY)
    constraint = begin(inner, prefill, into_prompt=into_prompt)
    members = [m for t in TEXTS if t.startswith(prefill.encode()) for m in spellings(t)]
    read = tuple(constraint.read)
    rest = [m[len(read) :] for m in members if m[: len(read)] == read]
    _check_law(constraint, law(rest, constraint.read))


@pytest.mark.parametrize("prefill", ["a", "ab", "ca"])
def test_the_law_of_a_set_is_that_of_its_members_that_begin_so(prefill: str) -> None:
    constraint = begin(toy_set(SET, VOCABULARY), prefill)
    read = len(constraint.read)
    members = [row[read:] for row in SET if VOCABULARY.decode(row).startswith(prefill.encode())]
    _check_law(constraint, law(members, constraint.read))


@pytest.mark.parametrize(
    "make",
    [
        lambda: deny(FiniteLanguage(TEXTS, VOCABULARY), [b"abc"]),
        lambda: conjoin(
            FiniteLanguage(TEXTS, VOCABULARY), FiniteLanguage({*TEXTS} - {b"abc"}, VOCABULARY)
        ),
    ],
)
def test_combined_constraints_are_begun_too(make: Callable[[], Constraint]) -> None:
    constraint = begin(make(), "ab")
    members = [m for t in TEXTS if t.startswith(b"ab") and t != b"abc" for m in spellings(t)]
    read = tuple(constraint.read)
    rest = [m[len(read) :] for m in members if m[: len(read)] == read]
    _check_law(constraint, law(rest, constraint.read))


@pytest.mark.parametrize(
    "make",
    [
        lambda: FiniteLanguage(TEXTS, VOCABULARY),
        lambda: toy_set(SET, VOCABULARY),
    ],
)
def test_a_prefill_that_nothing_begins_with_is_an_error(make: Callable[[], Constraint]) -> None:
    with pytest.raises(PrefillError) as caught:
        begin(make(), "abb")
    assert caught.value.code == "E_PREFILL"
    assert caught.value.details["byte"] == 2
    assert "c" in caught.value.details["allowed"]
    assert "at byte 2 stands 'b'" in caught.value.message


@pytest.fixture(scope="module")
def embedded_model() -> Any:
    from cdec.core import load_model
    from cdec.data.assets import embedded_model_path

    return load_model(embedded_model_path())


def test_methods_that_force_nothing_have_all_of_it_in_the_prompt(
    embedded_model: Any,
) -> None:
    cities = set_constraint(["Paris", "Paris, Texas", "Rome"], embedded_model.vocabulary)
    constraint = begin(cities, "Par", heal=False)
    assert constraint.begun == b" Par"
    request = Request("What is the capital of France?", None, [0])
    prompt = [*embedded_model.encode_prompt(request.prompt), *constraint.read]
    samples = SAMPLERS["unconstrained"]().draw(
        embedded_model, constraint, prompt, n=8, rng=np.random.default_rng(0)
    )
    assert all(sample.text.lstrip().startswith("Par") for sample in samples)
    assert "Paris" in {sample.text for sample in samples if sample.valid}


def test_no_member_is_lost_whatever_its_tokens(embedded_model: Any) -> None:
    names = ["New York", "Newark", "New", "Newport News", "Neu", "Nebraska"]
    vocabulary = embedded_model.vocabulary
    inner = set_constraint(names, vocabulary)
    for length in range(1, 9):
        prefill = "New York"[:length]
        constraint = begin(inner, prefill)
        session = constraint.session()
        for name in names:
            if not name.startswith(prefill):
                continue
            ids = constraint.token_ids_of(name.encode())
            assert ids is not None
            state = session.start(1)
            for token in ids:
                state = session.advance(state, np.array([token]))
            assert session.is_complete(state)[0]
            assert constraint.member_text(ids) == name.encode()


def test_an_order_of_draws_does_not_depend_on_the_batch() -> None:
    constraint = begin(FiniteLanguage(TEXTS, VOCABULARY), "ab")
    model = model_behind(constraint.read)
    sampler = SAMPLERS["masked"]()
    together = sampler.draw_batch(model, [Request("", constraint, [s]) for s in range(6)])
    alone = [sampler.draw_batch(model, [Request("", constraint, [s])])[0] for s in range(6)]
    assert [r[0].token_ids for r in together] == [r[0].token_ids for r in alone]

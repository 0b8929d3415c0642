"""Denied texts, and prompts whose cut end is healed."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.denial import OFF, ROOT, DeniedConstraint, DeniedTexts, deny
from cdec.core.combine.healing import HealedConstraint
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.constraint import DEAD
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.sets.set_cases import byte_vocabulary, make_set
from tests.laws.grammar_cases import byte_vocabulary as letter_vocabulary
from tests.laws.grammar_cases import compiled, random_split
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes

# --- Denied texts: no tokens spell them, nothing else is lost, and no dead ends come of them.

BYTES = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"abca", b"a", b"", b"", b"cc"]
VOCABULARY = Vocabulary(BYTES, eos_token_ids=[9, 10], width=14)
LETTERS = {text: token for token, text in enumerate(BYTES[:3])}


def random_texts(rng: np.random.Generator, n: int) -> set[bytes]:
    return {bytes(rng.choice(list(b"abc"), size=rng.integers(0, 6)).tolist()) for _ in range(n)}


def spelled(text: bytes) -> list[int]:
    return [LETTERS[bytes([byte])] for byte in text]


@pytest.mark.parametrize("seed", range(12))
def test_a_language_without_denied_texts_is_the_language_of_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = sorted(random_texts(rng, int(rng.integers(1, 14))))
    denied = [text for text in texts if rng.random() < 0.6][: len(texts) - 1]
    denied += sorted(random_texts(rng, 4) - set(texts))
    left = sorted(set(texts) - set(denied))
    constraint: Any = deny(FiniteLanguage(texts, VOCABULARY), denied)
    if denied:
        assert constraint.facts.denied_unknown == len(set(denied) - set(texts))
    assert constraint.facts.is_sound
    # Law 2 with it: where the language within is sound, so is what is left of it.
    assert_session_laws(constraint, map(spelled, left), rng)

    def allowed(prefix: tuple[int, ...]) -> set[int]:
        text = VOCABULARY.decode(prefix)
        tokens = {
            token
            for token, added in enumerate(BYTES)
            if added and any(whole.startswith(text + added) for whole in left)
        }
        return tokens | ({9, 10} if text in left else set())

    session = constraint.session()
    prefixes = random_prefixes(session, rng, 40, 12)
    assert_allowed_is(
        session, [p for p in prefixes if not {9, 10} & set(p)], allowed, VOCABULARY.width
    )
    for text in texts:
        assert constraint.accepts(text) == (text in left)


GRAMMAR = """
start: "{" [pair ("," pair)*] "}"
pair: KEY ":" (INT | "true" | "[" INT "]")
KEY: /"[ab]{1,2}"/
INT: /[0-9]/
"""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(GRAMMAR, tmp_path_factory.mktemp("pairs"))


DENIED = [b"{}", b'{"a":1}', b'{"a":[1]}', b'{"b":true}', b"{", b"nothing"]


def test_grammars_lose_denied_texts_in_every_tokenisation(pairs: Any) -> None:
    rng = np.random.default_rng(0)
    vocabulary = pairs.vocabulary
    constraint: Any = deny(pairs, DENIED)
    assert (constraint.facts.kind, constraint.facts.is_sound, constraint.facts.denied_unknown) == (
        "grammar",
        True,
        2,
    )
    members = [random_split(t, vocabulary, rng) for t in (b'{"a":2}', b'{"a":1,"b":2}')]
    assert_session_laws(constraint, members, rng, max_states=60)
    session, end = constraint.session(), vocabulary.eos_token_ids[0]
    for text in DENIED[:4]:
        for _ in range(8):
            states = session.start(1)
            for token in random_split(text, vocabulary, rng):
                states = session.advance(states, np.array([token]))
            assert states[0] == DEAD or not session.check(states, np.array([[end]]))[0, 0]
        assert (pairs.accepts(text), constraint.accepts(text)) == (True, False)
    assert constraint.accepts(b'{"a":2}') is True
    assert constraint.accepts(b"{") is False


def test_a_token_after_which_all_is_denied_is_not_allowed(tmp_path: Path) -> None:
    vocabulary = letter_vocabulary()
    grammar = compiled('start: "Paris" | "Rome" | "Romeo" | "Oslo"\n', tmp_path, vocabulary)
    session = deny(grammar, [b"Paris", b"Romeo", b"Oslo"]).session()
    _, ids = session.allowed(session.start(1))
    assert [vocabulary.token_bytes[token] for token in ids] == [b"R"]
    after = session.advance_bytes(session.start(1), [b"Rome"])  # type: ignore[attr-defined]
    assert session.forced(after)[1].tolist() == [vocabulary.eos_token_ids[0]]
    both = deny(deny(grammar, [b"Paris", b"Romeo"]), [b"Oslo"])
    assert isinstance(both, DeniedConstraint) and len(both.texts) == 3
    with pytest.raises(EmptySetError, match="every text of the grammar"):
        deny(both, [b"Rome"])


def test_long_denied_texts_are_followed_without_recursion(tmp_path: Path) -> None:
    vocabulary = letter_vocabulary()
    grammar = compiled('start: /a{5000}/ | "b"\n', tmp_path, vocabulary)
    session = deny(grammar, [b"a" * 5000]).session()
    assert session.allowed(session.start(1))[1].tolist() == [ord("b")]


def test_lookahead_and_healing_combine_with_denial(pairs: Any) -> None:
    naive: Any = deny(pairs, DENIED).with_lookahead(0)  # type: ignore[attr-defined]
    assert naive.facts.lookahead == 0
    assert_session_laws(naive, [], np.random.default_rng(1), max_states=40)
    healed = HealedConstraint(deny(pairs, DENIED), b'x{"')
    session = healed.session()
    assert session.allowed(session.start(1))[1].tolist() == [ord("x")]
    # Healing leaves the prefix out of the text, and so does denial.
    healed = HealedConstraint(deny(pairs, [b'{"a":1}', b"{}"]), b"a")
    assert_session_laws(healed, [], np.random.default_rng(2), max_states=40)
    session = healed.session()
    states = session.start(1)
    for token in b'a{"a":1}':
        states = session.advance(states, np.array([token]))
    assert states[0] == DEAD
    narrow = HealedConstraint(deny(FiniteLanguage([b"ab", b"ac"], VOCABULARY), [b"ab"]), b"c")
    session = narrow.session()
    _, ids = session.allowed(session.start(1))
    assert [BYTES[token] for token in ids] == [b"c", b"ca"]
    assert session.allowed(session.advance(session.start(1), np.array([6])))[1].tolist() == [2]


def test_sets_drop_rows_and_stay_sets() -> None:
    constraint = make_set([[1, 2], [1, 3], [4]], byte_vocabulary(9))
    smaller: Any = deny(constraint, [b"<4>", b"<5>"])
    assert (type(smaller), smaller.n_rows) == (type(constraint), 2)
    assert smaller.facts.denied_unknown == 1
    assert deny(constraint, []) is constraint


def test_texts_that_end_themselves_cannot_lose_an_end_event() -> None:
    constraint = make_set([[1, 2]], byte_vocabulary(9), options={"ends_itself": True})
    with pytest.raises(UsageError, match="end themselves"):
        DeniedConstraint(constraint, DeniedTexts([b"<1>"], constraint.vocabulary))


@pytest.mark.parametrize("many", [False, True])
def test_tokens_that_stay_in_the_trie_are_found_from_either_side(many: bool) -> None:
    rng = np.random.default_rng(4)
    texts = random_texts(rng, 60 if many else 1) | {b"abcab", b"abc"}
    denied = DeniedTexts(texts, VOCABULARY)
    for begun in (b"", b"a", b"ab"):
        node = denied.follow(ROOT, begun)
        steps = denied.steps(node)
        expected = [
            token
            for token, added in enumerate(BYTES)
            if added and any(text.startswith(begun + added) for text in texts)
        ]
        assert steps.tokens.tolist() == expected
        assert [denied.follow(node, BYTES[t]) for t in expected] == steps.nodes.tolist()
        assert denied.is_denied(node) == (begun in texts)
    assert denied.follow(ROOT, b"x") == OFF
    assert not denied.is_denied(OFF)


# --- Token healing: how prompts are cut, what may spell the cut, and texts without it.

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

"""Denied texts: no tokens spell them, nothing else is lost, and no dead ends come of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.denial import OFF, ROOT, DeniedConstraint, DeniedTexts, deny
from cdec.core.combine.healing import HealedConstraint
from cdec.core.constraint import DEAD
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.sets.set_cases import byte_vocabulary, make_set
from tests.laws.grammar_cases import byte_vocabulary as letter_vocabulary
from tests.laws.grammar_cases import compiled, random_split
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes

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
        assert constraint.denied_unknown == len(set(denied) - set(texts))
    assert constraint.is_sound
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
    assert (constraint.kind, constraint.is_sound, constraint.denied_unknown) == ("grammar", True, 2)
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
    assert naive.lookahead == 0
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
    assert smaller.denied_unknown == 1
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

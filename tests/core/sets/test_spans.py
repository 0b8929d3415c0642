"""Pieces of documents: which they are, by plain search, and laws of their walks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import CdecError, EmptySetError, EncodingError, LimitError, UsageError
from cdec.core.session import Session
from cdec.core.sets import spans as module
from cdec.core.sets.corpus import CorpusConstraint
from cdec.core.sets.spans import SpanConstraint, SpanOptions
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.sessions import assert_masks_are_steps, assert_session_laws, states_after
from tests.laws.set_cases import pieces

END = 256
MERGES = ("the", " the", "cat", " cat", "at", " s", "é", "aa", "aaaa", ". ", "It", " sat", "日本")
TABLE = [*(bytes([byte]) for byte in range(256)), b"", *(text.encode() for text in MERGES)]
VOCABULARY = Vocabulary(TABLE, eos_token_ids=[END], special_token_ids=[END])

DOCUMENTS = (
    "the cat sat on the mat. It's the cat's mat!\nNo end, café (\"quoted.\") done? yes",
    "aaaaaaaaab aaaa aaab",
    "日本語です。次の文。 abc",
    "abracadabra",
    "x",
)
OPTIONS = (
    SpanOptions(),
    SpanOptions("words"),
    SpanOptions("words", longest=2),
    SpanOptions("words", shortest=2, longest=3),
    SpanOptions(longest=1),
    SpanOptions(shortest=3),
)


def assert_pieces_are(
    constraint: SpanConstraint | CorpusConstraint, meant: set[str], among: set[str]
) -> None:
    """Assert that of these texts the ones meant are accepted, and what they begin with is."""
    session, tried = constraint.session(), sorted(among)
    states = session.advance_bytes(session.start(len(tried)), [each.encode() for each in tried])
    complete = session.is_complete(states).tolist()
    for each, is_complete in zip(tried, complete, strict=True):
        assert is_complete == (each in meant) == constraint.accepts(each.encode()), each
        assert ("span" in constraint.annotations(each.encode())) == (each in meant), each
    begun = {each[:n] for each in meant for n in range(len(each) + 1)}
    assert [each for each, state in zip(tried, states, strict=True) if state >= 0] == [
        each for each in tried if each in begun
    ]


@pytest.mark.share(10)
@pytest.mark.parametrize("text", DOCUMENTS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_members_are_the_pieces_that_are_meant(text: str, options: SpanOptions) -> None:
    meant = pieces(text, options)
    if not meant:
        with pytest.raises(EmptySetError):
            SpanConstraint(text, VOCABULARY, options)
        return
    constraint = SpanConstraint(text, VOCABULARY, options)
    assert_pieces_are(constraint, meant, pieces(text, SpanOptions()) | {"", "q", text + "q"})


def member(session: Session, rng: np.random.Generator) -> tuple[int, ...]:
    """Return the tokens of a piece, drawn one by one until nothing but an end goes on."""
    state, row = session.start(1), list[int]()
    while ids := [i for i in session.allowed(state)[1].tolist() if i != END]:
        row.append(int(rng.choice(ids)))
        state = session.advance(state, row[-1:])
    return tuple(row)


@pytest.mark.share(12)
@pytest.mark.parametrize("text", DOCUMENTS)
@pytest.mark.parametrize("options", [*OPTIONS, SpanOptions("sentences")], ids=str)
def test_sessions_keep_all_laws(text: str, options: SpanOptions) -> None:
    if options.whole != "sentences" and not pieces(text, options):
        return
    constraint = SpanConstraint(text, VOCABULARY, options)
    session, rng = constraint.session(), np.random.default_rng(0)
    members = [member(session, rng) for _ in range(6)]
    assert_session_laws(constraint, members, rng, max_states=60)
    states = states_after(session, [(), *(row[:n] for row in members[:3] for n in range(4))])
    assert_masks_are_steps(session, states, VOCABULARY)


def test_equal_texts_are_equal_states_however_they_are_cut() -> None:
    session = SpanConstraint(DOCUMENTS[0], VOCABULARY).session()
    whole = session.advance(session.start(1), [TABLE.index(b"the")])
    by_bytes = session.advance_bytes(session.start(1), [b"the"])
    assert whole.tolist() == by_bytes.tolist()


def sentences(text: str) -> list[str]:
    return [text[begin:end] for begin, end in module._bounds("sentences", text)]


def test_sentences_end_with_their_mark_or_their_line() -> None:
    assert sentences(DOCUMENTS[0]) == [
        "the cat sat on the mat.",
        "It's the cat's mat!",
        'No end, café ("quoted.")',
        "done?",
        "yes",
    ]
    assert sentences("日本語です。次の文。 v1.2 is out.  \n\n x ") == [
        "日本語です。", "次の文。", "v1.2 is out.", "x",
    ]  # fmt: skip
    constraint = SpanConstraint(DOCUMENTS[0], VOCABULARY, SpanOptions("sentences"))
    assert constraint.accepts(b"the cat sat on the mat. It's the cat's mat!")
    assert not constraint.accepts(b"the cat sat on")
    assert not constraint.accepts(b"It's the cat's mat")


def test_a_piece_says_where_it_stands_first_and_how_often() -> None:
    text = "Über a cat: the cat, cats"
    loose = SpanConstraint(text, VOCABULARY)
    assert loose.annotations(b"cat") == {"span": {"offset": 7, "length": 3, "places": 3}}
    words = SpanConstraint(text, VOCABULARY, SpanOptions("words"))
    assert words.annotations(b"cat") == {"span": {"offset": 7, "length": 3, "places": 2}}
    assert words.annotations("Über".encode()) == {"span": {"offset": 0, "length": 4, "places": 1}}
    assert text[7:10] == "cat"


def test_cut_characters_are_no_pieces() -> None:
    constraint = SpanConstraint("é", VOCABULARY)
    session = constraint.session()
    state = session.advance_bytes(session.start(1), ["é".encode()[:1]])
    assert state[0] >= 0 and not session.is_complete(state)[0]
    assert constraint.accepts("é".encode()[:1]) is False
    assert constraint.annotations("é".encode()[:1]) == {}


@pytest.mark.parametrize(
    ("document", "options", "error"),
    [
        ("", {}, EmptySetError),
        (" .. ", {"whole": "words"}, EmptySetError),
        ("a b", {"shortest": 3}, EmptySetError),
        ("a\ud800", {}, EncodingError),
        (None, {}, UsageError),
        (["a"], {}, UsageError),
        (b"a", {}, UsageError),
        ("a", {"shortest": 0}, UsageError),
        ("a", {"longest": 0}, UsageError),
        ("a", {"shortest": 2, "longest": 1}, UsageError),
        ("a", {"whole": "lines"}, UsageError),
    ],
)
def test_what_makes_no_sense_is_an_error(document: Any, options: Any, error: Any) -> None:
    with pytest.raises(error) as raised:
        SpanConstraint(document, VOCABULARY, SpanOptions(**options))
    assert isinstance(raised.value, CdecError) and raised.value.hint


def test_documents_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 3)
    SpanConstraint("abc", VOCABULARY)
    with pytest.raises(LimitError):
        SpanConstraint("abcd", VOCABULARY)


def test_a_vocabulary_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError):
        SpanConstraint("a", Vocabulary([b"a"], eos_token_ids=[]))


def test_dead_ends_are_owned_up_to_where_bytes_are_no_tokens() -> None:
    few = Vocabulary([b"a", b""], eos_token_ids=[1], special_token_ids=[1])
    assert SpanConstraint("aaa", few).facts.is_sound
    assert not SpanConstraint("ab", few).facts.is_sound


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a" * 10**6, SpanOptions()),
        ("a" * 10**6, SpanOptions("words")),
        ("a" * 10**6, SpanOptions("sentences")),
        ("a " * (5 * 10**5), SpanOptions("words", longest=3)),
        ("ab" * (5 * 10**5), SpanOptions(longest=1)),
        ("a" + " " * 10**6 + "b", SpanOptions("sentences", longest=4)),
        ("." * 10**6, SpanOptions("sentences")),
    ],
    ids=lambda given: str(given)[:8],
)
@pytest.mark.share(3)
def test_hostile_documents_cost_little(text: str, options: SpanOptions) -> None:
    began = time.process_time()
    constraint = SpanConstraint(text, VOCABULARY, options)
    session = constraint.session()
    state = session.start(1)
    for _ in range(50):
        ids = [i for i in session.allowed(state)[1].tolist() if i != END]
        if not ids:
            break
        state = session.advance(state, ids[-1:])
    assert constraint.annotations(text.strip().encode()) or options.longest
    assert constraint.accepts(text[: len(text) // 2].encode()) is not None or options.longest
    assert time.process_time() - began < 15  # some 0.5 s; what is quadratic takes hours

"""Free text and tagged regions as constraints: the laws of sessions, masks against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.combine.free.constraint import FreePart
from cdec.core.combine.free.free_text import FreeText
from cdec.core.combine.free.markers import Found, Markers
from cdec.core.combine.free.started import StartedConstraint
from cdec.core.combine.free.tagged import TaggedConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes

BYTES = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"abca", b"a", b"", b"", b"cc", b"bcab"]
VOCABULARY = Vocabulary(BYTES, eos_token_ids=[9, 10], width=14)
TEXTS = [b"a", b"ab", b"cab", b"cca"]
LANGUAGE = FiniteLanguage(TEXTS, VOCABULARY)


@pytest.mark.parametrize("texts", [[b"aab"], [b"ab", b"bba"], [b"a", b"cab"], [b"abab", b"bab"]])
def test_the_first_marker_is_found_as_by_looking_at_every_end(texts: list[bytes]) -> None:
    rng = np.random.default_rng(0)
    markers = Markers(texts)
    for _ in range(300):
        text = bytes(rng.choice([*b"abc"], size=10).tolist())
        ends = [n for n in range(1, 11) if any(text[:n].endswith(m) for m in texts)]
        found = markers.follow(0, text)
        if ends:
            first = next(i for i, m in enumerate(texts) if text[: ends[0]].endswith(m))
            assert found == Found(first, ends[0])
        else:
            longest = max(n for n in range(11) if any(m.startswith(text[10 - n :]) for m in texts))
            assert markers.beginnings[found] == text[10 - longest :]  # type: ignore[index]


@pytest.mark.parametrize("markers", [["bc"], ["aab", "cc"], ["ca", "a"]])
def test_free_text_obeys_the_laws_of_sessions(markers: list[str]) -> None:
    part = FreePart(LANGUAGE, markers)
    for each in (part.at(0, 12), part.forced_at(0, 8)):
        assert_session_laws(each, [], np.random.default_rng(0), max_states=20)


@pytest.mark.parametrize("marker", ["bc", "aab", "c"])
def test_free_text_lacks_exactly_the_tokens_that_overrun(marker: str) -> None:
    session = FreePart(LANGUAGE, [marker]).session()
    end = marker.encode()

    def allowed(prefix: tuple[int, ...]) -> set[int]:
        text = VOCABULARY.decode(prefix)
        if end in text:
            return set()
        every = set()
        for token in range(VOCABULARY.size):
            whole = text + BYTES[token]
            behind = whole[whole.find(end) + len(end) :] if end in whole else b""
            if not behind or any(t.startswith(behind) for t in TEXTS):
                every.add(token)
        return every

    prefixes = random_prefixes(session, np.random.default_rng(1), 30, 8)
    assert_allowed_is(
        session, [p for p in prefixes if not {9, 10} & set(p)], allowed, VOCABULARY.width
    )


def test_members_that_a_token_began_obey_the_laws() -> None:
    members = [[0, 1], [0]]
    started = StartedConstraint(LANGUAGE, b"c")
    assert_session_laws(started, [members[0]], np.random.default_rng(0))
    assert started.member_text([0, 1]) == b"cab"
    # A set is walked by tokens: nothing goes on behind bytes.
    nothing = StartedConstraint(LANGUAGE, b"b").session()
    assert nothing.start(1).tolist() == [-1]


@pytest.mark.parametrize("end", [b"b", b"ca", b"abc"])
def test_tagged_regions_allow_exactly_what_leads_to_their_end(end: bytes) -> None:
    constraint = TaggedConstraint(LANGUAGE, end, b"aa")
    session = constraint.session()
    wholes = [t + end for t in TEXTS]

    def reads(text: bytes) -> bool | None:
        """True where the region has ended, False where it may go on, None where neither."""
        done = [len(w) for w in wholes if text.startswith(w)]
        if done:
            return True if b"aa" not in text[min(done) :] else None
        return False if any(w.startswith(text) for w in wholes) else None

    def allowed(prefix: tuple[int, ...]) -> set[int]:
        text = VOCABULARY.decode(prefix)
        if reads(text) is not False:
            return set()
        return {t for t, piece in enumerate(BYTES) if piece and reads(text + piece) is not None}

    prefixes = random_prefixes(session, np.random.default_rng(2), 40, 8)
    assert_allowed_is(session, prefixes, allowed, VOCABULARY.width)
    for prefix in prefixes:
        text = VOCABULARY.decode(prefix)
        if reads(text):
            member, rest = constraint.parted(prefix)
            first = min((w for w in wholes if text.startswith(w)), key=len)
            assert (member + end, rest) == (first, text[len(first) :])
    assert_session_laws(constraint, [], np.random.default_rng(3), max_states=60)


def test_a_record_changes_what_a_run_says_of_free_text() -> None:
    run = FreeText(after=("x",), budget=5)
    assert FreeText.joined(None) is None and FreeText.joined(run) == run
    assert FreeText.joined(run, budget=2) == FreeText(after=("x",), budget=2)
    assert FreeText.joined(run, after=("y",)) == FreeText(after=("y",), budget=5)
    tagged = FreeText.joined(run, between=("a", "b"))
    assert tagged == FreeText(between=("a", "b"))
    assert FreeText.joined(tagged, regions=2) == FreeText(between=("a", "b"), regions=2)
    with pytest.raises(Exception, match="no marker"):
        FreeText.joined(None, budget=3)

"""Free text and tagged regions as constraints: the laws of sessions, masks against plain Python."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cdec.core.combine.free_part import FreePart, Reached
from cdec.core.combine.free_text import FreeText, MarkerLimits
from cdec.core.combine.markers import Found, Markers
from cdec.core.combine.tagged import StartedConstraint, TaggedConstraint
from cdec.core.errors import LimitError, UsageError
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
            assert markers.beginning(found) == text[10 - longest :]  # type: ignore[arg-type]


@pytest.mark.parametrize("markers", [["bc"], ["aab", "cc"], ["ca", "a"]])
def test_free_text_obeys_the_laws_of_sessions(markers: list[str]) -> None:
    part = FreePart(LANGUAGE, markers)
    for each in (part.at(0, 12), part.forced_at(0, 8)):
        assert_session_laws(each, [], np.random.default_rng(0), max_states=20)


def _behind(text: bytes, markers: list[bytes]) -> bytes | None:
    """Return what stands behind the first marker to end; None where none does."""
    ends = [n for n in range(1, len(text) + 1) if any(text[:n].endswith(m) for m in markers)]
    return text[ends[0] :] if ends else None


MARKERS = [["bc"], ["aab"], ["c"], ["abab", "bab", "cc"], ["aabaab", "abb"], ["a" * 40, "ca"]]


@pytest.mark.parametrize("markers", MARKERS)
def test_free_text_lacks_exactly_the_tokens_that_overrun(markers: list[str]) -> None:
    session = FreePart(LANGUAGE, markers).session()
    ends = [marker.encode() for marker in markers]

    def allowed(prefix: tuple[int, ...]) -> set[int]:
        text = VOCABULARY.decode(prefix)
        if _behind(text, ends) is not None:
            return set()
        every = set()
        for token in range(VOCABULARY.size):
            behind = _behind(text + BYTES[token], ends)
            if not behind or any(t.startswith(behind) for t in TEXTS):
                every.add(token)
        return every

    prefixes = random_prefixes(session, np.random.default_rng(1), 30, 8)
    assert_allowed_is(
        session, [p for p in prefixes if not {9, 10} & set(p)], allowed, VOCABULARY.width
    )


@pytest.mark.parametrize("markers", [*MARKERS, ["abcabcabcabcab"], ["cabd", "ab"], ["dab", "ba"]])
def test_a_forced_marker_is_spelt_by_exactly_the_tokens_that_lead_to_its_end(
    markers: list[str],
) -> None:
    part = FreePart(LANGUAGE, markers)
    first = markers[0].encode()
    whole = next(
        (
            first[:n]
            for n in range(1, len(first))
            if _behind(first[:n], [m.encode() for m in markers]) == b""
        ),
        first,
    )

    def leads(text: bytes) -> bool:
        if len(text) >= len(whole):
            behind = text[len(whole) :]
            is_open = not behind or any(t.startswith(behind) for t in TEXTS)
            return text.startswith(whole) and is_open
        return whole.startswith(text) and any(leads(text + piece) for piece in BYTES if piece)

    def allowed(prefix: tuple[int, ...]) -> set[int]:
        text = VOCABULARY.decode(prefix)
        if len(text) >= len(whole):
            return set()
        return {t for t, piece in enumerate(BYTES) if piece and leads(text + piece)}

    if not leads(b""):
        with pytest.raises(UsageError, match="spell the marker"):
            part.forced_at(0, 99)
        return
    session = part.forced_at(0, 99).session()
    prefixes = random_prefixes(session, np.random.default_rng(1), 30, 45)
    assert_allowed_is(session, prefixes, allowed, VOCABULARY.width)


def test_long_and_many_markers_take_memory_in_proportion_and_no_recursion() -> None:
    many = [b"m%d;" % number for number in range(5_000)]
    tracemalloc.start()
    try:
        long = Markers([b"z" * 100_000])
        found = Markers(many).follow(0, b"m49m4999;")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert found == Found(4_999, 9)
    assert long.follow(0, b"z" * 99_999 + b"y") == 0
    part = FreePart(LANGUAGE, ["ab" * 2_000])
    forced = part.forced_at(0, 4_000)
    session = forced.session()
    states = session.start(1)
    for token in [3] * 2_000:
        assert bool(session.check(states, [[token]])[0, 0])
        states = session.advance(states, [token])
    assert session.is_complete(states).all() and forced.read([3] * 2_000) == Reached(0, b"")


def test_markers_beyond_their_limits_are_refused_until_the_limits_are_raised() -> None:
    raised = MarkerLimits(max_markers=3_000, max_marker_bytes=100_000)
    for markers, named in (
        (("z" * 100_000,), "max_marker_bytes"),
        (tuple(map(str, range(3_000))), "max_markers"),
    ):
        with pytest.raises(LimitError, match="the limit is") as error:
            FreeText(markers)
        assert f"`{named}`" in str(error.value.hint)
        assert FreeText(markers, limits=raised).after == markers
        assert FreeText.joined(None, after=markers, limits=raised) is not None
    with pytest.raises(LimitError):
        FreeText.joined(FreeText(("a",)), between=("z" * 4_000, "y" * 4_000))


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

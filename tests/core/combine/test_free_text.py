"""Free text before and around constraints, and texts that begin already."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cdec.compilers import set_constraint
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.free_part import FreePart, Reached
from cdec.core.combine.free_text import FreeText, MarkerLimits
from cdec.core.combine.markers import Found, Markers
from cdec.core.combine.prefill import BegunConstraint, begin
from cdec.core.combine.tagged import StartedConstraint, TaggedConstraint
from cdec.core.constraint import Constraint
from cdec.core.errors import LimitError, PrefillError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS, Request
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes
from tests.laws.worlds import toy_set

# --- Free text and tagged regions as constraints: the laws of sessions, masks against plain
# Python.

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


@pytest.mark.slow
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


# --- Begun answers: which tokens spell them, what stands in the prompt, the law of the rest.

BEGUN_BYTES = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"abca", b"a", b"", b"", b"cc"]
BEGUN_VOCABULARY = Vocabulary(BEGUN_BYTES, eos_token_ids=[9, 10], width=14)
ENDS = {9, 10}
BEGUN_TEXTS = [b"", b"a", b"ab", b"abc", b"abca", b"cab", b"cca", b"bcab", b"aaaa"]
ORDINARY = [token for token, text in enumerate(BEGUN_BYTES) if text]


def spellings(text: bytes) -> list[tuple[int, ...]]:
    """Return every way to spell a text."""
    if not text:
        return [()]
    return [
        (token, *rest)
        for token in ORDINARY
        if text.startswith(BEGUN_BYTES[token])
        for rest in spellings(text[len(BEGUN_BYTES[token]) :])
    ]


def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
    """Some law over tokens that ends soon."""
    seed = int.from_bytes(bytes(prefix), "big") % 97
    weights = np.random.default_rng(seed).random(14) + 0.05
    weights[12:] = 0.0
    weights[9:11] += 0.4 * len(prefix)
    return weights / weights.sum()


def model_behind(read: list[int]) -> TabularModel:
    return TabularModel(lambda prefix: probabilities((*read, *prefix)), BEGUN_VOCABULARY)


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
    constraint = begin(FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY), prefill)
    wholes = [text for text in BEGUN_TEXTS if text.startswith(prefill.encode())]
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
    inner = toy_set(SET, BEGUN_VOCABULARY)
    constraint = begin(inner, prefill)
    read = tuple(constraint.read)
    members = [row for row in SET if BEGUN_VOCABULARY.decode(row).startswith(prefill.encode())]
    assert all(row[: len(read)] == read for row in members)
    assert_session_laws(constraint, [row[len(read) :] for row in members], np.random.default_rng(0))


def test_exactly_the_tokens_that_spell_the_beginning_are_allowed() -> None:
    for prefill in ("a", "ab", "abc", "bca"):
        constraint = begin(
            FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY), prefill, into_prompt=False
        )
        session = constraint.session()
        wholes = [text for text in BEGUN_TEXTS if text.startswith(prefill.encode())]

        def allowed(prefix: tuple[int, ...], wholes: list[bytes] = wholes) -> set[int]:
            text = BEGUN_VOCABULARY.decode(prefix)
            tokens = {
                t for t in ORDINARY if any(w.startswith(text + BEGUN_BYTES[t]) for w in wholes)
            }
            return tokens | (ENDS if text in wholes else set())

        prefixes = random_prefixes(session, np.random.default_rng(1), 40, 12)
        reachable = [prefix for prefix in prefixes if not ENDS & set(prefix)]
        assert constraint.read == []
        assert_allowed_is(session, reachable, allowed, BEGUN_VOCABULARY.width)


def test_what_all_members_begin_with_goes_into_the_prompt() -> None:
    inner = toy_set([(3, 2, 0), (3, 2), (3, 1), (0, 5, 0)], BEGUN_VOCABULARY)
    assert begin(inner, "ab").read == []  # "ab" and "a"
    fewer = toy_set([(3, 2, 0), (3, 2), (3, 1)], BEGUN_VOCABULARY)
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
    assert all(sample.valid and sample.prefill == constraint.facts.prefill for sample in samples)
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


@pytest.mark.share(2)
@pytest.mark.parametrize("prefill", ["a", "ab", "abca", "c"])
@pytest.mark.parametrize("into_prompt", [True, False])
def test_the_law_is_that_of_texts_that_begin_so(prefill: str, into_prompt: bool) -> None:
    inner = FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY)
    constraint = begin(inner, prefill, into_prompt=into_prompt)
    members = [m for t in BEGUN_TEXTS if t.startswith(prefill.encode()) for m in spellings(t)]
    read = tuple(constraint.read)
    rest = [m[len(read) :] for m in members if m[: len(read)] == read]
    _check_law(constraint, law(rest, constraint.read))


@pytest.mark.parametrize("prefill", ["a", "ab", "ca"])
def test_the_law_of_a_set_is_that_of_its_members_that_begin_so(prefill: str) -> None:
    constraint = begin(toy_set(SET, BEGUN_VOCABULARY), prefill)
    read = len(constraint.read)
    members = [
        row[read:] for row in SET if BEGUN_VOCABULARY.decode(row).startswith(prefill.encode())
    ]
    _check_law(constraint, law(members, constraint.read))


@pytest.mark.parametrize(
    "make",
    [
        lambda: deny(FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY), [b"abc"]),
        lambda: conjoin(
            FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY),
            FiniteLanguage({*BEGUN_TEXTS} - {b"abc"}, BEGUN_VOCABULARY),
        ),
    ],
)
def test_combined_constraints_are_begun_too(make: Callable[[], Constraint]) -> None:
    constraint = begin(make(), "ab")
    members = [m for t in BEGUN_TEXTS if t.startswith(b"ab") and t != b"abc" for m in spellings(t)]
    read = tuple(constraint.read)
    rest = [m[len(read) :] for m in members if m[: len(read)] == read]
    _check_law(constraint, law(rest, constraint.read))


@pytest.mark.parametrize(
    "make",
    [
        lambda: FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY),
        lambda: toy_set(SET, BEGUN_VOCABULARY),
    ],
)
def test_a_prefill_that_nothing_begins_with_is_an_error(make: Callable[[], Constraint]) -> None:
    with pytest.raises(PrefillError) as caught:
        begin(make(), "abb")
    assert caught.value.code == "E_PREFILL"
    assert caught.value.details["byte"] == 2
    assert "c" in caught.value.details["allowed"]
    assert "at byte 2 stands 'b'" in caught.value.message


def test_methods_that_force_nothing_have_all_of_it_in_the_prompt(
    embedded_model: Any,
) -> None:
    cities = set_constraint(["Paris", "Paris, Texas", "Rome"], embedded_model.vocabulary)
    constraint = begin(cities, "Par", heal=False)
    assert constraint.facts.begun == b" Par"
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
    constraint = begin(FiniteLanguage(BEGUN_TEXTS, BEGUN_VOCABULARY), "ab")
    model = model_behind(constraint.read)
    sampler = SAMPLERS["masked"]()
    together = sampler.draw_batch(model, [Request("", constraint, [s]) for s in range(6)])
    alone = [sampler.draw_batch(model, [Request("", constraint, [s])])[0] for s in range(6)]
    assert [r[0].token_ids for r in together] == [r[0].token_ids for r in alone]

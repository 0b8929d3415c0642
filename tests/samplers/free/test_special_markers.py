"""Special tokens as markers: found and forced by their ids, with the laws of markers of text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core.combine.free_part import FreePart
from cdec.core.combine.free_text import FreeText
from cdec.core.combine.markers import require_spelt, symbols_of
from cdec.core.combine.tagged import TaggedConstraint
from cdec.core.errors import UsageError
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from cdec.samplers import SAMPLERS, Request
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.models.chat_models import CALL, END_CALL, byte_tokenizer
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes
from tests.laws.worlds import Toy
from tests.samplers.free.test_free_law import (
    DRAWS,
    LIMIT,
    disc2,
    drawn,
    joint,
    masked,
    smc2,
    target,
)
from tests.samplers.free.test_free_stages import draw, scripted
from tests.samplers.free.two_stage import (
    END,
    LENGTH,
    SPECIAL,
    World,
    tagged_law,
    tagged_outcomes,
)

S, E = SPECIAL
PIECES = (b"a", b"b", S, b"ab", b"f", E)
MEMBERS = (b"a", b"ab", b"ba")
WORLD = World(PIECES, MEMBERS)
MARKERS = [("<s>", "<e>"), ("<s>f", "b<e>"), ("<s><e>", "f<s>", "ab")]


def as_bytes(marker: str) -> bytes:
    """Return a marker as the enumeration has it."""
    for piece, word in SPECIAL.items():
        marker = marker.replace(word, piece.decode("latin-1"))
    return marker.encode("latin-1")


@pytest.mark.share("method")
@pytest.mark.parametrize("markers", MARKERS, ids="|".join)
@pytest.mark.parametrize(
    ("method", "options", "law"),
    [
        ("masked", {}, masked),
        ("disc", {"max_tries": 2}, disc2),
        ("smc", {"particles": 2, "resample_below": 0.5}, smc2),
        ("exact", {"fallback": "none"}, target),
        ("speculative", {"draft": "prompt-lookup", "gamma": 2}, masked),
    ],
)
def test_draws_have_the_law_of_both_stages(
    method: str, options: dict[str, Any], law: Any, markers: tuple[str, ...]
) -> None:
    request = Request.numbered(
        [0],
        WORLD.constraint(),
        id="q",
        n=DRAWS,
        seed=1,
        max_new_tokens=LIMIT,
        free=FreeText(after=markers),
    )
    (samples,) = SAMPLERS[method](**options).draw_batch(WORLD.model(), [request])
    assert isinstance(samples, list), samples
    assert g_test(drawn(samples), joint(WORLD, [as_bytes(m) for m in markers], law)) > 1e-4
    assert {s.marker for s in samples} - {None} <= set(markers)


@pytest.mark.parametrize("marker", ["<s>", "<s>ab<e>", "b<s>"])
@pytest.mark.parametrize("budget", [0, 1, 2])
@pytest.mark.share(3)
def test_a_budget_forces_the_model_into_special_tokens(marker: str, budget: int) -> None:
    world, law, spelt = World(PIECES, MEMBERS), {}, as_bytes(marker)
    for free in world.free_parts([spelt, E], budget):
        ways = [(free.tokens, free.onward, free.p)]
        if free.kind in (LENGTH, END):
            ways = [
                (free.tokens + row, onward, free.p * p)
                for row, onward, p in world.forced(free.tokens, spelt)
            ]
        for tokens, onward, p in ways:
            for row, q in enumeration.masked(world.toy(tokens, onward)).law.items():
                key = (tokens, row) if row is not None else "lost"
                law[key] = law.get(key, 0.0) + p * q
    samples = draw(world, FreeText(after=(marker, "<e>"), budget=budget), n=600)
    split = [(s.token_ids[: s.free_tokens], s.token_ids[s.free_tokens :]) for s in samples]
    assert g_test([(tuple(a), tuple(b)) for a, b in split], law) > 1e-4
    for sample in samples:
        toy = Toy(world.vocabulary, world.probabilities, [tuple(sample.token_ids)])
        logprob = enumeration.log_prob(toy, tuple(sample.token_ids))
        assert sample.logprob == pytest.approx(logprob, abs=1e-9)
        assert sample.valid and (sample.free_log_z is None) == sample.forced


BETWEEN = World((b"a", b"b", S, E, b"ab", b"f"), (b"a", b"b", b"ab"), end=0.2)
TAGS = [("<s>", "<e>"), ("<s>f", "<e>"), ("f", "f<e>")]


@pytest.mark.share(1)
@pytest.mark.parametrize("tags", TAGS, ids="|".join)
def test_tagged_regions_have_the_law_of_their_parts_in_turn(tags: tuple[str, str]) -> None:
    limit = 4
    law = tagged_law(BETWEEN, *map(as_bytes, tags), limit)
    samples = draw(BETWEEN, FreeText(between=tags), n=2500, max_new_tokens=limit)
    assert g_test(tagged_outcomes(samples), law) > 1e-4


@pytest.mark.parametrize("method", ["masked", "exact", "disc", "topn", "smc"])
@pytest.mark.parametrize("tags", TAGS, ids="|".join)
@pytest.mark.share(5)
def test_regions_between_special_tokens_are_valid(method: str, tags: tuple[str, str]) -> None:
    free = FreeText(between=tags, regions=2, budget=1)
    samples = draw(BETWEEN, free, method, n=8, max_new_tokens=80)
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert ended and all(len(s.regions) >= 2 and s.valid for s in ended)
    plain = tags[0].replace("<s>", "")
    for sample in ended:
        for region in sample.regions:
            assert region["text"] in ("a", "b", "ab")
            # Special tokens have no text: a region stands behind what its marker has of one.
            assert sample.text[region["start"] : region["end"]] == region["text"]
            assert sample.text[: region["start"]].endswith(plain)


VOCABULARY = BETWEEN.vocabulary
LANGUAGE = FiniteLanguage([b"a", b"ab", b"abf"], VOCABULARY)


@pytest.mark.parametrize("markers", MARKERS, ids="|".join)
def test_free_text_obeys_the_laws_of_sessions(markers: tuple[str, ...]) -> None:
    part = FreePart(LANGUAGE, markers)
    for each in (part.at(0, 70), part.forced_at(0, 8)):
        assert_session_laws(each, [], np.random.default_rng(0), max_states=20)


@pytest.mark.parametrize("tags", [*TAGS, ("a", "f<e>f"), ("a", "<e><s>"), ("a", "ab<e>")])
def test_tagged_regions_allow_exactly_what_leads_to_their_end(tags: tuple[str, str]) -> None:
    begin, end = map(as_bytes, tags)
    symbols = [symbols_of(tag, VOCABULARY) for tag in tags]
    constraint = TaggedConstraint(LANGUAGE, symbols[1], symbols[0])
    session = constraint.session()
    wholes = [m + end for m in (b"a", b"ab", b"abf")]

    def reads(text: bytes) -> bool | None:
        """True where the region has ended, False where it may go on, None where neither."""
        done = [len(w) for w in wholes if text.startswith(w)]
        if done:
            return True if begin not in text[min(done) :] else None
        return False if any(w.startswith(text) for w in wholes) else None

    def text_of(tokens: tuple[int, ...]) -> bytes:
        return b"".join(BETWEEN.pieces[token] for token in tokens)

    def allowed(prefix: tuple[int, ...]) -> set[int]:
        if reads(text_of(prefix)) is not False:
            return set()
        every = range(len(BETWEEN.pieces))
        return {t for t in every if reads(text_of((*prefix, t))) is not None}

    prefixes = random_prefixes(session, np.random.default_rng(2), 40, 8)
    assert_allowed_is(session, prefixes, allowed, VOCABULARY.width)
    for prefix in prefixes:
        if reads(text_of(prefix)):
            member, rest = constraint.parted(prefix)
            first = min((w for w in wholes if text_of(prefix).startswith(w)), key=len)
            assert (member + end, rest) == (first, text_of(prefix)[len(first) :])
            assert constraint.content(VOCABULARY.decode(prefix)) is not None
    assert_session_laws(constraint, [], np.random.default_rng(3), max_states=60)


def test_special_tokens_that_stand_in_no_marker_are_passed_over() -> None:
    world = scripted([b"f", b"g", S, E, b"x"], [0, 3, 1, 0, 2, 1], (b"x",))
    assert draw(world, FreeText(after=("fg",)))[0].free_text == "fg"
    assert draw(world, FreeText(after=("f<s>g",)))[0].free_text == "fgfg"


def test_the_text_of_a_special_token_that_other_tokens_spell_is_no_marker() -> None:
    world = scripted([b"<s>", b"g", S, b"x"], [0, 1, 2], (b"x",))
    sample = draw(world, FreeText(after=("<s>",)))[0]
    assert (sample.token_ids[:3], sample.free_text) == ([0, 1, 2], "<s>g")


def test_a_token_that_ends_texts_is_no_marker() -> None:
    vocabulary = Vocabulary.from_tokenizer(byte_tokenizer())
    for free in (FreeText(after=("a<|end|>",)), FreeText(between=("a", "<|end|>"))):
        with pytest.raises(UsageError, match=r"'<\|end\|>' ends it"):
            require_spelt(free, vocabulary)
    require_spelt(FreeText(between=("<tool_call>", "</tool_call>")), vocabulary)


def test_a_tokenizer_says_what_its_special_tokens_are_called() -> None:
    vocabulary = Vocabulary.from_tokenizer(byte_tokenizer())
    assert vocabulary.special_tokens["<tool_call>"] == CALL
    assert symbols_of("a</tool_call>b", vocabulary) == f"a{chr(256 + END_CALL)}b"
    assert vocabulary.with_width(300).special_tokens == vocabulary.special_tokens
    named = Vocabulary([b"a", b"<x>", b"", b""], [3], special_tokens={"<x>": 1, "<xx>": 2})
    assert named.special_token_ids == {1, 2, 3} and named.token_bytes[1] == b""
    assert symbols_of("<xx><x>", named) == chr(258) + chr(257)

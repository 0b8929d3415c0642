"""Loops of texts: the kernels against the definition, whole texts and token by token."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdec.core.record_fields.text_warnings import CYCLE, WHITESPACE
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.loops import LoopWatch, find_loops, loop_warnings
from tests.laws.sizes import heavy_or

from .loop_reference import all_loops, first_loop

pieces = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=4).map(str.encode),
    st.text("ab", max_size=20).map(str.encode),
    st.sampled_from([b" ", b"\n", b" \n\t ", b"a", b"ab", "é".encode(), "日本".encode(), b"  {}"]),
)
repeated = st.tuples(st.one_of(pieces, st.binary(min_size=20, max_size=60)), st.integers(1, 140))
texts = st.lists(repeated, max_size=4).map(
    lambda parts: b"".join((piece * count)[:400] for piece, count in parts)
)


@settings(max_examples=heavy_or(60, 2000), deadline=None)
@given(texts)
@example(b"x" * 127)
@example(b"x" * 128)
@example(b" " * 127 + b"y")
@example(b"a" + b"\n " * 64 + b"b")
@example(b"abc" * 43)
@example(bytes(range(33)) * 4)
@example(b"start" + bytes(range(40, 80)) * 4)
@example(b"start" + bytes(range(40, 80)) * 4 + b" end")
@example(b"-" * 200 + b"+" * 200)
def test_loops_of_a_text_are_those_of_the_definition(text: bytes) -> None:
    assert find_loops(text) == all_loops(text)


def test_random_texts_of_short_alphabets_loop_where_the_definition_says() -> None:
    rng = np.random.default_rng(3)
    looping = 0
    for _ in range(heavy_or(40, 400)):
        letters = rng.integers(32, 32 + int(rng.integers(1, 4)), size=300).astype(np.uint8)
        period = int(rng.integers(1, 70))
        start = int(rng.integers(0, 100))
        for at in range(start + period, 300):
            if rng.random() < 0.998:
                letters[at] = letters[at - period]
        text = letters.tobytes()
        found = find_loops(text)
        assert found == all_loops(text)
        looping += bool(found)
    assert looping > 10


@pytest.mark.parametrize("period", [1, 2, 31, 33, 64, 255, 256])
def test_a_cycle_is_found_from_four_times_and_128_bytes_on(period: int) -> None:
    cycle = bytes(np.random.default_rng(period).permutation(256)[:period].tolist())
    needed = max(128, 4 * period)
    whole = cycle * (needed // period + 2)
    assert find_loops(whole[: needed - 1]) == []
    assert find_loops(whole[:needed]) == [(0, needed, period)]
    # In the middle: what comes before and after is told apart.
    before, after = bytes([cycle[-1] ^ 255]), bytes([whole[needed] ^ 255])
    assert find_loops(before + whole[:needed] + after) == [(1, needed, period)]


def test_a_cycle_of_257_bytes_is_none() -> None:
    cycle = bytes(np.arange(256, dtype=np.uint8)) + b"!"
    assert find_loops(cycle * 6) == []


@st.composite
def _cut(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    text = draw(texts)
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=12))
    return text, sorted({0, *cuts, len(text)})


@settings(max_examples=heavy_or(40, 1000), deadline=None)
@given(_cut())
def test_tokens_find_the_first_loop_wherever_they_cut_the_text(
    cut: tuple[bytes, list[int]],
) -> None:
    text, places = cut
    tokens = [text[a:b] for a, b in itertools.pairwise(places)] or [b"x"]
    vocabulary = Vocabulary([*tokens, b""], eos_token_ids=[len(tokens)], width=len(tokens) + 3)
    watch = LoopWatch(vocabulary, 3)
    walk = np.array([1])
    hit = first_loop(text)
    taken = 0
    for number, token in enumerate(tokens if text else ()):
        watch.append(walk, np.array([number]))
        watch.append(walk, np.array([len(tokens) + 1]))  # A padding id has no bytes.
        taken += len(token)
        assert watch.is_looping(walk)[0] == (hit is not None and taken >= hit[0])
    assert not watch.is_looping(np.array([0, 2])).any()


def test_walks_begin_with_what_stands_before_and_copies_go_their_own_ways() -> None:
    vocabulary = Vocabulary([b"ab", b"c", b""], eos_token_ids=[2])
    watch = LoopWatch(vocabulary, 4)
    watch.begin(np.array([0, 2]), [0] * 63)
    everyone = np.arange(4)
    assert not watch.is_looping(everyone).any()
    copy = watch.take(np.array([2, 2]))
    copy.append(np.array([0, 1]), np.array([0, 1]))
    assert copy.is_looping(np.array([0, 1])).tolist() == [True, False]
    watch.append(everyone, np.zeros(4, np.int64))
    assert watch.is_looping(everyone).tolist() == [True, False, True, False]
    watch.inherit(np.array([1]), np.array([0]))
    assert watch.is_looping(everyone).tolist() == [True, True, True, False]


def test_warnings_name_the_token_that_the_loop_begins_in() -> None:
    vocabulary = Vocabulary([b"ha ", b"well, ha ", b"   \n", b""], eos_token_ids=[3])
    ids = [1, *[0] * 50, *[2] * 40]
    found = loop_warnings(vocabulary, ids, vocabulary.decode(ids))
    assert found == [
        {"code": CYCLE, "token": 0, "byte": 5, "bytes": 154, "period": 3},
        {"code": WHITESPACE, "token": 51, "byte": 159, "bytes": 160},
    ]
    assert loop_warnings(vocabulary, [0, 1, 2], vocabulary.decode([0, 1, 2])) == []

"""Counted repetitions: what is not written out allows what Lark and written-out copies allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lark
import numpy as np
import pytest

from cdec.compilers.grammars import compile as stages
from cdec.compilers.grammars.automata.program import Counting
from cdec.core.errors import CdecError
from cdec.core.grammars.loops import count_states, row_of_state, state_of_row
from tests.core.grammars.walks import accepts, mask_of
from tests.laws.grammar_cases import byte_vocabulary, compiled
from tests.laws.sizes import heavy_or
from tests.laws.stepping import assert_masks_are_steps

LONG = ["a" * n for n in (2, 3, 5, 8, 13, 21)] + ["ab" * 4, "b" * 6, "é" * 5, "aé1", "1" * 9, "a,b"]
VOCABULARY = byte_vocabulary(LONG)
COUNTED = [
    "start: /[a-é中]{1,90}/",
    "start: A | B\nA: /[a-z]{1,60}/\nB: /[ab]{1,45}1/",
    "start: /(a?){1,60}b/",
    "start: /a{1,60}[ab]{1,60}/",
    "start: /a{70}/",
    "start: /[ab]{50,150}c/",
    "start: /([ab]{1,60}c){1,50}/",
    "start: /([ab]c?|dd){3,200}e/",
    "start: /(é|a){1,99}/",
    'start: WORD ("," WORD)*\nWORD: /[a-z]{2,80}/\nB: "b"\n%ignore " "',
    'start: "a" A | "b" B\nA: /[ab]{1,64}/\nB: /[ab1]{1,100}x/',
    "start: A | B\nA: /[ab]{1,120}/\nB: /a{1,120}1/",
    'start: KEY "=" A\nKEY: "aaaaaaaaaaaaaaaaaaaaa"\nA: /[a-b]{1,77}/',
    "start: A\nA: /[ab]{1,100}?c/",
    'start: "[" /[^\\]]{1,255}/ "]"',
]
"""Grammars whose scanners have loops."""
WRITTEN_OUT = [
    ("start: /(a{1,60})*b/", "contextual"),
    ("start: /(?=aa)a{1,60}/", "contextual"),
    ("start: A | B\nA: /[a-z]{1,60}x/\nB: /[ab]{1,45}1/", "contextual"),
    ("start: /a{1,60}[ab]{1,60}/", "dynamic"),
    ("start: A | B\nA: /[a-z]{1,60}/\nB: /[ab]{1,45}/", "dynamic"),
]
"""Grammars in which counts do not go side by side with all else."""


def both(source: str, folder: Path, monkeypatch: Any, **options: Any) -> list[Any]:
    """Return a grammar as it is compiled, and with all repetitions written out."""
    (folder / "all").mkdir(exist_ok=True)
    counted = compiled(source, folder, VOCABULARY, **options)
    with monkeypatch.context() as patch:
        patch.setattr(stages.Counting, "of", lambda *_: None)
        return [counted, compiled(source, folder / "all", VOCABULARY, **options)]


def assert_same_masks(
    one: Any, other: Any, rng: np.random.Generator, *, documents: int = 4, steps: int = 40
) -> int:
    """Walk at random, mostly by long tokens; compare all masks; return the longest text."""
    sessions, sizes = (one.session(), other.session()), one.vocabulary.byte_lengths
    longest = 0
    for _ in range(documents):
        states, length = [session.start(1) for session in sessions], 0
        for _ in range(steps):
            masks = [
                mask_of(session, state, VOCABULARY.width)
                for session, state in zip(sessions, states, strict=True)
            ]
            np.testing.assert_array_equal(*masks)
            allowed = np.flatnonzero(masks[0][: len(sizes)] & (sizes > 0))
            if not len(allowed):
                break
            token = rng.choice(allowed[np.argsort(sizes[allowed])][-rng.integers(1, 9) :], 1)
            length += int(sizes[token[0]])
            states = [
                session.advance(state, token)
                for session, state in zip(sessions, states, strict=True)
            ]
        assert_masks_are_steps(sessions[0], states[0], VOCABULARY)
        longest = max(longest, length)
    return longest


@pytest.mark.parametrize("source", COUNTED)
def test_counted_repetitions_are_loops_that_allow_the_same(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, written = both(source, tmp_path, monkeypatch)
    assert len(counted.arrays.loop_row) and not len(written.arrays.loop_row)
    assert count_states(counted.arrays) >= len(written.arrays.live_row)
    assert counted.is_sound == written.is_sound
    assert_same_masks(counted, written, np.random.default_rng(1))


@pytest.mark.parametrize("lexer", ["basic", "dynamic"])
@pytest.mark.parametrize("source", [COUNTED[0], COUNTED[9], COUNTED[11]])
def test_the_other_lexers_count_as_well(
    source: str, lexer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, written = both(source, tmp_path, monkeypatch, lexer=lexer)
    assert len(counted.arrays.loop_row)
    assert_same_masks(counted, written, np.random.default_rng(2))


@pytest.mark.parametrize(("source", "lexer"), WRITTEN_OUT)
def test_what_cannot_be_counted_is_written_out(
    source: str, lexer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, written = both(source, tmp_path, monkeypatch, lexer=lexer)
    assert not len(counted.arrays.loop_row)
    assert_same_masks(counted, written, np.random.default_rng(3), documents=2)


def test_random_counted_patterns_allow_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = 0
    for seed in range(heavy_or(12, 300)):
        rng = np.random.default_rng([seed, 7])
        source = f"start: (R | S)+\nR: /{random_pattern(rng)}/\nS: /{random_pattern(rng)}/\n"
        lexer = str(rng.choice(["contextual", "dynamic"]))
        try:
            counted, written = both(source, tmp_path, monkeypatch, lexer=lexer)
        except CdecError:
            continue
        loops += bool(len(counted.arrays.loop_row))
        assert_same_masks(counted, written, rng, documents=2, steps=25)
    assert loops > 3


def random_pattern(rng: np.random.Generator) -> str:
    """Return a pattern with a counted repetition between other things."""
    bodies = ["a", "[ab]", "[aé中]", "(ab|b)", "(aé|b1?)", "[^,]", "(a|bb)"]
    parts = ["", "b", "1", "x?", "[ab]", "a*,", "(1|é)"]
    low = int(rng.integers(0, 60))
    count = f"{{{low},{low + int(rng.integers(0, 90))}}}" + str(rng.choice(["", "", "?"]))
    end = str(rng.choice([",", "x", "1", ""]))
    return f"{rng.choice(parts)}{rng.choice(bodies)}{count}{rng.choice(parts)}{end}"


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("start: /[a-é中]{1,2000}/", ["", "a", "é" * 1999, "中" * 2000, "é" * 2001]),
        ("start: /a{1999}b/", ["a" * 1998 + "b", "a" * 1999 + "b", "a" * 2000 + "b"]),
        (
            'start: W ("," W)*\nW: /([ab]c){1,700}/',
            ["bc" * 700, "ac" * 701, "acbc" * 350 + ",ac", "ac," + "bc" * 700, "a" + "bc" * 9],
        ),
    ],
)
def test_lark_takes_the_same_texts_around_the_last_copy(
    source: str, texts: list[str], tmp_path: Path
) -> None:
    constraint, parser = compiled(source, tmp_path, VOCABULARY), lark.Lark(source, parser="lalr")
    session, rng = constraint.session(), np.random.default_rng(4)
    verdicts = []
    for text in texts:
        try:
            verdicts.append(bool(parser.parse(text)))
        except lark.exceptions.LarkError:
            verdicts.append(False)
        assert accepts(session, text.encode(), VOCABULARY, rng) == verdicts[-1], text[:20]
    assert True in verdicts and False in verdicts


def test_a_hundred_thousand_copies_cost_no_more_than_a_hundred(tmp_path: Path) -> None:
    rows = []
    for count in (100, 100_000):
        constraint = compiled(f"start: /[ab]{{1,{count}}}c/", tmp_path, VOCABULARY)
        rows.append(len(constraint.arrays.live_row))
        session = constraint.session()
        token = VOCABULARY.token_bytes.index(b"a" * 21)
        states = session.start(1)
        for _ in range(count // 21):
            states = session.advance(states, np.array([token]))
        left = count % 21
        mask = mask_of(session, states, VOCABULARY.width)
        sizes = [n for n in (1, 2, 3, 5, 8, 13, 21) if mask[VOCABULARY.token_bytes.index(b"a" * n)]]
        assert sizes == [n for n in (1, 2, 3, 5, 8, 13, 21) if n <= left]
    assert rows[0] == rows[1]


def test_every_state_has_its_row(tmp_path: Path) -> None:
    source = 'start: "a" A | "b" B\nA: /[ab]{1,64}/\nB: /([ab]1?){1,100}x/'
    arrays = compiled(source, tmp_path, VOCABULARY).arrays
    assert len(arrays.loop_row) == 2
    first = state_of_row(arrays)
    rows = [row_of_state(arrays, state) for state in range(count_states(arrays))]
    assert [rows[state] for state in first] == list(range(len(arrays.live_row)))
    counts = np.bincount(rows)
    copies = np.ones(len(counts), int)
    for row, period, times in zip(
        arrays.loop_row, arrays.loop_period, arrays.loop_copies, strict=True
    ):
        copies[row : row + period] = times
    np.testing.assert_array_equal(counts, copies)


def test_counting_leaves_out_what_no_token_reaches() -> None:
    counting = Counting.of((), VOCABULARY)
    short = counting.written(100_000, [((ord("b"), ord("b")),)])
    assert short < counting.written(100_000, [((ord("a"), ord("a")),)]) < 50
    assert counting.written(10, [((ord("a"), ord("a")),)]) == 10

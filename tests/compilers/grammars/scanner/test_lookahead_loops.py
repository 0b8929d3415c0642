"""Scanner automata with loops, halves and overlaps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lark
import numpy as np
import pytest

from cdec.compilers import compile_grammar
from cdec.compilers.grammars import compile as stages
from cdec.compilers.grammars.automata.program import Counting
from cdec.compilers.grammars.automata.terminal import split_pattern
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.parser_choice import choose_parser
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.columns import count_states, row_of_state, state_of_row
from tests.compilers.grammars.parser.char_earley import accepts as reference_accepts
from tests.core.grammars.finite_language import accepts, mask_of
from tests.laws.grammar_cases import byte_vocabulary, compiled, texts_over
from tests.laws.sessions import assert_masks_are_steps
from tests.laws.sizes import heavy_or

# --- Counted repetitions: what is not written out allows what Lark and written-out copies allow.

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
    assert counted.facts.is_sound == written.facts.is_sound
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


@pytest.mark.slow
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


# --- Terminals whose automata would be too large are read as two that follow one another.

HALVED = byte_vocabulary(["ab", "aab", "ba", "a" * 7, "bxxb", "é", "xab\n", "b\nab"])
SMALL = GrammarLimits(max_states=300)
WINDOW = "[abxé]*a[abxé]{12}b"
"""Needs 8,192 states, one for each set of places of ``a``."""


def texts(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(rng.choice(list("abxé"), rng.integers(11, 20))) for _ in range(count)]


@pytest.mark.parametrize("lexer", [None, "dynamic"])
def test_a_window_of_characters_is_read_exactly(lexer: str | None, tmp_path: Path) -> None:
    constraint = compiled(f"start: /{WINDOW}/", tmp_path, HALVED, limits=SMALL, lexer=lexer)
    session, rng = constraint.session(), np.random.default_rng(1)
    verdicts = []
    for text in texts(rng, 60):
        verdicts.append(re.fullmatch(WINDOW, text) is not None)
        assert accepts(session, text.encode(), HALVED, rng) == verdicts[-1], text
    assert True in verdicts and False in verdicts
    states = session.start(1)
    for token in b"xaabxxbabaxxbab":
        assert_masks_are_steps(session, states, HALVED)
        states = session.advance(states, np.array([token]))


def test_lark_takes_the_same_texts_between_other_terminals(tmp_path: Path) -> None:
    source = f'start: (R "\\n" | "-" R "x")+\nR: /{WINDOW}/\n'
    session = compiled(source, tmp_path, HALVED, limits=SMALL).session()
    parser = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    rng, verdicts = np.random.default_rng(2), []
    for text in texts(rng, 25):
        whole = str(rng.choice([f"{text}\n", f"-{text}x", f"{text}\n-{text}xx"]))
        try:
            verdicts.append(bool(parser.parse(whole)))
        except lark.exceptions.LarkError:
            verdicts.append(False)
        assert accepts(session, whole.encode(), HALVED, rng) == verdicts[-1], whole
    assert True in verdicts and False in verdicts


def test_a_notice_says_so(tmp_path: Path) -> None:
    path = tmp_path / "g.arrow"
    report = compile_grammar(f"start: /{WINDOW}/", HALVED, path, limits=SMALL)
    assert report.lexer == "dynamic" and "too large" in report.lexer_reason
    assert [notice.code for notice in report.notices] == ["W_DYNAMIC_LEXER"]
    with pytest.raises(LimitError):
        compile_grammar(
            f"start: /{WINDOW}/", HALVED, path, limits=SMALL, lexer="contextual", force=True
        )


@pytest.mark.parametrize("pattern", ["([ab]*a[ab]{12}b)", "[ab]*a[ab]{12}b|c", "[ab]*?a[ab]{12}b"])
def test_what_cannot_be_cut_is_an_error_as_before(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(LimitError) as caught:
        compile_grammar(f"start: /{pattern}/", HALVED, tmp_path / "g.arrow", limits=SMALL)
    assert caught.value.details["limit"] == "max_states"


def test_the_last_cut_that_leaves_both_small_is_taken() -> None:
    terminal = Terminal("R", ".*a.{18}b", ".*a.{18}b", is_string=False)
    found = split_pattern(terminal, GrammarLimits())
    assert found is not None
    assert [half.pattern for half, _ in found] == [".*a", ".{18}b"]


# --- Overlapping terminals are divided into parts; the language stays, and tokens split less
# often.

EQUAL = 'start: f+\nf: A ("!" f)? | B ("?" f)?\nA: /[ab]+/\nB: /[ab]+/\n'
CROSSING = 'start: (A "!" | B "?" | C)+\nA: /a+b*/\nB: /a*b+/\nC: /(ab)+/\n'
WITH_EMPTY = 'start: A "!" B\nA: /a*/\nB: /[ab]*/\n'
NESTED = 'start: (A | "!" B | "?" C)+\nA: /[ab]+/\nB: /a+/\nC: /a+b/\n'
SOURCES = {"equal": EQUAL, "crossing": CROSSING, "empty": WITH_EMPTY, "nested": NESTED}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", SOURCES)
def test_divided_terminals_mean_the_same(name: str, tmp_path: Path) -> None:
    grammar = read_grammar(SOURCES[name], GrammarOptions(lexer="dynamic"))
    constraint = compiled(SOURCES[name], tmp_path, lexer="dynamic")
    session, verdicts = constraint.session("cpu"), set()
    for text in texts_over("ab!?", heavy_or(4, 5)):
        expected = reference_accepts(grammar, text)
        verdicts.add(expected)
        assert accepts(session, text.encode()) == constraint.accepts(text.encode()) == expected
    assert verdicts == {True, False}


@pytest.mark.parametrize("name", SOURCES)
def test_no_two_terminals_in_use_share_infinitely_many_texts(name: str) -> None:
    grammar = read_grammar(SOURCES[name], GrammarOptions(lexer="dynamic"))
    chosen = choose_parser(grammar, "dynamic", GrammarLimits())
    used = {symbol for rule in chosen.tables.rules for symbol in rule.rhs if symbol >= 0}
    assert used.isdisjoint(chosen.grammar.refused)
    for text in texts_over("ab", 6):
        matching = [t for t in used if text and _matches(chosen.automata[t], text.encode())]
        assert len(matching) <= 1, (text, matching)


def test_names_of_parts_say_which_terminals_match(tmp_path: Path) -> None:
    constraint = compiled(EQUAL, tmp_path, lexer="dynamic")
    assert "A|B" in constraint.names.terminals


def _matches(automaton: object, text: bytes) -> bool:
    state = 0
    for byte in text:
        state = int(automaton.delta[state, byte])  # type: ignore[attr-defined]
        if state < 0:
            return False
    return bool(automaton.accepting[state])  # type: ignore[attr-defined]

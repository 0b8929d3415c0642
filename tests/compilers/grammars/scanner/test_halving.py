"""Terminals whose automata would be too large are read as two that follow one another."""

from __future__ import annotations

import re
from pathlib import Path

import lark
import numpy as np
import pytest

from cdec.compilers import compile_grammar
from cdec.compilers.grammars.automata.terminal import split_pattern
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.core.errors import LimitError
from tests.core.grammars.walks import accepts
from tests.laws.grammar_cases import byte_vocabulary, compiled
from tests.laws.stepping import assert_masks_are_steps

VOCABULARY = byte_vocabulary(["ab", "aab", "ba", "a" * 7, "bxxb", "é", "xab\n", "b\nab"])
SMALL = GrammarLimits(max_states=300)
WINDOW = "[abxé]*a[abxé]{12}b"
"""Needs 8,192 states, one for each set of places of ``a``."""


def texts(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(rng.choice(list("abxé"), rng.integers(11, 20))) for _ in range(count)]


@pytest.mark.parametrize("lexer", [None, "dynamic"])
def test_a_window_of_characters_is_read_exactly(lexer: str | None, tmp_path: Path) -> None:
    constraint = compiled(f"start: /{WINDOW}/", tmp_path, VOCABULARY, limits=SMALL, lexer=lexer)
    session, rng = constraint.session(), np.random.default_rng(1)
    verdicts = []
    for text in texts(rng, 60):
        verdicts.append(re.fullmatch(WINDOW, text) is not None)
        assert accepts(session, text.encode(), VOCABULARY, rng) == verdicts[-1], text
    assert True in verdicts and False in verdicts
    states = session.start(1)
    for token in b"xaabxxbabaxxbab":
        assert_masks_are_steps(session, states, VOCABULARY)
        states = session.advance(states, np.array([token]))


def test_lark_takes_the_same_texts_between_other_terminals(tmp_path: Path) -> None:
    source = f'start: (R "\\n" | "-" R "x")+\nR: /{WINDOW}/\n'
    session = compiled(source, tmp_path, VOCABULARY, limits=SMALL).session()
    parser = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    rng, verdicts = np.random.default_rng(2), []
    for text in texts(rng, 25):
        whole = str(rng.choice([f"{text}\n", f"-{text}x", f"{text}\n-{text}xx"]))
        try:
            verdicts.append(bool(parser.parse(whole)))
        except lark.exceptions.LarkError:
            verdicts.append(False)
        assert accepts(session, whole.encode(), VOCABULARY, rng) == verdicts[-1], whole
    assert True in verdicts and False in verdicts


def test_a_notice_says_so(tmp_path: Path) -> None:
    path = tmp_path / "g.arrow"
    report = compile_grammar(f"start: /{WINDOW}/", VOCABULARY, path, limits=SMALL)
    assert report.lexer == "dynamic" and "too large" in report.lexer_reason
    assert [notice.code for notice in report.notices] == ["W_DYNAMIC_LEXER"]
    with pytest.raises(LimitError):
        compile_grammar(
            f"start: /{WINDOW}/", VOCABULARY, path, limits=SMALL, lexer="contextual", force=True
        )


@pytest.mark.parametrize("pattern", ["([ab]*a[ab]{12}b)", "[ab]*a[ab]{12}b|c", "[ab]*?a[ab]{12}b"])
def test_what_cannot_be_cut_is_an_error_as_before(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(LimitError) as caught:
        compile_grammar(f"start: /{pattern}/", VOCABULARY, tmp_path / "g.arrow", limits=SMALL)
    assert caught.value.details["limit"] == "max_states"


def test_the_last_cut_that_leaves_both_small_is_taken() -> None:
    terminal = Terminal("R", ".*a.{18}b", ".*a.{18}b", is_string=False)
    found = split_pattern(terminal, GrammarLimits())
    assert found is not None
    assert [half.pattern for half, _ in found] == [".*a", ".{18}b"]

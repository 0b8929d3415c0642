"""Terminals of so many tokens: no other texts are lost, and every terminal ends in time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cdec.compilers import compile_grammar, grammar_constraint
from cdec.compilers.grammars.definition import Lexer
from cdec.core import open_artifact
from cdec.core.combine.fitting import fit
from cdec.core.constraint import CONSERVATIVE, EXACT, text_verdicts, token_verdicts
from cdec.core.errors import FitError
from cdec.core.grammars.errors import GrammarSyntaxError, GrammarUnsupportedError
from cdec.core.grammars.session import Engine
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import (
    assert_session_laws,
    assert_states_agree,
    random_prefixes,
    states_after,
    token_rows,
)
from tests.laws.worlds import Row

PIECES = [
    *(b"a", b"b", b"c", b"ab", b"abc", b"bc", b" ", b" a", b"a ", b"b a", b",", b",a", b"a,b"),
    *(b'"', b'"a', b'b"'),
]
VOCABULARY = Vocabulary(
    [*PIECES, b""], eos_token_ids=[len(PIECES)], special_token_ids=[len(PIECES)]
)
END = len(PIECES)
Holds = Callable[[bytes, list[int]], bool]


def owners(row: Row) -> list[int]:
    return [n for n, token in enumerate(row) for _ in PIECES[token]]


def words_within(letters: bytes, most: int) -> Holds:
    """Say whether the runs of some letters have so many tokens each."""

    def holds(text: bytes, owner: list[int]) -> bool:
        seen = set[int]()
        for byte, token in zip(text, owner, strict=True):
            seen = seen | {token} if byte in letters else set()
            if len(seen) > most:
                return False
        return True

    return holds


def keyword_is_free(text: bytes, owner: list[int]) -> bool:
    words, at = [], 0
    for word in text.split(b" "):
        words.append((word, len(set(owner[at : at + len(word)]))))
        at += len(word) + 1
    return all(count <= 1 or word == b"abc" for word, count in words)


def quoted(text: bytes, owner: list[int]) -> bool:
    first, last = text.index(b'"'), text.rindex(b'"')
    return len(set(owner[first : last + 1])) <= 3


CASES: dict[str, tuple[str, str, Holds, int]] = {
    "words": (
        'start: WORD (" " WORD)*\nWORD{}: /[abc]+/',
        "[max_tokens=2]",
        words_within(b"abc", 2),
        4,
    ),
    "one token": (
        'start: WORD ("," WORD)*\nWORD{}: /[abc]+/',
        "[max_tokens=1]",
        words_within(b"abc", 1),
        4,
    ),
    "keyword": (
        'start: (KEY | WORD) (" " (KEY | WORD))*\nKEY: "abc"\nWORD{}: /[abc]+/',
        "[max_tokens=1]",
        keyword_is_free,
        4,
    ),
    "quoted": ('start: STRING " "?\nSTRING{}: /"[ab]*"/', "[max_tokens=3]", quoted, 5),
    "ignored": (
        'start: WORD+\nWORD{}: /[ab]+/\n%ignore " "',
        "[max_tokens=2]",
        words_within(b"ab", 2),
        4,
    ),
    "rule": (
        'start: word ("," word)*\nword{}: /[abc]+/',
        "[max_tokens=2]",
        words_within(b"abc", 2),
        4,
    ),
}


LEXERS = ("contextual", "basic", "dynamic")
# Words stand next to each other under dynamic: its number holds none of them back.
ASKED = [(n, lexer) for n in CASES for lexer in LEXERS if (n, lexer) != ("ignored", "dynamic")]


@pytest.mark.share(6)
@pytest.mark.parametrize(("name", "lexer"), ASKED)
def test_terminals_are_those_of_so_many_tokens(name: str, lexer: Lexer) -> None:
    source, attribute, holds, most = CASES[name]
    limited = grammar_constraint(source.format(attribute), VOCABULARY, lexer=lexer)
    whole = grammar_constraint(source.format(""), VOCABULARY, lexer=lexer)
    every = token_rows(whole, most)
    rows = [row for row in every if holds(VOCABULARY.decode(row), owners(row))]
    assert token_rows(limited, most) == rows and 0 < len(rows) < len(every)
    facts = limited.facts
    assert facts.budgets == EXACT and not facts.takes_bytes and whole.facts.budgets is None
    assert_session_laws(limited, rows[:12], np.random.default_rng(0), max_states=60, max_steps=8)


def test_a_token_across_a_border_counts_for_both_sides() -> None:
    limited = grammar_constraint('start: A "," B\nA[max_tokens=1]: /[ab]+/\nB: /[ab]+/', VOCABULARY)
    ids = {piece: token for token, piece in enumerate(PIECES)}
    session = limited.session()
    for pieces, is_allowed in [
        ([b"a", b",", b"b"], True),
        ([b"a,b"], True),
        ([b"ab", b",a", b"b", b"b"], True),
        ([b"a", b"b"], False),
        ([b"b", b"a,b"], False),
    ]:
        state = states_after(session, [[ids[piece] for piece in pieces[:-1]]])
        after = session.advance(state, np.array([ids[pieces[-1]]]))
        assert (after[0] >= 0) == is_allowed, pieces


# --- Any content: contract and dead ends, over a vocabulary of bytes.

TEXT = """
start: "{" pair ("," pair)* "}"
pair: KEY ":" (STRING | NUMBER)
KEY[max_tokens=3]: /"[a-z]+"/
STRING[max_tokens=5]: /"[^"\\x00-\\x1f]*"/
NUMBER[max_tokens=2]: /-?[0-9]+(\\.[0-9]+)?/
%ignore " "
"""


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_masks_are_steps_and_terminals_end(lexer: Lexer) -> None:
    vocabulary = byte_vocabulary(['":', '"}', '","', "abc", "ab", "10", ".5", '":"', '{"', " a"])
    limited = grammar_constraint(TEXT, vocabulary, lexer=lexer)
    session, rng = limited.session(), np.random.default_rng(4)
    walked = sorted(random_prefixes(session, rng, 30, 40))  # fails where one is stuck
    prefixes = [walked[n] for n in rng.choice(len(walked), 60, replace=False)]
    masks = assert_states_agree(session, states_after(session, prefixes), vocabulary)
    assert masks.any(1).sum() == sum(vocabulary.eos_token_ids[0] not in p for p in prefixes)
    assert_session_laws(limited, [], rng, max_states=40, walks=4, max_steps=30)


# --- What cannot be.


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ("start: A\nA[max_tokens=0]: /a/", GrammarSyntaxError, "line 2, column 2: .* is 0"),
        ("start: A\nA[max_tokens]: /a/", GrammarSyntaxError, "is nothing"),
        ("start: A\nA[lazy]: /a/", GrammarUnsupportedError, "attribute 'lazy'"),
        (
            "start: A\nA: B\nB[max_tokens=2]: /a/",
            GrammarUnsupportedError,
            "line 3.*no rule reads B",
        ),
        (
            "start: A\nx[max_tokens=2]: A A\nA: /a/",
            GrammarUnsupportedError,
            "line 2.*no text has a part that is the rule x",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_in_its_place(
    source: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        grammar_constraint(source, VOCABULARY)


def test_brackets_elsewhere_are_no_attributes() -> None:
    source = """
    // A[max_tokens=0]: /a/
    start: "a" ["b" [WORD]]
    WORD.2[ max_tokens = 2 ]: /[abc]+/
    """
    limited = grammar_constraint(source, VOCABULARY)
    assert json.loads(limited.facts.metadata["cdec.budgets"])[0][1] == 2
    assert "cdec.budgets" not in grammar_constraint('start: ["a"]', VOCABULARY).facts.metadata


def test_a_number_below_the_shortest_text_is_an_error_with_that_number(tmp_path: Path) -> None:
    source = 'start: A B?\nA[max_tokens=2]: /[abc]{7,9}/\nB: ","'
    with pytest.raises(FitError, match=r"terminal A has at most 2 tokens.* 3") as info:
        compile_grammar(source, VOCABULARY, tmp_path / "g.arrow")
    assert info.value.details["shortest"] == 3
    assert info.value.hint == "raise max_tokens of A to 3 or more"
    assert not (tmp_path / "g.arrow").exists()


# --- Beside what else holds texts; verdicts, artifacts.


def test_a_whole_text_fits_and_its_terminals_as_well() -> None:
    source = 'start: WORD ("," WORD)?\nWORD[max_tokens=2]: /[ab]{1,4}/'
    limited = grammar_constraint(source, VOCABULARY)
    rows = [row for row in token_rows(limited, 5) if len(row) <= 4]
    assert token_rows(fit(limited, 4), 5) == rows
    assert fit(limited, 4).facts.fit == EXACT
    nested = grammar_constraint('start: "a" start "b" | W\nW[max_tokens=1]: /c/', VOCABULARY)
    nearly = fit(nested, 4, max_steps=0)
    assert nearly.facts.fit == CONSERVATIVE
    assert token_rows(nearly, 5) == [row for row in token_rows(nested, 4) if len(row) <= 4]


def test_a_text_with_too_many_tokens_is_refused_where_it_has_them() -> None:
    limited = grammar_constraint('start: WORD "," WORD\nWORD[max_tokens=2]: /[abc]+/', VOCABULARY)
    good, long, wrong = text_verdicts(limited, [b"abcab,c", b"ab,abcabcabc", b"ab"])
    assert good["valid"] and not long["valid"] and not wrong["valid"]
    assert (long["byte"], long["max_tokens"]) == (9, 2)
    assert long["reason"] == "no way to spell WORD in 2 tokens leads further"
    assert "max_tokens" not in wrong
    refused, allowed = token_verdicts(limited, [[0, 1, 0], [0, 1, 11]])
    assert refused["position"] == 2 and allowed["valid"]


def test_an_artifact_records_its_numbers(tmp_path: Path) -> None:
    source, attribute, _, most = CASES["words"]
    path = tmp_path / "held.arrow"
    compile_grammar(source.format(attribute), VOCABULARY, path)
    opened = open_artifact(path, vocabulary=VOCABULARY)
    again = grammar_constraint(source.format(attribute), VOCABULARY)
    assert token_rows(opened, most) == token_rows(again, most)
    assert [number for _, number in json.loads(opened.facts.metadata["cdec.budgets"])] == [2]


def test_the_lookahead_is_kept() -> None:
    source = 'start: WORD ("," WORD)*\nWORD[max_tokens=1]: /[abc]+/'
    naive = grammar_constraint(source, VOCABULARY).with_lookahead(0)
    session = naive.session()
    mask = {PIECES[token] for token in session.allowed(session.start(1))[1].tolist()}
    assert b"a" in mask and b"a,b" not in mask
    assert_states_agree(session, session.start(1), VOCABULARY)


@pytest.mark.parametrize("start", [1 << 30, -(1 << 30)])
def test_damaged_starts_of_the_scanner_are_none(start: int) -> None:
    whole = grammar_constraint("start: WORD\nWORD[max_tokens=2]: /[abc]+/", VOCABULARY)
    arrays = whole.arrays._replace(context_start=np.full_like(whole.arrays.context_start, start))
    engine = Engine(arrays, general=False, end_ids=())
    engine.add_budgets(np.full(len(arrays.ignored), 2, np.int32), TokenTrie.of(VOCABULARY).arrays())
    assert engine.fewest_of_terminal(0) == -1

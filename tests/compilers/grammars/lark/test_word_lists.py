"""Long lists of literals that Lark is not shown: the same language, at once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from lark import Lark
from lark.exceptions import LarkError

from cdec.compilers import compile_grammar
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.lark import terminals
from cdec.compilers.grammars.lark.outline import read_outline
from cdec.compilers.grammars.lark.source import read_lark
from cdec.core.artifacts.opened import open_artifact
from cdec.core.constraint import DEAD
from cdec.core.grammars.errors import GrammarSyntaxError
from cdec.core.tokens.vocabulary import Vocabulary

VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), b"ab", b"ba", b",a", b""], [259])
LISTS = {
    "alone": 'start: "a" | "ab" | "abb" | "b"\n',
    "a terminal": 'start: X\nX: "a" | "ab" | "abb" | "b"\n',
    "repeated": 'start: ("a" | "ab" | "bb")+\n',
    "separated": 'start: w ("," w)*\nw: "a" | "ba" | "abb"\n',
    "two lists at one place": 'start: x "," | y "b"?\nx: "a" | "abb"\ny: "ab" | "ba" | "bbb"\n',
    "another literal between": 'start: w+ | "ab" ","\nw: "a" | "abb" | "b" "b"?\n',
    "used elsewhere": 'start: w "," "a"\nw: "a" | "ab" | "ba" | "bb"\n',
    "all are keywords": 'start: ("a" | "ab" | "ba") "," | ID\nID: /[ab]+/\n',
    "some are keywords": 'start: ("a" | "ab" | ",b" | ",") ID?\nID: /[ab]+/\n',
    "some are keywords of one": 'start: ("a" | "ab" | "b" | "abb") P | Q ","\nP: /,+/\nQ: /ab*/\n',
    "as wide as a pattern": 'start: ("ab" | "ba" | "b")+ | P ","\nP: /[ab]./\n',
    "priority": 'start: ("a" | "ab" | "b")+ | P ","\nP.2: /ab|b/\n',
    "escapes and cases": 'start: ("a" | "\\x61b" | "b"i | "bb") ","\n',
    "in brackets": 'start: ["a" | "ab" | "b"] "," ["ba" | "bb"]\n',
    "lines": 'start: "a"\n  | "ab"\n  | "b" // one\n  | "bb"\nother: start "x"\n',
    "ignored": 'start: ("a" | "ab" | "b")+\n%ignore ","\n',
    "all tokens kept": '!start: ["a" | "ab" | "b"] ["," | "ba"]\n',
}
TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product("ab,", repeat=n)]


def verdicts(grammar: str, path: Path, lexer: Lexer | None) -> list[tuple[bool, bool]]:
    """Say of each text whether it may begin a member, and whether it is one."""
    compile_grammar(grammar, VOCABULARY, path, lexer=lexer)
    session: Any = open_artifact(path).session("cpu")
    states = session.advance_bytes(session.start(len(TEXTS)), [t.encode() for t in TEXTS])
    return list(zip((states != DEAD).tolist(), session.is_complete(states).tolist(), strict=True))


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_cut_out_has_the_language_of_its_literals(
    name: str, lexer: Lexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = verdicts(LISTS[name], tmp_path / "plain.arrow", lexer)
    if lexer != "dynamic":
        lark = Lark(LISTS[name], parser="lalr", lexer=lexer)

        def parses(text: str) -> bool:
            try:
                lark.parse(text)
            except LarkError:
                return False
            return True

        assert [is_member for _, is_member in plain] == [parses(text) for text in TEXTS]
    monkeypatch.setattr(terminals, "_LEAST", 2)
    assert terminals.find_word_lists(read_outline(LISTS[name]))[1]
    assert verdicts(LISTS[name], tmp_path / "cut.arrow", lexer) == plain


def test_what_follows_a_list_keeps_its_place_in_messages() -> None:
    words = "\n | ".join(f'"w{i}"' for i in range(150))
    with pytest.raises(GrammarSyntaxError, match="line 151"):
        read_lark(f"start: ({words}) other\nother: ]\n")
    grammar = read_lark(f"start: ({words}) OTHER\nOTHER: /x/\n")
    assert [(t.name, t.line, t.column) for t in grammar.terminals] == [
        ("_WORDS_0", 1, 9),
        ("OTHER", 151, 1),
    ]


def test_twenty_thousand_literals_are_one_terminal_however_they_are_written() -> None:
    words = " | ".join(f'"{i:05}"' for i in range(20_000))
    for text in (f"start: X\nX: {words}\n", f"start: {words}\n", f"start: ({words})+\n"):
        grammar = read_lark(text)
        assert len(grammar.terminals) == 1 and len(grammar.rules) <= 3
        assert len(grammar.terminals[0].words) == 20_000

"""Terminals joined from pieces of regular expressions, which Lark only reads as a whole."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import lark
import pytest

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError, LimitError
from tests.compilers.grammars.lark.lark_reference import as_lark_reads, plain
from tests.core.grammars.test_language_lalr import lark_accepts
from tests.core.grammars.walks import accepts
from tests.laws.grammar_cases import compiled, texts_over

PIECES = {
    "a name that is not reserved": (
        'start: (NAME | R) ("," (NAME | R))*\nR: "a" | "ab"\n'
        "NAME: /(?!(/ R /)(,|$))/ WORD\nWORD: /[ab]+/\n"
    ),
    "the issue": 'start: NAME ","?\nR: "a"\nNAME: /(?!/ R /)/ WORD\nWORD: /[ab]+/\n',
    "a bracket over several": 'start: A ","?\nA: /(/ "a" B /){2,3}/ ["b"]\nB: /b|/ ","\n',
    "halves in terminals of their own": (
        'start: A\nA: OPEN ("a" | "b") "b"? CLOSE\nOPEN: "ab" /(?:/\nCLOSE: /)/ "a"\n'
    ),
    "a class in two": "start: A\nA: /[a/ /b]+/ B\nB: /(?=,|$)/ /,?/\n",
    "flags of a piece": 'start: A\nA: /(?!b/i /)/ WORD\nWORD: "a"i | /b/i\n',
    "ignored": 'start: "a" "b"+\n%ignore /(/ "," /)+/\n',
    "halves that no rule uses": 'start: "a" C\nB: /(/\nC: B /b|/ D\nD: "a" /)/\nE: /[/\n',
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_read_as_lark_reads_them(name: str, tmp_path: Path) -> None:
    source = PIECES[name]
    parser: Any = lark.Lark(source, parser="lalr")
    assert plain(read_lark(source)) == as_lark_reads(source)
    session = compiled(source, tmp_path, lexer="contextual").session("cpu")
    texts = list(texts_over("abB,", 5))
    members = [text for text in texts if lark_accepts(parser, text)]
    assert members
    assert members == [text for text in texts if accepts(session, text.encode())]


def _cut(draw: random.Random, pattern: str) -> str:
    """Return a terminal's definition that says a pattern in pieces, some of them names."""
    parts, begin = [], 0
    cuts = sorted(draw.sample(range(1, len(pattern)), min(draw.randint(1, 3), len(pattern) - 1)))
    for end in [*cuts, len(pattern)]:
        piece = pattern[begin:end]
        begin = end
        if piece in ("a", "b", "ab") and draw.random() < 0.7:
            parts.append(draw.choice([f'"{piece}"', f'("{piece}")', "W" if piece == "a" else "V"]))
        else:
            parts.append(f"/{piece}/" if draw.random() < 0.8 else f"(/{piece}/)")
    return " ".join(parts)


ATOMS = ["a", "b", "ab", "[ab]", "(a|b)", "(?:ab)?", "a{1,2}", "(?!ab)", "(?=a)", ",", "(b|,)+"]


@pytest.mark.parametrize("part", range(3))
def test_random_pieces_are_read_as_lark_reads_them(part: int, tmp_path: Path) -> None:
    draw, read, compared = random.Random(part), 0, 0
    for _ in range(60):
        pattern = "".join(draw.choices(ATOMS, k=draw.randint(2, 4)))
        others = draw.choice(["", ' | "b"', " | W V", " | /a,/"])
        source = f'start: A "b"? | W\nA: {_cut(draw, pattern)}{others}\nW: "a"\nV: /b/\n'
        try:
            parser: Any = lark.Lark(source, parser="lalr")
        except Exception:  # what Lark raises is re's error, or that of the regex module
            with pytest.raises(CdecError):
                compiled(source, tmp_path, lexer="contextual")
            continue
        read += 1
        assert plain(read_lark(source)) == as_lark_reads(source), source
        if compared >= 8:
            continue
        try:
            session = compiled(source, tmp_path, lexer="contextual").session("cpu")
        except CdecError as error:
            assert error.code == "E_EMPTY_LANGUAGE", source
            assert not any(lark_accepts(parser, text) for text in texts_over("ab,", 5)), source
            continue
        compared += 1
        for text in texts_over("ab,", 5):
            assert accepts(session, text.encode()) == lark_accepts(parser, text), (text, source)
    assert read >= 20 and compared == 8


@pytest.mark.parametrize(
    ("source", "code", "line", "column"),
    [
        ("start: A\nA: /(/ B\nB: /b/\n", "E_REGEX_SYNTAX", 2, 4),
        ('start: A\nA: "a" B\nB: /b/ /)/\n', "E_REGEX_SYNTAX", 3, 8),
        ('start: A\nA: (/(/ | "bb") "a" /)/\n', "E_REGEX_SYNTAX", 2, 5),
        ("start: /(/ A /)/\nA: /b/\n", "E_REGEX_SYNTAX", 1, 8),
        ('start: A\nA: /(a)/ "b" /\\1/\n', "E_REGEX_UNSUPPORTED", 2, 1),
        ('start: A\nA: /(?P<x>/ "b" /)(?P=x)/\n', "E_REGEX_UNSUPPORTED", 2, 1),
        ('start: A\nA: /a{2/ /,1}/\n', "E_REGEX_SYNTAX", 2, 1),
        ('start: A\nA: /[[:/ /\\p{L}/\n', "E_REGEX_SYNTAX", 2, 4),
    ],
)  # fmt: skip
def test_pieces_that_make_no_pattern_are_named(
    source: str, code: str, line: int, column: int
) -> None:
    with pytest.raises(CdecError) as caught:
        read_lark(source)
    error = caught.value
    assert error.code == code, error.message
    assert (error.details["line"], error.details["column"]) == (line, column), error.message


def test_limits_hold_for_what_pieces_make() -> None:
    with pytest.raises(LimitError) as caught:
        read_lark("start: A\nA: /a{9999/ /99}/\n")
    assert caught.value.details["limit"] == "max_repeat"
    with pytest.raises(LimitError) as caught:
        halves = "/((((/ " * 8 + '"a"' + " /))))/" * 8
        read_lark(f"start: A\nA: {halves}\n", limits=GrammarLimits(max_nesting=20))
    assert caught.value.details["limit"] == "max_nesting"


def test_pieces_may_come_from_an_imported_file(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('NO: /(?!/\nR: "a"\nNAME: NO R /)/ /[ab]+/\n')
    options = GrammarOptions(allow_imports=tmp_path, name="main.lark")
    grammar = read_grammar("%import .a.NAME\nstart: NAME\n", options)
    (terminal,) = grammar.terminals
    assert re.fullmatch(terminal.pattern, "ba") and not re.match(terminal.pattern, "ab")
    assert [t.pattern for t in read_lark(grammar.source).terminals] == [terminal.pattern]

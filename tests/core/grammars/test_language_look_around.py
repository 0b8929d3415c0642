"""Terminals that look at what stands around them: the language is lark's, text by text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lark
import numpy as np
import pytest

from cdec.core.grammars.errors import EmptyLanguageError, EmptyTerminalError, RegexUnsupportedError
from tests.core.grammars.test_language_lalr import lark_accepts
from tests.core.grammars.walks import accepts, mask_of, walk
from tests.laws.grammar_cases import compiled, texts_over

PATTERNS = [
    r"/a+(?!b)/", r"/[ab]+(?=c)/", r"/a\b/", r"/\bb/", r"/[ab]+?(?=cc)/", r"/a(?=b*c)/",
    r"/(?!ab)[abc]+/", r"/(?<=a)b+/", r"/(?<!a)b/", r"/^a/m", r"/c$/m", r"/b\Z/", r"/^b/", r"/a$/",
    r"/[ab](?!b(?!c))/", r"/a(?=b)|ab/", r"/(?:(?!cc)[abc])+/", r"/c(?=\n|b)/", r"/.+?(?=b|$)/",
    r"/a\B/", r"/(?<!ab)c/", r"/(?=a)[ab]+(?!c)/", r'/"(?!"").*?(?<!\\)(\\\\)*?"/',
]  # fmt: skip
PLAIN = ['"a"', '"b"', '"c"', '"ab"', "/[abc]/", "/[ab]+/", "/b+/", r'"\n"', '"bc"', '"aa"i']
IGNORED = ['" "', "/ +/", r"/(?<!a) +/", "/c(?=b)/"]


def random_grammar(draw: random.Random) -> str:
    """Return rules over terminals of which some look around, with blanks to ignore or without."""
    terminals = draw.sample(PATTERNS, draw.randint(1, 2)) + draw.sample(PLAIN, draw.randint(1, 3))
    names = [f"T{number}" for number in range(len(terminals))]
    priority = [draw.choice(["", "", ".1", ".2"]) for _ in terminals]
    lines = [f"{n}{p}: {t}" for n, p, t in zip(names, priority, terminals, strict=True)]
    some = " ".join(draw.choices([*names, "x"], k=draw.randint(1, 3)))
    lines.append(f"start: x {draw.choice(names)} | start {draw.choice([*names, 'x'])}")
    first, last = draw.choice(names), draw.choice(names)
    lines.append(f"x: {first} | {some} {last} | {draw.choice(names)} x")
    if draw.random() < 0.6:
        lines.append(f"%ignore {draw.choice(IGNORED)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("part", range(4))
def test_random_grammars_accept_what_lark_accepts(part: int, tmp_path: Path) -> None:
    draw, compared = random.Random(part), 0
    while compared < 12:
        source, lexer = random_grammar(draw), draw.choice(["contextual", "basic"])
        try:
            parser: Any = lark.Lark(source, parser="lalr", lexer=lexer)
        except (lark.exceptions.LarkError, AssertionError):
            continue
        try:
            constraint = compiled(source, tmp_path, lexer=lexer)
        except (EmptyTerminalError, EmptyLanguageError):
            continue
        compared += 1
        session = constraint.session("cpu")
        for text in texts_over("abc \n", 4):
            expected = lark_accepts(parser, text)
            assert accepts(session, text.encode()) == expected, (text, lexer, source)


CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "a short string is no long one": (
        'start: (S | L | NAME)+\nNAME: /\\w+/\n%ignore " "\n'
        'S: /"(?!"").*?(?<!\\\\)(\\\\\\\\)*?"/\nL: /""".*?(?<!\\\\)(\\\\\\\\)*?"""/s\n',
        ['""', '"" x', '"a" ""', '"""a"""', '"""a""" ""', '"\\""', '"a""b"', '""""""'],
        ['"""', '"""a""', '"" "', '"""" x', '"\\"'],
    ),
    "a keyword ends at a word's end": (
        'start: (IF "!" | NAME "?")+\nIF.2: /if\\b/\nNAME: /[a-z]+/\n%ignore " "\n',
        ["if!", "if !", "iff?", "if!if!", "fi?if!"],
        ["if?", "iff!", "if", "i!"],
    ),
    "a name that is no keyword": (
        'start: (NAME "?" | "if" "!")+\nNAME: /(?!if\\b)[a-z]+/\n%ignore " "\n',
        ["if!", "iff?", "i? if !", "fif?"],
        ["if?", "iff!", "if ?"],
    ),
    "a function is followed by its bracket": (
        'start: (F "(" start? ")" | V)+\nF: /[a-z]+(?=\\()/\nV: /[a-z]+/\n',
        ["f()", "f(x)", "fg(h())", "x", "f()x"],
        ["f(", "(x)", "x()y)", "f (x)"],
    ),
    "text up to a delimiter of two characters": (
        'start: (T | "{{" V "}}")+\nT: /(?s:.+?)(?=\\{\\{|\\Z)/\nV: /[a-z]+/\n',
        ["a", "a{b", "a{{x}}", "{{x}}b", "{{x}}{ {{y}}", "}}"],
        ["{{", "a{{", "{{x}", "a{{x}} {{"],
    ),
    "dollars that open no interpolation": (
        'start: "\\"" (C | "${" N "}")* "\\""\nC: /(?:(?!\\$\\{)[^"])+/\nN: /[a-z]+/\n',
        ['"a"', '"$"', '"a$b"', '"a${x}b"', '"${x}${y}"', '"$$"'],
        ['"${"', '"a${}"', '"', '"${x"'],
    ),
    "a heading begins its line": (
        'start: (H | W | NL)+\nH.2: /^#[a-z]+/m\nW: /[a-z]+#?/\nNL: "\\n"\n',
        ["#a", "a\n#b", "a#", "#a\na#\n#b", "\n\n#a"],
        ["#", "a##b", "#a#b", "a\n#"],
    ),
    "a comment takes whole lines": (
        'start: (A | "#")+\nA: "a"\n%ignore /^#.*$/m\n%ignore "\\n"\n',
        ["a", "#x\na", "a\n#x", "a#", "a\n#\na"],
        ["#x", "a#x", "x"],
    ),
    "the last line needs no end": (
        "start: (LINE)+\nLINE: /[a-z]+$\\n?/m\n",
        ["a", "a\n", "a\nb", "ab\ncd\n"],
        ["\n", "a\n\n", "a b"],
    ),
    "a sign that belongs to a number": (
        'start: N (OP N)*\nN.2: /(?<![0-9])-?[0-9]+/\nOP: /[-+]/\n%ignore " "\n',
        ["1", "-1", "1-1", "1--1", "1 -1 - 2", "1+-2"],
        ["1 -1", "--1", "1-", "1---1"],
    ),
    "the end of the text alone": (
        'start: (A | B)+\nA: /a\\Z/\nB: /b|aa/\n%ignore " "\n',
        ["a", "b a", "aa", "aaa", "b"],
        ["a ", "ab", "a b"],
    ),
}


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", CASES)
def test_texts_inside_and_outside_are_larks(name: str, lexer: str, tmp_path: Path) -> None:
    source, inside, outside = CASES[name]
    parser: Any = lark.Lark(source, parser="lalr", lexer=lexer)
    constraint = compiled(source, tmp_path, lexer=lexer)
    session, rng = constraint.session("cpu"), np.random.default_rng(0)
    verdicts = {text: lark_accepts(parser, text) for text in inside + outside}
    assert {accepts(session, t.encode()) for t in inside} & {True}
    for text, expected in verdicts.items():
        assert accepts(session, text.encode()) == expected, text
        assert accepts(session, text.encode(), constraint.vocabulary, rng) == expected, text
        assert constraint.accepts(text.encode()) in (expected, None)
    assert json.loads(constraint.metadata["cdec.options"])["lexer"] == lexer


@pytest.mark.parametrize("name", CASES)
def test_masks_are_what_steps_allow(name: str, tmp_path: Path) -> None:
    source, inside, _ = CASES[name]
    constraint = compiled(source, tmp_path)
    session, size = constraint.session("cpu"), constraint.vocabulary.size
    for text in inside:
        for end in range(len(text)):
            states = walk(session, list(text[:end].encode()))
            if states[0] >= 0:
                allowed = session.check(states, np.arange(size)[None])[0]
                assert (mask_of(session, states, size) == allowed).all(), (text, end)


@pytest.mark.parametrize(
    ("source", "lexer"),
    [
        ("start: A B\nA: /a(?=b)/\nB: /b/\n", "dynamic"),
        ('start: A B\nA: /a(?<=\\ba)b/\nB: "b"\n', "contextual"),
    ],
)
def test_what_stays_refused_says_what_to_write(source: str, lexer: str, tmp_path: Path) -> None:
    with pytest.raises(RegexUnsupportedError) as caught:
        compiled(source, tmp_path, lexer=lexer)
    assert (caught.value.details["name"], caught.value.details["line"]) == ("A", 2)
    assert caught.value.hint


def test_a_look_ahead_that_the_rules_cannot_fulfil_ends_no_terminal(tmp_path: Path) -> None:
    source = 'start: A "x"\nA: /a(?=y)/ | /b(?=x)/ | "c" "a"?\n'
    session = compiled(source, tmp_path).session("cpu")
    assert [walk(session, text)[0] >= 0 for text in (b"a", b"b", b"bx", b"c", b"ca")] == [
        False,
        True,
        True,
        True,
        True,
    ]

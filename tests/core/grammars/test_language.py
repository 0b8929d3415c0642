"""Languages of compiled grammars by enumeration."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lark
import numpy as np
import pytest

from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError
from cdec.core.grammars.errors import EmptyLanguageError, EmptyTerminalError, RegexUnsupportedError
from tests.compilers.grammars.parser.char_earley import accepts as reference_accepts
from tests.core.grammars.finite_language import accepts, alive_bytes, mask_of, walk
from tests.laws.grammar_cases import AWKWARD, byte_vocabulary, compiled, random_grammar, texts_over
from tests.laws.sizes import heavy_or

# --- The language of ``contextual`` and ``basic`` is that of lark's LALR lexers, text by text.

EMPTY_UNDER_LEXING = ("ambiguous",)
"""Grammars whose first terminal always swallows what the second one needs."""


def lark_accepts(parser: Any, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_grammars_accept_what_lark_accepts(name: str, lexer: str, tmp_path: Path) -> None:
    source, texts = AWKWARD[name]
    parser = lark.Lark(source, parser="lalr", lexer=lexer)
    try:
        constraint = compiled(source, tmp_path, lexer=lexer)
    except EmptyLanguageError:
        assert name in EMPTY_UNDER_LEXING and not any(lark_accepts(parser, t) for t in texts)
        return
    session = constraint.session("cpu")
    rng = np.random.default_rng(0)
    for text in texts + [text[:-1] for text in texts] + [text + "a" for text in texts]:
        expected = lark_accepts(parser, text)
        for _ in range(4):
            assert accepts(session, text.encode(), constraint.vocabulary, rng) == expected, text


CORNERS = {
    "a rule that never ends competes": ('start: "a" "b" | x | "c"\nx: "ab" x\n', "abc", {"c"}),
    "an ignored keyword of another expression": (
        'start: A "b" " "? | "c"\nA: /a| /\n%ignore " "\n',
        "abc ",
        {"c", "c ", "ab", "ab ", " ab", "a b"},
    ),
    "an ignored keyword that a rule names": (
        'start: T | U+ "b"\nU.2: " " | /[^ab ]/\nT: /b*[a b]/\n%ignore " "\n%ignore "b"\n',
        "ab ",
        {" ", "  b", "bb"},
    ),
    "a terminal that nothing uses can be empty": (
        'start: "a"\nx: Z y\ny: x | "q"\nZ: /z*/\n',
        "az",
        {"a"},
    ),
}


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_of_larks_lexer_are_kept(name: str, lexer: str, tmp_path: Path) -> None:
    source, letters, _ = CORNERS[name]
    try:
        parser = lark.Lark(source, parser="lalr", lexer=lexer)
    except lark.exceptions.LexError:
        with pytest.raises(CdecError):
            compiled(source, tmp_path, lexer=lexer)
        return
    session = compiled(source, tmp_path, lexer=lexer).session("cpu")
    members = {text for text in texts_over(letters, 4) if lark_accepts(parser, text)}
    assert members
    assert members == {t for t in texts_over(letters, 4) if accepts(session, t.encode())}
    for text in members:
        for end in range(len(text) + 1):
            assert alive_bytes(session, text[:end].encode()), (text, end)


def test_shifts_towards_rules_that_never_end_are_not_allowed(tmp_path: Path) -> None:
    source = 'start: "a" "q" | x | "c"\nx: y x\ny: "ab" | "d"\n'
    constraint = compiled(source, tmp_path, lexer="contextual")
    session = constraint.session("cpu")
    assert constraint.facts.is_sound
    assert alive_bytes(session, b"c") and not alive_bytes(session, b"d")


@pytest.mark.slow
@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("part", range(4))
def test_random_grammars_accept_what_lark_accepts(part: int, lexer: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([part, len(lexer)])
    compared = 0
    for _ in range(60):
        source = random_grammar(rng, nullable=True)
        try:
            parser = lark.Lark(source, parser="lalr", lexer=lexer)
        except (lark.exceptions.LarkError, AssertionError):
            continue
        try:
            constraint = compiled(source, tmp_path, lexer=lexer)
        except CdecError as error:
            assert error.code == "E_EMPTY_LANGUAGE", (error.code, error.message, source)
            assert not any(lark_accepts(parser, text) for text in texts_over("abc", 6)), source
            continue
        compared += 1
        assert_same_language(constraint, parser, source)
    assert compared >= 5


def assert_same_language(constraint: Any, parser: Any, source: str) -> None:
    session = constraint.session("cpu")
    members = set()
    for text in texts_over("abc", 5):
        expected = lark_accepts(parser, text)
        assert accepts(session, text.encode()) == expected, (text, source)
        if expected:
            members.add(text)
    for text in members:
        for end in range(len(text) + 1):
            assert alive_bytes(session, text[:end].encode()), (text, end, source)


def test_vocabulary_of_the_tests_has_every_byte() -> None:
    tokens = byte_vocabulary().token_bytes
    assert all(tokens[byte] == bytes([byte]) for byte in range(256))


# --- The language of ``dynamic`` is the character-level language of the rules: every
# segmentation.


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_grammars_accept_every_segmentation(name: str, tmp_path: Path) -> None:
    source, texts = AWKWARD[name]
    grammar = read_grammar(source, GrammarOptions(lexer="dynamic"))
    constraint = compiled(source, tmp_path, lexer="dynamic")
    session = constraint.session("cpu")
    rng = np.random.default_rng(1)
    complete = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    for text in texts + [text[:-1] for text in texts] + [text + "a" for text in texts]:
        expected = reference_accepts(grammar, text)
        for _ in range(4):
            assert accepts(session, text.encode(), constraint.vocabulary, rng) == expected, text
        try:
            complete.parse(text)
        except lark.exceptions.LarkError:
            continue
        assert expected, f"lark's dynamic_complete accepts {text!r}"


READ_BOTH_WAYS = {
    "one": ('start: T0 "a" | "c" T0* T1?\nT0: /b(c|a)/\nT1: /a+/\n%ignore "c"\n', "abc", 5),
    "between": ('start: WORD (COMMENT WORD)*\nWORD: "a"\nCOMMENT: "#"\n%ignore COMMENT\n', "a#", 6),
    "only": ('start: S S?\nS: /b+/\nR: "a"\n%ignore S\n%ignore R\n', "ab", 5),
    "empty": ('start: "a" S\nS: /c*/\n%ignore S\n', "ac", 5),
}


@pytest.mark.parametrize("name", READ_BOTH_WAYS)
def test_an_ignored_terminal_of_a_rule_is_read_and_dropped(name: str, tmp_path: Path) -> None:
    source, letters, longest = READ_BOTH_WAYS[name]
    grammar = read_grammar(source, GrammarOptions(lexer="dynamic"))
    constraint = compiled(source, tmp_path, lexer="dynamic")
    session = constraint.session("cpu")
    verdicts = set()
    for text in texts_over(letters, longest):
        expected = reference_accepts(grammar, text)
        verdicts.add(expected)
        assert accepts(session, text.encode()) == constraint.accepts(text.encode()) == expected, (
            text
        )
    assert verdicts == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_grammars_accept_every_segmentation(part: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([part, 9])
    compared = 0
    for _ in range(30):
        source = random_grammar(rng, nullable=True)
        try:
            grammar = read_grammar(source, GrammarOptions(lexer="dynamic"))
            constraint = compiled(source, tmp_path, lexer="dynamic")
        except CdecError as error:
            assert error.code in ("E_EMPTY_LANGUAGE", "E_GRAMMAR_EMPTY_TERMINAL"), error.message
            continue
        compared += 1
        session = constraint.session("cpu")
        assert constraint.facts.is_sound
        expected = {text for text in texts_over("abc", 4) if reference_accepts(grammar, text)}
        for text in texts_over("abc", 4):
            assert accepts(session, text.encode()) == (text in expected), (text, source)
        for text in expected:
            for end in range(len(text) + 1):
                assert alive_bytes(session, text[:end].encode()), (text, end, source)
    assert compared >= 5


# --- Terminals that look at what stands around them: the language is lark's, text by text.

PATTERNS = [
    r"/a+(?!b)/", r"/[ab]+(?=c)/", r"/a\b/", r"/\bb/", r"/[ab]+?(?=cc)/", r"/a(?=b*c)/",
    r"/(?!ab)[abc]+/", r"/(?<=a)b+/", r"/(?<!a)b/", r"/^a/m", r"/c$/m", r"/b\Z/", r"/^b/", r"/a$/",
    r"/[ab](?!b(?!c))/", r"/a(?=b)|ab/", r"/(?:(?!cc)[abc])+/", r"/c(?=\n|b)/", r"/.+?(?=b|$)/",
    r"/a\B/", r"/(?<!ab)c/", r"/(?=a)[ab]+(?!c)/", r'/"(?!"").*?(?<!\\)(\\\\)*?"/',
]  # fmt: skip
PLAIN = ['"a"', '"b"', '"c"', '"ab"', "/[abc]/", "/[ab]+/", "/b+/", r'"\n"', '"bc"', '"aa"i']
IGNORED = ['" "', "/ +/", r"/(?<!a) +/", "/c(?=b)/"]


def random_look_around(draw: random.Random) -> str:
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


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_look_around_accepts_what_lark_accepts(part: int, tmp_path: Path) -> None:
    draw, compared = random.Random(part), 0
    while compared < 12:
        source, lexer = random_look_around(draw), draw.choice(["contextual", "basic"])
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
@pytest.mark.share(8)
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


# --- Lazy quantifiers under ``dynamic`` mean what lark's ``dynamic_complete`` makes of them.

LAZY = {
    "an ignored comment": (
        'start: "a"+\nC_COMMENT: "/*" /(.|\\n)*?/ "*/"\n%ignore C_COMMENT\n',
        "a/*!",
        6,
        ["/**/ !!! /**/a", "/**/a", "/* a */a/*!*/"],
    ),
    "an escaped string": (
        '%import common.ESCAPED_STRING\nstart: "[" ESCAPED_STRING ("," ESCAPED_STRING)* "]"\n',
        '["\\,',
        heavy_or(6, 7),
        ['["a": !! "b"]', '["a","b"]', '["a\\"b"]', '["a\\\\"]', '["a\\\\"b"]'],
    ),
    "shortest of all": ("start: A B?\nA: /a+?/\nB: /ab*?/\n", "ab", 4, []),
    "in the middle": ('start: A B*\nA: /a.*?b+/\nB: "b" | "c"\n', "abc", 5, []),
    "alternatives beside it": ("start: A+\nA: /a|ab|c??b/\n", "abc", 5, []),
    "the empty text too": ('start: A "c" A\nA: /(a*?|b)c?/\n', "abc", 4, None),
}
"""Grammar, letters and length of the texts that are compared, and some more texts."""


@pytest.mark.parametrize("name", LAZY)
@pytest.mark.share(1)
def test_the_language_is_that_of_dynamic_complete(name: str, tmp_path: Path) -> None:
    source, letters, longest, more = LAZY[name]
    constraint = compiled(source, tmp_path, lexer="dynamic")
    session, rng = constraint.session("cpu"), np.random.default_rng(0)
    complete = None
    if more is not None:  # lark itself has no terminal that matches the empty text
        complete = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    members = set()
    for text in [*texts_over(letters, longest), *(more or ())]:
        found = accepts(session, text.encode(), constraint.vocabulary, rng)
        if complete is not None:
            assert found == _reads(complete, text), text
        if found or len(text) < 4 or text in (more or ()):
            assert constraint.accepts(text.encode()) is found, text
        if found:
            members.add(text)
    assert members
    for text in members:
        assert all(alive_bytes(session, text[:end].encode()) for end in range(len(text)))


def _reads(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def test_a_lazy_terminal_of_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmptyTerminalError, match="A matches nothing but the empty text"):
        compiled('start: "x" A\nA: /a*?/\n', tmp_path, lexer="dynamic")

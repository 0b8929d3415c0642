"""Constructs met in public Lark grammars, each at its smallest: the verdicts are lark's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lark
import numpy as np
import pytest

from cdec.core.errors import CdecError
from tests.core.grammars.finite_language import accepts
from tests.core.grammars.test_language import lark_accepts
from tests.laws.grammar_cases import compiled

CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "strings of the common grammar": (
        '%import common.ESCAPED_STRING\nstart: "[" [ESCAPED_STRING ("," ESCAPED_STRING)*] "]"\n',
        ["[]", '["a"]', '["a","\\""]', '["\\\\",""]'],
        ["[", '["a]', '["\\"]', '["a""b"]', '["a\n"]'],
    ),
    "strings of the python grammar": (
        "%import python (STRING, LONG_STRING, NAME)\n"
        'start: (STRING | LONG_STRING | NAME)+\n%ignore " "\n',
        ["''", '"a"', "rb'\\''", '"""a"b"""', "'' ''", "f''", "'''\n'''", "u", "F'x' g"],
        ["'", "'''", "'a\n'", "''''", 'r"""', '""" """"'],
    ),
    "numbers under other names": (
        "%import common.SIGNED_NUMBER -> N\n%import common.WS\nstart: N+\n%ignore WS\n",
        ["1", "-1.5e3", "1 +2", "1+2", ".5\n5."],
        ["", "-", "1e", "+-1", "1,2"],
    ),
    "names and comments to ignore": (
        "%import common (CNAME, NEWLINE, SH_COMMENT)\nstart: (CNAME NEWLINE)+\n"
        '%ignore SH_COMMENT\n%ignore " "\n',
        ["a\n", "a #b\nc\n", "a1 \r\n", "_\n\n"],
        ["a", "#a\n", "1\n", "a b\n"],
    ),
    "comments of C": (
        '%import common.C_COMMENT\nstart: ("a" | "/" | "*")+\n%ignore C_COMMENT\n',
        ["a", "/**/a", "a/* * */", "a*/", "/*/*/a"],
        ["/**/", "b", ""],
    ),
    "a template of lists": (
        '_list{x, sep}: x (sep x)*\nstart: "(" _list{NUMBER, ","} ")"\nNUMBER: /[0-9]+/\n',
        ["(1)", "(1,22,3)"],
        ["()", "(1,)", "(,1)", "(1 2)"],
    ),
    "templates within templates": (
        '_pair{a, b}: a b\n_both{x}: _pair{x, x} | _pair{x, _pair{x, x}}\nstart: _both{"a"} "."\n',
        ["aa.", "aaa."],
        ["a.", "aaaa.", "aa"],
    ),
    "a keyword by priority": (
        'start: IF NAME | NAME "=" NAME\nIF.2: "if"\nNAME: /[a-z]+/\n%ignore " "\n',
        ["if a", "ifa", "a=b"],
        ["if=a", "a=if", "if if", "a="],
    ),
    "a keyword in either case": (
        'start: "select"i NAME ("from"i NAME)?\nNAME: /[a-z]+/i\n%ignore " "\n',
        ["select a", "SELECT a From b", "Select x"],
        ["select", "select from", "selecta", "select a from"],
    ),
    "rules by priority": (
        'start: (a | b)+ "."\na.2: "x" "y"\nb: "x" | "y"\n',
        ["xy.", "x.", "yx.", "xyx."],
        ["", ".", "z.", "xy"],
    ),
    "a terminal is extended": (
        '%import common.WORD\n%extend WORD: "_"\nstart: WORD "." WORD\n',
        ["a._", "_.b", "ab.c"],
        ["__.a", "a_.b", "a"],
    ),
    "a terminal is overridden": (
        '%import common.NUMBER\n%override NUMBER: /[0-9]/\nstart: NUMBER "," NUMBER\n',
        ["1,2"],
        ["12,3", "1.5,2", "1"],
    ),
    "terminals of terminals": (
        'start: HEX ";"\nHEX: "#" _DIGIT~2..3\n_DIGIT: "0".."9" | "a".."f"\n',
        ["#0a;", "#0af;"],
        ["#0;", "#0afe;", "#0A;", "#0a"],
    ),
    "counts and options of rules": (
        'start: item~2 ["!"] tail?\nitem: "a" | "b" -> other\n!tail: "." "."\n',
        ["ab", "aa!", "bb..", "ba!.."],
        ["a", "aaa", "ab.", "ab..!"],
    ),
    "flags of expressions": (
        "start: A B\nA: /a.b/s\nB: /x\n  y # a comment\n/ix\n",
        ["a\nbxy", "a.bXY", "acbxY"],
        ["abxy", "acbx y", "acbx"],
    ),
    "escapes and characters beyond ASCII": (
        'start: (A | "\\u00e9" | "\\t")+\nA: /[\\u4e00-\\u9fff]+|\\d{2}/\n',
        ["é", "中文", "12", "é\t中"],
        ["e", "1", "", "中a"],
    ),
    "precedence by rules": (
        '?start: sum\n?sum: product | sum "+" product\n?product: atom | product "*" atom\n'
        '?atom: /[0-9]+/ | "-" atom | "(" sum ")"\n%ignore " "\n',
        ["1", "1+2*3", "-(1 + 2)", "--1"],
        ["1+", "(1", "1 2", "*1"],
    ),
    "indentation by tokens of its own": (
        'start: line+\nline: NAME ":" "{" line+ "}" | NAME ";"\nNAME: /[a-z]+/\n'
        "%ignore /[ \\n]+/\n",
        ["a;", "a:{b;}", "a: {\n b;\n c: { d; }\n}"],
        ["a:{}", "a", "a:{b;"],
    ),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", CASES)
def test_texts_inside_and_outside_are_larks(name: str, tmp_path: Path) -> None:
    source, inside, outside = CASES[name]
    parser: Any = lark.Lark(source, parser="lalr", maybe_placeholders=False)
    constraint = compiled(source, tmp_path, lexer="contextual")
    session, rng = constraint.session("cpu"), np.random.default_rng(0)
    verdicts = {text: lark_accepts(parser, text) for text in inside + outside}
    assert any(verdicts.values()) and not all(verdicts.values())
    for text, expected in verdicts.items():
        assert accepts(session, text.encode()) == expected, text
        assert accepts(session, text.encode(), constraint.vocabulary, rng) == expected, text


REFUSED = {
    "a declared terminal": (
        'start: "a" _INDENT "b" _DEDENT\n%declare _INDENT _DEDENT\n',
        "E_GRAMMAR_UNSUPPORTED",
        "`indenter` python",
    ),
    "a heredoc": (r"start: /<<(\w+)\n(.|\n)*?\n\1/" + "\n", "E_REGEX_UNSUPPORTED", "without it"),
    "an atomic group": ("start: /(?>a+)b/\n", "E_REGEX_UNSUPPORTED", "without it"),
    "a count in braces": ('start: "a"{2}\n', "E_GRAMMAR_SYNTAX", "~2"),
    "a range of counts": ('start: "a"{2,4}\n', "E_GRAMMAR_SYNTAX", "~2..4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_hints_what_to_write(name: str, tmp_path: Path) -> None:
    source, code, hint = REFUSED[name]
    with pytest.raises(CdecError) as caught:
        compiled(source, tmp_path)
    assert caught.value.code == code
    assert hint in (caught.value.hint or ""), caught.value.hint

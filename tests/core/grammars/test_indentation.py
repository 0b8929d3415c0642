"""Grammars with an indenter: the verdicts are lark's own, with its Indenter behind the lexer."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lark import Lark
from lark.exceptions import LarkError
from lark.indenter import PythonIndenter

from cdec.compilers.grammars.compile import grammar_constraint
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.constraint import text_verdicts
from cdec.core.errors import CdecError, UsageError
from cdec.core.grammars.errors import GrammarUndefinedError, GrammarUnsupportedError
from cdec.core.grammars.indenter import Indenter
from cdec.core.grammars.validity import parser_of, stored_language
from tests.core.grammars.finite_language import accepts
from tests.laws.grammar_cases import byte_vocabulary, compiled
from tests.laws.sessions import assert_states_agree, random_prefixes, states_after

LINES = r"_NEWLINE: /(\r?\n[\t ]*)+/" + "\n%declare _INDENT _DEDENT\n"
SMALL = (
    'start: (_NEWLINE | stmt)*\nstmt: call _NEWLINE | "if" call ":" suite\n'
    "suite: call _NEWLINE | _NEWLINE _INDENT stmt+ _DEDENT\n"
    'call: NAME | "(" call* ")" | "[" call "]"\nNAME: /x+/\n%ignore " "\n' + LINES
)
COMMENTS = (
    SMALL.replace(r"/(\r?\n[\t ]*)+/", r"(/\r?\n[\t ]*/ | /#[^\n]*/)+") + "%ignore /#[^\\n]*/\n"
)
TREE = (
    "start: tree\ntree: NAME _NL [_INDENT tree+ _DEDENT]\nNAME: /[a-z]+/\n"
    "_NL: /(\\r?\\n[\\t ]*)+/\n%declare _INDENT _DEDENT\n"
)
OWN = "NL_type=_NL,OPEN_PAREN_types=,CLOSE_PAREN_types="
TOKENS = [
    *("\n ", "\n  ", "  ", ":\n", "x\n", "x\n ", ":\n  x", "\n\n", "\nx", " x", ")\n", "\n)"),
    *("if x:\n", "\n x", "x\n x\n", "    ", "\n    ", "\t", "\n\t", "x:", "((", "))", "]\n\n  x"),
]

CASES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "nothing": (SMALL, "python", ["", "\n", "\n  \n", " "], ["\n  x\n"]),
    "a line": (SMALL, "python", ["x\n", "\nx\n", "x\n\n\n"], ["x", "x x\n", "xx\n x\n"]),
    "a block": (SMALL, "python", ["if x:\n x\n", "if x:\n   x\n"], ["if x:\nx\n", "if x:\n"]),
    "a block on its line": (SMALL, "python", ["if x: x\n"], ["if x: x\n x\n", "if x: x"]),
    "blocks in blocks": (
        *(SMALL, "python"),
        ["if x:\n if x:\n  x\n", "if x:\n if x:\n  x\n x\n", "if x:\n if x:\n  x\nx\n"],
        ["if x:\n if x:\n x\n", "if x:\n if x:\nx\n"],
    ),
    "dedents to no block": (
        *(SMALL, "python"),
        ["if x:\n   x\n   x\nx\n"],
        ["if x:\n   x\n  x\n", "if x:\n   x\n x\n", "if x:\n if x:\n   x\n  x\n"],
    ),
    "an indent where no block begins": (SMALL, "python", ["x\nx\n"], ["x\n x\n", " x\n\n x\n"]),
    "the end closes blocks": (
        *(SMALL, "python"),
        ["if x:\n if x:\n  x\n  ", "if x:\n x\n\n"],
        ["if x:\n x", "if x:\n  x\n "],
    ),
    "blank lines": (
        *(SMALL, "python"),
        ["if x:\n\n     \n x\n   \n\n x\n", "if x:\n \n x\n"],
        ["if x:\n x\n   \n  x\n"],
    ),
    "brackets over lines": (
        *(SMALL, "python"),
        ["(x\nx)\n", "if (\n   x\n  ):\n x\n", "[(\n\n)]\n", "(\n)\n"],
        ["(x\n", "x\n)\n", "[\n)\n"],
    ),
    "brackets within blocks": (
        *(SMALL, "python"),
        ["if x:\n (\nx\n    )\n x\n", "if x:\n  [\n x]\nx\n"],
        ["if x:\n (\n x)\n  x\n", "if x:\n(\n x)\n"],
    ),
    "brackets that close nothing": (SMALL, "python", ["()\n"], [")\n", "())\n", "(()\n"]),
    "tabs are eight": (
        *(SMALL, "python"),
        ["if x:\n\tx\n        x\n", "if x:\n \tx\n\t x\n"],
        ["if x:\n\tx\n x\n", "if x:\n\tx\n    x\n"],
    ),
    "tabs are four": (
        *(SMALL, "tab_len=4"),
        ["if x:\n\tx\n    x\n"],
        ["if x:\n\tx\n        x\n"],
    ),
    "carriage returns": (SMALL, "python", ["if x:\r\n x\r\n x\r\n"], ["if x:\r x\n", "x\r"]),
    "comments": (
        *(COMMENTS, "python"),
        ["# x\nx\n", "if x: # x\n x\n", "if x:\n# x\n x\n", "if x:\n  # x\n x # x\n x\n"],
        ["if x: # x", "# x", "#\n x\n"],
    ),
    "a comment at the end has columns": (
        *(COMMENTS, "python"),
        ["if x:\n  x\n # ", "if x:\n  x\n#"],
        ["if x:\n  x\n #", "if x:\n  x\n  # "],
    ),
    "other names": (TREE, OWN, ["a\n", "a\n b\n c\n  d\n"], ["a\nb\n", "a\n  b\n c\n", "a"]),
    "brackets that are none": (
        TREE.replace("[a-z]", "[a-z(]"),
        OWN,
        ["(\n  (\n"],
        ["(\n (\n  "],
    ),
    "brackets of other names": (
        TREE.replace("tree: NAME", 'tree: (NAME | OPEN NAME "]")') + 'OPEN: "["\n',
        "NL_type=_NL,OPEN_PAREN_types=OPEN,CLOSE_PAREN_types=RSQB",
        ["[a]\n", "[\n  a\n]\n b\n"],
        ["[a\n", "a]\n"],
    ),
    "the start is in no column": (SMALL, "python", ["  x\n", "  \nx\n"], ["\n  x\n", "  x\n  x\n"]),
    "a line break that may be once": (
        SMALL.replace(r"/(\r?\n[\t ]*)+/", r"/\n */"),
        "python",
        ["if x:\n  x\n  x\n", "\n\n"],
        ["if x:\n\n  x\n", "if x:\n  x\n\n  x\n", "x\n  \n"],
    ),
    "blocks and dedents apart": (
        'start: (NAME _NEWLINE | "+" _INDENT | "-" _DEDENT)*\nNAME: "x"\n' + LINES,
        "python",
        ["x\n", "x\nx\n"],
        ["x\n x\n", "+", "-", "x\n+x\n"],
    ),
    "a dedent far from its indent": (
        "start: (NAME | _NEWLINE | open | close)*\nopen: _INDENT\nclose: _DEDENT\nNAME: /x/\n"
        + LINES,
        "python",
        ["x\n  x\nx\n x", "\n \n", "x\n  x\n   x"],
        ["xy", "x\n  x\n x"],
    ),
    "no rule names a dedent": (
        "start: NAME (_NEWLINE NAME)* (_NEWLINE _INDENT NAME)?\nNAME: /x/\n" + LINES,
        "python",
        ["x\nx"],
        ["x\n x", "x\n"],
    ),
    "terminals that look around": (
        SMALL.replace("NAME: /x+/", "NAME: STRING | /0(?![1-9])|[1-9][0-9]*/")
        + "%import python.STRING\n",
        "python",
        ['("a"\n""\n"b")\n', '(""\n"a")\n', 'if 0:\n ""\n "b"\n', "(0\n0)\n", "[0\n \n]\n"],
        ['(""\n"a\n")\n', "01\n", "(01)\n", 'if "":\n""\n', '""""\n'],
    ),
    "the most columns": (
        *(SMALL, "columns=3"),
        ["if x:\n   x\n", "(\n       x)\n", "if x:\n     \n   x\n"],
        ["if x:\n    x\n"],
    ),
}


@cache
def constraint_of(source: str, indenter: str, lexer: Any = "contextual") -> Any:
    return grammar_constraint(
        source, byte_vocabulary(TOKENS), lexer=lexer, indenter=indenter, max_whitespace=None
    )


def judge(constraint: Any) -> Any:
    """Return lark's verdict on a text."""
    parse = parser_of(*stored_language(constraint.metadata).parts)
    assert parse is not None
    return lambda text: parse(text, time.process_time() + 60)


@pytest.mark.share(40)
@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", CASES)
def test_texts_are_in_the_language_as_lark_says(name: str, lexer: str) -> None:
    source, indenter, inside, outside = CASES[name]
    constraint = constraint_of(source, indenter, lexer)
    says = judge(constraint)
    assert [text for text in inside if not says(text)] == []
    assert [text for text in outside if says(text)] == []
    session = constraint.session()
    assert [text for text in inside if not accepts(session, text.encode())] == []
    assert [text for text in outside if accepts(session, text.encode())] == []


@pytest.mark.parametrize(
    "name", ["a line", "comments", "a line break that may be once", "terminals that look around"]
)
def test_masks_are_those_of_stepping(name: str) -> None:
    constraint = constraint_of(*CASES[name][:2])
    session, rng = constraint.session(), np.random.default_rng(7)
    prefixes = sorted(random_prefixes(session, rng, 16, 12))
    assert_states_agree(session, states_after(session, prefixes), constraint.vocabulary)


def test_masks_are_the_same_where_little_is_remembered() -> None:
    whole = constraint_of(SMALL, "python")
    small = type(whole)(whole.arrays, whole.vocabulary, whole.metadata, memo_bytes=1 << 14)
    texts = ["if x:\n  if x:\n    (x\n", "if x:\n  x\n", "x\n", "if x:\n\tif x:\n\t x\n\t "]
    for text in texts:
        for session in (whole.session(), small.session()):
            states = states_after(session, [list(text.encode())])
            assert_states_agree(session, states, whole.vocabulary)


def program(rng: np.random.Generator, depth: int, margin: str) -> str:
    """Return random lines of a block, now and then with what may be wrong."""
    lines = []
    for _ in range(int(rng.integers(1, 4))):
        own = margin if rng.random() < 0.95 else margin[int(rng.integers(0, 2)) :] + " "
        if depth and rng.random() < 0.4:
            block = str(rng.choice([" ", "  ", "\t", ""], p=[0.4, 0.3, 0.25, 0.05]))
            lines.append(f"{own}if {called(rng)}:\n{program(rng, depth - 1, margin + block)}")
        else:
            lines.append(own + called(rng) + str(rng.choice(["\n", "\n\n", "\n   \n", " \n"])))
    return "".join(lines)


def called(rng: np.random.Generator) -> str:
    return str(
        rng.choice(["x", "(x)", "[x]", "(x\n x)", "(\n)", "[(\n  x)]", "(x"], p=[0.4] + [0.1] * 6)
    )


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
def test_random_programs_are_in_the_language_where_lark_says_so(lexer: str) -> None:
    constraint, rng = constraint_of(SMALL, "python", lexer), np.random.default_rng(11)
    says, session, verdicts = judge(constraint), constraint.session(), []
    for _ in range(300):
        text = program(rng, 3, "")
        text = text if rng.random() < 0.8 else text.rstrip("\n")
        verdicts.append(says(text))
        found = accepts(session, text.encode(), constraint.vocabulary, rng)
        assert found == verdicts[-1], text
    assert 60 < sum(verdicts) < 240


def test_drawn_texts_are_members_as_lark_says() -> None:
    constraint, rng = constraint_of(SMALL, "python"), np.random.default_rng(3)
    session, drawn = constraint.session(), 0
    ends = constraint.vocabulary.eos_token_ids
    for _ in range(60):
        state, text = session.start(1), b""
        for step in range(60):
            ids = session.allowed(state)[1]
            assert len(ids), text
            last = [token for token in ids.tolist() if token in ends]
            if last and step > 20:
                assert constraint.accepts(text), text
                drawn += 1
                break
            token = int(rng.choice([token for token in ids.tolist() if token not in ends]))
            text += constraint.vocabulary.token_bytes[token]
            state = session.advance(state, np.array([token]))
    assert drawn > 20


def test_the_indenter_is_that_of_lark() -> None:
    ours, theirs = Indenter().postlex(), PythonIndenter()
    for name in ("NL_type", "INDENT_type", "DEDENT_type", "tab_len"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("OPEN_PAREN_types", "CLOSE_PAREN_types"):
        assert list(getattr(ours, name)) == getattr(theirs, name)
    parsers = [
        Lark(SMALL, parser="lalr", postlex=post) for post in (Indenter(columns=2).postlex(), theirs)
    ]
    for parser, wide in zip(parsers, (False, True), strict=True):
        parser.parse("if x:\n  x\n")
        if wide:
            parser.parse("if x:\n   x\n")
        else:
            with pytest.raises(LarkError, match="more than 2 columns"):
                parser.parse("if x:\n   x\n")


def test_states_are_described_without_the_blocks_above_them() -> None:
    constraint = constraint_of(SMALL, "python")
    text = b"if x:\n  x\n (x\n"
    verdict = next(iter(text_verdicts(constraint, [text])))
    assert not verdict["valid"] and verdict["byte"] == text.index(b"(")
    assert "_INDENT" in verdict["stack"] and "_NEWLINE" in verdict["terminals"]


@pytest.mark.parametrize(
    ("source", "options", "error", "said"),
    [
        (SMALL, {"lexer": "dynamic"}, UsageError, "lexer"),
        (SMALL, {"format": "gbnf"}, UsageError, "format"),
        (SMALL, {"indenter": "pyhton"}, UsageError, "pyhton"),
        (SMALL, {"indenter": "tab_len=x"}, UsageError, "tab_len=x"),
        (SMALL, {"indenter": "columns=5000"}, UsageError, "columns"),
        (SMALL, {"indenter": "NL_type=_NL"}, GrammarUndefinedError, "_NL"),
        (SMALL + "%ignore _NEWLINE\n", {}, GrammarUndefinedError, "ignores"),
        (SMALL + "%declare _OTHER\n", {}, GrammarUnsupportedError, "_OTHER"),
        (SMALL, {"indenter": None}, GrammarUnsupportedError, "_INDENT"),
        (SMALL.replace("/x+/", "/^x+/m"), {}, GrammarUnsupportedError, "_NEWLINE"),
    ],
)
def test_what_an_indenter_cannot_read_is_refused(
    source: str, options: dict[str, Any], error: type[CdecError], said: str
) -> None:
    given = {"indenter": "python"} | options
    with pytest.raises(error, match=said):
        grammar_constraint(source, byte_vocabulary(), **given)


def test_an_artifact_records_its_indenter(tmp_path: Path) -> None:
    constraint = compiled(SMALL, tmp_path, indenter="columns=6")
    assert not constraint.facts.is_sound and "block" in constraint.metadata["cdec.sound_reason"]
    assert json.loads(constraint.metadata["cdec.options"])["indenter"] == "columns=6"
    assert not accepts(constraint.session(), b"if x:\n       x\n")
    assert not constraint.accepts(b"if x:\n       x\n")
    options = GrammarOptions(indenter="columns=6")
    assert GrammarOptions.from_json(options.to_json()) == options

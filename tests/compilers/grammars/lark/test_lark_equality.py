"""A grammar read here is the grammar that Lark reads: terminals, their order, rules, ignored."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from lark import Lark
from lark.exceptions import LarkError

from cdec.compilers.grammars.lark import expansion
from cdec.compilers.grammars.lark.source import read_lark
from cdec.core.errors import CdecError, LimitError
from tests.compilers.grammars.lark.lark_reference import (
    RandomGrammars,
    as_lark_reads,
    plain,
    plain_of_lark,
)

GRAMMARS = {
    "keywords": 'start: "if" ID "then" ID\nID: /[a-z]+/\n%ignore / +/\n',
    "priorities": "start: A B | b\nb.3: A B\nA.2: /a+/\nB.-1: /a/\n",
    "flags": 'start: "select"i ID /x+/is "Ab"i\nID: /[a-z]/i\n',
    "templates": '_sep{x, s}: x (s x)*\nstart: _sep{NUM, ","} _sep{NUM, ";"}\nNUM: /[0-9]+/\n',
    "template of a template": 'twice{f, x}: f{x} f{x}\nopt{x}: x?\nstart: twice{opt, "a"}\n',
    "placeholders": '!start: ["a"] b ["c"]\nb: "d" ["e" "f"]\n',
    "inlined and expanded": 'start: _x y\n_x: "a" | "b"\n?y: "c" -> z | "d"\n',
    "large counts": 'start: "a"~3..7 b~60 "c"~2..140\nb: "d" | "e"\n',
    "shared repetitions": 'start: "a"* b | ("a")* | "a"+\nb: "a"+ "c"\n',
    "terminals of terminals": 'start: A B\nA: (B | "xy" | "xyz")+ "q"~2..3\nB: "b" /c/i ["d"]\n',
    "ranges": 'start: A\nA: "0".."9" | "a".."f"\n',
    "names of literals": 'start: "+" "++" "\\n" "é" "a_1" "A" A\nA: "zz"\n',
    "a rule in a circle": 'start: "a"\nx: y\ny: x "b"\n',
    "unused": 'start: "a"\nx: y "b"\ny: z\nz: "c" C\nC: "d"\n',
    "escapes": 'start: "\\"" "\\\\" "\\t" "\\u00e9" /\\// /\\"/ /\'/ "\'"\n',
    "extend": 'start: a\na: "x"\n%extend a: "y" "z"\n%override a: "q"\n%extend a: "r"\n',
    "ignored terminals": 'start: "a"\nWS: " "\n%ignore WS\n%ignore /#[^\\n]*/ | "//"\n%ignore WS\n',
    "imports": "start: INT x\nx: CNAME\n%import common (INT, CNAME, WS)\n%ignore WS\n",
    "renamed import": "start: N\n%import common.SIGNED_NUMBER -> N\n",
    "override": 'start: INT\n%import common.INT\n%override INT: "0" | /[1-9]/\n',
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_small_grammars_read_as_lark_reads_them(name: str) -> None:
    assert plain(read_lark(GRAMMARS[name])) == as_lark_reads(GRAMMARS[name])


@pytest.mark.parametrize("name", GRAMMARS)
def test_terminals_compete_in_the_order_of_the_lexer_lark_builds(name: str) -> None:
    try:
        lark = Lark(GRAMMARS[name], parser="lalr", lexer="basic")
    except LarkError:
        pytest.skip("not LALR(1)")
    lexer: Any = lark.parser.lexer
    lexer.scanner  # noqa: B018  built lazily
    grammar = read_lark(GRAMMARS[name])
    assert [t.name for t in grammar.terminals] == [t.name for t in lexer.terminals]
    assert plain(grammar) == plain_of_lark(lark.terminals, lark.rules, lark.ignore_tokens)


@pytest.mark.parametrize("seed", range(4))
def test_random_grammars_read_as_lark_reads_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "WRITTEN_OUT", 1 << 60)
    grammars = RandomGrammars(seed)
    compared = 0
    for _ in range(40):
        text = grammars.grammar()
        ours: Any
        try:
            ours = plain(read_lark(text))
        except LimitError:
            continue  # alternatives multiply out: Lark would try to make them all
        except CdecError as error:
            ours = error
        if isinstance(ours, tuple) and len(ours[1]) > 2000:
            continue  # right, but Lark takes seconds for it
        try:
            theirs = as_lark_reads(text)
        except (LarkError, AssertionError):
            assert isinstance(ours, CdecError), text
            continue
        assert ours == theirs, text
        compared += 1
    assert compared >= 10


def test_the_workloads_read_as_lark_reads_them(shared: Path) -> None:
    spec = importlib.util.spec_from_file_location("workloads", shared / "bench" / "workloads.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    grammars = [getattr(module, name) for name in dir(module) if name.endswith("_LARK")]
    assert len(grammars) >= 4
    for text in grammars:
        assert plain(read_lark(text)) == as_lark_reads(text)


UNREADABLE = {
    "python.lark": "E_GRAMMAR_UNSUPPORTED",
    "python2.lark": "E_GRAMMAR_UNSUPPORTED",
}


def test_the_grammars_of_lark_itself_read_as_it_reads_them(shared: Path) -> None:
    folder = shared / "data" / "grammars" / "lark"
    compared = 0
    for path in sorted(folder.rglob("*.lark")):
        text = path.read_text(encoding="utf-8")
        try:
            grammar = read_lark(text, allow_imports=path.parent)
        except CdecError as error:
            assert error.code == UNREADABLE.get(path.name, "E_GRAMMAR_NO_START"), path
            assert error.hint
            continue
        assert path.name not in UNREADABLE
        theirs = Lark(text, parser="earley", lexer="basic", import_paths=[str(path.parent)],
                      source_path=str(path))  # fmt: skip
        ours, expected = (
            plain(grammar),
            plain_of_lark(theirs.terminals, theirs.rules, theirs.ignore_tokens),
        )
        assert ours.rules == expected.rules and ours.ignored == expected.ignored, path
        assert [t[0] for t in ours.terminals] == [t[0] for t in expected.terminals], path
        compared += 1
    assert compared >= 20


def test_a_rule_as_start_keeps_what_it_uses() -> None:
    text = 'start: "a" b\nb: "b" c\nc: "c"\n'
    assert plain(read_lark(text, start="b")) == as_lark_reads(text, "b")


def test_places_are_those_of_definitions_and_literals() -> None:
    text = '%import common.INT\nstart: "a" INT\n  | NAME\nNAME.2: /x/\n'
    places = {t.name: (t.line, t.column) for t in read_lark(text).terminals}
    assert places == {"INT": (1, 9), "A": (2, 8), "NAME": (4, 1)}


def test_two_alternatives_that_only_placeholders_tell_apart_are_refused_as_in_lark() -> None:
    text = 'start: [A] [A]\nA: "a"\n'
    with pytest.raises(LarkError):
        as_lark_reads(text)
    with pytest.raises(CdecError) as caught:
        read_lark(text)
    assert caught.value.code == "E_GRAMMAR_DUPLICATE"
    assert caught.value.details["line"] == 1

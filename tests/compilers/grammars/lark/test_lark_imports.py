"""Imports read Lark's own grammars, and files of one folder where that is allowed; nothing else."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from lark import Lark

from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError
from tests.compilers.grammars.lark.lark_reference import plain

SHAPES = """
start: pair (SEP pair)*
pair: key "=" value
key: NAME | KEYWORD
value: /[^,"\\n\\/]+/ | QUOTED
QUOTED: "\\"" /(a|\\/)*?/s "\\""
NAME.2: /[a-z_]+/i
KEYWORD: "end"
SEP: "," | "\\n" " "~1..2
%ignore " "
"""


def test_no_file_of_the_working_directory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.lark").write_text('FOO: "a"\n')
    (tmp_path / "common.lark").write_text('INT: "mine"\n')
    monkeypatch.chdir(tmp_path)
    opened: list[object] = []
    original = builtins.open

    def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(file)
        return original(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", watched)
    for text in ("%import .secret.FOO", "%import secret.FOO", "%import .secret (FOO)"):
        with pytest.raises(CdecError) as caught:
            read_lark(f"{text}\nstart: FOO\n")
        assert caught.value.code == "E_GRAMMAR_IMPORT"
    assert "mine" not in read_lark("%import common.INT\nstart: INT\n").terminals[0].pattern
    assert [file for file in opened if str(tmp_path) in str(file) or "secret" in str(file)] == []


def test_files_of_the_allowed_folder_are_imported(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "shapes.lark").write_text("%import .more.WORD\nitem: WORD DIGITS\n"
                                                    "DIGITS: /[0-9]+/\n")  # fmt: skip
    (tmp_path / "parts" / "more.lark").write_text('WORD: "w" | "v"\n')
    for path in (".parts.shapes.item", "parts.shapes.item"):
        grammar = read_lark(f'%import {path}\nstart: item "!"\n', allow_imports=tmp_path)
        names = {terminal.name for terminal in grammar.terminals}
        assert {name.rpartition("__")[2] for name in names} == {"WORD", "DIGITS", "BANG"}


@pytest.mark.parametrize("target", ["..outside.X", ".link.X", "link.X", ".folder.X", ".no.X"])
def test_nothing_outside_the_folder_is_imported(tmp_path: Path, target: str) -> None:
    inside = tmp_path / "inside"
    (inside / "folder.lark").mkdir(parents=True)
    (tmp_path / "outside.lark").write_text('X: "a"\n')
    (inside / "link.lark").symlink_to(tmp_path / "outside.lark")
    with pytest.raises(CdecError) as caught:
        read_lark(f"%import {target}\nstart: X\n", allow_imports=inside)
    assert caught.value.code == "E_GRAMMAR_IMPORT"


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('%import .b.Y\nX: Y "x"\n')
    (tmp_path / "b.lark").write_text('%import .a.X\nY: X "y"\n')
    with pytest.raises(CdecError) as caught:
        read_lark("%import .a.X\nstart: X\n", allow_imports=tmp_path)
    assert caught.value.code in ("E_GRAMMAR_IMPORT", "E_LIMIT")


def test_mistakes_in_an_imported_file_name_it(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('Z: "z"\nX: /(/\n')
    with pytest.raises(CdecError) as caught:
        options = GrammarOptions(allow_imports=tmp_path, name="main.lark")
        read_grammar("%import .a.X\nstart: X\n", options)
    error = caught.value
    assert error.code == "E_REGEX_SYNTAX"
    assert (error.details["line"], error.details["column"]) == (2, 4)
    assert error.details["path"] == str(tmp_path / "a.lark")


def test_the_source_of_a_grammar_with_imported_files_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "shapes.lark").write_text(SHAPES)
    text = '%import .shapes.start -> shapes\n%ignore " "\nstart: shapes ";"?\n'
    grammar = read_lark(text, allow_imports=tmp_path)
    again = read_lark(grammar.source)
    assert "%import" not in grammar.source
    assert len(again.terminals) == len(grammar.terminals)
    for ours, theirs in zip(grammar.terminals, again.terminals, strict=True):
        assert (ours.is_string, ours.flags, ours.priority) == (
            theirs.is_string, theirs.flags, theirs.priority,
        )  # fmt: skip
    assert sorted(len(rule.rhs) for rule in again.rules) == sorted(
        len(rule.rhs) for rule in grammar.rules
    )
    theirs_lark = Lark(grammar.source, parser="lalr")
    ours_lark = Lark(SHAPES + 'top: start ";"?\n', parser="lalr", start="top")
    for sample in ("end=a", 'x = "a/a" , y=b;', "X_y=1,\n  z=2", "=", 'a="', "a=b;;", ""):
        assert accepts(theirs_lark, sample) == accepts(ours_lark, sample), sample


def test_a_grammar_without_imported_files_keeps_its_source() -> None:
    text = "%import common.INT\nstart: INT\n"
    assert read_lark(text).source == text


def test_lark_reads_the_rendered_text_to_the_same_rules(tmp_path: Path) -> None:
    (tmp_path / "e.lark").write_text('E: "\\"" "\\\\n" "\\t" /\\/\\\\[\\n\'"\\]]+/ | "é"\n')
    text = '%import .e.E\nn1: E | "a" n1\nn2.3: n1 | "\\n"\nstart: n2 E "\\\\" |\n'
    grammar = read_lark(text, allow_imports=tmp_path)
    again = plain(read_lark(grammar.source))
    ours = plain(grammar)
    assert [terminal[2:] for terminal in ours.terminals] == [t[2:] for t in again.terminals]
    assert sorted(rule[2] for rule in ours.rules) == sorted(rule[2] for rule in again.rules)
    values = [terminal.value for terminal in grammar.terminals if terminal.is_string]
    assert values == [t.value for t in read_lark(grammar.source).terminals if t.is_string]


def accepts(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text)
    except Exception:
        return False
    return True

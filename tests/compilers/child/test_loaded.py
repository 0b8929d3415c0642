"""Modules that compiling loads: no compiler where a child is asked, no lark for regexes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASKING = """
import sys
from pathlib import Path
from cdec.compilers import ChildCompiler, GrammarOptions
from cdec.core.tokens.vocabulary import Vocabulary

options = GrammarOptions(format="regex")
with ChildCompiler(options.kind) as child:
    child.compile("a", Vocabulary([b"a", b""], [1]), Path("a.arrow"), options)
print(*sys.modules)
"""
COMPILING = """
import sys
from pathlib import Path
from cdec.compilers.kinds import source_kind
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.tokens.vocabulary import Vocabulary

kind, options = source_kind("regex"), GrammarOptions(format="regex")
kind.warm_up()
kind.compile("[a-z]+", Vocabulary([b"a", b""], [1]), Path("a.arrow"), options)
print(*sys.modules)
"""
TABLES = """
from pathlib import Path
from cdec.compilers.child.server import _Known
from cdec.compilers.grammars.automata import characters

known = _Known()
for kind in ("grammar", "regex"):
    characters._category.cache_clear()
    known.load(kind)
    for _ in range(3):
        known.kind_for(kind)
        print(characters._category.cache_info().currsize)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_who_asks_a_child_loads_no_compiler(tmp_path: Path) -> None:
    loaded = set(_printed(ASKING, tmp_path))
    assert "cdec.compilers.child.compiler" in loaded
    assert not {name for name in loaded if name.startswith("cdec.core.grammars.engine")}
    assert not {"cdec.compilers.grammars.compile", "lark"} & loaded


def test_a_regular_expression_is_compiled_without_lark(tmp_path: Path) -> None:
    assert "lark" not in _printed(COMPILING, tmp_path)


def test_tables_that_many_sources_use_are_made_before_the_second(tmp_path: Path) -> None:
    assert _printed(TABLES, tmp_path) == ["0", "1", "1"] * 2


def _printed(code: str, folder: Path) -> list[str]:
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()

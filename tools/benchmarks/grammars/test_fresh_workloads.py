"""The project's own workloads: lark reads every document, and none of their damaged copies."""

from __future__ import annotations

from typing import Any

import pytest
from lark import Lark
from lark.exceptions import LarkError
from lark.indenter import PythonIndenter

from tools.benchmarks.grammars.fresh_workloads import fresh_workloads, marked

NAMES = ("graphql", "lua", "sql", "python", "python_blocks")


def parser_of(load: dict[str, Any]) -> Lark:
    """Return lark's parser in the lexer that the workload is compiled with."""
    parser = "earley" if load["lexer"] == "dynamic" else "lalr"
    postlex = PythonIndenter() if load.get("indenter") else None
    return Lark(load["lark"], parser=parser, lexer=load["lexer"], postlex=postlex)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", NAMES)
def test_lark_reads_every_document_and_no_damaged_one(name: str) -> None:
    load = fresh_workloads()[name]
    parser = parser_of(load)
    for text in load["docs"]:
        assert len(text) > 1800
        parser.parse(text)
    with pytest.raises(LarkError):
        parser.parse(load["docs"][0].replace("(", "((", 1))


def test_blocks_of_python_are_marked_where_they_begin_and_end() -> None:
    text = "if a:\n    while b:\n        c\n    # so\nd\n"
    assert marked(text) == "if a:\n    {:while b:\n        {:c\n    # so\n:}:}d\n"
    assert marked("if a:\n  b\n") == "if a:\n  {:b\n:}"

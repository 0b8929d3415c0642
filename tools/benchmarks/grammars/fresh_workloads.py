"""Five more workloads, of documents of 500 tokens and more: GraphQL, Lua, SQL, a Python subset.

Their grammars and documents lie in ``fresh/``; a line of equals signs separates documents.
Names and keywords collide in all of them, in GraphQL and Lua under every segmentation
(``dynamic``). Python's documents are plain; its grammar wants blocks marked (``marked``), as peers
can read them; in ``python_blocks`` the documents are as they stand, and an indenter reads them.
"""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "fresh"
_LEXERS = {"graphql": "dynamic", "lua": "dynamic", "sql": "contextual", "python": "contextual"}
"""subtle: SQL's ``ON`` may begin a join's condition or an insert's, which lark's LALR settles by
shifting; by default that grammar would be read with every segmentation."""


@cache
def fresh_workloads() -> dict[str, dict[str, Any]]:
    """Return the workloads by name: ``docs``, ``lark`` and ``lexer``."""
    found: dict[str, dict[str, Any]] = {}
    for name, lexer in _LEXERS.items():
        documents = _documents(name)
        found[name] = {
            "lark": (_FOLDER / f"{name}.lark").read_text(encoding="utf-8"),
            "lexer": lexer,
            "docs": [marked(text) for text in documents] if name == "python" else documents,
        }
    found["python_blocks"] = {
        "lark": unmarked(found["python"]["lark"]),
        "lexer": "contextual",
        "indenter": "python",
        "docs": _documents("python"),
    }
    return found


def _documents(name: str) -> list[str]:
    text = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [document + "\n" for document in text.removesuffix("\n").split("\n=====\n")]


def unmarked(grammar: str) -> str:
    """Return a grammar that marks blocks as one that declares them."""
    plain, count = re.subn('(?m)^(_INDENT|_DEDENT): ".."$', r"%declare \1", grammar)
    assert count == 2
    return plain


def marked(program: str) -> str:
    """Write ``{:`` where a block of Python begins and ``:}`` where it ends.

    The grammar reads every line end as one of a statement, so the program may have no others.
    """
    lines = program.splitlines(keepends=True)
    added: list[tuple[int, int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(program).readline):
        row, column = token.end
        if token.type == tokenize.INDENT:
            added.append((row, column, "{:"))
        elif token.type == tokenize.DEDENT:
            added.append((row, column, ":}"))
    lines.append("")
    for row, column, mark in reversed(added):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + mark + line[column:]
    return "".join(lines)

"""Lazy quantifiers under ``dynamic`` mean what lark's ``dynamic_complete`` makes of them."""

from __future__ import annotations

from pathlib import Path

import lark
import numpy as np
import pytest

from cdec.core.grammars.errors import EmptyTerminalError
from tests.core.grammars.walks import accepts, alive_bytes
from tests.laws.grammar_cases import compiled, texts_over

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
        7,
        ['["a": !! "b"]', '["a","b"]', '["a\\"b"]', '["a\\\\"]', '["a\\\\"b"]'],
    ),
    "shortest of all": ("start: A B?\nA: /a+?/\nB: /ab*?/\n", "ab", 4, []),
    "in the middle": ('start: A B*\nA: /a.*?b+/\nB: "b" | "c"\n', "abc", 5, []),
    "alternatives beside it": ("start: A+\nA: /a|ab|c??b/\n", "abc", 5, []),
    "the empty text too": ('start: A "c" A\nA: /(a*?|b)c?/\n', "abc", 4, None),
}
"""Grammar, letters and length of the texts that are compared, and some more texts."""


@pytest.mark.parametrize("name", LAZY)
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

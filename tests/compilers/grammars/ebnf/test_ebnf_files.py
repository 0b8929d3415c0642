"""Public `::=` grammars are read, and accept what their owners say they accept."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from pathlib import Path

from cdec.compilers.grammars.ebnf.read import read_ebnf
from cdec.core.grammars.errors import GrammarError
from tests.compilers.grammars.parser.char_earley import accepts

UNREADABLE = {
    "11604909.ebnf": ("E_GRAMMAR_UNDEFINED", 3, "'_arg_0'"),
    "woosuk/sygus_iter_26_0_bare.ebnf": ("E_GRAMMAR_SYNTAX", 5, "without its ("),
    "woosuk/sygus_iter_26_0_completion.ebnf": ("E_GRAMMAR_SYNTAX", 5, "without its ("),
}


def grammar_files(shared: Path) -> list[Path]:
    data = shared / "data"
    return sorted(
        [
            *data.glob("gad_sygus/grammars/**/*.ebnf"),
            *data.glob("grammars/**/*.ebnf"),
            *data.glob("grammars/**/*.gbnf"),
        ]
    )


def test_every_public_grammar_is_read_or_its_mistake_named(shared: Path) -> None:
    files = grammar_files(shared)
    assert len(files) > 60
    unread = set()
    for path in files:
        try:
            grammar = read_ebnf(path.read_text())
        except GrammarError as error:
            names = [name for name in UNREADABLE if str(path).endswith(name)]
            assert names, f"{path}: {error}"
            code, line, said = UNREADABLE[names[0]]
            assert (error.code, error.details["line"]) == (code, line)
            assert said in error.message
            unread.add(names[0])
        else:
            assert grammar.terminals and grammar.rules
            for terminal in grammar.terminals:
                assert not re.fullmatch(terminal.pattern, "")
    assert unread == set(UNREADABLE)


def test_reference_solutions_are_accepted_or_refused_as_marked(shared: Path) -> None:
    grammars = {}
    counts: Counter[bool] = Counter()
    rows = lzma.decompress((shared / "data/gad_sygus/tasks.jsonl.xz").read_bytes())
    for line in rows.splitlines():
        task = json.loads(line)
        source = task["grammar"]
        if source not in grammars:
            grammars[source] = read_ebnf(source)
        if not task["reference_solution"]:
            continue
        marked = task["reference_solution_in_grammar"]
        assert accepts(grammars[source], task["reference_solution"]) == marked, task["id"]
        counts[marked] += 1
    assert counts == {True: 95, False: 50}


def test_public_grammars_accept_their_own_format(shared: Path) -> None:
    folder = shared / "data/grammars/llguidance/from-llama.cpp"
    cases = {
        "json.gbnf": (['{"a": [1, -2.5e1, "\\u00e9\\n"]}', "{}"], ["[]", '{"a" 1}', '{"a": 01}']),
        "chess.gbnf": (["1. e4 e5\n2. Nf3 Nc6\n"], ["1. e4 e5\n", "e4"]),
        "c.gbnf": (["int main(){return 0;}", ""], ["int main(){return}"]),
        "arithmetic.gbnf": (["1+2*x=3\n", "(a)=b\n"], ["1+=2\n", "1=2"]),
        "list.gbnf": (["- a\n- b c\n"], ["- \n", "a\n"]),
        "japanese.gbnf": (["こんにちは 世界"], ["hello", ""]),
    }
    for name, (inside, outside) in cases.items():
        grammar = read_ebnf((folder / name).read_text())
        assert [text for text in inside if not accepts(grammar, text)] == [], name
        assert [text for text in outside if accepts(grammar, text)] == [], name

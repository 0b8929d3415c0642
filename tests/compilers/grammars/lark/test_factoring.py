"""Rules that multiply out become helper rules: the texts, conflicts and verdicts are Lark's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lark import Lark
from lark.exceptions import LarkError, UnexpectedInput

from cdec.compilers import compile_grammar
from cdec.compilers.grammars.analysis import analyse
from cdec.compilers.grammars.definition import Grammar
from cdec.compilers.grammars.lark import expansion
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.parser.tables import ParseTables, build_tables
from cdec.core.artifacts.opened import open_artifact
from cdec.core.constraint import DEAD
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import GrammarConflictError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.grammars.lark.lark_reference import RandomGrammars, as_lark_reads, plain


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Factor all that can be factored."""
    monkeypatch.setattr(expansion, "WRITTEN_OUT", 1)


def written_out(text: str, monkeypatch: pytest.MonkeyPatch) -> Grammar:
    with monkeypatch.context() as patch:
        patch.setattr(expansion, "WRITTEN_OUT", 1 << 60)
        return read_lark(text)


class Parser:
    """Lark's way with LALR tables, and with the terminals that compete at each place."""

    def __init__(self, grammar: Grammar) -> None:
        self.tables: ParseTables = build_tables(grammar, generalised=False)
        self.names = [terminal.name for terminal in grammar.terminals]
        tables = self.tables
        self.actions = [
            dict(zip(tables.action_terminals[a:b].tolist(), tables.action_values[a:b].tolist(),
                     strict=True))
            for a, b in zip(tables.action_offsets, tables.action_offsets[1:], strict=False)
        ]  # fmt: skip
        self.gotos = [
            dict(zip(tables.goto_symbols[a:b].tolist(), tables.goto_states[a:b].tolist(),
                     strict=True))
            for a, b in zip(tables.goto_offsets, tables.goto_offsets[1:], strict=False)
        ]  # fmt: skip

    def read(self, stack: tuple[int, ...], terminal: int) -> tuple[int, ...] | None:
        while True:
            action = self.actions[stack[-1]].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return (*stack, action)
            lhs, length = self.tables.rule_lhs[~action], self.tables.rule_length[~action]
            stack = stack[: len(stack) - length]
            stack = (*stack, self.gotos[stack[-1]][int(lhs)])

    def places(self, length: int, most: int) -> Iterator[tuple[tuple[int, ...], bool, object]]:
        """Yield texts that can be begun, whether they are whole, and what competes after them."""
        level = [((), (0,))]
        for _ in range(length + 1):
            following: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
            for text, stack in level[:most]:
                ends = self.read(stack, len(self.names)) is not None
                competing = self.tables.competing[stack[-1]]
                yield text, ends, competing
                for terminal in range(len(self.names)):
                    after = self.read(stack, terminal)
                    if after is not None:
                        following.append(((*text, terminal), after))
            level = following  # type: ignore[assignment]


SMALL = {
    "optionals": 'start: "a"? "b"? "c"? "d"?\n',
    "a symbol twice": 'start: "a"? "b"? "a"? "c"?\n',
    "rules that begin alike": 'start: x? y? z? "e"\nx: "a" "b"\ny: "a" "c"\nz: "a"\n',
    "choices": 'start: ("a"|"b"|"c" "d")~3 ";"\n',
    "within themselves": 'start: "(" start? x? start? ")"\nx: "a"? "b"? "c"\n',
    "recursion on the left": 'start: start? "a"? "b"? "c"\n',
    "in a repetition": 'start: ("a"? "b"? ";")*\n',
    "common ends": 'start: ("a" | "b" "c"? | "d") ("x" "y" | "z" "y") "q"?\n',
    "counts": 'start: ("a" | "b")~0..3 "c"\n',
    "with empty rules": 'start: e "a"? e "b"? "c"\ne: \n',
    "placeholders": 'start: ["a"] ["b"] x ["c"]\nx: "d" ["e" "f"]\n',
    "aliases": 'start: "a"? "b"? -> p | "c" "d"? -> q\n',
    "priorities": 'start: x | y\nx.2: "a"? "b"? "c"?\ny.1: "a" "b" "d"?\n',
    "two rules of one beginning": 'start: x "!" | y "?"\nx: "a"? "b"? "c"?\ny: "a"? "b"? "d"?\n',
}


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("name", SMALL)
def test_lark_s_parser_takes_the_same_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SMALL[name]
    ours, theirs = read_lark(text), written_out(text, monkeypatch)
    assert plain(theirs) == as_lark_reads(text)
    assert plain(ours) != plain(theirs)
    try:
        whole = list(Parser(theirs).places(6, 300))
    except GrammarConflictError:
        with pytest.raises(GrammarConflictError):
            Parser(ours)
        with pytest.raises(LarkError):
            Lark(text, parser="lalr")
        return
    assert list(Parser(ours).places(6, 300)) == whole
    lark = Lark(text, parser="lalr", lexer="basic")
    for word, ends, _ in whole[:200]:
        spelled = "".join(theirs.terminals[terminal].value for terminal in word)
        try:
            lark.parse(spelled)
            verdict = True
        except UnexpectedInput:
            verdict = False
        assert verdict == ends, spelled


@pytest.mark.slow
@pytest.mark.usefixtures("everything")
def test_random_grammars_conflict_and_compete_as_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = refused = 0
    for seed in range(2):
        grammars = RandomGrammars(seed)
        for _ in range(30):
            text = grammars.grammar()
            try:
                theirs = written_out(text, monkeypatch)
                theirs = analyse(theirs)
            except LimitError:
                continue
            except CdecError as error:
                with pytest.raises(type(error)):
                    analyse(read_lark(text))
                refused += 1
                continue
            if len(theirs.rules) > 300:
                continue
            ours = analyse(read_lark(text))
            assert ours.terminals == theirs.terminals and ours.ignored == theirs.ignored
            try:
                parser = Parser(theirs)
            except GrammarConflictError:
                with pytest.raises(GrammarConflictError):
                    Parser(ours)
                continue
            mine = Parser(ours)
            assert bool(mine.tables.resolved) == bool(parser.tables.resolved), text
            assert list(mine.places(4, 40)) == list(parser.places(4, 40)), text
            compared += 1
    assert compared >= 15 and refused >= 3


def test_two_hundred_optionals_make_a_few_hundred_rules() -> None:
    begun = time.perf_counter()
    literals = read_lark("start: " + " ".join(f'"k{i}."?' for i in range(200)) + "\n")
    assert len(literals.rules) < 650
    rules = "\n".join(f'r{i}: "k{i}." "x"' for i in range(200))
    grammar = read_lark("start: " + " ".join(f"r{i}?" for i in range(200)) + f"\n{rules}\n")
    assert len(grammar.rules) < 850
    assert time.perf_counter() - begun < 30  # each one more would double it


def test_alternatives_repeated_twelve_times_stay_small() -> None:
    grammar = read_lark("start: " + '("a"|"b"|"c" "d") ' * 12 + "\n")
    assert len(grammar.rules) < 50


def test_what_does_not_multiply_out_is_left_as_lark_has_it() -> None:
    texts = [
        "start: " + " | ".join(f'"w{i}" x?' for i in range(60)) + '\nx: "y"\n',
        'start: "a"~0..49\n',
        "start: " + " ".join(f'"k{i}"?' for i in range(5)) + "\n",
    ]
    for text in texts:
        assert plain(read_lark(text)) == as_lark_reads(text)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("text", ['start: [A] [A]\nA: "a"\n', 'start: "a" "b"? -> p | "a" -> q\n'])
def test_equal_alternatives_are_refused_as_in_lark(text: str) -> None:
    with pytest.raises(LarkError):
        as_lark_reads(text)
    with pytest.raises(CdecError) as caught:
        read_lark(text)
    assert caught.value.code == "E_GRAMMAR_DUPLICATE"


def test_lark_judges_texts_of_grammars_that_it_could_not_write_out(tmp_path: Path) -> None:
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b""], [256], name="toy")
    text = "start: " + " ".join(f'"k{i}."? x?' for i in range(40)) + '\nx.2: "y"\n%ignore " "\n'
    compile_grammar(text, vocabulary, tmp_path / "x.arrow")
    constraint: Any = open_artifact(tmp_path / "x.arrow")
    assert constraint.metadata["cdec.grammar"] == text
    session: Any = constraint.session("cpu")
    for spelled, verdict in [
        (b"k0. yk1. k39. y", True),
        (b"", True),
        (b"y" * 40, True),
        (b"y" * 41, False),
        (b"k1.k0.", False),
        (b"k39.yy", False),
    ]:
        state = session.advance_bytes(session.start(1), [spelled])
        is_member = int(state[0]) != DEAD and bool(session.is_complete(state)[0])
        assert constraint.accepts(spelled) is verdict is is_member, spelled

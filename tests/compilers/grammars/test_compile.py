"""Grammars compiled to artifacts and to constraints."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from cdec.compilers import (
    GrammarLimits,
    GrammarOptions,
    compile_grammar,
    grammar_constraint,
    verify_artifact,
)
from cdec.compilers.grammars.analysis import analyse, hidden_left_recursive
from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, Rule, Terminal
from cdec.compilers.grammars.options import PHASES, GrammarReport
from cdec.compilers.grammars.parser_choice import choose_parser
from cdec.compilers.grammars.scanner.competition import find_contexts
from cdec.compilers.grammars.soundness.coverage import (
    check_coverage,
    require_spellable,
    single_bytes,
)
from cdec.compilers.grammars.source import read_grammar
from cdec.core.artifacts.opened import open_artifact, read_artifact
from cdec.core.constraint import DEAD
from cdec.core.errors import DataError, OutputExistsError, UntokenizableError, UsageError
from cdec.core.grammars.columns import COLUMNS
from cdec.core.grammars.errors import (
    EmptyLanguageError,
    EmptyTerminalError,
    GrammarConflictError,
    GrammarSyntaxError,
)
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.grammar_cases import byte_vocabulary

# --- compile_grammar: the lexer and why, contexts, what an artifact says, errors and their
# source.

LIST = 'start: "[" (X ("," X)*)? "]"\nX: /[a-z]+/\n%ignore " "\n'
ELSE = 'start: "i" start ("e" start)? | "x"\n'
SWALLOWED = "start: A B\nA: /a+/\nB: /a/\n"
HIDDEN = 'start: x start "a" | "b"\nx: \n'


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"],", b"[[", b""]
    return Vocabulary(tokens, [259], name="toy")


def _accepts(path: Path, text: bytes) -> bool:
    session: Any = open_artifact(path).session("cpu")
    state = session.advance_bytes(session.start(1), [text])
    return int(state[0]) != DEAD and bool(session.is_complete(state)[0])


def test_the_artifact_opens_and_says_what_it_is(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "list.arrow"
    report = compile_grammar(LIST, vocabulary, path, name="list.lark")
    file = read_artifact(path)
    assert set(file.arrays) == set(COLUMNS)
    metadata = file.metadata
    assert metadata["cdec.grammar"] == LIST
    assert metadata["cdec.source"] == "list.lark"
    assert metadata["cdec.sound"] == "1"
    assert json.loads(metadata["cdec.counts"]) == report.counts
    options = json.loads(metadata["cdec.options"])
    assert (options["lexer"], options["start"], options["dialect"]) == (
        "contextual",
        "start",
        "lark",
    )
    names = json.loads(metadata["cdec.names"])
    assert '"["' in names["terminals"] and "X" in names["terminals"]
    assert ["start", ['"["', '"]"']] in names["rules"]
    assert "cdec.characters" not in metadata
    assert list(report.seconds) == [*PHASES, "total"]
    assert report.bytes == path.stat().st_size
    assert GrammarReport.from_message(report.to_message()) == report
    assert _accepts(path, b"[ab, c]") and not _accepts(path, b"[ab, ]")


def test_equal_sources_make_equal_artifacts(vocabulary: Vocabulary, tmp_path: Path) -> None:
    for name in ("a", "b"):
        compile_grammar(LIST, vocabulary, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_existing_file_is_kept_before_anything_is_compiled(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(b"mine")
    with pytest.raises(OutputExistsError):
        compile_grammar("not a grammar", vocabulary, path)
    compile_grammar(LIST, vocabulary, path, force=True)


def test_conflicts_decided_for_shifting_are_said(vocabulary: Vocabulary, tmp_path: Path) -> None:
    report = compile_grammar(ELSE, vocabulary, tmp_path / "else.arrow")
    (notice,) = report.notices
    assert (report.lexer, notice.code) == ("contextual", "W_SHIFT_REDUCE")
    assert notice.details["count"] == report.counts["conflicts_shifted"] == 1
    assert _accepts(tmp_path / "else.arrow", b"iixex")
    plain = compile_grammar(LIST, vocabulary, tmp_path / "list.arrow")
    assert not [n for n in plain.notices if n.code == "W_SHIFT_REDUCE"]


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('start: atom (bond? atom)*\natom: "C" (bond? D)*\nbond: "="\nD: /[0-9]/\n', "C=C"),
        ('start: "int" d ("," d)*\nd: ID ("=" e)? | ID "[" "]"\ne: ID ("," ID)*\n'
         'ID: /[a-z]+/\n%ignore " "\n', "int a = a , a = a"),
        ('start: q? "on" "conflict"\nq: "from" ID ("on" ID)?\nID: /[a-z]+/\n%ignore " "\n',
         "from a on conflict"),
    ],
)  # fmt: skip
def test_grammars_that_lose_texts_by_shifting_are_not_lalr(
    grammar: str, text: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    earley = Lark(grammar, parser="earley", lexer="dynamic_complete")
    assert earley.parse(text)
    with pytest.raises(UnexpectedInput):
        Lark(grammar, parser="lalr").parse(text)
    report = compile_grammar(grammar, vocabulary, tmp_path / "x.arrow")
    (notice,) = report.notices
    assert (report.lexer, notice.code) == ("dynamic", "W_DYNAMIC_LEXER")
    assert notice.details["text"] == text and repr(text) in notice.message
    assert _accepts(tmp_path / "x.arrow", text.encode())
    asked = compile_grammar(grammar, vocabulary, tmp_path / "y.arrow", lexer="contextual")
    assert [(n.code, n.details["text"]) for n in asked.notices] == [("W_SHIFT_REDUCE", text)]
    assert not _accepts(tmp_path / "y.arrow", text.encode())


def test_terminals_that_only_lark_s_lexers_can_read_keep_the_lexer(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    grammar = 'start: atom (bond? atom)*\natom: "C" (bond? D)*\nbond: "="\nD: /[0-9](?!x)/\n'
    report = compile_grammar(grammar, vocabulary, tmp_path / "x.arrow")
    (notice,) = (n for n in report.notices if n.code == "W_SHIFT_REDUCE")
    assert (report.lexer, notice.details["text"]) == ("contextual", "C=C")
    assert "'C=C'" in notice.message


def test_nothing_is_lost_where_a_terminal_that_matches_the_same_is_shifted(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    grammar = (
        'start: "int" d ("," d)*\nd: ID ("=" e)?\ne: a ("," a)*\na: ID (SET ID)?\n'
        'SET: "=" | "+="\nID: /[a-z]+/\n%ignore " "\n'
    )
    text = "int a = b , c = d"
    assert Lark(grammar, parser="lalr").parse(text)  # by way of SET
    report = compile_grammar(grammar, vocabulary, tmp_path / "x.arrow")
    assert (report.lexer, report.notices[0].code) == ("contextual", "W_SHIFT_REDUCE")
    assert _accepts(tmp_path / "x.arrow", text.encode())


def test_hidden_left_recursion_is_not_lalr(vocabulary: Vocabulary, tmp_path: Path) -> None:
    report = compile_grammar(HIDDEN, vocabulary, tmp_path / "hidden.arrow")
    assert report.lexer == "dynamic"
    (notice,) = (n for n in report.notices if n.code == "W_DYNAMIC_LEXER")
    assert notice.details["rules"] == ["start"]
    assert _accepts(tmp_path / "hidden.arrow", b"baa")
    asked = compile_grammar(HIDDEN, vocabulary, tmp_path / "lalr.arrow", lexer="contextual")
    assert "W_SHIFT_REDUCE" in [n.code for n in asked.notices]
    assert not _accepts(tmp_path / "lalr.arrow", b"baa")


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ('start: start "a" | "b"\n', []),
        ('start: x start "a" | "b"\nx: "c"\n', []),
        ('start: x y "a" | "b"\nx: | "c"\ny: start\n', ["start", "y"]),
        ('start: x "a"\nx: | "c" start\n', []),
        ('start: y\ny: x y "q" | "b"\nx: z z\nz: \n', ["y"]),
    ],
)
def test_hidden_left_recursion_is_told_from_the_plain_one(rules: str, found: list[str]) -> None:
    named = hidden_left_recursive(analyse(read_grammar(rules)))
    assert set(named) <= set(found) and bool(named) == bool(found)


def test_conflicts_choose_the_dynamic_lexer_unless_another_was_asked_for(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    text = 'start: a "x" "c" | b "x" "d"\na: "q"\nb: "q"\n'
    report = compile_grammar(text, vocabulary, tmp_path / "x.arrow")
    assert (report.lexer, report.is_sound) == ("dynamic", True)
    assert "cdec.characters" in read_artifact(tmp_path / "x.arrow").metadata
    assert _accepts(tmp_path / "x.arrow", b"qxd")
    with pytest.raises(GrammarConflictError):
        compile_grammar(text, vocabulary, tmp_path / "y.arrow", lexer="basic")


def test_terminals_that_can_be_empty_become_optional_or_an_error(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    text = 'start: A "b" C\nA: /a*/\nC: /(c|)/\n'
    with pytest.raises(EmptyTerminalError) as caught:
        compile_grammar(text, vocabulary, tmp_path / "x.arrow")
    assert caught.value.details["line"] == 2
    compile_grammar(text, vocabulary, tmp_path / "x.arrow", lexer="dynamic")
    for accepted in (b"b", b"aab", b"bc", b"abc"):
        assert _accepts(tmp_path / "x.arrow", accepted)
    for refused in (b"", b"a", b"bcc", b"ba"):
        assert not _accepts(tmp_path / "x.arrow", refused)
    with pytest.raises(EmptyTerminalError):
        only_empty = "start: A\nA: /(?:)/\n"
        compile_grammar(only_empty, vocabulary, tmp_path / "y.arrow", lexer="dynamic")


def test_languages_without_texts_are_refused(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    for lexer in ("contextual", "basic"):
        with pytest.raises(EmptyLanguageError) as caught:
            compile_grammar(SWALLOWED, vocabulary, path, lexer=lexer)  # type: ignore[arg-type]
        assert "`lexer` dynamic" in str(caught.value.hint)
        assert caught.value.details["lexer"] == lexer
    with pytest.raises(EmptyLanguageError):
        compile_grammar('start: "a" x\nx: "b" x\n', vocabulary, path)


@pytest.mark.parametrize("counted", ["", "?", "{0,60000}"])
def test_a_lexer_that_leaves_no_text_gives_way_unless_it_was_asked_for(
    counted: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = tmp_path / "x.arrow"
    report = compile_grammar(f"start: A B C\nA: /a+/\nB: /a/\nC: /b{counted}c/\n", vocabulary, path)
    assert (report.lexer, report.is_sound) == ("dynamic", True)
    assert report.lexer_reason == "contextual leaves no text"
    (notice,) = (n for n in report.notices if n.code == "W_DYNAMIC_LEXER")
    assert "no text satisfies the grammar under `lexer` contextual" in notice.message
    options = json.loads(read_artifact(path).metadata["cdec.options"])
    assert (options["lexer"], options["lexer_reason"]) == ("dynamic", report.lexer_reason)
    assert _accepts(path, b"aabc") and not _accepts(path, b"abc")
    assert counted or not verify_artifact(read_artifact(path)).differing


def test_a_parser_that_reduces_for_ever_is_refused_its_text(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    endless = 'start: "a" x+ "c" | "z" A B\nx.1: | y "d"\ny: \nA: /f+/\nB: /f/\n'
    report = compile_grammar(endless, vocabulary, tmp_path / "x.arrow")
    assert (report.lexer, report.is_sound) == ("contextual", True)
    assert report.sound_reason.endswith('such as texts that begin "z"')
    assert _accepts(tmp_path / "x.arrow", b"ac") and not _accepts(tmp_path / "x.arrow", b"adc")


def test_errors_carry_the_name_of_their_source(vocabulary: Vocabulary, tmp_path: Path) -> None:
    for name, start in (("g.lark", "g.lark: line 1"), (None, "line 1")):
        with pytest.raises(GrammarSyntaxError) as caught:
            named = {} if name is None else {"name": name}
            compile_grammar("start: ((\n", vocabulary, tmp_path / "x.arrow", **named)  # type: ignore[arg-type]
        assert str(caught.value).startswith(start)


def test_what_the_tokens_cannot_spell_is_refused(tmp_path: Path) -> None:
    toy = Vocabulary([b"a", b"b", b""], [2])
    compile_grammar('start: "a" "b"\n', toy, tmp_path / "x.arrow")
    with pytest.raises(UntokenizableError) as caught:
        compile_grammar('start: "a" "{"\n', toy, tmp_path / "y.arrow")
    assert caught.value.details["literal"] == "{"


def test_options_that_do_not_exist_are_refused(vocabulary: Vocabulary, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        compile_grammar(LIST, vocabulary, tmp_path / "x.arrow", lexer="lazy")  # type: ignore[arg-type]
    options = GrammarOptions(lexer="basic", limits=GrammarLimits(max_rules=7))
    assert GrammarOptions.from_json(json.loads(json.dumps(options.to_json()))) == options


def test_contexts_hold_what_the_parser_takes_and_what_is_ignored() -> None:
    grammar = analyse(read_grammar(LIST))
    names = [terminal.name for terminal in grammar.terminals]
    (ignored,) = grammar.ignored
    number = {name: i for i, name in enumerate(names)}
    for lexer in ("contextual", "basic", "dynamic"):
        parser = choose_parser(grammar, lexer, GrammarLimits())  # type: ignore[arg-type]
        contexts = find_contexts(grammar, parser.tables, parser.lexer)
        first = contexts.terminals[int(contexts.of_state[0])]
        assert len(set(contexts.terminals)) == len(contexts.terminals)
        assert all(ignored in terminals for terminals in contexts.terminals)
        if lexer == "basic":
            assert contexts.terminals == (frozenset(range(len(names))),)
            continue
        assert first == {number["LSQB"], ignored}
        after_word = {contexts.terminals[x] for x in contexts.after[number["X"]]}
        assert after_word == {frozenset({number["COMMA"], number["RSQB"], ignored})}
        if lexer == "dynamic":
            assert all(len(after) == 1 for after in contexts.after)
            assert contexts.terminals[int(contexts.of_terminal[ignored])] == set(range(len(names)))
        else:
            assert contexts.after[ignored] == tuple(range(len(contexts.terminals)))
            assert (contexts.of_terminal == -1).all()


def test_arrays_are_flat_and_of_the_documented_types(vocabulary: Vocabulary) -> None:
    arrays, _, report = build_grammar(LIST, vocabulary, GrammarOptions(), Path("x"))
    assert list(arrays) == list(COLUMNS)
    for name, array in arrays.items():
        assert (array.ndim, array.dtype) == (1, np.dtype(COLUMNS[name]))
    assert report.bytes == 0


def test_a_repetition_that_counts_far_is_proved_sound_at_once(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    report = compile_grammar(r"start: /[a-z]{1,60000}/", vocabulary, tmp_path / "far.arrow")
    assert report.is_sound and report.counts["scanner_states"] < 100
    assert report.counts["trees"] < 10


# --- What a vocabulary cannot spell of a grammar: literals out of reach, and places where it
# stops.

E_ACUTE = "\u00e9".encode()


def _literal(text: str) -> tuple[Terminal, ByteAutomaton]:
    data = text.encode()
    delta = np.full((len(data) + 1, 256), -1, np.int32)
    for i, byte in enumerate(data):
        delta[i, byte] = i + 1
    accepting = [False] * len(data) + [True]
    terminal = Terminal(text.upper(), text, text, is_string=True, line=1, column=8)
    return terminal, ByteAutomaton(delta, accepting)


def _grammar(*texts: str) -> tuple[Grammar, list[ByteAutomaton]]:
    pairs = [_literal(text) for text in texts]
    rule = Rule(0, tuple(range(len(pairs))))
    terminals = tuple(terminal for terminal, _ in pairs)
    grammar = Grammar(terminals, ("start",), (rule,), 0, frozenset(), None, "", "lark")
    return grammar, [automaton for _, automaton in pairs]


def _vocabulary(*tokens: bytes) -> Vocabulary:
    return Vocabulary([*tokens, b""], [len(tokens)], name="toy")


@dataclass
class _Scanner:
    """One literal's automaton as a scanner with one class a byte."""

    automaton: ByteAutomaton
    byte_class: object = field(default_factory=lambda: np.arange(256, dtype=np.int32))

    def __post_init__(self) -> None:
        n = len(self.automaton.accepting)
        self.delta = np.asarray(self.automaton.delta)
        matches = np.array(self.automaton.accepting, np.int64)
        self.match_offsets = np.concatenate([[0], np.cumsum(matches)])
        self.match_terminals = np.zeros(int(matches.sum()), np.int32)
        self.live_row = np.array([0] * (n - 1) + [1], np.int32)
        self.live_offsets = np.array([0, 1, 1])
        self.live_terminals = np.array([0], np.int32)
        self.context_start = np.array([0], np.int32)


def test_bytes_that_are_tokens_are_found() -> None:
    found = single_bytes(_vocabulary(b"a", b"bc", b"d"))
    assert np.flatnonzero(found).tolist() == [ord("a"), ord("d")]


def test_a_literal_whose_byte_is_in_no_token_is_named() -> None:
    grammar, automata = _grammar("{", "}")
    with pytest.raises(UntokenizableError) as caught:
        require_spellable(grammar, automata, _vocabulary(b"a", b"}", b"b}"))
    assert caught.value.details["literal"] == "{"
    assert caught.value.details["line"] == 1
    assert "b'{'" in caught.value.message


@pytest.mark.parametrize(
    ("tokens", "is_spellable"),
    [
        ([b"ab", E_ACUTE], True),
        ([b"a", b"b" + E_ACUTE], True),  # the token begins in the literal before
        ([b"a", b"b", E_ACUTE[:1], E_ACUTE[1:]], True),
        ([b"a", b"b", E_ACUTE[:1] + b"x", E_ACUTE[1:]], False),
        ([b"a", b"b", E_ACUTE[:1], E_ACUTE[1:] + b"q"], True),  # ... or ends in the one after
        ([b"ab", E_ACUTE[1:]], False),
    ],
)
def test_a_literal_may_share_its_tokens_with_its_neighbours(
    tokens: list[bytes], is_spellable: bool
) -> None:
    grammar, automata = _grammar("\u00e9")
    if is_spellable:
        require_spellable(grammar, automata, _vocabulary(*tokens))
        return
    with pytest.raises(UntokenizableError):
        require_spellable(grammar, automata, _vocabulary(*tokens))


def test_every_byte_a_token_is_whole_coverage() -> None:
    grammar, automata = _grammar("\u00e9")
    every = _vocabulary(*(bytes([byte]) for byte in range(256)))
    require_spellable(grammar, automata, every)
    assert check_coverage(grammar, _Scanner(automata[0]), every, lexing=True).is_whole  # type: ignore[arg-type]


@pytest.mark.parametrize("lexing", [True, False])
def test_a_place_where_no_token_goes_on_is_warned_of(lexing: bool) -> None:
    grammar, automata = _grammar("ab\u00e9")
    vocabulary = _vocabulary(b"a", b"b", b"ab", b"b" + E_ACUTE)
    require_spellable(grammar, automata, vocabulary)
    found = check_coverage(grammar, _Scanner(automata[0]), vocabulary, lexing=lexing)  # type: ignore[arg-type]
    assert not found.is_whole
    assert [notice.code for notice in found.notices] == ["W_TOKEN_DEAD_END"]
    assert found.notices[0].details["terminal"] == "AB\u00c9"
    assert "unproved" in found.reason


def test_bytes_without_tokens_that_have_alternatives_matter_to_lexers_alone() -> None:
    terminal, automaton = _literal("a")
    delta = np.asarray(automaton.delta)
    delta[0, ord("b")] = 1  # a or b, and b is no token of its own
    grammar = Grammar((terminal,), ("start",), (Rule(0, (0,)),), 0, frozenset(), None, "", "lark")
    vocabulary = _vocabulary(b"a", b"ab")
    scanner = _Scanner(automaton)
    assert check_coverage(grammar, scanner, vocabulary, lexing=False).is_whole  # type: ignore[arg-type]
    found = check_coverage(grammar, scanner, vocabulary, lexing=True)  # type: ignore[arg-type]
    assert not found.is_whole and not found.notices


# --- grammar_constraint: a grammar as a constraint without a file, equal to the one compiled to.

TEXT = 'start: "yes" | "no" | "[" start ("," start)* "]"'


@pytest.mark.parametrize("lexer", [None, "dynamic"])
def test_it_is_what_the_file_opens_as(tmp_path: Path, lexer: str | None) -> None:
    vocabulary = byte_vocabulary()
    path = tmp_path / "g.arrow"
    compile_grammar(TEXT, vocabulary, path, lexer=lexer, precompute=0)  # type: ignore[arg-type]
    opened = open_artifact(tmp_path / "g.arrow", vocabulary=vocabulary)
    mine = grammar_constraint(TEXT, vocabulary, lexer=lexer)  # type: ignore[arg-type]
    assert isinstance(opened, GrammarConstraint) and isinstance(mine, GrammarConstraint)
    for name in mine.arrays._fields:
        assert np.array_equal(getattr(mine.arrays, name), getattr(opened.arrays, name)), name
    assert mine.facts.is_sound == opened.facts.is_sound
    for text in (b"yes", b"[yes,no]", b"[yes,no", b"maybe"):
        assert mine.accepts(text) == opened.accepts(text)
    sessions = [mine.session(), opened.session()]
    states = [session.start(1) for session in sessions]
    for byte in b"[no,":
        states = [session.advance(at, [byte]) for session, at in zip(sessions, states, strict=True)]
        allowed = [
            session.allowed(at)[1].tolist() for session, at in zip(sessions, states, strict=True)
        ]
        assert allowed[0] == allowed[1]


def test_options_are_those_of_compile_grammar() -> None:
    vocabulary = byte_vocabulary()
    constraint = grammar_constraint('root ::= "a" | "b"', vocabulary, format="ebnf")
    assert constraint.accepts(b"a") and not constraint.accepts(b"ab")
    constraint = grammar_constraint('start: "a"\nother: "b"', vocabulary, start="other")
    assert constraint.accepts(b"b")


def test_grammars_in_memory_are_told_apart() -> None:
    vocabulary = byte_vocabulary()
    texts = ['start: "a"', 'start: "b"', 'start: "a"']
    made = [grammar_constraint(text, vocabulary).metadata["cdec.digest"] for text in texts]
    assert made[0] == made[2] != made[1]


def test_a_bad_grammar_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match="line 1"):
        grammar_constraint("start: (", byte_vocabulary())

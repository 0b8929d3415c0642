"""Analyses of grammars before they are compiled: definitions, blanks, mask tables."""

from __future__ import annotations

import json
import random
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from cdec.compilers import compile_grammar
from cdec.compilers.grammars.analysis import (
    analyse,
    components,
    nullable_nonterminals,
    reachable,
    union_reached,
)
from cdec.compilers.grammars.definition import Grammar, Rule, Terminal
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import GrammarOptions, GrammarReport
from cdec.core.errors import CdecError, UsageError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.data.assets import grammar_path
from tests.core.grammars.engine.plain_engine import COMMENTS, JSON
from tests.core.grammars.test_grammar_session import every_short_text, overlapping_grammar, walked
from tests.laws.grammar_cases import byte_vocabulary, compiled, random_split, texts_over
from tests.laws.sessions import assert_masks_are_steps, assert_session_laws, state_masks

# --- Analysis: what produces or reaches nothing goes, with a warning.


def grammar_of(rules: list[tuple[int, tuple[int, ...]]], count: int) -> Grammar:
    terminals = tuple(Terminal(t, t.lower(), t.lower(), True) for t in "AB")
    names = tuple(f"n{n}" for n in range(count))
    return Grammar(
        terminals, names, tuple(Rule(*rule) for rule in rules), 0, frozenset(), None, "", "lark"
    )


def warnings_of(text: str) -> dict[str, list[str]]:
    return {n.code: n.details["rules"] for n in analyse(read_lark(text)).notices}  # type: ignore[misc]


def words(grammar: Grammar, length: int) -> list[set[tuple[int, ...]]]:
    """Derive all terminal strings up to a length, for every nonterminal, by brute force."""
    found: list[set[tuple[int, ...]]] = [set() for _ in grammar.nonterminals]
    changed = True
    while changed:
        changed = False
        for rule in grammar.rules:
            made: set[tuple[int, ...]] = {()}
            for symbol in rule.rhs:
                parts = {(symbol,)} if symbol >= 0 else found[~symbol]
                made = {a + b for a in made for b in parts if len(a) + len(b) <= length}
            changed |= not made <= found[rule.lhs]
            found[rule.lhs] |= made
    return found


@pytest.mark.parametrize("seed", range(60))
def test_analysis_keeps_the_language(seed: int) -> None:
    generator = random.Random(seed)
    count = generator.randint(1, 5)
    rules = [
        (
            generator.randrange(count),
            tuple(generator.randrange(-count, 2) for _ in range(generator.randint(0, 3))),
        )
        for _ in range(generator.randint(1, 8))
    ]
    grammar = grammar_of(list(dict.fromkeys(rules)), count)
    before = words(grammar, 4)
    try:
        after = analyse(grammar)
    except EmptyLanguageError:
        assert before[0] == set()
        return
    assert words(after, 4)[after.start] == before[0]
    used = {~s for rule in after.rules for s in rule.rhs if s < 0} | {after.start}
    assert used == set(range(len(after.nonterminals))) == {rule.lhs for rule in after.rules}
    empty = {after.nonterminals[n] for n in nullable_nonterminals(after)}
    assert empty == {
        name for name, found in zip(after.nonterminals, words(after, 0), strict=True) if found
    }
    assert after.terminals == grammar.terminals


def test_dead_alternatives_are_dropped_with_a_warning() -> None:
    grammar = analyse(read_lark('start: "a" | dead other\ndead: dead "x"\nother: "y"\n'))
    assert [(rule.lhs, rule.rhs) for rule in grammar.rules] == [(0, (0,))]
    assert {n.code: n.details["rules"] for n in grammar.notices} == {
        "W_UNPRODUCTIVE_RULE": ["dead"]
    }


def test_every_rule_that_is_never_reached_is_named_once() -> None:
    text = 'start: "a"\nu: v "b"\nv: "c"\nw: x | "d"\nx: w "e"\n_h: "f"\nt{p}: p\ndead: dead\n'
    assert warnings_of(text) == {"W_UNREACHABLE_RULE": ["u", "v", "dead", "w", "x"]}


def test_a_grammar_without_dead_ends_gives_no_warning() -> None:
    assert warnings_of('start: "a" b*\nb: "b" | start\n') == {}


def test_the_empty_language_is_an_error_that_names_the_start() -> None:
    with pytest.raises(EmptyLanguageError) as caught:
        analyse(read_lark('start: x "a"\nx: start "b"\n'))
    assert caught.value.details["name"] == "start"


def test_long_chains_and_wide_rules_need_no_recursion() -> None:
    count = 50_000
    chain = [(n, (~(n + 1),)) for n in range(count - 1)]
    grammar = analyse(grammar_of([*chain, (count - 1, (0,))], count))
    assert len(grammar.rules) == count
    wide = analyse(grammar_of([(0, (~1,) * count), (1, (0,)), (1, ())], 2))
    assert nullable_nonterminals(wide) == {0, 1}
    with pytest.raises(EmptyLanguageError):
        analyse(grammar_of([*chain, (count - 1, (~0,))], count))


@pytest.mark.parametrize("seed", range(30))
def test_graph_functions_agree_with_their_definitions(seed: int) -> None:
    generator = random.Random(seed)
    count = generator.randint(1, 9)
    successors = [
        sorted({generator.randrange(count) for _ in range(generator.randint(0, 2))})
        for _ in range(count)
    ]
    reach = [reachable(n, successors) for n in range(count)]
    component = components(successors)
    for a in range(count):
        for b in range(count):
            assert (component[a] == component[b]) == (a in reach[b] and b in reach[a])
            assert b not in reach[a] or component[b] <= component[a]
    values = [generator.getrandbits(8) for _ in range(count)]
    unions = [reduce(or_, (values[node] for node in found)) for found in reach]
    assert union_reached(successors, values) == unions


# --- Bounded white space: the language is lark's but for longer runs, under every lexer.

LIST = 'start: "a" ("," "a")*\n'
IGNORED = {
    "run": "W: /[ \\n]+/\n%ignore W\n",
    "one": "W: /[ \\n]/\n%ignore W\n",
    "two": '%ignore " "\n%ignore /\\n+/\n',
    "lazy": "W: /[ \\n]+?/\n%ignore W\n",
    "spaces": '%ignore " "\n',
    "lines": "%ignore /\\n/\n",
}
LEXERS = ("contextual", "basic", "dynamic")


def is_allowed(run: str, most: int) -> bool:
    """Read a run as its definition says it, character by character."""
    blanks = breaks = indentation = 0
    for character in run:
        if character == "\n":
            if indentation:
                return False
            breaks += 1
        elif breaks:
            indentation += 1
        else:
            blanks += 1
    return blanks <= most and breaks <= most and indentation <= 4 * most


@cache
def _parser(source: str, lexer: str) -> Lark:
    return Lark(source, parser="lalr", lexer=lexer)


def reference(source: str, text: str, most: int, lexer: str = "contextual") -> bool:
    """Lark's verdict, and of what its lexer leaves out between tokens the runs of blanks."""
    parser = _parser(source, lexer)
    try:
        parser.parse(text)
    except UnexpectedInput:
        return False
    at, gaps = 0, []
    for token in parser.lex(text):
        gaps.append(text[at : token.start_pos])
        at = token.end_pos
    gaps.append(text[at:])
    return all(is_allowed(run, most) for gap in gaps for run in gap.split("#"))


def accepted(constraint: Any, texts: list[str]) -> list[bool]:
    """Follow the bytes of texts."""
    session = constraint.session()
    after = session.advance_bytes(session.start(len(texts)), [text.encode() for text in texts])
    return [bool(done) for done in session.is_complete(after)]


@pytest.mark.share(16)
@pytest.mark.parametrize("lexer", LEXERS)
@pytest.mark.parametrize("ignored", IGNORED)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_language_is_larks_with_the_bound(
    ignored: str, lexer: str, most: int, tmp_path: Path
) -> None:
    source = LIST + IGNORED[ignored]
    constraint = compiled(source, tmp_path, lexer=lexer, max_whitespace=most)
    texts = list(texts_over("a, \n", 5))
    parser_says = [reference(source, text, most) for text in texts]
    assert accepted(constraint, texts) == parser_says
    members = [text for text, said in zip(texts, parser_says, strict=True) if said]
    others = [t for t in texts if t.replace(" ", "").replace("\n", "") == "a" and t not in members]
    for text in [*members[:60], *others[:60]]:
        assert constraint.accepts(text.encode()) is (text in members), text


@pytest.mark.parametrize("lexer", LEXERS)
def test_long_runs_are_told_from_indentation(lexer: str, tmp_path: Path) -> None:
    source = LIST + IGNORED["run"]
    constraint = compiled(source, tmp_path, lexer=lexer, max_whitespace=2)
    runs = [
        " " * blanks + "\n" * breaks + " " * indentation + more
        for blanks in range(4)
        for breaks in range(4)
        for indentation in (0, 1, 7, 8, 9)
        for more in ("", "\n")
    ]
    for place in ("{}a", "a{},a", "a{}"):
        texts = [place.format(run) for run in runs]
        expected = [is_allowed(run, 2) for run in runs]
        assert accepted(constraint, texts) == expected
        assert [constraint.accepts(text.encode()) for text in texts] == expected


@pytest.mark.parametrize("lexer", LEXERS)
def test_a_comment_ends_a_run(lexer: str, tmp_path: Path) -> None:
    source = LIST + "C: /#/\n%ignore C\n%ignore / +/\n"
    constraint = compiled(source, tmp_path, lexer=lexer, max_whitespace=1)
    texts = list(texts_over("a# ", 5))
    expected = [reference(source, text, 1) for text in texts]
    assert accepted(constraint, texts) == expected
    assert sum(expected) > 20


@pytest.mark.parametrize("lexer", LEXERS)
@pytest.mark.parametrize("most", [0, 1, 3])
def test_masks_obey_the_laws(lexer: str, most: int, tmp_path: Path) -> None:
    vocabulary = byte_vocabulary(["  ", "   ", " a", "a ", ", ", ",\n  ", "\n", "\n\n", "a,"])
    source = LIST + IGNORED["run"]
    constraint = compiled(source, tmp_path, vocabulary, lexer=lexer, max_whitespace=most)
    assert constraint.facts.is_sound
    rng = np.random.default_rng(0)
    texts = [t for t in texts_over("a, ", 5) if reference(source, t, most)][:40]
    members = [random_split(text.encode(), vocabulary, rng) for text in texts]
    assert_session_laws(constraint, members, rng)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["json", "jsonl", "sexpr", "arithmetic", "sql", "c"])
def test_shipped_grammars_are_bounded_and_stay_sound(name: str, tmp_path: Path) -> None:
    vocabulary = byte_vocabulary()
    source = grammar_path(name).read_text()
    report = compile_grammar(source, vocabulary, tmp_path / "x.arrow")
    assert report.max_whitespace == 8 and report.is_sound


def test_indented_json_is_json(tmp_path: Path) -> None:
    constraint = compiled(grammar_path("json").read_text(), tmp_path, max_whitespace=8)
    value: object = 1
    for depth in range(8):
        value = {"name": [value]} if depth % 2 else {"value": value, "more": "    " * 20}
    for indent in (None, 1, 2, "\t"):
        text = json.dumps(value, indent=indent).encode()
        assert constraint.accepts(text) and accepted(constraint, [text.decode()]) == [True]
    deep = json.dumps([[[[[[[[1]]]]]]]], indent=4)
    assert accepted(constraint, [deep, f"[{deep}\n    ]"]) == [True, True]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('start: TEXT "b"\nTEXT: /[^b]+/\n%ignore " "\n', "TEXT may begin with a blank"),
        ('start: "a" W "b"\nW: / +/\n%ignore W\n', "a rule names W"),
        ('start: "a" "b"\nW: / {2}/\n%ignore W\n', "' ' is not ignored by itself"),
    ],
)
def test_what_cannot_be_bounded_is_said_and_stays(source: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    report = compile_grammar(source, byte_vocabulary(), path, lexer="dynamic")
    (notice,) = [n for n in report.notices if n.code == "W_UNBOUNDED_WHITESPACE"]
    assert why in notice.message and report.max_whitespace is None


def test_grammars_without_blanks_say_nothing(tmp_path: Path) -> None:
    report = compile_grammar('start: "a"\n', byte_vocabulary(), tmp_path / "x.arrow")
    assert report.max_whitespace is None and not report.notices
    text = LIST + IGNORED["run"]
    report = compile_grammar(text, byte_vocabulary(), tmp_path / "y.arrow", max_whitespace=None)
    assert [notice.code for notice in report.notices] == ["W_UNBOUNDED_WHITESPACE"]


def test_the_bound_is_an_option_with_bounds() -> None:
    for wrong in (-1, 1001):
        with pytest.raises(UsageError, match="max_whitespace"):
            GrammarOptions(max_whitespace=wrong)
    options = GrammarOptions(max_whitespace=3)
    assert GrammarOptions.from_json(options.to_json()) == options
    assert GrammarOptions().max_whitespace == 8


def test_a_report_keeps_the_bound(tmp_path: Path) -> None:
    text = LIST + IGNORED["run"]
    report = compile_grammar(text, byte_vocabulary(), tmp_path / "x.arrow", max_whitespace=3)
    again = GrammarReport.from_message(json.loads(json.dumps(report.to_message())))
    assert (again.blanks, again.max_whitespace) == (report.blanks, 3) == ("\n ", 3)


# --- Masks computed ahead are the masks computed while decoding, however many there are.

EXTRA = ('{"', '"}', "],", "]]", "/*", "1+", "((", '",')


@pytest.mark.share(1)
@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_masks_do_not_depend_on_what_was_computed_ahead(lexer: str, tmp_path: Path) -> None:
    vocabulary, compared = every_short_text("abc", 3), 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 14])
        source = overlapping_grammar(rng)
        steps = int(rng.integers(1, 60))
        try:
            none = compiled(source, tmp_path, vocabulary, lexer=lexer, precompute=0)
        except CdecError:
            continue
        some = compiled(source, tmp_path, vocabulary, lexer=lexer, precompute=steps)
        every = compiled(source, tmp_path, vocabulary, lexer=lexer)
        assert none.statistics()["automaton_steps"] == 0
        assert some.statistics()["automaton_steps"] <= steps
        states = walked(every.session(), np.random.default_rng(seed), 6)
        masks = []
        for constraint in (none, some, every):
            session = constraint.session()
            own = walked(session, np.random.default_rng(seed), 6)
            assert_masks_are_steps(session, own, vocabulary)
            masks.append(state_masks(session, own, vocabulary.width))
        np.testing.assert_array_equal(masks[0], masks[1])
        np.testing.assert_array_equal(masks[0], masks[2])
        compared += len(states)
    assert compared > 10


@pytest.mark.parametrize(("source", "text"), [(JSON, b'[[1,"a"],{"b":[]}]'), (COMMENTS, b"a/b")])
def test_what_was_computed_ahead_is_not_computed_again(
    source: str, text: bytes, tmp_path: Path
) -> None:
    vocabulary = byte_vocabulary(EXTRA)
    session = compiled(source, tmp_path, vocabulary).session()
    states = session.start(1)
    for token in text:
        state_masks(session, states, vocabulary.width)
        states = session.advance(states, np.array([token]))
    assert session.statistics()["mask_misses"] == 0
    fresh = compiled(source, tmp_path, vocabulary, precompute=0).session()
    state_masks(fresh, fresh.start(1), vocabulary.width)
    assert fresh.statistics()["mask_misses"] > 0


def test_a_negative_number_of_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="precompute"):
        compiled(JSON, tmp_path, precompute=-1)

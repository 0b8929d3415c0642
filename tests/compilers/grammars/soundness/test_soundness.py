"""Soundness and emptiness under a deterministic lexer, against the decoding states themselves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lark import Lark

from cdec.compilers.grammars.analysis import analyse
from cdec.compilers.grammars.definition import Grammar, Lexer, Rule, Terminal
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.parser.tables import build_tables
from cdec.compilers.grammars.scanner.competition import find_contexts
from cdec.compilers.grammars.soundness import completions
from cdec.compilers.grammars.soundness import decide as deciding
from cdec.compilers.grammars.soundness.decide import Soundness, decide
from cdec.core.grammars.errors import GrammarConflictError
from tests.compilers.grammars.parser.lark_tables import grammar_of
from tests.compilers.grammars.scanner.plain_scanner import plain_scanner
from tests.compilers.grammars.soundness.plain_configurations import PlainConfigurations

SOUND = {
    "arithmetic": 'start: e\ne: e "+" t | t\nt: t "*" f | f\nf: "(" e ")" | /[0-9]+/',
    "priority of alternatives": 'start: A "c"\nA: /a|ab/',
    "range": 'start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/',
    "neighbours that never are two": "start: ID+\nID: /[a-z]+/",
    "one way out": 'start: ID "x" | ID "1"\nID: /[a-z]+/',
    "keywords and white space": 'start: "if" ID "then" ID\nID: /[a-z]+/\n%ignore / +/',
    "dangling else": 'start: s+\ns: ID ";" | "if" "(" ID ")" s ("else" s)?\n'
    'ID: /[a-z]+/\n%ignore " "',
    "comments begin like operators": 'start: ID ("/" "*"? ID)*\nID: /[a-z]+/\n'
    "%ignore /\\/\\*[^*]*\\*\\//",
    "template": 'start: "Name: " NAME (" " NAME)* "\\nComment: " TEXT "\\n---\\n"\n'
    "NAME: /[A-Z][a-z]+/\nTEXT: /[^\\n]{1,20}/",
    "lookaheads merged": 'start: "(" x ")" | "[" x "]"\nx: "a" | x "," "a"',
}
EMPTY = {
    "swallowed": "start: A B\nA: /a+/\nB: /a/",
    "two words without space": "start: ID ID\nID: /[a-z]+/",
    "always the longer one": 'start: "x" y\ny: A "b"\nA: /ab*/',
    "a comment swallows the end": 'start: "a" "//" "b"\n%ignore /\\/\\/.*/',
}


def sorted_terminals(text: str) -> Grammar:
    lark = Lark(text, parser="lalr")
    lark.terminals.sort(
        key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name)
    )
    return grammar_of(lark)


def decided(grammar: Grammar, lexer: Lexer = "contextual") -> tuple[Soundness, PlainConfigurations]:
    tables = build_tables(grammar, generalised=False)
    contexts = find_contexts(grammar, tables, lexer)
    scanner = plain_scanner(grammar, list(contexts.terminals))
    found = decide(
        grammar,
        scanner,
        tables,
        lexer,
        contexts=contexts.terminals,
        lr_context=contexts.of_state,
    )
    return found, PlainConfigurations(scanner, tables, contexts.of_state, grammar.ignored)


@pytest.mark.parametrize("name", SOUND)
def test_sound_grammars_are_proved_sound(name: str) -> None:
    found, plain = decided(sorted_terminals(SOUND[name]))
    assert found == Soundness(False, True, found.reason)
    assert plain.stuck(prefix_bytes=5, more_bytes=30, most=400) is None


@pytest.mark.parametrize("name", EMPTY)
def test_a_language_that_the_lexer_empties_is_found_empty(name: str) -> None:
    found, plain = decided(sorted_terminals(EMPTY[name]))
    assert found.empty is True
    assert not found.is_sound
    assert not plain.completes(plain.start, 12)


def test_the_way_into_a_dead_end_is_named() -> None:
    grammar = sorted_terminals('start: "x" A | "y" A "a" "!"\nA: /a+/')
    found, plain = decided(grammar)
    assert found == Soundness(False, False, 'unsound: nothing completes a text that begins "y"')
    assert plain.stuck(prefix_bytes=2, more_bytes=8, most=100) is not None


def test_what_is_not_proved_is_said_to_be_unproved() -> None:
    # After 1 the one where "1 has ended" needs ".x", which would make it longer; the text is
    # completed as that longer number. True, but beyond the proof.
    found, _ = decided(sorted_terminals('start: N "." I\nN: /[0-9]+(\\.x)?/\nI: /x/'))
    assert found.empty is False
    assert not found.is_sound
    assert found.reason.startswith("soundness unproved: ")


def test_a_proof_ends_where_states_have_too_many_ways_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # A chain of 1,000 ambiguous rules has 70 million, and was looked at for half an hour.
    monkeypatch.setattr(completions, "_MAX_WAYS", 3)
    found, _ = decided(sorted_terminals('start: "x" A | "y" A "a" "!"\nA: /a+/'))
    assert found.empty is None
    assert found.reason == "soundness unproved: more than 3 ways on to look at"


def test_a_character_that_two_terminals_begin_is_no_way_out() -> None:
    # Half of "é" after "if" is half of "ifé", a name that the rule has no place for.
    # The lexer has names in mind there because another rule has one after the same brackets.
    text = 'start: "x" e ID | "y" e "if" ID\ne: "(" ")"\nID: /[a-zé]+/\n%ignore " "'
    found, plain = decided(sorted_terminals(text))
    assert found.empty is False
    assert not found.is_sound
    assert 'after "if"' in found.reason
    byte_class = plain.byte_class
    configurations = plain.start
    for byte in "y()ifé".encode()[:-1]:
        stepped = plain.step(configurations, byte_class[byte])
        assert stepped is not None
        configurations = stepped
    assert not plain.completes(configurations, 10)


def test_ignored_terminals_end_pending_matches() -> None:
    joined = decided(sorted_terminals("start: ID ID\nID: /[a-z]+/"))[0]
    apart = decided(sorted_terminals('start: ID ID\nID: /[a-z]+/\n%ignore " "'))[0]
    assert (joined.empty, apart.empty, apart.is_sound) == (True, False, True)


def test_many_alternatives_are_decided() -> None:
    words = " | ".join(f'"w{number}"' for number in range(150))
    found, _ = decided(sorted_terminals(f"start: x+\nx: {words}"))
    assert found == Soundness(False, True, found.reason)


@pytest.mark.share(3)
@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", ["JSON_LARK", "C_LARK", "SYGUS_LARK"])
def test_the_workloads_are_sound(
    name: str, lexer: Lexer, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(shared / "bench"))
    import workloads

    found, _ = decided(sorted_terminals(getattr(workloads, name)), lexer)
    assert found == Soundness(False, True, found.reason)


def test_the_generalised_parser_is_sound_and_empty_only_without_rules() -> None:
    grammar = sorted_terminals("start: A B\nA: /a+/\nB: /a/")
    nothing = Grammar(
        grammar.terminals, ("s",), (Rule(0, (~0, 0)),), 0, frozenset(), None, "", "lark"
    )
    for asked, empty in ((grammar, False), (nothing, True)):
        tables = build_tables(asked, generalised=True)
        contexts = find_contexts(asked, tables, "dynamic")
        found = decide(
            asked,
            plain_scanner(asked, list(contexts.terminals)),
            tables,
            "dynamic",
            contexts=contexts.terminals,
            lr_context=contexts.of_state,
        )
        assert (found.empty, found.is_sound) == (empty, not empty)


PATTERNS = ["a", "b", "c", "a+", "ab", "ab?", "a|ab", "ab|a", "[ab]+", "a(bc)?", "b+c", "ba", "a+b"]


def random_grammar(seed: int) -> Grammar:
    pick = random.Random(seed)
    chosen = sorted(pick.sample(PATTERNS, pick.randint(2, 4)), key=lambda p: (-len(p), p))
    terminals = tuple(
        Terminal(f"T{number}", f"(?:{pattern})", pattern, pattern.isalpha())
        for number, pattern in enumerate(chosen)
    )
    symbols = [*range(len(chosen)), *range(len(chosen)), ~0, ~1]
    rules = {}
    for lhs in (0, 0, 1, 1, 1):
        rhs = tuple(pick.choices(symbols, k=pick.choice([0, 1, 2, 2, 3])))
        rules[lhs, rhs] = Rule(lhs, rhs)
    ignored = frozenset({pick.randrange(len(chosen))} if pick.random() < 0.2 else ())
    return Grammar(terminals, ("s", "x"), tuple(rules.values()), 0, ignored, None, "", "lark")


@pytest.mark.slow
def test_verdicts_hold_on_random_grammars() -> None:
    counts = {"sound": 0, "empty": 0, "unsound": 0, "unproved": 0}
    for seed in range(250):
        grammar = random_grammar(seed)
        try:
            found, plain = decided(grammar)
        except GrammarConflictError:
            continue
        assert found.empty is (not plain.completes(plain.start, 40)), seed
        if found.empty:
            counts["empty"] += 1
            continue
        stuck = plain.stuck(prefix_bytes=5, more_bytes=40, most=300)
        if found.is_sound:
            counts["sound"] += 1
            assert stuck is None, (seed, stuck)
        elif found.reason.startswith("unsound"):
            counts["unsound"] += 1
            assert stuck is not None, seed
        else:
            counts["unproved"] += 1
    assert min(counts["sound"], counts["empty"]) > 20


@pytest.mark.slow
def test_the_quick_proof_says_what_walking_down_all_stacks_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where no boundary withholds a terminal, the completions of every stack are found as well."""
    quick = deciding.all_prefixes_viable
    said: list[bool] = []
    walked = 0
    monkeypatch.setattr(deciding, "all_prefixes_viable", lambda *parts: said.append(quick(*parts)))
    for seed in range(1000, 1120):
        said.clear()
        try:
            found, _ = decided(random_grammar(seed))
        except GrammarConflictError:
            continue
        if any(said):
            walked += 1
            assert found == Soundness(False, True, found.reason), seed
    assert walked > 12


def test_a_rule_that_priority_ends_early_is_no_quick_proof() -> None:
    lost = Grammar(
        (Terminal("A", "a", "a", True), Terminal("B", "b", "b", True)),
        ("s", "x", "y"),
        (Rule(0, (~1, 1)), Rule(0, (~2, 0)), Rule(1, (0,)), Rule(2, (0,), 1), Rule(2, (0, 0))),
        0,
        frozenset(),
        None,
        "",
        "lark",
    )
    assert build_tables(lost, generalised=True).is_whole
    assert not build_tables(lost, generalised=False).is_whole


def test_hundreds_of_optionals_are_proved_sound_without_walking_down_their_stacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(deciding, "Completions")
    for item in ('"w{0}."?', "r{0}?"):
        text = "".join(f'\n!r{n}: "w{n}."' for n in range(30))
        rules = f'start: {" ".join(item.format(n) for n in range(30))} "!"{text}'
        grammar = analyse(read_lark(rules))
        assert decided(grammar)[0].is_sound

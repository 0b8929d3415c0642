"""The scanner of terminals, beside a plain one and lark's."""

from __future__ import annotations

import random

import numpy as np
import pytest
from lark import Lark
from lark.exceptions import LarkError, LexError, UnexpectedCharacters

from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.scanner.build import Scanner, build_scanner
from cdec.compilers.grammars.scanner.competition import with_keyword_copies
from cdec.core.errors import LimitError
from tests.compilers.grammars.scanner.plain_scanner import (
    EXPRESSIONS,
    LIMITS,
    LITERALS,
    PIECES,
    alive,
    automata_of,
    completed,
    expression,
    from_lark,
    last_end,
    literal,
    path,
    scanner_of,
    terminals_only,
    tokens,
)

# --- The scanner: which terminals compete, which one completes, which can still complete.


def test_number_before_two_dots_is_completed_and_still_open() -> None:
    grammar = terminals_only(
        (expression(r"[0-9]+(\.[0-9]+)?", "N"), literal("..", "TO")), frozenset()
    )
    scanner = scanner_of(grammar)
    one, dot = path(scanner, b"1.")
    assert (completed(scanner, one), alive(scanner, one)) == ((0,), {0})
    assert (completed(scanner, dot), alive(scanner, dot)) == ((), {0})
    assert path(scanner, b"1..") == [one, dot]
    assert tokens(grammar, scanner, "1..2") == [("N", "1"), ("TO", ".."), ("N", "2")]


def test_keyword_competes_where_its_expression_does_not() -> None:
    grammar = terminals_only((expression("[a-z]+", "ID"), literal("if", "IF")), frozenset())
    scanner = scanner_of(grammar, [frozenset({0, 1}), frozenset({1}), frozenset({0})], "contextual")
    assert completed(scanner, path(scanner, b"if", 0)[-1]) == (1,)
    assert alive(scanner, path(scanner, b"if", 0)[-1]) == {0}
    assert completed(scanner, path(scanner, b"if", 1)[-1]) == (1,)
    assert alive(scanner, path(scanner, b"if", 1)[-1]) == set()
    assert completed(scanner, path(scanner, b"if", 2)[-1]) == (0,)
    assert len(path(scanner, b"ifs", 1)) == 2


def test_keyword_of_an_ignored_expression_is_never_completed() -> None:
    grammar = terminals_only((expression(" +", "SPACE"), literal(" ", "ONE")), frozenset({0}))
    scanner = scanner_of(grammar)
    assert completed(scanner, path(scanner, b" ")[-1]) == (0,)
    assert alive(scanner, int(scanner.context_start[0])) == {0}


def test_ignored_keyword_of_another_expression_goes_to_the_parser() -> None:
    terminals = (expression("[^<]+", "TEXT"), literal("<", "TAG"), literal(" ", "SPACE"))
    grammar = with_keyword_copies(
        terminals_only(terminals, frozenset({2})), automata_of(terminals, "contextual")
    )
    assert [terminal.name for terminal in grammar.terminals[2:]] == ["SPACE", "SPACE"]
    scanner = scanner_of(grammar, [frozenset({0, 2}), frozenset({1, 2})], "contextual")
    assert completed(scanner, path(scanner, b" ", 0)[-1]) == (3,)
    assert completed(scanner, path(scanner, b"  ", 0)[-1]) == (0,)
    assert completed(scanner, path(scanner, b" ", 1)[-1]) == (2,)
    everywhere = scanner_of(grammar, lexer="basic")
    assert completed(everywhere, path(everywhere, b" ")[-1]) == (3,)


def test_contexts_share_states_and_equal_ones_are_one() -> None:
    grammar = terminals_only(
        (expression("[a-z]{1,30}", "ID"), literal("(", "OPEN"), literal(")", "CLOSE")), frozenset()
    )
    contexts = [frozenset({0, 1}), frozenset({0, 2}), frozenset({0, 1})]
    scanner = scanner_of(grammar, contexts, "contextual")
    assert scanner.context_start[0] == scanner.context_start[2] != scanner.context_start[1]
    assert len(scanner.delta) == 2 + 30 + 2


def test_dynamic_scanner_completes_every_terminal() -> None:
    terminals = (expression("[a-z]+", "ID"), expression("a|ab", "A"), literal("ab", "AB"))
    grammar = terminals_only(terminals, frozenset())
    scanner = scanner_of(grammar, lexer="dynamic")
    assert [completed(scanner, state) for state in path(scanner, b"abc")] == [
        (0, 1),
        (0, 1, 2),
        (0,),
    ]
    assert alive(scanner, path(scanner, b"a")[0]) == {0, 1, 2}
    assert alive(scanner, path(scanner, b"ab")[1]) == {0}


@pytest.mark.parametrize("seed", range(4))
def test_dynamic_scanner_is_the_product_of_its_terminals(seed: int) -> None:
    rng = random.Random(seed)
    patterns = rng.sample([p.strip("/") for p in EXPRESSIONS if p.endswith("/")], 4)
    terminals = tuple(expression(p, f"T{i}") for i, p in enumerate(patterns))
    contexts = [frozenset(rng.sample(range(4), rng.randint(1, 4))) for _ in range(3)]
    scanner = scanner_of(terminals_only(terminals, frozenset()), contexts, "dynamic")
    automata = [compile_terminal(t, prioritised=False, limits=LIMITS) for t in terminals]
    for _ in range(150):
        data = "".join(rng.choices(PIECES, k=rng.randint(1, 4))).encode()
        for number, context in enumerate(contexts):
            states = path(scanner, data, number)
            expected = tuple(t for t in sorted(context) if last_end(automata[t], data) == len(data))
            found = completed(scanner, states[-1]) if len(states) == len(data) else ()
            assert found == expected, (patterns, data)


def _reachable_matches(scanner: Scanner, state: int) -> set[int]:
    seen, todo, found = set(), [state], set()
    while todo:
        for target in set(scanner.delta[todo.pop()].tolist()) - {-1}:
            found.update(completed(scanner, target))
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return found


@pytest.mark.share(1)
@pytest.mark.parametrize("lexer", ["basic", "dynamic"])
def test_live_rows_are_the_reachable_completions(lexer: str) -> None:
    for seed in range(4):
        rng = random.Random(seed)
        terminals = [expression(p.strip("/"), f"R{p}") for p in EXPRESSIONS if p.endswith("/")]
        chosen = (*rng.sample(terminals, 4), literal("if", "IF"), literal("ab", "AB"))
        grammar = terminals_only(chosen, frozenset())
        scanner = scanner_of(grammar, lexer=lexer)  # type: ignore[arg-type]
        for state in range(len(scanner.delta)):
            assert alive(scanner, state) == _reachable_matches(scanner, state)
        rows = [tuple(scanner.live_terminals[a:b]) for a, b in
                zip(scanner.live_offsets, scanner.live_offsets[1:], strict=False)]  # fmt: skip
        assert len(set(rows)) == len(rows)
        assert all(list(row) == sorted(set(row)) for row in rows)


def test_no_two_states_behave_alike() -> None:
    for seed in range(10):
        rng = random.Random(seed)
        patterns = rng.sample([p.strip("/") for p in EXPRESSIONS if p.endswith("/")], 4)
        terminals = tuple(expression(p, f"T{i}") for i, p in enumerate(patterns))
        scanner = scanner_of(terminals_only(terminals, frozenset()))
        labels = [completed(scanner, state) for state in range(len(scanner.delta))]
        classes = np.array([sorted(set(labels)).index(label) for label in labels])
        while True:
            successors = np.where(scanner.delta >= 0, classes[scanner.delta], -1)
            rows = np.column_stack([classes, successors])
            finer = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
            if finer.max() == classes.max():
                break
            classes = finer
        assert len(set(classes.tolist())) == len(labels), patterns


def test_byte_classes_differ_somewhere_and_are_numbered_by_first_byte() -> None:
    grammar = terminals_only((expression("[a-m]+|[n-z]é", "A"), literal("é", "B")), frozenset())
    scanner = scanner_of(grammar)
    columns = {column.tobytes() for column in np.ascontiguousarray(scanner.delta.T)}
    assert len(columns) == scanner.delta.shape[1]
    firsts = [scanner.byte_class.tolist().index(k) for k in range(scanner.delta.shape[1])]
    assert firsts == sorted(firsts)


def test_many_literals_make_a_trie() -> None:
    words = sorted({f"{i * 7919 % 10007:x}" for i in range(3000)})
    terminals = (expression("[0-9a-f]+", "ID"), *(literal(w, f"W{i}") for i, w in enumerate(words)))
    scanner = scanner_of(terminals_only(terminals, frozenset()))
    for number, word in enumerate(words, 1):
        assert completed(scanner, path(scanner, word.encode())[-1]) == (number,)
    assert completed(scanner, path(scanner, b"fffffff")[-1]) == (0,)


def test_scanner_beyond_the_limit_is_refused_by_name() -> None:
    terminals = (expression("(?:a|b)*a(?:a|b){7}", "A"), expression("(?:a|b)*b(?:a|b){8}", "B"))
    automata = [compile_terminal(t, prioritised=False, limits=LIMITS) for t in terminals]
    with pytest.raises(LimitError) as caught:
        build_scanner(
            terminals_only(terminals, frozenset()),
            automata,
            [frozenset({0, 1})],
            lexer="dynamic",
            limits=GrammarLimits(max_states=300),
        )
    assert caught.value.details["limit"] == "max_states"


def test_context_without_terminals_is_a_state_without_a_way_on() -> None:
    grammar = terminals_only((literal("a", "A"),), frozenset())
    scanner = scanner_of(grammar, [frozenset({0}), frozenset()], "contextual")
    assert path(scanner, b"a", 1) == []
    assert alive(scanner, int(scanner.context_start[1])) == set()


# --- The scanner against lark's lexer: the same tokens, keywords and priorities.


def _random_lark(rng: random.Random) -> str:
    """Write a grammar of a few terminals with priorities, some ignored."""
    patterns = rng.sample(EXPRESSIONS, rng.randint(1, 4)) + rng.sample(LITERALS, rng.randint(0, 4))
    names = rng.sample("ABCDEFGHIJKL", len(patterns))
    lines = [f"start: ({'|'.join(names)})*"]
    for name, pattern in zip(names, patterns, strict=True):
        lines.append(f"{name}{rng.choice(['', '', '', '.1', '.2', '.-1'])}: {pattern}")
    lines.extend(f"%ignore {name}" for name in names if rng.random() < 0.12)
    return "\n".join(lines) + "\n"


def _lark_tokens(lark: Lark, text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    try:
        found.extend((token.type, str(token)) for token in lark.lex(text))
    except (LexError, UnexpectedCharacters):
        found.append(("", ""))
    return found


@pytest.mark.share(6)
@pytest.mark.parametrize("seed", range(8))
def test_scanner_gives_the_tokens_of_lark(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    while compared < 500:
        source = _random_lark(rng)
        try:
            lark = Lark(source, parser="lalr", lexer="basic")
        except LarkError:  # a conflict or a terminal that lark refuses
            continue
        grammar = from_lark(lark)
        scanner = scanner_of(grammar)
        for _ in range(25):
            text = "".join(rng.choices(PIECES, k=rng.randint(0, 7)))
            expected = _lark_tokens(lark, text)
            found = [(name, part if name else "") for name, part in tokens(grammar, scanner, text)]
            assert found == expected, (source, text)
            compared += 1


def _lexed(source: str, text: str) -> list[tuple[str, str]]:
    lark = Lark(source, parser="lalr", lexer="basic")
    grammar = from_lark(lark)
    found = tokens(grammar, scanner_of(grammar), text)
    assert [t for t in found if t[0]] == [t for t in _lark_tokens(lark, text) if t[0]]
    return found


def test_keyword_is_the_whole_text_only() -> None:
    source = 'start: (IF | ID)*\nIF: "if"\nID: /[a-z]+/\n%ignore " "\n'
    assert _lexed(source, "if iff fi if") == [
        ("IF", "if"),
        ("ID", "iff"),
        ("ID", "fi"),
        ("IF", "if"),
    ]


def test_keyword_without_case_is_matched_without_case() -> None:
    source = 'start: (IF | ID)*\nIF: "if"i\nID: /[a-z]+/i\n%ignore " "\n'
    assert _lexed(source, "IF iF ifs") == [("IF", "IF"), ("IF", "iF"), ("ID", "ifs")]


def test_keyword_with_flags_of_its_own_also_competes() -> None:
    source = 'start: (IF | ID)*\nIF: "if"i\nID: /[a-z]+/\n%ignore " "\n'
    assert _lexed(source, "if IF") == [("IF", "if"), ("IF", "IF")]


def test_earlier_alternative_wins_over_a_longer_one() -> None:
    source = "start: (A | B)*\nA: /a|ab/\nB: /b/\n"
    assert _lexed(source, "ab") == [("A", "a"), ("B", "b")]


def test_higher_priority_wins_over_a_longer_text() -> None:
    source = "start: (A | B)*\nA.2: /a/\nB: /[a-z]+/\n"
    assert _lexed(source, "ab") == [("A", "a"), ("B", "b")]

"""Parse tables: those of lark, and generalised ones."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lark import Lark
from lark.exceptions import GrammarError
from lark.grammar import NonTerminal, RuleOptions
from lark.grammar import Rule as LarkRule
from lark.grammar import Terminal as LarkTerminal
from lark.parsers.lalr_analysis import LALR_Analyzer, Shift

from cdec.compilers.grammars.analysis import epsilon_free
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.parser.lalr import NO_SYMBOL
from cdec.compilers.grammars.parser.tables import (
    ParseTables,
    ambiguity,
    build_tables,
    refuse_ambiguity,
)
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import GrammarConflictError
from tests.compilers.grammars.parser.lark_tables import grammar_of, lark_of, plain_grammar
from tests.shared import shared_folder

# --- LALR(1) tables against lark's own: the same automaton, the same actions, the same refusals.

CORPUS = sorted((shared_folder() / "data/grammars/lark").rglob("*.lark"))

OWN = {
    "left recursion": 'start: start "a" | "b"',
    "right recursion": 'start: "a" start | "b"',
    "nullable": 'start: x "a" x\nx: | "b" x',
    "nullable start": "start: x*\nx: A\nA: /a/",
    "dangling else": 'start: "if" start | "if" start "else" start | "x"',
    "operators": 'start: start "+" start | start "*" start | "(" start ")" | /[0-9]/',
    "priority": 'start: x | y\nx.2: "a"\ny.1: "a"',
    "cycle": 'start: x\nx: y | "a"\ny: x',
    "cycle through start": 'start: x | "a"\nx: start',
    "calls": 'start: x* "end"\nx: ID "(" (x ("," x)*)? ")" ";"?\nID: /[a-z]+/',
    "reads through empty rules": 'start: a b c "d"\na: "x"\nb: | "y"\nc: | "z" b',
    "rule begun earlier": 'start: a "!" | c\na: "x" b\nb: "z" | a "y"\nc: "x" d\nd: "z" "q"',
}


def actions(tables: ParseTables, state: int) -> dict[int, int]:
    """Return terminal -> action of a state that has one each."""
    begin, stop = tables.action_offsets[state : state + 2]
    found = dict(
        zip(
            tables.action_terminals[begin:stop].tolist(),
            tables.action_values[begin:stop].tolist(),
            strict=True,
        )
    )
    assert len(found) == stop - begin
    assert list(found) == sorted(found)
    return found


def gotos(tables: ParseTables, state: int) -> dict[int, int]:
    begin, stop = tables.goto_offsets[state : state + 2]
    return dict(
        zip(
            tables.goto_symbols[begin:stop].tolist(),
            tables.goto_states[begin:stop].tolist(),
            strict=True,
        )
    )


def assert_equal_tables(grammar: Grammar, tables: ParseTables, theirs: Any, start: str) -> None:
    """Walk both automata from their starts in step; every action must be the same.

    But for shifts towards rules that never end, which lark makes to no avail.
    """
    pair = {0: theirs.start_states[start]}
    ready = [0]
    end = len(grammar.terminals)
    while ready:
        state = ready.pop()
        expected = dict(theirs.states[pair[state]])
        ours: dict[str, tuple[str, Any]] = {}
        for terminal, action in actions(tables, state).items():
            if terminal == end:
                if action >= 0:
                    assert pair[state] == theirs.end_states[start]
                    assert "$END" not in expected or expected.pop("$END")
                    continue
                name = "$END"
            else:
                name = grammar.terminals[terminal].name
            ours[name] = ("shift", action) if action >= 0 else ("reduce", tables.rules[~action])
        for nonterminal, target in gotos(tables, state).items():
            ours[grammar.nonterminals[nonterminal]] = ("shift", target)
        idle = tables.competing[state] - tables.accepts[state]
        idle_names = {grammar.terminals[terminal].name for terminal in idle}
        assert idle_names.isdisjoint(ours)
        assert ours.keys() | idle_names == expected.keys()
        for name, (kind, argument) in ours.items():
            their_action, their_argument = expected[name]
            if kind == "reduce":
                assert their_action is not Shift
                assert rule_key(grammar, argument) == their_rule_key(their_argument)
            else:
                assert their_action is Shift
                if argument not in pair:
                    pair[argument] = their_argument
                    ready.append(argument)
                assert pair[argument] == their_argument
    assert len(theirs.states) == tables.num_states - 1
    assert len(set(pair.values())) == len(pair) <= len(theirs.states)
    assert len(pair) == len(theirs.states) or tables.accepts != tables.competing
    assert tables.accepts[-1] == frozenset()


def rule_key(grammar: Grammar, rule: Rule) -> tuple[str, tuple[str, ...]]:
    return grammar.nonterminals[rule.lhs], tuple(
        grammar.nonterminals[~symbol] if symbol < 0 else grammar.terminals[symbol].name
        for symbol in rule.rhs
    )


def their_rule_key(rule: Any) -> tuple[str, tuple[str, ...]]:
    return rule.origin.name, tuple(symbol.name for symbol in rule.expansion)


def assert_as_lark(text: str, **options: Any) -> None:
    grammar = grammar_of(Lark(text, parser="earley", **options))
    try:
        lark = lark_of(text, **options)
    except GrammarError:
        with pytest.raises(GrammarConflictError):
            build_tables(grammar, generalised=False)
        return
    tables = build_tables(grammar, generalised=False)
    assert_equal_tables(grammar, tables, lark.parser.parser._parse_table, "start")


@pytest.mark.parametrize("name", OWN)
def test_tables_are_lark_s(name: str) -> None:
    assert_as_lark(OWN[name])


def test_tables_are_lark_s_on_the_workloads(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(shared / "bench"))
    import workloads

    for name in ("JSON_LARK", "C_LARK", "XML_LARK", "SYGUS_LARK"):
        assert_as_lark(getattr(workloads, name))


@pytest.mark.share(13)
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_tables_are_lark_s_on_published_grammars(path: Path) -> None:
    text = path.read_text()
    rules = [line.split(":")[0].strip(" ?!") for line in text.splitlines() if ":" in line]
    starts = [name for name in rules if name[:1].isalpha() and name.islower() and name.isalnum()]
    for start in dict.fromkeys([*starts[:1], "start", "file_input"]):
        try:
            lark = Lark(text, parser="earley", start=start, source_path=str(path))
            break
        except GrammarError:
            continue
    else:
        pytest.skip("terminals only, or imports that are not here")
    grammar = grammar_of(lark, start)
    try:
        analyzed = analyse_as_lark(list(dict.fromkeys(lark.rules)), start)
    except GrammarError:
        with pytest.raises(GrammarConflictError):
            build_tables(grammar, generalised=False)
        return
    assert_equal_tables(grammar, build_tables(grammar, generalised=False), analyzed, start)


def analyse_as_lark(rules: list[LarkRule], start: str = "start") -> Any:
    analyzer = LALR_Analyzer(SimpleNamespace(rules=rules, start=[start]))
    analyzer.compute_lalr()
    return analyzer.parse_table


def random_rules(seed: int) -> list[tuple[str, str, int]]:
    """Return a random grammar of a few short rules, empty ones among them."""
    pick = random.Random(seed)
    nonterminals = ["S", "A", "B", "C"][: pick.randint(1, 4)]
    symbols = [*nonterminals, "a", "b", "c"]
    rules = {}
    for lhs in nonterminals:
        for _ in range(pick.randint(1, 3)):
            rhs = " ".join(pick.choices(symbols, k=pick.choice([0, 1, 1, 2, 2, 3])))
            rules.setdefault((lhs, rhs), pick.choice([0, 0, 0, 1]))
    return [(lhs, rhs, priority) for (lhs, rhs), priority in rules.items()]


def test_tables_are_lark_s_on_random_grammars_with_and_without_conflicts() -> None:
    agreed = refused = 0
    for seed in range(600):
        rules = random_rules(seed)
        grammar = plain_grammar([(lhs, rhs) for lhs, rhs, _ in rules], names="a b c")
        grammar = with_priorities(grammar, [priority for *_, priority in rules])
        theirs = [
            LarkRule(
                NonTerminal(lhs),
                [LarkTerminal(x) if x.islower() else NonTerminal(x) for x in rhs.split()],
                options=RuleOptions(priority=priority),
            )
            for lhs, rhs, priority in rules
        ]
        reached = {grammar.nonterminals[number] for number in reached_from_start(grammar)}
        try:
            table = analyse_as_lark([rule for rule in theirs if rule.origin.name in reached], "S")
        except GrammarError:
            refused += 1
            with pytest.raises(GrammarConflictError):
                build_tables(grammar, generalised=False)
            continue
        agreed += 1
        assert_equal_tables(grammar, build_tables(grammar, generalised=False), table, "S")
    assert min(agreed, refused) > 90


def with_priorities(grammar: Grammar, priorities: list[int]) -> Grammar:
    rules = tuple(
        Rule(rule.lhs, rule.rhs, priority)
        for rule, priority in zip(grammar.rules, priorities, strict=True)
    )
    return Grammar(grammar.terminals, grammar.nonterminals, rules, 0, frozenset(), None, "", "lark")


def reached_from_start(grammar: Grammar) -> set[int]:
    reached = {grammar.start}
    while True:
        more = {
            ~symbol
            for rule in grammar.rules
            if rule.lhs in reached
            for symbol in rule.rhs
            if symbol < 0
        }
        if more <= reached:
            return reached
        reached |= more


def test_conflict_names_terminals_rules_and_a_way_out() -> None:
    grammar = grammar_of(Lark('start: x "c" | y "c"\nx: "a"\ny: "a"', parser="earley"))
    with pytest.raises(GrammarConflictError) as caught:
        build_tables(grammar, generalised=False)
    error = caught.value
    assert "`lexer` dynamic" in str(error.hint)
    assert error.details["terminals"] == ['"c"']
    assert error.details["rules"] == ['x -> "a"', 'y -> "a"']
    assert error.details["state_items"] == ['x -> "a" .', 'y -> "a" .']


def test_higher_priority_wins_between_rules() -> None:
    grammar = grammar_of(Lark('start: x | y\nx.1: "a"\ny.2: "a"', parser="earley"))
    tables = build_tables(grammar, generalised=False)
    values = [tables.rules[~v] for v in tables.action_values.tolist() if v < 0]
    reduced = {grammar.nonterminals[rule.lhs] for rule in values}
    assert reduced == {"y", "start"}


def test_a_shift_taken_over_a_reduction_is_reported() -> None:
    grammar = grammar_of(lark_of(OWN["dangling else"]))
    resolved = build_tables(grammar, generalised=False).resolved
    assert [conflict.shift for conflict in resolved] == [True]
    (terminal,) = resolved[0].terminals
    assert grammar.terminals[terminal].value == "else"
    assert not build_tables(grammar_of(lark_of(OWN["calls"])), generalised=False).resolved


def test_access_symbols_items_and_contexts_tell_how_a_state_is_reached() -> None:
    grammar = grammar_of(lark_of(OWN["calls"]))
    tables = build_tables(grammar, generalised=False)
    assert tables.access_symbol[0] == NO_SYMBOL
    for state in range(tables.num_states):
        for terminal, action in actions(tables, state).items():
            if action >= 0:
                assert tables.access_symbol[action] == terminal
                if terminal < len(grammar.terminals):
                    assert action in tables.contexts_after[terminal]
        for nonterminal, target in gotos(tables, state).items():
            assert tables.access_symbol[target] == ~nonterminal
        begin, stop = tables.item_offsets[state : state + 2]
        for rule, dot in zip(
            tables.item_rules[begin:stop], tables.item_dots[begin:stop], strict=True
        ):
            assert tables.rules[rule].rhs[dot - 1] == tables.access_symbol[state]
        keys = set(actions(tables, state)) - {len(grammar.terminals)}
        assert tables.accepts[state] == keys


def test_more_states_than_allowed_is_a_limit() -> None:
    grammar = grammar_of(lark_of(OWN["calls"]))
    states = build_tables(grammar, generalised=False).num_states
    exact = GrammarLimits(max_states=states)
    assert build_tables(grammar, generalised=False, limits=exact).num_states == states
    with pytest.raises(LimitError) as caught:
        build_tables(grammar, generalised=False, limits=GrammarLimits(max_states=states - 1))
    assert caught.value.details["limit"] == "max_states"


def test_a_table_of_too_many_actions_is_a_limit() -> None:
    words = tuple(Terminal(f"W{i}", f"w{i}", f"w{i}", True) for i in range(300))
    rules = tuple(Rule(1, (i,)) for i in range(300))
    rules += (Rule(0, (~1,)), Rule(0, (~0, ~1)))
    grammar = Grammar(words, ("start", "x"), rules, 0, frozenset(), None, "", "lark")
    with pytest.raises(LimitError) as caught:
        build_tables(grammar, generalised=False, limits=GrammarLimits(max_states=400))
    assert "actions" in str(caught.value)


def test_long_chains_and_wide_rules_do_not_recurse() -> None:
    chain = [("S", "R0"), *((f"R{i}", f"R{i + 1}") for i in range(3000)), ("R3000", "a")]
    tables = build_tables(plain_grammar(chain), generalised=False)
    assert tables.num_states == 3005
    wide = " ".join(["a"] * 20_000)
    assert build_tables(plain_grammar([("S", wide)]), generalised=False).num_states == 20_003


# --- Generalised tables accept the context-free language: all of it, nothing else.

LONGEST = 5

AWKWARD = {
    "left recursion": [("S", "S a"), ("S", "b")],
    "hidden left recursion": [("S", "X S a"), ("S", "b"), ("X", "")],
    "hidden right recursion": [("S", "a S X"), ("S", "b"), ("X", ""), ("X", "c")],
    "nullable loop": [("S", "X S"), ("S", ""), ("X", "X X"), ("X", ""), ("X", "a")],
    "nullable mutual": [("S", "X S"), ("S", ""), ("X", ""), ("X", "S")],
    "cyclic unit": [("S", "X"), ("X", "Y"), ("X", "a"), ("Y", "X")],
    "ambiguous": [("S", "S S"), ("S", "a")],
    "dangling else": [("S", "a S"), ("S", "a S b S"), ("S", "c")],
    "not LALR": [
        *[("S", "a X a"), ("S", "b X b"), ("S", "a Y b"), ("S", "b Y a")],
        *[("X", "c"), ("Y", "c")],
    ],
    "palindromes": [("S", "a S a"), ("S", "b S b"), ("S", "a"), ("S", "b"), ("S", "")],
    "many optional": [
        *[("S", "A B C A B"), ("A", "a"), ("A", ""), ("B", "b"), ("B", ""), ("C", "c"), ("C", "")]
    ],
    "many optional and one not": [
        ("S", "A B c A B A"),
        ("A", "a"),
        ("A", ""),
        ("B", "b"),
        ("B", ""),
    ],
    "nothing but empty": [("S", "X X"), ("X", "")],
    "dead alternative": [("S", "a"), ("S", "D"), ("D", "D b")],
    "empty language": [("S", "S a")],
}


def language(
    grammar: Grammar, longest: int, nullable: frozenset[int] = frozenset()
) -> set[tuple[int, ...]]:
    """Return all words up to a length, by the definition: a fixpoint over the rules."""
    words: list[set[tuple[int, ...]]] = [set() for _ in grammar.nonterminals]
    changed = True
    while changed:
        changed = False
        for rule in grammar.rules:
            found: set[tuple[int, ...]] = {()}
            for symbol in rule.rhs:
                choices = words[~symbol] if symbol < 0 else {(symbol,)}
                if symbol in nullable:
                    choices = choices | {()}
                found = {x + y for x in found for y in choices if len(x) + len(y) <= longest}
            if not found <= words[rule.lhs]:
                words[rule.lhs] |= found
                changed = True
    return words[grammar.start]


def table_actions(tables: ParseTables, state: int, terminal: int) -> list[int]:
    begin, stop = tables.action_offsets[state : state + 2]
    return [
        int(value)
        for value, on in zip(
            tables.action_values[begin:stop], tables.action_terminals[begin:stop], strict=True
        )
        if on == terminal
    ]


def goto(tables: ParseTables, state: int, nonterminal: int) -> int:
    begin, stop = tables.goto_offsets[state : state + 2]
    place = tables.goto_symbols[begin:stop].tolist().index(nonterminal)
    return int(tables.goto_states[begin + place])


def accepts(tables: ParseTables, word: tuple[int, ...], end: int) -> bool:
    """Follow all stacks one by one, each a tuple of states: slow and plain."""
    stacks = {(0,)}
    for terminal in (*word, end):
        ready, seen, after = list(stacks), set(stacks), set()
        while ready:
            stack = ready.pop()
            for action in table_actions(tables, stack[-1], terminal):
                if action >= 0:
                    after.add((*stack, action))
                    continue
                rest = stack[: -int(tables.rule_length[~action])]
                new = (*rest, goto(tables, rest[-1], int(tables.rule_lhs[~action])))
                if new not in seen:
                    seen.add(new)
                    ready.append(new)
        stacks = after
    return bool(stacks)


def assert_same_language(
    grammar: Grammar, longest: int, nullable: frozenset[int] = frozenset()
) -> int:
    tables = build_tables(grammar, generalised=True, nullable_terminals=nullable)
    assert all(rule.rhs for rule in tables.rules)
    expected = language(grammar, longest, nullable)
    terminals = range(len(grammar.terminals))
    for length in range(longest + 1):
        for word in itertools.product(terminals, repeat=length):
            assert accepts(tables, word, len(terminals)) == (word in expected), word
    return len(expected)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_grammars_keep_their_language(name: str) -> None:
    assert_same_language(plain_grammar(AWKWARD[name], names="a b c"), LONGEST)


def test_random_grammars_keep_their_language() -> None:
    rich = 0
    for seed in range(400):
        rich += assert_same_language(random_grammar(seed, terminals=2), 4) > 3
    assert rich > 50


def test_terminals_that_can_be_empty_become_optional() -> None:
    rich = 0
    for seed in range(200):
        rich += assert_same_language(random_grammar(seed, terminals=2), 4, frozenset({1})) > 3
    assert rich > 50


def random_grammar(seed: int, terminals: int) -> Grammar:
    pick = random.Random(seed)
    names = ["a", "b", "c"][:terminals]
    nonterminals = ["S", "A", "B"][: pick.randint(1, 3)]
    rules = []
    for lhs in nonterminals:
        for _ in range(pick.randint(1, 3)):
            length = pick.choice([0, 1, 1, 2, 2, 3, 5])
            rules.append((lhs, " ".join(pick.choices([*nonterminals, *names], k=length))))
    return plain_grammar(rules, names=" ".join(names))


def test_terminals_that_match_nothing_take_their_rules_with_them() -> None:
    grammar = plain_grammar([("S", "a S"), ("S", "b X"), ("S", "c"), ("X", "a")], names="a b c")
    found = epsilon_free(grammar, barren_terminals=frozenset({1}))
    assert [rule.rhs for rule in found.rules] == [(0, ~0), (2,)]
    both = epsilon_free(grammar, frozenset({2}), frozenset({2}))
    assert both.start_nullable
    assert (0,) in [rule.rhs for rule in both.rules]
    assert all(2 not in rule.rhs for rule in both.rules)


def test_many_optional_symbols_in_one_rule_stay_linear() -> None:
    symbols = 150
    rules = [Rule(0, tuple(~n for n in range(1, symbols + 1)))]
    for number in range(1, symbols + 1):
        rules += [Rule(number, ()), Rule(number, (number - 1,))]
    words = plain_grammar([("S", " ".join(f"w{n}" for n in range(symbols)))]).terminals
    names = ("s", *(f"x{n}" for n in range(symbols)))
    grammar = Grammar(words, names, tuple(rules), 0, frozenset(), None, "", "lark")
    found = epsilon_free(grammar)
    assert found.start_nullable
    assert len(found.rules) < 6 * symbols
    tables = build_tables(grammar, generalised=True)
    assert accepts(tables, (0, 7, symbols - 1), symbols)
    assert accepts(tables, (), symbols)
    assert not accepts(tables, (7, 0), symbols)


def test_every_action_is_kept_shifts_first() -> None:
    grammar = plain_grammar([("S", "S S"), ("S", "a")])
    tables = build_tables(grammar, generalised=True)
    crowded = [
        values
        for state in range(tables.num_states)
        if len(values := table_actions(tables, state, 0)) > 1
    ]
    assert crowded
    assert all(values[0] >= 0 and values[1] < 0 for values in crowded)
    assert not tables.resolved


def plain_ambiguity(tables: ParseTables) -> int:
    """Return the ambiguity of tables by the definition."""
    most = 0
    for terminal in range(int(tables.action_terminals.max()) + 1):
        found = [table_actions(tables, state, terminal) for state in range(tables.num_states)]
        competing = {action for actions in found if len(actions) > 1 for action in actions}
        names = {int(tables.rule_lhs[~action]) for action in competing if action < 0}
        most = max(most, sum(int((tables.goto_symbols == name).sum()) for name in names))
    return most


@pytest.mark.parametrize("name", AWKWARD)
def test_ambiguity_counts_the_reductions_that_compete(name: str) -> None:
    tables = build_tables(plain_grammar(AWKWARD[name]), generalised=True)
    assert ambiguity(tables) == plain_ambiguity(tables)


def chain(count: int, *forms: str) -> list[tuple[str, str]]:
    """Return rules each of which is the next one, or has other forms of itself and the next one."""
    pairs = list(itertools.pairwise(["S", *(f"R{i}" for i in range(1, count)), "Z"]))
    more = [
        (name, form.format(own=name, next=after, i=i))
        for i, (name, after) in enumerate(pairs)
        for form in forms
    ]
    return [*pairs, *more, ("Z", "a")]


@pytest.mark.slow
def test_chains_of_ambiguous_rules_are_refused_by_their_square() -> None:
    def tables(count: int) -> ParseTables:
        rules = chain(count, "{next} {next}", "b {next} c")
        return build_tables(plain_grammar(rules), generalised=True)

    assert 3.8 < ambiguity(tables(40)) / ambiguity(tables(20)) < 4.2
    with pytest.raises(LimitError) as raised:
        refuse_ambiguity(tables(300), GrammarLimits())
    assert raised.value.details["limit"] == "max_ambiguity"
    assert "`max_ambiguity`" in str(raised.value.hint)
    refuse_ambiguity(tables(300), GrammarLimits(max_ambiguity=1 << 20))


def test_long_chains_without_ambiguity_are_not_refused() -> None:
    rules = chain(300, "{own} o{i} {next}")
    assert ambiguity(build_tables(plain_grammar(rules), generalised=True)) == 0

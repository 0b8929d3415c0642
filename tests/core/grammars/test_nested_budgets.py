"""Rules of so many tokens that nest: the texts of which some reading keeps all numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from cdec.compilers import compile_grammar, grammar_constraint
from cdec.compilers.grammars.definition import Lexer
from cdec.core import open_artifact
from cdec.core.combine.fitting import fit
from cdec.core.constraint import CONSERVATIVE, EXACT, Constraint, text_verdicts
from cdec.core.errors import ArtifactInvalidError, FitError, LimitError
from cdec.core.grammars import budgets
from cdec.core.grammars.errors import GrammarUnsupportedError
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import assert_session_laws, token_rows
from tests.laws.worlds import Row

PIECES = [*(b"a", b"b", b"(", b")", b","), *(b"((", b"))", b"(a", b"a)", b"a,", b"),", b"aa")]
BLANKS = [b" ", b" a"]
Rules = Mapping[str, Sequence[str]]
"""Bodies of rules: letters are rules' names, all other characters themselves."""


def vocabulary_of(pieces: Sequence[bytes]) -> Vocabulary:
    end = len(pieces)
    return Vocabulary([*pieces, b""], eos_token_ids=[end], special_token_ids=[end])


def lark(rules: Rules, numbers: Mapping[str, int], ignored: str = "") -> str:
    names = {name: "start" if name == "S" else name.lower() for name in rules}
    lines = [ignored]
    for name, bodies in rules.items():
        said = f"[max_tokens={numbers[name]}]" if name in numbers else ""
        written = [" ".join(names.get(c, f'"{c}"') for c in body) for body in bodies]
        lines.append(f"{names[name]}{said}: {' | '.join(written)}")
    return "\n".join(lines)


def keeps(rules: Rules, numbers: Mapping[str, int], text: str, owners: Sequence[int]) -> bool:
    """Say whether some derivation of a text keeps the numbers: spans of rules, a least fixpoint.

    ``owners``: the token of each character.
    """
    spans = {name: set[tuple[int, int]]() for name in rules}

    def ends(body: str, begin: int) -> set[int]:
        at = {begin}
        for symbol in body:
            if symbol.isupper():
                at = {stop for here in at for start, stop in spans[symbol] if start == here}
            else:
                at = {here + 1 for here in at if text[here : here + 1] == symbol}
        return at

    is_over = False
    while not is_over:
        is_over = True
        for name, bodies in rules.items():
            for begin in range(len(text) + 1):
                for stop in set().union(*(ends(body, begin) for body in bodies)):
                    count = owners[stop - 1] - owners[begin] + 1 if stop > begin else 0
                    if count <= numbers.get(name, count) and (begin, stop) not in spans[name]:
                        spans[name].add((begin, stop))
                        is_over = False
    return (0, len(text)) in spans["S"]


def kept_rows(
    rows: Sequence[Row], pieces: Sequence[bytes], rules: Rules, numbers: Mapping[str, int]
) -> list[Row]:
    found = []
    for row in rows:
        owned = [(chr(c), n) for n, token in enumerate(row) for c in pieces[token] if c != 32]
        text, owners = "".join(c for c, _ in owned), [n for _, n in owned]
        if keeps(rules, numbers, text, owners):
            found.append(row)
    return found


NESTED = {"S": ["E"], "E": ["a", "(E)", "(E,E)"]}
AMBIGUOUS = {"S": ["T"], "T": ["TT", "a", "b"]}
CASES: dict[str, tuple[Rules, Mapping[str, int], Sequence[Lexer], int]] = {
    "nested": (NESTED, {"E": 3}, ("contextual", "dynamic"), 5),
    "nested in two": (
        {"S": ["X", "S,X"], "X": ["(S)", "Y"], "Y": ["a", "Ya"]},
        {"X": 4, "Y": 2},
        ("contextual", "dynamic"),
        5,
    ),
    "ambiguous": (AMBIGUOUS, {"T": 3}, ("dynamic",), 4),
    "halves": (
        {"S": ["AB"], "A": ["a", "Aa"], "B": ["a", "aB", "b"]},
        {"A": 1, "B": 2},
        ("dynamic",),
        4,
    ),
    "right": ({"S": ["R,b"], "R": ["a", "aR"]}, {"R": 2}, ("contextual", "dynamic"), 5),
    "empty": (
        {"S": ["(X)", "S(X)"], "X": ["", "YaX"], "Y": ["", "b"]},
        {"X": 2},
        ("contextual", "dynamic"),
        5,
    ),
}
ASKED = [(name, lexer) for name, case in CASES.items() for lexer in case[2]]


def grammar(
    rules: Rules,
    numbers: Mapping[str, int],
    lexer: Lexer,
    pieces: Sequence[bytes],
    ignored: str = "",
) -> Constraint:
    source = lark(rules, numbers, ignored)
    return grammar_constraint(source, vocabulary_of(pieces), lexer=lexer)


@pytest.mark.parametrize(("name", "lexer"), ASKED)
def test_texts_are_those_with_a_reading_that_keeps_all_numbers(name: str, lexer: Lexer) -> None:
    rules, numbers, _, most = CASES[name]
    limited = grammar(rules, numbers, lexer, PIECES)
    whole = token_rows(grammar(rules, {}, lexer, PIECES), most)
    rows = kept_rows(whole, PIECES, rules, numbers)
    assert token_rows(limited, most) == rows and 0 < len(rows) < len(whole)
    assert limited.facts.budgets == EXACT and limited.facts.is_sound
    assert not limited.facts.takes_bytes
    assert_session_laws(limited, rows[:12], np.random.default_rng(0), max_states=60, max_steps=8)


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_blanks_between_the_tokens_of_a_rule_count(lexer: Lexer) -> None:
    pieces, numbers = [*PIECES, *BLANKS], {"E": 3}
    limited = grammar(NESTED, numbers, lexer, pieces, '%ignore " "')
    whole = token_rows(grammar(NESTED, {}, lexer, pieces, '%ignore " "'), 4)
    assert token_rows(limited, 4) == kept_rows(whole, pieces, NESTED, numbers)


@pytest.mark.parametrize("name", ["nested", "ambiguous", "empty"])
def test_where_states_are_many_some_texts_may_be_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, numbers, lexers, most = CASES[name]
    every = token_rows(grammar(rules, numbers, lexers[-1], PIECES), most)
    monkeypatch.setattr(budgets, "_MOST_NODES", 0)
    limited = grammar(rules, numbers, lexers[-1], PIECES)
    assert limited.facts.budgets == CONSERVATIVE and not limited.facts.is_sound
    rows = token_rows(limited, most)  # fails where one is stuck
    assert set(rows) <= set(every) and len(rows) > len(every) // 2
    assert_session_laws(limited, [], np.random.default_rng(0), max_states=40, max_steps=8)


@pytest.mark.parametrize("max_steps", [None, 0])
def test_a_whole_text_fits_and_its_rules_as_well(max_steps: int | None) -> None:
    limited = grammar(NESTED, {"E": 3}, "contextual", PIECES)
    rows = [row for row in token_rows(limited, 3) if len(row) <= 2]
    fitted = fit(limited, 2, max_steps=max_steps)
    assert token_rows(fitted, 3) == rows and fitted.facts.budgets == EXACT


# --- Any content, over a vocabulary of bytes: contract and dead ends.

VALUES = """
start: value
value[max_tokens=9]: object | list | STRING | NUMBER
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
list: "[" (value ("," value)*)? "]"
STRING[max_tokens=4]: /"[a-z ]*"/
NUMBER: /-?[0-9]+/
%ignore " "
"""


def test_masks_are_steps_and_values_end() -> None:
    vocabulary = byte_vocabulary(("[[", "]]", "}}", '{"', '":', '"}', "10", ", ", "ab"))
    limited = grammar_constraint(VALUES, vocabulary)
    assert limited.facts.budgets == CONSERVATIVE
    assert_session_laws(limited, [], np.random.default_rng(4), max_states=60, max_steps=12)


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_a_terminal_without_a_number_counts_for_the_rule_that_it_begins(lexer: Lexer) -> None:
    source = VALUES.replace("STRING[max_tokens=4]", "STRING").replace("=9", "=12")
    limited = grammar_constraint(source, byte_vocabulary(('"a', "ab")), lexer=lexer)
    session = limited.session()
    state, quote, letter = session.start(1), ord('"'), ord("a")
    for token in [quote] + [letter] * 10:
        state = session.advance(state, np.array([token]))
    assert session.allowed(state)[1].tolist() == [quote]
    assert_session_laws(limited, [], np.random.default_rng(1), max_states=60, max_steps=14)


def test_far_from_all_numbers_masks_are_those_without() -> None:
    vocabulary = byte_vocabulary(("[[", "]]", "}}", '{"', '":', '"}', "10", ", ", "ab"))
    limited = grammar_constraint(VALUES.replace("=9", "=400").replace("=4]", "=300]"), vocabulary)
    assert_session_laws(limited, [], np.random.default_rng(4), max_states=60, max_steps=40)


# --- Other dialects, errors, verdicts, artifacts.


def test_rules_of_ebnf_have_numbers_too() -> None:
    source = 'root ::= e\n# e[max_tokens=1] ::= "x"\ne[max_tokens=3] ::= [a] | "(" e ("," e)? ")"'
    limited = grammar_constraint(source, vocabulary_of(PIECES), format="gbnf")
    same = grammar(NESTED, {"E": 3}, "dynamic", PIECES)
    assert token_rows(limited, 5) == token_rows(same, 5)
    words = 'root ::= w ("," w)*\nw[max_tokens=1] ::= [ab]+'
    limited = grammar_constraint(words, vocabulary_of(PIECES), format="ebnf")
    rules = {"S": ["W", "S,W"], "W": ["a", "b", "aW", "bW"]}
    whole = token_rows(grammar(rules, {}, "dynamic", PIECES), 4)
    assert token_rows(limited, 4) == kept_rows(whole, PIECES, rules, {"W": 1})


def test_a_number_below_the_shortest_text_is_an_error_with_that_number() -> None:
    source = 'start: e\ne[max_tokens=2]: "(" "(" "a" e? "," ")"'
    with pytest.raises(FitError, match=r"rule e has at most 2 tokens.* 3") as info:
        grammar_constraint(source, vocabulary_of(PIECES))
    assert info.value.details["shortest"] == 3
    assert info.value.hint == "raise max_tokens of e to 3 or more"


def test_a_text_with_too_many_tokens_is_refused_where_it_has_them() -> None:
    limited = grammar(NESTED, {"E": 3}, "contextual", PIECES)
    good, long = text_verdicts(limited, [b"((a))", b"(((a,a),a),a)"])
    assert good["valid"] and not long["valid"]
    assert long["reason"] == "no way to spell e in 3 tokens leads further"


def test_an_artifact_records_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "held.arrow"
    source = lark(NESTED, {"E": 3})
    compile_grammar(source, vocabulary_of(PIECES), path)
    opened = open_artifact(path, vocabulary=vocabulary_of(PIECES))
    assert isinstance(opened, GrammarConstraint) and opened.summary()["grammar"] == source
    forged = {**opened.metadata, budgets.ATTRIBUTES_KEY: "[[-1]]"}
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.attributes"):
        GrammarConstraint(opened.arrays, opened.vocabulary, forged).summary()
    assert opened.facts.budgets == EXACT
    assert token_rows(opened, 4) == token_rows(grammar(NESTED, {"E": 3}, "contextual", PIECES), 4)


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ('start: e "a"\ne[max_tokens=2]: /a(?=b)/ "b" e?', GrammarUnsupportedError, "rule e"),
        ('%declare CITY\nstart: e\ne[max_tokens=2]: CITY | "(" e', GrammarUnsupportedError, "sets"),
        ('start: e\ne[max_tokens=1073741823]: "a" e | "b"', LimitError, "too many to count"),
    ],
)
def test_what_cannot_be_counted_is_refused(source: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        grammar_constraint(source, vocabulary_of(PIECES))


def test_of_several_readings_masks_are_steps_whichever_is_asked_first() -> None:
    rules = {
        "S": ["X,", "Z)", ")", "b", "X", "Y", "Z"],
        "X": ["ZX", "a", "aSX"],
        "Y": ["bbZ", ",", "ZY", "a"],
        "Z": ["S", "Y", "XY", "a"],
    }
    limited = grammar(rules, {"S": 3, "X": 3, "Y": 2}, "dynamic", PIECES)
    session = limited.session()
    after = session.advance(session.start(1), np.array([PIECES.index(b"),")]))
    allowed = session.allowed(after)[1].tolist()
    letter = PIECES.index(b"b")
    assert (letter in allowed) == (session.advance(after, np.array([letter]))[0] >= 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_grammars_have_the_texts_that_keep_all_numbers(seed: int) -> None:
    rng = np.random.default_rng([29, seed])
    names = "SXYZ"[: int(rng.integers(2, 5))]
    rules = {name: [*(_body(rng, names) for _ in range(3)), "ab"[name == "S"]] for name in names}
    rules["S"] += [name for name in names if name != "S"]
    rules = {name: list(dict.fromkeys(bodies)) for name, bodies in rules.items()}
    numbers = {name: int(rng.integers(1, 4)) for name in names if rng.random() < 0.6}
    whole = token_rows(grammar(rules, {}, "dynamic", PIECES), 4)
    rows = kept_rows(whole, PIECES, rules, numbers)
    limited = grammar(rules, numbers, "dynamic", PIECES)
    found = token_rows(limited, 4)
    assert found == rows if limited.facts.budgets in (EXACT, None) else set(found) <= set(rows)
    assert_session_laws(limited, [], rng, max_states=30, max_steps=6, walks=4)


def _body(rng: np.random.Generator, names: str) -> str:
    return "".join(rng.choice([*names, *names, "a", "b", "(", ")", ","], int(rng.integers(1, 4))))

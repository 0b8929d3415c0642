"""Sets within grammars: the same as their members written as alternatives, every way to cut."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from cdec.compilers import grammar_constraint
from cdec.core.constraint import Constraint, NarrowedSet, text_verdicts, token_verdicts
from cdec.core.errors import (
    ArtifactInvalidError,
    CdecError,
    FieldError,
    SetMissingError,
    UsageError,
)
from cdec.core.grammars.artifact import check_grammar_shape
from cdec.core.grammars.columns import stand_in
from cdec.core.grammars.errors import GrammarUnsupportedError
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.session import DEAD, DONE
from cdec.core.sets.spans import SpanOptions
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.sessions import assert_masks_are_steps, assert_session_laws, state_masks
from tests.laws.set_cases import MemberCase, corpus_case, document_case, set_case, set_of

PIECES = (
    *(bytes([byte]) for byte in range(256)),
    *(b"FROM ", b"SELECT ", b"Par", b'is"', b" Par", b" 2", b", ", b",P", b"(P", b"r)"),
    *(b"is WHERE ", b"Paris,Par", b" FROM R", b""),
)
VOCABULARY = Vocabulary(
    PIECES, eos_token_ids=[len(PIECES) - 1], special_token_ids=[len(PIECES) - 1]
)
SQL = """
start: "SELECT " CITY ("," CITY)* " FROM " TOWN where?
where: " WHERE " CITY "=" /[0-9]+/ | "(" CITY ")" where?
%ignore / {1,2}/
"""
CITIES = ("Paris", "Paris 2", "Par", "é", "x,y", "(q)", "=1")
TOWNS = ("Rom", "Par", "a b")
GIVEN = {"CITY": set_of(*CITIES), "TOWN": set_of(*TOWNS)}
QUOTED = document_case("is 2é, (Par)"), document_case("Rom, a b", SpanOptions("words", longest=2))
"""Documents whose pieces stand for members of sets."""


def written(texts: Sequence[str]) -> str:
    return " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


def sql() -> GrammarConstraint:
    compiled = grammar_constraint(f"{SQL}%declare CITY TOWN\n", VOCABULARY)
    assert isinstance(compiled, GrammarConstraint)
    return compiled


def assert_same_masks(left: Constraint, right: Constraint, seed: int, most: int = 800) -> int:
    """Walk two sessions side by side; return how many pairs of states were compared."""
    rng, width = np.random.default_rng(seed), left.vocabulary.width
    ours, theirs = left.session(), right.session()
    front = [(int(ours.start(1)[0]), int(theirs.start(1)[0]))]
    seen = set(front)
    while front and len(seen) < most:
        x, y = (np.array(side) for side in zip(*front, strict=True))
        masks = state_masks(ours, x, width)
        np.testing.assert_array_equal(masks, state_masks(theirs, y, width))
        np.testing.assert_array_equal(ours.is_complete(x), theirs.is_complete(y))
        met: list[tuple[int, int]] = []
        for row, mask in enumerate(masks):
            ids = np.flatnonzero(mask)
            ids = rng.choice(ids, min(len(ids), 8), replace=False)
            after = ours.advance(np.full(len(ids), x[row]), ids)
            other = theirs.advance(np.full(len(ids), y[row]), ids)
            np.testing.assert_array_equal(after == DONE, other == DONE)
            assert not (after == DEAD).any() and not (other == DEAD).any()
            met += [(p, q) for p, q in zip(after.tolist(), other.tolist(), strict=True) if p >= 0]
        front = [pair for pair in dict.fromkeys(met) if pair not in seen]
        seen.update(front)
    return len(seen)


CORPUS = corpus_case("is 2é,", "(Par)"), corpus_case("Rom, a b", options=SpanOptions("words"))


@pytest.mark.parametrize("cases", [None, QUOTED, CORPUS])
def test_masks_are_those_of_the_members_as_alternatives(
    cases: tuple[MemberCase, MemberCase] | None,
) -> None:
    texts = [CITIES, TOWNS] if cases is None else [case.texts for case in cases]
    given = GIVEN if cases is None else {"CITY": cases[0].given, "TOWN": cases[1].given}
    alternatives = f"{SQL}CITY: {written(texts[0])}\nTOWN: {written(texts[1])}\n"
    whole = grammar_constraint(alternatives, VOCABULARY, lexer="dynamic")
    assert assert_same_masks(sql().with_sets(given), whole, 1) > 500


BODIES = (
    *("x y", "S", "S x", "x S", "y", "S T", '"a" y', 'y ","', "T", '"b"', "W", "/[ab]+/"),
    *('S "," y', "x*", "[T] y"),
)


@pytest.mark.share(6)
@pytest.mark.parametrize("seed", range(16))
def test_masks_of_random_grammars_are_those_of_alternatives(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def texts(most: int, letters: str, longest: int) -> list[str]:
        drawn = (rng.choice([*letters], rng.integers(1, longest)) for _ in range(most))
        return sorted({"".join(text) for text in drawn})

    def body() -> str:
        return " | ".join(rng.choice(BODIES, rng.integers(1, 4), replace=False))

    cases = {"S": set_case(*texts(5, "ab,", 4)), "T": set_case(*texts(3, "ab,", 4))}
    if seed % 4 == 3:
        cases = {"S": document_case("".join(rng.choice([*"ab,"], 5))), "T": document_case("ab")}
    own = {name: case.texts for name, case in cases.items()}
    pieces = [text.encode() for text in sorted({*texts(25, "ab, ", 5), *"ab, "})]
    vocabulary = Vocabulary(
        [*pieces, b""], eos_token_ids=[len(pieces)], special_token_ids=[len(pieces)]
    )
    rules = f'start: {body()} | S y\nx: {body()}\ny: "a" | {body()}\nW: /,+/\n'
    rules += "%ignore / /\n" if seed % 2 else ""
    named = "".join(f"{name}: {written(members)}\n" for name, members in own.items())
    try:
        whole = grammar_constraint(rules + named, vocabulary, lexer="dynamic")
        ours = grammar_constraint(f"{rules}%declare S T\n", vocabulary)
    except CdecError as error:
        pytest.skip(f"no grammar: {error.message}")
    given = {name: cases[name].given for name in ours.set_names}
    assert_same_masks(ours.with_sets(given), whole, seed, 150)


@pytest.mark.parametrize("pattern", ["a{2,3000}", "(ab?){1,3000}", "[ab]{0,2000},"])
def test_members_begin_behind_long_counted_repetitions(pattern: str) -> None:
    case = set_case("b", "ba,", ",a", "aab")
    pieces = [
        b"a",
        b"b",
        b",",
        b"ab",
        b"aab",
        b"aaba",
        b"b,",
        b",b",
        b"a,a",
        b"aaaab,",
        b"ba,x",
        b"x",
    ]
    vocabulary = Vocabulary(
        [*pieces, b""], eos_token_ids=[len(pieces)], special_token_ids=[len(pieces)]
    )
    rules = f'start: N S x?\nx: "x" | N\nN: /{pattern}/\n'
    whole = grammar_constraint(f"{rules}S: {written(case.texts)}\n", vocabulary, lexer="dynamic")
    ours = grammar_constraint(f"{rules}%declare S\n", vocabulary)
    assert len(ours.arrays.loop_row)
    assert assert_same_masks(ours.with_sets({"S": case.given}), whole, 5, 150) > 100


def test_pieces_of_documents_are_annotated_with_their_places() -> None:
    ours = sql().with_sets({"CITY": QUOTED[0].given, "TOWN": QUOTED[1].given})
    (verdict,) = text_verdicts(ours, ["SELECT 2é FROM a b".encode()])
    assert verdict["valid"] and verdict["members"] == [
        {"quote": "CITY", "start": 7, "end": 9, "text": "2é", "span": place(3, 2)},
        {"quote": "TOWN", "start": 15, "end": 18, "text": "a b", "span": place(5, 3)},
    ]
    for text in ("SELECT 2é FROM a", "SELECT x FROM a b", "SELECT 2é FROM Rom, a b"):
        assert ours.accepts(text.encode()) is (text == "SELECT 2é FROM a"), text
    (broken,) = text_verdicts(ours, ["SELECT 2éx FROM a".encode()])
    assert broken["reason"] == "no piece of CITY begins with '2éx'"
    (short,) = text_verdicts(ours, [b"SELECT is FROM"])
    assert not short["valid"] and "reason" not in short


def place(offset: int, length: int) -> dict[str, object]:
    return {"field": "page", "offset": offset, "length": length, "places": 1}


def test_laws_of_sessions_and_constraints_hold() -> None:
    ours = sql().with_sets(GIVEN)
    texts = [
        "SELECT Paris FROM Rom",
        "SELECT x,y, (q)  FROM a b(Par) WHERE =1=12",
        "SELECT é FROM Par",
    ]
    members = [list(text.encode()) for text in texts]
    assert_session_laws(ours, members, np.random.default_rng(3), walks=4, max_states=60)
    session = ours.session()
    cuts = [text.encode()[:cut] for text in texts for cut in (0, 7, 9, 12, 16)]
    states = session.advance_bytes(session.start(len(cuts)), cuts)
    assert_masks_are_steps(session, np.unique(states[states >= 0]), VOCABULARY)


def test_laws_hold_with_a_lookahead() -> None:
    ours = sql().with_sets(GIVEN).with_lookahead(1)
    members = [list(b"SELECT Paris FROM Rom")]
    assert_session_laws(ours, members, np.random.default_rng(4), walks=3, max_states=40)


def test_members_are_annotated_and_texts_judged_by_lark() -> None:
    ours = sql().with_sets(GIVEN)
    good, bad = "SELECT Paris 2, é FROM Rom", "SELECT Pari FROM Rom"
    first, second = text_verdicts(ours, [good.encode(), bad.encode()])
    assert first["valid"] and first["members"] == [
        {"set": "CITY", "start": 7, "end": 14, "id": "2", "text": "Paris 2"},
        {"set": "CITY", "start": 16, "end": 17, "id": "4", "text": "é"},
        {"set": "TOWN", "start": 23, "end": 26, "id": "1", "text": "Rom"},
    ]
    assert ours.accepts(good.encode()) is True and ours.accepts(bad.encode()) is False
    assert ours.accepts(b"SELECT Paris FROM Paris") is False
    assert ours.accepts(f"SELECT {stand_in(0)} FROM Rom".encode()) is None
    assert not second["valid"] and second["byte"] == 11
    assert second["terminals"] == ["CITY"]
    assert second["reason"].startswith("no member of CITY begins with 'Pari '; nearest: 'Paris'")
    (row,) = token_verdicts(ours, [list(good.encode())])
    assert row["valid"] and row["members"] == first["members"]
    (broken,) = token_verdicts(ours, [list(bad.encode())])
    assert not broken["valid"] and broken["terminals"] == ["CITY"]
    steps = list(ours.explain(list(good.encode())))
    assert all(step["is_allowed"] for step in steps)
    assert any("CITY" in reading["under_way"] for step in steps for reading in step["readings"])


def test_speculation_keys_are_equal_in_every_session() -> None:
    ours = sql().with_sets(GIVEN)
    begun = [b"SELECT P", b"SELECT Par", b"SELECT ", b"SELECT Paris FROM R"]
    keys = []
    for order in (begun, begun[::-1]):
        session = sql().with_sets(GIVEN).session()
        states = [session.advance_bytes(session.start(1), [text]) for text in order]
        found = [int(session.speculation_keys(state)[0]) for state in states]
        keys.append(dict(zip(order, found, strict=True)))
    assert keys[0] == keys[1] and len(set(keys[0].values())) == len(begun)
    assert ours.facts.has_speculation_keys


def test_records_narrow_the_sets() -> None:
    few = sql().with_sets(GIVEN).narrowed([NarrowedSet("TOWN", ("Rom",))])
    assert few.accepts(b"SELECT Paris FROM Rom") is True
    assert few.accepts(b"SELECT Paris FROM Par") is False
    left = sql().with_sets(GIVEN).narrowed([NarrowedSet("TOWN", ("Rom",), True)])
    verdicts = text_verdicts(left, [b"SELECT Par FROM Rom", b"SELECT Par FROM Par"])
    assert [verdict["valid"] for verdict in verdicts] == [False, True]
    assert left.accepts(b"SELECT Paris FROM Rom") is False
    with pytest.raises(FieldError, match="holds no set 'VILLAGE'"):
        sql().with_sets(GIVEN).narrowed([NarrowedSet("VILLAGE", ("Rom",))])


def test_sets_that_are_not_given_or_not_held_are_refused() -> None:
    with pytest.raises(SetMissingError, match="'CITY'"):
        sql().session()
    with pytest.raises(UsageError, match="holds no set 'VILLAGE'"):
        sql().with_sets({"VILLAGE": GIVEN["TOWN"]})


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
def test_lexers_that_try_patterns_are_refused(lexer: str) -> None:
    with pytest.raises(GrammarUnsupportedError, match="no pattern that a lexer tries"):
        grammar_constraint("start: A\n%declare A\n", VOCABULARY, lexer=lexer)  # type: ignore[arg-type]


def test_sets_cannot_be_ignored() -> None:
    with pytest.raises(GrammarUnsupportedError, match="cannot be ignored"):
        grammar_constraint('start: "a" A\n%declare A\n%ignore A\n', VOCABULARY)


def test_sets_cannot_stand_within_terminals() -> None:
    with pytest.raises(CdecError):
        grammar_constraint('start: B\nB: "a" A\n%declare A\n', VOCABULARY)


def test_tokens_that_are_no_text_stand_for_no_member() -> None:
    session = sql().with_sets(GIVEN).session()
    state = session.advance_bytes(session.start(1), [b"SELECT "])
    assert int(session.advance(state, np.array([0xFF]))[0]) == DEAD
    assert int(session.advance_bytes(state, [b"\xff\x00"])[0]) == DEAD


def test_the_empty_text_is_no_terminal() -> None:
    ours = grammar_constraint('start: "<" A ">"\n%declare A\n', VOCABULARY)
    ours = ours.with_sets({"A": set_of("", "x")})
    session = ours.session()
    state = session.advance_bytes(session.start(1), [b"<"])
    assert int(session.advance_bytes(state, [b">"])[0]) == DEAD
    assert ours.accepts(b"<>") is False and ours.accepts(b"<x>") is True


@pytest.mark.parametrize(
    "changed",
    [
        {"cdec.sets": "{}"},
        {"cdec.sets": '["A", "A"]'},
        {"cdec.set_terminals": "[0]"},
        {"cdec.set_terminals": "[0, 99]"},
    ],
)
def test_damaged_names_are_refused(changed: dict[str, str]) -> None:
    ours = sql()
    columns = {name: np.asarray(array) for name, array in ours.arrays._asdict().items()}
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.set"):
        check_grammar_shape(columns, {**ours.metadata, **changed})

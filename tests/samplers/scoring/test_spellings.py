"""Sums of P over the spellings of texts, against enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.constraint import Constraint
from cdec.core.errors import LimitError, UntokenizableError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from cdec.samplers.scoring.spellings import SpellingSums
from cdec.samplers.scoring.ways import WaysConstraint, ways_to_spell, ways_within
from tests.laws.grammar_cases import compiled
from tests.laws.sessions import assert_session_laws
from tests.laws.worlds import toy_set
from tests.samplers.scoring.scores import checked, error_of

# --- A model over tokens that spell one text in many ways, two of them alike, with two end ids.

PIECES = [b"a", b"b", b"ab", b"ba", b"aa", b"aab", b"ab"]
VOCABULARY = Vocabulary([*PIECES, b"", b""], eos_token_ids=[7, 8], special_token_ids=[7, 8])
TOKENS = SortedTokens(VOCABULARY)
Row = tuple[int, ...]


def probabilities(prefix: Row) -> NDArray[np.float64]:
    weights = np.random.default_rng([3, *prefix]).gamma(0.5, size=9)
    weights[7:] *= 0.2
    law: NDArray[np.float64] = weights / weights.sum()
    return law


def spellings(text: bytes) -> Iterator[Row]:
    """Yield the token sequences that spell a text."""
    if not text:
        yield ()
    for token, piece in enumerate(PIECES):
        if text.startswith(piece):
            yield from ((token, *row) for row in spellings(text[len(piece) :]))


def log_p(row: Row, *, end: bool = True) -> float:
    total = sum(math.log(probabilities(row[:i])[token]) for i, token in enumerate(row))
    return total + math.log(probabilities(row)[7:].sum()) * end


def log_sum(rows: Sequence[Row], *, end: bool = True) -> float:
    return float(np.logaddexp.reduce([log_p(row, end=end) for row in rows]))


def score(
    texts: Sequence[str],
    constraint: Constraint | None = None,
    *,
    most: int = 10_000,
    **options: Any,
) -> list[Score]:
    model = TabularModel(probabilities, VOCABULARY)
    sums = SpellingSums(VOCABULARY, max_evaluations=most)
    rows = [next(spellings(text.encode())) for text in texts]
    requests = [ScoreRequest("", constraint, token_ids=row) for row in rows]
    return checked(Scorer(model, spellings=sums, **options).run(requests))


def record(found: Score) -> dict[str, Any]:
    return dict(found.to_json())


TEXTS = ["a", "ab", "aab", "abab", "aabaab", "babaabab", "aabbaabaab"]


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_the_sum_over_all_spellings_is_the_enumerated_one(text: str, end: bool) -> None:
    rows = list(spellings(text.encode()))
    found = record(score([text], end=end)[0])
    assert found["log_text_lower"] == pytest.approx(log_sum(rows, end=end), abs=1e-9)
    assert found["log_text_upper"] == pytest.approx(log_sum(rows, end=end), abs=1e-9)
    assert found["spellings"] <= len(rows)
    if len(rows) < 50:
        assert found["spellings"] == len(rows)


@pytest.mark.share(10)
@pytest.mark.parametrize("most", [1, 2, 5, 20])
@pytest.mark.parametrize("text", TEXTS)
def test_whatever_is_left_out_lies_between_the_bounds(text: str, most: int) -> None:
    truth = log_sum(list(spellings(text.encode())))
    found, all_of_it = (record(score([text], most=n)[0]) for n in (most, 10_000))
    assert found["spellings"] >= 1
    assert found["log_text_lower"] - 1e-9 <= truth <= found["log_text_upper"] + 1e-9
    assert found["log_text_lower"] >= found["logprob"] - 40
    assert all_of_it["log_text_lower"] >= found["log_text_lower"] - 1e-9


def test_a_budget_of_one_leaves_something_open() -> None:
    found = record(score(["babaabab"], most=1)[0])
    assert found["log_text_upper"] > found["log_text_lower"] + 1e-3


def test_texts_are_summed_together_as_alone() -> None:
    together = [found.spelling_sum for found in score(TEXTS, most=7)]
    assert together == [score([text], most=7)[0].spelling_sum for text in TEXTS]


GRAMMARS = ('start: ("ab" | "a")*', 'start: "a"* "b"* "a"*')


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("text", ["aab", "abaa", "a", "bbbab"])
def test_under_a_grammar_the_members_spellings_are_summed(
    grammar: str, text: str, tmp_path: Path
) -> None:
    constraint = compiled(grammar, tmp_path, VOCABULARY)
    found = record(score([text], constraint, max_new_tokens=20)[0])
    rows = [row for row in spellings(text.encode()) if follows(constraint, row)]
    assert found["member"] == bool(rows)
    if not rows:
        assert (found["spellings"], found["log_text_lower"]) == (0, None)
        assert found["text_probability_upper"] is None
        return
    assert found["spellings"] == len(rows) == len(list(spellings(text.encode())))
    assert found["log_text_lower"] == pytest.approx(log_sum(rows), abs=1e-9)
    assert found["log_text_upper"] == pytest.approx(log_sum(rows), abs=1e-9)
    assert found["text_probability_lower"] >= found["probability_lower"] - 1e-12
    assert found["text_probability_upper"] >= found["text_probability_lower"]


def follows(constraint: Constraint, row: Row) -> bool:
    """Say whether a constraint allows a row and its end."""
    session = constraint.session()
    state = session.start(1)
    for token in row:
        state = session.advance(state, [token])
    return bool(session.is_complete(state)[0])


def test_of_a_set_the_rows_that_are_members_are_summed() -> None:
    rows: list[Row] = [(0, 1), (2,), (1,), (3, 0)]
    constraint = toy_set(rows, VOCABULARY)
    found = record(score(["ab"], constraint)[0])
    assert found["spellings"] == 2
    assert found["log_text_lower"] == pytest.approx(log_sum([(0, 1), (2,)]), abs=1e-9)
    inside = log_sum([(0, 1), (2,)]) - log_sum(rows)
    assert found["text_probability_lower"] <= math.exp(inside) + 1e-9
    assert found["text_probability_upper"] >= math.exp(inside) - 1e-9


def test_the_empty_text_has_one_spelling() -> None:
    model = TabularModel(probabilities, VOCABULARY)
    sums = SpellingSums(VOCABULARY)
    (found,) = checked(Scorer(model, spellings=sums).run([ScoreRequest("", token_ids=())]))
    assert record(found)["spellings"] == 1
    assert record(found)["log_text_lower"] == pytest.approx(found.logprob)


def test_special_tokens_have_no_spellings() -> None:
    model = TabularModel(probabilities, VOCABULARY)
    request = ScoreRequest("", token_ids=(0, 7, 0))
    error = error_of(request, model, spellings=SpellingSums(VOCABULARY), end=False)
    assert isinstance(error, UntokenizableError)


def test_the_ways_within_a_constraint_are_those_it_follows(tmp_path: Path) -> None:
    constraint = compiled('start: ("ab" | "a")*', tmp_path, VOCABULARY)
    for text in (b"aab", b"abab", b"abb"):
        ways = ways_within(text, TOKENS, constraint.session())
        found = set(paths(ways))
        assert found == {row for row in spellings(text) if follows(constraint, row)}
        if found:
            assert_session_laws(WaysConstraint(ways, VOCABULARY), [], np.random.default_rng(0))


def paths(ways: Sequence[Any], place: int = 0) -> Iterator[Row]:
    """Yield the rows along ways."""
    if place in (len(ways), -2):
        yield ()
        return
    for token, to in ways[place].items():
        yield from ((token, *row) for row in paths(ways, to))


@pytest.mark.parametrize("ends_itself", [True, False])
def test_completions_score_as_their_tokens_do(ends_itself: bool) -> None:
    ways = ways_to_spell(b"aabab", TOKENS, ends_itself=ends_itself)
    scores = np.log(probabilities((0, 0)))
    session = WaysConstraint(ways, VOCABULARY).session()
    found = session.completions(scores, np.full(9, -1.5))
    assert found is not None
    states = np.arange(len(ways))
    rows = found.tokens(states, 9)
    for place, (row, total) in enumerate(zip(rows, found.totals(states), strict=True)):
        tokens = [token for token in row.tolist() if token >= 0]
        expected = float(scores[tokens].sum()) - 1.5 * (not ends_itself)
        assert total == pytest.approx(expected)
        best = max(scores[list(path)].sum() for path in paths(ways, place))
        assert scores[tokens].sum() == pytest.approx(best)


def test_a_constraint_of_too_many_states_is_refused() -> None:
    class Counting:
        """A session none of whose states are equal."""

        def __init__(self) -> None:
            self.count = 0

        def start(self, n: int) -> NDArray[np.int64]:
            return np.zeros(n, np.int64)

        def advance(self, states: Any, tokens: Any) -> NDArray[np.int64]:
            self.count += len(tokens)
            return np.arange(self.count - len(tokens) + 1, self.count + 1)

    with pytest.raises(LimitError, match="more than 256 states"):
        ways_within(b"ab" * 40, TOKENS, Counting())  # type: ignore[arg-type]


def test_warped_probabilities_are_summed() -> None:
    model = TabularModel(probabilities, VOCABULARY).with_warping(temperature=0.5)
    sums = SpellingSums(VOCABULARY)
    request = ScoreRequest("", token_ids=(0, 1))
    (found,) = checked(Scorer(model, spellings=sums, end=False).run([request]))

    def log_q(row: Row) -> float:
        total = 0.0
        for i, token in enumerate(row):
            law = probabilities(row[:i]) ** 2
            total += math.log(law[token] / law.sum())
        return total

    truth = float(np.logaddexp.reduce([log_q(row) for row in spellings(b"ab")]))
    assert record(found)["log_text_lower"] == pytest.approx(truth, abs=1e-9)

"""Members between two forced texts: every law of constraints, and the sequences one by one."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tokenizers import normalizers

from cdec.core.combine.framed import FramedConstraint
from cdec.core.constraint import Constraint, text_verdicts
from cdec.core.errors import UntokenizableError
from cdec.core.session import DEAD
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.scoring.score import Scorer, ScoreRequest
from tests.core.models.chat_models import CALL, END_CALL, byte_tokenizer
from tests.laws.constraints import assert_constraint_laws
from tests.laws.grammar_cases import compiled
from tests.laws.worlds import Row
from tests.samplers.free.two_stage import SPECIAL, World

S, E = SPECIAL
PIECES = (b"a", b"b", S, E, b"ab", b"|", b"|a", b"b|", b"a|")
WORLD = World(PIECES, (b"a", b"ab", b"ba"))
FRAMES = [("|", None), ("<s>", "<e>"), ("b|", "|"), ("<s>|", None), ("ab", "|<e>")]


def spelt(begin: str, closing: str | None) -> set[Row]:
    head, tail = (
        text.replace("<s>", S.decode("latin-1")).replace("<e>", E.decode("latin-1"))
        for text in (begin, closing or "")
    )
    wholes = [head.encode("latin-1") + member + tail.encode("latin-1") for member in WORLD.members]
    return set(itertools.chain(*map(WORLD.spellings, wholes)))


def sequences(constraint: Constraint, most: int) -> set[Row]:
    session = constraint.session()
    found, rows = set(), [((), int(session.start(1)[0]))]
    while rows:
        row, state = rows.pop()
        if bool(session.is_complete(np.array([state]))[0]):
            found.add(row)
        for token in range(len(PIECES)) if len(row) < most else ():
            after = int(session.advance(np.array([state]), np.array([token]))[0])
            if after != DEAD:
                rows.append(((*row, token), after))
    return found


@pytest.mark.parametrize(("begin", "closing"), FRAMES)
def test_token_sequences_are_the_spellings_of_framed_members(
    begin: str, closing: str | None
) -> None:
    constraint = FramedConstraint(WORLD.constraint(), begin, closing)
    members = spelt(begin, closing)
    assert sequences(constraint, 9) == members
    rows = sorted(members)
    assert_constraint_laws(constraint, rows, [row[:n] for row in rows for n in range(len(row))])


@pytest.mark.parametrize(("begin", "closing"), FRAMES)
def test_bounds_of_scores_close_on_the_enumerated_law(begin: str, closing: str | None) -> None:
    constraint, model = FramedConstraint(WORLD.constraint(), begin, closing), WORLD.model()
    rows = sorted(spelt(begin, closing))

    def probability(row: Row) -> float:
        steps = [WORLD.probabilities(row[:n])[token] for n, token in enumerate(row)]
        end = 1.0 if closing is not None else WORLD.probabilities(row)[-1]
        return float(np.prod(steps) * end)

    mass = sum(map(probability, rows))
    scores = Scorer(model).run([ScoreRequest("", constraint, token_ids=row) for row in rows])
    for row, score in zip(rows, scores, strict=True):
        assert score.valid and score.member and score.text.encode() in WORLD.members
        assert np.exp(score.logprob) == pytest.approx(probability(row), rel=1e-6)
        assert score.probability == pytest.approx(probability(row) / mass, rel=1e-5)


def test_a_text_is_given_with_what_stands_around_it_or_without(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_tokenizer(byte_tokenizer())
    inner = compiled('start: "x" | "y"', tmp_path, vocabulary)
    constraint = FramedConstraint(inner, "<tool_call>\n", "\n</tool_call>")
    ids = [CALL, *vocabulary.encode(["\nx\n"])[0], END_CALL]
    assert constraint.token_ids_of(b"x") == ids and constraint.member_text(ids) == b"x"
    texts = [b"x", b"\ny\n", b"z", b"\nz\n", b"\nx"]
    verdicts = list(text_verdicts(constraint, texts))
    assert [each["valid"] for each in verdicts] == [True, True, False, False, False]
    assert [each.get("byte") for each in verdicts] == [None, None, 0, 0, 0]
    assert constraint.content(b"\n") is None


def test_a_text_that_the_tokenizer_changes_has_no_tokens(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    constraint = FramedConstraint(compiled('start: "X"', tmp_path, vocabulary), "<tool_call>")
    with pytest.raises(UntokenizableError):
        constraint.token_ids_of(b"X")

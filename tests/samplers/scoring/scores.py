"""Scores of rows of a toy, for the tests of scoring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdec.core.errors import (
    CdecError,
)
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.worlds import Toy


def score(
    toy: Toy, rows: Sequence[Sequence[int]], *, model: Any = None, **options: Any
) -> list[Score]:
    """Score rows under a toy's set; errors are raised."""
    requests = [ScoreRequest("", toy.constraint, token_ids=row) for row in rows]
    return checked(Scorer(model or toy.model(), **options).run(requests))


def checked(results: Sequence[Score | CdecError]) -> list[Score]:
    """Return results that are no errors."""
    scores = []
    for result in results:
        if isinstance(result, CdecError):
            raise result
        scores.append(result)
    return scores


def error_of(request: ScoreRequest, model: Any, **options: Any) -> CdecError:
    """Return the error that one text meets."""
    (result,) = Scorer(model, **options).run([request])
    assert isinstance(result, CdecError)
    return result

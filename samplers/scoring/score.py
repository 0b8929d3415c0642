"""Scoring: what a model and a constraint say of given texts, without drawing any.

log P(w), the sum of log Z along w (so the probability that masked decoding gives w), membership,
perplexity, and certified bounds of Q(w) = P(w) / P(S) from what was scored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.errors import CdecError, ContextLengthError, UsageError
from cdec.core.options import LARGEST_COUNT, Option
from cdec.samplers.learning.tree.bracket import Bracket
from cdec.samplers.request import MAX_NEW_TOKENS, Request
from cdec.samplers.scoring.bracket import mass_brackets
from cdec.samplers.scoring.paths import CHUNK_BYTES, PathScores, score_paths
from cdec.samplers.scoring.result import Score, ScoreRequest
from cdec.samplers.scoring.texts import Reading, read, token_ids_of
from cdec.samplers.walks.batch import FREE, Batch

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel
    from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["Score", "ScoreRequest", "Scorer"]

_UNBOUNDED = LARGEST_COUNT
_CANDIDATES = Option(name="candidates", type=int, default=0, unit="candidates", at_least=0)


class Scorer:
    """Scores texts under a model and, each, a constraint.

    The bracket of P(S) comes from the prefixes and the distinct members among the texts of one call
    that share prompt, constraint and pool, and from masked candidates if some are asked for.

    Args:
        model: Its warping belongs to every probability.
        candidates: Masked candidates drawn for each prompt and constraint, to narrow the bracket.
        max_new_tokens: Longest member in tokens, as a sampler that was given the same takes it:
            there only the end event is allowed. None leaves it to the constraint and the model.
        end: Whether texts without constraint count their end event.
        chunk_bytes: Most bytes of distributions evaluated at a time; changes no score.

    Raises:
        UsageError: A number below its range.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        candidates: int = 0,
        max_new_tokens: int | None = None,
        end: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._model = model
        self._candidates = _CANDIDATES.check(candidates)
        self._max_new_tokens = MAX_NEW_TOKENS.check(max_new_tokens)
        self._end = end
        self._chunk_bytes = chunk_bytes

    def run(self, requests: Sequence[ScoreRequest]) -> list[Score | CdecError]:
        """Score texts.

        Returns:
            For each request its score, or the error it met. Cost: one forward pass over the
            distinct prefixes of all texts, more only where they fill ``chunk_bytes``.
        """
        groups = _groups(requests)
        results: dict[int, Score | CdecError] = {}
        self._run_groups(requests, groups, results)
        return [results[i] for i in range(len(requests))]

    def _run_groups(
        self,
        requests: Sequence[ScoreRequest],
        groups: Sequence[Sequence[int]],
        results: dict[int, Score | CdecError],
    ) -> None:
        try:
            results.update(self._scored(requests, groups))
        except CdecError as error:
            if len(groups) == 1:
                results.update(dict.fromkeys(groups[0], error))
                return
            # One prompt failed and took the others with it: each alone, then.
            for group in groups:
                self._run_groups(requests, [group], results)

    def _scored(
        self, requests: Sequence[ScoreRequest], groups: Sequence[Sequence[int]]
    ) -> dict[int, Score | CdecError]:
        results: dict[int, Score | CdecError] = {}
        with Batch(self._model, [self._opened(requests[group[0]]) for group in groups]) as batch:
            texts: list[int] = []
            rows: list[list[int]] = []
            owners: list[int] = []
            for number, group in enumerate(groups):
                for i in group:
                    try:
                        row = self._row(batch, number, requests[i])
                    except CdecError as error:
                        results[i] = error
                        continue
                    texts.append(i)
                    rows.append(row)
                    owners.append(number)
            if not texts:
                return results
            owner = np.array(owners, np.int64)
            options = {"free_end": self._end, "chunk_bytes": self._chunk_bytes}
            scores = score_paths(batch, owner, rows, **options)  # type: ignore[arg-type]
            brackets = mass_brackets(batch, scores, self._candidates)
            for place, (i, row) in enumerate(zip(texts, rows, strict=True)):
                bracket = brackets.get(owners[place], Bracket())
                results[i] = self._score(requests[i], row, scores, place, bracket)
        return results

    def _opened(self, request: ScoreRequest) -> Request:
        constraint = request.constraint
        limit = self._max_new_tokens
        if limit is None and (constraint is None or constraint.max_tokens is None):
            limit = _UNBOUNDED
        return Request(request.prompt, constraint, [request.seed], max_new_tokens=limit)

    def _row(self, batch: Batch, number: int, request: ScoreRequest) -> list[int]:
        """Return the tokens of one text.

        Raises:
            CdecError: Its prompt or constraint could not be opened, it is no text of the
                vocabulary, or does not fit the model's context.
        """
        if number in batch.errors:
            raise batch.errors[number]
        is_free = batch.session_of[number] == FREE
        if self._candidates and not is_free and batch.limits[number] >= _UNBOUNDED:
            raise UsageError(
                "candidates of this constraint and model have no longest length",
                hint="Give max_new_tokens.",
            )
        vocabulary = self._model.vocabulary
        row = token_ids_of(vocabulary, request.constraint, request.text, request.token_ids)
        room = self._model.max_new_tokens(int(batch.roots[number]))
        if room is not None and len(row) > room:
            raise ContextLengthError(
                f"the text has {len(row)} tokens, the model's context has room for {room} behind "
                "the prompt",
                hint="Shorten the text or the prompt.",
                length=len(row),
                limit=room,
            )
        return row

    def _score(
        self,
        request: ScoreRequest,
        row: list[int],
        scores: PathScores,
        place: int,
        bracket: Bracket,
    ) -> Score:
        vocabulary, constraint = self._model.vocabulary, request.constraint
        refused = int(scores.refused[place])
        reading: Reading = read(
            vocabulary,
            constraint,
            request.text,
            row,
            is_member=refused < 0,
            is_spelt=request.token_ids is None,
        )
        plain = {
            "text": reading.text,
            "token_ids": row,
            "tokens": _token_texts(vocabulary, row),
            "scored_text": vocabulary.decode(row).decode("utf-8", "replace"),
            "logprob": _finite(scores.log_p[place]),
            "events": int(scores.events[place]),
        }
        if constraint is None:
            return Score(**plain)  # type: ignore[arg-type]
        byte = len(vocabulary.decode(row[: max(refused, 0)]))
        return Score(
            **plain,  # type: ignore[arg-type]
            is_constrained=True,
            log_z_sum=_finite(scores.log_z[place]),
            member=refused < 0,
            valid=reading.valid,
            first_refused=None if refused < 0 else {"token": refused, "byte": byte},
            bracket=bracket,
            annotations=reading.annotations,
        )


def _groups(requests: Sequence[ScoreRequest]) -> list[list[int]]:
    """Group texts that share prompt, constraint and pool, in the order of their first ones."""
    groups: dict[tuple[str, Constraint | None, int], list[int]] = {}
    for i, request in enumerate(requests):
        prompt = request.prompt
        # subtle: texts get a mark, so that none is taken for the tokens or messages it spells.
        shown = "t" + prompt if isinstance(prompt, str) else "r" + repr(list(prompt))
        groups.setdefault((shown, request.constraint, request.pool), []).append(i)
    return list(groups.values())


def _token_texts(vocabulary: Vocabulary, row: Sequence[int]) -> list[str]:
    return [vocabulary.decode((token,)).decode("utf-8", "backslashreplace") for token in row]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""Scores of given texts under a model and a constraint, without drawing any.

log P(w), the sum of log Z along w (so the probability that masked decoding gives w), membership,
perplexity, and certified bounds of Q(w) = P(w) / P(S) from what was scored, with masked candidates
or without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError, ContextLengthError, UsageError
from cdec.core.options import LARGEST_COUNT, Option
from cdec.samplers.options import DEFAULT_MAX_WALKS
from cdec.samplers.prefix_tree import Bracket, Visit
from cdec.samplers.request import MAX_NEW_TOKENS, Request
from cdec.samplers.scoring.paths import CHUNK_BYTES, PathScores, score_paths
from cdec.samplers.scoring.spellings import SpellingSum, SpellingSums
from cdec.samplers.scoring.texts import Reading, read, token_ids_of
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, draw_candidates

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.scoring.ways import Ways


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One text to score.

    Attributes:
        prompt: Text, token ids or chat messages.
        constraint: What the text is held to; None for the model alone.
        text: As ``Constraint.text_of`` takes it: what the artifact puts around members, such as a
            leading blank, may be there or not.
        token_ids: Its tokens, forced ones included; scored as they are. One of the two is needed.
        seed: Of the candidates, if it is the first text of its prompt.
        pool: Texts of one prompt and constraint share their bounds within a pool.
    """

    prompt: Prompt
    constraint: Constraint | None = None
    text: str | None = None
    token_ids: Sequence[int] | None = None
    seed: int = 0
    pool: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one text; natural logs, None where a number is not known or not finite.

    Attributes:
        text: As given, or what the ids spell.
        token_ids: What was scored; the end id not among them.
        tokens: Their texts; bytes that are no UTF-8 as ``\\xNN``.
        scored_text: What they spell together: with what the artifact puts around ``text``.
        logprob: The model's unmasked log probability of the tokens and of the end event (all end
            ids together). None where the model gives them none at all.
        events: How many events that is.
        is_constrained: Whether the fields below apply.
        log_z_sum: Sum of log Z over the events; None where one is not allowed.
        member: Whether every event is allowed.
        valid: Verdict of a check independent of the walk; None if it ran out of time.
        first_refused: Of others: ``token`` (position of the first event that is not allowed, the
            number of tokens for the end) and ``byte`` (bytes before it), both from 0.
        bracket: Certified, of P(S).
        annotations: Fields of the constraint, such as ``entity_ids``.
        spelling_sum: Sum of P over the spellings of ``scored_text``; None where nobody asked.
    """

    text: str
    token_ids: Sequence[int]
    tokens: Sequence[str]
    scored_text: str
    logprob: float | None
    events: int
    is_constrained: bool = False
    log_z_sum: float | None = None
    member: bool | None = None
    valid: bool | None = None
    first_refused: Mapping[str, int] | None = None
    bracket: Bracket = field(default_factory=Bracket)
    annotations: Mapping[str, object] = field(default_factory=dict)
    spelling_sum: SpellingSum | None = None

    @property
    def perplexity(self) -> float | None:
        """exp(-logprob / events); None where either is missing."""
        if self.logprob is None or not self.events:
            return None
        exponent = -self.logprob / self.events
        return math.exp(exponent) if exponent < 700 else None

    @property
    def log_masked(self) -> float | None:
        """Log of the probability that masked decoding draws this text; None for never."""
        if self.logprob is None or self.log_z_sum is None:
            return None
        return min(0.0, self.logprob - self.log_z_sum)

    @property
    def probability(self) -> float | None:
        """Q of the text, where P(S) is known; None for non-members."""
        return self._of_q["probability"]

    @property
    def probability_lower(self) -> float | None:
        """Certified lower bound of Q of the text; None for non-members."""
        return self._of_q["probability_lower"]

    @property
    def probability_upper(self) -> float | None:
        """Certified upper bound of Q of the text; None for non-members."""
        return self._of_q["probability_upper"]

    @property
    def log_mass_lower(self) -> float | None:
        """Certified lower bound of log P(S); None for no mass."""
        return self.bracket.fields()["log_mass_lower"]

    @property
    def log_mass_upper(self) -> float | None:
        """Certified upper bound of log P(S); None for no mass."""
        return self.bracket.fields()["log_mass_upper"]

    @property
    def _of_q(self) -> dict[str, float | None]:
        return self.bracket.probability_of(self.logprob if self.member else None)

    def to_json(self) -> dict[str, object]:
        """Return one JSON-ready object, keys in the documented order."""
        record: dict[str, object] = {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "tokens": list(self.tokens),
            "scored_text": self.scored_text,
            **self.annotations,
            "logprob": self.logprob,
            "perplexity": self.perplexity,
            "events": self.events,
        }
        if self.spelling_sum is not None:
            record |= self.spelling_sum.fields(self.bracket if self.is_constrained else None)
        if not self.is_constrained:
            return record
        record |= {
            "log_z_sum": self.log_z_sum,
            "log_masked": self.log_masked,
            "member": self.member,
            "valid": self.valid,
        }
        if self.first_refused is not None:
            record["first_refused"] = dict(self.first_refused)
        return record | self.bracket.fields() | self._of_q


def mass_brackets(batch: Batch, scores: PathScores, candidates: int) -> dict[int, Bracket]:
    """Return the bracket of P(S) of every constrained request.

    The lower bound sums the distinct members along the scored and drawn paths, the upper one is
    c(root) of the prefixes evaluated under a mask.

    Args:
        batch: Open requests, one draw each.
        scores: Of their paths.
        candidates: Masked candidates to draw for each request.
    """
    _visit(batch, scores)
    constrained = np.flatnonzero((batch.session_of != UNCONSTRAINED) & (batch.roots >= 0))
    draws = np.flatnonzero(np.isin(batch.draw_request, constrained))
    if draws.size:
        # A chunk's walks decode together; they write what they see into the tree.
        for numbers in chunks(candidates, DEFAULT_MAX_WALKS // len(draws)):
            uniforms = candidate_uniforms(batch, draws, len(numbers), int(numbers[0]))
            draw_candidates(batch, draws, uniforms)
    return {
        number: batch.tree.bounds(number, int(batch.roots[number]))
        for number in constrained.tolist()
    }


def _visit(batch: Batch, scores: PathScores) -> None:
    """Record what was evaluated under a mask, and the texts that their constraint ended."""
    nodes = replace(scores.nodes.frontier, log_edge=scores.log_edge, log_prefix=_prefixes(scores))
    inside = np.flatnonzero(scores.is_masked)
    log_z = np.minimum(scores.node_log_z[inside], 0.0)
    batch.tree.visit(nodes.take(inside), Visit(log_z, log_end=scores.node_log_end[inside]))
    ended = np.flatnonzero(scores.nodes.has_ended)
    seen = Visit(np.zeros(len(ended)), evaluated=False, terminal=True)
    batch.tree.visit(nodes.take(ended), seen)


def _prefixes(scores: PathScores) -> NDArray[np.float64]:
    """Return log P of all tokens of each node, float64[N]."""
    parent, depth = scores.nodes.parent, scores.nodes.frontier.depth
    total = scores.log_edge.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(depth == level)
        total[here] += total[parent[here]]
    return total


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
        spellings: Sums P over the spellings of each text; None for no sums.

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
        spellings: SpellingSums | None = None,
    ) -> None:
        self._model = model
        self._candidates = _CANDIDATES.check(candidates)
        self._max_new_tokens = MAX_NEW_TOKENS.check(max_new_tokens)
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._spellings = spellings

    def run(self, requests: Sequence[ScoreRequest]) -> list[Score | CdecError]:
        """Score texts.

        Returns:
            For each request its score, or the error it met. Cost: one forward pass over the
            distinct prefixes of all texts, more only where they fill ``chunk_bytes``; and that of
            ``SpellingSums.run``, where asked for.
        """
        groups = _groups(requests)
        results: dict[int, Score | CdecError] = {}
        self._run_groups(requests, groups, results)
        if self._spellings is not None:
            results |= self._summed(requests, results, self._spellings)
        return [results[i] for i in range(len(requests))]

    def _summed(
        self,
        requests: Sequence[ScoreRequest],
        results: Mapping[int, Score | CdecError],
        sums: SpellingSums,
    ) -> dict[int, Score | CdecError]:
        """Return the scores with the sums over spellings, or the errors that these met."""
        summed: dict[int, Score | CdecError] = {}
        asked: dict[int, tuple[Score, Ways]] = {}
        for i, score in results.items():
            if isinstance(score, CdecError):
                continue
            try:
                ways = sums.ways(score.token_ids, requests[i].constraint, end=self._end)
            except CdecError as error:
                summed[i] = error
                continue
            if ways:
                asked[i] = score, ways
            else:
                summed[i] = replace(score, spelling_sum=_only_spelling(score))
        found = sums.run(
            self._model,
            [requests[i].prompt for i in asked],
            [ways for _, ways in asked.values()],
            max_new_tokens=self._max_new_tokens,
        )
        for (i, (score, _)), spelling_sum in zip(asked.items(), found, strict=True):
            summed[i] = replace(score, spelling_sum=spelling_sum)
        return summed

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
        is_unconstrained = batch.session_of[number] == UNCONSTRAINED
        if self._candidates and not is_unconstrained and batch.limits[number] >= _UNBOUNDED:
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


def _only_spelling(score: Score) -> SpellingSum:
    """Return the sum of the empty text, which has one spelling."""
    log = -math.inf if score.logprob is None or score.member is False else score.logprob
    return SpellingSum(int(log > -math.inf), Bracket(log, log))


def _token_texts(vocabulary: Vocabulary, row: Sequence[int]) -> list[str]:
    return [vocabulary.decode((token,)).decode("utf-8", "backslashreplace") for token in row]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

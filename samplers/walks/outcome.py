"""Outcomes: one candidate chosen for every draw, and the samples made of it.

Texts, verdicts and annotations are computed once for each distinct token sequence of a record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import carried, said_of_held
from cdec.core.sample import FINISH_BUDGET, Sample
from cdec.core.text_warnings import LEAST_Z, low_z
from cdec.samplers.loops import loop_warnings
from cdec.samplers.prefix_tree import EVALUATED, IN_RUN, Bracket
from cdec.samplers.walks.candidates import COMPLETE, FINISH_REASONS, Candidates

if TYPE_CHECKING:
    from cdec.core.errors import CdecError
    from cdec.samplers.request import Request
    from cdec.samplers.walks.batch import Batch


@dataclass(frozen=True, slots=True)
class Outcome:
    """One chosen candidate for every draw of a batch, D of them.

    Attributes:
        chosen: D candidates.
        exactness: Of the records; or one a draw.
        log_weight: float64[D], NaN for null.
        log_candidate_weight: float64[D], NaN for null.
        per_draw: Further fields, D values each, JSON-ready.
        per_request: Further fields that all samples of a record share, by number of the request;
            where the bounds of P(S) are among them, samples have their probability under Q.
        wasted: Prefixes that were evaluated for each draw and never visited; None for none.
        passed_over: Tokens that each draw's passes read where nothing was asked; None for none.
        calls: Target calls of each draw that the visited prefixes do not show; None for none.
        owners: By number of the request: int64[candidates] draw that each candidate belongs to,
            where walks are numbered by candidate; else they are numbered by draw.
        seeds: Of each draw, if not the batch's: draws that share candidates share their seed.
        over_budget: bool[D] draws that a budget cut off; None for none.
        absent: bool[D] draws for which there is no text left, and no sample; None for none.
        warnings: By draw, what its record warns of besides the text.
    """

    chosen: Candidates
    exactness: str | Sequence[str]
    log_weight: NDArray[np.float64]
    log_candidate_weight: NDArray[np.float64]
    per_draw: Mapping[str, Sequence[object]] = field(default_factory=dict)
    per_request: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    wasted: Sequence[int] | None = None
    passed_over: Sequence[int] | None = None
    calls: Sequence[int] | None = None
    owners: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    over_budget: NDArray[np.bool_] | None = None
    absent: NDArray[np.bool_] | None = None
    warnings: Mapping[int, Mapping[str, object]] = field(default_factory=dict)

    def is_absent(self, row: int) -> bool:
        """Say whether the draw at ``row`` has no sample."""
        return self.absent is not None and bool(self.absent[row])

    def is_unknown(self, row: int) -> bool:
        """Say whether a budget ended the draw at ``row`` before there was any text."""
        is_cut = self.over_budget is not None and bool(self.over_budget[row])
        return is_cut and bool(self.chosen.last[row] < 0)


@dataclass(frozen=True, slots=True)
class _Finished:
    text: str | None
    token_ids: list[int]
    valid: bool | None
    annotations: Mapping[str, object]
    loops: Sequence[Mapping[str, object]] = ()


_UNKNOWN = _Finished(None, [], None, {})
"""Of a draw that a budget ended before there was any text: none is invented."""


def build_samples(method: str, batch: Batch, outcome: Outcome) -> list[list[Sample] | CdecError]:
    """Return for each request its samples in draw order, or its error."""
    visited = batch.tree.visited()
    visited = visited[np.argsort(batch.tree["request"][visited], kind="stable")]
    least = batch.tree.least_steps(outcome.chosen.last, outcome.chosen.is_complete)
    results: list[list[Sample] | CdecError] = []
    for number in range(len(batch.requests)):
        if number in batch.errors:
            results.append(batch.errors[number])
        else:
            results.append(_record_samples(method, batch, outcome, visited, least, number))
    return results


def _record_samples(
    method: str,
    batch: Batch,
    outcome: Outcome,
    visited: NDArray[np.int64],
    least: tuple[NDArray[np.float64], NDArray[np.int64]],
    number: int,
) -> list[Sample]:
    request = batch.requests[number]
    rows = np.flatnonzero(batch.draw_request == number)
    costs = _costs(batch, visited, number, rows, outcome)
    texts = _Texts(batch, request)
    shared = outcome.per_request.get(number, {})
    # An over-tight mask must show in the record.
    lookahead = None if request.constraint is None else request.constraint.facts.lookahead
    tightened: dict[str, object] = {} if lookahead is None else {"lookahead": lookahead}
    prefill = None if request.constraint is None else request.constraint.facts.prefill
    tightened |= {} if prefill is None else {"prefill": prefill}
    tightened |= said_of_held(request.constraint)
    indices = request.indices if request.indices is not None else range(len(rows))
    exactness = outcome.exactness
    known = "log_mass_upper" in shared
    bracket = batch.tree.bounds(number, int(batch.roots[number])) if known else Bracket()
    seeds = batch.seeds if outcome.seeds is None else outcome.seeds
    samples = []
    for position, (row, index) in enumerate(zip(rows.tolist(), indices, strict=True)):
        if outcome.is_absent(row):
            continue
        finished = _UNKNOWN if outcome.is_unknown(row) else texts.of(outcome, row)
        own = {name: values[row] for name, values in outcome.per_draw.items()}
        is_complete = outcome.chosen.finish[row] == COMPLETE
        logprob = float(outcome.chosen.log_p[row]) if is_complete else None
        # Without a normaliser nothing is said of Q; a draw may know more than its record.
        q = bracket.probability_of(logprob) if known else {}
        samples.append(
            Sample(
                id=request.id,
                index=index,
                text=finished.text,
                token_ids=finished.token_ids,
                logprob=logprob,
                log_weight=_null_if_nan(outcome.log_weight[row]),
                log_candidate_weight=_null_if_nan(outcome.log_candidate_weight[row]),
                finish_reason=_finish_reason(outcome, row),
                valid=finished.valid,
                method=method,
                exactness=exactness if isinstance(exactness, str) else exactness[row],
                seed=seeds[row],
                diagnostics={**q, **own, **shared, **costs[position], **tightened},
                annotations=finished.annotations,
                input=request.input,
                warnings=[
                    *([outcome.warnings[row]] if row in outcome.warnings else []),
                    *texts.low_z(finished, least[0][row], least[1][row]),
                    *finished.loops,
                ],
                reader=None if request.constraint is None else request.constraint.facts.reader,
            )
        )
    return samples


def _finish_reason(outcome: Outcome, row: int) -> str:
    if outcome.over_budget is not None and outcome.over_budget[row]:
        return FINISH_BUDGET
    return FINISH_REASONS[outcome.chosen.finish[row]]


class _Texts:
    """Texts of one record, each distinct token sequence decoded and checked once."""

    def __init__(self, batch: Batch, request: Request) -> None:
        self._vocabulary = batch.model.vocabulary
        self._constraint = request.constraint
        self._masks = batch.masks
        self._known: dict[tuple[bytes, bool, bool], _Finished] = {}

    def of(self, outcome: Outcome, row: int) -> _Finished:
        """Return the text of the draw at ``row``."""
        chosen = outcome.chosen
        tokens: NDArray[Any] = chosen.tokens[row, : chosen.lengths[row]]
        is_complete = bool(chosen.finish[row] == COMPLETE)
        is_text = bool(chosen.is_text[row])
        key = (tokens.tobytes(), is_complete, is_text)
        if key not in self._known:
            self._known[key] = self._finish(tokens.tolist(), is_complete, is_text)
        return self._known[key]

    def _finish(self, token_ids: list[int], is_complete: bool, is_text: bool) -> _Finished:
        constraint = self._constraint
        text = self._vocabulary.decode(token_ids)
        loops = loop_warnings(self._vocabulary, token_ids, text)
        valid: bool | None = None
        annotations: Mapping[str, object] = {}
        if constraint is not None:
            # What a mask led is a member or the beginning of one; a free walk is only if so marked.
            is_led = is_text or self._masks
            if is_led:
                member: bytes | None = constraint.member_text(token_ids)
            elif self._vocabulary.is_ordinary[token_ids].all():
                member = constraint.content(text)
            else:
                # subtle: special and padding ids have no bytes, so the text would not show them.
                member = None
            # A text that was cut, or got stuck, took no end event: it is no member.
            valid = constraint.accepts(member) if is_complete and member is not None else False
            text = member if member is not None else constraint.facts.begun + text
            annotations = carried(constraint, text, is_member=bool(valid))
        shown = text.decode("utf-8", errors="replace")
        return _Finished(shown, token_ids, valid, annotations, loops)

    def low_z(self, finished: _Finished, log_z: float, tokens: int) -> list[dict[str, object]]:
        """Return the warning of a text whose least log Z, after some tokens, is too low."""
        if log_z >= math.log(LEAST_Z):
            return []
        before = self._vocabulary.decode(finished.token_ids[:tokens])
        return [low_z(int(tokens), len(before), float(log_z))]


def _costs(
    batch: Batch,
    visited: NDArray[np.int64],
    number: int,
    rows: NDArray[np.int64],
    outcome: Outcome,
) -> list[dict[str, int]]:
    """Return the cost fields of each draw (rows int64[n]); the prompt is charged to the first.

    A call is one sequence in one forward pass, as this record alone needs them: a prefix with the
    run that follows it. What was guessed in vain (``wasted``) was evaluated as well.

    Every distinct prefix belongs to the lowest draw that reached it, so the sums are what the
    record computed and nothing depends on batching.
    """
    n, owners = len(rows), outcome.owners.get(number)
    wasted, passed_over, more = (
        np.zeros(n, np.int64) if extra is None else np.asarray(extra, np.int64)[rows]
        for extra in (outcome.wasted, outcome.passed_over, outcome.calls)
    )
    request = batch.tree["request"][visited]
    mine = visited[slice(*np.searchsorted(request, [number, number + 1]))]
    mine = mine[batch.tree["flags"][mine] & EVALUATED > 0]
    is_call = batch.tree["flags"][mine] & IN_RUN == 0
    draws = batch.tree["draw"][mine]
    if owners is not None:
        draws = owners[draws]
    asking = np.flatnonzero(batch.path_calls[number])
    payers = asking if owners is None else owners[asking]
    paths = np.bincount(payers, batch.path_calls[number, asking], minlength=n).astype(np.int64)
    evaluations = np.bincount(draws, minlength=n) + wasted
    calls = np.bincount(draws[is_call], minlength=n) + more
    tokens = evaluations + passed_over
    if draws.size:
        # The root's evaluation reads the whole prompt, every other one a single token.
        tokens[draws.min()] += int(batch.prompt_lengths[number]) - 1
    columns = (calls.tolist(), paths.tolist(), tokens.tolist(), evaluations.tolist())
    names = ("target_calls", "path_calls", "target_tokens", "distinct_evaluations")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _null_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)

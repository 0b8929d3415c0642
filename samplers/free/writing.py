"""Free parts: drawn from the model's law, or its most probable events, up to a marker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.combine.free_part import Reached
from cdec.core.errors import CdecError
from cdec.core.sample import FINISH_COMPLETE
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, decode
from cdec.samplers.walks.outcome import Outcome, build_samples

if TYPE_CHECKING:
    from cdec.core.combine.free_part import FreePart
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.samplers.base import Observer, Sampler
    from cdec.samplers.request import Request

_WALKS = 2048
"""Texts that decode together; bounds memory, changes no result."""


@dataclass(frozen=True)
class Written:
    """A free part, or as much of it as was drawn.

    Attributes:
        sample: Its tokens, and how it ended; what an observer wrote into it.
        read: The marker that it reached; the state of the markers where it reached none.
        log_p: Log P of its tokens.
        log_end: Log P of the end of the text, where that came without a marker; else 0.
        log_z: Sum of log Z over its events; -inf where it was cut.
    """

    sample: Sample
    read: int | Reached
    log_p: float
    log_end: float
    log_z: float


def write(
    model: LanguageModel,
    requests: Sequence[Request],
    parts: Sequence[FreePart],
    kept: ExitStack,
    sampler: Sampler,
    observer: Observer | None = None,
) -> list[list[Written] | CdecError]:
    """Draw free parts.

    Args:
        model: The language model.
        requests: What is asked for; their constraints are of no account.
        parts: What each request's texts are held to.
        kept: Closes what stays open of them in the model, from which the next parts are read on.
        sampler: Free text takes the most probable events, or ends in loops, where it does.
        observer: Is shown what was drawn.

    Returns:
        For each request its parts in draw order, or its error.
    """
    held = [replace(r, constraint=part) for r, part in zip(requests, parts, strict=True)]
    try:
        view = model if observer is None else observer.watched(model)
        told = None if observer is None else observer.told
        batch = kept.enter_context(Batch(view, held, stop_loops=sampler.stop_loops, told=told))
        if not batch.seeds:
            return [batch.errors.get(i, []) for i in range(len(requests))]
        return _written(batch, parts, sampler.takes_most_probable, observer)
    except CdecError as error:
        if len(requests) == 1:
            return [error]
        alone = zip(requests, parts, strict=True)
        return [write(model, [r], [part], kept, sampler, observer)[0] for r, part in alone]


def _written(
    batch: Batch, parts: Sequence[FreePart], is_greedy: bool, observer: Observer | None
) -> list[list[Written] | CdecError]:
    drawn = []
    for draws in chunks(len(batch.seeds), _WALKS):
        uniforms = None if is_greedy else candidate_uniforms(batch, draws, 1)
        drawn.append(decode(batch, batch.draw_request[draws], batch.draw_index[draws], uniforms))
    chosen = concatenate(drawn)
    unknown = np.full(len(chosen.lengths), np.nan)
    outcome = Outcome(chosen, "exact", unknown, unknown)
    results = build_samples("free text", batch, outcome)
    if observer is not None:
        observer.note(batch, outcome, results)
    written: list[list[Written] | CdecError] = []
    for number, samples in enumerate(results):
        if isinstance(samples, CdecError):
            written.append(samples)
            continue
        own = []
        rows = np.flatnonzero(batch.draw_request == number).tolist()
        for sample, row in zip(samples, rows, strict=True):
            read = parts[number].read(sample.token_ids)
            has_ended = sample.finish_reason == FINISH_COMPLETE and not isinstance(read, Reached)
            log_end = _log_end(batch, int(chosen.last[row])) if has_ended else 0.0
            log_p, log_z = float(chosen.log_p[row]) - log_end, float(chosen.log_x[row])
            own.append(Written(sample, read, log_p, log_end, log_z))
        written.append(own)
    return written


def _log_end(batch: Batch, context: int) -> float:
    """Return log P of the end of the text in a context that was evaluated before."""
    scores = batch.to_host(batch.model.next_logprobs(np.array([context], np.int64)))
    return float(np.logaddexp.reduce(scores[0, batch.end_ids].astype(np.float64)))

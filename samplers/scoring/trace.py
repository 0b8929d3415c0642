"""Traces: the model's wishes at every token of a sample, and what the constraint left of them.

The path of each returned sample is walked again in the model's own distributions, which the walk
has just computed and which are still kept; so every method has a trace, and no method knows of it.
A method that draws several candidates is traced along the one that it returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError
from cdec.core.shown import TraceLines
from cdec.samplers.rewards.base import prompt_of
from cdec.samplers.scoring.paths import CHUNK_BYTES, Nodes, walk
from cdec.samplers.walks.candidates import COMPLETE, STUCK
from cdec.samplers.walks.events import allowed_ids, host_scores
from cdec.samplers.walks.frontier import Step

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.candidates import Told
    from cdec.samplers.walks.outcome import Outcome

MOST_SHOWN = 5
"""Alternatives that a line lists, allowed ones and forbidden ones."""
TOKEN, ENDING, NOTHING = "token", "end", "none"
"""Subject of a line: a token, the end of the text, or that nothing was allowed any more."""


class Tracer:
    """An observer that writes ``Sample.trace``: one line a token, and one for the end event.

    The first line of a sample names its method and its prompt, or messages, as they were asked.

    Args:
        shown: Most alternatives listed with each token.
    """

    told: Told | None = None

    def __init__(self, shown: int = MOST_SHOWN) -> None:
        self._shown = shown
        self._passes = 0
        self._evaluated: dict[int, tuple[int, float]] = {}

    def watched(self, model: LanguageModel) -> LanguageModel:
        """Return a view of the model that tells how long its passes take."""
        self._evaluated = {}
        return model.watched(self._saw)

    def _saw(self, contexts: NDArray[np.int64], seconds: float) -> None:
        self._passes += 1
        self._evaluated.update(dict.fromkeys(contexts.tolist(), (self._passes, seconds)))

    def note_joined(self, results: Sequence[list[Sample] | CdecError]) -> None:
        """Do nothing: the lines of parts are joined by what joins them."""

    def note(
        self, batch: Batch, outcome: Outcome, results: Sequence[list[Sample] | CdecError]
    ) -> None:
        """Write the trace of every sample; as ``Observer``.

        Cost: one row of V scores a distinct prefix; those that the model's cache has dropped are
        evaluated again.
        """
        chosen, evaluated = outcome.chosen, dict(self._evaluated)
        rows = [row for row in range(len(batch.draw_request)) if not outcome.is_unknown(row)]
        if not rows:
            return
        tokens = [chosen.tokens[row, : chosen.lengths[row]].tolist() for row in rows]
        nodes = walk(batch, batch.draw_request[rows], tokens)
        steps = _Steps(batch, nodes, self._shown)
        places = {row: place for place, row in enumerate(rows)}
        prompts = [prompt_of(request, batch.model.vocabulary) for request in batch.requests]
        for number, found in enumerate(results):
            if isinstance(found, CdecError):
                continue
            mine = np.flatnonzero(batch.draw_request == number).tolist()
            for row, sample in zip(mine, found, strict=True):
                if row in places:
                    path = nodes.paths[places[row], : chosen.lengths[row] + 1]
                    lines = steps.of(path, tokens[places[row]], int(chosen.finish[row]))
                    about = {"method": sample.method, "prompt": prompts[number]}
                    sample.trace = TraceLines(
                        {
                            "id": sample.id,
                            "index": sample.index,
                            "position": position,
                            **({} if position else about),
                            **line,
                        }
                        for position, line in enumerate(_timed(lines, nodes, path, evaluated))
                    )


def traced_lines(sample: Sample) -> list[dict[str, object]]:
    """Return the lines of a sample's trace, each with the warnings of what begins there.

    A warning of text that was not traced stands with the line before it, or with the first one.
    """
    lines: list[dict[str, Any]] = [{**line, "warnings": []} for line in sample.trace or ()]
    for warning in sample.warnings if lines else ():
        before = [line for line in lines if line["position"] <= warning["token"]]
        (before or lines[:1])[-1]["warnings"].append(dict(warning))
    return lines


def _timed(
    lines: Sequence[Mapping[str, object]],
    nodes: Nodes,
    path: NDArray[np.int64],
    evaluated: Mapping[int, tuple[int, float]],
) -> list[dict[str, object]]:
    """Return lines with the seconds of the passes that they waited for, each pass said once."""
    timed, said = [], set()
    for line, context in zip(lines, nodes.frontier.context[path].tolist(), strict=False):
        number, seconds = evaluated.get(context, (0, 0.0))
        timed.append({**line, "seconds": 0.0 if number in said else round(seconds, 6)})
        said.add(number)
    return timed


class _Steps:
    """What the model and the constraint say at the nodes of all paths, each node once."""

    def __init__(self, batch: Batch, nodes: Nodes, shown: int) -> None:
        self._batch, self._nodes, self._shown = batch, nodes, shown
        self._vocabulary = batch.model.vocabulary
        self._log_p: dict[int, dict[int, float]] = {}
        self._said: dict[int, dict[str, object]] = {}
        self._wanted: dict[int, set[int]] = {}
        for path in nodes.paths:
            for node, after in zip(path[:-1].tolist(), path[1:].tolist(), strict=True):
                if after >= 0:
                    self._wanted.setdefault(node, set()).add(int(nodes.token[after]))
        n = np.arange(len(nodes.parent))
        open_ones = n[~nodes.has_ended]
        size = max(1, CHUNK_BYTES // (16 * batch.model.vocabulary.width))
        for start in range(0, len(open_ones), size):
            self._read(open_ones[start : start + size])

    def of(
        self, path: NDArray[np.int64], tokens: Sequence[int], finish: int
    ) -> list[dict[str, object]]:
        """Return the lines of one path without their time."""
        lines = []
        for node, token in zip(path[:-1].tolist(), tokens, strict=True):
            lines.append(self._line(node, TOKEN, token))
        last = int(path[-1])
        if finish == COMPLETE and not self._nodes.has_ended[last]:
            lines.append(self._line(last, ENDING, None))
        elif finish == STUCK and last in self._said and self._said[last]["log_z"] is None:
            lines.append(self._line(last, NOTHING, None))
        return lines

    def _line(self, node: int, event: str, token: int | None) -> dict[str, object]:
        known = self._log_p[node]
        log_p = None if event == NOTHING else known[-1 if token is None else token]
        return {"event": event, **self._event(token, log_p), **self._said[node]}

    def _event(self, token: int | None, log_p: float | None) -> dict[str, object]:
        """Return a token, or the end of the text for None, JSON-ready."""
        own = self._vocabulary.decode(() if token is None else (token,))
        text = own.decode("utf-8", "backslashreplace")
        finite = log_p is not None and log_p > -np.inf
        return {"token_id": token, "text": text, "logprob": log_p if finite else None}

    def _read(self, chunk: NDArray[np.int64]) -> None:
        """Ask model and constraint at some nodes."""
        batch = self._batch
        frontier = self._nodes.frontier.take(chunk)
        found = batch.model.evaluate(frontier.context)
        walks = np.arange(len(chunk))
        step = Step(
            nodes=frontier,
            walk_node=walks,
            walk_starts=np.arange(len(chunk) + 1),
            walk_order=walks,
            scores=found.scores,
            log_normalizer=found.log_normalizer,
            rows=found.rows,
        )
        scores, normalizer = host_scores(step)
        allowed = allowed_ids(step, scores, normalizer)
        lists = dict(zip(allowed.which.tolist(), allowed.lists.tolist(), strict=True))
        for i, node in enumerate(chunk.tolist()):
            row = found.rows[i]
            log_p = np.asarray(scores[row], np.float64) - normalizer[row]
            is_allowed = np.ones(len(log_p), np.bool_)
            if i in lists:
                is_allowed[:] = False
                ids = allowed.ids[allowed.offsets[lists[i]] : allowed.offsets[lists[i] + 1]]
                is_allowed[ids] = True
            self._note(node, log_p, is_allowed)

    def _note(self, node: int, log_p: NDArray[np.float64], is_allowed: NDArray[np.bool_]) -> None:
        """Say what there is at one node: log P of all ids (float64[V]), which are allowed."""
        ends = self._batch.end_ids
        log_end = float(np.logaddexp.reduce(log_p[ends])) if ends.size else -np.inf
        may_end = bool(is_allowed[ends].any())
        # The end is one event, whichever id stands for it.
        events = np.append(np.where(self._batch.is_end, -np.inf, log_p), log_end)
        allowed = np.append(is_allowed & ~self._batch.is_end, may_end)
        struck = np.where(allowed, -np.inf, events)
        kept = np.where(allowed, events, -np.inf)
        log_z = 0.0 if is_allowed.all() else min(0.0, float(np.logaddexp.reduce(kept)))
        wanted = self._wanted.get(node, set())
        self._log_p[node] = {token: float(log_p[token]) for token in wanted} | {-1: log_end}
        self._said[node] = {
            "choice": self._best(events, 1)[0],
            "log_z": log_z if log_z > -np.inf else None,
            "taken": 0.0 if is_allowed.all() else min(1.0, float(np.exp(struck).sum())),
            "struck": self._best(struck, self._shown),
            "alternatives": self._best(kept, self._shown),
            "forced": bool(allowed.sum() == 1),
        }

    def _best(self, log_p: NDArray[np.float64], k: int) -> list[dict[str, object]]:
        """Return the k most probable events, best first, ties by id; the end has no id."""
        k = min(k, len(log_p))
        top = np.argpartition(-log_p, k - 1)[:k]
        end = len(log_p) - 1
        best: list[dict[str, Any]] = [
            self._event(None if i == end else i, float(log_p[i]))
            for i in top[np.lexsort((top, -log_p[top]))].tolist()
            if log_p[i] > -np.inf
        ]
        return best

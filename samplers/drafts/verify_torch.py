"""Verification on a torch device, as ``verify.on_host`` does it, with shapes known on the host.

From scores to verdicts nothing waits for the device; the results are fetched once at the end.
Walks that ask the same (one node, one law of the draft, one limit) share the comparison of the
laws. Slices bound the float64 workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cdec.samplers.drafts.proposals import FROM_LAW, PLAIN, Level, Verdict
from cdec.samplers.mentored import measure, solve_rows, values
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.events_torch import Options, invert, masked_log_p, slices
from cdec.samplers.walks.frontier import END

if TYPE_CHECKING:
    from cdec.samplers.walks.frontier import Step

SPENT = 1.0 - 1e-9
"""Share of a limit from which it counts as spent: ``solve`` leaves a little for rounding."""
_WORKSPACE_BYTES = 1 << 30
_LOSSLESS_COLUMNS, _SOLVER_COLUMNS = 8, 32
"""float64 values in use at once for an event of a comparison, without and with a divergence."""


@dataclass(frozen=True, slots=True)
class _Cases:
    """The distinct comparisons of a step, C of them by ascending node, and the walks that ask.

    Attributes:
        node: int64[C]. law: int64[C] row of the draft's scores, -1 for a one-hot law.
        place: int64[C] where a one-hot law has its mass: a token id, or V for the end.
        limit: float64[C] divergence allowed, nats.
        walks: int64[T] the tested walks, case by case; starts: int64[C + 1] where each begins.
    """

    node: NDArray[np.int64]
    law: NDArray[np.int64]
    place: NDArray[np.int64]
    limit: NDArray[np.float64]
    walks: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(
        cls, step: Step, level: Level, kinds: NDArray[np.int64], limits: NDArray[np.float64]
    ) -> _Cases:
        """Group the walks whose ``kinds`` (int64[W]) are not PLAIN."""
        tested = np.flatnonzero(kinds != PLAIN)
        is_drawn = kinds[tested] == FROM_LAW
        places = _places(level.events[tested], step.scores.shape[1])
        law = np.where(is_drawn, level.rows[tested], -1)
        place = np.where(is_drawn, -1, places)
        limit = limits[tested] + 0.0
        keys = np.stack([step.walk_node[tested], law, place, limit.view(np.int64)], 1)
        _, first, case = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        case = case.reshape(-1)
        order = np.argsort(case, kind="stable")
        starts = np.searchsorted(case[order], np.arange(len(first) + 1))
        node = step.walk_node[tested[first]]
        return cls(node, law[first], place[first], limit[first], tested[order], starts)

    def parts(self, start: int, stop: int, width: int) -> Iterator[_Cases]:
        """Yield the cases of the nodes start..stop, a workspace full at a time."""
        columns = _SOLVER_COLUMNS if self.limit.any() else _LOSSLESS_COLUMNS
        size = max(1, _WORKSPACE_BYTES // (8 * columns * width))
        first, last = np.searchsorted(self.node, [start, stop]).tolist()
        for begin in range(first, last, size):
            end = min(last, begin + size)
            low, high = self.starts[begin], self.starts[end]
            yield _Cases(
                node=self.node[begin:end] - start,
                law=self.law[begin:end],
                place=self.place[begin:end],
                limit=self.limit[begin:end],
                walks=self.walks[low:high],
                starts=self.starts[begin : end + 1] - low,
            )


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Nodes of a step in a slice: log P of the allowed ids, and which ids are allowed.

    Attributes:
        masked: float64[n, V], -inf where an id is not allowed. barrier: float64[n, V], 0 or -inf.
        log_end: float64[n]. dead: bool[n] whether nothing has mass.
    """

    masked: torch.Tensor
    barrier: torch.Tensor
    log_end: torch.Tensor
    dead: torch.Tensor


def on_device(
    step: Step, level: Level, kinds: NDArray[np.int64], numbers: tuple[NDArray[np.float64], ...]
) -> Verdict:
    """Verify or draw an event for every walk, as ``verify.on_host`` does."""
    tests, picks, limits = numbers
    cases = _Cases.of(step, level, kinds, limits)
    index, order = step.nodes.batch.index, step.walk_order
    draws = index(picks[order])
    drawn: list[tuple[torch.Tensor, ...]] = []
    judged: list[tuple[torch.Tensor, ...]] = []
    for start, stop in slices(step):
        barrier, masked = _allowed(step, start, stop)
        first, last = int(step.walk_starts[start]), int(step.walk_starts[stop])
        at = index(step.walk_node[order[first:last]] - start)
        plain = invert(step, masked, draws[first:last], at, Options(None))
        drawn.append(plain)
        nodes = _Nodes(masked, barrier, plain[3], plain[2] == -torch.inf)
        for part in cases.parts(start, stop, masked.shape[1]):
            asked = tests[part.walks], picks[part.walks], level.events[part.walks]
            judged.append(_judged(step, nodes, part, level, asked))
    columns = [torch.cat(column).cpu().numpy() for column in zip(*drawn, strict=True)]
    verdicts = [torch.cat(column).cpu().numpy() for column in zip(*judged, strict=True)]
    return _verdict(step, cases.walks, columns, verdicts)


def _allowed(step: Step, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return barrier and masked of ``_Nodes``."""
    rows = step.nodes.batch.index(step.rows[start:stop])
    even = replace(
        step,
        scores=torch.zeros_like(step.scores[:1], dtype=torch.float64),
        log_normalizer=torch.zeros_like(step.log_normalizer[:1], dtype=torch.float64),
        rows=np.zeros_like(step.rows),
    )
    # subtle: a target may give an allowed id no mass, and the draft's law keeps what it has there.
    barrier, _ = masked_log_p(even, start, stop, Options(None))
    log_p = step.scores[rows].double() - step.log_normalizer[rows].double()[:, None]
    return barrier, log_p.add_(barrier)


def _judged(
    step: Step, nodes: _Nodes, cases: _Cases, level: Level, asked: tuple[NDArray[Any], ...]
) -> tuple[torch.Tensor, ...]:
    """Put the proposals to the walks of some cases to the test.

    Args:
        asked: tests and picks float64[T], events int64[T] of the walks.

    Returns:
        said bool[T], whether the proposal is allowed at all: nothing else holds where it is not;
        accepted bool[T], tokens int64[T], log_p, log_ratio, spent and charged float64[T].
    """
    index, width = step.nodes.batch.index, nodes.masked.shape[1]
    tests, picks, events = asked
    node = index(cases.node)
    case = index(np.repeat(np.arange(len(cases.node)), np.diff(cases.starts)))
    place, here = index(_places(events, width)), node[case]
    p, q, aim, spent, charged = _laws(step, nodes, cases, level)
    may = (nodes.barrier[here, place.clamp_max(width - 1)] == 0) | (place == width)
    said = may & ~nodes.dead[here]
    drafted = p[case, place]
    accepted = said & (drafted > 0) & (index(tests) < aim[case, place] / drafted)
    left = (aim - p).clamp_min_(0.0)
    # Refused by a rounding error alone: both laws are equal, so the target's own will do.
    left = torch.where(left.sum(1, keepdim=True) > 0, left, q)
    place = torch.where(accepted, place, _searched(left, index(picks), case))
    ends = place == width
    log_p = nodes.masked[here, place.clamp_max(width - 1)]
    return (
        said,
        accepted,
        torch.where(ends, END, place),
        torch.where(ends, nodes.log_end[here], log_p),
        torch.log(q[case, place] / aim[case, place]),
        spent[case],
        charged[case],
    )


def _laws(step: Step, nodes: _Nodes, cases: _Cases, level: Level) -> tuple[torch.Tensor, ...]:
    """Return of each case the laws of draft, target and aim, what it spends and is charged.

    Returns:
        p, q, aim: float64[C, V + 1], a place an id, those of end ids 0, the end event's the last.
        spent, charged: float64[C], as in ``Verdict``.
    """
    index, width = step.nodes.batch.index, nodes.masked.shape[1]
    node, ends = index(cases.node), index(step.nodes.batch.end_ids)
    q = _law(nodes.masked[node], ends)
    p = torch.zeros_like(q)
    drawn, sure = np.flatnonzero(cases.law >= 0), np.flatnonzero(cases.law < 0)
    if drawn.size:
        rows = index(cases.law[drawn])
        scores = level.scores[rows].double() - level.log_normalizer[rows].double()[:, None]
        scores = functional.pad(scores, (0, width - scores.shape[1]), value=-torch.inf)
        p[index(drawn)] = _law(nodes.barrier[node[index(drawn)]] + scores, ends)
    p[index(sure), index(cases.place[sure])] = 1.0
    none = torch.zeros_like(q[:, 0])
    if not cases.limit.any():
        return p, q, q, none, none
    limit = index(cases.limit)
    alpha, beta, charged = solve_rows(p, q, limit)
    whole = measure(p, q, none, torch.full_like(none, torch.inf))
    spent = torch.where(charged < limit * SPENT, torch.minimum(limit, whole), charged)
    return p, q, values(p, q, alpha, beta), spent, charged


def _law(log_p: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Return the probabilities of log masses float64[n, V] as events, all 0 at a dead end."""
    law = torch.softmax(log_p, 1).nan_to_num_(0.0)
    end = law[:, ends].sum(1, keepdim=True)
    return torch.cat([law.index_fill_(1, ends, 0.0), end], 1)


def _searched(weights: torch.Tensor, numbers: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return a place in row rows[i] of float64[n, N] by inversion of numbers[i] in [0, 1)."""
    count, width = weights.shape
    weights = weights.nan_to_num(0.0)
    running = weights.cumsum(1)
    total = running[:, -1:]
    running = torch.where(total > 0, running / total, 1.0)
    levels = torch.arange(count, dtype=running.dtype, device=running.device)
    ceiling = torch.nextafter(levels + 1, torch.zeros_like(levels))
    target = torch.minimum(rows + numbers, ceiling[rows])
    flat = (running + levels[:, None]).reshape(-1)
    place = (torch.searchsorted(flat, target, right=True) - rows * width).clamp_(0, width - 1)
    # subtle: sums in another order may differ in the last digit at a place without mass.
    return torch.where(weights[rows, place] > 0, place, weights.argmax(1)[rows])


def _places(events: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the places of events (int64[n]) among V ids and the end."""
    places: NDArray[np.int64] = np.where(events == END, width, events)
    return places


def _verdict(
    step: Step,
    walks: NDArray[np.int64],
    drawn: list[NDArray[Any]],
    judged: list[NDArray[Any]],
) -> Verdict:
    """Put the answers for the tested walks (int64[T]) in place of plain draws."""
    count = len(step.walk_order)
    tokens, log_p = np.empty(count, np.int64), np.empty(count)
    tokens[step.walk_order], log_p[step.walk_order] = drawn[:2]
    said, *answers = judged
    rows = walks[said]
    accepted = np.zeros(count, np.bool_)
    columns = tokens, log_p, np.zeros(count), np.zeros(count), np.zeros(count)
    for column, answer in zip((accepted, *columns), answers, strict=True):
        column[rows] = answer[said]
    log_z, log_end = drawn[2:]
    chosen = SampledEvents(tokens, log_p, log_z, np.zeros_like(log_z), log_end, np.zeros(0))
    return Verdict(chosen, accepted, *columns[2:])

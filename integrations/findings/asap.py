"""ASAp: its toy by enumeration, and its curves on grammars under a model.

Paper: arXiv 2405.21047. The law of ASAp's next draw is enumerated from what its sampler has drawn
so far, so that its divergence from Q is computed, and not estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cdec.core.errors import CdecError
from cdec.core.models.language_model import LanguageModel
from cdec.integrations.findings.adaptive import Memory, Rules, divergence, divergence_after_one
from cdec.integrations.findings.aligned import METHODS, WINDOW, measured_task
from cdec.integrations.findings.enumeration import masked, target
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.sygus import Task, sygus_tasks, toy_task
from cdec.integrations.findings.trees import tree_tasks
from cdec.integrations.findings.worlds import Row, Toy, toy_a, toy_b
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.walks.randomness import draw_seeds

Result = Mapping[str, Any]
"""What ``measured_task`` returns."""
_RUNS = 200
_LAST = 75
_TASKS = 2
"""Tasks of a family."""
_TREES, _SENTENCES = "constituency", 4
_AFTER = (0, 1, 2, 5, 10, 15, 16, 20, 30, 32, 40, 50, 60, _LAST)
_SEED = 2405


def toys(laboratory: Laboratory) -> Found:
    """Compute how fast ASAp comes to Q on the toys, draw by draw and in rounds of 16."""
    checks: list[Check] = []
    tables, plots = [], []
    for name, toy in {"A": toy_a(), "B": toy_b()}.items():
        curves = {size: _curve(toy, size) for size in (1, 16)}
        means = {size: {n: float(v.mean()) for n, v in c.items()} for size, c in curves.items()}
        errors = {
            size: {n: float(v.std(ddof=1) / math.sqrt(_RUNS)) for n, v in c.items()}
            for size, c in curves.items()
        }
        at_first = divergence(masked(toy).law, target(toy))
        checks += _checks(name, at_first, divergence_after_one(toy), means, errors)
        rows = [(n, *(f[size][n] for size in (1, 16) for f in (means, errors))) for n in _AFTER]
        columns = ("draws", "round 1, nats", "± s.e.", "round 16, nats", "± s.e.")
        title = f"Toy {name}: mean KL(next draw's law || Q) of {_RUNS} runs"
        tables.append(Table(title, columns, rows))
        plots.append(_plot(name, means, errors))
    return Found(checks, tables, plots)


def _checks(
    name: str,
    at_first: float,
    after_one: float,
    means: Mapping[int, Mapping[int, float]],
    errors: Mapping[int, Mapping[int, float]],
) -> list[Check]:
    gap = abs(means[1][1] - after_one) / max(errors[1][1], 1e-12)
    return [
        Check(
            f"{name}: before any draw, nats from masked decoding's divergence",
            abs(means[1][0] - at_first),
            at_most=1e-9,
        ),
        Check(
            f"{name}: after one draw, standard errors from the enumerated mean of "
            f"{after_one:.4f} nats",
            gap,
            at_most=4.0,
        ),
        Check(
            f"{name}: KL after {_LAST} draws over that of masked decoding, round 1",
            means[1][_LAST] / at_first,
            at_most=0.01,
        ),
        Check(
            f"{name}: in rounds of 16, KL of draw 16 over that of draw 1 (a staircase)",
            means[16][15] / means[16][0],
            at_least=1 - 1e-12,
            at_most=1 + 1e-12,
        ),
        Check(
            f"{name}: KL of draw 16 in rounds of 16 over that in rounds of 1",
            means[16][15] / means[1][15],
            at_least=2.0,
        ),
    ]


def _curve(toy: Toy, size: int) -> dict[int, Any]:
    """Return float64[runs] KL of the next draw's law from Q, by the number of draws before it."""
    rng = np.random.default_rng([_SEED, size])
    requests = [Request("", toy.constraint, draw_seeds(rng, _LAST)) for _ in range(_RUNS)]
    sampler = SAMPLERS["asap"](burn_in=0, round=size, max_walks=1 << 15)
    runs = []
    for drawn in sampler.draw_batch(toy.model(), requests):
        if isinstance(drawn, CdecError):
            raise drawn
        runs.append(_divergences(toy, [tuple(sample.token_ids) for sample in drawn], size))
    return {n: np.array([run[n] for run in runs]) for n in _AFTER}


def _divergences(toy: Toy, rows: Sequence[Row], size: int) -> dict[int, float]:
    memory, q, found = Memory(Rules(toy)), target(toy), {}
    learnt = 0
    for n in _AFTER:
        frozen = n - n % size
        memory.learn(rows[learnt:frozen])
        learnt = frozen
        found[n] = divergence(memory.law(), q)
    return found


def _plot(
    name: str,
    means: Mapping[int, Mapping[int, float]],
    errors: Mapping[int, Mapping[int, float]],
) -> Plot:
    lines = []
    for size in (1, 16):
        x = [float(n) for n in _AFTER]
        y = [means[size][n] for n in _AFTER]
        band = [4 * errors[size][n] for n in _AFTER]
        low = [max(0.0, a - b) for a, b in zip(y, band, strict=True)]
        high = [a + b for a, b in zip(y, band, strict=True)]
        lines.append(Line(f"rounds of {size}", x, y, low, high))
    caption = f"Toy {name}: KL(next draw's law || Q), mean of {_RUNS} runs and 4 standard errors."
    return Plot(f"toy-{name}", caption, "draws before", "nats", lines)


# --- Figures 4 and 5 on grammars.


def grammar(laboratory: Laboratory) -> Found:
    """Compute Figures 4 and 5 on the paper's Example 1 under the target."""
    results = _measured(laboratory.target(), [toy_task()], draws=1000, methods=tuple(METHODS))
    return _found(results, _task_checks)


def sygus(laboratory: Laboratory) -> Found:
    """Compute Figures 4 to 6 on tasks of both SyGuS families."""
    assert laboratory.data is not None
    tasks = [t for t in sygus_tasks(laboratory.target(), laboratory.data) if t.in_paper]
    chosen: list[Task] = []
    for family in ("SLIA", "INV-BV"):
        own = [task for task in tasks if task.family == family and not task.is_printed]
        chosen += own[:: max(1, len(own) // _TASKS)][:_TASKS]
    results = _measured(laboratory.target(), chosen, draws=800, methods=("masked", "asap"))
    return _found(results, _task_checks)


def trees(laboratory: Laboratory) -> Found:
    """Compute Figures 4 to 6 on constituency trees, under the model that was trained on such."""
    model = laboratory.task(_TREES)
    if model is None:
        return Found([], nothing=f"no {_TREES} among the task models")
    tasks = tree_tasks(laboratory, _SENTENCES)
    results = _measured(model, tasks, draws=400, methods=tuple(METHODS), window=200)
    found = _found(results, tree_checks)
    return replace(found, tables=[*found.tables, _bounds(results)])


def _measured(
    model: LanguageModel,
    tasks: Sequence[Task],
    *,
    draws: int,
    methods: Sequence[str],
    window: int = WINDOW,
) -> list[Result]:
    options = {m: METHODS[m] for m in methods}
    return [measured_task(model, task, draws, options, window) for task in tasks]


def _found(
    results: Sequence[Result], checks: Callable[[Sequence[Result]], Sequence[Check]]
) -> Found:
    rows = [_summary(result) for result in results]
    draws, window, methods = (results[0][name] for name in ("draws", "window", "methods"))
    title = f"{draws} draws: KL(window of {window} || P), and its mean over draws from Q, nats"
    columns = (
        "task",
        "log P(S) at least",
        "Q's",
        "sd",
        *(f"{m}, last" for m in methods),
        "Q's mean of Q",
        *(f"{m}, mean of Q" for m in methods),
    )
    return Found(
        checks(results),
        [Table(title, columns, [tuple(row.values()) for row in rows])],
        [plot for result in results for plot in _curves(result)],
    )


def _summary(result: Result) -> dict[str, Any]:
    goal, methods = result["target"], result["methods"]
    return {
        "task": result["task"],
        "log_mass": goal["log_mass"],
        "kl": goal["window_kl"],
        "sd": goal["window_kl_sd"],
        **{m: (methods[m]["divergence"]["kl"] or [math.nan])[-1] for m in methods},
        "mean": goal["mean_q"],
        **{f"{m}, mean": methods[m]["late_mean_q"] for m in methods},
    }


def _task_checks(results: Sequence[Result]) -> list[Check]:
    """Compare distances to Q, summed over the tasks."""
    rows = [_summary(result) for result in results]
    gaps = {
        m: sum((row[f"{m}, mean"] - row["mean"]) ** 2 for row in rows) for m in ("masked", "asap")
    }
    return [
        _distance(rows),
        Check(
            "sum of squared gaps of expectations, last window, ASAp's over masked decoding's",
            gaps["asap"] / gaps["masked"] if gaps["masked"] else math.nan,
            at_most=1.0,
        ),
    ]


def _distance(rows: Sequence[Mapping[str, Any]]) -> Check:
    far = {m: sum(abs(row[m] - row["kl"]) for row in rows) for m in ("masked", "asap")}
    return Check(
        "nats between ASAp's last window and one of Q, over those of masked decoding",
        far["asap"] / far["masked"] if far["masked"] else math.nan,
        at_most=1.0,
    )


def tree_checks(results: Sequence[Result]) -> list[Check]:
    """Hold ASAp's bound of P(S), c of the root, to what was found, and its windows to Q's."""
    rows = [_summary(result) for result in results]
    asap, local = (
        np.array([result["methods"][m]["log_mass_upper"] for result in results])
        for m in ("asap", "masked")
    )
    curves = [result["methods"]["asap"]["divergence"]["kl"] for result in results]
    first, last = (
        sum(abs(kl[i] - row["kl"]) for kl, row in zip(curves, rows, strict=True)) for i in (0, -1)
    )
    return [
        _distance(rows),
        Check("the same of ASAp's last window over its first", last / first, at_most=1.0),
        Check(
            "ASAp's bound of log P(S) less that of all texts found, least, nats",
            float(min(asap - [row["log_mass"] for row in rows])),
            at_least=-1e-9,
        ),
        Check(
            "ASAp's bound of log P(S) less that of as many masked draws, mean, nats",
            float((asap - local).mean()),
            at_most=0.0,
        ),
    ]


def _bounds(results: Sequence[Result]) -> Table:
    methods = results[0]["methods"]
    rows = [
        (
            *(result["task"], result["target"]["texts"], result["target"]["log_mass"]),
            *(result["methods"][m]["log_mass_upper"] for m in methods),
        )
        for result in results
    ]
    heads = ("task", "texts found", "log of their mass", *(f"bound of {m}" for m in methods))
    return Table("log P(S), nats: at least the mass of all texts found, at most", heads, rows)


def _curves(result: Result) -> list[Plot]:
    name, methods = result["task"], result["methods"]
    kl = [Line(m, methods[m]["divergence"]["x"], methods[m]["divergence"]["kl"]) for m in methods]
    mean = [
        Line(m, methods[m]["expectation"]["x"], methods[m]["expectation"]["mean"]) for m in methods
    ]
    goal = result["target"]
    ends = [0.0, float(result["draws"] - result["window"])]
    kl.append(
        Line(
            "draws from Q",
            ends,
            [goal["window_kl"]] * 2,
            [goal["window_kl"] - 2 * goal["window_kl_sd"]] * 2,
            [goal["window_kl"] + 2 * goal["window_kl_sd"]] * 2,
        )
    )
    mean.append(Line("Q", [0.0, float(result["draws"])], [goal["mean_q"]] * 2))
    return [
        Plot(
            f"{name}-kl",
            f"{name}: KL(window of {result['window']} draws || P).",
            "first draw of the window",
            "nats",
            kl,
        ),
        Plot(
            f"{name}-expectation",
            f"{name}: mean of Q over the draws so far.",
            "draws",
            "mean probability under Q",
            mean,
        ),
    ]

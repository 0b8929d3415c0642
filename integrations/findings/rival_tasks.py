"""Rivals under a model, at equal numbers of its calls: SyGuS tasks, patterns and a schema.

Q is P over all texts that any method found, normalised; how much of it that leaves out is bounded
by the certified bracket of log P(S).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from cdec.compilers import regex_constraint, schema_constraint
from cdec.core import CdecError, LanguageModel, Sample
from cdec.integrations.findings.equal_calls import Distances
from cdec.integrations.findings.finding import Check, Found, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.rivals import (
    DRAWN_FROM_Q,
    ERRORS,
    PROPOSALS,
    Arena,
    Result,
    Rival,
    distance_from_law,
    plot_of,
    result,
    rivals,
    row_of,
    table_of,
)
from cdec.integrations.findings.sygus import constraint_of, sygus_tasks
from cdec.integrations.findings.worlds import Row

_TASKS = ("name-combine-2_short", "univ_1", "find_inv_bvule_bvurem1_4bit")
_RUNS = 3
_ROUND = 16
_BAND = 2
_PATTERNS = 5
_PATTERN_TOKENS = 24
_KNOWN = 0.3
"""Most nats between the bounds of log P(S) of a pattern that is taken."""
_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["France", "Germany"]},
        "capital": {"enum": ["Lyon", "Berlin", "Bonn", "Rome"]},
    },
    "required": ["name", "capital"],
    "additionalProperties": False,
}
_ASKED = "Describe the country France as JSON with the keys name, capital.\n"


def sygus(laboratory: Laboratory) -> Found:
    """Compute distances from Q on SyGuS tasks, by calls."""
    assert laboratory.data is not None
    model = laboratory.target()
    tasks = [task for task in sygus_tasks(model, laboratory.data) if task.name in _TASKS]
    arenas = {
        task.name: Arena(
            model, constraint_of(task, model), task.prompt, 1_200, _RUNS, task.max_new_tokens
        )
        for task in tasks
    }
    return _found([_measured(name, arena, ("priority",)) for name, arena in arenas.items()])


def patterns(laboratory: Laboratory) -> Found:
    """Compute distances from Q under patterns whose mass is soon known, by calls."""
    model = laboratory.target()
    arenas = islice(_known_patterns(laboratory, model), _PATTERNS)
    return _found([_measured(pattern, arena, PROPOSALS) for pattern, arena in arenas])


def _known_patterns(laboratory: Laboratory, model: LanguageModel) -> Iterator[tuple[str, Arena]]:
    """Yield patterns that compile, of which a few draws know the mass, in the order of the file."""
    assert laboratory.data is not None
    scout = Rival("exact", {"round": _ROUND, "max_draws": _ROUND, "fallback": "none"})
    path = laboratory.data / "regex_patterns" / "patterns.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            pattern = row["regex"]
            try:
                constraint = regex_constraint(pattern, model.vocabulary)
            except CdecError:
                continue
            prompt = f"A text that matches {pattern} is: "
            arena = Arena(model, constraint, prompt, 800, _RUNS, _PATTERN_TOKENS)
            runs = arena.drawn(scout, 8)
            law, unknown = known([runs])
            if len(law) > 1 and unknown <= _KNOWN:
                yield pattern, arena


def schema(laboratory: Laboratory) -> Found:
    """Compute distances from Q of JSON under a schema that forbids what the model would say."""
    model = laboratory.target()
    constraint = schema_constraint(_SCHEMA, model.vocabulary)
    arena = Arena(model, constraint, _ASKED, 1_600, _RUNS, 64)
    return _found([_measured("JSON", arena, PROPOSALS)])


def _measured(name: str, arena: Arena, proposals: Sequence[str]) -> Result:
    compared = rivals(_ROUND, proposals)
    samples = arena.found(compared)
    return result(name, arena, compared, samples, known(list(samples.values())))


def known(methods: Sequence[Sequence[Sequence[Sample]]]) -> tuple[dict[Row, float], float]:
    """Return P over all texts that runs of methods found, normalised, and what it leaves out.

    Returns:
        Q of each text if there were no others; nats between the certified bounds of log P(S).
    """
    samples = [sample for runs in methods for run in runs for sample in run]
    log_p = {row: s.logprob for s in samples if (row := row_of(s)) and s.logprob is not None}
    if not log_p:
        return {}, math.inf
    lower = float(np.logaddexp.reduce(list(log_p.values())))
    bounds: list[Any] = [sample.diagnostics.get("log_mass_upper") for sample in samples]
    upper = min((float(bound) for bound in bounds if bound is not None), default=0.0)
    return {row: math.exp(p - lower) for row, p in log_p.items()}, max(0.0, upper - lower)


def _found(results: Sequence[Result]) -> Found:
    """Return distances with checks of their sums over arenas."""
    names = list(results[0].found)
    ends = {name: _sum([each.found[name] for each in results]) for name in names}
    kl, error = ends["masked"]
    checks = [
        Check(
            f"{name}: KL after any number of calls, s.e. beyond that of as many draws from Q",
            largest([distance_from_law(each, name, each.q) for each in results]),
            at_most=ERRORS,
        )
        for name in DRAWN_FROM_Q
    ]
    checks += [
        Check(
            f"{name}: KL after all calls over that of masked decoding, {_BAND} s.e. against it",
            (own + _BAND * spread) / (kl - _BAND * error),
            at_most=1.0,
        )
        for name, (own, spread) in ends.items()
        if name != "masked"
    ]
    ideal = sum(float(each.ideal[0][-1]) for each in results)
    least = min(own + ERRORS * spread for own, spread in ends.values())
    unknown = sum(each.unknown for each in results)
    checks.append(
        Check(
            "least KL after all calls over that of as many events drawn from Q, "
            f"{ERRORS} s.e. and what is unknown of P(S) for it",
            (least + unknown) / ideal,
            at_least=1.0,
        )
    )
    known_of = Table(
        "Texts that were found, and what they leave out of Q",
        ("task", "texts", "log P(S), nats, may be higher by"),
        [(each.name, len(each.q), each.unknown) for each in results],
    )
    tables = [known_of, *(table_of(each) for each in results)]
    return Found(checks, tables, [plot_of(each) for each in results])


def _sum(found: Sequence[Distances]) -> tuple[float, float]:
    """Return the sum of divergences after all calls, and its standard error."""
    return (
        float(sum(each.kl[-1] for each in found)),
        float(np.sqrt(sum(each.kl_error[-1] ** 2 for each in found))),
    )

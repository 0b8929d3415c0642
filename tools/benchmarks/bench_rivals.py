"""genlm-control beside cdec: KL of their weighted draws from Q at equal numbers of model calls.

    python -m tools.benchmarks.bench_rivals --peer PYTHON [--calls N] [--runs R]

PYTHON is an interpreter that has genlm-control installed; it need not have cdec. Q is P over all
texts that any of them found, as in the findings ``rivals-*``; sequences of tokens are told apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers import regex_constraint
from cdec.core import CdecError, LanguageModel, Sample
from cdec.integrations.findings.equal_calls import Distances, Drawn, distances
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.rival_tasks import known
from cdec.integrations.findings.rivals import Arena, rivals, row_of, texts
from cdec.samplers.scoring.score import Scorer, ScoreRequest

PATTERN = "(a(bc)?)+"
PROMPT = "A text that matches (a(bc)?)+ is: "
LIMIT = 24
_METHODS = ("masked, weighted", "masked, AWRS weights", "smc, N=8, weighted", "exact")


def main() -> None:
    """Draw with both, and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--calls", type=int, default=800)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    laboratory = Laboratory()
    model = laboratory.target()
    constraint = regex_constraint(PATTERN, model.vocabulary)
    arena = Arena(model, constraint, PROMPT, arguments.calls, arguments.runs, LIMIT)
    compared = {name: rival for name, rival in rivals(16).items() if name in _METHODS}
    samples = arena.found(compared)
    asked = {
        "model": laboratory.model_path,
        "prompt_ids": model.encode_prompt(PROMPT),
        "pattern": PATTERN,
        "limit": LIMIT,
        "particles": 8,
        "runs": arguments.runs,
        "calls": arguments.calls,
    }
    ids = {model.vocabulary.decode([i]).hex(): i for i in reversed(range(model.vocabulary.size))}
    peers = [_run(each, ids) for each in _peer(arguments.peer, asked)]
    log_q = _log_q(model, list(samples.values()), peers)
    for name, rival in compared.items():
        runs = [texts(run, is_weighted=rival.is_weighted) for run in samples[name]]
        _say(name, distances(runs, log_q, [arguments.calls]))
    shortest = min(len(run.rows) for run in peers)
    cut = [Drawn(r.rows[:shortest], r.log_weights[:shortest], r.calls[:shortest]) for r in peers]
    _say("genlm-control, AWRS in SMC", distances(cut, log_q, [arguments.calls]))


def _say(name: str, found: Distances) -> None:
    print(f"{name}: {found.kl[0]:.4f} ± {found.kl_error[0]:.4f} nats, {found.draws[0]} draws")


def _log_q(model: LanguageModel, samples: list[list[list[Sample]]], peers: list[Drawn]) -> Any:
    """Return log Q by text: log P over all texts that any of them found, normalised."""
    law, unknown = known(samples)
    log_p = {row_of(s): s.logprob for runs in samples for run in runs for s in run}
    rows = {row for run in peers for row in run.rows if row is not None} - set(law)
    requests = [ScoreRequest(PROMPT, token_ids=row) for row in sorted(rows)]
    for row, score in zip(sorted(rows), Scorer(model).run(requests), strict=True):
        if isinstance(score, CdecError):
            raise score
        log_p[row] = score.logprob
    kept = {row: p for row, p in log_p.items() if row is not None and p is not None}
    total = float(np.logaddexp.reduce(list(kept.values())))
    print(
        f"{len(kept)} texts, {len(rows)} of genlm-control alone; P(S) unknown by {unknown:.4f} nats"
    )
    return {row: p - total for row, p in kept.items()}


def _peer(python: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    script = Path(__file__).parent / "rivals" / "peer.py"
    done = subprocess.run(
        [python, str(script)],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _run(found: dict[str, Any], ids: dict[str, int]) -> Drawn:
    """Return the particles of a run, all at the same cost."""
    rows = [tuple(ids[piece] for piece in text) for text in found["texts"]]
    each = found["calls"] / max(1, len(rows))
    print(f"genlm-control: {len(rows)} particles, {found['calls']} calls, {found['seconds']:.1f} s")
    return Drawn(rows, np.array(found["weights"]), np.full(len(rows), each))


if __name__ == "__main__":
    main()

"""VllmModel: what cdec's methods draw over an engine is what they draw over transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from cdec.core.errors import UsageError
from cdec.integrations.vllm.model import VllmModel
from tests.docs.blocks import blocks_of
from tests.integrations.vllm.serving import environment

PAGE = Path(__file__).parents[3] / "docs/how-to/vllm.md"
COMPARED = """
import json
import numpy as np
from cdec.compilers import grammar_constraint
from cdec.core import load_model
from cdec.core.errors import CdecError

ours = load_model(path, dtype="float32")
rows = [m.next_logprobs(m.prefill(prompts)) for m in (model, ours)]
found = {"scores": float(np.abs(np.asarray(rows[0]) - np.asarray(rows[1])).max()), "methods": {}}
LIST = 'start: "[" WORD ("," WORD)* "]"\\nWORD: /[a-z]{1,6}/'
for method, options in {
    "greedy": {}, "masked": {}, "disc": {"K": 3}, "smc": {"particles": 4}, "beam": {"beams": 3},
    "exact": {}, "asap": {},
}.items():
    for make in (lambda v: set_constraint(["Berlin", "Lyon", "Paris"], v),
                 lambda v: grammar_constraint(LIST, v)):
        drawn = []
        for m in (model, ours):
            try:
                lists = sample(m, make(m.vocabulary), prompts, method=method, n=2, seed=3,
                               max_new_tokens=6, **options)
                drawn.append([[list(s.token_ids), s.finish_reason, s.log_weight,
                               s.log_candidate_weight, s.logprob] for ss in lists for s in ss])
            except CdecError as error:
                drawn.append([[error.code]])
        found["methods"].setdefault(method, []).append(drawn)
usage = model.total_usage
found["calls"] = int(usage.calls)
print("FOUND" + json.dumps(found))
"""


@pytest.mark.heavy
def test_methods_draw_over_an_engine_what_they_draw_over_transformers(tmp_path: Path) -> None:
    script = next(b for b in blocks_of(PAGE.read_text()) if b.title == "methods.py")
    (tmp_path / "methods.py").write_text("\n".join(script.lines) + COMPARED)
    done = subprocess.run(
        [sys.executable, "methods.py"],
        cwd=tmp_path,
        env=environment(VLLM_ENABLE_V1_MULTIPROCESSING="0"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    shown = [line.split() for line in lines if line.split()[:1] in (["masked"], ["disc"], ["smc"])]
    assert len(shown) == 12
    assert {words[1] for words in shown} <= {"Berlin", "Lyon", "Paris", "Rome"}
    found = json.loads(next(line for line in lines if line.startswith("FOUND"))[5:])
    assert found["scores"] < 1e-3
    assert found["calls"] > 0
    for method, cases in found["methods"].items():
        for theirs, ours in cases:
            assert len(theirs) == len(ours)
            for their, our in zip(theirs, ours, strict=True):
                assert their[:2] == our[:2], method
                assert numbers(their) == pytest.approx(numbers(our), abs=1e-3), method
    complete = [row for cases in found["methods"].values() for row in cases[0][0] if len(row) > 1]
    assert len(complete) >= 7 * 2
    assert any(row[2] not in (None, 0.0) for row in complete)


def numbers(row: list[Any]) -> list[float]:
    return [float("-inf") if value is None else value for value in row[2:]]


def engine(**changes: Any) -> Any:
    """Return what VllmModel looks at of an engine, as vLLM would have it."""
    config = SimpleNamespace(
        speculative_config=changes.get("speculative"),
        cache_config=SimpleNamespace(enable_prefix_caching=changes.get("caching", True)),
    )
    core = SimpleNamespace(engine_core=object()) if changes.get("here", True) else object()
    runner = SimpleNamespace(input_batch=SimpleNamespace(logitsprocs=SimpleNamespace(all=[])))
    workers = [SimpleNamespace(model_runner=runner)] * changes.get("workers", 1)
    if changes.get("v2"):
        runner = SimpleNamespace()
        workers = [SimpleNamespace(model_runner=runner)]
    return SimpleNamespace(
        llm_engine=SimpleNamespace(vllm_config=config, engine_core=core),
        collective_rpc=lambda call: [call(worker) for worker in workers],
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"speculative": object()}, "guesses tokens ahead"),
        ({"caching": False}, "computes every prefix anew"),
        ({"here": False}, "another process"),
        ({}, "keeps no logits"),
        ({"workers": 2}, "keeps no logits"),
        ({"v2": True}, "keeps no logits"),
    ],
)
def test_engines_whose_logits_cannot_be_had_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        VllmModel(engine(**changes))
    assert caught.value.hint

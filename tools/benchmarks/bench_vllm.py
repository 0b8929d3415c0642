"""vLLM under cdec's processor beside its own structured outputs: requests and tokens a second.

``INTEGRATIONS_PYTHON=... make bench-vllm``: every engine runs in a process of its own, on the same
prompts, seeds and limits, after one request that warms it (``first``: its seconds, compilation
included, where cdec opens an artifact that was compiled before: ``compiled``). The model is the
embedded one, so that the share of masks is as large as it gets.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "size": {"type": "integer", "minimum": 0, "maximum": 999},
        "kind": {"enum": ["city", "river", "country", "person"]},
    },
    "required": ["name", "size", "kind"],
    "additionalProperties": False,
}
ENGINES = ("free", "cdec", "xgrammar", "guidance")
CASES = ("schema", "choice", "regex", "new regex")
"""``new regex``: a pattern of its own in each request, compiled while it is served."""
REGISTERED = CASES[:3]
PATTERN = r"[A-Z][a-z]{2,11}( [A-Z][a-z]{2,11})?, \d{1,4}"
TOKENS = 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--names", type=int, default=1000, help="members of the choice")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--output", type=Path, help="folder of the JSON")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(_measured(options.run[0], Path(options.run[1]), options.requests)))
        return
    with tempfile.TemporaryDirectory() as folder:
        compiled = _prepare(Path(folder), options.names)
        rows = [_child(engine, folder, options) for engine in options.engines]
    print(
        f"{options.requests} requests, {TOKENS} tokens at most, {options.names} names; compiled in"
    )
    print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in compiled.items()))
    print("| engine | case | requests/s | tokens/s | first, s |\n|---|---|---|---|---|")
    for found in rows:
        for case, row in found.items():
            figures = f"{row['requests']:.1f} | {row['tokens']:.0f} | {row['first']:.2f}"
            print(f"| {row['engine']} | {case} | {figures} |")
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "vllm.json").write_text(json.dumps({"compiled": compiled, "rows": rows}))


def _prepare(folder: Path, names: int) -> dict[str, float]:
    """Compile the artifacts and write settings; returns the seconds of each."""
    from cdec.compilers import compile_regex, compile_schema, compile_set
    from cdec.core import Vocabulary
    from cdec.data import embedded_model_path
    from cdec.data.assets import entity_list

    model = str(embedded_model_path())
    vocabulary = Vocabulary.from_tokenizer(model)
    listed = entity_list("facts").read_text(encoding="utf-8").splitlines()[:names]
    seconds = {}
    for case in REGISTERED:
        began = time.perf_counter()
        if case == "schema":
            compile_schema(SCHEMA, vocabulary, folder / "schema.arrow")
        elif case == "regex":
            compile_regex(PATTERN, vocabulary, folder / "regex.arrow")
        else:
            compile_set(listed, vocabulary, folder / "choice.arrow")
        seconds[case] = time.perf_counter() - began
    table = "\n".join(f'{case} = "{case}.arrow"' for case in REGISTERED)
    head = f'tokenizer = "{model}"\nallow = ["regex"]\n'
    (folder / "serving.toml").write_text(f"{head}[artifacts]\n{table}\n")
    (folder / "task.json").write_text(json.dumps({"model": model, "names": listed}))
    return seconds


def _child(engine: str, folder: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "tools.benchmarks.bench_vllm", "--run", engine, folder]
    command += ["--requests", str(options.requests)]
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1"}
    named = {"CDEC_SERVING": f"{folder}/serving.toml", "VLLM_USE_V2_MODEL_RUNNER": "0"}
    done = subprocess.run(
        command, env={**os.environ, **quiet, **named}, stdout=subprocess.PIPE, check=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measured(engine: str, folder: Path, count: int) -> dict[str, Any]:
    """Serve the cases with one engine of vLLM, in this process."""
    from vllm import LLM

    task = json.loads((folder / "task.json").read_text())
    more: dict[str, Any] = {}
    if engine == "cdec":
        more["logits_processors"] = ["cdec.integrations.vllm.v1:ConstraintProcessor"]
    elif engine != "free":
        more["structured_outputs_config"] = {"backend": engine}
    llm = LLM(
        task["model"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=64,
        disable_log_stats=True,
        **more,
    )
    found = {}
    for case in CASES:
        prompts = [f"Number {number}. A {case}:" for number in range(count)]
        asked = [_params(engine, case, task, seed) for seed in range(count)]
        began = time.perf_counter()
        llm.generate(prompts[:1], asked[:1], use_tqdm=False)
        first = time.perf_counter() - began
        began = time.perf_counter()
        answers = llm.generate(prompts, asked, use_tqdm=False)
        seconds = time.perf_counter() - began
        tokens = sum(len(answer.outputs[0].token_ids) for answer in answers)
        found[case] = {
            "engine": engine,
            "requests": count / seconds,
            "tokens": tokens / seconds,
            "first": first,
        }
    return found


def _params(engine: str, case: str, task: dict[str, Any], seed: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    more: dict[str, Any] = {}
    own = rf"{PATTERN} [a-f]{{{1 + seed % 9}}}{seed}"
    if engine == "cdec":
        asked = {"regex": own} if case == "new regex" else {"artifact": case}
        more["extra_args"] = {"cdec": asked}
    elif engine != "free" and case == "schema":
        more["structured_outputs"] = StructuredOutputsParams(json=SCHEMA)
    elif engine != "free" and "regex" in case:
        pattern = own if case == "new regex" else PATTERN
        more["structured_outputs"] = StructuredOutputsParams(regex=pattern)
    elif engine != "free":
        more["structured_outputs"] = StructuredOutputsParams(choice=task["names"])
    return SamplingParams(temperature=1.0, seed=seed, max_tokens=TOKENS, **more)


if __name__ == "__main__":
    main()

"""``make bench-schema``: JSON Schemas beside the peers: what is right, and how long it takes.

    python -m tools.benchmarks.bench_schemas [--engines NAME ...] [--schemas N] [--output DIR]

Each engine takes the 452 schemas drawn from JSONSchemaBench, and their valid and invalid instances
in the tokenizer's own tokens, in one process of its own with limits (``schemas/replay``). Instances
of which the jsonschema package, with exact numbers and formats checked, does not say what the
benchmark says count for no engine. Then cdec alone takes SchemaStore's shared half with its own
documents (``schemas/stored``). Targets are printed beside the figures and judge nothing. Needs the
shared data; half an hour.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

import numpy as np

from cdec.core.schemas.validity import load
from cdec.core.schemas.validity import parser_of as validator_of
from tests.shared import shared_folder
from tools.benchmarks import report
from tools.benchmarks.grammars.engines import CLOCKS
from tools.benchmarks.schemas import stored
from tools.benchmarks.schemas.cases import Case, benchmark, has_cases
from tools.benchmarks.schemas.children import replayed
from tools.benchmarks.schemas.engines import ENGINES
from tools.benchmarks.setting import Setting, parser_of

_LENIENT = ("cdec-lenient", "grid-lenient")
_PACKAGES = {"grid": "grid-guardrail"}
_RIGHT = ("engine", "fully right", "%", "refused", "rejects valid", "accepts invalid", "no end")
_TIMES = ("engine", "compiled", "first mask ms", "warm µs", "cold µs", "positions")


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = parser_of(__doc__, has_model=False)
    parser.add_argument(
        "--engines", nargs="+", choices=[*ENGINES, *_LENIENT], default=[*ENGINES, *_LENIENT]
    )
    parser.add_argument("--tokenizer", default="tekken131k", choices=["mistral32k", "tekken131k"])
    parser.add_argument("--schemas", type=int, default=1_000_000, help="the first so many")
    parser.add_argument("--seconds", type=float, default=60, help="for one schema")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu on a busy machine")
    arguments = parser.parse_args()
    if not has_cases():
        parser.error(f"the shared data is not at {shared_folder()}; set CDEC_SHARED")
    cases = list(islice(benchmark(), arguments.schemas))
    disputed = disputed_instances(cases)
    setting = Setting.of(arguments)
    print(
        report.machine(),
        f"{arguments.tokenizer}, {len(cases)} schemas, {sum(map(len, disputed))}"
        " instances disputed",
    )
    rights, times, figures = [], [], {}
    for engine in arguments.engines:
        found = []
        for row in replayed(
            engine,
            arguments.tokenizer,
            len(cases),
            "--clock",
            arguments.clock,
            seconds=arguments.seconds,
        ):
            found.append(row | {"name": cases[row["number"]].name})
            if sys.stderr.isatty():
                print(f"\r{engine} {len(found)}", end="", file=sys.stderr, flush=True)
        verdicts = [verdict_of(row, left) for row, left in zip(found, disputed, strict=True)]
        rights.append((engine_name(engine), *right_row(verdicts)))
        times.append((engine_name(engine), *time_row(found)))
        figures[engine] = [
            row | {"verdict": verdict} for row, verdict in zip(found, verdicts, strict=True)
        ]
        print(f"{rights[-1]}, {times[-1][1:]}", flush=True)
    report.show("Schemas, fully right: ≥ 95 %, above every peer", _RIGHT, rights)
    report.show("p50 / p99: first mask ≤ 10/500, warm ≤ 3/30, cold ≤ 5/200", _TIMES, times)
    summary = {
        "right": [dict(zip(_RIGHT, row, strict=True)) for row in rights],
        "times": [dict(zip(_TIMES, row, strict=True)) for row in times],
    }
    stored.show(list(stored.outcomes()))
    print(setting.save("schemas", summary))
    print(setting.save("schemas-all", figures))


def disputed_instances(cases: Sequence[Case]) -> list[set[str]]:
    """Return for each case descriptions and texts of instances that jsonschema judges otherwise."""
    import json

    load()
    found = []
    for case in cases:
        validates = validator_of(case.source)
        texts = [json.dumps(instance.data, ensure_ascii=False) for instance in case.instances]
        found.append(
            {
                text
                for text, instance in zip(texts, case.instances, strict=True)
                if validates is None or validates(text, 0.0) is not instance.valid
            }
        )
    return found


def verdict_of(row: Mapping[str, Any], disputed: set[str]) -> str:
    """Say what an engine made of a schema."""
    if "failed" in row:
        return "no end"
    if "refused" in row:
        return "refused"
    wrong = [instance for instance in row["wrong"] if instance["text"] not in disputed]
    if any(instance["expected"] for instance in wrong):
        return "rejects valid"
    if wrong:
        return "accepts invalid, recorded" if row["recorded"] else "accepts invalid"
    return "right, recorded" if row["recorded"] else "right"


def right_row(verdicts: Sequence[str]) -> tuple[object, ...]:
    """Format how many schemas an engine gets right."""
    right = verdicts.count("right") + verdicts.count("right, recorded")
    silent, recorded = (
        verdicts.count("accepts invalid"),
        verdicts.count("accepts invalid, recorded"),
    )
    return (
        right,
        f"{100 * right / max(len(verdicts), 1):.1f}",
        verdicts.count("refused"),
        verdicts.count("rejects valid"),
        f"{silent} + {recorded} recorded" if recorded else silent,
        verdicts.count("no end"),
    )


def time_row(found: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    """Format an engine's times over the schemas that it compiles."""
    compiled = [row for row in found if "first_mask_ns" in row]
    if not compiled:
        return (0, "", "", "", 0)
    first = [row["first_mask_ns"] for row in compiled]
    warm = [spent for row in compiled for spent in row["warm_ns"]]
    cold = [spent for row in compiled for spent in row["cold_ns"]]
    return (len(compiled), _pair(first, 1e6), _pair(warm, 1e3), _pair(cold, 1e3), len(cold))


def engine_name(engine: str) -> str:
    """Return an engine's name with the version of its package."""
    if engine.startswith("cdec"):
        return engine
    name, dash, mode = engine.partition("-")
    try:
        return f"{name} {version(_PACKAGES.get(name, name))}{dash}{mode}"
    except PackageNotFoundError:
        return engine


def _pair(spent: Sequence[int], unit: float) -> str:
    half, most = np.percentile(np.asarray(spent) / unit, [50, 99])
    return f"{half:.3g} / {most:.3g}"


if __name__ == "__main__":
    main()

"""What a grammar costs in whole decoding steps of a model."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cdec.compilers import compile_grammar
from cdec.core import CdecError, open_artifact
from cdec.data.assets import evaluation_prompts
from cdec.samplers import SAMPLERS, Request
from tools.benchmarks.grammars.workloads import workloads
from tools.benchmarks.setting import Setting

Row = tuple[str, str, str]

_PROMPTS = 16
_ROUNDS = 3
_KEYS = ("name", "capital", "continent", "currency", "language", "demonym")
_ASKS_FOR = "country {} as JSON with the keys " + ", ".join(_KEYS) + ".\n"
_SCHEMA_LIKE = (
    'start: "{" '
    + ' "," '.join(f'" "? "\\"{key}\\":" " "? STRING' for key in _KEYS)
    + ' "}"\nSTRING: /"[^"\\\\\\x00-\\x1f]*"/\n'
)
_COUNTRIES = ("Vietnam", "Benin", "Fiji", "Chile", "Kenya", "Norway", "Japan", "Peru", "Ghana")
_COUNTRIES += ("Malta", "Cuba", "Nepal", "Qatar", "Sweden", "Turkey", "Angola")


def json_prompts(count: int) -> list[str]:
    """Return the first shipped prompts that ask for JSON."""
    lines = evaluation_prompts("json").read_text(encoding="utf-8").splitlines()[:count]
    return [json.loads(line)["prompt"] for line in lines]


def schema_prompts() -> list[str]:
    """Return prompts that ask for one schema, so that texts differ in their values only."""
    return ["Describe the " + _ASKS_FOR.format(country) for country in _COUNTRIES]


def seconds_per_token(
    sampler: Any, model: Any, constraint: Any, seed: int, batch: int, prompts: list[str]
) -> float:
    """Draw a text for every prompt, ``batch`` at a time; return seconds a drawn event."""
    rng = np.random.default_rng(seed)
    seconds, events = 0.0, 0
    for first in range(0, len(prompts), batch):
        requests = [
            Request(prompt, constraint, [int(rng.integers(2**53))], max_new_tokens=96)
            for prompt in prompts[first : first + batch]
        ]
        begin = time.perf_counter()
        drawn = sampler.draw_batch(model, requests)
        seconds += time.perf_counter() - begin
        for samples in drawn:
            if isinstance(samples, CdecError):
                raise samples
            events += len(samples[0].token_ids) + 1
    return seconds / events


def compare(
    sampler: Any, model: Any, constraint: Any, batch: int, prompts: list[str]
) -> tuple[float, float, float]:
    """Return medians of the ratio to unconstrained sampling, and both times in milliseconds."""
    free = SAMPLERS["unconstrained"]()
    seconds_per_token(sampler, model, constraint, 0, batch, prompts)
    seconds_per_token(free, model, None, 0, batch, prompts)
    pairs = []
    for seed in range(1, _ROUNDS + 1):
        own = seconds_per_token(sampler, model, constraint, seed, batch, prompts)
        pairs.append((own, seconds_per_token(free, model, None, seed, batch, prompts)))
    ratio = median(own / other for own, other in pairs)
    return ratio, 1000 * median(a for a, _ in pairs), 1000 * median(b for _, b in pairs)


def compiled(source: str, vocabulary: Any, folder: str, lexer: Any = None) -> Any:
    """Compile a grammar and open it."""
    path = Path(folder) / "grammar.arrow"
    compile_grammar(source, vocabulary, path, lexer=lexer, force=True, max_whitespace=None)
    return open_artifact(path, vocabulary=vocabulary)


def decoding_rows(setting: Setting) -> Iterator[Row]:
    """Yield overhead of masked decoding, and the speed of speculation."""
    model = setting.target()
    with tempfile.TemporaryDirectory() as folder:
        source = workloads()["json_free"]["lark"]
        constraint = compiled(source, model.vocabulary, folder)
        for batch in (1, 16):
            ratio, own, free = compare(
                SAMPLERS["masked"](), model, constraint, batch, json_prompts(_PROMPTS)
            )
            figure = f"{100 * (ratio - 1):+.1f} % ({own:.2f} against {free:.2f} ms)"
            yield f"JSON, `masked` over `unconstrained`, a token, batch {batch}", "≤ 3 %", figure
        schema = compiled(_SCHEMA_LIKE, model.vocabulary, folder)
        for name in ("greedy", "masked"):
            for gamma in (0, 8):
                draft = {"draft": "counts", "gamma": gamma} if gamma else {}
                sampler = SAMPLERS[name](**draft)
                ratio, own, free = compare(sampler, model, schema, 1, schema_prompts())
                figure = f"{1 / ratio:.2f} × ({1000 / own:.0f} against {1000 / free:.0f} tokens/s)"
                target = "≥ 1.5 ×" if gamma else ""
                guessed = f" --draft counts --gamma {gamma}" if gamma else ""
                yield f"schema-like JSON, `{name}{guessed}`", target, figure


def print_decoding(setting: Setting) -> list[Row]:
    """Print the table of decoding, and return its rows."""
    print(f"\n| decoding, {setting.model} model | target | measured |\n|---|---|---|")
    rows = []
    for row in decoding_rows(setting):
        print(f"| {' | '.join(row)} |", flush=True)
        rows.append(row)
    return rows

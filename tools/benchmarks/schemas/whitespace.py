"""What white space costs: texts of schemas by each kind of white space, method and model.

    python -m tools.benchmarks.schemas.whitespace [--model NAME] [--schemas N] [--texts N]
        [--candidates N] [--tokens N] [--kinds KIND ...]

The first schemas of JSONSchemaBench's sample that have a short instance, one prompt. Models: the
embedded one, or the shared data's RWKV, whose tokens are bytes. Columns: the share of complete
texts, the tokens of a text, complete or cut, and log P(S), the mean of what masked texts say of it
(``log_mass``) over the schemas where they say it for every kind.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from cdec.compilers import SchemaOptions, schema_constraint
from cdec.core import CdecError, LanguageModel, load_model
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path
from cdec.samplers import SAMPLERS, Request
from tests.shared import shared_folder
from tools.benchmarks.report import show
from tools.benchmarks.schemas.cases import Case, benchmark

KINDS = ("usual", "any", "compact", "pretty")
PROMPT = "As JSON: "
COLUMNS = ("white space", "method", "complete", "tokens", "log P(S)")
_SHORT = 120


@dataclass
class Found:
    """What one model, kind of white space and method gave."""

    complete: list[bool] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    masses: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, samples: Any, *, has_mass: bool) -> None:
        """Count the texts of one schema."""
        done = [sample.finish_reason == "complete" for sample in samples]
        self.complete += done
        self.tokens += [len(sample.token_ids) for sample in samples]
        if has_mass and samples[0].log_mass is not None:
            self.masses[name] = samples[0].log_mass

    def cells(self, common: Collection[str]) -> tuple[object, ...]:
        """Return its part of a row; ``common``: the schemas that every kind has a mass of."""
        masses = [self.masses[name] for name in common if name in self.masses]
        mass = sum(masses) / len(masses) if masses else "-"
        share = sum(self.complete) / max(len(self.complete), 1)
        return round(share, 2), round(sum(self.tokens) / max(len(self.tokens), 1)), mass


def model_of(name: str) -> tuple[LanguageModel, Any]:
    """Return a model and the prompt as it takes it."""
    if name == "embedded":
        return load_model(embedded_model_path("target")), PROMPT
    # Its vocabulary is the bytes: token id = byte, and it has no tokenizer.
    letters = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[0])
    folder = shared_folder() / "data" / "model_rwkv_tiny" / "hf"
    return load_model(folder, vocabulary=letters), list(PROMPT.encode())


def short_cases() -> Iterator[Case]:
    """Yield schemas of objects with a valid instance that is short."""
    for case in benchmark():
        texts = [json.dumps(each.data) for each in case.instances if each.valid]
        if any(text[0] == "{" and 2 < len(text) <= _SHORT for text in texts):
            yield case


def measure(
    model: LanguageModel, prompt: Any, kind: Any, cases: list[Case], arguments: argparse.Namespace
) -> dict[str, Found]:
    """Draw texts of all schemas by each method."""
    found = {name: Found() for name in ("greedy", "masked", "exact")}
    for case in cases:
        try:
            constraint = schema_constraint(
                case.source, model.vocabulary, SchemaOptions(whitespace=kind)
            )
        except CdecError:
            continue
        for name, result in found.items():
            options: Any = {"max_draws": arguments.candidates, "fallback": "none"}
            sampler = SAMPLERS[name](**(options if name == "exact" else {}))
            n = arguments.texts if name == "masked" else 1
            request = Request.numbered(
                prompt, id=case.name, n=n, seed=0, max_new_tokens=arguments.tokens,
                constraint=constraint,
            )  # fmt: skip
            (samples,) = sampler.draw_batch(model, [request])
            if isinstance(samples, CdecError):
                print(f"{case.name}: {samples}", file=sys.stderr)
            else:
                result.add(case.name, samples, has_mass=name == "masked")
    return found


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=20)
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--candidates", type=int, default=50, help="of a text of exact")
    parser.add_argument("--tokens", type=int, default=256, help="of a text, at most")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--model", choices=["embedded", "rwkv"], default="embedded")
    arguments = parser.parse_args()
    cases, parts = list(islice(short_cases(), arguments.schemas)), dict[Any, Found]()
    model, prompt = model_of(arguments.model)
    for kind in arguments.kinds:
        for method, found in measure(model, prompt, kind, cases, arguments).items():
            parts[kind, method] = found
            print(kind, method, *found.cells(found.masses), json.dumps(found.masses), flush=True)
    common = set.intersection(
        *(set(found.masses) for (_, method), found in parts.items() if method == "masked")
    )
    rows = [(*names, *found.cells(common)) for names, found in parts.items()]
    show(f"{arguments.model}, {len(cases)} schemas", COLUMNS, rows)


if __name__ == "__main__":
    main()

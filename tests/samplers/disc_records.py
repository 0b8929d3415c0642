"""What DISC drew before candidates came in waves, as checksums: ``disc_records.json``.

    python -m tests.samplers.disc_records    # writes what is drawn now

The file was written at the last commit where all K candidates of a draw were drawn at once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.healing import HealedConstraint
from cdec.core.constraint import Constraint
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.disc import DiscSampler
from cdec.samplers.request import Request
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.worlds import Row, random_world, toy_b
from tests.samplers.drafts.draft_toys import pairs

FILE = Path(__file__).with_name("disc_records.json")
FIELDS = (
    "text",
    "token_ids",
    "logprob",
    "log_weight",
    "log_candidate_weight",
    "accepted",
    "draws",
    "finish_reason",
    "missed_mass",
    "valid",
    "seed",
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"recycle": True},
    {"beams": 2},
    {"top_m": 2},
    {"max_walks": 3},
    {"max_walks": 5, "recycle": True},
)
SIZES = (1, 2, 9)
"""Draws of the prompts of a batch; each prompt is asked alone, too."""

VOCABULARY = Vocabulary(
    [b"a", b"b", b"c", b"ab", b"bc", b"ca", b"abc", b""], eos_token_ids=[7], special_token_ids=[7]
)
TEXTS = [b"", b"a", b"c", b"cab", b"cca", b"bcab", b"aaaa"]


def cases() -> Iterator[tuple[str, DiscSampler, TabularModel, Constraint, int | None]]:
    """Yield a name, a sampler, its model and constraint, and the longest text."""
    toys = {("b", None): toy_b(), ("world 7", 2): random_world(7)}
    for tries in (1, 2, 4, 7, 33):
        for (name, limit), toy in toys.items():
            for options in OPTIONS:
                sampler = DiscSampler(K=tries, **options)
                label = f"{name}, K={tries}, {options}"
                yield label, sampler, toy.model(), toy.constraint, limit
        begun = HealedConstraint(FiniteLanguage(TEXTS, VOCABULARY), b"ab")
        model = TabularModel(_random_law, VOCABULARY)
        yield f"healed, K={tries}", DiscSampler(K=tries), model, begun, None
        pair = pairs()["set"]
        drafted = DiscSampler(K=tries, draft=pair.draft_model(), gamma=2)
        yield f"draft, K={tries}", drafted, pair.toy.model(), pair.constraint, None


def drawn(
    sampler: DiscSampler, model: TabularModel, constraint: Constraint, limit: int | None
) -> list[list[dict[str, Any]]]:
    """Draw for several prompts in one batch, one of them without a constraint."""
    asked = [
        Request([], constraint, seeds=range(100 * i, 100 * i + n), max_new_tokens=limit)
        for i, n in enumerate(SIZES)
    ]
    asked.append(Request([0], None, seeds=range(3), max_new_tokens=3))
    found = []
    for samples in sampler.draw_batch(model, asked):
        assert isinstance(samples, list)
        found.append([_shown(sample.to_json()) for sample in samples])
    return found


def checksum(found: list[list[dict[str, Any]]]) -> int:
    """Return a number that tells records apart."""
    return zlib.crc32(json.dumps(found).encode())


def _random_law(prefix: Row) -> NDArray[np.float64]:
    weights = np.random.default_rng([17, *prefix]).exponential(size=VOCABULARY.width) ** 2
    return np.asarray(weights / weights.sum())


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    shown = {name: record[name] for name in FIELDS if name in record}
    return {k: round(v, 9) if isinstance(v, float) else v for k, v in shown.items()}


if __name__ == "__main__":
    sums = {label: checksum(drawn(*case)) for label, *case in cases()}
    FILE.write_text(json.dumps(sums, indent=0) + "\n")

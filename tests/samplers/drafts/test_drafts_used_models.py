"""With a draft, results hang on the record alone, whatever contexts the models hold besides.

A model that was used gives freed ids anew, in no order: nothing may follow the order of ids.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import CdecError
from cdec.core.models.tabular import TabularModel
from cdec.samplers.exact import ExactSampler
from cdec.samplers.request import Request
from tests.laws.toys import Row, toy_set
from tests.samplers.drafts.draft_toys import pairs, random_law

VOCABULARY = pairs()["set"].toy.vocabulary
KINDS: dict[str, dict[str, Any]] = {
    "gamma 3": {"gamma": 3},
    "auto": {"gamma": "auto", "round": 4},
    "prompt-lookup": {"draft": "prompt-lookup", "gamma": 2},
    "no draft": {"draft": None},
}


def random_rows(rng: np.random.Generator) -> list[Row]:
    """Return eight distinct rows of up to five letters."""
    rows: set[Row] = set()
    while len(rows) < 8:
        rows.add(tuple(int(t) for t in rng.integers(0, 4, size=int(rng.integers(1, 6)))))
    return sorted(rows)


def requests(seed: int) -> list[Request]:
    """Return five records, of which two share a prompt and two a set."""
    rng = np.random.default_rng(seed)
    sets = [toy_set(random_rows(rng), VOCABULARY) for _ in range(3)]
    which = [([0, 1, 0], 0), ([1, 2], 1), ([0, 1, 0], 2), ([2], 0), ([], 1)]
    return [
        Request(prompt, sets[number], [50 * seed + 10 * i + j for j in range(6)], id=i)
        for i, (prompt, number) in enumerate(which)
    ]


@functools.cache
def laws(seed: int) -> tuple[Any, Any]:
    """Return a target's and a draft's probabilities, computed once a prefix."""
    target, draft = random_law(1000 + seed, 0.2 * (seed % 3)), random_law(2000 + seed, 0.3)
    return functools.cache(target), functools.cache(draft)


def sampler(kind: str, seed: int, used: bool) -> tuple[ExactSampler, TabularModel]:
    """Return a sampler and its target; used models have holes among their contexts."""
    target, draft = (TabularModel(law, VOCABULARY) for law in laws(seed))
    ours = ExactSampler(**{"draft": draft} | KINDS[kind])
    if used:
        target.prefill([[3]])
        draft.prefill([[3]])
        for _ in range(2):
            ours.draw_batch(target, requests(seed + 1000))
    return ours, target


def records(results: list[Any]) -> list[list[dict[str, Any]]]:
    """Return samples as JSON objects with rounded sums; an error fails the test."""
    assert not any(isinstance(samples, CdecError) for samples in results)
    return [
        [
            {k: round(v, 9) if isinstance(v, float) else v for k, v in sample.to_json().items()}
            for sample in samples
        ]
        for samples in results
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_exact_gives_a_record_the_same_samples_alone_and_beside_others(kind: str) -> None:
    for seed in (33, 37, 43):
        asked = requests(seed)
        found = {}
        for size, used in ((1, False), (1, True), (2, True), (5, False)):
            found[size, used] = []
            for start in range(0, 5, size):
                ours, target = sampler(kind, seed, used)
                some = asked[start : start + size]
                found[size, used] += records(ours.draw_batch(target, some))
        for case, those in found.items():
            assert those == found[1, False], (seed, case)

"""Bytes that a visited prefix costs: the tree's own columns, the model's contexts, the process.

A million prefixes of random three-token members of a large set are visited by ``asap``. Left out
are the caches with budgets of their own: the tree's vectors and the model's distributions.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core import TabularModel, Vocabulary
from cdec.core.sets.rows import SetRows
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import build_trie
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.randomness import draw_seeds
from tools.benchmarks import report
from tools.benchmarks.processes import resident_bytes
from tools.benchmarks.setting import Setting

_TOKENS = 200
_CACHE = 8 << 20
"""Bytes of each cache, small beside what is measured."""


def run(setting: Setting, visited: int = 1_000_000) -> dict[str, Any]:
    """Measure, print and save.

    Args:
        setting: Where the figures go; no model is loaded.
        visited: Prefixes to visit, at least about.
    """
    vocabulary = Vocabulary([b"<%d>" % t for t in range(_TOKENS)] + [b""], eos_token_ids=[_TOKENS])
    constraint = all_triples(vocabulary)
    flat = np.full(vocabulary.width, 1 / vocabulary.width)
    model = TabularModel(lambda _: flat, vocabulary, cache_bytes=_CACHE)
    measure(model, constraint, 1000)  # code is compiled, caches are allotted
    figures = measure(model, constraint, visited)
    report.show(
        f"Bytes a visited child, {figures['visited']:,} visited (target: tree ≤ 100)",
        ("what", "bytes"),
        [
            ("the tree's columns, as used", figures["tree"]),
            ("the tree's columns, as allotted", figures["tree_allotted"]),
            ("the model's context tree beside it, as allotted", figures["contexts_allotted"]),
            ("growth of the process, caches and records included", figures["process"]),
        ],
    )
    setting.save("aligned-memory", figures)
    return figures


def all_triples(vocabulary: Vocabulary) -> SetConstraint:
    """Return the set of all rows of three tokens; stepping reads no member's text."""
    tokens = np.indices((_TOKENS,) * 3).reshape(3, -1).T.astype(np.int32)
    offsets = 3 * np.arange(len(tokens) + 1, dtype=np.int64)
    no_texts: Any = None
    trie = build_trie(tokens.reshape(-1), offsets, vocabulary.size)
    return SetConstraint(SetRows(trie, vocabulary, no_texts))


def measure(model: TabularModel, constraint: SetConstraint, visited: int) -> dict[str, Any]:
    """Visit about ``visited`` prefixes in one record and take stock."""
    options: dict[str, Any] = {"round": 4096, "burn_in": 0, "tree_cache": _CACHE}
    sampler = SAMPLERS["asap"](**options)
    # A draw visits its triple, mostly new, and its pair, soon one of those known.
    seeds = draw_seeds(np.random.default_rng(1), int(1.1 * visited))
    gc.collect()
    before = resident_bytes()
    with Batch(model, [Request("", constraint, seeds)]) as batch:
        outcome = sampler.outcome_of(batch)
        gc.collect()
        after = resident_bytes()
        seen: NDArray[np.int64] = batch.tree.visited()
        count = len(seen)
        columns = batch.tree.columns.values()
        contexts: Any = model._tree
        used = int(seen.max()) + 1
        del outcome
        return {
            "visited": count,
            "tree": sum(column.itemsize for column in columns) * used / count,
            "tree_allotted": batch.tree.nbytes / count,
            "contexts_allotted": contexts.nbytes / count,
            "process": (after - before) / count,
        }

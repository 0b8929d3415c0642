"""What a step of ConstraintProcessor costs beside transformers' own prefix processor.

``python -m tools.benchmarks.bench_integrations``: every row of a batch walks through members of a
list; both processors see the same inputs, growing by one token a call, as generate gives them. The
peer is ``PrefixConstrainedLogitsProcessor`` over a trie of dicts of the same tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PrefixConstrainedLogitsProcessor

from cdec.compilers import set_constraint
from cdec.core import Vocabulary
from cdec.data.assets import entity_list
from cdec.integrations.transformers import ConstraintProcessor

PROMPT = 32
"""Tokens of a prompt."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 32, 128])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="folder of the JSON")
    options = parser.parse_args()
    vocabulary = Vocabulary.from_tokenizer("embedded")
    names = entity_list("facts").read_text(encoding="utf-8").splitlines()
    constraint = set_constraint(names, vocabulary)
    members = _members(constraint)
    trie = _trie(members, vocabulary.eos_token_ids[0])
    rows = [
        _row(count, members, trie, constraint, vocabulary.width, options.repeats)
        for count in options.rows
    ]
    print(
        f"{len(names):,} names, {vocabulary.width:,} logits, {PROMPT} tokens of prompt; ms a step"
    )
    print("| rows | ConstraintProcessor | dict trie + PrefixConstrainedLogitsProcessor |")
    print("|---|---|---|")
    for row in rows:
        print(f"| {row['rows']} | {row['cdec']:.2f} | {row['peer']:.2f} |")
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "integrations.json").write_text(json.dumps(rows))


def _members(constraint: Any) -> list[list[int]]:
    flat, offsets = constraint.member_rows()
    return [flat[a:b].tolist() for a, b in itertools.pairwise(offsets)]


def _trie(members: list[list[int]], end: int) -> dict[int, Any]:
    root: dict[int, Any] = {}
    for member in members:
        node = root
        for token in [*member, end]:
            node = node.setdefault(token, {})
    return root


def _row(
    count: int,
    members: list[list[int]],
    trie: dict[int, Any],
    constraint: Any,
    width: int,
    repeats: int,
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    long = [member for member in members if len(member) >= 6]
    chosen = np.array([long[i][:6] for i in rng.integers(0, len(long), count)])
    prompts = rng.integers(5, width, (count, PROMPT))

    def allowed(_: int, tokens: Any) -> list[int]:
        node = trie
        for token in tokens[PROMPT:].tolist():
            node = node[token]
        return list(node)

    peer = PrefixConstrainedLogitsProcessor(allowed, num_beams=1)
    _step(ConstraintProcessor(constraint), prompts, chosen, width)  # kernels are loaded
    ours = [_step(ConstraintProcessor(constraint), prompts, chosen, width) for _ in range(repeats)]
    theirs = [_step(peer, prompts, chosen, width) for _ in range(repeats)]
    return {"rows": count, "cdec": float(np.median(ours)), "peer": float(np.median(theirs))}


def _step(
    processor: Callable[..., Any],
    prompts: NDArray[np.int64],
    chosen: NDArray[np.int64],
    width: int,
) -> float:
    """Return the milliseconds of a call, the mean over the texts' first steps."""
    scores = torch.zeros((len(prompts), width))
    inputs = [
        torch.from_numpy(np.concatenate([prompts, chosen[:, :length]], axis=1))
        for length in range(chosen.shape[1])
    ]
    begin = time.perf_counter()
    for ids in inputs:
        processor(ids, scores)
    return 1000 * (time.perf_counter() - begin) / len(inputs)


if __name__ == "__main__":
    main()

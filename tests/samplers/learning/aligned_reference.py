"""A plain reference of the aligned methods, and replays of it."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.integrations.findings.adaptive import END, Memory, Rules, divergence
from cdec.integrations.findings.enumeration import Law, target
from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from tests.laws.worlds import Row, Toy

# --- ASAp and exact adaptive rejection on a toy.
#
# ``Memory`` says the law of the next candidate and the weight of each text. ``simulate`` and
# ``count_calls`` draw from it. ``tree_law`` reads the same law off the columns of cdec's tree,
# without its descent.


def simulate(toy: Toy, counts: Sequence[int], runs: int, seed: int) -> list[list[float]]:
    """Return KL(Q̃ ‖ Q) after each of ``counts`` candidates drawn one by one, a list a run."""
    rules, q = Rules(toy), target(toy)
    rng = random.Random(seed)
    found = []
    for _ in range(runs):
        memory = Memory(rules)
        values = []
        for number in range(max(counts) + 1):
            if number in counts:
                values.append(divergence(memory.law(), q))
            row, _ = memory.draw(rng)
            assert row is not None
            memory.learn([row])
        found.append(values)
    return found


def count_calls(toy: Toy, samples: int, size: int, seed: int, *, aborting: bool) -> float:
    """Return evaluations along all paths, per exact sample, of one record drawn in rounds."""
    memory, rng = Memory(Rules(toy)), random.Random(seed)
    calls = taken = 0
    while taken < samples:
        drawn = [memory.draw(rng, aborting=aborting) for _ in range(size)]
        for row, path in drawn:
            # All of a round is drawn, whether or not it is still wanted.
            calls += len(path)
            if taken == samples:
                continue
            share = 1.0 if aborting else memory.weight(path) / memory.bound(())
            taken += row is not None and rng.random() < share
        memory.learn(prefix for _, path in drawn for prefix in path)
    return calls / samples


def children_of(tree: Any) -> dict[tuple[int, int], int]:
    """Return the visited nodes of cdec's tree, of all records, by parent and token."""
    nodes = tree.visited()
    keys = zip(tree["parent"][nodes].tolist(), tree["token"][nodes].tolist(), strict=True)
    return dict(zip(keys, nodes.tolist(), strict=True))


def tree_law(rules: Rules, tree: Any, root: int, children: dict[tuple[int, int], int]) -> Law:
    """Return the law of the next masked candidate as the columns of cdec's tree give it.

    Args:
        tree: A ``PrefixTree``, whose bounds are up to date. root: Node of the prompt.
        children: Of ``tree``.
    """
    law: Law = defaultdict(float)
    start = root if tree["flags"][root] & 1 else None
    walks: list[tuple[Row, int | None, float]] = [((), start, 1.0)]
    while walks:
        prefix, node, p = walks.pop()
        if rules.has_ended(prefix):
            law[prefix] += p
            continue
        weights = {} if rules.is_cut(prefix) else dict(rules.events(prefix))
        total = sum(weights.values())
        below: dict[int, int | None] = dict.fromkeys(weights)
        if node is not None:
            total = math.exp(tree["bound"][node])
            below = {event: children.get((node, event)) for event in weights}
        for event, child in below.items():
            if child is not None:
                weights[event] = math.exp(tree["edge"][child] + tree["bound"][child])
        if total <= 0:
            law[None] += p
            continue
        for event, weight in weights.items():
            if event == END:
                law[prefix] += p * weight / total
            elif weight > 0:
                walks.append(((*prefix, event), below[event], p * weight / total))
    return dict(law)


# --- What rounds of cdec's tree say, compared number by number with the plain reference.

CLOSE = 1e-9
"""Sums of at most 100 float64 terms in another order, and kernels' exp to 1e-15, differ by less."""


@contextmanager
def opened(
    toy: Toy, records: int, size: int, *, limit: int | None = None, **options: Any
) -> Iterator[tuple[Batch, Rounds]]:
    """Open ``records`` equal requests that differ in their seeds, and their rounds."""
    seeds = np.random.default_rng(options.pop("seed", 5)).integers(0, 1 << 53, records).tolist()
    requests = [Request("", toy.constraint, [s], max_new_tokens=limit) for s in seeds]
    chosen = {"max_walks": 1 << 15, "tree_cache": 1 << 24} | options
    with Batch(toy.model(), requests) as batch:
        yield batch, Rounds(batch, size=size, **chosen)


def rounds_of_all(batch: Batch, rounds: Rounds, size: int) -> list[Round]:
    """Draw one round of every record."""
    requests = np.arange(len(batch.requests))
    return list(rounds.draw(requests, np.full(len(requests), size)))


def path_of(drawn: Round, row: int) -> Row:
    """Return the tokens of a candidate: it visited all of their prefixes."""
    candidates = drawn.candidates
    return tuple(candidates.tokens[row, : candidates.lengths[row]].tolist())


def replay(rules: Rules, *, rounds: int, size: int, **options: Any) -> None:
    """Draw rounds of one record and let the reference follow; every number must agree."""
    memory = Memory(rules)
    with opened(rules.toy, 1, size, limit=rules.limit, **options) as (batch, drawing):
        for _ in range(rounds):
            (drawn,) = rounds_of_all(batch, drawing, size)
            check_candidates(memory, drawn, batch.path_calls[0], aborting=drawing.aborting)
            memory.learn(path_of(drawn, row) for row in range(size))
            check_tree(memory, batch)


def check_candidates(
    memory: Memory, drawn: Round, calls: NDArray[np.int64], *, aborting: bool
) -> None:
    """Compare log P, log x and the calls of a round's candidates, and what is accepted."""
    rules, root = memory.rules, memory.bound(())
    with np.errstate(divide="ignore"):
        assert drawn.log_root == pytest.approx(np.log(root), abs=CLOSE)
    known, law = memory.beyond(), memory.law()
    for row in range(len(drawn.tests)):
        path = path_of(drawn, row)
        prefixes = [path[:n] for n in range(len(path) + 1)]
        log_p, log_x = (float(getattr(drawn.candidates, c)[row]) for c in ("log_p", "log_x"))
        x = root if aborting else memory.weight(prefixes)
        cut = 0.0 if path in memory.bounds else rules.beyond(path)
        above = root if aborting else memory.weight(prefixes[:-1])
        assert math.exp(drawn.log_truncated[row]) == pytest.approx(known + cut * above, abs=CLOSE)
        silent = rules.has_ended(path) or rules.is_cut(path)
        # Where nothing has any mass, it does not matter who looks at the prompt once more.
        assert root == 0 or calls[drawn.first + row] == len(prefixes) - silent
        if not drawn.candidates.is_complete[row]:
            assert log_x == -math.inf and not drawn.passed[row]
            continue
        own = 1.0 if rules.has_ended(path) else rules.events(path)[-1]
        assert math.exp(log_p) == pytest.approx(rules.probability(path) * own, rel=CLOSE)
        assert math.exp(log_x) == pytest.approx(x, rel=CLOSE)
        # The weight is P / Q̃ exactly, which is what makes weighted records unbiased.
        assert aborting or law[path] * x == pytest.approx(math.exp(log_p), rel=CLOSE)
        assert drawn.passed[row] == (drawn.tests[row] < x / root)


def check_tree(memory: Memory, batch: Batch) -> None:
    """Compare the bracket and the law of the next candidate, after a round."""
    tree, root = batch.tree, int(batch.roots[0])
    assert math.exp(tree.log_upper(root)) == pytest.approx(memory.bound(()), rel=CLOSE, abs=1e-300)
    assert math.exp(tree.log_found[0]) == pytest.approx(memory.found(), rel=CLOSE)
    assert math.exp(tree.log_truncated[0]) == pytest.approx(memory.beyond(), rel=CLOSE)
    law = tree_law(memory.rules, tree, root, children_of(tree))
    assert_same_law(law, memory.law())


def assert_same_law(found: Law, expected: Law) -> None:
    """Compare two laws, outcome by outcome."""
    for outcome in {*found, *expected}:
        p = expected.get(outcome, 0.0)
        assert found.get(outcome, 0.0) == pytest.approx(p, abs=CLOSE), outcome

"""What rounds of cdec's tree say, compared number by number with the plain reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from tests.laws.toys import Row, Toy
from tests.samplers.enumeration import Law
from tests.samplers.learning.aligned_reference import Memory, Rules, children_of, tree_law

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
            check_candidates(memory, drawn, aborting=drawing.aborting)
            memory.learn(path_of(drawn, row) for row in range(size))
            check_tree(memory, batch)


def check_candidates(memory: Memory, drawn: Round, *, aborting: bool) -> None:
    """Compare log P, log x and the evaluations of a round's candidates, and what is accepted."""
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
        assert root == 0 or drawn.candidates.evaluations[row] == len(prefixes) - silent
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

"""Trees that searches fill: what they hold, and the law of what is drawn from them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import TreeMismatchError, UsageError
from cdec.integrations.findings.adaptive import Memory, Rules
from cdec.integrations.findings.enumeration import mass, target
from cdec.samplers import SAMPLERS
from cdec.samplers.learning.rounds import Rounds
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b
from tests.samplers.learning.aligned_reference import (
    check_candidates,
    check_tree,
    path_of,
    rounds_of_all,
)
from tests.samplers.learning.tree_files import grown, reloaded

SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("topn", {"max_evaluations": 3}),
    ("topn", {"max_evaluations": 3, "round": 2}),
    ("topn", {"proved": True}),
    ("beam", {"beams": 2}),
]


def search(toy: Toy, method: str, *, limit: int | None = None, n: int = 2, **options: Any) -> Any:
    return SAMPLERS[method](**options).draw(
        toy.model(), toy.constraint, [1], n=n, rng=np.random.default_rng(0), max_new_tokens=limit
    )


def visited(batch: Batch) -> list[Row]:
    """Return the prefixes of the first record's tree."""
    root = int(batch.roots[0])
    rows = []
    for node in batch.tree.visited().tolist():
        row: list[int] = []
        while node != root:
            row.insert(0, int(batch.tree["token"][node]))
            node = int(batch.tree["parent"][node])
        rows.append(tuple(row))
    return rows


def check_law_of(rules: Rules, path: Path, candidates: int) -> None:
    """Draw on from a file's tree; bounds, weights and the law are those of its prefixes."""
    toy, size = rules.toy, 4
    request = Request([1], toy.constraint, [5], max_new_tokens=rules.limit)
    memory = Memory(rules)
    with Batch(toy.model(), [request]) as batch:
        given = {"max_walks": 100, "tree_cache": 1 << 20, "file": TreeFile(path)}
        rounds = Rounds(batch, size=size, **given)
        assert rounds.before.tolist() == [candidates]
        memory.learn(visited(batch))
        check_tree(memory, batch)
        for _ in range(3):
            (drawn,) = rounds_of_all(batch, rounds, size)
            check_candidates(memory, drawn, batch.path_calls[0], aborting=False)
            memory.learn(path_of(drawn, row) for row in range(size))
            check_tree(memory, batch)


@pytest.mark.parametrize(("method", "options"), SEARCHES)
def test_what_is_drawn_from_a_filled_tree_has_the_law_of_its_prefixes(
    tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    toys = [toy_a(), *(random_toy(seed, ends_itself=seed % 2 == 0) for seed in range(6))]
    for number, toy in enumerate(toys):
        limit = None if number % 3 else 2
        path = tmp_path / f"{number}.arrow"
        found = search(toy, method, limit=limit, tree=TreeFile(path), **options)
        plain = search(toy, method, limit=limit, **options)
        assert [sample.to_json() for sample in found] == [sample.to_json() for sample in plain]
        check_law_of(Rules(toy, limit), path, 0)


def test_parts_of_a_level_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, paths = random_toy(5), [tmp_path / "one.arrow", tmp_path / "all.arrow"]
    for path in paths:
        search(toy, "topn", proved=True, tree=TreeFile(path))
        monkeypatch.setattr("cdec.samplers.learning.filling._PASS_BYTES", 1)
    assert reloaded(toy, paths[0]) == reloaded(toy, paths[1])
    check_law_of(Rules(toy), paths[1], 0)


@pytest.mark.parametrize(("method", "options"), SEARCHES)
def test_a_search_adds_to_a_tree_that_candidates_grew(
    tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    for seed in range(4):
        toy, path = random_toy(seed), tmp_path / f"{seed}.arrow"
        grown(toy, path, 3)
        with Batch(toy.model(), [Request([1], toy.constraint, [5])]) as batch:
            batch.tree.add_column("state", np.int64, 0)
            TreeFile(path).load(batch)
            before = set(visited(batch))
        search(toy, method, tree=TreeFile(path), **options)
        with Batch(toy.model(), [Request([1], toy.constraint, [5])]) as batch:
            batch.tree.add_column("state", np.int64, 0)
            TreeFile(path).load(batch)
            assert before <= set(visited(batch))
        check_law_of(Rules(toy), path, 3)


def test_a_proved_search_leaves_asap_nothing_to_learn(tmp_path: Path) -> None:
    """All members were found, so the first candidate already has the law Q and the mass P(S)."""
    toy, path = toy_a(), tmp_path / "tree.arrow"
    search(toy, "topn", n=len(toy.members), proved=True, tree=TreeFile(path))
    asap = SAMPLERS["asap"](burn_in=0, round=1, tree=TreeFile(path))
    (first,) = asap.draw(toy.model(), toy.constraint, [1], rng=np.random.default_rng(0))
    assert math.exp(first.log_weight) == pytest.approx(mass(toy), rel=1e-9)
    assert first.diagnostics["iteration"] == 1
    blank = SAMPLERS["asap"](burn_in=0, round=1)
    (other,) = blank.draw(toy.model(), toy.constraint, [1], rng=np.random.default_rng(0))
    assert math.exp(other.log_weight) != pytest.approx(mass(toy), rel=1e-3)


@pytest.mark.slow
def test_exact_draws_from_a_filled_tree_follow_q(tmp_path: Path) -> None:
    toy, rows = toy_b(), []
    for seed in range(40):
        path = tmp_path / f"{seed}.arrow"
        search(toy, *[("topn", "beam")[seed % 2]], n=1, tree=TreeFile(path))
        exact = SAMPLERS["exact"](round=4, tree=TreeFile(path))
        rng = np.random.default_rng(seed)
        samples = exact.draw(toy.model(), toy.constraint, [1], n=50, rng=rng)
        rows += [tuple(sample.token_ids) for sample in samples]
    assert g_test(rows, target(toy)) > 1e-4


def test_a_tree_of_another_constraint_is_refused_before_the_search(tmp_path: Path) -> None:
    path = tmp_path / "tree.arrow"
    grown(toy_b(), path, 3)
    held = path.read_bytes()
    with pytest.raises(TreeMismatchError):
        search(toy_a(), "topn", tree=TreeFile(path))
    assert path.read_bytes() == held
    with pytest.raises(UsageError, match="about a constraint"):
        SAMPLERS["topn"](tree=TreeFile(tmp_path / "none.arrow")).draw(
            toy_b().model(), None, [1], rng=np.random.default_rng(0), max_new_tokens=2
        )

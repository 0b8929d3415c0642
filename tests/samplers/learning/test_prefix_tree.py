"""The prefix tree's bounds and ownership, on hand-made prefixes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cdec.samplers.prefix_tree import PrefixTree, Visit


def empty_tree(requests: int = 1) -> PrefixTree:
    """Return a tree over contexts whose parents are set by ``visit``."""
    columns = {name: np.full(200_000, -1, np.int32) for name in ("parent", "token", "depth")}
    contexts: Any = SimpleNamespace(columns=columns)
    return PrefixTree(requests, contexts)


def visit(
    tree: PrefixTree,
    context: int,
    parent: int,
    edge: float,
    mass: float,
    *,
    request: int = 0,
    draw: int = 0,
    end: float = 0.0,
    exact: bool = False,
) -> None:
    """Visit one prefix; probabilities are plain numbers."""
    tree["parent"][context] = parent
    tree["depth"][context] = 0 if parent < 0 else tree["depth"][parent] + 1
    prefix = 0.0 if parent < 0 else math.log(edge)
    columns = {"context": context, "parent": parent}
    columns |= {"request": request, "draw": draw, "log_edge": math.log(edge)}
    columns |= {"log_prefix": prefix, "in_run": False}
    nodes: Any = SimpleNamespace(**{name: np.array([value]) for name, value in columns.items()})
    with np.errstate(divide="ignore"):
        tree.visit(nodes, Visit(np.log([mass]), np.log([end]), exact=exact))


def upper(tree: PrefixTree, root: int = 5) -> float:
    """Return c(root)."""
    return math.exp(tree.log_upper(root))


def test_unvisited_prefixes_count_fully_and_visited_ones_by_their_bound() -> None:
    tree = empty_tree()
    assert upper(tree) == 1.0
    visit(tree, 5, -1, 1.0, 0.8)
    assert upper(tree) == pytest.approx(0.8)
    visit(tree, 7, 5, 0.5, 0.1)
    assert upper(tree) == pytest.approx(0.3 + 0.5 * 0.1)
    visit(tree, 9, 5, 0.3, 0.0)
    assert upper(tree) == pytest.approx(0.05)
    visit(tree, 11, 7, 0.1, 1e-9)
    assert upper(tree) == pytest.approx(0.05e-9, rel=1e-6)


def test_an_exact_rest_is_added_to_the_children_without_any_loss() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 1e-300, exact=True)
    visit(tree, 7, 5, 0.999999999, 1e-290, exact=True)
    assert tree.log_upper(5) == pytest.approx(math.log(1e-290), abs=1e-9)
    visit(tree, 8, 7, 0.5, 0.0, exact=True)
    assert tree.log_upper(5) == pytest.approx(math.log(1e-290), abs=1e-9)


def test_a_prefix_belongs_to_its_lowest_draw() -> None:
    tree = empty_tree()
    for draw in (4, 2, 3):
        visit(tree, 5, -1, 1.0, 0.8, draw=draw)
    assert tree["draw"][5] == 2
    assert tree.visited().tolist() == [5]


def test_each_text_is_found_once() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 0.8)
    for draw in range(3):
        visit(tree, 7, 5, 0.5, 0.4, end=0.2, draw=draw)
    found = tree.bounds(0, 5).fields()
    assert found["log_mass_lower"] == pytest.approx(math.log(0.1))
    assert found["log_mass_upper"] == pytest.approx(math.log(0.5))


def test_records_are_bounded_apart() -> None:
    tree = empty_tree(4)
    visit(tree, 5, -1, 1.0, 0.8)
    visit(tree, 7, 5, 0.5, 0.1)
    visit(tree, 6, -1, 1.0, 0.6, request=3)
    assert upper(tree) == pytest.approx(0.3 + 0.5 * 0.1)
    assert upper(tree, 6) == pytest.approx(0.6)


def test_columns_grow_with_the_contexts() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 0.8)
    visit(tree, 100_000, 5, 0.5, 0.1)
    assert upper(tree) == pytest.approx(0.35)
    assert tree.nbytes < 50 * 120_000

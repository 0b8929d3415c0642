"""Choice among settings: the cheapest, then the best of these."""

from __future__ import annotations

import pytest

from cdec.data.metrics.choice import Choice, choose

Row = tuple[str, float, float]


def chosen_of(*rows: Row, cheapest: int = 10) -> Choice[Row]:
    return choose(rows, lambda row: row[1], lambda row: row[2], cheapest)


@pytest.mark.parametrize("cheapest", [1, 2, 3, 4])
def test_the_best_of_the_cheapest_is_chosen_and_a_better_dear_one_is_not(cheapest: int) -> None:
    rows = (("c", 3, 9), ("a", 1, 2), ("b", 2, 5), ("d", 4, 10))
    assert chosen_of(*rows, cheapest=cheapest).chosen[0] == "abcd"[cheapest - 1]


def test_of_equal_merit_the_cheapest_is_chosen_and_of_equal_cost_the_better_comes_first() -> None:
    rows = (("a", 2.0, 1.0), ("b", 1.0, 1.0), ("c", 1.0, 0.5))
    choice = chosen_of(*rows)
    assert choice.chosen[0] == "b" and [row[0] for row in choice.ranked] == ["b", "c", "a"]
    assert chosen_of(("x", 1.0, 0.2), ("y", 1.0, 0.9), cheapest=1).chosen[0] == "y"


def test_a_setting_that_another_beats_is_not_on_the_frontier() -> None:
    rows = (("d", 4, 0.5), ("a", 1, 0.2), ("b", 2, 0.2), ("c", 3, 0.6))
    assert [row[0] for row in chosen_of(*rows).frontier] == ["a", "c"]

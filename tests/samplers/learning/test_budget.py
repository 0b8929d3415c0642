"""The budget of exact sampling: what is told while it is spent, and what records warn of."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.progress import Stage
from cdec.core.record_fields.text_warnings import described
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.bookkeeping import FIRST_GUESS
from cdec.samplers.learning.saved import TreeFile
from tests.laws.toys import Row, Toy, toy_b

_VOCABULARY = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])


def wide(length: int = 9, allowed: float = 0.05) -> Toy:
    """All texts of a and b of one length, of a model that would rather write c."""

    def probabilities(prefix: Row) -> np.ndarray:
        return np.array([allowed, allowed, 1 - 3 * allowed, allowed])

    members = list(product((0, 1), repeat=length))
    return Toy(_VOCABULARY, probabilities, members)


def told(toy: Toy, n: int = 1, **options: Any) -> tuple[list[Stage], list[Sample]]:
    """Return what ``exact`` tells of one record, and its samples."""
    stages: list[Stage] = []
    sampler = SAMPLERS["exact"](**options)
    sampler.progress = stages.append
    (samples,) = sampler.draw_batch(
        toy.model(), [Request.numbered("", toy.constraint, id="r", n=n, seed=5)]
    )
    assert isinstance(samples, list), samples
    return stages, samples


def test_the_share_of_the_budget_and_the_bracket_are_told_round_by_round() -> None:
    stages, _ = told(wide(), n=2, max_draws=40, round=8)
    assert [stage.done for stage in stages] == list(range(0, 80, 8))
    assert {(stage.name, stage.total, stage.unit) for stage in stages} == {("drawing", 80, "draws")}
    assert stages[0].note == "bracket open"
    widths = [float(stage.note.split()[1]) for stage in stages[1:]]
    assert all(stage.note.endswith(" nats") for stage in stages[1:])
    assert widths == sorted(widths, reverse=True) and widths[0] > widths[-1] > 0


def test_of_several_records_the_one_that_has_most_left_is_told() -> None:
    stages: list[Stage] = []
    sampler = SAMPLERS["exact"](max_draws=16, round=4)
    sampler.progress = stages.append
    toy = wide()
    requests = [
        Request.numbered("", toy.constraint, id=n, n=n, seed=5, max_new_tokens=9) for n in (1, 3)
    ]
    sampler.draw_batch(toy.model(), requests)
    assert [(s.done, s.total) for s in stages[:4]] == [(0, 16), (4, 48), (8, 48), (12, 48)]
    assert stages[-1].total == 48


def test_what_nobody_watches_draws_the_same() -> None:
    _, watched = told(wide(), n=2, max_draws=40, round=8)
    toy = wide()
    alone = SAMPLERS["exact"](max_draws=40, round=8).draw_batch(
        toy.model(), [Request.numbered("", toy.constraint, id="r", n=2, seed=5)]
    )[0]
    assert alone == watched


def test_a_budget_that_cannot_do_is_told_once_after_the_first_calls() -> None:
    stages, _ = told(wide(length=12), max_draws=200, round=16)
    ((drawn, notice),) = [(stage.done, stage.notice) for stage in stages if stage.notice]
    # A candidate asks for the 13 prefixes of its text, of which some are those of another.
    assert FIRST_GUESS / 13 <= drawn <= 3 * FIRST_GUESS / 13
    assert notice.code == "W_BUDGET"
    assert notice.details["record"] == "r" and notice.details["budget"] == 200
    needed = notice.details["needed"]
    assert isinstance(needed, int) and needed > 200
    assert "by a guess, record r needs about " in notice.message
    assert "has 200 (`max_draws`)" in notice.message


@pytest.mark.parametrize(("length", "allowed"), [(9, 0.05), (12, 0.05), (9, 0.2), (12, 0.2)])
@pytest.mark.parametrize("n", [1, 8])
def test_the_guess_takes_what_is_still_learnt_into_account(
    length: int, allowed: float, n: int
) -> None:
    toy = wide(length, allowed)
    _, samples = told(toy, n, max_draws=5000)
    drawn = sum(sample.diagnostics["draws"] for sample in samples)
    _, late = told(toy, n, max_draws=max(1, drawn // (2 * n)), fallback="none")
    needed = late[-1].warnings[0]["needed"] * n
    # By the acceptance rate at that time alone it would be 10 to 10,000 times too many.
    assert drawn / 4 < needed < 4 * drawn


@pytest.mark.parametrize("abort", [False, True])
def test_a_budget_that_does_is_not_warned_of(abort: bool) -> None:
    for toy, n in ((toy_b(), 200), (wide(allowed=0.32), 40)):
        stages, samples = told(toy, n, max_draws=100, abort=abort)
        assert all(sample.diagnostics["accepted"] for sample in samples)
        assert all(stage.notice is None for stage in stages)
        assert all(warning["code"] != "W_BUDGET" for s in samples for warning in s.warnings)
    assert stages[-1].done > FIRST_GUESS / 10


@pytest.mark.parametrize("fallback", ["disc", "asap", "none"])
def test_samples_past_the_budget_say_how_many_draws_they_need(fallback: str) -> None:
    _, (sample,) = told(wide(length=7), max_draws=16, round=16, fallback=fallback)
    assert sample.finish_reason == "budget"
    warning = sample.warnings[0]
    needed = warning["needed"]
    assert 16 < needed < 1000
    assert warning == {
        "code": "W_BUDGET",
        "token": 0,
        "byte": 0,
        "needed": needed,
        "max_draws": 16,
    }
    assert "within `max_draws` 16, and a sample needs about " in described(warning)


@pytest.mark.parametrize("options", [{"max_draws": 1}, {"max_draws": 1, "abort": True}])
@pytest.mark.parametrize("allowed", [1e-60, 1e-320])
def test_what_can_hardly_be_accepted_needs_more_than_a_million(
    options: dict[str, Any], allowed: float
) -> None:
    _, (sample,) = told(wide(length=8, allowed=allowed), **options)
    (warning,) = [each for each in sample.warnings if each["code"] == "W_BUDGET"]
    assert warning["needed"] <= 1_000_000
    if "abort" not in options:
        assert warning["needed"] == 1_000_000
        assert "a sample needs more than 1,000,000" in described(warning)


def test_a_kept_tree_goes_on_where_it_was(tmp_path: Path) -> None:
    toy, needs = wide(length=12), []
    for _ in range(3):
        options = {"max_draws": 64, "tree": TreeFile(tmp_path / "t.arrow")}
        _, (sample,) = told(toy, **options)
        needs.append(sample.warnings[0]["needed"])
    assert all(64 < needed < 100_000 for needed in needs)

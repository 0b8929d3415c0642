"""The mentored solver ends, also where one side's events are known long before the other's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.samplers.mentored.mentored_checks import check, peaked_pair
from tests.shared import REPOSITORY

WAITING = (126758, 592149, 974376, 1304, 11939, 12014)
"""Pairs, one in 25,000, where the exact side's cost between its edges must be known exactly."""


@pytest.mark.slow
def test_a_side_that_is_exact_does_not_keep_the_other_from_being_refined() -> None:
    # subtle: in a process of its own, as a compiled loop that never ends cannot be interrupted.
    code = (
        "from tests.samplers.mentored import test_mentored_ends as tests\n"
        "for seed in tests.WAITING:\n"
        "    tests.check(*tests.peaked_pair(seed))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, timeout=120, check=True)


def test_peaked_pairs_are_solved() -> None:
    for seed in range(300):
        check(*peaked_pair(seed))

"""DISC's draws on toy A follow their exact law, at every K, with fresh and recycled fallback."""

from __future__ import annotations

import pytest

from tests.laws.toys import toy_a
from tests.samplers.disc_laws import check_disc


@pytest.mark.parametrize("recycle", [False, True])
@pytest.mark.parametrize("tries", [1, 2, 4, 8])
def test_draws_follow_the_exact_law(tries: int, recycle: bool) -> None:
    check_disc(toy_a(), tries, recycle=recycle)

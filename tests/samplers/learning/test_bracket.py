"""Bracket: what bounds of P(S) say of a text under Q."""

from __future__ import annotations

import math

import pytest

from cdec.samplers.prefix_tree import Bracket

NAMES = ("probability", "probability_lower", "probability_upper")


def test_a_text_lies_between_its_share_of_either_bound() -> None:
    found = Bracket(math.log(0.1), math.log(0.4)).probability_of(math.log(0.05))
    assert [found[name] for name in NAMES] == [None, pytest.approx(0.125), pytest.approx(0.5)]


def test_bounds_that_meet_tell_the_probability() -> None:
    found = Bracket(math.log(0.2), math.log(0.2) + 1e-12).probability_of(math.log(0.05))
    assert found["probability"] == pytest.approx(0.25)
    assert found["probability_lower"] <= found["probability"] <= found["probability_upper"]


def test_what_is_certified_is_widened_by_the_rounding_of_all_events() -> None:
    noise = 1e-3
    bracket = Bracket(math.log(0.2), math.log(0.2), noise=noise)
    fields = bracket.fields()
    assert fields["log_mass_lower"] == pytest.approx(math.log(0.2) - noise)
    assert fields["log_mass_upper"] == pytest.approx(math.log(0.2) + noise)
    assert bracket.width == 0
    # P(w) and P(S) may both be off, one up and the other down.
    found = bracket.probability_of(math.log(0.05))
    assert [math.log(found[name]) for name in NAMES] == pytest.approx(
        [math.log(0.25), math.log(0.25) - 2 * noise, math.log(0.25) + 2 * noise]
    )
    # P(S) is at most 1, whatever is off.
    whole = Bracket(-1e-5, -1e-5, noise=noise)
    assert whole.fields()["log_mass_upper"] == 0
    found = whole.probability_of(math.log(0.05))
    assert math.log(found["probability_lower"]) == pytest.approx(math.log(0.05) - noise)
    # How far the bounds are apart has nothing to do with it.
    open_ended = Bracket(-1.0, -0.5, noise=2.0)
    assert open_ended.width == 0.5
    assert open_ended.log_unseen == pytest.approx(math.log(math.exp(-0.5) - math.exp(-1.0)))
    assert open_ended.probability_of(-1.0)["probability"] is None


def test_nothing_is_more_probable_than_one() -> None:
    nothing_seen = Bracket(-math.inf, 0.0).probability_of(math.log(0.05))
    assert [nothing_seen[name] for name in NAMES] == [None, pytest.approx(0.05), 1.0]
    alone = Bracket(math.log(0.3), math.log(0.3)).probability_of(math.log(0.3) + 1e-15)
    assert [alone[name] for name in NAMES] == [1.0, 1.0, 1.0]


def test_tiny_texts_of_tiny_masses_keep_their_share() -> None:
    found = Bracket(-5000.0, -5000.0).probability_of(-5001.0)
    assert found["probability"] == pytest.approx(math.exp(-1))


def test_what_is_no_member_or_has_no_mass_has_no_probability() -> None:
    for bracket, log_p in ((Bracket(), None), (Bracket(-math.inf, -math.inf), -1.0)):
        assert set(bracket.probability_of(log_p).values()) == {None}

"""Option: what a declaration accepts, and in which words it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import UsageError
from cdec.core.options import LARGEST_COUNT, Option, check_limits, limit, limits_of

COUNT = Option(name="rounds", type=int, default=4, at_least=1)
SHARE = Option(name="share", type=float, default=0.5, at_least=0, at_most=1)
OPEN = Option(name="width", type=float, above=0, below=1, expected="a width", hint="Try 0.01.")
NATS = Option(name="nats", type=float, at_least=0, infinite=True)
WORD = Option(name="kind", type=("one", "two"), default="one")
GAMMA = Option(name="gamma", type=(int, "auto"), default=4, unit="tokens", at_least=1)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        (COUNT, 1, 1),
        (COUNT, LARGEST_COUNT, LARGEST_COUNT),
        (SHARE, 1, 1.0),
        (OPEN, None, None),
        (NATS, math.inf, math.inf),
        (WORD, "two", "two"),
        (GAMMA, "auto", "auto"),
        (GAMMA, 7, 7),
        (Option(name="is_on", type=bool, default=False), True, True),
        (Option(name="file", type=Path), Path("a"), Path("a")),
        (Option(name="model", type=str, opened=True), 3.5, 3.5),
    ],
)
def test_values_within_bounds_are_returned(option: Option, value: Any, expected: Any) -> None:
    found = option.check(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("option", "value", "message", "hint"),
    [
        (
            COUNT,
            0,
            "`rounds` is 0, expected at least 1",
            "give `rounds` a number of 1 or more, or leave it out",
        ),
        (
            COUNT,
            1 << 31,
            "`rounds` is 2147483648, expected at most 2147483647",
            "give `rounds` a smaller number, or leave it out",
        ),
        (
            Option(name="tries", type=int, default=4, at_most=9),
            10,
            "`tries` is 10, expected an integer of at most 9",
            "Give `tries` a value of 9 or less: memory grows with it.",
        ),
        (
            SHARE,
            2.0,
            "`share` is 2.0, expected a number of 0 or more and of 1 or less",
            "Give `share` such a number, or leave it out for the default.",
        ),
        (
            SHARE,
            math.nan,
            "`share` is nan, expected at least 0",
            "give `share` a number of 0 or more, or leave it out",
        ),
        (OPEN, 0.0, "`width` is 0.0, expected a width", "Try 0.01."),
        (WORD, "three", "`kind` is 'three', expected one of one, two", "Leave it out for one."),
        (
            GAMMA,
            0,
            "`gamma` is 0, expected a number of tokens from 1 to 2147483647, or auto",
            "give for example `gamma` 4",
        ),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_what_to_do(
    option: Option, value: Any, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        option.check(value)
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.details == {"option": option.name}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (COUNT, True),
        (COUNT, 1.0),
        (COUNT, "1"),
        (COUNT, None),
        (SHARE, "high"),
        (SHARE, True),
        (NATS, math.nan),
        (Option(name="score", type=float, default=0.3), math.inf),
        (Option(name="is_on", type=bool, default=False), 1),
        (GAMMA, "often"),
        (GAMMA, True),
        (Option(name="file", type=Path), "a"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(option: Option, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        option.check(value)
    assert f"`{option.name}` is {value!r}, expected" in caught.value.message


@dataclass(frozen=True)
class Bounds:
    most: int = limit(5, "Most of them.", unit="tokens")
    share: float = limit(0.5, "Share of them.", at_least=0.1)

    def __post_init__(self) -> None:
        check_limits(self)


def test_limits_are_options_with_the_names_types_and_defaults_of_their_fields() -> None:
    most, share = limits_of(Bounds)
    assert (most.name, most.type, most.default, most.unit) == ("most", int, 5, "tokens")
    assert (share.name, share.type, share.default, share.at_least) == ("share", float, 0.5, 0.1)


def test_a_limit_may_be_as_large_as_one_likes_but_not_nothing() -> None:
    assert Bounds(most=2**40, share=math.inf) == Bounds(2**40, math.inf)
    for given in ({"most": 0}, {"share": 0.05}, {"most": 1.5}):
        with pytest.raises(UsageError, match=r"^`(most|share)` is "):
            Bounds(**given)  # type: ignore[arg-type]

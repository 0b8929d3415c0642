"""Options of commands: fields of dataclasses, groups of them, limits, those that are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdec.cli.frame.declaration import group, limits, option, options_of, several
from cdec.core.options import Option, limit

COUNT = Option(name="rounds", type=int, default=4, at_least=1)


@dataclass(frozen=True)
class Bounds:
    most: int = limit(5, "Most of them.")
    share: float = limit(0.5, "Share of them.", at_least=0.1)


@dataclass(frozen=True)
class Inner:
    depth: int | None = option(None, "How deep.", "Shape", at_least=1, decides=True)


@dataclass(frozen=True)
class Outer:
    name: str = option("x", "Its name.")
    inner: Inner = group(Inner)
    bounds: Bounds = limits(Bounds(most=2_000_000), "Limits")
    given: dict[str, Any] = several(lambda: {"rounds": COUNT})


def test_a_dataclass_of_options_has_those_of_its_groups_in_their_order() -> None:
    name, depth, most, share, rounds = options_of(Outer)
    assert (name.name, name.type, name.default, name.panel) == ("name", str, "x", "General")
    assert (depth.type, depth.panel, depth.decides, name.decides) == (int, "Shape", True, False)
    assert [each.within for each in (name, depth, most, rounds)] == [
        (),
        ("inner",),
        ("bounds",),
        ("given",),
    ]
    assert (most.default, most.help) == (None, "Most of them; 2 million if not given.")
    assert (share.panel, rounds.default) == ("Limits", 4)

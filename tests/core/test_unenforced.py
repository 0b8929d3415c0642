"""What masks leave open stands in every record, however the constraint is combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from cdec.core.combine.conjunction import ConjunctionConstraint, conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint
from cdec.samplers import sample
from tests.laws.toys import toy_b

OPEN = {"path": "/not", "keyword": "not", "reason": "nobody knows"}


class Lenient(WrappedConstraint):
    """A set whose masks leave something open: the text of its members is wrong all the same."""

    @cached_property
    def unenforced(self) -> Sequence[Mapping[str, str]]:
        """One keyword."""
        return (OPEN,)

    def accepts(self, text: bytes) -> bool | None:
        """Refuse everything."""
        return False


def drawn(constraint: Constraint) -> list[dict[str, object]]:
    samples = sample(toy_b().model(), constraint, "", method="masked", n=2, max_new_tokens=4)
    return [each.to_json() for each in samples]


def test_samples_carry_it_whether_they_are_valid_or_not() -> None:
    toy = toy_b()
    assert "unenforced" not in drawn(toy.constraint)[0]
    for record in drawn(Lenient(toy.constraint)):
        assert record["unenforced"] == [OPEN] and record["valid"] is False


def test_combinations_keep_it() -> None:
    toy = toy_b()
    lenient = Lenient(toy.constraint)
    restricted = conjoin(toy.constraint, lenient)
    member = toy.vocabulary.decode(toy.members[0])
    combined = (restricted, ConjunctionConstraint(toy.constraint, lenient), deny(lenient, [member]))
    assert [list(each.unenforced) for each in combined] == [[OPEN]] * 3


def test_verdicts_of_members_carry_it() -> None:
    toy = toy_b()
    (verdict,) = ConjunctionConstraint(toy.constraint, toy.constraint).token_verdicts(
        [toy.members[0]]
    )
    assert verdict["valid"] and "unenforced" not in verdict
    (verdict,) = Lenient(toy.constraint).token_verdicts([toy.members[0]])
    assert verdict["valid"] and verdict["unenforced"] == [OPEN]

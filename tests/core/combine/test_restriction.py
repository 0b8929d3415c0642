"""What is asked of constraints alike: others to satisfy too, texts to leave out."""

from __future__ import annotations

import pytest

from cdec.core.combine.restriction import Restriction
from cdec.core.errors import EmptySetError, UsageError
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.sets.set_cases import make_set

from .conjunction_cases import VOCABULARY, outcomes

A, B, C = 0, 1, 2
CITIES = make_set([[A], [B], [A, B], [C]], VOCABULARY)
SHORT = FiniteLanguage([b"a", b"b", b"bc"], VOCABULARY)


def test_what_is_left_satisfies_the_others_and_is_not_denied() -> None:
    restriction = Restriction({"short": SHORT}, ["b"])
    assert restriction
    assert outcomes(restriction.of(CITIES, "cities"), 4) == {((A,), False)}
    assert outcomes(restriction.of(None, "the record"), 4) >= {((A,), False), ((B, C), False)}
    assert ((B,), False) not in outcomes(restriction.of(None, "the record"), 4)


def test_nothing_asked_is_nothing_changed() -> None:
    nothing = Restriction()
    assert not nothing
    assert nothing.of(CITIES, "cities") is CITIES
    assert nothing.take_notices() == []


def test_warnings_name_what_they_are_about_and_are_counted() -> None:
    restriction = Restriction({"short": SHORT}, ["zzz"])
    for name in ("one", "two", "three"):
        restriction.of(FiniteLanguage([b"a"], VOCABULARY), name)
    notices = {notice.code: notice.message for notice in restriction.take_notices()}
    assert notices.keys() == {"W_DEAD_ENDS", "W_DENY_UNKNOWN"}
    assert notices["W_DEAD_ENDS"].startswith("one and short: ")
    assert all(message.endswith("(and 2 more constraints)") for message in notices.values())
    assert restriction.take_notices() == []


def test_denied_texts_need_a_constraint_and_must_leave_something() -> None:
    with pytest.raises(UsageError, match="`deny`"):
        Restriction(denied=["a"]).of(None, "the record")
    with pytest.raises(EmptySetError):
        Restriction(denied=["a", "b", "ab", "c"]).of(CITIES, "cities")

"""KeptConstraints: what could not be compiled is remembered as words, what may yet be is not."""

from __future__ import annotations

import tracemalloc
from typing import NoReturn

import pytest

from cdec.compilers.cache import PROCESS_LIMITS, KeptConstraints
from cdec.core.errors import CdecError, LimitError, OutputError
from cdec.core.grammars.errors import RegexSyntaxError


class _Failing:
    """A compiler that fails; counts its calls."""

    def __init__(self, error: CdecError) -> None:
        self.calls = 0
        self._error = error

    def __call__(self) -> NoReturn:
        self.calls += 1
        raise self._error.again()


def _ask(kept: KeptConstraints, make: _Failing, frames: int = 0) -> None:
    """Ask at some depth of the stack, beside locals that a frame would keep alive."""
    beside = bytearray(10_000)
    if frames:
        _ask(kept, make, frames - 1)
    else:
        kept.get("asked", make)
    assert beside


def test_a_refusal_is_remembered_as_it_was_without_the_frames_it_was_raised_in() -> None:
    refusal = RegexSyntaxError("no regex", hint="write one", line=1)
    make, kept = _Failing(refusal), KeptConstraints(4, 1 << 20)
    for _ in range(2):
        with pytest.raises(RegexSyntaxError) as raised:
            _ask(kept, make)
        assert raised.value.to_json() == refusal.to_json()
    assert make.calls == 1
    del raised
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(400):
            with pytest.raises(RegexSyntaxError):
                _ask(kept, make, frames=5)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000


@pytest.mark.parametrize(
    "refusal",
    [*(LimitError("too much", limit=name) for name in PROCESS_LIMITS), OutputError("no process")],
    ids=str,
)
def test_what_the_machine_may_have_refused_is_compiled_anew(refusal: CdecError) -> None:
    make, kept = _Failing(refusal), KeptConstraints(4, 1 << 20)
    for _ in range(2):
        with pytest.raises(type(refusal)):
            kept.get("asked", make)
    assert make.calls == 2


def test_a_limit_of_the_source_is_remembered() -> None:
    make = _Failing(LimitError("too many rules", limit="max_rules"))
    kept = KeptConstraints(4, 1 << 20)
    for _ in range(2):
        with pytest.raises(LimitError):
            kept.get("asked", make)
    assert make.calls == 1

"""Kernels that are kept are found again, never mistaken, and trusted only as one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.extending import intrinsic

from cdec.core.files.kernel_cache import kernels_folder
from cdec.core.kernels import by_address, inner, kernel

Make = Callable[..., Any]
CODE = """
def called(x): return {said}
def outer(x): return called(x) + NUMBER
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a kernel as another process would, from its text."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def made(said: str = "x + 1", number: int = 10, **options: Any) -> Any:
        names: dict[str, Any] = {"NUMBER": number, "__name__": "tests.made"}
        exec(CODE.format(said=said), names)  # as a module that is edited between two runs
        names["called"] = inner(**options)(names["called"])
        return kernel(names["outer"])

    return made


def is_kept(made: Any) -> bool:
    """Say whether a kernel that was called was found, not compiled."""
    return bool(made.stats.cache_hits)


def test_a_kernel_is_compiled_once_for_all_processes(make: Make) -> None:
    first, again = make(), make()
    assert (first(5), again(5), is_kept(first), is_kept(again)) == (16, 16, False, True)
    assert (again(0.5), is_kept(make())) == (11.5, False)


@pytest.mark.parametrize(
    "changed",
    [{"said": "x + 2"}, {"number": 11}, {"fastmath": True}, {"said": "x * 1 + 1"}],
    ids=["callee", "number", "option", "same value"],
)
def test_what_changed_anywhere_in_it_is_compiled_anew(make: Make, changed: dict[str, Any]) -> None:
    assert make()(5) == 16
    edited = make(**changed)
    edited(5)
    assert not is_kept(edited)
    assert edited(5) == edited.py_func.__globals__["NUMBER"] + (7 if "2" in str(changed) else 6)


def pointed(element: Any) -> Any:
    """Make a kernel of an intrinsic that differs in what its closure holds alone."""

    @intrinsic
    def read(typing: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = context.get_value_type(element).as_pointer()
            return builder.load(builder.inttoptr(arguments[0], kind))

        return element(types.int64), build

    def outer(address: int) -> int:
        return read(address)

    return outer


def test_what_an_intrinsic_closes_over_is_told_apart(make: Make) -> None:
    array = np.array([1 + (2 << 32)])
    address = array.ctypes.data
    found = [kernel(pointed(kind))(address) for kind in (types.int64, types.int32)]
    assert found == [1 + (2 << 32), 1]


def test_a_function_called_at_its_address_is_kept_and_told_apart(make: Make) -> None:
    def made(number: int) -> Any:
        @inner
        def called(x: int) -> int:
            return x + number

        def function(x: int) -> int:
            return called(x)

        return by_address("int64(int64)")(function)

    compiled = [made(number) for number in (1, 1, 2)]
    assert [each._cache_hits for each in compiled] == [0, 1, 0]
    assert [each.ctypes(5) for each in compiled] == [6, 6, 7]


def test_other_bounds_checks_are_another_kernel(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make()(5)
    monkeypatch.setattr("numba.core.config.BOUNDSCHECK", 1)
    checked = make()
    checked(5)
    assert not is_kept(checked)


@pytest.mark.parametrize("harm", ["cut", "flipped", "writable", "not a kernel"])
def test_a_file_that_cannot_be_trusted_is_compiled_anew(make: Make, harm: str) -> None:
    make()(5)
    for path in kernels_folder().path.iterdir():
        data = path.read_bytes()
        if harm == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif harm == "flipped":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        elif harm == "writable":
            path.chmod(0o622)
        else:
            path.write_bytes(b"")
    again = make()
    assert again(5) == 16
    assert not is_kept(again)


def test_a_folder_that_others_may_write_to_is_not_used(make: Make) -> None:
    make()(5)
    kernels_folder().path.chmod(0o777)
    again = make()
    assert again(5) == 16
    assert not is_kept(again)
    assert kernels_folder().path.stat().st_mode & 0o777 == 0o777

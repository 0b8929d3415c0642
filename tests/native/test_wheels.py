"""What ``make wheels`` reads in a library: symbols, format and system."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("lief", reason="reads libraries: pip install lief (make wheels does)")
    monkeypatch.syspath_prepend(str(NATIVE))
    import wheels

    return wheels


def test_a_library_for_this_machine_has_all_names(wheels: ModuleType) -> None:
    names = wheels.declared()
    told = wheels.faults(wheels.build.LIBRARY, wheels.build.HERE, names)
    assert not [fault for fault in told if not fault.startswith("needs")]
    assert "cdec_trie_advance" in names.exported and "PyErr_Format" in names.functions


def test_names_that_are_missing_or_not_declared_are_told(wheels: ModuleType) -> None:
    names = wheels.declared()
    exported, functions = names.exported | {"cdec_other"}, names.functions - {"PyErr_NoMemory"}
    wrong = replace(names, exported=exported, functions=functions)
    told = wheels.faults(wheels.build.LIBRARY, wheels.build.HERE, wrong)
    assert {"not exported: cdec_other", "not declared: PyErr_NoMemory"} <= set(told)


@pytest.mark.skipif(sys.platform == "win32", reason="the library is one for Windows here")
def test_a_library_of_another_system_is_told(wheels: ModuleType) -> None:
    told = wheels.faults(wheels.build.LIBRARY, "x86_64-windows-gnu", wheels.declared())
    assert told == ["format of another system: Binary"]

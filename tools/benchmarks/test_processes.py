"""Figures of a process are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.benchmarks.processes import in_child, peak_bytes, resident_bytes


def test_small_child_of_a_large_parent_reports_its_own_peak() -> None:
    held = b"\1" * (300 << 20)
    assert peak_bytes() >= resident_bytes() > len(held)
    assert in_child("tools.benchmarks.processes") < 100 << 20


def test_children_run_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_child("tools.benchmarks.processes") > 0
    assert list(tmp_path.iterdir()) == []

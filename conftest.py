"""Options and fixtures of all trees of tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.laws.sizes import HEAVY
from tests.shared import shared_folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--heavy", action="store_true", help="also run tests that need gigabytes")
    parser.addoption("--wheel", action="store_true", help="also build and check the wheel")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--heavy"):
        os.environ[HEAVY] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--heavy"):
        return
    skip = pytest.mark.skip(reason="needs gigabytes or minutes: run with --heavy")
    for item in items:
        if "heavy" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared data; the test skips where it is absent."""
    folder = shared_folder()
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder}: set CDEC_SHARED")
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests' remembered digests out of the user's cache."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cdec-cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

"""Fixtures of the artifact tests: one valid artifact, as bytes and as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.artifacts.hostile_files import GOOD


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a valid set artifact."""
    return GOOD(tmp_path_factory.mktemp("good"))


@pytest.fixture
def good_path(good: bytes, tmp_path: Path) -> Path:
    """A file of the test's own that holds it."""
    path = tmp_path / "good.arrow"
    path.write_bytes(good)
    return path

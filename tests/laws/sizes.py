"""How many draws a test of a law takes: enough to see a wrong law; ``--heavy`` takes many more."""

from __future__ import annotations

import os

HEAVY = "CDEC_TESTS_HEAVY"
"""The variable that says so to modules that are imported before any test runs."""


def heavy_or(usual: int, heavy: int) -> int:
    """Return ``heavy`` where tests run with ``--heavy``, else ``usual``."""
    return heavy if os.environ.get(HEAVY) else usual

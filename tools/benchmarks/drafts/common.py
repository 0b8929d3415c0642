"""Where the parts of ``make bench-drafts`` write their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.benchmarks.setting import Setting


def save(setting: Setting, name: str, figures: Any) -> Path:
    """Write ``drafts-NAME.json`` with the machine it was measured on."""
    clock = "process time" if setting.device == "cpu" else "elapsed time"
    return setting.save(f"drafts-{name}", figures, draft=setting.draft, threads=1, clock=clock)

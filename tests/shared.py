"""The folder of shared data, outside the repository."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_folder() -> Path:
    """Return the folder of shared data: CDEC_SHARED, else beside the checkout."""
    return Path(os.environ.get("CDEC_SHARED", REPOSITORY.parent / "shared"))

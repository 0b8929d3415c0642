"""The map of the code: as the rooms say it, and its ways lead through files that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MAP = runpy.run_path(str(REPOSITORY / "docs" / "rooms.py"))


def test_the_map_says_what_the_rooms_say() -> None:
    written = (
        (REPOSITORY / "CONTRIBUTING.md").read_text(),
        (REPOSITORY / "docs/rooms.md").read_text(),
    )
    assert written == (MAP["contributing"](), MAP["page"]()), "run `python docs/rooms.py`"


def test_ways_lead_through_files_that_exist() -> None:
    (ways,) = MAP["WAYS"].findall((REPOSITORY / "CONTRIBUTING.md").read_text())
    named = re.findall(
        r"`((?:core|compilers|samplers|data|integrations|cli|native)/[^`\s]*)`", ways
    )
    assert len(named) > 20
    assert [name for name in named if not (REPOSITORY / name).exists()] == []

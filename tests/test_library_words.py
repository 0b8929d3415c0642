"""The library names parameters; how they are typed is the command line's affair."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*|(?<= )-[oaiK]\b")
TRAINING = ROOT / "data" / "training"
"""A program of its own, with options of its own."""


REMAINING = {
    "samplers/drafts/run.py",
    "samplers/lookahead/options.py",
    "samplers/drafts/counts.py",
    "samplers/learning/saved/file.py",
    "samplers/learning/saved/key.py",
    "samplers/scoring/retokenize.py",
    "samplers/scoring/texts.py",
    "samplers/search/beam_search.py",
    "samplers/walks/batch.py",
}
"""Files that still name flags: this list may only shrink."""


def flags_in(path: Path) -> list[str]:
    return FLAG.findall(path.read_text())


@pytest.mark.parametrize("room", ["core", "compilers", "samplers", "data"])
def test_no_flag_is_named_in_library_code(room: str) -> None:
    files = [path for path in (ROOT / room).rglob("*.py") if not path.is_relative_to(TRAINING)]
    named = {str(path.relative_to(ROOT)): flags_in(path) for path in files}
    assert not {path: flags for path, flags in named.items() if flags and path not in REMAINING}


def test_flags_are_found_where_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "said.py"
    file.write_text('hint = "raise --max-rules, or name another file with -o; jq -c --"\n')
    assert flags_in(file) == ["--max-rules", "-o"]

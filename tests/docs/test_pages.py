"""README and docs do what they say: every command and script runs and prints what they show."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdec.samplers.registry import METHODS
from tests.docs.blocks import blocks_of
from tests.docs.pages import ENGINES, INSTALLS, SHOWN_ONLY, differences
from tests.docs.shell import ROOT, Shell

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_RUN = ("console", "python")
_KNOWN = {*_RUN, *SHOWN_ONLY, "output", "text", "json", "toml", "lark", "csv", "mermaid"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Start one server of ``cdec`` for all pages."""
    with Shell(tmp_path_factory.mktemp("shell") / "server") as started:
        yield started


@pytest.mark.parametrize("page", PAGES, ids=_NAMES)
def test_every_block_runs_and_prints_what_the_page_shows(
    page: Path, shell: Shell, tmp_path: Path
) -> None:
    text = page.read_text()
    if not any(block.language in _RUN for block in blocks_of(text)):
        pytest.skip("the page has no commands")
    if "jq " in text and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    found = differences(page, shell, tmp_path)
    assert not found, "\n\n".join(map(str, found))


@pytest.mark.parametrize("page", PAGES, ids=_NAMES)
def test_no_block_escapes_being_run(page: Path) -> None:
    if str(page.relative_to(ROOT)) in ENGINES:
        assert any(block.language == "py" and block.title for block in blocks_of(page.read_text()))
        return
    for block in blocks_of(page.read_text()):
        assert block.language in _KNOWN, f"line {block.first}: {block.language!r}"
        if block.language in SHOWN_ONLY:
            assert all(line.startswith(INSTALLS) for line in block.lines if line), block.lines


def test_pages_count_the_methods_that_there_are() -> None:
    words = {12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen"}
    counted = re.compile(rf"\b({'|'.join(words.values())}|\d+) methods\b")
    found = [number for page in PAGES for number in counted.findall(page.read_text())]
    assert found and set(found) <= {words[len(METHODS)], str(len(METHODS))}


def test_readme_is_read_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150

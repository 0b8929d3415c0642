"""Pictures of the pages about methods: as the script draws them, and shown where they belong."""

from __future__ import annotations

import re
import runpy
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.docs.shell import ROOT

DOCS = ROOT / "docs"
PAGES = {
    "methods.md": "methods",
    "faithful.md": "laws",
    "drafts.md": "drafts",
    "how-to/catalogue.md": "search",
    "how-to/classify.md": "classes",
    "how-to/compare-methods.md": "compared",
    "how-to/free-text.md": "free",
    "how-to/write-a-reward.md": "lookahead",
}
"""Page about a method or several -> its picture."""


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        found = runpy.run_path(str(DOCS / "method_pictures.py"))
        sys.modules.pop("svg", None)
    return found


def test_pages_about_methods_show_their_pictures(drawn: dict[str, Any]) -> None:
    assert sorted(PAGES.values()) == sorted(drawn["PICTURES"])
    for page, name in PAGES.items():
        up = "../" * page.count("/")
        shown = re.findall(rf"!\[([^]]+)\]\({up}assets/{name}\.svg\)", (DOCS / page).read_text())
        assert len(shown) == 1 and len(shown[0].split()) > 5, f"{page}: for those who see nothing"


def test_pictures_are_those_that_the_script_draws(drawn: dict[str, Any]) -> None:
    for name, draw in drawn["PICTURES"].items():
        text = (DOCS / "assets" / f"{name}.svg").read_text()
        assert text == draw(), "python docs/method_pictures.py"
        assert len(text) < 6000
        root = ElementTree.fromstring(text)
        assert root[0].tag.endswith("title") and root[0].text
        width = float(root.attrib["viewBox"].split()[2])
        for part in root.iter("{*}text"):
            letters, size = len(part.text or ""), float(part.attrib["font-size"])
            start = {"start": 0.0, "middle": 0.5, "end": 1.0}[part.attrib["text-anchor"]]
            left = float(part.attrib["x"]) - start * letters * size * 0.56
            assert left > 0 and left + letters * size * 0.56 < width, f"{name}: {part.text}"


def test_the_numbers_of_the_pictures_are_laws(drawn: dict[str, Any]) -> None:
    assert sum(drawn["Q"].values()) == pytest.approx(1)
    assert sum(drawn["MASKED"].values()) == pytest.approx(1)
    for name, weight in drawn["WEIGHT"].items():
        assert drawn["MASKED"][name] * weight == pytest.approx(drawn["P"][name])

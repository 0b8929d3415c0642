"""Pages of the documentation: their blocks run, their hooks, their pictures."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from cdec.samplers.registry import METHODS
from tests.docs.blocks import agrees, blocks_of, steps_of
from tests.docs.notebooks import code_cells, printed, shown
from tests.docs.pages import ENGINES, INSTALLS, SHOWN_ONLY, differences
from tests.docs.shell import ROOT, Shell

# --- README and docs do what they say: every command and script runs and prints what they show.

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_RUN = ("console", "python")
_SHORT = (
    *("catalogue", "long-runs", "one-line", "prompts", "quotes", "retrieval", "sets-inside"),
    *("structured-output", "thinking", "token-budgets", "write-a-grammar", "write-a-reward"),
)
FIRST = (
    *("README.md", "docs/start.md", "docs/methods.md", "docs/faithful.md", "docs/lexing.md"),
    *("docs/reference/config.md", *(f"docs/how-to/{name}.md" for name in _SHORT)),
)
"""Pages of the first tier: the others take from three seconds on."""
assert set(FIRST) <= set(_NAMES)
TIERED = [
    pytest.param(page, id=name, marks=[] if name in FIRST else pytest.mark.slow)
    for page, name in zip(PAGES, _NAMES, strict=True)
]
_KNOWN = {*_RUN, *SHOWN_ONLY, "output", "text", "json", "toml", "lark", "csv", "mermaid"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Start one server of ``cdec`` for all pages."""
    with Shell(tmp_path_factory.mktemp("shell") / "server") as started:
        yield started


@pytest.mark.parametrize("page", TIERED)
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


def test_the_notebook_prints_what_it_shows(shell: Shell, tmp_path: Path) -> None:
    notebook = ROOT / "docs/calibrated.ipynb"
    found = printed(notebook, shell, tmp_path)
    cells = code_cells(notebook)
    assert len(found) == len(cells), found[-1]
    for cell, lines in zip(cells, found, strict=True):
        assert agrees(shown(cell), lines), "\n".join([*cell["source"], "---", *lines])


def test_pages_count_the_methods_that_there_are() -> None:
    words = {12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen"}
    counted = re.compile(rf"\b({'|'.join(words.values())}|\d+) methods\b")
    found = [number for page in PAGES for number in counted.findall(page.read_text())]
    assert found and set(found) <= {words[len(METHODS)], str(len(METHODS))}


def test_readme_is_read_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


# --- How pages are read: blocks, commands and what counts as the same output.

PAGE = """Text.

```console
$ cdec check a.arrow |
>   wc -l
3
$ true
```

- A list:

    ```json title="p.jsonl"
    {"a": 1}
    ```
"""


def test_blocks_and_their_files_are_found() -> None:
    console, file = blocks_of(PAGE)
    assert (console.language, console.first, console.title) == ("console", 3, "")
    assert (file.language, file.title, list(file.lines)) == ("json", "p.jsonl", ['{"a": 1}'])


def test_commands_are_joined_and_keep_their_output() -> None:
    first, second = steps_of(blocks_of(PAGE)[0])
    assert (first.command, first.shown, first.first) == ("cdec check a.arrow |\n  wc -l", ["3"], 5)
    assert (second.command, second.shown) == ("true", [])


def test_a_block_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="never ends"):
        blocks_of("```sh\nls\n")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["took ... s"], ["took 12.5 s"], True),
        (["mass 0.951"], ["mass 0.952"], True),
        (["mass 0.951"], ["mass 0.851"], False),
        (["Lyon  1.104e-11    -25.36"], ["Lyon  1.10401e-11  -25.36"], True),
        (["a  b"], ["a   b"], False),
        (["3 of 4"], ["3 of 5"], False),
        ([], ["a"], False),
        (["..."], [], True),
    ],
)
def test_what_is_shown_agrees_with_what_is_printed(
    shown: list[str], printed: list[str], same: bool
) -> None:
    assert agrees(shown, printed) is same


# --- Hooks of the site: what they make of templates.

_PAGE = (
    '<link href="/assets/a.css"><script src="/assets/b.js"></script><a href="https://x.org/">x</a>'
    '<a href="/." title="cdec"></a><a href="//cdn.org/c">c</a><script>{"base": "/"}</script>'
)


def test_links_of_the_page_for_what_is_not_found_begin_where_the_site_does() -> None:
    hook = runpy.run_path(str(ROOT / "docs/_hooks/not_found.py"))["on_post_template"]
    nowhere, somewhere = SimpleNamespace(site_url=""), SimpleNamespace(site_url="https://x.org/a/")
    found = hook(_PAGE, template_name="404.html", config=nowhere)
    assert found == (
        '<link href="./assets/a.css"><script src="./assets/b.js"></script>'
        '<a href="https://x.org/">x</a><a href="./." title="cdec"></a><a href="//cdn.org/c">c</a>'
        '<script>{"base": "."}</script>'
    )
    assert hook(_PAGE, template_name="404.html", config=somewhere) == _PAGE
    assert hook(_PAGE, template_name="sitemap.xml", config=nowhere) == _PAGE


# --- Pictures of the pages about methods: as the script draws them, and shown where they belong.

DOCS = ROOT / "docs"
ILLUSTRATED = {
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


@pytest.mark.slow
def test_pages_about_methods_show_their_pictures(drawn: dict[str, Any]) -> None:
    assert sorted(ILLUSTRATED.values()) == sorted(drawn["PICTURES"])
    for page, name in ILLUSTRATED.items():
        up = "../" * page.count("/")
        shown = re.findall(rf"!\[([^]]+)\]\({up}assets/{name}\.svg\)", (DOCS / page).read_text())
        assert len(shown) == 1 and len(shown[0].split()) > 5, f"{page}: for those who see nothing"


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_numbers_of_the_pictures_are_laws(drawn: dict[str, Any]) -> None:
    assert sum(drawn["Q"].values()) == pytest.approx(1)
    assert sum(drawn["MASKED"].values()) == pytest.approx(1)
    for name, weight in drawn["WEIGHT"].items():
        assert drawn["MASKED"][name] * weight == pytest.approx(drawn["P"][name])

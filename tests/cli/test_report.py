"""``cdec report``: a page that loads nothing, its plots, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runner, jsonl, refused
from tests.cli.test_eval import sample

PICTURES = ["page.cost.png", "page.cost.svg", "page.metrics.png", "page.metrics.svg"]


@pytest.fixture
def files(cdec: Runner) -> None:
    """Two files of samples with answers, names and costs."""
    for name, texts in (("one", "xyy"), ("two<b>", "xxy")):
        rows = [
            sample(i, text, input={"answer": "x"}, probability=0.5, target_calls=i + 1)
            for i, text in enumerate(texts)
        ]
        Path(f"{name}.jsonl").write_bytes(jsonl(*rows))


class Reader(HTMLParser):
    """Collects tags, what they refer to, and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.places: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.places += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data")]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.usefixtures("files")
def test_a_page_holds_everything_and_loads_nothing(cdec: Runner) -> None:
    result = cdec("report", "one.jsonl", "two<b>.jsonl", "-o", "page.html", "--title", "A <i> B")
    assert result.status == 0, result.stderr
    page = Path("page.html").read_text()
    read = Reader(page)
    assert read.tags.isdisjoint({"script", "b", "i", "img", "link", "iframe", "object"})
    assert all(place.startswith("#") for place in read.places)
    assert not re.search(r"url\((?!['\"]?#)|@import", page)
    for said in ("A <i> B", "two<b>", "exact_match", "Share of the draws", "two<b> − one"):
        assert said in read.text
    assert page.count("<svg") == page.count("<figure>") == 3
    assert (
        sorted(p.name for p in Path().glob("page.*.*g") if "reliability" not in p.name) == PICTURES
    )
    assert Path("page.reliability.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("files")
def test_an_evaluation_gives_the_page_of_its_samples(cdec: Runner) -> None:
    files = ("one.jsonl", "two<b>.jsonl")
    Path("eval.json").write_bytes(cdec("eval", *files, "--json").stdout)
    assert cdec("report", *files, "-o", "first.html", "--no-plots").status == 0
    assert cdec("report", "eval.json", "--no-plots").status == 0
    piped = cdec("report", "-", "-o", "p.html", "--no-plots", stdin=Path("eval.json").read_bytes())
    assert piped.status == 0
    first = Path("first.html").read_text()
    assert first == Path("eval.html").read_text() == Path("p.html").read_text()
    assert "<svg" not in first and not list(Path().glob("*.png"))


@pytest.mark.usefixtures("files")
@pytest.mark.slow
def test_equal_samples_give_equal_files(cdec: Runner) -> None:
    written = []
    for _ in range(2):
        words = ("report", "-", "-o", "page.html", "--force")
        assert cdec(*words, stdin=Path("one.jsonl").read_bytes()).status == 0
        written.append([path.read_bytes() for path in sorted(Path().glob("page.*"))])
    assert "<td>stdin</td>" in written[0][2].decode()
    assert written[0] == written[1] and len(written[0]) == 7


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_nothing_is_replaced_unless_that_was_asked_for(cdec: Runner) -> None:
    Path("page.cost.svg").write_text("mine")
    assert cdec("report", "one.jsonl", "-o", "page.html").status == 73
    assert Path("page.cost.svg").read_text() == "mine" and not Path("page.html").exists()
    assert cdec("report", "one.jsonl", "-o", "page.html", "--force").status == 0
    refused(cdec("report", "one.jsonl", "-o", "one.jsonl", "--force"))
    assert Path("one.jsonl").read_bytes().startswith(b'{"id": 0')


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "code", "status", "said"),
    [
        (("-",), "E_USAGE", 2, "-o OUT.html"),
        (("-", "-o", "p.html", "--references", "-"), "E_USAGE", 2, "stdin was given twice"),
        (("-", "-", "-o", "p.html"), "E_USAGE", 2, "stdin was given twice"),
        (("one.jsonl", "-o", "-"), "E_USAGE", 2, "name a file"),
        (("trace.jsonl",), "E_DATA", 65, "cdec trace FILE --html"),
        (("eval.json", "one.jsonl"), "E_USAGE", 2, "give the evaluation alone"),
        (("eval.json", "--metrics", "valid"), "E_USAGE", 2, "--metrics"),
        (("broken.json",), "E_DATA", 65, "is no evaluation"),
        (("nowhere.jsonl",), "E_NOINPUT", 66, "nowhere.jsonl"),
    ],
)
def test_what_is_no_evaluation_is_refused(
    cdec: Runner, words: tuple[str, ...], code: str, status: int, said: str
) -> None:
    Path("trace.jsonl").write_bytes(jsonl({"id": 1, "position": 0, "choice": {}}))
    Path("eval.json").write_bytes(cdec("eval", "one.jsonl", "--json").stdout)
    broken: dict[str, Any] = {"systems": [{"name": 1}], "comparisons": [], "meanings": {}}
    Path("broken.json").write_bytes(jsonl(broken))
    assert said in refused(cdec("report", *words), code, status)


@pytest.mark.usefixtures("files")
def test_without_matplotlib_the_page_has_no_plots(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    said = refused(cdec("report", "one.jsonl"), "E_EXTRA", 69)
    assert "cdec[report]" in said and not Path("one.html").exists()
    assert cdec("report", "one.jsonl", "--no-plots").status == 0


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_the_page(cdec: Runner, tmp_path: Path, width: int) -> None:
    from matplotlib.image import imread

    cdec("report", "one.jsonl", "two<b>.jsonl", "-o", "page.html")
    shot = tmp_path / "shot.png"
    subprocess.run(
        [
            *(str(CHROMIUM), *_QUIET, f"--user-data-dir={tmp_path / 'profile'}"),
            *("--hide-scrollbars", f"--window-size={width},1500", f"--screenshot={shot}"),
            Path("page.html").absolute().as_uri(),
        ],
        check=True,
        timeout=120,
        capture_output=True,
    )
    seen = imread(shot)[..., :3]
    assert seen.shape[:2] == (1500, width)
    # In black and white, with something to read in every fifth of the page, and margins.
    assert abs(seen - seen.mean(axis=-1, keepdims=True)).max() < 0.02
    assert all((part < 0.4).any() for part in (seen[i : i + 300] for i in range(0, 1500, 300)))
    assert seen[:, :8].min() > 0.99

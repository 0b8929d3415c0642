"""What a run of ``exact`` says while it goes on: its budget, the bracket, and what it will cost."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest

from cdec.cli.frame import console
from cdec.cli.frame.console import Console
from cdec.cli.runs.loop import UnderWay
from cdec.core.errors import Notice
from cdec.core.progress import Stage

from .conftest import Runner

WORD = "[A-Z][a-z]{9,12}-[0-9]{5}"


@pytest.fixture
def hard(cdec: Runner) -> Path:
    """A constraint that the embedded model hardly ever satisfies by itself."""
    assert cdec("compile-regex", WORD, "-o", "hard.arrow").status == 0
    return Path("hard.arrow")


def test_what_a_method_tells_is_said_until_its_record_is_done_and_warnings_once() -> None:
    stderr = io.StringIO()
    under_way = UnderWay(Console(stderr=stderr))
    for n, done in enumerate((0, 200)):
        notice = Notice("W_BUDGET", f"guess {n} of `max_draws`")
        under_way(Stage("drawing", done, 1000, "draws", "bracket 3.1 nats", notice))
    assert under_way.said == "20% of 1,000 draws · bracket 3.1 nats"
    assert stderr.getvalue() == "warning W_BUDGET: guess 0 of --max-draws\n"


@pytest.mark.usefixtures("loaded")
def test_progress_shows_the_share_of_the_budget_and_the_bracket(
    cdec: Runner, hard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "FINE_LINE_S", 0.0)
    words = ("--prompt", "A", "--prompt", "B", "--max-draws", 80, "--batch-size", 1, "--progress")
    result = cdec("sample", "-a", hard, "--method", "exact", *words)
    assert result.status == 0, result.stderr
    lines = result.stderr.splitlines()
    drawing = [line for line in lines if " of 80 draws, bracket " in line]
    assert drawing and all(line.startswith("sampling: ") for line in drawing)
    # In the second record it begins again, and no more is said of one that is done.
    shares = [int(line.split("% of 80")[0].rsplit(" ", 1)[1]) for line in drawing]
    assert shares[0] < 100 and any(b < a for a, b in pairwise(shares))
    assert any(" nats, " in line for line in drawing)
    assert not [line for line in lines if line.startswith("sampling: 2 of 2") and "draws" in line]


@pytest.mark.usefixtures("loaded")
def test_a_budget_that_cannot_do_is_warned_of_once_a_run_and_in_the_records(
    cdec: Runner, hard: Path
) -> None:
    words = ("--max-draws", 80, "--batch-size", 1)
    prompts = [word for prompt in "ABC" for word in ("--prompt", prompt)]
    result = cdec("sample", "-a", hard, "--method", "exact", *prompts, *words)
    (warned,) = [line for line in result.stderr.splitlines() if "W_BUDGET" in line]
    for part in ("has 80 (--max-draws)", "--fallback", "take disc, or smc", "by a guess"):
        assert part in warned
    assert "3 past the budget" in result.summary
    for record in result.records:
        assert record["finish_reason"] == "budget"
        (warning,) = [each for each in record["warnings"] if each["code"] == "W_BUDGET"]
        assert warning["max_draws"] == 80 < warning["needed"]
    easy = cdec("sample", "-a", hard, "--method", "disc", *prompts)
    assert "W_BUDGET" not in easy.stderr + easy.stdout.decode()


@pytest.mark.usefixtures("loaded")
def test_regions_of_free_text_warn_of_their_budgets(cdec: Runner, hard: Path) -> None:
    words = ("--prompt", "A", "--after", "e", "--budget", 30, "--max-draws", 20)
    (record,) = cdec("sample", "-a", hard, "--method", "exact", *words).records
    if record["finish_reason"] != "budget":
        pytest.fail(f"the text ended otherwise: {record}")
    (warning,) = [each for each in record["warnings"] if each["code"] == "W_BUDGET"]
    assert warning["max_draws"] == 20 and warning["token"] > 0


def test_what_ends_exact_stands_beside_it(cdec: Runner) -> None:
    for words in (("methods", "exact"), ("sample", "--help", "--method", "exact")):
        told = " ".join(cdec(*words).stdout.decode().split())
        assert "Only --max-draws ends it: a smaller one costs less" in told
        assert "--until-converged, a width of the bracket to end at, is of asap" in told
        assert "each costs up to a call of the model a token" in told
    refused = cdec("sample", "-a", "x.arrow", "--method", "exact", "--until-converged", 0.1)
    assert "--until-converged means nothing to --method exact" in refused.stderr
    assert "take --method asap" in refused.stderr


def test_the_readme_says_when_exact_is_not_the_method() -> None:
    readme = Path(__file__).parents[2] / "README.md"
    (row,) = [
        line for line in readme.read_text().splitlines() if "--method exact`; where P(S)" in line
    ]
    assert "`disc`" in row and "`smc`" in row

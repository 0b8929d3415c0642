"""The aligned methods on the command line, and what shows how far they are."""

from __future__ import annotations

import io
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.frame import console
from cdec.cli.frame.console import Console
from cdec.cli.runs.loop import UnderWay
from cdec.core.errors import Notice
from cdec.core.progress import Stage
from cdec.samplers.topn import TopnSampler
from tests.cli.conftest import MEMBERS, Runner
from tests.laws.rounding import tolerance

# --- cdec sample with the methods that follow the model's law: every option changes what it
# names.

PROMPT = ("--prompt", "The capital is")
EVENTS = 8
"""Most tokens of a member here, its end counted."""


def _records(cdec: Runner, cities: Path, *words: object) -> list[Any]:
    result = cdec("sample", "-a", cities, *PROMPT, *words)
    assert result.status == 0, result.stderr
    return result.records


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("method", ["asap", "exact", "smc", "topn"])
def test_every_aligned_method_runs_and_brackets_the_mass(
    cdec: Runner, cities: Path, method: str
) -> None:
    records = _records(cdec, cities, "--method", method, "-n", 3)
    assert [record["index"] for record in records] == [0, 1, 2]
    for record in records:
        assert record["text"] in MEMBERS
        assert (record["valid"], record["method"]) == (True, method)
        assert record["log_mass_lower"] <= record["log_mass_upper"]
        assert record["length_mass_upper"] in (0.0, None)


@pytest.mark.usefixtures("loaded")
def test_one_warning_says_that_a_mass_cannot_be_relied_on_and_what_to_do(
    cdec: Runner, cities: Path
) -> None:
    words = ("sample", "-a", cities, "--method", "masked", "--prompt", "A city:")
    first, second = '{"prompt": "A city:"}', '{"prompt": "Another:"}'
    result = cdec(*words[:-2], "-n", 2, stdin=f"{first}\n{second}\n".encode())
    unreliable = {r["id"] for r in result.records if not r["log_mass_reliable"]}
    assert len(unreliable) == 2
    (said,) = [line for line in result.stderr.splitlines() if "W_MASS_UNRELIABLE" in line]
    assert "2 of 2 prompts" in said
    for remedy in ("-n", "--method exact", "--until-converged"):
        assert remedy in said
    known = cdec("sample", "-a", cities, "--method", "exact", "--prompt", "A city:", "-n", 40)
    assert all(record["log_mass_reliable"] for record in known.records)
    assert "W_MASS_UNRELIABLE" not in known.stderr


@pytest.mark.usefixtures("loaded")
def test_probabilities_of_an_exhausted_catalogue_sum_to_one(cdec: Runner, cities: Path) -> None:
    records = _records(cdec, cities, "--method", "exact", "-n", 100)
    by_text = {record["text"]: record["probability"] for record in records}
    assert all(p is not None for p in by_text.values())
    assert sum(by_text.values()) <= 1 + 1e-9


@pytest.mark.usefixtures("loaded")
def test_topn_gives_probabilities_that_sum_to_one(cdec: Runner, cities: Path) -> None:
    records = _records(cdec, cities, "--method", "topn", "-n", len(MEMBERS))
    assert sorted(record["text"] for record in records) == sorted(MEMBERS)
    lower, known, upper = (
        sum(record[name] for record in records)
        for name in ("probability_lower", "probability", "probability_upper")
    )
    assert known == pytest.approx(1, abs=1e-9)
    events = 1 + max(len(record["token_ids"]) for record in records)
    off = math.exp(2 * tolerance(events)) + 1e-9
    assert 1 / off <= lower < 1 < upper <= off


@pytest.mark.usefixtures("loaded")
def test_topn_lists_no_more_texts_than_there_are_and_resumes_there(
    cdec: Runner, cities: Path, tmp_path: Path
) -> None:
    for name in ("best.jsonl", "best.parquet"):
        output = tmp_path / name
        words = ("--method", "topn", "-n", len(MEMBERS) + 7, "-o", output)
        run = cdec("sample", "-a", cities, "--prompt", "A", *words)
        assert run.status == 0, run.stderr
        again = cdec("sample", "-a", cities, "--prompt", "A", *words, "--resume")
        assert again.status == 0 and again.stderr.startswith("already complete"), again.stderr
    records = _records(cdec, cities, "--method", "topn", "-n", len(MEMBERS) + 7)
    assert [record["rank"] for record in records] == list(range(1, len(MEMBERS) + 1))
    assert [record["exhausted"] for record in records] == [False] * (len(MEMBERS) - 1) + [True]
    assert {record["finish_reason"] for record in records} == {"complete"}


@pytest.mark.usefixtures("loaded")
def test_topn_past_its_budget_says_so(cdec: Runner, cities: Path) -> None:
    words = ("--method", "topn", "-n", len(MEMBERS), "--max-evaluations", 1)
    records = _records(cdec, cities, *words)
    assert {record["finish_reason"] for record in records} == {"complete", "budget"}
    for record in records:
        is_found = record["finish_reason"] == "complete"
        assert (record["text"] in MEMBERS) == bool(record["valid"]) == is_found
        assert is_found or record["text"] is record["valid"] is None
        assert not record["proved"]


@pytest.mark.usefixtures("loaded")
def test_topn_writes_each_prompt_when_it_is_done(
    cdec: Runner, cities: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    draw_batch = TopnSampler.draw_batch

    def counted(self: TopnSampler, model: Any, requests: Any) -> Any:
        sizes.append(len(requests))
        return draw_batch(self, model, requests)

    monkeypatch.setattr(TopnSampler, "draw_batch", counted)
    Path("q.txt").write_text("A\nB\nC\n")
    words = ("sample", "-a", cities, "--method", "topn", "-i", "q.txt")
    one_by_one, together = cdec(*words), cdec(*words, "--batch-size", 3)
    assert sizes == [1, 1, 1, 3]
    assert [r["text"] for r in one_by_one.records] == [r["text"] for r in together.records]


@pytest.mark.usefixtures("loaded")
def test_topn_is_proved_on_demand(cdec: Runner, cities: Path) -> None:
    records = _records(cdec, cities, "--method", "topn", "-n", len(MEMBERS), "--proved")
    assert all(record["proved"] for record in records)
    both = ("--proved", "--max-evaluations", 9)
    refused = cdec("sample", "-a", cities, "--method", "topn", "--prompt", "a", *both)
    assert refused.status == 2
    assert "--proved" in refused.stderr


@pytest.mark.usefixtures("loaded")
def test_topn_by_text_counts_the_tokenisations(cdec: Runner, cities: Path) -> None:
    records = _records(cdec, cities, "--method", "topn", "-n", 2, "--by", "text")
    assert [record["tokenisations"] for record in records] == [1, 1]
    assert "tokenisations" not in _records(cdec, cities, "--method", "topn")[0]


@pytest.mark.usefixtures("loaded")
def test_burn_in_is_where_the_iterations_begin(cdec: Runner, cities: Path) -> None:
    (default,) = _records(cdec, cities, "--method", "asap")
    (first,) = _records(cdec, cities, "--method", "asap", "--burn-in", 0)
    assert (default["iteration"], first["iteration"]) == (101, 1)


@pytest.mark.usefixtures("loaded")
def test_until_converged_teaches_until_the_bracket_is_narrow(cdec: Runner, cities: Path) -> None:
    words = ("--method", "asap", "--burn-in", 0, "--until-converged")
    (wide,) = _records(cdec, cities, *words, 6)
    (narrow,) = _records(cdec, cities, *words, 1e-7)
    # How far the bounds are apart before they are widened by rounding.
    widest = 1e-7 + 2 * tolerance(EVENTS)
    assert narrow["log_mass_upper"] - narrow["log_mass_lower"] <= widest
    assert narrow["iteration"] > wide["iteration"]
    (cut,) = _records(cdec, cities, *words, 1e-15, "--max-draws", 32)
    assert cut["iteration"] == 33


@pytest.mark.usefixtures("loaded")
def test_the_round_is_recorded_and_decides_the_draws(cdec: Runner, cities: Path) -> None:
    words = ("--method", "exact", "-n", 8, "--round")
    one, many = (_records(cdec, cities, *words, size) for size in (1, 16))
    assert {record["round"] for record in one} == {1}
    assert {record["round"] for record in many} == {16}
    assert sum(r["distinct_evaluations"] for r in one) != sum(r["iteration"] for r in many)


@pytest.mark.usefixtures("loaded")
def test_past_the_budget_a_sample_is_its_fallback(cdec: Runner, cities: Path) -> None:
    words = ("--method", "exact", "-n", 2, "--round", 1, "--max-draws", 1, "--fallback")
    for fallback, exactness in (("disc", "asymptotic"), ("asap", "asymptotic"), ("none", "exact")):
        late = [r for r in _records(cdec, cities, *words, fallback) if not r["accepted"]]
        assert late
        for record in late:
            assert (record["finish_reason"], record["exactness"]) == ("budget", exactness)
            assert (record["text"] is None) == (fallback == "none")
            assert (record["log_weight"] is None) == (fallback != "asap")


@pytest.mark.usefixtures("loaded")
def test_abort_gives_candidates_up_early(cdec: Runner, cities: Path) -> None:
    words = ("--method", "exact", "-n", 1, "--round", 1)
    (masked,) = _records(cdec, cities, *words)
    (aborted,) = _records(cdec, cities, *words, "--abort")
    assert aborted["draws"] > masked["draws"]
    assert aborted["accepted"]


@pytest.mark.usefixtures("loaded")
def test_particles_and_resampling_are_recorded(cdec: Runner, cities: Path) -> None:
    words = ("--method", "smc", "--particles", 4, "--resample-below")
    (never,) = _records(cdec, cities, *words, 0)
    (always,) = _records(cdec, cities, *words, 1)
    assert never["particles"] == always["particles"] == 4
    assert never["resamplings"] == 0 < always["resamplings"]


@pytest.mark.usefixtures("loaded")
def test_a_small_tree_cache_changes_no_record(cdec: Runner, cities: Path) -> None:
    words = ("--method", "exact", "-n", 4)
    ignore = ("log_mass", "log_mass_se", "logprob", "ess", "probability_lower", "probability_upper")
    kept, dropped = (
        [{k: v for k, v in record.items() if k not in ignore} for record in records]
        for records in (
            _records(cdec, cities, *words),
            _records(cdec, cities, *words, "--tree-cache", "1B"),
        )
    )
    for a, b in zip(kept, dropped, strict=True):
        assert (a["token_ids"], a["iteration"]) == (b["token_ids"], b["iteration"])


# --- What a run of ``exact`` says while it goes on: its budget, the bracket, and what it will
# cost.

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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

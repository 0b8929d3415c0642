"""``cdec tune``: the cheapest cells of a grid, then the best of these."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdec.cli.experiments.tuning import candidates_of
from cdec.core.errors import UsageError
from cdec.data.metrics.evaluation import Result
from cdec.data.metrics.resampling import Interval
from tests.cli.conftest import Runner, jsonl, refused

PROMPTS = jsonl(*({"id": i, "prompt": f"p{i}", "answer": "a"} for i in range(6)))
GRID = ("--method", "disc", "--grid", "K=1,2,4", "--grid", "seed=0,1")


@pytest.fixture
def words(cdec: Runner, letters: Path) -> tuple[Any, ...]:
    """What a tuning of disc is typed with, in a folder with prompts."""
    Path("val.jsonl").write_bytes(PROMPTS)
    return ("tune", "-a", letters, "-i", "val.jsonl", *GRID, "--no-plots")


def evaluation(better: str, *rows: tuple[str, float, float]) -> Any:
    """An evaluation of cells of which cost and quality are given."""

    def result(value: float) -> Result:
        return Result(Interval(value, value - 0.1, value + 0.1), 5)

    return SimpleNamespace(
        systems=[SimpleNamespace(name=name) for name, _, _ in rows],
        settings=SimpleNamespace(metrics={"good": SimpleNamespace(better=better)}),
        results={name: {"calls": result(x), "good": result(y)} for name, x, y in rows},
    )


ROWS = (("a", 5.0, 0.9), ("b", 1.0, 0.2), ("c", 2.0, 0.6), ("d", 3.0, 0.5), ("e", 4.0, math.nan))


@pytest.mark.parametrize(
    ("cheapest", "chosen"), [(1, "b"), (2, "c"), (3, "c"), (4, "a"), (10, "a")]
)
def test_the_best_of_the_cheapest_is_chosen(cheapest: int, chosen: str) -> None:
    listed, best = candidates_of(evaluation("higher", *ROWS), "calls", "good", cheapest)
    assert best.cell == chosen
    assert [each.cell for each in listed] == ["b", "c", "d", "a"]
    assert [each.is_cheap for each in listed] == [place < cheapest for place in range(4)]
    assert [each.on_frontier for each in listed] == [True, True, False, True]


def test_less_is_better_of_some_metrics_and_equals_give_the_cheapest() -> None:
    _, best = candidates_of(evaluation("lower", *ROWS), "calls", "good", 3)
    assert best.cell == "b"
    equal = (("x", 2.0, 0.5), ("y", 1.0, 0.5), ("z", 1.0, 0.4))
    listed, best = candidates_of(evaluation("higher", *equal), "calls", "good", 3)
    assert best.cell == "y" and [each.cell for each in listed] == ["y", "z", "x"]
    assert [each.on_frontier for each in listed] == [True, False, False]
    with pytest.raises(UsageError, match="no cell has both"):
        candidates_of(evaluation("higher", ("e", 1.0, math.nan)), "calls", "good", 3)


def test_a_grid_is_drawn_and_its_choice_printed(cdec: Runner, words: tuple[Any, ...]) -> None:
    result = cdec(*words, "-k", 2, "--json", "-n", 2)
    assert result.status == 0, result.stderr
    (said,) = result.records
    assert len(said["cells"]) == 6
    cheap = [each for each in said["cells"] if each["cheap"]]
    assert len(cheap) == 2 and said["chosen"] in [each["cell"] for each in cheap]
    assert max(each["quality"]["value"] for each in cheap) == next(
        each["quality"]["value"] for each in cheap if each["cell"] == said["chosen"]
    )
    costs = [each["cost"]["value"] for each in said["cells"]]
    assert costs == sorted(costs)
    samples = Path("tune/samples") / f"{said['chosen']}.jsonl"
    # The command is what drew the cell, but for its prompts.
    typed = shlex.split(said["command"].replace("PROMPTS", "val.jsonl").replace("SAMPLES", "s"))
    assert cdec(*typed[1:], "--quiet").status == 0
    assert Path("s").read_bytes() == samples.read_bytes()
    table = cdec(*words, "-k", 2, "-n", 2).stdout.decode().splitlines()
    assert table[0].split() == ["cell", "target_calls", "exact_match", "frontier"]
    assert [line.split()[0] for line in table[1:7]] == [each["cell"] for each in said["cells"]]
    assert table[-1] == said["command"]


def test_a_picture_shows_the_frontier(cdec: Runner, words: tuple[Any, ...]) -> None:
    pytest.importorskip("matplotlib")
    result = cdec(*words[:-1], "--json")
    chosen = result.records[0]["chosen"]
    drawn = Path("tune/frontier.svg").read_text()
    assert f"chosen: {chosen}" in drawn and "exact_match, share" in drawn
    assert "target_calls, calls" in drawn
    assert Path("tune/frontier.png").read_bytes().startswith(b"\x89PNG")


def test_the_cells_of_a_recipe_are_compared(cdec: Runner, words: tuple[Any, ...]) -> None:
    Path("r.toml").write_text(
        f'[sample]\nartifact = "{words[2]}"\ninput = "val.jsonl"\n'
        '[[methods]]\nmethod = "masked"\n[[methods]]\nmethod = "disc"\nK = [2, 4]\n'
    )
    more = ("--no-plots", "--json", "--metric", "hits@2", "--cost", "distinct_evaluations")
    (said,) = cdec("tune", "r.toml", *more).records
    assert {each["cell"] for each in said["cells"]} == {"masked", "disc-K=2", "disc-K=4"}
    assert (said["metric"], said["cost"]) == ("hits@2", "distinct_evaluations")
    assert "means nothing with a recipe" in refused(cdec("tune", "r.toml", "--grid", "K=1"))


def test_options_of_the_configuration_count_and_references_are_read(
    cdec: Runner, words: tuple[Any, ...]
) -> None:
    Path("cdec.toml").write_text("n = 3\n")
    Path("refs.jsonl").write_bytes(jsonl(*({"id": i, "answer": "ab"} for i in range(6))))
    result = cdec(*words, "--references", "refs.jsonl", "--json")
    assert "-n 3" in result.records[0]["command"].replace("--n", "-n")
    (said,) = result.records
    for each in said["cells"]:
        lines = Path(f"tune/samples/{each['cell']}.jsonl").read_bytes().splitlines()
        right = sum(json.loads(line)["text"] == "ab" for line in lines)
        assert len(lines) == 18 and each["quality"]["value"] == pytest.approx(right / 18)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--grid", "k=1,2"), "--grid names 'k', which is no option"),
        (("--grid", "K=0,1"), "--K is given twice"),
        (("--grid", "mass-draws=0,1"), "--mass-draws is 0, expected at least 1"),
        (("--grid", "mass-draws=1,x"), "'x' is no value of --mass-draws"),
        (("--grid", "mass-draws"), "expected NAME=VALUE,VALUE,..."),
        (("--grid", "mass-draws=1,,2"), "expected NAME=VALUE,VALUE,..."),
        (("--grid", "burn-in=1,2"), "--burn-in means nothing to --method disc"),
        (("--grid", "tree=a,b"), "--tree cannot be varied"),
        (("--metric", "exact_mach"), "did you mean 'exact_match'?"),
        (("--resume",), "--resume means nothing with a grid"),
        (("-o", "s3://bucket/x"), "goes to a folder of this machine"),
        (("nowhere",), "nowhere is no recipe"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(
    cdec: Runner, words: tuple[Any, ...], more: tuple[str, ...], said: str
) -> None:
    given = words if more != ("nowhere",) else ("tune",)
    assert said in refused(cdec(*given, *more))
    assert not Path("tune").exists()


def test_nothing_to_choose_from_is_refused(cdec: Runner, letters: Path) -> None:
    assert "nothing to choose from" in refused(cdec("tune", "-a", letters, "--prompt", "x"))


def test_without_matplotlib_it_is_said_before_anything_is_drawn(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib.figure'] = None\n"
        "from cdec.cli.app import main\n"
        "sys.exit(main(['tune', '--grid', 'K=1,2', '--choices', 'a,b', '--prompt', 'x']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 69 and b"E_EXTRA" in done.stderr
    assert not list(tmp_path.iterdir())

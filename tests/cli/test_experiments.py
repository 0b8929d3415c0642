"""``cdec run RECIPE.toml``: recipes are checked whole, cells are runs of ``cdec sample``."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.frame.registry import execute_of
from cdec.cli.runs import models
from cdec.data.assets import recipe_names
from tests.cli.conftest import Runner, jsonl, refused

from . import light

OPEN_MODEL = models.open_model
PROMPTS = jsonl(*({"id": i, "prompt": f"p{i}", "answer": "a"} for i in range(6)))
RECIPE = """
title = "Letters"

[sample]
artifact = "letters.arrow"
input = "prompts.jsonl"
n = 2
seed = [0, 1]

[[methods]]
method = "masked"

[[methods]]
method = "disc"
K = [1, 3]

[evaluation]
metrics = "exact_match,target_calls"
resamples = 50
"""
CELLS = ["masked-seed=0", "masked-seed=1"]
CELLS += [f"disc-K={k}-seed={seed}" for k in (1, 3) for seed in (0, 1)]


@pytest.fixture
def recipe(cdec: Runner, letters: Path) -> Path:
    """A folder with a recipe, its prompts and an artifact; the working directory is another."""
    folder = Path("study").absolute()
    folder.mkdir()
    (folder / "letters.arrow").write_bytes(letters.read_bytes())
    (folder / "prompts.jsonl").write_bytes(PROMPTS)
    path = folder / "study.toml"
    path.write_text(RECIPE)
    return path


def samples_in(folder: Path) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in (folder / "samples").glob("*.jsonl")}


def changed(recipe: Path, *replaced: tuple[str, str]) -> None:
    text = recipe.read_text()
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    recipe.write_text(text)


def test_a_cell_is_what_sample_writes_with_its_options(cdec: Runner, recipe: Path) -> None:
    result = cdec("run", recipe)
    assert result.status == 0, result.stderr
    found = samples_in(recipe.parent / "study")
    assert sorted(found) == sorted(CELLS)
    words = ("-a", recipe.parent / "letters.arrow", "-i", recipe.parent / "prompts.jsonl", "-n", 2)
    for k in (1, 3):
        alone = cdec("sample", *words, "--method", "disc", "--K", k, "--seed", 1)
        assert found[f"disc-K={k}-seed=1"] == alone.stdout


def test_everything_goes_below_the_output_folder(cdec: Runner, recipe: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert cdec("run", recipe, "-o", "out").status == 0
    after = {path for path in Path().rglob("*") if Path("out") not in (path, *path.parents)}
    assert after == before.keys()
    assert all(path.stat().st_mtime_ns == before[path] for path in after if path.is_file())
    assert Path("out/recipe.toml").read_bytes() == recipe.read_bytes()


def test_cells_are_evaluated_together_and_a_report_reads_it(cdec: Runner, recipe: Path) -> None:
    result = cdec("run", recipe, "-o", "out", "--json")
    (found,) = result.records
    assert [system["name"] for system in found["systems"]] == CELLS
    assert json.loads(Path("out/evaluation.json").read_bytes()) == found
    files = [f"out/samples/{cell}.jsonl" for cell in CELLS]
    words = ("--metrics", "exact_match,target_calls", "--resamples", 50, "--json")
    assert cdec("eval", *files, *words).records == [found]
    assert cdec("report", "out/evaluation.json", "--no-plots").status == 0
    shown = cdec("run", recipe, "-o", "out").stdout.decode()
    assert shown.splitlines()[0].split() == CELLS


def test_finished_cells_are_left_as_they_are(cdec: Runner, recipe: Path) -> None:
    cdec("run", recipe)
    before = samples_in(recipe.parent / "study")
    times = {p: p.stat().st_mtime_ns for p in recipe.parent.glob("study/samples/*.jsonl")}
    again = cdec("run", recipe)
    assert again.stderr.count("already complete: 6 records") == len(CELLS)
    assert samples_in(recipe.parent / "study") == before
    assert {p: p.stat().st_mtime_ns for p in times} == times


def test_a_cell_that_was_cut_short_is_finished(cdec: Runner, recipe: Path) -> None:
    cdec("run", recipe)
    folder = recipe.parent / "study"
    before = samples_in(folder)
    cut = folder / "samples" / f"{CELLS[1]}.jsonl"
    cut.write_bytes(before[CELLS[1]][:-200])
    (folder / "samples" / f"{CELLS[2]}.jsonl").unlink()
    assert cdec("run", recipe).status == 0
    assert samples_in(folder) == before


def test_the_model_is_loaded_once(
    cdec: Runner, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []

    def load(options: Any) -> object:
        loaded.append(options.model)
        return light.slow_model(0)

    monkeypatch.setattr(models, "open_model", load)
    changed(recipe, ("seed = [0, 1]", 'seed = [0, 1]\nmodel = ["a", "b"]'))
    assert cdec("run", recipe).status == 0
    assert loaded == ["a", "b"]


def test_a_dry_run_prints_the_grid_and_does_nothing(cdec: Runner, recipe: Path) -> None:
    shown = cdec("run", recipe, "--dry-run")
    lines = shown.stdout.decode().splitlines()[1:]
    assert [line.split()[0] for line in lines] == CELLS
    assert all(line.split()[2:4] == ["to", "draw"] for line in lines)
    assert lines[2].endswith("--K 1 --seed 0")
    assert not (recipe.parent / "study").exists()
    told = cdec("run", recipe, "--dry-run", "--json").records
    assert [each["options"]["K"] for each in told if "disc" in each["cell"]] == [1, 1, 3, 3]


def test_options_that_are_typed_win(cdec: Runner, recipe: Path) -> None:
    assert cdec("run", recipe, "--seed", 7, "-n", 1, "--K", 2).status == 0
    found = samples_in(recipe.parent / "study")
    assert sorted(found) == ["disc", "masked"]
    words = ("-a", recipe.parent / "letters.arrow", "-i", recipe.parent / "prompts.jsonl")
    alone = cdec("sample", *words, "--method", "disc", "--K", 2, "--seed", 7)
    assert found["disc"] == alone.stdout
    said = refused(cdec("run", recipe, "--particles", 4, "-o", "other"))
    assert "--particles means nothing to the methods" in said


def test_a_typed_constraint_stands_in_the_place_of_the_recipes(cdec: Runner, recipe: Path) -> None:
    listed = cdec("run", recipe, "--choices", "a,b", "--dry-run", "--json")
    assert listed.status == 0, listed.stderr
    assert all(each["options"]["constraint"] == {"": "--choices 'a,b'"} for each in listed.records)


@pytest.mark.usefixtures("loaded")
def test_artifacts_are_compiled_where_they_are_missing_or_stale(cdec: Runner) -> None:
    Path("r").mkdir()
    Path("r/cities.txt").write_text("Paris\nRome\n")
    Path("r/x.toml").write_text(
        '[artifacts.cities]\nkind = "set"\nsource = "cities.txt"\n'
        '[sample]\nartifact = "cities"\nprompt = ["Where?"]\n[[methods]]\nmethod = "masked"\n'
    )
    words = ("run", "r/x.toml", "-o", "out")
    assert cdec(*words).status == 0
    assert Path("out/artifacts/cities.arrow").is_file()
    assert "is up to date" in cdec(*words).stderr
    Path("r/cities.txt").write_text("Paris\nOslo\n")
    said = refused(cdec(*words), "E_RESUME_MISMATCH", 65)
    assert "stale: " in said and "the artifact cities.arrow" in said and "--force" in said
    assert cdec(*words, "--force").status == 0
    (line,) = Path("out/samples/masked.jsonl").read_bytes().splitlines()
    assert json.loads(line)["text"] in ("Paris", "Oslo")
    assert cdec(*words).status == 0


def test_a_changed_recipe_is_noticed(cdec: Runner, recipe: Path) -> None:
    assert cdec("run", recipe).status == 0
    before = samples_in(recipe.parent / "study")
    changed(recipe, ("n = 2", "n = 3"))
    said = refused(cdec("run", recipe), "E_RESUME_MISMATCH", 65)
    assert "n of disc-K=1-seed=0 was 2, is 3" in said and "--force" in said
    assert samples_in(recipe.parent / "study") == before
    assert cdec("run", recipe, "--force").status == 0
    assert all(text.count(b"\n") == 18 for text in samples_in(recipe.parent / "study").values())
    # What changes no samples that are there is told, and gone on with.
    changed(recipe, ("K = [1, 3]", "K = [3, 4]"), ("resamples = 50", "resamples = 40"))
    result = cdec("run", recipe)
    assert result.status == 0
    assert (
        "is not what it was: new: disc-K=4-seed=0, disc-K=4-seed=1; "
        "gone: disc-K=1-seed=0, disc-K=1-seed=1; the evaluation"
    ) in result.stderr


def test_changed_prompts_are_noticed(cdec: Runner, recipe: Path) -> None:
    assert cdec("run", recipe).status == 0
    prompts = recipe.parent / "prompts.jsonl"
    prompts.write_bytes(PROMPTS.replace(b'"p3"', b'"q3"'))
    said = refused(cdec("run", recipe), "E_RESUME_MISMATCH", 65)
    assert "the content of prompts.jsonl" in said


def test_a_manifest_tells_versions_and_hashes(cdec: Runner, recipe: Path) -> None:
    assert cdec("run", recipe).status == 0
    manifest = json.loads((recipe.parent / "study/recipe.toml.manifest.json").read_bytes())
    config = manifest["config"]
    assert manifest["done"] == {"cells": 6} and manifest["cdec_version"]
    assert config["versions"]["torch"] and len(config["recipe"]) == 64
    assert len(config["files"]["prompts.jsonl"]) == 64
    assert len(config["models"]["embedded"]["files"]) == 64
    assert config["cells"]["disc-K=3-seed=1"]["K"] == 3


def test_a_folder_that_no_experiment_wrote_is_left_alone(cdec: Runner, recipe: Path) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years")
    assert "no experiment wrote" in refused(cdec("run", recipe, "-o", "mine"), "E_EXISTS", 73)
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.txt"]
    assert cdec("run", recipe, "-o", "mine", "--force").status == 0
    assert Path("mine/thesis.txt").read_text() == "years"


def test_a_cell_may_be_what_the_others_are_held_against(cdec: Runner, recipe: Path) -> None:
    changed(
        recipe,
        ('[[methods]]\nmethod = "masked"', '[[methods]]\nname = "law"\nmethod = "topn"\nn = 6'),
        ('metrics = "exact_match,target_calls"', 'target = "law"\nmetrics = "tv,kl"'),
        ("seed = [0, 1]", "seed = 0"),
    )
    (found,) = cdec("run", recipe, "--json").records
    assert [system["name"] for system in found["systems"]] == ["disc-K=1", "disc-K=3"]
    assert all(0 <= system["metrics"]["tv"]["value"] <= 1 for system in found["systems"])


REFUSED = [
    ("title =", "titel =", "E_CONFIG", "did you mean 'title'?"),
    ("[sample]", "[samples]", "E_CONFIG", "did you mean 'sample'?"),
    ("seed =", "sed =", "E_CONFIG", "did you mean 'seed'?"),
    ("K = [1, 3]", "k = [1, 3]", "E_CONFIG", "unknown key 'k'"),
    ("K = [1, 3]", "K = []", "E_CONFIG", "empty list, which leaves no run"),
    ("K = [1, 3]", 'K = "many"', "E_CONFIG", "expected an integer"),
    ("K = [1, 3]", "K = [1, 0]", "E_CONFIG", "disc-K=0-seed=0: --K is 0, expected at least 1"),
    ("K = [1, 3]", "K = [3, 3]", "E_CONFIG", "two cells would be called 'disc-K=3-seed=0'"),
    ("K = [1, 3]", "round = 3", "E_CONFIG", "--round means nothing to --method disc"),
    ("n = 2", "n = 2\nparticles = 3", "E_CONFIG", "'particles' means nothing to any of the"),
    ('"disc"', '"disk"', "E_CONFIG", "did you mean 'disc'?"),
    ('"disc"', '"masked"', "E_CONFIG", "--K means nothing to --method masked"),
    ("n = 2", "n = 2\nn = 2", "E_CONFIG", "is not TOML"),
    ("top", "", "E_CONFIG", ""),
    ("n = 2", 'n = 2\noutput = "x"', "E_CONFIG", "may stand on the command line only"),
    ("n = 2", "n = 2\ntrust-remote-code = true", "E_CONFIG", "on the command line only"),
    ("n = 2", "n = 2\nquiet = true", "E_CONFIG", "unknown key 'quiet'"),
    ("resamples", "hook = 'os:system'\nresamples", "E_CONFIG", "on the command line only"),
    ("resamples", "references = 'no.jsonl'\nresamples", "E_NOINPUT", "no.jsonl"),
    ("exact_match", "exact_mach", "E_USAGE", "did you mean 'exact_match'?"),
    ("prompts.jsonl", "nowhere.jsonl", "E_NOINPUT", "nowhere.jsonl"),
    ('"prompts.jsonl"', '"-"', "E_CONFIG", "is stdin, which the first run would read"),
    ('input = "prompts.jsonl"\n', "", "E_CONFIG", "no prompts are named"),
    ("[sample]", '[artifacts.x]\nkind = "sets"\n[sample]', "E_CONFIG", "did you mean 'set'?"),
    ("[sample]", '[artifacts.x]\nkind = "set"\n[sample]', "E_CONFIG", "has no source"),
    ("[sample]", '[artifacts."../x"]\nkind = "set"\n[sample]', "E_CONFIG", "could not be called"),
    (
        '[sample]\nartifact = "letters.arrow"',
        '[artifacts.x]\nkind = "set"\nsource = "no.txt"\n[sample]\nartifact = "x"',
        "E_NOINPUT",
        "no.txt",
    ),
    (
        "[sample]",
        '[artifacts.x]\nkind = "set"\nsource = "x"\noutput = "/tmp/y"\n[sample]',
        "E_CONFIG",
        "on the command line only",
    ),
    (
        "[sample]",
        '[artifacts.x]\nkind = "regex"\npattern = "a"\n[sample]',
        "E_CONFIG",
        "no run is held to the artifact 'x'",
    ),
    ("n = 2", 'method = "disc"', "E_CONFIG", "sample: method is named for all runs"),
    ("[[methods]]", "[[method]]", "E_CONFIG", "did you mean 'methods'?"),
    ('method = "masked"', "n = 1", "E_CONFIG", "names no method"),
]


@pytest.mark.share(11)
@pytest.mark.parametrize(("old", "new", "code", "said"), REFUSED)
def test_a_recipe_that_makes_no_sense_is_refused_whole(
    cdec: Runner, recipe: Path, old: str, new: str, code: str, said: str
) -> None:
    status = {"E_CONFIG": 78, "E_NOINPUT": 66, "E_USAGE": 2}[code]
    if old == "top":
        recipe.write_text("title = 'nothing'\n")
        said = "there are no methods"
    else:
        changed(recipe, (old, new))
    told = refused(cdec("run", recipe), code, status)
    assert said in told, told
    assert not (recipe.parent / "study").exists()


def test_functions_run_only_where_they_are_typed(cdec: Runner, recipe: Path) -> None:
    Path("mine.py").write_text("def one(texts, records):\n    return [1.0] * len(texts)\n")
    for place in ("n = 2", 'method = "disc"'):
        text = recipe.read_text()
        changed(recipe, (place, f'{place}\nreward = "mine:one"'))
        said = refused(cdec("run", recipe), "E_CONFIG", 78)
        assert "runs code and may stand on the command line only" in said
        recipe.write_text(text)
    (found,) = cdec("run", recipe, "--hook", "mine:one", "--json").records
    assert "one" not in found["systems"][0]["metrics"]
    changed(recipe, ("exact_match,target_calls", "exact_match,one"))
    (found,) = cdec("run", recipe, "--hook", "mine:one", "--json").records
    assert found["systems"][0]["metrics"]["one"]["value"] == 1.0


def test_recipes_are_typed_and_never_found(cdec: Runner, recipe: Path, letters: Path) -> None:
    Path("disc").write_bytes(letters.read_bytes())
    drawn = cdec("run", "disc", "--prompt", "x")
    assert drawn.status == 0 and b'"text"' in drawn.stdout and not Path("disc/samples").exists()
    assert "recipes that ship: asap" in refused(cdec("run", "no.toml"), "E_NOINPUT", 66)
    assert "with a recipe" in refused(cdec("run", recipe, "--method", "disc"))
    # What was found in the folder may name what is read, and nothing that writes.
    Path("cdec.toml").write_text(f'artifact = "{recipe}"\n')
    assert "on the command line only" in refused(cdec("run"), "E_CONFIG", 78)
    Path("cdec.toml").write_text("n = 5\n")
    told = cdec("run", recipe, "--dry-run", "--json")
    assert "cdec.toml counts for nothing here" in told.stderr
    assert all(each["options"]["n"] == 2 for each in told.records)
    Path("cdec.toml").unlink()
    for words in (("--dry-run",), ("--hook", "a:b")):
        assert "without a recipe" in refused(cdec("run", letters, "--prompt", "x", *words))
    assert "with a recipe" in refused(cdec("run", recipe, "--resume"))
    assert "folder of this machine" in refused(cdec("run", recipe, "-o", "s3://b/x"))


def test_two_experiments_do_not_write_one_folder(cdec: Runner, recipe: Path) -> None:
    assert cdec("run", recipe, "-o", "out").status == 0
    held = os.open("out", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused(cdec("run", recipe, "-o", "out"), "E_LOCKED", 75)
    os.close(held)
    assert cdec("run", recipe, "-o", "out").status == 0


def test_a_model_that_is_not_there_is_said_to_be(cdec: Runner, recipe: Path) -> None:
    changed(recipe, ("seed = [0, 1]", 'model = "./nowhere"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "open_model", OPEN_MODEL)
        said = refused(cdec("run", recipe), "E_MODEL", 69)
    assert "nowhere" in said


def test_a_grid_that_is_too_large_is_refused(cdec: Runner, recipe: Path) -> None:
    many = ", ".join(map(str, range(1, 10_001)))
    changed(recipe, ("K = [1, 3]", f"K = [{many}]"))
    assert "20,002 cells" in refused(cdec("run", recipe), "E_LIMIT", 75)


def _wait(path: Path, lines: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never got {lines} lines")


@pytest.fixture
def interrupted(recipe: Path) -> Iterator[tuple[Path, str]]:
    """A recipe whose grid was interrupted within its second cell, and what was said."""
    words = [sys.executable, light.__file__, "0.05", "run", str(recipe), "--batch-size", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _wait(recipe.parent / "study/samples" / f"{CELLS[1]}.jsonl", 2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    yield recipe, stderr.decode()


def test_an_interrupted_grid_goes_on_to_the_same_bytes(
    cdec: Runner, interrupted: tuple[Path, str]
) -> None:
    recipe, said = interrupted
    assert "1 of 6 cells are finished in" in said
    assert f"go on with:\n  cdec run {recipe} --batch-size 1" in said
    done = samples_in(recipe.parent / "study")
    assert len(done) == 2 and done[CELLS[1]].count(b"\n") < 12
    assert cdec("run", recipe).status == 0
    assert cdec("run", recipe, "-o", "whole").status == 0
    assert samples_in(recipe.parent / "study") == samples_in(Path("whole"))


CITY = """
[sample]
artifact = "cities.arrow"
input = "prompts.jsonl"
[[methods]]
method = ["masked", "greedy"]
"""


@pytest.fixture
def city(cdec: Runner, cities: Path) -> Path:
    Path("prompts.jsonl").write_bytes(jsonl(*({"id": i, "prompt": f"City {i}:"} for i in range(5))))
    Path("cities.arrow").write_bytes(cities.read_bytes())
    Path("city.toml").write_text(CITY)
    return Path("city.toml")


@pytest.mark.usefixtures("in_turn")
def test_workers_draw_cells_where_they_are_asked_to(cdec: Runner, city: Path) -> None:
    def texts(folder: str) -> dict[str, list[tuple[int, str]]]:
        return {
            name: [(each["id"], each["text"]) for each in map(json.loads, text.splitlines())]
            for name, text in samples_in(Path(folder)).items()
        }

    words = ("--engine", "ray", "--workers", 2, "--part-size", 2)
    dealt = cdec("run", city, "-o", "dealt", *words, "--json")
    assert dealt.status == 0, dealt.stderr
    assert sorted(path.name for path in Path("dealt/parts/greedy").glob("*.jsonl")) == [
        f"part-0000{number}.jsonl" for number in range(3)
    ]
    assert cdec("run", city, "-o", "alone").status == 0
    assert texts("dealt") == texts("alone")
    assert [each["records"] for each in dealt.records[0]["systems"]] == [5, 5]
    Path("dealt/parts/greedy/part-00001.jsonl").unlink()
    before = samples_in(Path("dealt"))
    again = cdec("run", city, "-o", "dealt", *words)
    assert again.status == 0 and samples_in(Path("dealt")) == before
    assert cdec("run", city, "-o", "dealt", *words, "--force").status == 0
    said = refused(cdec("run", city, *words, "--part-format", "parquet"), "E_CONFIG", 78)
    assert "lines of JSON" in said


def test_without_ray_no_worker_is_asked(cdec: Runner, city: Path) -> None:
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("Ray is installed")
    refused(cdec("run", city, "--engine", "ray"), "E_EXTRA", 69)
    assert not Path("city").exists()


def test_help_names_the_shipped_recipes() -> None:
    said = " ".join((execute_of("run").__doc__ or "").split())
    assert f"Shipped recipes: {', '.join(recipe_names())}." in said


def test_a_name_near_that_of_a_shipped_recipe_is_told(cdec: Runner) -> None:
    said = refused(cdec("run", "dsc"), "E_NOINPUT", 66)
    assert "did you mean 'disc'?" in said
    assert "cannot read" in refused(cdec("run", "titles.arrow", "--prompt", "x"), "E_NOINPUT", 66)


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_recipes_make_sense(cdec: Runner, name: str) -> None:
    listed = cdec("run", name, "--dry-run", "--json")
    assert listed.status == 0, listed.stderr
    assert 4 <= len(listed.records) <= 12
    assert not list(Path().iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_the_recipe_of_asap_shows_that_its_draws_approach_the_law(cdec: Runner) -> None:
    (found,) = cdec("run", "asap", "--json").records
    tv = {each["name"]: each["metrics"]["tv"]["value"] for each in found["systems"]}
    assert tv["asap-burn-in=100"] < tv["asap-burn-in=0"] < tv["masked"]
    assert tv["exact"] < tv["masked"]
    assert sorted(path.name for path in Path().iterdir()) == ["asap"]
    assert cdec("run", "asap", "--json").records == [found]


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_the_recipe_of_disc_shows_what_candidates_bring(cdec: Runner) -> None:
    (found,) = cdec("run", "disc", "--json").records
    tv = {each["name"]: each["metrics"]["tv"]["value"] for each in found["systems"]}
    rows = [tv[f"disc-K={k}"] for k in (1, 2, 4, 8, 16)]
    assert rows == sorted(rows, reverse=True)
    assert tv["exact"] < rows[-1] and rows[1] < tv["masked"]


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_the_recipe_of_domino_shows_masks_that_change_nothing(cdec: Runner) -> None:
    (found,) = cdec("run", "domino", "--json").records
    told = {each["name"]: each["metrics"] for each in found["systems"]}
    assert told["naive"]["perplexity"]["value"] > 2 * told["domino"]["perplexity"]["value"]
    texts = {
        name: [json.loads(line)["text"] for line in text.splitlines()]
        for name, text in samples_in(Path("domino")).items()
    }
    assert texts["counts-gamma=4"] == texts["counts-gamma=8"] == texts["domino"]
    calls = {name: metrics["target_calls"]["value"] for name, metrics in told.items()}
    assert calls["counts-gamma=4"] < calls["domino"]


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_the_recipe_of_mentored_shows_calls_that_are_saved(cdec: Runner) -> None:
    (found,) = cdec("run", "mentored", "--json").records
    told = [each["metrics"] for each in found["systems"]]
    accepted = [metrics["acceptance_rate"]["value"] for metrics in told[1:]]
    calls = [metrics["target_calls"]["value"] for metrics in told[1:]]
    assert accepted == sorted(accepted) and calls == sorted(calls, reverse=True)
    assert told[0] == told[1]


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_the_recipe_of_cdsl_shows_what_lookaheads_bring(cdec: Runner) -> None:
    (found,) = cdec("run", "cdsl", "--json").records
    told = {each["name"]: each["metrics"] for each in found["systems"]}
    named = {name: metrics["concepts_soft"]["value"] for name, metrics in told.items()}
    calls = {name: metrics["target_calls"]["value"] for name, metrics in told.items()}
    assert named["cdlh"] > named["greedy"] and named["cdlh-approx"] > named["greedy"]
    assert calls["cdlh"] > 3 * calls["cdlh-approx"]

"""Draft models on the command line: their loading, their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import draft as draft_of_run
from cdec.cli.runs import models
from cdec.compilers import compile_grammar
from cdec.core.errors import ModelError
from cdec.core.models.tabular import TabularModel
from cdec.data.assets import embedded_model_path
from cdec.data.output.manifest import config_hash
from tests.cli import light
from tests.cli.conftest import MEMBERS, Runner, refused
from tests.laws.rounding import near_lines, read_lines

# --- cdec sample with two models: what every option changes, and what it costs.

pytestmark = pytest.mark.usefixtures("loaded")

PROMPT = ("--prompt", "The capital of France is")
FREE = (*PROMPT, "--max-new-tokens", "10")
BOTH = ("--prompt", "The capital is", "--prompt", "A city in Asia:")
COSTS = {"acceptance_rate", "accepted_length", "draft_calls", "cost_per_token"}


def records(cdec: Runner, *words: object) -> list[Any]:
    result = cdec("sample", *words)
    assert result.status == 0, result.stderr
    return result.records


@pytest.fixture(scope="module")
def shape(embedded_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar of objects of one shape, for the embedded tokenizer."""
    path = tmp_path_factory.mktemp("shape") / "shape.arrow"
    text = 'start: "{\\"name\\": \\"" /[a-z]{1,4}/ "\\", \\"age\\": " /[1-9]/ "}"\n'
    compile_grammar(text, embedded_model.vocabulary, path)
    return path


@pytest.mark.parametrize("method", ["speculative", "mentored", "disc", "exact"])
def test_every_method_with_a_draft_draws_members_and_says_what_it_cost(
    cdec: Runner, cities: Path, method: str
) -> None:
    words = ("-a", cities, *BOTH, "--method", method, "--draft", "embedded-draft", "-n", 3)
    found = records(cdec, *words, "--cost-ratio", 0.5, "--gamma", 4)
    assert len(found) == 6
    # What draws of a record share is charged to the first of them.
    for name in ("draft_calls", "cost_per_token"):
        assert sum(record[name] for record in found) > 0
    for record in found:
        assert record["text"] in MEMBERS
        assert set(record) >= COSTS
        assert (record["valid"], record["method"]) == (True, method)


@pytest.mark.share(1)
@pytest.mark.parametrize("method", ["speculative", "mentored"])
def test_the_embedded_model_brings_its_draft(cdec: Runner, method: str) -> None:
    words = (*FREE, "--method", method, "--gamma", 4)
    (given,) = records(cdec, *words, "--draft", "embedded-draft")
    (default,) = records(cdec, *words)
    path = embedded_model_path("draft")
    (named,) = records(cdec, *words, "--draft", path)
    assert given == default == named
    assert default["draft_calls"] > 0
    assert default["cost_per_token"] is None


def test_disc_and_exact_have_no_draft_unless_one_is_given(cdec: Runner, cities: Path) -> None:
    for method in ("disc", "exact"):
        (record,) = records(cdec, "-a", cities, *PROMPT, "--method", method)
        assert "draft_calls" not in record
        said = refused(cdec("sample", "-a", cities, *PROMPT, "--method", method, "--gamma", 2))
        assert "--gamma means nothing without --draft" in said


def test_greedy_with_any_draft_gives_the_texts_of_greedy(cdec: Runner, shape: Path) -> None:
    words = ("-a", shape, *BOTH, "--max-new-tokens", 30)
    plain = records(cdec, *words, "--method", "greedy")
    for draft in ("embedded-draft", "counts", "prompt-lookup"):
        mine = records(cdec, *words, "--method", "speculative", "--greedy", "--draft", draft)
        assert [r["token_ids"] for r in mine] == [r["token_ids"] for r in plain]
        assert {r["exactness"] for r in mine} == {"heuristic"}
    drawn = records(cdec, *words, "--method", "speculative", "--draft", "counts")
    assert {r["exactness"] for r in drawn} == {"biased"}


def test_counts_that_were_kept_save_calls(cdec: Runner, shape: Path, tmp_path: Path) -> None:
    words = ("-a", shape, *PROMPT, "--method", "speculative", "--max-new-tokens", 30)
    words = (*words, "--draft", "counts", "--gamma", 8, "-n")
    kept = tmp_path / "counts.json"
    first = records(cdec, *words, 4, "--save-counts", kept)
    (again,) = records(cdec, *words, 1, "--counts", kept)
    assert again["target_calls"] < first[0]["target_calls"]
    # Frozen, a record costs what it costs first and last; and nothing is guessed that is rarer.
    frozen = ("-a", shape, "--method", "speculative", "--max-new-tokens", 30, "--draft", "counts")
    frozen = (*frozen, "--gamma", 8, "--counts", kept, "--freeze-counts", "--batch-size", 1)
    _, second = records(cdec, *frozen, *PROMPT, "--prompt", "Another:")
    assert [second] == records(cdec, *frozen, "--prompt", "Another:")
    sure = records(cdec, *words, 1, "--counts", kept, "--count-threshold", 0.999)
    assert sure[0]["target_calls"] > again["target_calls"]
    said = refused(cdec("sample", *words, 1, "--freeze-counts"))
    assert "--freeze-counts was given without --counts" in said
    both = ("--counts", kept, "--freeze-counts", "--save-counts", tmp_path / "more.json")
    assert "--save-counts means nothing with --freeze-counts" in refused(
        cdec("sample", *words, 1, *both)
    )
    Path("cdec.toml").write_text('draft = "counts"\ngamma = 8\n')
    plain = ("-a", shape, *PROMPT, "--method", "speculative", "--max-new-tokens", 30, "-n", 4)
    assert records(cdec, *plain) == first
    assert records(cdec, *plain, "--draft", "embedded-draft")[0]["draft_calls"] > 0


@pytest.mark.slow
def test_counts_need_a_grammar(cdec: Runner, cities: Path) -> None:
    words = (*PROMPT, "--method", "speculative", "--draft", "counts")
    assert "evaluated ahead" in refused(cdec("sample", "-a", cities, *words))
    assert "--draft counts needs a grammar" in refused(cdec("sample", *words))
    said = "warning W_NOTHING_GUESSED: --draft counts guessed nothing: no record has a grammar"
    plain, own = ({"prompt": "Say:", **more} for more in ({}, {"grammar": 'start: "ab"'}))
    free = ("sample", "--method", "speculative", "--draft", "counts", "--max-new-tokens", 4)
    for lines, is_said in (([plain], True), ([plain, own], False)):
        result = cdec(*free, stdin="\n".join(map(json.dumps, lines)).encode())
        assert (result.status, len(result.records)) == (0, len(lines))
        assert (said in result.stderr) == is_said
    assert said not in cdec(*free[:3], "--draft", "prompt-lookup", stdin=b"Say:\n").stderr


def test_gamma_is_how_far_the_draft_runs_ahead(cdec: Runner) -> None:
    words = (*FREE, "--method", "speculative", "--greedy", "--gamma")
    (one,), (eight,), (auto,) = (records(cdec, *words, gamma) for gamma in (1, 8, "auto"))
    assert one["text"] == eight["text"] == auto["text"]
    assert one["accepted_length"] <= 1
    assert eight["target_calls"] < one["target_calls"]
    Path("cdec.toml").write_text("gamma = 8\n")
    assert records(cdec, *words[:-1]) == [eight]


def test_the_draft_has_a_temperature_of_its_own(cdec: Runner) -> None:
    words = (*FREE, "--method", "speculative", "-n", 8, "--gamma", 4, "--draft-temperature")
    cold, hot = records(cdec, *words, 0), records(cdec, *words, 8)
    rates = [sum(r["acceptance_rate"] or 0 for r in drawn) / 8 for drawn in (cold, hot)]
    assert rates[1] < 0.1 < rates[0]


@pytest.mark.slow
def test_divergence_buys_acceptance(cdec: Runner) -> None:
    words = (*FREE, "--method", "mentored", "-n", 16)
    none, some, all_ = (records(cdec, *words, "--divergence", d) for d in (0, 0.3, "inf"))
    default = records(cdec, *words)
    plain = records(cdec, *FREE, "--method", "speculative", "--gamma", 4, "-n", 16)
    assert [r["token_ids"] for r in none] == [r["token_ids"] for r in plain]
    assert sum(r["kl_spent"] for r in none) == pytest.approx(0, abs=1e-9)

    def calls(drawn: list[Any]) -> float:
        return float(
            sum(r["target_calls"] for r in drawn) / sum(len(r["token_ids"]) for r in drawn)
        )

    assert calls(all_) < calls(some) < calls(none)
    assert default == records(cdec, *words, "--divergence", 0.1)
    total = records(cdec, *words, "--divergence-total", 0.5)
    assert 0 < max(r["kl_spent"] for r in total) <= 0.5 + 1e-9


@pytest.mark.slow
def test_a_cost_ratio_gives_the_cost_of_a_token(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sample", *FREE, "--method", "speculative", "--gamma", 4, "--cost-ratio")
    (typed,) = cdec(*words, 0.25).records
    events = len(typed["token_ids"]) + (typed["finish_reason"] == "complete")
    cost = (0.25 * typed["draft_calls"] + typed["target_calls"]) / events
    assert typed["cost_per_token"] == pytest.approx(cost)
    measured = cdec(*words, "measure")
    assert measured.records[0]["cost_per_token"] > typed["target_calls"] / events
    assert "a call of the draft costs" in measured.stderr
    assert "costs" not in cdec(*words, "measure", "--quiet").stderr
    monkeypatch.setattr(draft_of_run, "measure_cost_ratio", lambda model, draft: 0.25)
    assert cdec(*words, "measure").records == [typed]


def test_the_measured_ratio_is_that_of_the_time_a_token_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]

    def model(seconds: float) -> TabularModel:
        first = [10.0]

        def law(prefix: tuple[int, ...]) -> list[float]:
            # What happens once, and the prompt's own pass, must not count.
            clock[0] += (0.0 if prefix else 100.0) + first[0] + seconds
            first[0] = 0.0
            return [0.25] * 4

        return TabularModel(law, light.vocabulary())

    monkeypatch.setattr(draft_of_run.time, "perf_counter", lambda: clock[0])
    assert draft_of_run.measure_cost_ratio(model(4.0), model(1.0)) == pytest.approx(0.25)


@pytest.mark.slow
def test_batches_give_the_same_records(cdec: Runner, cities: Path) -> None:
    lines = b"".join(
        json.dumps({"id": i, "prompt": f"A city {'in the north ' * i}is", "n": 2}).encode() + b"\n"
        for i in range(5)
    )
    for method in ("speculative", "mentored", "disc"):
        words = ("sample", "-a", cities, "--method", method, "--draft", "embedded-draft")
        alone, together = (
            [
                (r["id"], r["index"], r["token_ids"])
                for r in cdec(*words, *size, stdin=lines).records
            ]
            for size in (("--batch-size", 1), ("--batch-size", 5))
        )
        assert len(alone) == 10
        assert alone == together


def test_a_run_without_a_draft_is_resumed_whatever_gamma_was(cdec: Runner, cities: Path) -> None:
    Path("p.txt").write_text("One city:\nAnother city:\n")
    words = ("sample", "-a", cities, "-i", "p.txt", "--method", "masked", "-o", "out.jsonl")
    assert cdec(*words).status == 0
    whole = Path("out.jsonl").read_bytes()
    beside = Path("out.jsonl.manifest.json")
    manifest = json.loads(beside.read_bytes())
    assert manifest["config"]["draft"] is None
    assert "gamma" not in manifest["config"]
    # As it was written when the default was another one.
    config = {**manifest["config"], "gamma": 4}
    older = {**manifest, "config": config, "config_hash": config_hash(config)}
    for kept in (1, 2):
        beside.write_text(json.dumps(older))
        Path("out.jsonl").write_bytes(b"".join(whole.splitlines(keepends=True)[:kept]))
        assert cdec(*words, "--resume").status == 0
        assert read_lines(Path("out.jsonl").read_bytes()) == near_lines(whole)
    # What does decide is compared as ever, and with a draft so is gamma.
    assert cdec(*words, "--resume", "--seed", "9").error_code == "E_RESUME_MISMATCH"
    drafted = (*words[:-1], "drafted.jsonl", "--draft", "prompt-lookup", "--gamma")
    assert cdec(*drafted, "2").status == 0
    assert cdec(*drafted, "3", "--resume").error_code == "E_RESUME_MISMATCH"


def test_a_run_is_resumed_with_the_same_draft_only(cdec: Runner, cities: Path) -> None:
    Path("p.txt").write_text("One city:\nAnother city:\nA third city:\n")
    words = ("sample", "-a", cities, "-i", "p.txt", "--method", "mentored", "-o", "out.jsonl")
    assert cdec(*words, "--divergence", "inf").status == 0
    whole = Path("out.jsonl").read_bytes()
    Path("out.jsonl").write_bytes(b"".join(whole.splitlines(keepends=True)[:1]))
    assert cdec(*words, "--divergence", "inf", "--resume").status == 0
    assert read_lines(Path("out.jsonl").read_bytes()) == near_lines(whole)
    for other in (
        (),
        ("--divergence", "1e9"),
        ("--divergence", "inf", "--draft", "prompt-lookup"),
        ("--divergence", "inf", "--gamma", "auto"),
        ("--divergence", "inf", "--draft-dtype", "float64"),
        ("--divergence", "inf", "--cost-ratio", "0.5"),
    ):
        refused(cdec(*words, *other, "--resume"), "E_RESUME_MISMATCH", 65)
    said = refused(cdec(*words, "--cost-ratio", "measure", "--resume"))
    assert "another number each time" in said


# --- Which drafts cdec sample takes: how they are loaded, and what is refused of them.

OPEN_MODEL = models.open_model
"""What ``loaded`` puts another in the place of."""


def test_another_vocabulary_is_refused(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sample", "-a", letters, "--prompt", "abc", "--method", "speculative")
    said = refused(cdec(*words, "--draft", "embedded-draft"), "E_TOKENIZER_MISMATCH", 65)
    assert "the draft's vocabulary" in said
    monkeypatch.setattr("cdec.core.load_model", lambda name, **options: light.slow_model(0))
    (record,) = cdec(*words, "--draft", "letters").records
    assert record["valid"] is True


def test_the_drafts_options_are_its_own(cdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdec.core import load_model

    seen: list[dict[str, Any]] = []

    def watched(name: Any, **options: Any) -> Any:
        seen.append({"name": str(name), **options})
        return load_model(embedded_model_path("draft"))

    monkeypatch.setattr("cdec.core.load_model", watched)
    words = ("sample", *FREE, "--method", "speculative", "--draft", "some/draft")
    own = ("--draft-revision", "v2", "--draft-dtype", "float64", "--allow-pickle")
    assert cdec(*words, *own).status == 0
    assert cdec(*words, "--dtype", "float32").status == 0
    common = {"name": "some/draft", "device": "cpu"}
    assert seen == [
        {**common, "dtype": "float64", "revision": "v2"},
        {**common, "dtype": "float32", "revision": None},
    ]


def test_a_drafts_own_code_is_never_run(cdec: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for file in embedded_model_path("draft").iterdir():
        (folder / file.name).symlink_to(file)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    config["auto_map"] = {"AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    words = ("sample", *FREE, "--method", "speculative", "--draft", folder)
    said = refused(cdec(*words, "--trust-remote-code"), "E_TRUST", 69)
    assert "Name a draft" in said


def test_another_model_needs_a_draft_to_be_named(cdec: Runner, cities: Path) -> None:
    for method in ("speculative", "mentored", "cdlh-approx", "cdsl"):
        words = ("--method", method, "--model", "some/model")
        reward = () if method[0] != "c" else ("--reward", "coverage")
        said = refused(cdec("sample", "-a", cities, *PROMPT, *words, *reward))
        assert "needs a draft" in said and "--draft NAME_OR_PATH" in said


@pytest.mark.parametrize(
    ("typo", "meant"), [("emebdded-draft", "embedded-draft"), ("count", "counts"), ("gpt2", None)]
)
def test_a_draft_that_is_nowhere_may_be_a_typing_error(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch, typo: str, meant: str | None
) -> None:
    from cdec.core import load_model

    def without_hub(name: Any, **options: Any) -> Any:
        if name == typo:
            raise ModelError(f"the model {name} was not found", hint="Check the name.")
        return load_model(name, **options)

    monkeypatch.setattr("cdec.core.load_model", without_hub)
    words = ("sample", *FREE, "--method", "speculative", "--draft", typo)
    said = refused(cdec(*words), "E_MODEL", 69)
    assert f"the model {typo} was not found" in said
    assert ("did you mean" in said) == (meant is not None)
    assert meant is None or f"--draft {meant}?" in said


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--method", "speculative", "--draft", "./nowhere"), "--draft"),
        (("--method", "cdlh", "--reward", "classifier:./nowhere"), "--reward"),
        (("-m", "./nowhere", "--method", "masked"), "--model"),
    ],
)
def test_a_model_folder_that_is_nowhere_is_named_with_its_option(
    cdec: Runner,
    cities: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    option: str,
) -> None:
    monkeypatch.setattr(models, "open_model", OPEN_MODEL)
    said = refused(cdec("sample", "-a", cities, *PROMPT, *words), "E_MODEL", 69)
    assert f"{option}: there is no model folder at './nowhere'" in said


@pytest.mark.parametrize("option", ["--model", "--tokenizer"])
def test_a_tokenizer_that_is_nowhere_is_named_with_its_option(cdec: Runner, option: str) -> None:
    Path("names.txt").write_text("Paris\n")
    result = cdec("compile-set", "names.txt", option, "./nowhere")
    assert (result.status, result.error_code) == (69, "E_MODEL")
    assert f"{option}: there is no tokenizer at './nowhere'" in result.stderr


@pytest.mark.slow
def test_what_is_typed_wins_over_the_other_budget_of_the_config(cdec: Runner) -> None:
    words = ("sample", *FREE, "--method", "mentored", "-n", 4)
    plain = cdec(*words, "--divergence-total", 0.5).records
    each = cdec(*words, "--divergence", 0.2).records
    Path("cdec.toml").write_text("divergence = 0.2\n")
    assert cdec(*words, "--divergence-total", 0.5).records == plain != each
    Path("cdec.toml").write_text("divergence-total = 0.5\n")
    assert cdec(*words, "--divergence", 0.2).records == each
    Path("cdec.toml").write_text("divergence = 0.2\ndivergence-total = 0.5\n")
    assert "both given" in refused(cdec(*words))


def test_a_measured_ratio_in_the_config_is_for_drafts_that_are_models(
    cdec: Runner, cities: Path
) -> None:
    Path("cdec.toml").write_text('cost-ratio = "measure"\n')
    (record,) = cdec("sample", "-a", cities, *PROMPT, "--method", "disc").records
    assert "cost_per_token" not in record
    words = ("--method", "speculative", "--draft", "prompt-lookup")
    (record,) = cdec("sample", "-a", cities, *PROMPT, *words).records
    assert record["draft_calls"] == 0

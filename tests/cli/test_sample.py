"""cdec sample end to end: records in, samples out, and what every option changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import models

from .conftest import MEMBERS, Result, Runner

pytestmark = pytest.mark.usefixtures("loaded")


def _jsonl(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _texts(result: Result) -> list[str]:
    assert result.status == 0, result.stderr
    return [record["text"] for record in result.records]


OPEN_MODEL = models.open_model
PROMPT = ("--prompt", "The capital is")
TWO = _jsonl({"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"})


def test_a_prompt_gives_one_disc_sample_with_the_documented_defaults(
    cdec: Runner, cities: Path
) -> None:
    result = cdec("sample", "-a", cities, *PROMPT)
    assert (result.status, result.stderr) == (0, "")
    (record,) = result.records
    assert record["text"] in MEMBERS
    assert record["valid"] is True
    assert record["method"] == "disc"
    assert record["exactness"] == "asymptotic"
    assert record["draws"] <= 8
    assert record["finish_reason"] == "complete"
    assert record["entity_ids"] == [f"Q{MEMBERS.index(record['text'])}"]


def test_run_is_sample_with_the_artifact_in_its_place(cdec: Runner, cities: Path) -> None:
    assert cdec("run", cities, *PROMPT).stdout == cdec("sample", "-a", cities, *PROMPT).stdout


def test_run_refuses_recipes(cdec: Runner) -> None:
    result = cdec("run", "recipe.toml")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "recipe" in result.stderr


@pytest.mark.parametrize("method", ["unconstrained", "greedy", "masked", "beam", "disc"])
def test_every_method_runs(cdec: Runner, cities: Path, method: str) -> None:
    words = ("--method", method, "-n", "2", "--max-new-tokens", "8")
    records = cdec("sample", "-a", cities, *PROMPT, *words).records
    assert [record["index"] for record in records] == [0, 1]
    assert {record["method"] for record in records} == {method}
    if method != "unconstrained":
        assert all(record["text"] in MEMBERS for record in records)


def test_unknown_methods_are_named_with_the_nearest(cdec: Runner, cities: Path) -> None:
    result = cdec("sample", "-a", cities, *PROMPT, "--method", "dsic")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "disc" in result.stderr


def test_a_run_without_an_artifact_says_what_to_type(cdec: Runner) -> None:
    result = cdec("sample", *PROMPT)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "cdec sample -a" in result.stderr
    free = cdec("sample", *PROMPT, "--method", "unconstrained", "--max-new-tokens", "3")
    assert free.status == 0
    assert free.records[0]["valid"] is None


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--method", "masked", "--K", "4"), "--K"),
        (("--method", "masked", "--recycle"), "--recycle"),
        (("--method", "masked", "--beams", "2"), "--beams"),
        (("--method", "beam", "--top-m", "5"), "--top-m"),
        (("--method", "greedy", "-K", "4"), "--K"),
    ],
)
def test_options_the_method_does_not_use_are_refused_when_typed(
    cdec: Runner, cities: Path, words: tuple[str, ...], flag: str
) -> None:
    result = cdec("sample", "-a", cities, *PROMPT, *words)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert flag in result.stderr and "disc" in result.stderr


def test_cdec_toml_may_set_options_of_other_methods(cdec: Runner, cities: Path) -> None:
    Path("cdec.toml").write_text(f'artifact = "{cities}"\nK = 2\nmethod = "masked"\nn = 3\n')
    result = cdec("sample", *PROMPT)
    assert result.status == 0, result.stderr
    assert [record["method"] for record in result.records] == ["masked"] * 3
    typed = cdec("sample", *PROMPT, "--method", "disc", "-n", "1")
    assert [record["method"] for record in typed.records] == ["disc"]


def test_tries_bound_the_draws(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "-n", "16")
    assert max(record["draws"] for record in cdec(*words, "--K", "1").records) == 2
    assert max(record["draws"] for record in cdec(*words, "--K", "4").records) > 2
    assert cdec(*words, "--K", "0").error_code == "E_USAGE"


def test_recycling_needs_no_new_candidates(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "-n", "16", "--K", "2", "--recycle")
    assert max(record["draws"] for record in cdec(*words).records) == 2


def test_top_m_says_what_it_missed(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT)
    assert "missed_mass" not in cdec(*words).records[0]
    record = cdec(*words, "--top-m", "50").records[0]
    assert record["missed_mass"] > 0
    assert record["log_weight"] is None


def test_beams_give_distinct_texts_or_a_heuristic(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT)
    beams = _texts(cdec(*words, "--method", "beam", "--beams", "4", "-n", "4"))
    assert len(set(beams)) == 4
    too_many = cdec(*words, "--method", "beam", "--beams", "2", "-n", "4")
    assert (too_many.status, too_many.error_code) == (2, "E_USAGE")
    assert cdec(*words, "--beams", "2").records[0]["exactness"] == "heuristic"


def test_seeds_decide_the_draws(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "-n", "12", "--method", "masked")
    assert _texts(cdec(*words)) == _texts(cdec(*words, "--seed", "0"))
    assert _texts(cdec(*words)) != _texts(cdec(*words, "--seed", "1"))
    assert cdec(*words, "--seed", "-1").error_code == "E_USAGE"


def test_warping_changes_the_probabilities(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "--method", "greedy")
    plain = cdec(*words).records[0]["logprob"]
    assert cdec(*words, "--temperature", "0.5").records[0]["logprob"] != plain
    assert cdec(*words, "--top-k", "4000").records[0]["logprob"] >= plain
    assert cdec(*words, "--top-p", "0.999999").records[0]["logprob"] >= plain
    for wrong in (("--temperature", "0"), ("--temperature", "-1"), ("--top-k", "0")):
        assert cdec(*words, *wrong).error_code == "E_USAGE"
    assert cdec(*words, "--top-p", "2").error_code == "E_USAGE"


def test_top_k_and_top_p_cut_the_distribution(cdec: Runner) -> None:
    words = ("sample", "--method", "unconstrained", "--max-new-tokens", "6", *PROMPT, "-n", "8")
    assert len(set(_texts(cdec(*words)))) > 1
    assert len(set(_texts(cdec(*words, "--top-k", "1")))) == 1
    assert len(set(_texts(cdec(*words, "--top-p", "0.0001")))) == 1


def test_the_length_limit_is_reported(cdec: Runner, cities: Path) -> None:
    words = ("sample", "--method", "unconstrained", *PROMPT, "--max-new-tokens", "2", "-n", "8")
    assert max(len(record["token_ids"]) for record in cdec(*words).records) == 2
    assert {record["finish_reason"] for record in cdec(*words).records} >= {"length"}


def test_fields_select_and_order(cdec: Runner, cities: Path) -> None:
    (record,) = cdec("sample", "-a", cities, *PROMPT, "--fields", "text, id").records
    assert list(record) == ["text", "id"]
    wrong = cdec("sample", "-a", cities, *PROMPT, "--fields", "txt")
    assert wrong.error_code == "E_USAGE" and "'text'" in wrong.stderr


def test_model_options_reach_the_loader(
    cdec: Runner, cities: Path, embedded_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdec.core.models import loading

    calls: list[tuple[str, dict[str, Any]]] = []

    def load(name: str, **keywords: Any) -> Any:
        calls.append((name, keywords))
        return embedded_model

    monkeypatch.setattr(models, "open_model", OPEN_MODEL)
    monkeypatch.setattr(loading, "load_model", load)
    words = (
        *("--model", "m", "--device", "cpu", "--dtype", "float64", "--device-map", "auto"),
        *("--attn-implementation", "eager", "--revision", "abc", "--quantization", "8bit"),
        *("--trust-remote-code", "--allow-pickle", "--allow-special"),
    )
    result = cdec("sample", "-a", cities, *PROMPT, *words)
    assert result.status == 0, result.stderr
    assert calls == [
        (
            "m",
            {
                "device": "cpu",
                "dtype": "float64",
                "device_map": "auto",
                "attn_implementation": "eager",
                "revision": "abc",
                "trust_remote_code": True,
                "allow_pickle": True,
                "quantization": "8bit",
                "allow_special": True,
                "chat": None,
            },
        )
    ]


def test_prompts_that_are_not_utf8_are_refused(cdec: Runner, cities: Path) -> None:
    result = cdec("sample", "-a", cities, "--prompt", "a\udcff")
    assert (result.status, result.error_code) == (2, "E_USAGE")

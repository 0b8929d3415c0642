"""cdec doctor and cdec demo."""

from __future__ import annotations

import shlex
from importlib import metadata
from typing import Any

import pytest

from cdec.cli import doctor
from cdec.cli.demo import NEXT, five_answers, shipped_questions
from cdec.core import native

from .conftest import Runner


def test_doctor_reports_versions_devices_and_caches(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CDEC_CACHE_DIR", str(cache))
    (report,) = cdec("doctor", "--json").records
    assert report["cdec"] == metadata.version("cdec")
    assert report["packages"]["torch"] == metadata.version("torch")
    assert "cpu" in report["devices"]
    assert report["caches"]["cdec"] == str(cache)
    assert report["caches"]["hub_offline"] is True
    assert report["missing"] == []
    text = cdec("doctor").stdout.decode()
    assert "packages.torch" in text and "devices.cpu" in text


def test_doctor_names_what_installs_a_missing_extra(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "llguidance"
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == absent else version(name))
    (report,) = cdec("doctor", "--json").records
    assert report["extras"]["bench"]["install"] == 'pip install "cdec[bench]"'
    assert absent in report["extras"]["bench"]["missing"]


def test_doctor_fails_where_a_needed_package_is_missing(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "lark" else version(name))
    result = cdec("doctor")
    assert (result.status, result.error_code) == (69, "E_EXTRA")
    assert "pip install lark" in result.stderr


def test_doctor_says_that_the_compiled_library_is_stale(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cdec("doctor", "--json").records[0]["library"].endswith(".so")
    monkeypatch.setattr(native, "_digest", lambda sources: "other")
    result = cdec("doctor")
    assert (result.status, result.error_code) == (69, "E_NATIVE")
    assert "python native/build.py" in result.stderr


@pytest.mark.usefixtures("embedded_model")
def test_demo_runs_end_to_end(cdec: Runner) -> None:
    words = ("demo", "--prompts", "2", "-n", "2")
    (report,) = cdec(*words, "--json").records
    assert (report["questions"], report["samples"]) == (2, 2)
    methods = {row["method"]: row for row in report["methods"]}
    assert set(methods) == {"unconstrained", "masked", "disc"}
    assert methods["masked"]["valid"] == methods["disc"]["valid"] == 1
    text = cdec(*words).stdout.decode()
    assert "Compiled a list of" in text and "disc" in text
    assert max(map(len, text.splitlines())) <= 80
    more = ("demo", "--prompts", "12", "-n", "8", "--json")
    assert cdec(*more).stdout == cdec(*more, "--seed", "0").stdout
    assert cdec(*more).stdout != cdec(*more, "--seed", "1").stdout
    assert cdec(*words, "--quiet").stderr == ""
    for wrong in (("--prompts", "0"), ("-n", "0")):
        assert cdec("demo", *wrong).error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_masked_draws_differ_from_the_law_and_exact_ones_do_not(embedded_model: Any) -> None:
    answers = five_answers(embedded_model)
    assert sum(answer.law for answer in answers) == pytest.approx(1)
    # Of 1000 draws: five standard errors of a share are at most 0.08.
    assert all(abs(answer.exact - answer.law) < 0.08 for answer in answers)
    lured, likely = answers[0], answers[3]
    assert (lured.text, likely.text) == ("yes please", "maybe")
    assert lured.masked > 0.6 and likely.law > 0.9 and likely.masked < 0.1


@pytest.mark.usefixtures("loaded")
def test_what_the_demo_says_to_try_next_works_as_typed(cdec: Runner) -> None:
    assert len(NEXT) == 3
    for typed in NEXT:
        before, _, after = typed.replace("\\\n", " ").rpartition("|")
        words = shlex.split(after)
        stdin = shlex.split(before)[1].encode() if before else b""
        result = cdec(*words[1:], stdin=stdin)
        assert (words[0], result.status) == ("cdec", 0), result.stderr


def test_questions_are_spread_over_the_shipped_ones() -> None:
    assert len({question.id for question in shipped_questions(50)}) == 50
    assert len(shipped_questions(10**6)) == len({q.id for q in shipped_questions(10**6)})

"""cdec doctor and cdec demo."""

from __future__ import annotations

from importlib import metadata

import pytest

from cdec.cli import doctor
from cdec.cli.demonstration import shipped_questions

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
    more = ("demo", "--prompts", "12", "-n", "8", "--json")
    assert cdec(*more).stdout == cdec(*more, "--seed", "0").stdout
    assert cdec(*more).stdout != cdec(*more, "--seed", "1").stdout
    assert cdec(*words, "--quiet").stderr == ""
    for wrong in (("--prompts", "0"), ("-n", "0")):
        assert cdec("demo", *wrong).error_code == "E_USAGE"


def test_questions_are_spread_over_the_shipped_ones() -> None:
    assert len({question.id for question in shipped_questions(50)}) == 50
    assert len(shipped_questions(10**6)) == len({q.id for q in shipped_questions(10**6)})

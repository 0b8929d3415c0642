"""Asked and ServingSettings: what a request may say, and what an operator must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import CdecError, ConfigError, FieldError, InputMissingError, LimitError
from cdec.integrations.serving.asked import Asked
from cdec.integrations.serving.settings import ServingLimits, ServingSettings

SETTINGS = ServingSettings(
    artifacts={"cities": Path("cities.arrow")},
    allow=frozenset({"regex", "schema", "candidates"}),
    tokenizer="embedded",
    limits=ServingLimits(max_candidates=3, max_text_bytes=200),
)


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ({"artifact": "cities"}, Asked("cities")),
        ({"artifact": "cities", "deny": None}, Asked("cities")),
        ('{"artifact": "cities", "deny": ["Bern"]}', Asked("cities", deny=("Bern",))),
        ({"artifact": "cities", "candidates": ["Oslo"]}, Asked("cities", ("Oslo",))),
        ({"candidates": ["a", "b"]}, Asked(candidates=("a", "b"))),
        ({"regex": "a+", "deny": ["a"]}, Asked(deny=("a",), source="regex", text="a+")),
        ({"schema": {"type": "null"}}, Asked(source="schema", text='{"type":"null"}')),
        ({"schema": True}, Asked(source="schema", text="true")),
    ],
)
def test_a_request_says_what_it_is_held_to_as_an_object_or_as_its_text(
    value: object, asked: Asked
) -> None:
    assert Asked.of(value, SETTINGS) == asked
    if not isinstance(value, str):
        assert Asked.of(json.dumps(value), SETTINGS) == asked


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "[]",
        "7",
        7,
        [],
        {},
        {7: "cities"},
        {"artifacts": "cities"},
        {"artifact": 7},
        {"artifact": ["cities"]},
        {"artifact": "towns"},
        {"artifact": "cities.arrow"},
        {"artifact": "/etc/passwd"},
        {"artifact": "../cities"},
        {"deny": ["Bern"]},
        {"artifact": "cities", "candidates": []},
        {"artifact": "cities", "candidates": "Oslo"},
        {"artifact": "cities", "candidates": [7]},
        {"artifact": "cities", "candidates": [""]},
        {"artifact": "cities", "candidates": {"a": "b"}},
        {"artifact": "cities", "deny": [None]},
        {"artifact": "cities", "deny": -1},
        {"artifact": "cities", "regex": "a"},
        {"candidates": ["a"], "regex": "a"},
        {"regex": "a", "schema": "{}"},
        {"regex": ""},
        {"regex": {}},
        {"schema": []},
        {"schema": -1},
        {"artifact": "cities", "deny": [b"Bern"]},
        {"regex": "\ud800", "max": 3},
    ],
)
def test_what_is_unclear_unknown_or_a_path_is_refused_as_a_field(value: object) -> None:
    with pytest.raises(FieldError) as caught:
        Asked.of(value, SETTINGS)
    assert caught.value.hint
    assert caught.value.details["field"] == "cdec"


@pytest.mark.parametrize("brought", [{"grammar": 'start: "a"'}, {"regex": "a"}, {"schema": "{}"}])
def test_nothing_is_compiled_unless_the_operator_allows_it(brought: dict[str, Any]) -> None:
    only = ServingSettings(artifacts=SETTINGS.artifacts)
    with pytest.raises(FieldError, match="compiles none"):
        Asked.of(brought, only)
    with pytest.raises(FieldError, match="compiles none"):
        Asked.of({"candidates": ["a"]}, only)
    assert Asked.of({"artifact": "cities", "candidates": ["a"]}, only).candidates == ("a",)


@pytest.mark.parametrize(
    "value",
    [
        {"artifact": "cities", "candidates": ["a", "b", "c", "d"]},
        {"artifact": "cities", "deny": ["a"] * 4},
        {"artifact": "cities", "candidates": ["a" * 300]},
        {"regex": "a" * 300},
        {"schema": {"enum": list(range(300))}},
        json.dumps({"artifact": "cities", "deny": ["x" * 300]}),
        "[" * 300,
    ],
)
def test_what_is_too_much_is_refused_before_it_is_read(value: object) -> None:
    with pytest.raises(LimitError) as caught:
        Asked.of(value, SETTINGS)
    assert caught.value.details["limit"] in {"max_candidates", "max_text_bytes"}


def test_values_nested_past_all_depth_are_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in ({"schema": deep}, {"artifact": deep}, '{"schema":' + "[" * 150):
        with pytest.raises(CdecError):
            Asked.of(value, SETTINGS)


def written(folder: Path, text: str) -> Path:
    path = folder / "serving.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_settings_name_artifacts_beside_the_file_and_bound_requests(tmp_path: Path) -> None:
    text = (
        'tokenizer = "embedded"\nallow = ["regex"]\nmax_candidates = 5\ncompile_seconds = 2\n'
        '[artifacts]\ncities = "sets/cities.arrow"\nother = "/srv/x.arrow"\n'
    )
    settings = ServingSettings.from_file(written(tmp_path, text))
    paths = {"cities": tmp_path / "sets/cities.arrow", "other": Path("/srv/x.arrow")}
    assert settings.artifacts == paths
    assert settings.allow == {"regex"}
    assert settings.limits == ServingLimits(max_candidates=5, compile_seconds=2)


@pytest.mark.parametrize(
    "text",
    [
        "allow",
        "artifact = 7",
        "artifacts = 7",
        "[artifacts]\na = 7",
        'allow = "regex"',
        'allow = ["regex"]',
        'tokenizer = "embedded"\nallow = ["python"]',
        "tokenizer = 7",
        "\udcff",
    ],
)
def test_settings_that_say_something_else_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "serving.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        ServingSettings.from_file(path)
    assert caught.value.hint


def test_settings_say_how_schemas_of_requests_are_compiled(tmp_path: Path) -> None:
    text = 'whitespace = "compact"\nproperty_order = "declared"\nlenient = true\n'
    settings = ServingSettings.from_file(written(tmp_path, text))
    assert settings.schema == {
        "whitespace": "compact",
        "property_order": "declared",
        "lenient": True,
    }


@pytest.mark.parametrize(
    "text", ['whitespace = "none"', "whitespace = 1", 'lenient = "yes"', "max_whitespace = -1"]
)
def test_options_of_schemas_that_cannot_be_are_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=text.split()[0]) as caught:
        ServingSettings.from_file(written(tmp_path, text))
    assert "serving.toml" in caught.value.message


@pytest.mark.parametrize("text", ["name = 'x'", "made_from = 'x'", "limits = 3"])
def test_what_the_server_fills_in_itself_is_no_setting(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="unknown"):
        ServingSettings.from_file(written(tmp_path, text))


@pytest.mark.parametrize("text", ["max_candidates = 0", "compile_seconds = -1", "max_kept = 'a'"])
def test_limits_out_of_bounds_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CdecError):
        ServingSettings.from_file(written(tmp_path, text))


def test_settings_come_from_the_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CDEC_SERVING", raising=False)
    with pytest.raises(ConfigError, match="CDEC_SERVING"):
        ServingSettings.from_environment()
    monkeypatch.setenv("CDEC_SERVING", str(tmp_path / "none.toml"))
    with pytest.raises(InputMissingError):
        ServingSettings.from_environment()
    monkeypatch.setenv("CDEC_SERVING", str(written(tmp_path, '[artifacts]\na = "a.arrow"\n')))
    assert ServingSettings.from_environment().artifacts == {"a": tmp_path / "a.arrow"}

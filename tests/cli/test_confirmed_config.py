"""A cdec.toml that was found names no model, but for those that ship, until it was confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Result, Runner


def refused(result: Result, code: str = "E_TRUST", status: int = 69) -> str:
    assert (result.status, result.error_code) == (status, code)
    return result.stderr


@pytest.mark.parametrize(
    "line",
    [
        'model = "downloaded"',
        '[sample]\nmodel = "owner/name"',
        'draft = "downloaded"',
        'method = "cdsl"\nreward = "classifier:downloaded"',
    ],
)
def test_a_model_that_nobody_typed_is_not_loaded(cdec: Runner, cities: Path, line: str) -> None:
    Path("cdec.toml").write_text(line + "\n")
    words = ("sample", "-a", cities, "--prompt", "a")
    assert "--trust-config" in refused(cdec(*words))
    # Once it is confirmed, what is wrong is the model.
    assert "nobody typed" not in cdec(*words, "--trust-config").stderr
    assert "nobody typed" not in cdec(*words).stderr
    Path("cdec.toml").write_text(line + "\n# changed\n")
    refused(cdec(*words))


def test_a_tokenizer_that_nobody_typed_is_not_loaded(cdec: Runner) -> None:
    Path("a.txt").write_text("a\n")
    Path("cdec.toml").write_text('tokenizer = "owner/name"\n')
    refused(cdec("compile-set", "a.txt"))
    assert cdec("compile-set", "a.txt", "--tokenizer", "embedded").status == 0


def test_models_that_ship_and_what_is_typed_need_no_confirmation(
    cdec: Runner, cities: Path
) -> None:
    Path("cdec.toml").write_text('model = "embedded"\ndraft = "prompt-lookup"\n')
    result = cdec("sample", "-a", cities, "--method", "speculative", "--prompt", "a", "-n", "1")
    assert (result.status, len(result.records)) == (0, 1)
    Path("cdec.toml").write_text('model = "owner/name"\n')
    assert cdec("sample", "-a", cities, "--prompt", "a", "--model", "embedded").status == 0


def test_the_file_cannot_confirm_itself(cdec: Runner) -> None:
    Path("cdec.toml").write_text("trust-config = true\n")
    refused(cdec("methods"), "E_CONFIG", 78)

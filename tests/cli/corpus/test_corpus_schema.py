"""Every hostile JSON Schema of the shared corpus, end to end through the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler
from tests.cli.conftest import Result, Runner

from .cases import Case, cases

CASES = cases("schema")
BY_ID = {case.id: case for case in CASES}
OVERTAKEN = {"js-unsupported-keyword"}
"""Cases that expect an error of what has a meaning by now: the complement of a type."""
TOLERANCE = 1.2

pytestmark = pytest.mark.skipif(not CASES, reason="no shared corpus: set CDEC_SHARED")


def _compile(cdec: Runner, case: Case) -> Result:
    return cdec("compile-schema", "-", "-o", "x.arrow", "--json", stdin=case.data())


def _verdicts(cdec: Runner, texts: list[str]) -> list[bool]:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    result = cdec("check", "x.arrow", "--field", "text", "--format", "jsonl", stdin=lines.encode())
    assert result.status == 0, result.stderr
    return [record["valid"] for record in result.records]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in CASES if case.id not in OVERTAKEN]
)
def test_schemas(cdec: Runner, grammar_child: ChildCompiler, case: Case) -> None:
    expect = case.expect
    started = time.monotonic()
    result = _compile(cdec, case)
    seconds = time.monotonic() - started
    outcomes = [expect, *([expect["alt"]] if "alt" in expect else [])]
    said = (result.status, result.error_code if result.status else None)
    assert said in [(way["exit"], way.get("error")) for way in outcomes], result.stderr
    assert seconds <= expect.get("max_s", 60) * TOLERANCE
    if "max_rss_mb" in expect and grammar_child.usage is not None:
        assert grammar_child.usage.peak_bytes <= expect["max_rss_mb"] * TOLERANCE * 2**20
    if result.status:
        _check_error(result, expect)
        return
    accepts = expect.get("accepts", [])
    assert _verdicts(cdec, accepts) == [True] * len(accepts)


@pytest.mark.usefixtures("grammar_child")
def test_the_complement_of_a_type_compiles(cdec: Runner) -> None:
    assert _compile(cdec, BY_ID["js-unsupported-keyword"]).status == 0
    assert _verdicts(cdec, ["1", "null", "{}", '"a"', '""']) == [True, True, True, False, False]


def _check_error(result: Result, expect: dict[str, object]) -> None:
    assert not Path("x.arrow").exists()
    if "line" in expect:
        assert f"line {expect['line']}, column {expect['col']}" in result.stderr
    if result.error_code == expect.get("error"):
        assert str(expect.get("path", "")) in result.stderr
        if "limit" in expect:
            assert "--" + str(expect["limit"]).replace("_", "-") in result.stderr

"""Every hostile JSON Schema of the shared corpus, end to end through the command line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler
from tests.cli.conftest import Result, Runner

from .cases import Case, assert_within, cases, verdicts

CASES = cases("schema")
BY_ID = {case.id: case for case in CASES}
OVERTAKEN = {"js-unsupported-keyword"}
"""Cases that expect an error of what has a meaning by now: the complement of a type."""

pytestmark = pytest.mark.skipif(not CASES, reason="no shared corpus: set CDEC_SHARED")


def _compile(cdec: Runner, case: Case) -> Result:
    return cdec("compile-schema", "-", "-o", "x.arrow", "--json", stdin=case.data())


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in CASES if case.id not in OVERTAKEN]
)
def test_schemas(cdec: Runner, grammar_child: ChildCompiler, case: Case) -> None:
    expect = case.expect
    started = time.process_time()
    result = _compile(cdec, case)
    outcomes = [expect, *([expect["alt"]] if "alt" in expect else [])]
    said = (result.status, result.error_code if result.status else None)
    assert said in [(way["exit"], way.get("error")) for way in outcomes], result.stderr
    assert_within(expect, grammar_child, started)
    if result.status:
        _check_error(result, expect)
        return
    accepts = expect.get("accepts", [])
    assert verdicts(cdec, accepts) == [True] * len(accepts)


@pytest.mark.usefixtures("grammar_child")
def test_the_complement_of_a_type_compiles(cdec: Runner) -> None:
    assert _compile(cdec, BY_ID["js-unsupported-keyword"]).status == 0
    assert verdicts(cdec, ["1", "null", "{}", '"a"', '""']) == [True, True, True, False, False]


def _check_error(result: Result, expect: dict[str, object]) -> None:
    assert not Path("x.arrow").exists()
    if "line" in expect:
        assert f"line {expect['line']}, column {expect['col']}" in result.stderr
    if result.error_code == expect.get("error"):
        assert str(expect.get("path", "")) in result.stderr
        if "limit" in expect:
            assert "--" + str(expect["limit"]).replace("_", "-") in result.stderr

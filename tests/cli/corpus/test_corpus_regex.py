"""Every hostile regular expression of the shared corpus, end to end through the command line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler
from tests.cli.conftest import Result, Runner

from .cases import Case, assert_within, cases, verdicts

CASES = cases("regex")
OVERTAKEN = {"rx-word-boundary"}
"""Cases that expect an error of what has a meaning by now."""
PLACED_OTHERWISE = {"rx-unbalanced", "rx-bad-range"}
"""Cases whose place of the error is another than that which ``re`` tells."""

pytestmark = pytest.mark.skipif(not CASES, reason="no shared corpus: set CDEC_SHARED")


def _compile(cdec: Runner, data: bytes) -> Result:
    return cdec("compile-regex", "--file", "-", "-o", "x.arrow", "--json", stdin=data)


@pytest.mark.share(8)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in CASES if case.id not in OVERTAKEN]
)
def test_regexes(cdec: Runner, grammar_child: ChildCompiler, case: Case) -> None:
    started = time.process_time()
    result = _compile(cdec, case.data())
    expect = case.expect
    if "alt" in expect and result.status == expect["alt"]["exit"]:
        expect = expect["alt"]
    assert result.status == expect["exit"], result.stderr
    assert_within(expect, grammar_child, started)
    if "error" in expect:
        _check_error(case, result, expect)
        return
    (report,) = result.records
    if "warning" in expect:
        assert expect["warning"] in [notice["code"] for notice in report["notices"]]
        assert f"warning {expect['warning']}:" in result.stderr
    accepts, rejects = expect.get("accepts", []), expect.get("rejects", [])
    assert verdicts(cdec, accepts) == [True] * len(accepts)
    assert verdicts(cdec, rejects) == [False] * len(rejects)


def _check_error(case: Case, result: Result, expect: dict[str, object]) -> None:
    assert result.error_code == expect["error"]
    assert not Path("x.arrow").exists()
    told = result.stderr.replace("back-reference", "backreference")
    assert str(expect.get("feature", "")) in told
    if "limit" in expect:
        assert "--" + str(expect["limit"]).replace("_", "-") in result.stderr
    if "pos" in expect:
        assert "at position" in result.stderr
        assert (f"at position {expect['pos']}" in result.stderr) != (case.id in PLACED_OTHERWISE)


@pytest.mark.usefixtures("grammar_child")
def test_word_boundaries_compile(cdec: Runner) -> None:
    assert _compile(cdec, rb"\bfoo\b").status == 0
    assert verdicts(cdec, ["foo", "fo", " foo"]) == [True, False, False]


@pytest.mark.usefixtures("grammar_child")
def test_nested_quantifiers_take_linear_time(cdec: Runner) -> None:
    assert _compile(cdec, b"(a+)+b").status == 0
    started = time.process_time()
    assert verdicts(cdec, ["a" * 100_000, "a" * 100_000 + "b"]) == [False, True]
    assert time.process_time() - started < 5

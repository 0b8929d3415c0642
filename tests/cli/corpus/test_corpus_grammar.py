"""Every hostile grammar of the shared corpus, end to end through the command line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler
from tests.cli.conftest import Result, Runner

from .cases import Case, assert_within, cases, verdicts

CASES = cases("grammar")
BY_ID = {case.id: case for case in CASES}
OTHER_TOKENIZERS = {"gr-untokenizable-literal", "gr-dead-end"}
OVERTAKEN = {"gr-lookahead-terminal"}
"""Cases that expect an error of what has a meaning by now."""

pytestmark = pytest.mark.skipif(not CASES, reason="no shared corpus: set CDEC_SHARED")


def _compile(cdec: Runner, case: Case, *words: object) -> Result:
    return cdec("compile-grammar", "-", "-o", "x.arrow", "--json", *words, stdin=case.data())


@pytest.mark.share(12)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.id)
        for case in CASES
        if case.id not in OTHER_TOKENIZERS | OVERTAKEN
    ],
)
def test_grammars(cdec: Runner, grammar_child: ChildCompiler, case: Case) -> None:
    expect = case.expect
    started = time.process_time()
    # Blanks are bounded unless any number is asked for, which is what the warning is about.
    unbounded = ("--max-whitespace", "none") if "warning" in expect else ()
    result = _compile(cdec, case, *unbounded)
    assert result.status == expect["exit"], result.stderr
    assert_within(expect, grammar_child, started)
    if "error" in expect:
        _check_error(result, expect)
        return
    (report,) = result.records
    codes = [notice["code"] for notice in report["notices"]]
    if "warning" in expect:
        assert expect["warning"] in codes
        assert f"warning {expect['warning']}:" in result.stderr
    accepts, rejects = expect.get("accepts", []), expect.get("rejects", [])
    assert verdicts(cdec, accepts) == [True] * len(accepts)
    assert verdicts(cdec, rejects) == [False] * len(rejects)


def test_look_ahead_that_ends_within_the_terminal_compiles(
    cdec: Runner, grammar_child: ChildCompiler
) -> None:
    assert _compile(cdec, BY_ID["gr-lookahead-terminal"]).status == 0
    assert verdicts(cdec, ["bca", "abc", "b"]) == [True, False, True]


def _check_error(result: Result, expect: dict[str, object]) -> None:
    assert result.error_code == expect["error"]
    assert not Path("x.arrow").exists()
    if "line" in expect:
        place = f"line {expect['line']}" + (f", column {expect['col']}" if "col" in expect else "")
        assert place in result.stderr
    for word in ("name", "hint", "feature"):
        assert str(expect.get(word, "")) in result.stderr
    if "limit" in expect:
        flag = "--" + str(expect["limit"]).replace("_", "-")
        assert flag in result.stderr


def _unigram(path: Path, pieces: list[str]) -> Path:
    """Write a tokenizer of these pieces, without bytes to fall back on."""
    from tokenizers import Tokenizer, models

    scored = [("<unk>", 0.0), *((piece, -1.0) for piece in pieces)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=False))
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(path))
    return path


@pytest.mark.usefixtures("grammar_child")
def test_a_literal_that_no_token_spells_is_refused(cdec: Runner, tmp_path: Path) -> None:
    case = BY_ID["gr-untokenizable-literal"]
    tokenizer = _unigram(tmp_path / "tokenizer.json", ["a", "}", "b"])
    result = _compile(cdec, case, "--tokenizer", tokenizer)
    assert (result.status, result.error_code) == (65, case.expect["error"])
    assert f"the literal '{case.expect['literal']}'" in result.stderr


@pytest.mark.usefixtures("grammar_child")
def test_a_prefix_that_no_token_completes_is_warned_of(cdec: Runner, tmp_path: Path) -> None:
    case = BY_ID["gr-dead-end"]
    tokenizer = _unigram(tmp_path / "tokenizer.json", ["a", "b", "ab", "b\u00e9"])
    result = _compile(cdec, case, "--tokenizer", tokenizer)
    assert result.status == 0, result.stderr
    (report,) = result.records
    assert case.expect["warning"] in [notice["code"] for notice in report["notices"]]
    assert report["sound"] is False
    assert verdicts(cdec, ["ab\u00e9", "ab"]) == [True, False]


@pytest.mark.usefixtures("grammar_child", "loaded")
def test_characters_cut_over_tokens_are_completed(cdec: Runner) -> None:
    assert _compile(cdec, BY_ID["gr-invalid-utf8-output"]).status == 0
    words = ("-a", "x.arrow", "--method", "masked", "-n", "8", "--prompt", "\u4f60", "--seed", "3")
    result = cdec("sample", *words)
    assert result.status == 0, result.stderr
    for record in result.records:
        assert record["finish_reason"] == "complete"
        assert 1 <= len(record["text"]) <= 4
        assert all("\u4e00" <= character <= "\u9fff" for character in record["text"])

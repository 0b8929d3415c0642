"""Texts deep in a grammar, and texts whose masks pass the limit: check, score and sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdec.compilers import compile_grammar
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.grammars.session import GrammarSession
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.engine.plain_engine import session_with

from .conftest import Runner

_POWER = 'start: e ";"\ne: "x" "^" e | "x"\n'
_CHAIN = (
    'start: "y" | a0 a0 a0 a0 "!"\n'
    + "\n".join(f'a{i}: a{i + 1} a{i + 1}? | "x" a{i + 1}?' for i in range(60))
    + '\na60: "x" | "z"\n'
)


@pytest.fixture(scope="module")
def powers(tmp_path_factory: pytest.TempPathFactory, vocabulary: Vocabulary) -> Path:
    path = tmp_path_factory.mktemp("powers") / "powers.arrow"
    compile_grammar(_POWER, vocabulary, path)
    return path


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, vocabulary: Vocabulary) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.arrow"
    compile_grammar(_CHAIN, vocabulary, path, lexer="dynamic", precompute=0)
    return path


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let masks take little work."""

    def tight(constraint: GrammarConstraint) -> GrammarSession:
        return session_with(constraint, a_mask=20_000, pause_after=1000)

    monkeypatch.setattr(GrammarConstraint, "_on_host", tight)


@pytest.mark.parametrize("height", [31, 32, 33, 64, 400])
def test_a_refusal_deep_in_a_text_says_what_was_allowed(
    cdec: Runner, powers: Path, height: int
) -> None:
    lines = f"{'x^' * height}x?\n{'x^' * height}?\n{'x^' * height}x;\n".encode()
    behind, before, member = cdec("check", powers, stdin=lines).records
    assert (behind["valid"], behind["byte"]) == (False, 2 * height + 1)
    assert sorted(behind["allowed"]) == [";", "^"]
    assert (before["valid"], before["byte"]) == (False, 2 * height)
    assert min(before["allowed"]) == "x"
    assert member["valid"] is True


def test_members_deep_in_a_grammar_have_scores(cdec: Runner, powers: Path) -> None:
    texts = ["x^" * height + "x;" for height in (31, 33)]
    result = cdec("score", "-a", powers, "--prompt", "q", stdin="\n".join(texts).encode())
    assert result.status == 0, result.stderr
    for record in result.records:
        assert record["member"] is True and record["valid"] is True
        assert record["log_masked"] is not None and record["log_masked"] <= 0
        assert record["log_z_sum"] is not None and record["probability_lower"] is not None


def test_a_text_that_passes_the_limit_is_its_own_error(
    cdec: Runner, chain: Path, little_work: None
) -> None:
    result = cdec("check", chain, "--fail", stdin=b"y\nxxxxxxxxxx\ny\nq\n")
    good, limited, again, bad = result.records
    assert (good["valid"], again["valid"], bad["valid"]) == (True, True, False)
    assert limited["valid"] is None and limited["error"]["code"] == "E_LIMIT"
    assert limited["error"]["limit"] == "mask_work" and limited["text"] == "x" * 10
    assert result.status == 3


def test_a_record_that_passes_the_limit_is_its_own_error(
    cdec: Runner, powers: Path, chain: Path, little_work: None
) -> None:
    records = [
        {"id": "first", "prompt": "q", "constraint": "p"},
        {"id": "wide", "prompt": "q", "constraint": "c"},
        {"id": "last", "prompt": "q", "constraint": "p"},
    ]
    asked = "\n".join(map(json.dumps, records)).encode()
    named = ("--constraint", f"p={powers}", "--constraint", f"c={chain}")
    words = ("--method", "masked", "--max-new-tokens", "12", "--seed", "1", "-n", "8")
    result = cdec("sample", *named, *words, "--batch-size", "3", stdin=asked)
    others = [record for record in result.records if record["id"] != "wide"]
    assert [record["id"] for record in others] == ["first"] * 8 + ["last"] * 8
    (limited,) = (record for record in result.records if record["id"] == "wide")
    assert limited["error"]["code"] == "E_LIMIT"
    assert all("error" not in record for record in others)
    assert result.status == 3

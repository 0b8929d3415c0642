"""A kind of constraint that is neither a set nor a grammar works with every command, by one line
in the table of kinds."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from cdec.core.artifacts.opened import open_artifact
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.kinds import SOURCE_KINDS, Places
from tests.laws.length_kind import compile_length
from tests.laws.sessions import assert_session_laws

from . import light
from .conftest import Result, Runner

PROMPT = ("--prompt", "x")
MEMBERS = {"a", "b", "é", "aa", "ab", "ba", "bb"}
MASS = 3 / 16 + 4 / 64
"""Of the members under a uniform model of four events; é is one token of two bytes."""


def complete(result: Result) -> set[str]:
    """Return the texts that came to their end, all of them valid."""
    assert result.status == 0, result.stderr
    records = [record for record in result.records if record["finish_reason"] == "complete"]
    assert all(record["valid"] for record in records)
    return {record["text"] for record in records}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(constraint="tests.laws.length_kind:LengthConstraint")
    monkeypatch.setitem(SOURCE_KINDS, "length", places)


@pytest.fixture
def short(letters: Path, tmp_path: Path) -> Path:
    """Texts of one or two bytes."""
    return compile_length(1, 2, light.vocabulary(), tmp_path / "short.arrow")


def test_it_keeps_the_laws_alone_and_combined(short: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row for n in (1, 2) for row in itertools.product(range(3), repeat=n)]
    constraint = open_artifact(short, vocabulary=light.vocabulary())
    members = [row for row in rows if len(constraint.vocabulary.decode(row)) <= 2]
    assert_session_laws(constraint, members, rng)
    fewer = deny(constraint, [b"ab", b"a"])
    texts = [constraint.vocabulary.decode(row) for row in members]
    kept = [row for row, text in zip(members, texts, strict=True) if text not in (b"ab", b"a")]
    assert_session_laws(fewer, kept, rng)
    two = open_artifact(compile_length(2, 9, light.vocabulary(), tmp_path / "two.arrow"))
    assert_session_laws(
        conjoin(constraint, two), [row for row in members if len(row) == 2 or row == (2,)], rng
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--method", "masked"),
        ("--method", "disc"),
        ("--method", "asap"),
        ("--method", "exact"),
        ("--method", "smc"),
        ("--method", "greedy"),
        ("--method", "topn"),
        ("--method", "beam"),
        ("--method", "disc", "--draft", "counts"),
    ],
    ids=" ".join,
)
def test_every_method_draws_its_texts(cdec: Runner, short: Path, words: tuple[str, ...]) -> None:
    result = cdec("sample", "-a", short, *PROMPT, "-n", 4, *words)
    assert result.status == 0, result.stderr
    assert all(record["valid"] for record in result.records)
    assert {record["text"] for record in result.records} <= MEMBERS


def test_its_mass_and_scores_are_exact(cdec: Runner, short: Path) -> None:
    (mass,) = cdec("mass", "-a", short, *PROMPT).records
    assert mass["mass_lower"] <= MASS + 1e-9 and mass["mass_upper"] >= MASS - 1e-9
    records = [{"prompt": "x", "token_ids": ids} for ids in ([0, 1], [2], [0, 0, 0])]
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    scored = cdec("score", "-a", short, "-i", "-", stdin=lines).records
    assert [record["member"] for record in scored] == [True, True, False]
    assert scored[0]["logprob"] == pytest.approx(3 * np.log(1 / 4))


def test_and_and_deny_take_it_on_either_side(cdec: Runner, short: Path, letters: Path) -> None:
    sample = ("sample", "--method", "topn", *PROMPT, "-n", 9)
    for words in (("-a", short, "--and", letters), ("-a", letters, "--and", short)):
        assert complete(cdec(*sample, *words)) == {"a", "ab"}
    Path("deny.txt").write_text("ab\nzz\n", encoding="utf-8")
    result = cdec(*sample, "-a", short, "--deny", "deny.txt")
    assert complete(result) == MEMBERS - {"ab"}
    assert "W_DENY_UNKNOWN" in result.stderr


def test_check_says_where_its_texts_end(cdec: Runner, short: Path) -> None:
    result = cdec("check", short, stdin="ab\néa\n".encode())
    assert result.records[0] == {"text": "ab", "valid": True}
    assert result.records[1]["byte"] == 2 and result.records[1]["may_end"]
    rows = cdec("check", short, "--token-ids", stdin=b"[2]\n[0,0,0]\n").records
    assert rows[0] == {"token_ids": [2], "valid": True, "text": "é"}
    assert (rows[1]["position"], rows[1]["byte"], rows[1]["allowed_ids"]) == (2, 2, [3])


def test_inspect_shows_it(cdec: Runner, short: Path) -> None:
    (shown,) = cdec("inspect", short, "--json").records
    assert shown["kind"] == "length" and shown["statistics"] == {"least": 1, "most": 2}
    assert cdec("inspect", short).status == 0


def test_options_of_other_kinds_are_refused_by_its_name(cdec: Runner, short: Path) -> None:
    refused = cdec("inspect", short, "--tree")
    assert refused.status == 2 and "--tree means nothing to a length" in refused.stderr
    refused = cdec("check", short, "--explain", stdin=b"a\n")
    assert refused.status == 2 and "means nothing to a length artifact" in refused.stderr
    refused = cdec("sample", "-a", short, *PROMPT, "--method", "masked", "--lookahead", 1)
    assert refused.status == 2 and "--lookahead needs a grammar" in refused.stderr
    lines = b'{"prompt": "x", "candidates": ["a"]}\n'
    result = cdec("sample", "-a", short, "--method", "masked", "-i", "-", stdin=lines)
    assert result.records[0]["error"]["message"].endswith("the artifact is a length")

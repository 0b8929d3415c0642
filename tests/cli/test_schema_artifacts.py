"""Every method and every command once on a schema artifact, alone, conjoined and with denials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdec.cli.runs import draft, models
from cdec.compilers import compile_token_set
from cdec.compilers.schemas.compile import compile_schema
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.registry import METHODS

from .conftest import Result, Runner

TOKENS = [b'["', b'"', b'"]', b'"]"', b",", b'","', b"a", b"b", b"ab", b"]", b"[", b"x", b""]
END = len(TOKENS) - 1
VOCABULARY = Vocabulary(TOKENS, [END], [END], name="letters")
SCHEMA = {"type": "array", "items": {"enum": ["a", "ab"]}, "minItems": 1, "maxItems": 2}
MEMBERS = {'["a"]', '["ab"]', '["a","a"]', '["a","ab"]', '["ab","a"]', '["ab","ab"]'}
PROMPT = ("--prompt", "x")
WORDS = {
    "speculative": ("--draft", "embedded-draft"),
    "mentored": ("--draft", "embedded-draft"),
    "cdlh": ("--reward", "regex:b"),
    "cdlh-approx": ("--reward", "regex:b"),
    "cdsl": ("--reward", "regex:b"),
}
"""What methods need beside an artifact."""


def uniform() -> TabularModel:
    return TabularModel(lambda prefix: [1 / len(TOKENS)] * len(TOKENS), VOCABULARY)


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "open_model", lambda options: uniform())
    monkeypatch.setattr(draft.Draft, "_load", lambda *arguments: uniform())


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    path = tmp_path / "list.arrow"
    compile_schema(json.dumps(SCHEMA), VOCABULARY, path, whitespace="compact")
    return path


def complete(result: Result) -> set[str]:
    """Return the texts that came to their end, all of them valid."""
    assert result.status == 0, result.stderr
    records = [record for record in result.records if record["finish_reason"] == "complete"]
    assert records and all(record["valid"] for record in records)
    return {record["text"] for record in records}


@pytest.mark.share(5)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_draws_its_texts(cdec: Runner, artifact: Path, method: str) -> None:
    words = ("sample", "-a", artifact, *PROMPT, "-n", 3, "--method", method)
    result = cdec(*words, *WORDS.get(method, ()), "--max-new-tokens", 30)
    assert result.status == 0, result.stderr
    if METHODS[method].masks:
        assert complete(result) <= MEMBERS
    else:
        assert {r["text"] in MEMBERS for r in result.records if r["valid"]} <= {True}


def test_and_and_deny_take_it_on_either_side(cdec: Runner, artifact: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.arrow"
    compile_token_set([[0, 6, 2], [0, 11, 2], [0, 8, 5, 6, 2]], VOCABULARY, texts)
    sample = ("sample", "--method", "topn", *PROMPT, "-n", 9)
    for words in (("-a", artifact, "--and", texts), ("-a", texts, "--and", artifact)):
        assert complete(cdec(*sample, *words)) == {'["a"]', '["ab","a"]'}
    Path("deny.txt").write_text('["a"]\n["ab","ab"]\n')
    denied = cdec(*sample, "-a", artifact, "--deny", "deny.txt")
    assert complete(denied) == MEMBERS - {'["a"]', '["ab","ab"]'}
    other = tmp_path / "other.arrow"
    schema = json.dumps({"items": {"const": "ab"}, "type": "array"})
    compile_schema(schema, VOCABULARY, other, whitespace="compact")
    both = cdec(*sample, "-a", artifact, "--and", other)
    assert complete(both) == {'["ab"]', '["ab","ab"]'}


def test_mass_score_and_retokenize_know_its_texts(
    cdec: Runner, artifact: Path, tmp_path: Path
) -> None:
    (mass,) = cdec("mass", "-a", artifact, *PROMPT).records
    assert 0 < mass["mass_lower"] <= mass["mass_upper"] < 0.01
    texts = ('["a"]', '["x"]')
    ids = ([0, 6, 2], [0, 11, 2])
    lines = b"".join(json.dumps({"prompt": "x", "token_ids": row}).encode() + b"\n" for row in ids)
    scored = cdec("score", "-a", artifact, "-i", "-", stdin=lines).records
    assert [record["member"] for record in scored] == [True, False]
    assert [record["text"] for record in scored] == list(texts)


def test_check_says_where_a_text_leaves_it(cdec: Runner, artifact: Path) -> None:
    lines = b'["ab","x"]\n["a"]\n[]\n'
    wrong, right, short = cdec("check", artifact, "--format", "text", stdin=lines).records
    assert right == {"text": '["a"]', "valid": True}
    assert (wrong["byte"], wrong["allowed"]) == (7, ["a", "ab"])
    assert (wrong["json_path"], wrong["schema_path"]) == ("/1", ["/items"])
    assert (short["valid"], short["byte"], short["json_path"]) == (False, 1, "")


def test_a_prompt_cut_in_a_word_is_healed(cdec: Runner, artifact: Path) -> None:
    result = cdec("sample", "-a", artifact, *PROMPT, "--prefill", '["a', "--method", "greedy")
    assert complete(result) <= {text for text in MEMBERS if text.startswith('["a')}


def test_options_of_terminals_are_refused(cdec: Runner, artifact: Path) -> None:
    refused = cdec("sample", "-a", artifact, *PROMPT, "--lookahead", 1)
    assert refused.status == 2 and "--lookahead" in refused.stderr
    refused = cdec("check", artifact, "--explain", stdin=b"[]\n")
    assert refused.status == 2 and "--explain means nothing to a schema" in refused.stderr
    assert cdec("inspect", artifact, "--tree").status == 2

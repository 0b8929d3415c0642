"""What a mismatch of tokenizers says: the command that compiles the artifact again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from cdec.core.kinds import SOURCE_KINDS

from .conftest import Runner

CHARACTERS = sorted(set("Oslo Rome<>[],ab"))


@pytest.fixture
def foreign() -> str:
    """A tokenizer of single characters, which no shipped model has."""
    model = {
        "type": "BPE",
        "vocab": {character: number for number, character in enumerate(CHARACTERS)},
        "merges": [],
    }
    end = {"id": len(CHARACTERS), "content": "</s>", "special": True, "normalized": False}
    end |= {"single_word": False, "lstrip": False, "rstrip": False}
    spec = {"version": "1.0", "added_tokens": [end], "model": model}
    Path("tokenizer.json").write_text(json.dumps(spec))
    return "tokenizer.json"


def test_every_kind_has_its_command() -> None:
    assert [name for name, places in SOURCE_KINDS.items() if not places.command] == []


def again(cdec: Runner, artifact: str) -> str:
    """Return the command that a draw names where the artifact is of another tokenizer."""
    result = cdec("sample", "-a", artifact, "--prompt", "x", "--method", "greedy")
    assert (result.status, result.error_code) == (65, "E_TOKENIZER_MISMATCH")
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    return hint.removeprefix("hint: compile it again: ")


def test_the_command_compiles_a_set_as_it_was(cdec: Runner, foreign: str) -> None:
    Path("my towns.txt").write_text("Oslo\nRome\n")
    words = ("--suffix", ">", "--leading-space", "never", "-o", "t.arrow")
    assert cdec("compile-set", "my towns.txt", "--tokenizer", foreign, *words).status == 0
    command = shlex.split(again(cdec, "t.arrow"))
    assert command[:3] == ["cdec", "compile-set", "my towns.txt"]
    assert cdec(*command[1:]).status == 0
    (described,) = cdec("inspect", "t.arrow", "--json").records
    assert described["options"]["suffix"] == ">"
    assert described["options"]["leading_space"] == "never"
    (record,) = cdec("sample", "-a", "t.arrow", "--prompt", "x", "--method", "greedy").records
    assert record["text"] in ("Oslo", "Rome")


def test_the_command_compiles_a_grammar_from_the_text_within(cdec: Runner, foreign: str) -> None:
    Path("ab.gbnf").write_text('root ::= "a" | "b"\n')
    assert cdec("compile-grammar", "ab.gbnf", "--tokenizer", foreign).status == 0
    assert again(cdec, "ab.arrow").startswith("cdec compile-grammar ab.gbnf --start root")
    Path("ab.gbnf").unlink()
    shown, text, compiled = again(cdec, "ab.arrow").split(" | ")
    assert (shown, text) == ("cdec inspect ab.arrow --json", "jq -r .grammar")
    (described,) = cdec(*shlex.split(shown)[1:]).records
    assert cdec(*shlex.split(compiled)[1:], stdin=described["grammar"].encode()).status == 0
    words = ("sample", "-a", "ab.arrow", "--prompt", "x", "--method", "greedy")
    assert cdec(*words).records[0]["text"] in ("a", "b")

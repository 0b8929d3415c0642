"""Prompts as they are typed: chat form of bare questions, files, newlines spelled out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdec.data.assets import embedded_model_path
from tests.cli.conftest import Runner
from tests.laws.rounding import near

ASKED = "What is the capital of Italy?"
FORMED = f"Question: {ASKED}\nAnswer:"
GREEDY = ("--method", "greedy", "--fields", "text,logprob")


def manifest_of(path: Path) -> dict[str, object]:
    return json.loads(Path(f"{path}.manifest.json").read_text())["config"]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("command", ["sample", "mass", "score"])
def test_a_bare_question_is_asked_as_in_the_training(
    cdec: Runner, cities: Path, command: str
) -> None:
    bare, formed = (
        cdec(
            command,
            "-a",
            cities,
            stdin=json.dumps({"id": 1, "prompt": text, "text": "Rome"}).encode(),
        )
        for text in (ASKED, FORMED)
    )
    assert bare.status == formed.status == 0
    (one,), (other,) = bare.records, formed.records
    assert one == other
    if command != "mass":
        assert one["text"] == "Rome"


def test_raw_leaves_it_as_it_is_typed(cdec: Runner, cities: Path) -> None:
    lines = json.dumps({"id": 1, "prompt": ASKED}).encode() + b"\n"
    words = ("sample", "-a", cities, "--method", "greedy", "-o")
    forms = {"o.jsonl": (), "raw.jsonl": ("--raw",), "chat.jsonl": ("--chat",)}
    for name, more in forms.items():
        assert cdec(*words, name, *more, stdin=lines).status == 0
    found = {name: json.loads(Path(name).read_text()) for name in forms}
    assert found["o.jsonl"]["logprob"] == found["chat.jsonl"]["logprob"]
    assert found["raw.jsonl"]["logprob"] < found["o.jsonl"]["logprob"]
    said = [manifest_of(Path(name))["prompt_form"] for name in forms]
    assert said == ["questions", "text", "chat"]
    changed = cdec(*words, "raw.jsonl", "--resume", stdin=lines)
    assert changed.error_code == "E_RESUME_MISMATCH"
    assert "prompt_form" in changed.stderr
    both = cdec("sample", "-a", cities, "--prompt", ASKED, "--raw", "--chat")
    assert (both.status, both.error_code) == (2, "E_USAGE")


def test_chat_without_a_template_says_so(cdec: Runner, cities: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(embedded_model_path(), folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    words = ("sample", "-a", cities, "-m", folder, "--prompt", ASKED)
    refused = cdec(*words, "--chat")
    assert (refused.status, refused.error_code) == (2, "E_NO_CHAT_TEMPLATE")
    assert "--chat puts prompts into the chat template, and the tokenizer has none" in (
        refused.stderr
    )
    assert cdec(*words).status == 0


@pytest.mark.usefixtures("loaded")
def test_a_file_is_one_prompt(cdec: Runner, cities: Path, embedded_model: Any) -> None:
    Path("one.txt").write_bytes(b"\xef\xbb\xbf" + FORMED.encode() + b"\n")
    words = ("sample", "-a", cities, *GREEDY)
    (typed,) = cdec(*words, "--prompt", FORMED).records
    assert cdec(*words, "--prompt-file", "one.txt").records == [typed]
    several = ("--prompt", FORMED, "--prompt-file", "one.txt", "--prompt-file", "-")
    together = cdec(*words, *several, stdin=FORMED.encode()).records
    # A batch of three may round otherwise than one of one, on some processors.
    assert [record["text"] for record in together] == [typed["text"]] * 3
    events = 1 + len(embedded_model.vocabulary.encode([typed["text"]])[0])
    logs = [record["logprob"] for record in together]
    assert logs == near([typed["logprob"]] * 3, events)
    score = ("score", "-a", cities, "-i", "texts.txt", "--fields", "logprob")
    Path("texts.txt").write_bytes(b"Rome\n")
    assert cdec(*score, "--prompt-file", "one.txt").records == (
        cdec(*score, "--prompt", FORMED).records
    )


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("--prompt-file", "none.txt"), 66, "E_NOINPUT"),
        (("--prompt-file", "latin.txt"), 65, "E_ENCODING"),
        (("--prompt-file", "long.txt", "--max-line-bytes", "9"), 75, "E_LIMIT"),
        (("--prompt-file", "long.txt", "-i", "long.txt"), 2, "E_USAGE"),
        (("--prompt-file", "-", "--prompt-file", "-"), 2, "E_USAGE"),
    ],
)
def test_a_file_that_is_no_prompt_is_refused(
    cdec: Runner, letters: Path, words: tuple[str, ...], status: int, code: str
) -> None:
    Path("latin.txt").write_bytes(b"caf\xe9")
    Path("long.txt").write_bytes(b"0123456789")
    result = cdec("sample", "-a", letters, *words)
    assert (result.status, result.error_code) == (status, code)


def test_score_takes_its_prompt_from_one_place(cdec: Runner, letters: Path) -> None:
    Path("p.txt").write_bytes(b"x")
    words = ("score", "-a", letters, "--prompt-file")
    for more in (("p.txt", "--prompt", "x"), ("p.txt", "--prompts", "p.txt"), ("-",)):
        assert cdec(*words, *more).error_code == "E_USAGE"


def test_newlines_stay_and_spelled_ones_are_warned_of(cdec: Runner, letters: Path) -> None:
    for command in ("sample", "mass", "score"):
        words = (command, "-a", letters, "--prompt")
        spelled = cdec(*words, r"a\nb", stdin=b"a\n")
        assert "warning W_SPELLED_NEWLINE: --prompt holds a backslash" in spelled.stderr
        for fine in ("a\nb", "a\n\\n", "a"):
            assert "W_SPELLED" not in cdec(*words, fine, stdin=b"a\n").stderr

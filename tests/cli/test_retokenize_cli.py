"""cdec retokenize end to end: lines and records in, spellings with perplexities out."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.laws.rounding import near

from .conftest import Runner

pytestmark = pytest.mark.usefixtures("loaded")

KEYS = [
    "text",
    "token_ids",
    "tokens",
    "logprob",
    "perplexity",
    "canonical_token_ids",
    "canonical_logprob",
    "canonical_perplexity",
]
TEXTS = ["The capital of France is Paris.", '{"name": "Ada", "age": 36}', "  two  spaces\t"]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
PROMPT = ("--prompt", "Question: ")


def test_texts_are_spelt_in_the_tokens_the_model_prefers(cdec: Runner, embedded_model: Any) -> None:
    result = cdec("retokenize", *PROMPT, stdin=LINES)
    assert (result.status, result.stderr) == (0, "")
    assert [record["text"] for record in result.records] == TEXTS
    vocabulary = embedded_model.vocabulary
    for record in result.records:
        assert list(record) == KEYS
        assert vocabulary.decode(record["token_ids"]).decode() == record["text"]
        assert "".join(record["tokens"]) == record["text"]
        assert record["canonical_token_ids"] == vocabulary.encode([record["text"]])[0]
        n = len(record["token_ids"])
        assert record["perplexity"] == pytest.approx(math.exp(-record["logprob"] / n))
        _follows_the_model(record, embedded_model)


def _follows_the_model(record: dict[str, Any], model: Any) -> None:
    """Each token is the most probable prefix of the rest; and the sum is the log probability."""
    vocabulary = model.vocabulary
    root = model.prefill(["Question: "])
    context, left, total = root, record["text"].encode(), 0.0
    for token in record["token_ids"]:
        row = model.next_logprobs(context)[0].double().numpy()
        fitting = [
            t for t, text in enumerate(vocabulary.token_bytes) if text and left.startswith(text)
        ]
        assert row[token] == near(float(max(row[fitting])), 1)
        total += row[token]
        left = left.removeprefix(vocabulary.token_bytes[token])
        context = model.advance(context, [token])
    assert total == near(record["logprob"], len(record["token_ids"]))
    model.release(root)


def test_records_bring_ids_and_prompts(cdec: Runner) -> None:
    lines = (
        json.dumps({"id": 7, "title": TEXTS[0], "prompt": "Answer: "}) + "\n" + TEXTS[0] + "\n"
    ).encode()
    first, second = cdec("retokenize", *PROMPT, "--field", "title", stdin=lines).records
    assert list(first) == ["id", *KEYS]
    assert first["id"] == 7
    (alone,) = cdec("retokenize", "--prompt", "Answer: ", stdin=TEXTS[0].encode()).records
    assert first["logprob"] == near(alone["logprob"], len(alone["token_ids"]))
    assert first["logprob"] != pytest.approx(second["logprob"], abs=1e-2)


def test_the_end_is_an_event_where_it_is_asked_for(cdec: Runner) -> None:
    (plain,) = cdec("retokenize", *PROMPT, stdin=TEXTS[0].encode()).records
    (ended,) = cdec("retokenize", *PROMPT, "--end", stdin=TEXTS[0].encode()).records
    assert ended["token_ids"] == plain["token_ids"]
    assert ended["logprob"] < plain["logprob"]
    n = len(ended["token_ids"]) + 1
    assert ended["perplexity"] == pytest.approx(math.exp(-ended["logprob"] / n))


def test_the_batch_size_changes_no_spelling(cdec: Runner, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(LINES)
    together = cdec("retokenize", *PROMPT, "-i", path).records
    alone = cdec("retokenize", *PROMPT, "-i", path, "--batch-size", "1").records
    assert [r["token_ids"] for r in together] == [r["token_ids"] for r in alone]
    for a, b in zip(together, alone, strict=True):
        assert a["logprob"] == near(b["logprob"], len(b["token_ids"]))


def test_bad_records_become_errors_in_their_place(cdec: Runner) -> None:
    lines = b'ok\n\xff\xfe\xfd\n{"title": 1}\n{"id": "x", "text": 3}\n{"text": "fine"}\n{"text": '
    result = cdec("retokenize", *PROMPT, stdin=lines)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_ENCODING", "E_FIELD", "E_FIELD", None, "E_JSON"]
    assert [record.get("id") for record in result.records] == [
        None,
        "line 2",
        "line 3",
        "x",
        None,
        "line 6",
    ]
    strict = cdec("retokenize", *PROMPT, "--strict", stdin=lines)
    assert (strict.status, strict.error_code) == (65, "E_ENCODING")


def test_overlong_lines_are_errors_in_their_place(cdec: Runner) -> None:
    result = cdec("retokenize", *PROMPT, "--max-line-bytes", "10", stdin=b"x" * 11 + b"\nshort\n")
    assert result.status == 3
    assert result.records[0]["error"]["code"] == "E_LINE_TOO_LONG"
    assert result.records[1]["text"] == "short"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_example_of_the_help_gives_one_record(cdec: Runner) -> None:
    shown = cdec("retokenize", "--help").stdout.decode()
    line = next(line for line in shown.splitlines() if "| jq" in line and "echo" in line)
    made, options = line.split("| cdec retokenize")
    lines = subprocess.run(["sh", "-c", made], capture_output=True, check=True).stdout
    result = cdec("retokenize", *shlex.split(options), stdin=lines)
    assert [record["text"] for record in result.records] == ['{"name": "Ada"}']


def test_a_text_beyond_the_context_is_an_error(cdec: Runner) -> None:
    result = cdec("retokenize", *PROMPT, stdin=b"0 1 " * 3000)
    assert result.records[0]["error"]["code"] == "E_CONTEXT_LENGTH"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("-i", "none.txt"), 66),
        (("--batch-size", "0"), 2),
        (("--batch-size", str(2**64)), 2),
        (("--max-line-bytes", "0"), 2),
    ],
)
def test_bad_options_are_refused(cdec: Runner, words: tuple[str, ...], status: int) -> None:
    assert cdec("retokenize", *words).status == status

"""The line at the end of a run, the warning of texts that were cut, and --require-complete."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cdec.cli.runs import models
from cdec.cli.runs.tally import Tally
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample

from . import light
from .conftest import Runner


def _jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _sample(finish_reason: str, valid: bool | None = True) -> Sample:
    numbers = (None, None, None)
    return Sample(1, 0, "x", [1], *numbers, finish_reason, valid, "masked", "biased", 0)


def _tally(records: int, errors: int, *samples: Sample) -> Tally:
    tally = Tally(records, errors)
    for sample in samples:
        tally.count(sample)
    return tally


def test_a_summary_names_what_there_is_and_no_zeros() -> None:
    complete, cut = _sample("complete"), _sample("length", valid=False)
    assert _tally(1, 0, complete).line(0.31, 7) == "1 record: 1 valid; 0.3 s, 7 model calls"
    many = _tally(1203, 2, *[complete] * 2400, cut, _sample("dead_end", valid=False))
    assert many.line(307, 120_332) == (
        "1,203 records, 2,402 samples: 2,400 valid, 1 cut by length, 1 at a dead end, 2 errors; "
        "5 min 07 s, 120,332 model calls"
    )
    assert _tally(2, 2).line(1, None) == "2 records: 2 errors; 1.0 s"
    assert _tally(0, 0).line(0, 0) == "0 records; 0.0 s, 0 model calls"
    free = _tally(1, 0, _sample("length", valid=None), _sample("budget", valid=None))
    assert free.line(1, 1) == (
        "1 record, 2 samples: 1 cut by length, 1 past the budget; 1.0 s, 1 model call"
    )


def test_cut_texts_are_one_warning_with_what_to_do() -> None:
    cut = _sample("length")
    (notice,) = _tally(3, 0, cut, cut, cut).notices(required=False)
    assert notice.code == "W_CUT"
    assert notice.message.startswith("3 of 3 samples were cut at `max_new_tokens`")
    assert list(_tally(1, 0, _sample("complete")).notices(required=True)) == []
    assert list(_tally(1, 0, _sample("length", valid=None)).notices(required=False)) == []
    (notice,) = _tally(1, 0, _sample("budget")).notices(required=True)
    assert notice.code == "W_INCOMPLETE"


def test_texts_cut_in_white_space_are_told_the_option_that_helps() -> None:
    blank = replace(_sample("length", valid=False), text='{"a":' + " " * 40)
    (notice,) = _tally(3, 0, blank, blank, _sample("length")).notices(required=False)
    assert "2 of them are white space for the most part" in notice.message
    assert "`whitespace` usual" in notice.message and "`max_whitespace`" in notice.message
    assert notice.details["blank"] == 2
    (notice,) = _tally(1, 0, blank).notices(required=False)
    assert "they are white space" in notice.message and "raise" not in notice.message


def test_every_run_ends_with_its_summary(cdec: Runner, letters: Path) -> None:
    prompts = _jsonl({"prompt": "p", "n": 2}, {"prompt": "q"}, {"prompt": 5})
    drawn = cdec("sample", "-a", letters, stdin=prompts)
    assert drawn.status == 3
    assert re.fullmatch(
        r"3 records, 3 samples: 3 valid, 1 error; .* s, \d+ model calls", drawn.summary
    )
    texts = _jsonl({"text": "a"}, {"text": "zzz"})
    checked = cdec("check", letters, "--field", "text", "--format", "jsonl", stdin=texts)
    assert re.fullmatch(r"2 records: 1 valid; .* s", checked.summary)
    measured = cdec("mass", "-a", letters, stdin=prompts)
    assert re.fullmatch(r"3 records: 1 error; .* s, \d+ model calls", measured.summary)
    scored = cdec("score", "-a", letters, "--prompt", "p", stdin=_jsonl({"token_ids": [0]}))
    assert re.fullmatch(r"1 record: 1 valid; .* s, \d+ model calls?", scored.summary)
    quiet = cdec("sample", "-a", letters, "--quiet", stdin=prompts)
    assert (quiet.summary, quiet.stdout) == ("", drawn.stdout)


@pytest.fixture
def short(letters: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set, and a model whose texts are longer than a limit of one token."""

    def longer(prefix: tuple[int, ...]) -> list[float]:
        return [0.0, 0.0, 1.0, 0.0] if not prefix else [0.25] * 4

    def model(options: object) -> TabularModel:
        return TabularModel(longer, light.vocabulary())

    monkeypatch.setattr(models, "open_model", model)
    return letters


@pytest.mark.usefixtures("short")
def test_cut_samples_are_written_and_fail_where_they_were_to_be_complete(
    cdec: Runner, letters: Path
) -> None:
    words = ("sample", "-a", letters, "--method", "masked", "-n", "3", "--prompt", "p")
    cut = cdec(*words, "--max-new-tokens", "1")
    assert cut.status == 0
    assert "warning W_CUT: 3 of 3 samples were cut at --max-new-tokens" in cut.stderr
    assert "raise --max-new-tokens" in cut.stderr
    assert "3 cut by length" in cut.summary
    strict = cdec(*words, "--max-new-tokens", "1", "--require-complete")
    assert (strict.status, strict.stdout) == (3, cut.stdout)
    assert "warning W_INCOMPLETE: 3 of 3 samples" in strict.stderr
    assert "--require-complete" in strict.stderr
    whole = cdec(*words, "--require-complete")
    assert (whole.status, whole.stderr) == (0, "")

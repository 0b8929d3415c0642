"""Traces of runs, and the summary that ends them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import models
from cdec.cli.runs.tally import Spent, Tally
from cdec.cli.trace import level
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from tests.cli import light
from tests.cli.conftest import Runner, jsonl
from tests.laws.rounding import near

# --- ``--trace`` and ``cdec trace``: the file, the table, the page, and what they refuse.

LINE: dict[str, Any] = {
    "id": "a",
    "index": 0,
    "position": 0,
    "event": "token",
    "token_id": 1,
    "text": "x",
    "logprob": -1.0,
    "choice": {"token_id": 2, "text": "y", "logprob": -0.5},
    "log_z": -2.5,
    "taken": 0.9,
    "struck": [{"token_id": 2, "text": "y", "logprob": -0.5}],
    "alternatives": [{"token_id": None, "text": "", "logprob": None}],
    "forced": False,
    "seconds": 0.25,
}


def sampled(cdec: Runner, letters: Path, *more: object) -> Any:
    words = ("sample", "-a", letters, "--method", "masked", "-n", 3)
    return cdec(*words, "--prompt", "p", "--prompt", "q", "--trace", "t.jsonl", *more)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_trace_of_a_run_adds_up_to_its_records(cdec: Runner, letters: Path) -> None:
    result = sampled(cdec, letters)
    assert result.status == 0
    lines = lines_of(Path("t.jsonl"))
    for record in result.records:
        mine = [x for x in lines if (x["id"], x["index"]) == (record["id"], record["index"])]
        assert [x["position"] for x in mine] == list(range(len(record["token_ids"]) + 1))
        assert [x["token_id"] for x in mine] == [*record["token_ids"], None]
        assert sum(x["log_z"] for x in mine) == pytest.approx(record["log_candidate_weight"])
    summaries = cdec("trace", "t.jsonl", "--json").records
    weights = [record["log_candidate_weight"] for record in result.records]
    assert [found["log_z_sum"] for found in summaries] == pytest.approx(weights)
    plain = cdec("sample", "-a", letters, "--method", "masked", "-n", 3, *("--prompt", "p"))
    assert result.stdout.startswith(plain.stdout), "looking on changes no record"


def test_the_embedded_model_is_traced_exactly(cdec: Runner, cities: Path, loaded: None) -> None:
    words = ("sample", "-a", cities, "--method", "masked", "-n", 4, "--prompt", "The city of")
    result = cdec(*words, "--trace", "t.jsonl")
    assert result.status == 0, result.stderr
    sums = [found["log_z_sum"] for found in cdec("trace", "t.jsonl", "--json").records]
    weights = [record["log_candidate_weight"] for record in result.records]
    events = max(len(record["token_ids"]) for record in result.records) + 1
    assert sums == near(weights, events)
    for line in lines_of(Path("t.jsonl")):
        assert line["taken"] == pytest.approx(-math.expm1(line["log_z"]), abs=1e-6)


def test_a_trace_is_replaced_by_force_alone_and_stands_in_no_other_place(
    cdec: Runner, letters: Path
) -> None:
    assert sampled(cdec, letters).status == 0
    assert sampled(cdec, letters).status == 73
    assert sampled(cdec, letters, "--force").status == 0
    assert sampled(cdec, letters, "-o", "t.jsonl", "--force").status == 2
    assert sampled(cdec, letters, "-o", "o.jsonl", "--resume").status == 2
    for name in ("-", "t.parquet"):
        words = ("sample", "-a", letters, "--prompt", "p", "--trace", name)
        assert cdec(*words).status == 2


def test_the_table_writes_no_control_codes(cdec: Runner) -> None:
    evil = {**LINE, "text": "\x1b[31m[red]\n", "choice": {**LINE["choice"], "text": "\x07"}}
    Path("t.jsonl").write_text(json.dumps(evil) + "\n")
    result = cdec("trace", "t.jsonl")
    assert result.status == 0, result.stderr
    assert b"\x1b" not in result.stdout and b"\x07" not in result.stdout
    assert rb'"\x1b[31m[red]\x0a"' in result.stdout
    assert b"0.0821" in result.stdout, "Z as a probability"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone_and_holds_no_script(cdec: Runner) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=y>&amp;'
    line = {**LINE, "id": evil, "prompt": evil, "method": evil}
    line |= {"text": evil, "struck": [{**LINE["choice"], "text": evil}]}
    Path("t.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(LINE) + "\n")
    assert cdec("trace", "t.jsonl", "--html", "t.html").status == 0
    page = _Tags()
    page.feed(Path("t.html").read_text())
    known = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "span"}
    assert set(page.tags) <= known
    names = {name for name, _ in page.attributes}
    assert names <= {"lang", "charset", "http-equiv", "name", "content", "class", "tabindex"}
    assert page.text.count(evil) == 6, "id, method, prompt and tokens are there, as text"
    assert f'struck out: "{evil}"' in page.text
    assert "z3" in Path("t.html").read_text(), "log Z of -2.5 is a Z between 0.01 and 0.1"
    assert cdec("trace", "t.jsonl", "--html", "t.html").status == 73
    assert cdec("trace", "t.jsonl", "--html", "t.html", "--force").status == 0


def test_colours_follow_z() -> None:
    assert [level(x) for x in (0.0, -0.5, -1.0, -3.0, -5.0, -9.0, None)] == [0, 1, 2, 3, 4, 5, 5]


WARNINGS: list[dict[str, Any]] = [
    {"code": "W_LOW_Z", "token": 0, "byte": 0, "log_z": -9.0},
    {"code": "W_WHITESPACE", "token": 3, "byte": 7, "bytes": 130},
    {"code": "W_CYCLE", "token": 4, "byte": 9, "bytes": 200, "period": 50},
    {"code": "W_BUDGET", "token": 0, "byte": 0, "needed": 12_345, "max_draws": 1000},
]


def test_warnings_stand_in_the_table_the_page_and_the_sums(cdec: Runner) -> None:
    Path("t.jsonl").write_text(json.dumps({**LINE, "warnings": WARNINGS}) + "\n")
    table = cdec("trace", "t.jsonl").stdout.decode()
    words = [line for line in table.splitlines() if line.startswith("warning: ")]
    assert words == [
        "warning: Z is 0.00012 at token 0, byte 0: the model fought the constraint",
        "warning: 130 bytes of white space at token 3, byte 7: --whitespace usual or compact of a "
        "schema, --max-whitespace of a grammar allow less",
        "warning: the same 50 bytes again and again for 200 bytes at token 4, byte 9",
        "warning: no draw was accepted within --max-draws 1,000, and a sample needs about 12,000: "
        "disc, or smc with weights, costs less",
    ]
    assert cdec("trace", "t.jsonl", "--json").records[0]["warnings"] == WARNINGS
    assert cdec("trace", "t.jsonl", "--html", "t.html").status == 0
    page = _Tags()
    page.feed(Path("t.html").read_text())
    assert all(page.text.count(line.removeprefix("warning: ")) == 2 for line in words)
    assert all(line in page.text for line in words), "with the token, too"
    assert ("class", "t z3 b") in page.attributes, "the token is marked"


def test_the_page_names_method_and_prompt(cdec: Runner, letters: Path) -> None:
    messages = [{"role": "user", "content": "Which <b>?"}, {"role": "user", "content": "x\ny"}]
    asked = json.dumps({"id": "m", "prompt": "A letter:\n<i>"})
    words = ("sample", "-a", letters, "--method", "masked", "-n", 2)
    assert cdec(*words, "--trace", "t.jsonl", stdin=asked.encode()).status == 0
    lines = lines_of(Path("t.jsonl"))
    named = [line for line in lines if "prompt" in line]
    assert [(line["position"], line["method"], line["prompt"]) for line in named] == [
        (0, "masked", "A letter:\n<i>")
    ] * 2
    Path("m.jsonl").write_text(json.dumps({**LINE, "method": "exact", "prompt": messages}) + "\n")
    for trace, said in (
        ("t.jsonl", ("masked, log P", "A letter:\n<i>")),
        ("m.jsonl", ("exact, log P", "user: Which <b>?\nuser: x\ny")),
    ):
        assert cdec("trace", trace, "--html", f"{trace}.html").status == 0
        page = _Tags()
        page.feed(Path(f"{trace}.html").read_text())
        assert all(text in page.text for text in said)


def test_the_page_can_be_read_without_a_mouse_and_on_a_narrow_screen(cdec: Runner) -> None:
    Path("t.jsonl").write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, "position": 1}) + "\n")
    assert cdec("trace", "t.jsonl", "--html", "t.html").status == 0
    page = _Tags()
    page.feed(Path("t.html").read_text())
    assert page.attributes.count(("tabindex", "0")) == 2, "each token is reached and tapped"
    assert ("content", "width=device-width, initial-scale=1") in page.attributes
    style = Path("t.html").read_text().split("<style>")[1].split("</style>")[0]
    assert ".t:focus > .o" in style and "padding: 0 1rem" in style
    assert "left: 1rem; right: 1rem;" in style, "what opens keeps margins, too"


def test_the_warnings_of_records_are_those_of_their_traces(cdec: Runner, letters: Path) -> None:
    result = sampled(cdec, letters)
    found = [each["warnings"] for each in cdec("trace", "t.jsonl", "--json").records]
    assert found == [record["warnings"] for record in result.records]


@pytest.mark.parametrize(
    "warning", [{"code": 1}, {"code": "W_LOW_Z"}, {**WARNINGS[2], "period": "x"}]
)
def test_a_warning_that_is_none_is_refused(cdec: Runner, warning: dict[str, Any]) -> None:
    Path("t.jsonl").write_text(json.dumps({**LINE, "warnings": [warning]}) + "\n")
    assert cdec("trace", "t.jsonl").status == 65


@pytest.mark.parametrize("broken", ["[]", "{}", json.dumps({**LINE, "struck": [1]}), "x"])
def test_what_is_no_trace_is_refused_with_its_line(cdec: Runner, broken: str) -> None:
    Path("t.jsonl").write_text(json.dumps(LINE) + "\n" + broken + "\n")
    result = cdec("trace", "t.jsonl", "--json")
    assert result.status == 65
    assert "line 2" in result.stderr


@pytest.mark.parametrize("words", [(), ("--json",), ("--html", "t.html")])
def test_an_empty_trace_is_told(cdec: Runner, words: tuple[str, ...]) -> None:
    Path("t.jsonl").write_bytes(b"")
    result = cdec("trace", "t.jsonl", *words)
    assert (result.status, result.stdout) == (0, b"")
    assert "W_NO_INPUT: t.jsonl holds no trace" in result.stderr


def test_json_and_html_exclude_each_other(cdec: Runner) -> None:
    Path("t.jsonl").write_text(json.dumps(LINE) + "\n")
    assert cdec("trace", "t.jsonl", "--json", "--html", "t.html").status == 2
    assert cdec("trace", "t.jsonl", "--force").status == 2


# --- The line at the end of a run, the warning of texts that were cut, and --require-complete.


def _sample(finish_reason: str, valid: bool | None = True) -> Sample:
    numbers = (None, None, None)
    return Sample(1, 0, "x", [1], *numbers, finish_reason, valid, "masked", "biased", 0)


def _tally(records: int, errors: int, *samples: Sample) -> Tally:
    tally = Tally(records, errors)
    for sample in samples:
        tally.count(sample)
    return tally


def _spent(wall: float, calls: int | None, **seconds: float) -> Spent:
    named = dict.fromkeys(("loading", "model", "masks", "sampling", "waiting"), 0.0)
    return Spent(wall, named | seconds, calls, 90)


def test_a_summary_names_what_there_is_and_no_zeros() -> None:
    complete, cut = _sample("complete"), _sample("length", valid=False)
    assert (
        _tally(1, 0, complete)
        .line(_spent(0.31, 7))
        .startswith("1 record: 1 valid; 0.3 s, 7 model calls; ")
    )
    many = _tally(1203, 2, *[complete] * 2400, cut, _sample("dead_end", valid=False))
    assert many.line(_spent(307, 120_332)).startswith(
        "1,203 records, 2,402 samples: 2,400 valid, 1 cut by length, 1 at a dead end, 2 errors; "
        "5 min 07 s, 120,332 model calls; "
    )
    assert _tally(2, 2).line(_spent(1, None)).startswith("2 records: 2 errors; 1.0 s; sampling")
    assert _tally(0, 0).line(_spent(0, 0)).startswith("0 records; 0.0 s, 0 model calls; ")
    free = _tally(1, 0, _sample("length", valid=None), _sample("budget", valid=None))
    assert free.line(_spent(1, 1)).startswith(
        "1 record, 2 samples: 1 cut by length, 1 past the budget; 1.0 s, 1 model call; "
    )


def test_a_summary_says_how_fast_the_run_was_and_where_its_time_went() -> None:
    spent = _spent(5, 7, loading=1, model=2, masks=0.4, sampling=0.4, waiting=1.2)
    drawn = _tally(1, 0, *[_sample("complete")] * 60)
    shares = "model 50%, masks 10%, sampling 10%, waiting 30%"
    assert drawn.line(spent).endswith(f"; 15 tokens/s, {shares}")
    # Where nothing is drawn, tokens are those that the model read.
    assert _tally(1, 0).line(spent).endswith(f"; 22 tokens/s, {shares}")
    # Without a model there are none, and no masks.
    assert _tally(1, 0).line(replace(spent, calls=None)).endswith("; sampling 25%, waiting 75%")
    nothing = "0.0 tokens/s, model 0%, masks 0%, sampling 0%, waiting 0%"
    assert _tally(0, 0).line(_spent(0, 0)).endswith(f"; {nothing}")
    told = json.loads(drawn.json_line(spent))
    assert told["tokens_per_second"] == 15 and told["tokens"] == 60 and told["calls"] == 7
    assert told["seconds"] == spent.seconds and told["wall"] == 5
    assert told["ends"] == {"complete": 60} and told["verdicts"] == {"valid": 60}


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
    prompts = jsonl({"prompt": "p", "n": 2}, {"prompt": "q"}, {"prompt": 5})
    took = r".* s, \d+ model calls?; [\d.,]+ tokens/s, model \d+%, masks \d+%"
    drawn = cdec("sample", "-a", letters, stdin=prompts)
    assert drawn.status == 3
    assert re.fullmatch(
        rf"3 records, 3 samples: 3 valid, 1 error; {took}, sampling \d+%, waiting \d+%",
        drawn.summary,
    )
    texts = jsonl({"text": "a"}, {"text": "zzz"})
    checked = cdec("check", letters, "--field", "text", "--format", "jsonl", stdin=texts)
    assert re.fullmatch(r"2 records: 1 valid; .* s; checking \d+%, waiting \d+%", checked.summary)
    measured = cdec("mass", "-a", letters, stdin=prompts)
    assert re.fullmatch(
        rf"3 records: 1 error; {took}, measuring \d+%, waiting \d+%", measured.summary
    )
    scored = cdec("score", "-a", letters, "--prompt", "p", stdin=jsonl({"token_ids": [0]}))
    assert re.fullmatch(rf"1 record: 1 valid; {took}, scoring \d+%, waiting \d+%", scored.summary)
    nothing = cdec("sample", "-a", letters)
    assert re.fullmatch(rf"0 records; {took}, sampling \d+%, waiting \d+%", nothing.summary)
    quiet = cdec("sample", "-a", letters, "--quiet", stdin=prompts)
    assert (quiet.summary, quiet.stdout) == ("", drawn.stdout)


@pytest.mark.parametrize(
    ("words", "stdin", "work"),
    [
        (("sample", "-a"), b"p\nq\n", "sampling"),
        (("score", "--prompt", "p", "-a"), b"a\n", "scoring"),
        (("classify", "-a"), b"p\n", "classifying"),
        (("mass", "-a"), b"p\n", "measuring"),
        (("check",), b"a\nzzz\n", "checking"),
    ],
)
def test_a_summary_is_an_object_where_that_is_asked_for(
    cdec: Runner, letters: Path, words: tuple[str, ...], stdin: bytes, work: str
) -> None:
    result = cdec(*words, letters, "--json", stdin=stdin)
    summary = json.loads(result.summary)
    assert summary["records"] == stdin.count(b"\n")
    seconds = summary["seconds"]
    assert list(seconds) == ["loading", "model", "masks", work, "waiting"]
    assert min(seconds.values()) >= 0 and seconds["loading"] > 0 and seconds["waiting"] > 0
    assert sum(seconds.values()) == pytest.approx(summary["wall"])
    has_model = work != "checking"
    assert (seconds["model"] > 0) == (summary["tokens_per_second"] > 0) == has_model
    assert result.stdout == cdec(*words, letters, stdin=stdin).stdout


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

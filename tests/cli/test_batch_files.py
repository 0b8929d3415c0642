"""``cdec sample --openai-batch``: batch files in, responses out, in order, within limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Result, Runner

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


def request(name: str, url: str = CHAT, **body: Any) -> dict[str, Any]:
    needed: dict[str, Any] = {"messages": MESSAGES} if url == CHAT else {"prompt": "Where?"}
    return {"custom_id": name, "method": "POST", "url": url, "body": needed | body}


def jsonl(*lines: dict[str, Any] | bytes) -> bytes:
    return b"".join(
        (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in lines
    )


def texts(result: Result) -> dict[str, set[str]]:
    """Return the texts of each request that was answered."""
    return {
        line["custom_id"]: {
            choice["message"]["content"] if "message" in choice else choice["text"]
            for choice in line["response"]["body"]["choices"]
        }
        for line in result.records
        if line["error"] is None
    }


def codes(result: Result) -> dict[str | None, str]:
    """Return the code of each request that was refused."""
    return {each["custom_id"]: each["error"]["code"] for each in result.records if each["error"]}


BATCH = ("sample", "--openai-batch", "--method", "masked")


def test_lines_are_answered_in_their_order_and_samples_are_those_of_records(
    cdec: Runner, letters: Path
) -> None:
    lines = [request("a", n=3), b"oops", request("b", TEXT, n=2), request("a"), request("c")]
    result = cdec(*BATCH, "-a", letters, "--seed", "4", stdin=jsonl(*lines))
    assert result.status == 3
    assert [line["custom_id"] for line in result.records] == ["a", None, "b", "a", "c"]
    assert codes(result) == {None: "E_JSON", "a": "E_DUPLICATE_ID"}
    assert result.summary.startswith("5 records, 6 samples")
    records = [
        {"id": "a", "messages": MESSAGES, "n": 3},
        {"id": "b", "prompt": "Where?", "n": 2},
        {"id": "c", "messages": MESSAGES},
    ]
    plain = cdec(
        "sample", "--method", "masked", "-a", letters, "--seed", "4", stdin=jsonl(*records)
    )
    found = [
        choice
        for line in result.records
        if line["error"] is None
        for choice in line["response"]["body"]["choices"]
    ]
    for choice, sample in zip(found, plain.records, strict=True):
        assert choice["index"] == sample["index"]
        assert choice["cdec"]["seed"] == sample["seed"]
        assert choice["cdec"]["token_ids"] == sample["token_ids"]


def test_a_run_that_was_cut_is_resumed_request_by_request(cdec: Runner, letters: Path) -> None:
    lines = [request(f"q{i}", n=2) for i in range(4)]
    lines[2:2] = [request("q0"), {"custom_id": "bad"}]
    Path("in.jsonl").write_bytes(jsonl(*lines, b"{}", b"{}"))
    words = (*BATCH, "-a", letters, "-i", "in.jsonl", "-o", "out.jsonl", "--fields", "logprob")
    assert cdec(*words).status == 3
    out = Path("out.jsonl")
    whole = out.read_bytes().splitlines(keepends=True)
    assert len(whole) == 8
    assert len({json.loads(line)["id"] for line in whole}) == 8

    def without_time(data: bytes) -> list[Any]:
        found = [json.loads(line) for line in data.splitlines()]
        for line in found:
            line["response"]["body"].pop("created", None)
        return found

    for kept in (0, 1, 3, 5, 8):
        cut = b"".join(whole[:kept])
        out.write_bytes(cut + (whole[kept][:40] if kept < 8 else b""))
        result = cdec(*words, "--resume")
        assert result.status == 3
        assert out.read_bytes().startswith(cut)
        assert without_time(out.read_bytes()) == without_time(b"".join(whole))
    mixed = cdec(*(word for word in words if word != "--openai-batch"), "--resume")
    assert mixed.error_code in ("E_RESUME_MISMATCH", "E_USAGE")


def test_options_stand_in_for_what_requests_leave_open(cdec: Runner, letters: Path) -> None:
    words = (*BATCH, "-a", letters, "-n", "3", "--max-new-tokens", "1", "--served-name", "tiny")
    lines = [request("a", model="tiny"), request("b", n=1, max_tokens=3), request("c", model="x")]
    result = cdec(*words, stdin=jsonl(*lines))
    one, two, three = result.records
    body = one["response"]["body"]
    assert (len(body["choices"]), body["model"]) == (3, "tiny")
    assert {choice["finish_reason"] for choice in body["choices"]} <= {"stop", "length"}
    assert len(two["response"]["body"]["choices"]) == 1
    assert (three["error"]["code"], three["error"]["field"]) == ("E_FIELD", "model")
    assert "--served-name" in three["error"]["hint"]
    limited = cdec(*BATCH, "-a", letters, "--max-n", "2", stdin=jsonl(request("a", n=3)))
    assert codes(limited) == {"a": "E_LIMIT"}


def test_a_temperature_of_0_is_greedy_whatever_the_method(cdec: Runner, letters: Path) -> None:
    data = jsonl(request("a", temperature=0))
    zero = cdec(*BATCH, "-a", letters, stdin=data)
    result = cdec("sample", "--openai-batch", "--method", "greedy", "-a", letters, stdin=data)
    assert (zero.status, result.status, len(texts(result))) == (0, 0, 1)
    assert texts(zero) == texts(result)


@pytest.mark.parametrize(
    "words",
    [
        ["--prompt", "a"],
        ["--input-format", "csv"],
        ["--template", "t.txt"],
        ["--strict-fields"],
        ["-o", "out.parquet"],
        ["--engine", "ray", "-o", "out"],
        ["--allow", "python"],
    ],
)
def test_options_that_mean_nothing_to_batch_files_are_refused(
    cdec: Runner, letters: Path, words: list[str]
) -> None:
    Path("t.txt").write_text("{prompt}")
    result = cdec(*BATCH, "-a", letters, *words, stdin=jsonl(request("a")))
    assert (result.status, result.stdout) == (2, b"")


def test_a_trace_holds_the_texts_of_requests_too(cdec: Runner, letters: Path) -> None:
    data = jsonl(request("a", n=2), request("b", logprobs=True))
    result = cdec(*BATCH, "-a", letters, "--trace", "t.jsonl", stdin=data)
    assert result.status == 0
    lines = [json.loads(line) for line in Path("t.jsonl").read_text().splitlines()]
    assert {(line["id"], line["index"]) for line in lines} == {("a", 0), ("a", 1), ("b", 0)}
    chosen = [choice["logprobs"] for line in result.records for choice in _choices(line)]
    assert [each is None for each in chosen] == [True, True, False]


def _choices(line: dict[str, Any]) -> list[Any]:
    choices: list[Any] = line["response"]["body"]["choices"]
    return choices


def test_settings_may_stand_in_the_folder(cdec: Runner, letters: Path) -> None:
    Path("cdec.toml").write_text(
        f'[sample]\nopenai-batch = true\nconstraint = ["letters={letters}"]\nmax-candidates = 1\n'
    )
    data = jsonl(
        request("a", cdec={"artifact": "letters"}),
        request("b", cdec={"artifact": "letters", "deny": ["a", "ab"]}),
    )
    result = cdec("sample", "--method", "masked", stdin=data)
    assert (list(texts(result)), codes(result)) == (["a"], {"b": "E_LIMIT"})


HOSTILE: dict[str, dict[str, Any]] = {
    "repeated": {"regex": "((((a{1,300}){1,300}){1,300}){1,300})"},
    "long": {"regex": "a{1,1000001}"},
    "nested": {"regex": "(" * 5000 + "a" + ")" * 5000},
    "backtracking": {"regex": "(a*)*b\\1"},
    "not a regex": {"regex": "a{-1}(?P<n>"},
    "negative length": {"schema": {"type": "string", "minLength": -3}},
    "huge length": {"schema": {"type": "array", "minItems": 10**9}},
    "itself": {"schema": {"$ref": "#"}},
    "recursion": {
        "schema": {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}
    },
    "a file": {"schema": {"$ref": "file:///etc/passwd"}},
    "a server": {"schema": {"$ref": "http://169.254.169.254/latest"}},
    "huge enum": {"schema": {"enum": [f"value {number:06}" for number in range(2_000_000 // 20)]}},
    "ambiguous": {"grammar": "start: start start"},
    "import": {"grammar": "%import .secrets (x)\nstart: x"},
    "absolute import": {"grammar": "%import /etc/passwd (x)\nstart: x"},
    "path": {"artifact": "/etc/passwd"},
    "relative path": {"artifact": "../cities.arrow"},
    "artifact beside": {"artifact": "cities", "regex": "a"},
    "many": {"candidates": ["a"] * 20_000},
}
"""What brought down servers of others, or opened what nobody had named."""


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_known_holes_of_servers_are_errors_of_their_lines_alone(cdec: Runner, cities: Path) -> None:
    lines: list[dict[str, Any] | bytes] = []
    for name, asked in HOSTILE.items():
        lines += [request(name, cdec=asked), request(f"after {name}", cdec={"artifact": "cities"})]
    deep: Any = {}
    for _ in range(40):
        deep = {"properties": {"a": deep}}
    lines += [
        request("deep", response_format={"type": "json_schema", "json_schema": {"schema": deep}}),
        b'{"custom_id":"deeper","body":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"custom_id":"long line","body":{"messages":"' + b"a" * (9 << 20) + b'"}}',
        request("own", cdec={"regex": "[ab]{2}"}),
        request("own schema", response_format={"type": "json_schema", "json_schema": {
            "schema": {"enum": ["a", "b"]}}}),
        request("own list", TEXT, cdec={"candidates": ["Rome", "Oslo"], "deny": ["Oslo"]}),
    ]  # fmt: skip
    allowed = [word for kind in ("regex", "schema", "grammar", "candidates") for word in
               ("--allow", kind)]  # fmt: skip
    words = [*BATCH, "--constraint", f"cities={cities}", *allowed, "--compile-seconds", "5",
             "--max-line-bytes", str(8 << 20), "--max-new-tokens", "40"]  # fmt: skip
    result = cdec(*words, stdin=jsonl(*lines))
    assert result.status == 3, result.stderr
    assert len(result.records) == len(lines)
    found = codes(result)
    answered = texts(result)
    assert set(answered) == {f"after {name}" for name in HOSTILE} | {
        "own", "own schema", "own list", *(["deep"] if "deep" not in found else []),
    }  # fmt: skip
    assert answered["own list"] == {"Rome"}
    assert {json.loads(text) for text in answered["own schema"]} <= {"a", "b"}
    refused = [line["error"]["code"] for line in result.records if line["error"] is not None]
    assert "E_INTERNAL" not in refused
    assert {"E_JSON", "E_LINE_TOO_LONG"} <= set(refused)


@pytest.mark.heavy
@pytest.mark.usefixtures("loaded", "grammar_child")
def test_what_is_large_is_answered_or_refused_and_the_others_are_answered(
    cdec: Runner, cities: Path
) -> None:
    large = {
        "exponential": {"regex": "(a|b)*a(a|b){30}"},
        "enum": {"schema": {"enum": [f"value {number:05}" for number in range(60_000)]}},
    }
    lines = [request(name, cdec=asked) for name, asked in large.items()]
    lines += [request("after", cdec={"artifact": "cities"})]
    words = [*BATCH, "--constraint", f"cities={cities}", "--allow", "regex", "--allow", "schema"]
    result = cdec(*words, "--compile-seconds", "5", "--max-new-tokens", "5", stdin=jsonl(*lines))
    assert set(codes(result).values()) <= {"E_LIMIT"}
    assert set(texts(result)) >= {"after"} and len(result.records) == 3


@pytest.mark.usefixtures("loaded")
def test_nothing_is_compiled_or_opened_unless_that_was_allowed(
    cdec: Runner, cities: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdec.compilers import cache

    monkeypatch.delattr(cache, "ChildCompiler")
    schema = {"type": "json_schema", "json_schema": {"schema": {}}}
    lines = [
        request("regex", cdec={"regex": "a"}),
        request("grammar", cdec={"grammar": 'start: "a"'}),
        request("schema", response_format=schema),
        request("object", response_format={"type": "json_object"}),
        request("candidates", cdec={"candidates": ["a"]}),
        request("path", cdec={"artifact": str(cities)}),
        request("default", cdec={"artifact": ""}),
        request("members", cdec={"artifact": "cities", "candidates": ["Rome", "Q3"]}),
    ]
    result = cdec(*BATCH, "-a", cities, "--constraint", f"cities={cities}", stdin=jsonl(*lines))
    assert set(codes(result)) == {line["custom_id"] for line in lines[:-1]}
    assert texts(result)["members"] <= {"Rome", "Oslo"}

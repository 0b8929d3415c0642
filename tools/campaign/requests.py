"""Fuzzed requests of batch files, through the real reader and the real loop: each has its line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tools.campaign.attack import Try
from tools.campaign.mutants import damaged, edited_json
from tools.campaign.records import LINES, fuzzed, line_of, text, value

_CHAT, _TEXT = "/v1/chat/completions", "/v1/completions"
_FIELDS = (
    *("n", "seed", "temperature", "top_p", "max_tokens", "max_completion_tokens", "logprobs"),
    *("top_logprobs", "response_format", "cdec", "model", "stop", "stream", "tools", "user"),
)
_ASKED: tuple[Any, ...] = (
    {"artifact": "letters"}, {"artifact": "letters.arrow"}, {"artifact": "../letters"},
    {"artifact": "letters", "candidates": ["a", "ab"]}, {"candidates": ["a"], "deny": ["a"]},
    {"artifact": "letters", "deny": ["a", "x"]}, {"regex": "a+"}, {"schema": {}}, "{}", "[",
)  # fmt: skip


def request(rng: np.random.Generator, number: int) -> bytes:
    """Return one line: a good request, one with odd fields, or a damaged one."""
    is_chat = bool(rng.random() < 0.5)
    body: dict[str, Any] = {"prompt": [text(rng)] if rng.random() < 0.2 else text(rng)}
    if is_chat:
        body = {"messages": [{"role": "user", "content": text(rng)}]}
    if rng.random() < 0.3:
        body["cdec"] = _ASKED[int(rng.integers(len(_ASKED)))]
    if rng.random() < 0.2:
        body["logprobs"] = True if is_chat else 2
    for name in _FIELDS:
        if rng.random() < 0.03:
            body[name] = value(rng)
    whole = {"custom_id": f"r{number}", "method": "POST", "url": _CHAT if is_chat else _TEXT}
    data = json.dumps(whole | {"body": body}).encode()
    kind = float(rng.random())
    if kind < 0.3:
        data = edited_json(data, rng)
    elif kind < 0.45:
        data = damaged(data, rng)
    return line_of(data)


def open_requests(folder: Path) -> Try:
    """Return what answers a batch file of fuzzed requests and looks at every line it gives."""

    def lines_of(rng: np.random.Generator, seed: int) -> list[bytes]:
        return [request(rng, number) for number in range(LINES)]

    more = ("--openai-batch", "--constraint", "letters=letters.arrow")
    return fuzzed(folder, lines_of, judge, *more)


def judge(output: Path, status: int, requests: int) -> dict[str, int]:
    """Return how often each code came up; every request has one line, answered or refused."""
    found: Counter[str] = Counter()
    ids = set()
    for line in output.read_bytes().splitlines():
        answer = json.loads(line)
        ids.add(answer["id"])
        response = answer["response"]
        if answer["error"] is None:
            assert response["status_code"] == 200 and isinstance(answer["custom_id"], str), answer
            assert [each["index"] for each in response["body"]["choices"]] == list(
                range(len(response["body"]["choices"]))
            )
            found["answered"] += 1
        else:
            code = answer["error"]["code"]
            assert code == response["body"]["error"]["code"] != "E_INTERNAL", answer
            assert response["status_code"] == 400, answer
            found[code] += 1
    assert sum(found.values()) == requests == len(ids), (found, requests, len(ids))
    assert (status == 3) is (found["answered"] < requests), (status, found)
    return found

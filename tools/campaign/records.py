"""Fuzzed prompt records, through the real reader and the real loop, under a tabular model."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cdec.cli.app import main
from tests.cli import light
from tools.campaign.attack import Try
from tools.campaign.mutants import damaged, edited_json
from tools.campaign.server import use_light_models

LINES = 200
"""Records of one seed: one input."""
_WHOLE = (0, 3)
REFUSED = (65, 75)
"""Statuses of an input that is refused as a whole, and lost no record: two equal ids, UTF-16."""
_TEXTS = (
    "", "a", "p\u00e9", "\u202e\u009b31m", "<|im_start|>system", "\ue000\uf8ff", "\0", "a" * 3000,
    "{", "\ud800", "\r", "\u2028", " \t", "e\u0301", "\U0001f600", "{{x}}", "%s", "null",
)  # fmt: skip
_SOURCES = {
    "grammar": ('start: "a"+', "start: A\nA: /(a|b)+/", "start: ", 'start: "a" start', 'r ::= "a"'),
    "regex": ("a+", "(", "a{3}"),
    "schema": ("{}", '{"const":' + "[" * 150 + "]" * 150 + "}"),
}
"""Constraints that records bring; odd ones among them."""
_MARKERS: tuple[Any, ...] = (
    "a", "ab", "aab", ["a", "b"], "a" * 600, "ab" * 2_000, "z" * 100_000,
    [f"m{i}" for i in range(300)], [f"m{i}" for i in range(200)], ["aa", "aab", "abaab"],
    "", [], 5, "\ue000", [""], ["a"] * 3_000,
)  # fmt: skip
"""Of free text: good, long and many, and such as are none."""
_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 10**4, 10**30, 0.5, -0.0, 1e308, 1e-320, 1e-300, [], {},
    [[]], "1", [1, "a"],
)  # fmt: skip


def record(rng: np.random.Generator, number: int, *, compiled: bool) -> bytes:
    """Return one line: a good record, one with odd fields, a damaged one, or a text.

    With ``compiled`` some have grammars, regular expressions and schemas of their own.
    """
    kind = float(rng.random())
    if kind < 0.05:
        return line_of(damaged(text(rng).encode("utf-8", "surrogatepass"), rng))
    body: dict[str, Any] = {"id": f"r{number}", "prompt": text(rng)}
    for name in ("n", "seed", "temperature", "max_tokens", "constraint", "candidates", "prefill"):
        if rng.random() < 0.12:
            body[name] = value(rng)
    if rng.random() < 0.1:
        body["candidates"] = [str(rng.choice(["a", "ab", "ba", "x"])), text(rng)]
    if rng.random() < 0.1:
        body["after"] = _MARKERS[int(rng.integers(len(_MARKERS)))]
    elif rng.random() < 0.05:
        body["between"] = [_MARKERS[int(i)] for i in rng.integers(len(_MARKERS), size=2)]
        body["regions"] = int(rng.integers(3))
    if rng.random() < 0.1:
        body["budget"] = int(rng.integers(4))
    for name, texts in _SOURCES.items() if compiled else ():
        if rng.random() < 0.02:
            body[name] = str(rng.choice(texts))
    if rng.random() < 0.1:
        body[text(rng)] = value(rng)
    if rng.random() < 0.05:
        body["id"] = value(rng) if rng.random() < 0.05 else body["id"] + text(rng)
    data = json.dumps(body, ensure_ascii=bool(rng.random() < 0.5)).encode("utf-8", "surrogatepass")
    if kind < 0.3:
        data = edited_json(data, rng)
        changed = json.loads(data)
        if isinstance(changed, dict) and rng.random() < 0.995:
            # Equal ids would refuse the whole input.
            data = json.dumps(changed | {"id": body["id"]}).encode()
    elif kind < 0.5:
        data = damaged(data, rng)
    return line_of(data)


def open_records(folder: Path) -> Try:
    """Return what samples from an input of fuzzed records and looks at every line it gives."""

    def lines_of(rng: np.random.Generator, seed: int) -> list[bytes]:
        return [record(rng, number, compiled=seed % 20 == 0) for number in range(LINES)]

    return fuzzed(folder, lines_of, judge)


def fuzzed(
    folder: Path,
    lines_of: Callable[[np.random.Generator, int], list[bytes]],
    judge: Callable[[Path, int, int], dict[str, int]],
    *more: str,
) -> Try:
    """Return what samples from fuzzed inputs.

    Args:
        folder: Of its own.
        lines_of: Returns the lines of one input, for a seed.
        judge: Looks at an output, the status, and how many lines were not blank.
        more: Further words of the command line.
    """
    use_light_models()
    light.compile_letters(folder / "letters.arrow")
    os.chdir(folder)
    source, output, said = Path("in.jsonl"), Path("out.jsonl"), Path("said")
    words = ["sample", "-a", "letters.arrow", "-i", str(source), "-o", str(output), "--force"]
    words += ["--quiet", "--method", "masked", "--max-new-tokens", "5", "--max-n", "50", *more]

    def fuzz(seed: int) -> dict[str, int]:
        lines = lines_of(np.random.default_rng(seed), seed)
        source.write_bytes(b"\n".join(lines) + b"\n")
        output.unlink(missing_ok=True)
        status, stderr = _run(words, said)
        assert "Traceback" not in stderr, stderr[-1500:]
        if status in REFUSED:
            assert stderr.count("error E_") == 1, stderr[-1500:]
            return {f"input refused: {stderr.split()[1]}": 1}
        assert status in _WHOLE, (status, stderr[-1500:])
        return judge(output, status, sum(bool(line.strip()) for line in lines))

    return fuzz


def judge(output: Path, status: int, records: int) -> dict[str, int]:
    """Return how often each code came up; every record has its samples or its error."""
    found: Counter[str] = Counter()
    ids = set()
    for line in output.read_bytes().splitlines():
        body = json.loads(line)
        ids.add(json.dumps(body["id"]))
        if "error" in body:
            code = body["error"]["code"]
            assert code != "E_INTERNAL" and body["error"]["message"], body
            found[code] += 1
        elif body["index"] == 0:
            # Behind free text that never came to its marker there is none.
            is_cut = body["finish_reason"] in ("no_marker", "length")
            assert isinstance(body["text"], str) or is_cut, body
            found["sampled"] += 1
    assert sum(found.values()) == records == len(ids), (found, records, len(ids))
    assert (status == 3) is (found["sampled"] < records), (status, found)
    return found


def _run(words: list[str], said: Path) -> tuple[int, str]:
    """Run a command line in this process; return status and stderr."""
    before = os.dup(2)
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    try:
        status = main(words)
        sys.stderr.flush()
    finally:
        os.dup2(before, 2)
        os.close(before)
    return status, said.read_text(errors="replace")


def line_of(data: bytes) -> bytes:
    """Return bytes without ends of lines."""
    return data.replace(b"\n", b" ").replace(b"\r", b" ")


def text(rng: np.random.Generator) -> str:
    """Return an odd text."""
    return "".join(_TEXTS[int(i)] for i in rng.integers(len(_TEXTS), size=int(rng.integers(1, 4))))


def value(rng: np.random.Generator) -> Any:
    """Return an odd value."""
    return text(rng) if rng.random() < 0.4 else _VALUES[int(rng.integers(len(_VALUES)))]

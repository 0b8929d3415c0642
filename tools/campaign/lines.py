"""Lines that a person looks at: traces that are read, rows of CSV, bad rows without end."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np

from tests.cli import light
from tools.campaign.attack import Try
from tools.campaign.mutants import damaged, edited_json
from tools.campaign.records import line_of, text, value
from tools.campaign.server import use_light_models
from tools.campaign.typed import typed

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_ODD = (b"null", b"1.5", b"[]", b"{}", b'"a"', b"", b"-", b"1e999")


def open_lines(folder: Path) -> Try:
    """Return what reads a mutated trace, writes CSV of odd ids, or meets bad records."""
    use_light_models()
    light.compile_letters(folder / "letters.arrow")
    os.chdir(folder)
    sample = ["sample", "-a", "letters.arrow", "--method", "masked", "--quiet"]
    typed([*sample, "--prompt", "x", "-n", "3", "--trace", "good"], Path("said"), -1)
    good = Path("good").read_bytes().splitlines()
    ways = (
        lambda rng, seed: _trace(rng, seed, good),
        _table,
        lambda rng, seed: _bad(rng, seed, sample),
    )

    def try_one(seed: int) -> str:
        return ways[seed % len(ways)](np.random.default_rng(seed), seed)

    return try_one


def _trace(rng: np.random.Generator, seed: int, good: list[bytes]) -> str:
    lines = list(good)
    for place in rng.integers(len(lines), size=int(rng.integers(1, 3))):
        kind = float(rng.random())
        if kind < 0.3:
            lines[place] = _ODD[int(rng.integers(len(_ODD)))]
        else:
            change = edited_json if kind < 0.8 and lines[place] in good else damaged
            lines[place] = line_of(change(lines[place], rng))
    Path("trace").write_bytes(b"\n".join(lines) + b"\n")
    more = (["--json"], ["--html", "page.html", "--force"], [])[int(rng.integers(3))]
    status, said = typed(["trace", "trace", *more], Path("said"), seed)
    return "trace shown" if status == 0 else f"trace: {said.partition('error ')[2].split(':')[0]}"


def _table(rng: np.random.Generator, seed: int) -> str:
    """Classify prompts of ids that a spreadsheet would take for formulas, and read the rows."""
    ids = [str(rng.choice(_FORMULAS)) + text(rng) + str(i) for i in range(3)]
    Path("in.jsonl").write_text(
        "".join(
            json.dumps({"id": own, "prompt": "x" if rng.random() < 0.6 else value(rng)}) + "\n"
            for own in ids
        )
    )
    words = ["classify", "-a", "letters.arrow", "-i", "in.jsonl", "--format", "csv", "--quiet"]
    status, said = typed(words, Path("said"), seed)
    rows = [*csv.reader(io.StringIO(said, newline=""))]
    for row in rows[1:]:
        assert not row or not row[0].startswith(_FORMULAS), (seed, row)
        # Numbers are the only cells that may begin with a sign.
        assert all(cell[:1] not in _FORMULAS or float(cell) is not None for cell in row), (
            seed,
            row,
        )
    return f"csv: {status}"


def _bad(rng: np.random.Generator, seed: int, sample: list[str]) -> str:
    """Sample from an input of bad records; a run ends after as many as it may meet."""
    count, most = (int(rng.integers(0, 12)) for _ in range(2))
    Path("in.jsonl").write_text('{"prompt": 5}\n' * count + '{"prompt": "x"}\n')
    words = [*sample, "-i", "in.jsonl", "-o", "out.jsonl", "--force", "--max-bad", str(most)]
    status, _ = typed(words, Path("said"), seed)
    told = [json.loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    assert sum("error" in line for line in told) == min(count, most), (seed, count, most, told)
    assert status == (75 if count > most else 3 if count else 0), (seed, count, most, status)
    return f"bad: {status}"

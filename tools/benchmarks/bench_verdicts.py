"""``make bench-verdicts``: what a verdict on a text of each shipped grammar costs.

    python -m tools.benchmarks.bench_verdicts [--repeats 300] [--output DIR]

For lark in this process, which nothing could stop, and in the process that can be killed: the first
verdict, which makes the parser (and starts the process), and the median and the 99th of a hundred
of later ones, in milliseconds by the clock. Half a minute.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cdec.core.child.judge import Judge, TextChecker
from cdec.core.child.readers import Language
from cdec.core.grammars.validity import grammar_language, parser_of
from cdec.data.assets import grammar_path
from tools.benchmarks.report import save, show

TEXTS = {
    "json": '{"a": [1, 2, {"b": "some text here"}], "c": null, "d": -1.5e3}',
    "jsonl": '{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n',
    "csv": 'id,name\n1,"Smith, J."\n2,Jones\n',
    "sql": "SELECT a.name, COUNT(*) AS n FROM authors a LEFT JOIN books b ON b.author = a.id "
    "WHERE b.year BETWEEN 1990 AND 2000 GROUP BY a.name ORDER BY n DESC",
    "xml": '<bibliography><book id="k1"><title>Ideas</title><author><family>Lovelace</family>'
    "</author><year>1843</year><publisher>Taylor</publisher></book></bibliography>",
    "c": "int main(void) { int a = 1; for (int i = 0; i < 10; i++) { a += f(i); } return a; }",
    "arithmetic": "(1 + 2) * 3 - 4 / 5",
    "sexpr": '(define (square x) (* x x)) ("text" 1.5)',
}


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--output", type=Path, default=Path("bench-results"))
    arguments = parser.parse_args()
    judge = Judge()
    rows, figures = [], {}
    try:
        for name, text in TEXTS.items():
            options = json.dumps({"lexer": "contextual", "start": "start"})
            language = grammar_language(options, grammar_path(name).read_text(encoding="utf-8"))
            ways: dict[str, Callable[[], Callable[[bytes], Any]]] = {
                "here": lambda language=language: _here(language),
                "in the process": lambda language=language: TextChecker(language, judge=judge),
            }
            for way, make in ways.items():
                measured = _measured(make, text.encode(), arguments.repeats)
                rows.append((name, way, *measured.values()))
                figures[f"{name}, {way}"] = measured
    finally:
        judge.close()
    columns = ("grammar", "lark", "verdict", "first ms", "median ms", "99% ms")
    show("Verdicts on texts of the shipped grammars", columns, rows)
    print(save(arguments.output / "verdicts.json", figures, repeats=arguments.repeats))


def _here(language: Language) -> Callable[[bytes], bool]:
    parse = parser_of(*language.parts)
    assert parse is not None
    return lambda text: parse(text.decode(), time.process_time() + 60)


def _measured(
    make: Callable[[], Callable[[bytes], Any]], text: bytes, repeats: int
) -> dict[str, Any]:
    begun = time.perf_counter()
    check = make()
    verdict = check(text)
    first = time.perf_counter() - begun
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        check(text)
        times.append(time.perf_counter() - begun)
    return {
        "verdict": verdict,
        "first_ms": first * 1e3,
        "median_ms": float(np.median(times)) * 1e3,
        "p99_ms": float(np.quantile(times, 0.99)) * 1e3,
    }


if __name__ == "__main__":
    main()

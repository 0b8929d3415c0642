"""Small grammars that were once slow or refused: each is a row of the benchmark.

    python -m tools.benchmarks.grammars.cliffs ENGINE TOKENIZER NAME [--gib N]

compiles one and replays its documents, in memory of N GiB at most; prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import string
from collections.abc import Callable
from typing import Any

import numpy as np

from tools.benchmarks.grammars.engines import CLOCKS, engine_of
from tools.benchmarks.grammars.workloads import shared_module
from tools.benchmarks.processes import peak_bytes

Cliff = Callable[[], dict[str, Any]]
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_MARKS = "!?;:"


def load(lark: str, document: str, lexer: str | None = None) -> dict[str, Any]:
    """Return a workload of one document."""
    return {"lark": lark, "docs": [document], "lexer": lexer}


def overlapping(count: int) -> dict[str, Any]:
    """Return as many terminals of one language, each before a mark of its own."""
    rules = [f'{name} ("{_MARKS[i]}" f)?' for i, name in enumerate("ABCD"[:count])]
    terminals = "".join(f"{name}: /[a-z]+/\n" for name in "ABCD"[:count])
    text = "lorem!ipsum!dolor!sit!amet!consectetur!adipiscing!elit!sed!do!eiusmod!tempor"
    return load(f"start: f+\nf: {' | '.join(rules)}\n{terminals}", text, "dynamic")


def loose_words() -> dict[str, Any]:
    """Return a grammar whose names, numbers and strings are all unquoted words."""
    lark = """start: statement+
statement: names "=" values | call | "do" WS statement+ "end" | "if" WS value WS "then" WS statement
names: NAME ("," NAME)*
values: value ("," value)*
value: NUMBER | WORD | TEXT | call | value SIGN value | table
call: NAME "(" values? ")"
table: (field WS)* "." field
field: NAME "=" value | value
SIGN: "+" | "-" | "and" | "or"
NAME: /[A-Za-z][A-Za-z0-9]*/
WORD: /[A-Za-z0-9]+/
TEXT: /[A-Za-z0-9]+( [A-Za-z0-9]+)?/
NUMBER: /[0-9]+/
WS: /[ \\t]+/
"""
    text = "total=price+12print(total,first name)if ready then do count=count-1print(count)end"
    return load(lark, text, "dynamic")


def optionals(count: int, *, rules: bool = False) -> dict[str, Any]:
    """Return a sequence of optional literals, or of optional rules of one literal each."""
    words = [f"w{i}." for i in range(count)]
    items = [f"r{i}?" if rules else f'"{word}"?' for i, word in enumerate(words)]
    own = [f'r{i}: "{word}"' for i, word in enumerate(words)] if rules else []
    lark = "\n".join([f"start: {' '.join(items)} END", *own, 'END: "!"', ""])
    return load(lark, "".join(words[::2]) + "!")


def alternatives() -> dict[str, Any]:
    """Return twelve times the same choice of a literal and a sequence."""
    choice = '("a" | "b" | "c" "d")'
    return load(f"start: {' '.join([choice] * 12)}\n", "abcd" * 4)


def pattern(regex: str, document: str) -> dict[str, Any]:
    """Return one terminal."""
    return load(f"start: R\nR: /{regex}/\n", document)


def words(count: int) -> list[str]:
    """Return distinct words of lower-case letters."""
    letters, rng = np.array(list(string.ascii_lowercase)), np.random.default_rng(7)
    found: dict[str, None] = {}
    while len(found) < count:
        drawn = rng.integers(0, 26, (count, 12))
        lengths = rng.integers(4, 13, count)
        for row, length in zip(letters[drawn], lengths, strict=True):
            found["".join(row[:length])] = None
    return list(found)[:count]


def literals(count: int, form: str) -> dict[str, Any]:
    """Return many literals: as one terminal, as a rule, or repeated."""
    chosen = words(count)
    any_of = " | ".join(f'"{word}"' for word in chosen)
    if form == "terminal":
        return load(f"start: W\nW: {any_of}\n", chosen[17])
    if form == "rule":
        return load(f"start: w\nw: {any_of}\n", chosen[17])
    return load(f'start: (w ".")+\nw: {any_of}\n', "".join(f"{word}." for word in chosen[17:25]))


def chained() -> dict[str, Any]:
    """Return a thousand rules, each of which is ambiguous in the next."""
    rules = [f"r{i}: r{i + 1} | r{i + 1} r{i + 1}" for i in range(1000)]
    return load("start: r0\n" + "\n".join(rules) + '\nr1000: "a"\n', "a" * 12, "dynamic")


CLIFFS: dict[str, Cliff] = {
    **{f"{n} overlapping terminals": lambda n=n: overlapping(n) for n in (1, 2, 3, 4)},
    "words without quotes": loose_words,
    "11 optional literals": lambda: optionals(11),
    "13 optional rules": lambda: optionals(13, rules=True),
    "16 optional rules": lambda: optionals(16, rules=True),
    "200 optional literals": lambda: optionals(200),
    "200 optional rules": lambda: optionals(200, rules=True),
    "12 times a, b or cd": alternatives,
    r"\w{1,50}": lambda: pattern(r"\w{1,50}", "counted_repetition_of_some_letters"),
    r"\w{1,500}": lambda: pattern(r"\w{1,500}", "counted_repetition_of_some_letters"),
    r"\w{1,2000}": lambda: pattern(r"\w{1,2000}", "counted_repetition_of_some_letters"),
    r"\w{1,100000}": lambda: pattern(r"\w{1,100000}", "counted_repetition_of_some_letters"),
    "([ab]{1,300}c){1,300}": lambda: pattern("([ab]{1,300}c){1,300}", "abbac" * 8),
    ".*a.{18}b": lambda: pattern(".*a.{18}b", "what a day for walking ab"),
    "20,000 literals, terminal": lambda: literals(20_000, "terminal"),
    "20,000 literals, rule": lambda: literals(20_000, "rule"),
    "20,000 literals, repeated": lambda: literals(20_000, "repeated"),
    "100,000 literals, terminal": lambda: literals(100_000, "terminal"),
    "100,000 literals, rule": lambda: literals(100_000, "rule"),
    "100,000 literals, repeated": lambda: literals(100_000, "repeated"),
    'start: start start | "a"': lambda: load('start: start start | "a"\n', "a" * 200, "dynamic"),
    "1,000 chained ambiguous rules": chained,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("tokenizer")
    parser.add_argument("cliff", choices=CLIFFS)
    parser.add_argument("--gib", type=float, default=8.0)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()
    most = int(arguments.gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    workload = CLIFFS[arguments.cliff]()
    tok = shared_module("toks").Tok(arguments.tokenizer)
    engine = engine_of(arguments.engine, arguments.tokenizer, workload, arguments.clock)
    times, refused = engine.replay(tok.check(workload["docs"][0]))
    found = {
        "compile_ms": engine.compile_ms,
        "artifact_bytes": engine.artifact_bytes,
        "peak_bytes": peak_bytes(),
        "cold_ns": times,
        "refused": refused,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

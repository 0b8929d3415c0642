"""What a set within a grammar costs, within its places and outside of them, beside none."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cdec.compilers import compile_token_set, grammar_constraint
from cdec.core.constraint import Constraint
from cdec.core.mask import allocate_mask
from cdec.core.tokens.vocabulary import BYTES
from tools.benchmarks.fields.members import TOKENIZER, members
from tools.benchmarks.grammars.engines import vocabulary_of
from tools.benchmarks.grammars.workloads import shared_module

TABLES, QUERIES = 100_000, 200
QUERY = """start: "SELECT " column (", " column)* " FROM " TABLE where? order?
where: " WHERE " test
order: " ORDER BY " NAME
column: NAME | "*" | "COUNT(" NAME ")"
test: NAME OPERATOR (NUMBER | STRING) (" AND " test)?
OPERATOR: "=" | "<" | ">" | " LIKE "
NAME: /[a-z_]{1,20}/
NUMBER: /[0-9]{1,9}/
STRING: /'[^']{0,40}'/
"""
PATTERN = "TABLE: /[A-Z][A-Za-z_]{0,80}/\n"
"""What tables are in the grammar without the set."""
COLUMNS = ("id", "name", "price", "customer_id", "created_at")


class Query(NamedTuple):
    """A query in three parts."""

    before: str
    table: str
    after: str


def queries(tables: Sequence[str]) -> list[Query]:
    """Return queries over tables of these names."""
    found = []
    for number, table in enumerate(tables):
        one, other = COLUMNS[number % 5], COLUMNS[(3 * number + 1) % 5]
        test = f" WHERE {one}={37 * number} AND {other} LIKE 'it is {number}'"
        found.append(
            Query(f"SELECT {one}, COUNT({other}) FROM ", table, f"{test} ORDER BY {other}")
        )
    return found


def costs(constraint: Constraint, asked: Sequence[Query]) -> tuple[list[float], list[float]]:
    """Return microseconds of a mask and its step: of tokens with the table's bytes, of others."""
    session, mask = constraint.session(), allocate_mask(1, constraint.vocabulary.width)
    encode, pieces = shared_module("toks").Tok(TOKENIZER).encode, constraint.vocabulary.token_bytes
    within: list[float] = []
    outside: list[float] = []
    for query in asked:
        first = len(query.before.encode())
        last, at, state = first + len(query.table.encode()), 0, session.start(1)
        for token in encode("".join(query)):
            begun = time.process_time_ns()
            session.fill_mask(state, mask)
            state = session.advance(state, np.array([token]))
            spent = (time.process_time_ns() - begun) / 1000
            at += len(pieces[token])
            (within if at > first and at - len(pieces[token]) <= last else outside).append(spent)
        if not session.is_complete(state)[0]:
            raise ValueError(f"{''.join(query)!r} is no query")
    return within, outside


def print_table() -> dict[str, Any]:
    """Print what masks of queries cost, with tables of a pattern and of a set; return them."""
    vocabulary, names = vocabulary_of(TOKENIZER), members(TABLES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tables.arrow")
        compile_token_set([list(name.encode()) for name in names], BYTES, path)
        declared = grammar_constraint(f"{QUERY}%declare TABLE\n", vocabulary)
        of_set = declared.with_sets({"TABLE": path})
        asked = queries([names[n] for n in np.random.default_rng(1).integers(TABLES, size=QUERIES)])
        of_pattern = grammar_constraint(QUERY + PATTERN, vocabulary)
        plain = queries(["Orders_of_customers"] * QUERIES)
        print("| queries | in the table's name: mean | p99 | elsewhere: mean | p99 |")
        print("|---|---|---|---|---|")
        figures: dict[str, Any] = {}
        for name, constraint, texts in (
            ("tables by a pattern", of_pattern, plain),
            (f"tables of a set of {TABLES:,}", of_set, asked),
        ):
            for told in ("first pass", "later"):
                cells = [
                    [float(np.mean(part)), float(np.quantile(part, 0.99))]
                    for part in costs(constraint, texts)
                ]
                figures[f"{name}, {told}"] = cells
                shown = " | ".join(f"{value:.1f} µs" for cell in cells for value in cell)
                print(f"| {name}, {told} | {shown} |", flush=True)
    return figures

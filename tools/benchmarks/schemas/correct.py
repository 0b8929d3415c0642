"""How many schemas are right: compiled strictly, valid instances taken, invalid ones refused.

    python -m tools.benchmarks.schemas.correct [suite|bench] [--lenient] [--only TEXT ...]

``suite``: the official JSON-Schema-Test-Suite, by keyword. ``bench``: 452 schemas of
JSONSchemaBench, by family. Prints a table, then what was wrong (and with ``--verbose`` what was
refused), and writes all of it as JSON. Minutes; needs the shared data.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.laws.grammar_cases import byte_vocabulary
from tools.benchmarks.report import save, show
from tools.benchmarks.schemas.cases import Case, benchmark, official
from tools.benchmarks.schemas.outcomes import STATUSES, Outcome, outcome_of

COLLECTIONS: dict[str, Callable[[], Iterator[Case]]] = {"suite": official, "bench": benchmark}


def main() -> None:
    """Measure, print the tables, and write the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", choices=COLLECTIONS, nargs="?", default="suite")
    parser.add_argument("--lenient", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--verbose", action="store_true", help="what was refused, too")
    parser.add_argument("--shown", type=int, default=60, help="wrong verdicts that are printed")
    parser.add_argument("--seconds", type=int, default=60, help="for one schema")
    parser.add_argument("--output", type=Path, default=Path("bench-results"))
    arguments = parser.parse_args()
    begun = time.perf_counter()
    found: dict[str, tuple[Case, Outcome]] = {}
    vocabulary = byte_vocabulary()
    for case in COLLECTIONS[arguments.collection]():
        if any(part in case.name for part in arguments.only):
            outcome = outcome_of(
                case, vocabulary, lenient=arguments.lenient, seconds=arguments.seconds
            )
            found[case.name] = (case, outcome)
    print_table(arguments.collection, found)
    print_details(found, arguments.shown, arguments.verbose)
    kind = f"{arguments.collection}{'-lenient' if arguments.lenient else ''}"
    figures = {name: dataclasses.asdict(outcome) for name, (_, outcome) in found.items()}
    spent = time.perf_counter() - begun
    print(save(arguments.output / f"schemas-{kind}.json", figures, seconds=spent), f"{spent:.0f} s")


def print_table(title: str, found: dict[str, tuple[Case, Outcome]]) -> None:
    """Print right, excused, refused and wrong by group, and of all."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for case, outcome in found.values():
        for name in (case.group, "all"):
            groups[name][outcome.status] += 1
    rows: list[tuple[Any, ...]] = []
    for name, counts in sorted(groups.items(), key=lambda item: (item[0] == "all", item[0])):
        total = counts.total()
        share = 100 * (counts["right"] + counts["excused"]) / total
        rows.append((name, total, *(counts[status] for status in STATUSES), f"{share:.1f}"))
    show(title, ("group", "schemas", *STATUSES, "right %"), rows)
    times = [outcome.seconds * 1e3 for _, outcome in found.values() if outcome.seconds]
    if times:
        low, high = np.percentile(times, [50, 99])
        print(f"compiling: p50 {low:.1f} ms, p99 {high:.0f} ms, most {max(times):.0f} ms")
    silent = sum(
        1
        for _, outcome in found.values()
        if not outcome.unenforced
        and any(not wrong["expected"] and wrong["jsonschema"] is False for wrong in outcome.wrong)
    )
    print(f"schemas that accept invalid instances without a recorded keyword: {silent}")


def print_details(found: dict[str, tuple[Case, Outcome]], shown: int, verbose: bool) -> None:
    """Print what was wrong, and why schemas were refused."""
    reasons: Counter[str] = Counter()
    for name, (case, outcome) in found.items():
        if outcome.status == "refused":
            reasons[outcome.error.split(":")[0]] += 1
            if verbose:
                print(f"refused {name}: {outcome.error}")
        if outcome.status != "wrong" or shown <= 0:
            continue
        shown -= 1
        print(f"wrong {name} {case.notes.get('description', '')}: {outcome.error}")
        print(f"    schema {case.source[:400]}")
        for wrong in outcome.wrong[:3]:
            print(
                f"    {wrong['spelling']} {wrong['text'][:200]} expected {wrong['expected']}, "
                f"jsonschema {wrong['jsonschema']}: {wrong['description'][:60]}"
            )
    if reasons:
        print("refused:", dict(reasons.most_common()))


if __name__ == "__main__":
    main()

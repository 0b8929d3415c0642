"""``make bench-fields``: what a constraint costs that nobody compiled before, as Markdown.

    python -m tools.benchmarks.bench_fields [--repeats N] [--only NAME ...] [--output DIR]

One line: processor seconds, user and system, of ``cdec sample`` on one thread, of a process and of
those that it starts. A source in the place of an artifact, whose artifact is in the user's cache
from a run before, beside the artifact itself with ``-a``; both in turn, ``--repeats`` times.
Quotes: documents sorted, and masks along their pieces; corpora: of up to 100 MB (``--most-bytes``),
compiled in a process of its own each, which tells its peak memory.
``--fit``: masks of documents whose texts are held to a number of tokens, beside those without.
Sets within a schema, of up to a million members, beside their members as an enum in other engines.
Needs no network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.benchmarks import report
from tools.benchmarks.bench_start import CDEC, CITIES, SCHEMA, environment_of, seconds
from tools.benchmarks.fields import corpora, members, queries
from tools.benchmarks.fields.fitting import print_table
from tools.benchmarks.fields.quotes import print_quotes
from tools.benchmarks.fields.spelling import print_spelling
from tools.benchmarks.setting import parser_of

SAMPLE = (CDEC, "sample", "--quiet", "--method", "greedy", "--prompt", "As JSON:")
SOURCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "schema": (("--schema", "schema.json"), ("compile-schema", "schema.json")),
    "grammar": (("--grammar", "json"), ("compile-grammar", "json")),
    "regex": (("--regex", "[a-z]{1,9}"), ("compile-regex", "[a-z]{1,9}")),
    "choices": (("--choices", ",".join(CITIES)), ("compile-set", "cities.txt")),
}
"""Kind → the source as it is typed, and the words that compile it."""
TARGET = 1.1
"""Most times of the artifact's run that a second run of a source takes."""


def figures_of(kind: str, repeats: int) -> dict[str, float]:
    """Return the processor seconds of the artifact's runs, of the source's, and their quotient.

    Runs alternate, and the quotient is the median of those of neighbours, so that what the machine
    does besides meets both.
    """
    given, compiling = SOURCES[kind]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "work")
        folder.mkdir()
        (folder / "schema.json").write_text(SCHEMA)
        (folder / "cities.txt").write_text("".join(f"{city}\n" for city in CITIES))
        environment = environment_of(Path(scratch, "cache")) | {"OMP_NUM_THREADS": "1"}
        seconds((CDEC, *compiling, "-o", "compiled.arrow"), folder, environment)
        short = ("--max-new-tokens", "8")

        def run(constraint: Sequence[str]) -> float:
            return seconds((*SAMPLE, *short, *constraint), folder, environment)

        run(("-a", "compiled.arrow"))
        first = run(given)
        pairs = [(run(("-a", "compiled.arrow")), run(given)) for _ in range(repeats)]
    artifact, source = zip(*pairs, strict=True)
    quotient = median(ours / theirs for theirs, ours in pairs)
    return {
        "artifact": median(artifact),
        "first": first,
        "second": median(source),
        "quotient": quotient,
    }


def main() -> None:
    parser = parser_of(__doc__, has_model=False)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--most-bytes", type=int, default=corpora.SIZES[-1])
    kinds = [*SOURCES, "fit", "members", "queries", "quotes", "corpora", "canonical"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    arguments = parser.parse_args()
    print(f"{report.machine()}\n")
    figures: dict[str, Any] = {}
    lines = [kind for kind in arguments.only if kind in SOURCES]
    if lines:
        figures |= print_lines(lines, arguments.repeats)
    if "fit" in arguments.only:
        figures["fit"] = print_table(arguments.repeats)
    if "members" in arguments.only:
        figures["members"] = members.print_table()
    if "queries" in arguments.only:
        figures["queries"] = queries.print_table()
    if "quotes" in arguments.only:
        figures["quotes"] = print_quotes(arguments.repeats)
    if "corpora" in arguments.only:
        figures["corpora"] = corpora.print_corpora(arguments.most_bytes)
    if "canonical" in arguments.only:
        figures["canonical"] = print_spelling(arguments.repeats)
    report.save(arguments.output / "fields.json", figures, repeats=arguments.repeats)


def print_lines(kinds: Sequence[str], repeats: int) -> dict[str, Any]:
    """Print what a source in an artifact's place costs, and return the figures."""
    print("| one line, processor seconds | `-a` | first run | second run | over `-a` | target |")
    print("|---|---|---|---|---|---|")
    figures = {}
    for kind in kinds:
        figures[kind] = found = figures_of(kind, repeats)
        cells = [f"{found[name]:.2f} s" for name in ("artifact", "first", "second")]
        words = f"{found['quotient']:.2f} × | ≤ {TARGET} ×"
        print(f"| `--{kind}` | {' | '.join(cells)} | {words} |", flush=True)
    return figures


if __name__ == "__main__":
    main()

"""SchemaStore's shared half: how many schemas compile, why the others do not, and wrong verdicts.

    python -m tools.benchmarks.schemas.stored [--formats enforce] [--list]

Each schema is compiled with all others given as ``--ref-dir`` gives them, and follows its own
documents byte by byte, in several spellings. ``make bench-schema`` prints the same table.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tests.laws.grammar_cases import byte_vocabulary
from tools.benchmarks import report
from tools.benchmarks.schemas.cases import Case, neighbours, store
from tools.benchmarks.schemas.outcomes import Outcome, outcome_of

_ROW = ("schemas", "compiled", "wrong", "compile s p50", "p99", "slowest")
_SECONDS = 45


def main() -> None:
    """Print the table; with ``--list`` each schema that is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", default="annotate", choices=["annotate", "enforce"])
    parser.add_argument("--list", action="store_true", help="each schema that is refused")
    arguments = parser.parse_args()
    found = list(outcomes(arguments.formats))
    show(found)
    if arguments.list:
        for case, outcome in found:
            if outcome.error or outcome.status == "wrong":
                print(f"{case.name}\t{outcome.error or outcome.wrong}"[:300])


def outcomes(formats: str = "annotate") -> Iterator[tuple[Case, Outcome]]:
    """Yield the schemas of the half with what becomes of each.

    Args:
        formats: The tests of SchemaStore itself do not assert formats.
    """
    vocabulary, references = byte_vocabulary(), neighbours()
    for case in store():
        asked = replace(case, formats=formats)
        yield asked, outcome_of(asked, vocabulary, seconds=_SECONDS, references=references)


def show(found: Sequence[tuple[Case, Outcome]]) -> None:
    """Print how many compile, how long it takes, and why others are refused."""
    compiled = [outcome for _, outcome in found if not outcome.error]
    seconds = [outcome.seconds for outcome in compiled] or [0.0]
    half, most = np.percentile(seconds, [50, 99])
    wrong = sum(outcome.status == "wrong" for _, outcome in found)
    row = (len(found), len(compiled), wrong, f"{half:.3g}", f"{most:.3g}", f"{max(seconds):.3g}")
    report.show("SchemaStore, shared half: ≥ 480 of 486, 0 wrong, p99 ≤ 1 s", _ROW, [row])
    reasons = Counter(reason_of(outcome) for _, outcome in found if outcome.error)
    report.show("refused", ("reason", "schemas"), reasons.most_common())


def reason_of(outcome: Outcome) -> str:
    """Return the code of an error, with the keyword that it is about, if it is about one."""
    code, _, message = outcome.error.partition(": ")
    place = message.split(" cannot be enforced")[0] if " cannot be enforced" in message else ""
    return f"{code} {place.rsplit('/', 1)[-1]}".strip()


if __name__ == "__main__":
    main()

"""Runs the campaign: ``python -m tools.campaign [ATTACK ...]``; see ``attacks.py``.

Prints what became of every attack, as a table, and writes it as JSON with ``--output``. A failure's
seed repeats it alone: ``python -m tools.campaign ATTACK --first SEED --seeds 1``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.campaign.attack import Tally, run_attack
from tools.campaign.attacks import ATTACKS

SHOWN = 3
"""Failures of one attack that are printed; all of them are in the JSON."""


def main(words: Sequence[str] | None = None) -> int:
    """Run attacks; returns 1 where one of them failed."""
    options = _parser().parse_args(words)
    names = options.attacks or list(ATTACKS)
    unknown = sorted(set(names) - set(ATTACKS))
    if unknown:
        print(f"no attack {unknown}; there are: {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    tallies, started = [], time.monotonic()
    for number, name in enumerate(names):
        left = None
        if options.minutes is not None:
            # What an earlier attack did not need is the later ones'.
            all_left = 60 * options.minutes - (time.monotonic() - started)
            left = max(all_left / (len(names) - number), 1.0)
        attack = ATTACKS[name]
        count = options.seeds or max(1, round(attack.target * options.scale))
        seeds = range(options.first, options.first + count)
        tallies.append(run_attack(name, seeds, attack.seconds, left))
        print(row(tallies[-1], count), flush=True)
        for seed, what in list(tallies[-1].failures.items())[:SHOWN]:
            print(f"  seed {seed}: {what}", file=sys.stderr, flush=True)
            print(
                f"  again: python -m tools.campaign '{name}' --first {seed} --seeds 1",
                file=sys.stderr,
            )
        if options.output is not None:
            told = [tally.to_json() for tally in tallies]
            options.output.write_text(json.dumps(told, indent=1) + "\n")
    failures = sum(len(tally.failures) for tally in tallies)
    print(f"{sum(tally.tried for tally in tallies):,} tried, {failures} failures")
    return 1 if failures else 0


def row(tally: Tally, wanted: int) -> str:
    """Return an attack's row of the table: seeds of how many, things tried, failures, outcomes."""
    outcomes = ", ".join(f"{what} {n:,}" for what, n in tally.outcomes.most_common())
    return (
        f"{tally.name:28} {tally.seeds:>9,} of {wanted:>9,} {tally.tried:>11,} tried "
        f"{len(tally.failures):>4} failures {tally.spent:>7.0f} s  {outcomes}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help="default: all of them")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the whole campaign")
    parser.add_argument("--minutes", type=float, help="for all of them together")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, help="how many seeds, in place of the campaign's")
    parser.add_argument("--output", type=Path, help="file for the counts, JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())

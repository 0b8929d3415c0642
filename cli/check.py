"""``cdec check``: which texts an artifact accepts, and where it refuses the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options.reading import CheckOptions as Options
from cdec.cli.options.shared import refuse_terminal, refuse_unused


def execute(options: Options, run: Run) -> int:
    """Say which texts an artifact accepts, and where not.

    A refused text comes with the first byte at which no member goes on (counted from 0), what was
    allowed there, and whether a member may end there; under a grammar also with line and column,
    the terminals that were awaited, the parser's stack and the rules under way. The exit status is
    0 whatever the verdicts.

    \b
    Examples:
      printf 'Paris\\nParys\\n' | cdec check
      cdec check cities.arrow -i samples.jsonl --field text | jq -c 'select(.valid | not)'
      cdec check json.arrow --whole -i document.json
      echo '{"a": [1, 2}' | cdec check json.arrow --explain
    """
    from cdec.cli.runs.check import check, explanation

    if options.token_ids:
        refuse_unused(("format", "field", "whole", "tokenizer"), run.typed, "with --token-ids")
    if options.whole:
        refuse_unused(("format", "field"), run.typed, "with --whole")
    if not options.explain:
        refuse_unused(("tokenizer", "json"), run.typed, "without --explain")
    if options.input == "-":
        refuse_terminal("texts", "give -i FILE, or pipe them in")
    if not options.explain:
        return check(options, run)
    steps = explanation(options, run)
    if not options.json:
        print_columns(run.console, _HEADER, [_explained_row(step) for step in steps])
        return 0
    for step in steps:
        print_json(run.console, step)
    return 0


_HEADER = ("byte", "token", "allowed", "forced", "ends", "reading", "stack")
_SHOWN_TERMINALS = 4


def _explained_row(step: Mapping[str, Any]) -> list[str]:
    """Return a step as cells under ``_HEADER``."""
    cells = [str(step["byte"]), f'"{step["token"]}"', f"{step['allowed_count']:,}"]
    cells += ["yes" if step["forced"] else "", "yes" if step["may_end"] else ""]
    if not step["is_allowed"]:
        allowed = ", ".join(f'"{piece}"' for piece in step["allowed"])
        wanted = " ".join(step["terminals"])
        reading = f"refused at byte {step['refused_byte']}; expected {wanted}; such as {allowed}"
    else:
        reading = " | ".join(_shown_reading(reading) for reading in step["readings"])
        hidden = step["readings_count"] - len(step["readings"])
        if hidden:
            reading += f" | ... {hidden} more"
    return [*cells, reading, " ".join(step["stack"])]


def _shown_reading(reading: Mapping[str, Any]) -> str:
    """Return the terminals that a reading may be inside of; those that begin next, if none."""
    names = _unique(reading["under_way"])
    lead = "in" if names else "before"
    names = _unique([name for name in reading["viable"] if not names or name in names])
    more = " ..." if len(names) > _SHOWN_TERMINALS else ""
    return f"{lead} {' '.join(names[:_SHOWN_TERMINALS]) or '(end)'}{more}"


def _unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))

"""``cdec check``: which texts an artifact accepts, and where it refuses the others."""

from __future__ import annotations

from cdec.cli.frame.command import Run
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options.reading import CheckOptions as Options
from cdec.cli.options.shared import refuse_terminal, refuse_unused


def execute(options: Options, run: Run) -> int:
    """Say which texts an artifact accepts, as JSON lines.

    A refused text comes with the first byte at which no member goes on (counted from 0), what was
    allowed there, and whether a member may end there; under a grammar also with line and column,
    the terminals that were awaited, the parser's stack and the rules under way. The exit status is
    0 whatever the verdicts.

    \b
    Examples:
      printf 'Paris\\nParys\\n' | cdec check cities.arrow
      cdec check cities.arrow -i samples.jsonl --field text | jq -c 'select(.valid | not)'
      cdec check json.arrow --whole -i document.json
      echo '{"a": [1, 2}' | cdec check json.arrow --explain
    """
    from cdec.cli.runs.check import explanation, verdicts

    if options.token_ids:
        refuse_unused(("format", "field", "whole", "tokenizer"), run.typed, "with --token-ids")
    if options.whole:
        refuse_unused(("format", "field"), run.typed, "with --whole")
    if not options.explain:
        refuse_unused(("tokenizer", "json"), run.typed, "without --explain")
    if options.input == "-":
        refuse_terminal("texts", "give -i FILE, or pipe them in")
    if options.explain and not options.json:
        from cdec.cli.texts.explain import HEADER, explained_row

        rows = [explained_row(step) for step in explanation(options, run.typed)]
        print_columns(run.console, HEADER, rows)
        return 0
    chosen = explanation if options.explain else verdicts
    for line in chosen(options, run.typed):
        print_json(run.console, line)
    return 0

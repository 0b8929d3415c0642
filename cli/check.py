"""``cdec check``: which texts an artifact accepts, and where it refuses the others."""

from __future__ import annotations

from cdec.cli.frame.command import Run
from cdec.cli.frame.summaries.explained import explained_lines
from cdec.cli.frame.tables import print_json
from cdec.cli.options.reading import CheckOptions as Options
from cdec.cli.options.shared import refuse_terminal, refuse_unused


def execute(options: Options, run: Run) -> int:
    """Say which texts an artifact accepts, and where not.

    A refused text comes with the first byte at which no member goes on (counted from 0), what was
    allowed there, and whether a member may end there; under a grammar also with line and column,
    the terminals that were awaited, the parser's stack and the rules under way. Under a schema a
    number that is spelled otherwise than masks write it is valid, and `reason` gives the spelling
    that is written. The exit status is 0 whatever the verdicts, and with --fail 1 where a text is
    invalid.

    \b
    Examples:
      printf 'Paris\\nParys\\n' | cdec check
      cdec check cities.arrow -i samples.jsonl --field text | jq -c 'select(.valid | not)'
      cdec check json.arrow --whole -i document.json
      cdec check json.arrow -i answers.txt --fail > verdicts.jsonl || echo "not all are JSON"
      echo '{"a": [1, 2}' | cdec check json.arrow --explain
    """
    from cdec.cli.runs.check import check, explanation

    if options.token_ids:
        refuse_unused(
            ("format", "field", "no_header", "whole", "tokenizer"), run.typed, "with --token-ids"
        )
    if options.whole:
        refuse_unused(("format", "field", "no_header"), run.typed, "with --whole")
    if options.explain:
        refuse_unused(("fail",), run.typed, "with --explain, which shows steps")
    else:
        refuse_unused(("tokenizer", "json"), run.typed, "without --explain")
    if options.input == "-":
        refuse_terminal("texts", "give -i FILE, or pipe them in")
    if not options.explain:
        return check(options, run)
    explained = explanation(options, run)
    if options.json:
        for step in explained.steps:
            print_json(run.console, step)
    else:
        for line in explained_lines(list(explained.steps), explained.patterns):
            run.console.data(line)
    return 0

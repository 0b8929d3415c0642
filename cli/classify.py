"""``cdec classify``: the probability of every label for every prompt."""

from __future__ import annotations

from cdec.cli.frame.command import Run
from cdec.cli.options.classifying import ClassifyOptions as Options


def execute(options: Options, run: Run) -> int:
    """Say how probable each of some labels is, for each prompt.

    Labels are those of --labels, the lines of LABELS, the members of -a ARTIFACT, or the
    `candidates` of a record, which need no artifact. For each prompt one JSON line: `label`, the
    best one; `labels`, each with its `probability` among them, which sum to 1, and its `logprob`;
    `log_mass`, the log of what the model gives to all of them together. All labels go through the
    model at once; nothing is drawn.

    The probability of a label is that of its usual tokens and of the end of the text behind them,
    or of --suffix. Long labels have less than short ones; --calibrate contextual divides by what
    they have without content.

    \b
    Examples:
      cdec classify --labels positive,negative --prompt "Great film. Sentiment:"
      cdec classify labels.txt -i r.jsonl --template r.txt --top 3
      cdec classify labels.txt -i r.jsonl --template r.txt --calibrate contextual
      cdec classify -a titles.arrow -i queries.txt --top 5 --format csv > ranked.csv
      echo '{"prompt": "The capital of France is", "candidates": ["Paris", "Lyon"]}' |
        cdec classify
    """
    from cdec.cli.runs.classify.run import classify

    return classify(options, run)

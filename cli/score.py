"""``cdec score``: what a model and an artifact say of given texts."""

from __future__ import annotations

from cdec.cli.frame.command import Run
from cdec.cli.options.scoring import ScoreOptions as Options


def execute(options: Options, run: Run) -> int:
    """Say how probable given texts are.

    Texts are lines, or JSONL records with `text` or `token_ids` (scored as they are), as cdec
    sample writes them. Each JSON line has `logprob` (the end of the text is an event), `perplexity`
    (exp(-logprob / events)), `tokens`; with an artifact also `log_z_sum` (sum of log Z over the
    events), `log_masked` (masked decoding draws the text with this probability), `member`, `valid`
    (an independent check), `first_refused` of non-members, and certified bounds of the mass P(S)
    (`log_mass_lower`, `log_mass_upper`) and of Q = P / P(S) (`probability_lower`,
    `probability_upper`, and `probability` where they close). Logarithms are natural.

    Give --temperature, --top-k, --top-p, --deny, --and, --lookahead and --heal as the samples were
    drawn with, and --template with --prompts.

    Consecutive records of one prompt (up to 10000) share their bounds. A bad record becomes an
    error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec score -a titles.arrow -i samples.jsonl --prompt "Question: Which city is it?"
      cdec sample -a set.arrow -i q.jsonl | cdec score -a set.arrow --prompts q.jsonl
      cdec score -m gpt2 -i texts.txt --prompt "A text: " --no-end | jq .perplexity
    """
    from cdec.cli.runs.score import score

    return score(options, run)

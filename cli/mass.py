"""``cdec mass``: how much of a model's mass satisfies an artifact."""

from __future__ import annotations

from cdec.cli.frame.command import Run
from cdec.cli.options.scoring import MassOptions as Options


def execute(options: Options, run: Run) -> int:
    """Say how much of a model's mass satisfies an artifact.

    For each prompt one JSON line (on a terminal, one row of a table): `mass`, which is P(S), S
    being sequences of tokens (of a set each member in the tokenizer's own tokens, else every
    tokenisation), with its logarithm and standard error, from --candidates texts drawn as cdec
    sample --method asap draws them; `mass_lower` and `mass_upper`, certified for this model: what
    was found, and what is not excluded, widened by rounding; `log_mass_unclipped`, to average over
    prompts; `length_mass_upper`, an upper bound (estimated) of the share of it beyond the length
    limit. Logarithms are natural.

    A bad record becomes an error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec mass -a json.arrow --prompt "A JSON object:"
      cdec mass -a titles.arrow -i prompts.jsonl --candidates 1000 | jq .mass
      cdec mass -a cities.arrow --and short.arrow --prompt "A city:" --until-converged 0.01
      cdec mass -a sql.arrow --prompt "SELECT" --tree select.arrow
    """
    from cdec.cli.runs.mass import measure

    return measure(options, run)

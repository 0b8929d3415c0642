"""``cdec sample``: artifact, model and prompts become samples."""

from __future__ import annotations

from cdec.cli.frame.command import Run
from cdec.cli.options.engine import check_engine
from cdec.cli.options.sampling import SampleOptions as Options


def execute(options: Options, run: Run) -> int:
    """Draw samples that satisfy a constraint, as JSON lines.

    Prompts are text lines or JSONL records with `prompt` or `messages`, and optionally `id`, `n`,
    `seed`, `temperature`, `max_tokens`, and a constraint of their own: `constraint`, `candidates`
    or the text of a `grammar`. A bad record becomes an error object in its place, and the exit
    status is 3.

    \b
    Examples:
      cdec sample -a titles.arrow --prompt "Question: Which city is it?"
      cdec sample --schema person.json --method greedy --prompt "A person:"
      cdec sample -a titles.arrow -i prompts.jsonl -o samples.jsonl --resume
      cdec sample -a titles.arrow -n 8 --K 8 < prompts.jsonl | jq -r .text
      jq -c --rawfile g json.lark '.grammar = $g' prompts.jsonl | cdec sample
    """
    check_engine(options.dealing, run.typed)
    if options.dealing.engine == "ray":
        from cdec.cli.runs.parts import sample_parts

        return sample_parts(options, run)
    from cdec.cli.runs.sample import sample

    return sample(options, run)

"""What ``cdec sample`` refuses before it opens anything that costs time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.model import refuse_revision
from cdec.cli.runs.constraints import needs_artifact
from cdec.cli.runs.method import WITHOUT_CONSTRAINT
from cdec.cli.runs.run_checks import check_counts, check_prompts, check_warping, parse_fields
from cdec.core.errors import OutputExistsError, UsageError

if TYPE_CHECKING:
    from cdec.cli.sample import Options

KNOWN_FIELDS = (
    *("schema_version", "id", "index", "text", "token_ids", "entity_ids"),
    *("logprob", "log_weight", "log_candidate_weight", "finish_reason", "valid"),
    *("method", "exactness", "seed", "draws", "accepted", "iteration"),
    *("log_mass", "log_mass_se", "log_mass_lower", "log_mass_upper", "ess", "missed_mass"),
    *("path_evaluations", "particles", "resamplings", "rank", "proved"),
    *("log_q_lower", "log_q_upper", "log_text", "tokenisations"),
    *("target_calls", "target_tokens", "draft_calls", "distinct_evaluations"),
    *("acceptance_rate", "kl_spent", "round", "length_mass", "accepted_length"),
    *("cost_per_token", "scenario_counts", "reward"),
    *("satisfaction_soft", "satisfaction_hard", "lookahead", "input"),
)
"""Every field that a sample of any method can have."""


_PROBABLE = frozenset({"greedy", "cdlh", "cdlh-approx", "cdsl"})
"""Methods that take the most probable tokens anyway."""


def check_options(options: Options, typed: frozenset[str]) -> None:
    """Refuse values out of range and options that contradict each other.

    Raises:
        UsageError: Also for prompts awaited from a terminal, and for a run without an artifact.
    """
    check_counts(options, n=1, max_n=1)
    check_warping(options, instead=_greedily(options))
    refuse_revision(options.model, typed)
    if options.resume and options.force:
        raise UsageError("--resume continues a file, --force replaces it", hint="give one of them")
    if options.resume and options.output is None:
        raise UsageError("--resume needs an output file", hint="name it with -o FILE")
    is_free = options.artifact or options.constraint or options.method in WITHOUT_CONSTRAINT
    needed = None if is_free else needs_constraint(options)
    check_prompts(options, typed, unconstrained=needed)


def needs_constraint(options: Options) -> UsageError:
    """Return the error of a run whose method needs an artifact."""
    return needs_artifact(f"--method {options.method}", "cdec sample")


def _greedily(options: Options) -> str:
    """Say how the most probable tokens are had."""
    if options.greedy or options.method in _PROBABLE:
        return "leave --temperature out: the most probable tokens are taken at any temperature"
    instead = {"speculative": "--greedy", "mentored": "--method speculative --greedy"}
    words = instead.get(options.method, "--method greedy")
    return f"give {words} in its place, for the most probable allowed token at each step"


def kept_fields(options: Options) -> Sequence[str] | None:
    """Return the names in ``--fields``; None keeps every field.

    Raises:
        UsageError: An unknown name, or ``--resume`` without the fields it goes by.
    """
    names = parse_fields(options.fields, KNOWN_FIELDS, "sample")
    if names is not None and options.resume and not {"id", "index"} <= set(names):
        raise UsageError(
            f"--fields is {options.fields!r}, without id and index, by which --resume goes",
            hint="name these two as well",
        )
    return names


def refuse_output(options: Options) -> None:
    """Refuse an output that is an input, or that exists, before the model is loaded.

    Raises:
        UsageError: The output is one of the files the run reads.
        OutputExistsError: It is there, and neither ``--force`` nor ``--resume`` was given.
    """
    output = options.output
    if output is None or not output.is_file():
        return
    for path in inputs(options):
        if Path(path).exists() and output.samefile(path):
            raise UsageError(
                f"{output} would be the output and is an input", hint="name another file with -o"
            )
    if not (options.force or options.resume):
        raise OutputExistsError(
            f"{output} exists",
            hint="continue it with --resume, replace it with --force, or name another file",
            path=str(output),
        )


def inputs(options: Options) -> list[str]:
    """Return the files that a run reads."""
    named = [pair.partition("=")[2] for pair in options.constraint]
    optional = (options.artifact, options.template, options.deny, options.counts)
    return [
        *([] if options.prompt else [options.input]),
        *named,
        *map(str, options.conjoined),
        *(str(path) for path in optional if path is not None),
    ]

"""What ``cdec sample`` refuses before it opens anything that costs time."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.constraints import HOW_TO
from cdec.cli.method import WITHOUT_CONSTRAINT
from cdec.cli.model_options import refuse_revision
from cdec.cli.option_names import in_typed_words
from cdec.cli.options import refuse_terminal, require_count
from cdec.core.errors import OutputExistsError, UsageError
from cdec.core.warping import Warping

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


_WARPING = {"temperature": "--temperature", "top_k": "--top-k", "top_p": "--top-p"}
_PROBABLE = frozenset({"greedy", "cdlh", "cdlh-approx", "cdsl"})
"""Methods that take the most probable tokens anyway."""


def check_options(options: Options, typed: frozenset[str]) -> None:
    """Refuse values out of range and options that contradict each other.

    Raises:
        UsageError: Also for prompts awaited from a terminal, and for a run without an artifact.
    """
    for value, least, flag in (
        (options.n, 1, "--n"),
        (options.batch_size, 1, "--batch-size"),
        (options.max_new_tokens, 1, "--max-new-tokens"),
        (options.max_n, 1, "--max-n"),
        (options.lookahead, 0, "--lookahead"),
        (options.max_line_bytes, 1, "--max-line-bytes"),
        (options.seed, 0, "--seed"),
    ):
        require_count(value, least, flag)
    _check_warping(options)
    refuse_revision(options.model, typed)
    if options.resume and options.force:
        raise UsageError("--resume continues a file, --force replaces it", hint="give one of them")
    if options.resume and options.output is None:
        raise UsageError("--resume needs an output file", hint="name it with -o FILE")
    if options.prompt and "input" in typed:
        raise UsageError("--prompt and --input were both given", hint="give one of them")
    has_artifact = options.artifact or options.constraint
    # Records of an input may bring grammars of their own: the first of them is looked at later.
    if options.prompt and not (has_artifact or options.method in WITHOUT_CONSTRAINT):
        raise UsageError(f"--method {options.method} needs an artifact", hint=HOW_TO)
    if not options.prompt and options.input == "-":
        refuse_terminal(
            "prompts (text or JSONL lines)", "give --prompt TEXT or -i FILE, or pipe them in"
        )


def _check_warping(options: Options) -> None:
    """Refuse a distribution that the model would refuse, which must not cost an existing output.

    Raises:
        UsageError: Temperature, top-k or top-p is out of range.
    """
    if options.temperature == 0:
        raise UsageError("--temperature is 0, which gives no distribution", hint=_greedily(options))
    try:
        with in_typed_words(_WARPING):
            Warping(options.temperature, options.top_k, options.top_p)
    except UsageError as error:
        error.hint = error.hint or "leave it out for the model's own distribution"
        raise


def _greedily(options: Options) -> str:
    """Say how the most probable tokens are had."""
    if options.greedy or options.method in _PROBABLE:
        return "leave --temperature out: the most probable tokens are taken at any temperature"
    instead = {"speculative": "--greedy", "mentored": "--method speculative --greedy"}
    words = instead.get(options.method, "--method greedy")
    return f"give {words} in its place, for the most probable allowed token at each step"


def parse_fields(options: Options) -> Sequence[str] | None:
    """Return the names in ``--fields``; None keeps every field.

    Raises:
        UsageError: An unknown name, or ``--resume`` without the fields it goes by.
    """
    if options.fields is None:
        return None
    names = [name.strip() for name in options.fields.split(",") if name.strip()]
    for name in names:
        if name not in KNOWN_FIELDS:
            close = get_close_matches(name, KNOWN_FIELDS, n=1)
            raise UsageError(
                f"--fields has {name!r}, which no sample has",
                hint=f"did you mean {close[0]!r}?" if close else ", ".join(KNOWN_FIELDS),
            )
    if not names or (options.resume and not {"id", "index"} <= set(names)):
        raise UsageError(
            f"--fields is {options.fields!r}" + (", without id and index" if names else ""),
            hint="name fields, id and index among them where the run may be resumed",
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

"""What every exit status of ``cdec`` means."""

from __future__ import annotations

EXIT_STATUSES: dict[int, str] = {
    0: "All went well.",
    1: "`cdec check --fail` found a text that is invalid.",
    2: "The command line makes no sense.",
    3: "The run went on past records that became error objects, or that are not complete where "
    "`--require-complete` asks for it.",
    65: "Input, an artifact, or what a run resumes is not what it should be; a reward failed "
    "with `--strict`.",
    66: "An input does not exist or cannot be read.",
    69: "A model or an optional package cannot be had, or a model is not trusted.",
    70: "A fault of cdec: run again with `--debug` and report the traceback.",
    73: "An output exists: `--force` replaces it, `--resume` goes on with it.",
    74: "Reading or writing failed.",
    75: "A limit was passed, memory is used up, or another process writes the same output.",
    78: "`cdec.toml` is wrong.",
    130: "Interrupted (Ctrl-C); what is written is whole.",
    141: "Whoever read the output went away (`| head`).",
    143: "Terminated; what is written is whole.",
}
"""Exit status → what happened; every error class states its own."""

"""``cdec compile-regex``: a regular expression becomes a grammar artifact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdec.cli.compiling.grammar_record import recorded_grammar
from cdec.cli.compiling.in_child import Job, compile_one
from cdec.cli.compiling.reading import read_whole
from cdec.cli.frame.command import Run
from cdec.cli.frame.summaries import regex_rows
from cdec.cli.options import shared
from cdec.cli.options.compiling import CompileOptions, require_output, unnamed_output
from cdec.cli.options.shared import require_utf8
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import UNNAMED
from cdec.core.errors import UsageError
from cdec.core.options import limits, option


@dataclass(frozen=True, kw_only=True)
class Options(CompileOptions):
    """Options of ``cdec compile-regex``; the documented defaults stand here."""

    pattern: str | None = option(
        None,
        "A regular expression, in the syntax of Python's re.",
        metavar="PATTERN",
        positional=True,
    )
    file: Path | None = option(
        None,
        "Read the pattern from a file (`-` is stdin), but for the line break at its end.",
        shared.INPUT,
        metavar="FILE",
        common=True,
    )
    conjoined: list[str] = option(
        [],
        "Another pattern that texts match as a whole; repeatable.",
        shared.CONSTRAINT,
        metavar="PATTERN",
        common=True,
    )
    deny_regex: list[str] = option(
        [],
        "A pattern that no text matches as a whole; repeatable.",
        shared.CONSTRAINT,
        metavar="PATTERN",
        common=True,
    )
    grammar_limits: GrammarLimits = limits(GrammarLimits(), shared.LIMITS)


def execute(options: Options, run: Run) -> int:
    """Compile a regular expression into an artifact.

    Texts are those that the pattern matches as a whole (re.fullmatch): anchors at the ends say
    nothing, lazy quantifiers read as greedy ones. Flags stand inside: (?i) (?s) (?a) for ASCII.
    Look-around and back-references are refused. Checking and drawing take linear time, whatever the
    pattern. The summary goes to stdout, warnings to stderr.

    \b
    Examples:
      cdec compile-regex '\\d{4}-\\d{2}-\\d{2}' -o date.arrow
      cdec compile-regex '(?i)yes|no' --tokenizer gpt2 -o answer.arrow
      cdec compile-regex '[A-Z]{1,3}-\\d{1,4}' --deny-regex '(HJ|KZ|SA|SS)-.*' -o plate.arrow
      cdec compile-regex --file plate.re --and '.{5,8}'
    """
    from cdec.compilers.grammars.options import regex_options

    name, data = _source(options)
    conjoined = [require_utf8(pattern, "--and") for pattern in options.conjoined]
    denied = [require_utf8(pattern, "--deny-regex") for pattern in options.deny_regex]
    job = Job(
        kind="grammar",
        data=data,
        output=_output(options),
        compiled_with=regex_options(conjoined, denied, limits=options.grammar_limits, name=name),
        recorded=recorded_grammar,
        rows=regex_rows,
    )
    return compile_one(job, options, run)


def _source(options: Options) -> tuple[str, bytes]:
    """Return what the pattern is called, and the pattern."""
    if (options.pattern is None) == (options.file is None):
        found = "none was" if options.pattern is None else "the argument and --file were"
        raise UsageError(
            f"expected one pattern, and {found} given",
            hint="type it in quotes: cdec compile-regex 'PATTERN' -o NAME.arrow; or give --file",
        )
    if options.pattern is not None:
        return UNNAMED, require_utf8(options.pattern, "PATTERN").encode()
    name = str(options.file)
    data = read_whole(name, options.grammar_limits.max_grammar_bytes, "max_grammar_bytes")
    data = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").removesuffix(b"\r")
    return "stdin" if name == "-" else name, data


def _output(options: Options) -> Path:
    if options.output is not None:
        return require_output(options.output, str(options.file or "-"))
    if options.file is None:
        raise UsageError(
            "no output was named, and a pattern has no file name to go by",
            hint="type the artifact's name: -o NAME.arrow",
        )
    if str(options.file) == "-":
        raise unnamed_output("the pattern comes", "compile-regex --file")
    return require_output(options.file.with_suffix(".arrow"), str(options.file))

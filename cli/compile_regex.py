"""``cdec compile-regex``: a regular expression becomes a grammar artifact."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.compile_grammar import recorded_grammar
from cdec.cli.compiling.jobs import CompileOptions, TextJob, compile_one
from cdec.cli.compiling.sources import output_path, read_whole
from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import limits, option
from cdec.cli.frame.kinds import (
    CompileCommand,
    Described,
    Rows,
    count,
    part,
    piped,
    shown_seconds,
    shown_soundness,
    source_name,
)
from cdec.cli.frame.tables import shown_bytes
from cdec.cli.options import shared
from cdec.cli.options.shared import require_utf8
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import UNNAMED, regex_options
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport

_SHOWN = 60
"""Characters of a pattern."""


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
    name, data = _source(options)
    conjoined = [require_utf8(pattern, "--and") for pattern in options.conjoined]
    denied = [require_utf8(pattern, "--deny-regex") for pattern in options.deny_regex]
    job = TextJob(
        command=REGEXES,
        options=options,
        run=run,
        data=data,
        output=_output(options),
        compiled_with=regex_options(conjoined, denied, limits=options.grammar_limits, name=name),
    )
    return compile_one(job)


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
    if options.output is None and options.file is None:
        raise UsageError(
            "no output was named, and a pattern has no file name to go by",
            hint="type the artifact's name: -o NAME.arrow",
        )
    source = str(options.file or "-")
    beside = None if source == "-" else Path(source).with_suffix(".arrow")
    return output_path(options.output, beside, source, "the pattern comes", "compile-regex --file")


def _rows(report: GrammarReport) -> Rows:
    counts = report.counts
    return [
        ("artifact", str(report.path)),
        ("states", f"{counts['scanner_states']:,}, {counts['byte_classes']:,} classes of bytes"),
        ("sound", _soundness(is_sound=report.is_sound, reason=report.sound_reason)),
        ("token groups", f"{counts['groups']:,}"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", shown_seconds(report)),
    ]


def _soundness(*, is_sound: bool, reason: str) -> str:
    """Return the finding about soundness: there is neither parser nor lexer to speak of."""
    return shown_soundness(is_sound=is_sound, reason="" if is_sound else reason)


def _overview(described: Described) -> tuple[str, Rows]:
    options = part(described, "options")
    is_sound, reason = bool(described.get("sound")), str(described.get("sound_reason", ""))
    return f"the regular expression {_shortened(described['grammar'])}", [
        *(("and", _shortened(pattern)) for pattern in options.get("conjoined", ())),
        *(("but not", _shortened(pattern)) for pattern in options.get("deny_regex", ())),
        ("states", count(part(described, "counts"), "scanner_states")),
        ("sound", _soundness(is_sound=is_sound, reason=reason)),
    ]


def _shortened(pattern: str) -> str:
    return pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "..."


def _again(path: Path, described: Described) -> str:
    options, name = described["options"], source_name(described)
    is_there = name is not None and Path(name).is_file()
    words = ["cdec", "compile-regex", "--file", str(name) if is_there else "-"]
    for flag, key in (("--and", "conjoined"), ("--deny-regex", "deny_regex")):
        words += [f"{flag}={pattern}" for pattern in options[key]]
    return shlex.join(words) if is_there else piped(path, "grammar", words)


REGEXES = CompileCommand(
    kind="grammar",
    rows=_rows,
    recorded=recorded_grammar,
    overview=_overview,
    again=_again,
)

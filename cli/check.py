"""``cdec check``: which texts an artifact accepts, and where it refuses the others."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import SOME_TEXTS_INVALID, Run
from cdec.cli.frame.console import escape
from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.frame.tables import WIDTH, print_json
from cdec.cli.options import shared
from cdec.cli.options.calling import ToolOptions
from cdec.cli.options.one_line import OneLineOptions
from cdec.cli.options.quoting import SpanOfOptions
from cdec.cli.options.shared import refuse_terminal, refuse_unused
from cdec.cli.options.texts import TextFormatOptions
from cdec.cli.runs.artifacts import (
    bind_for,
    found_artifact,
    parse_named,
    read_artifact,
    require_terminals,
)
from cdec.cli.runs.documents import verdicts_of_documents
from cdec.cli.runs.loop import Loop
from cdec.cli.runs.tally import Tally
from cdec.core.errors import DataError, EncodingError, FieldError, JsonError, Notice, UsageError
from cdec.core.files.remote import Place
from cdec.core.kinds import CALLS
from cdec.core.kinds import found as found_at
from cdec.core.progress import Progress, silent
from cdec.integrations.records.tasks import Task, batches

if TYPE_CHECKING:
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.constraint import Constraint
    from cdec.core.sets.quotes import SpanField
    from cdec.data.prompts.record import BadRecord, Format
    from cdec.data.prompts.texts import ScoreRecord


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec check``; the documented defaults stand here."""

    texts: TextFormatOptions = group(TextFormatOptions)
    artifact: Place | None = shared.artifact_argument()
    one_line: OneLineOptions = group(OneLineOptions)
    calling: ToolOptions = group(ToolOptions)
    input: str = option(
        "-", "Texts, one a line; `-` is stdin.", shared.INPUT, metavar="FILE", common=True
    )
    whole: bool = option(
        False,
        "The input is one text; one newline at its end is not part of it.",
        shared.INPUT,
        common=True,
    )
    token_ids: bool = option(
        False, "The input is one JSON array of token ids a line.", shared.INPUT
    )
    allowed: int = option(
        10,
        "How many of the continuations that were allowed to show.",
        shared.OUTPUT,
        at_least=0,
        at_most=math.inf,
    )
    sets: list[str] = shared.sets_option()
    quoting: SpanOfOptions = group(SpanOfOptions)
    copy: bool = shared.copy_option()
    lookahead: int | None = shared.lookahead_option()
    max_new_tokens: int | None = option(
        None,
        "Texts of which no spelling is drawn by --fit with this number are invalid.",
        shared.CONSTRAINT,
        at_least=0,
    )
    canonical: bool = option(
        False,
        "Token ids that are not those of --tokenizer for their text are invalid.",
        shared.CONSTRAINT,
    )
    templated: bool = option(
        False,
        "Token ids that cross the border of a fixed part, or spell it otherwise than --tokenizer "
        "does, are invalid.",
        shared.CONSTRAINT,
    )
    explain: bool = option(
        False, "Grammars: step through one text, token by token.", shared.OUTPUT, common=True
    )
    tokenizer: str | None = option(
        None,
        "Cuts the text of --explain (the longest tokens from the left if not given), and is what "
        "a source in an artifact's place is compiled for (the embedded model's if not given).",
        shared.MODEL,
        metavar="NAME_OR_PATH",
    )
    json: bool = option(
        False,
        "Print --explain as JSON lines; without it the summary, on stderr, as a JSON object.",
        shared.OUTPUT,
    )
    fail: bool = option(
        False, "End with exit status 1 where a text is invalid.", shared.OUTPUT, common=True
    )
    progress: bool | None = shared.progress_option()

    @property
    def has_source(self) -> bool:
        """True where a source stands in an artifact's place, which is compiled here."""
        return bool(self.one_line.flags) or self.calling.tools is not None

    @property
    def is_respelled(self) -> bool:
        """True where texts must have the tokens of a tokenizer, or their fixed parts must."""
        return self.canonical or self.templated


_SHOWN_TERMINALS = 4
_WIDEST_TOKEN = 16
_WIDEST_STACK = 22


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
    if options.token_ids:
        tokenizer = () if options.is_respelled or options.has_source else ("tokenizer",)
        unused = ("format", "field", "no_header", "whole", *tokenizer)
        refuse_unused(unused, run.typed, "with --token-ids")
    if options.whole:
        refuse_unused(("format", "field", "no_header"), run.typed, "with --whole")
    if options.explain:
        refuse_unused(
            ("fail", "max_new_tokens", "canonical", "templated"),
            run.typed,
            "with --explain, which shows steps",
        )
    elif not (options.has_source or options.is_respelled or options.quoting.span_of):
        refuse_unused(("tokenizer",), run.typed, "without --explain, --canonical or --templated")
    options.quoting.refuse_unused(run.typed, options.one_line.spans_of)
    options.calling.refuse_unused(run.typed)
    if options.calling.tools is None:
        refuse_unused(("tool_style",), run.typed, "without --tools")
    else:
        refuse_unused(_NOT_OF_CALLS, run.typed, "with --tools")
    if options.quoting.span_of is not None or options.quoting.span:
        refuse_unused(_OF_A_TEXT, run.typed, "where texts quote documents of their records")
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


_TERMINALS_ONLY = ("explain", "lookahead")
_NOT_OF_CALLS = (
    *("explain", "lookahead", "max_new_tokens", "canonical", "templated", "sets", "span", "copy"),
)
"""Options of artifacts; calls of tools are compiled for this run."""
_OF_A_TEXT = ("whole", "token_ids", "explain")
"""Options of texts that come without the other fields of a record."""


def check(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status.

    Raises:
        UsageError: An option that this kind of artifact has no use for.
    """
    from cdec.data.rows.count import count_records

    total = None if options.whole else count_records(options.input)
    with run.console.stage(f"opening {options.artifact or 'the constraint'}") as progress:
        verdicts = _told_of_lines(_verdicts(options, run, progress), run)
    tally = Tally()
    loop = Loop(
        # A verdict is made when its task is: sessions go on from text to text.
        work=lambda tasks: [task.request for task in tasks],
        records=partial(_counted, tally),
        write=partial(print_json, run.console),
        strict=True,
        phase="checking",
        total=total,
        json=options.json,
        tally=tally,
    )
    status = loop.over(batches((Task(None, verdict) for verdict in verdicts), 1), run)
    is_failed = options.fail and tally.verdicts["invalid"] and not status
    return SOME_TEXTS_INVALID if is_failed else status


def _counted(tally: Tally, task: Task, verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """Count a verdict, and return it; one that a limit kept from being made is an error."""
    tally.judge(verdict["valid"])
    tally.errors += "error" in verdict
    return [verdict]


def _told_of_lines(verdicts: Iterator[dict[str, Any]], run: Run) -> Iterator[dict[str, Any]]:
    """Yield the verdicts; say so at the end where a text over several lines was read as several."""
    count, is_cut = 0, False
    for verdict in verdicts:
        if not count and "text" in verdict:
            # A document's first line alone is refused at its end.
            is_cut = verdict.get("byte") == len(verdict["text"].encode()) and "stack" in verdict
        count += 1
        yield verdict
    if is_cut and count > 1:
        message = (
            f"{count} lines were checked as {count} texts, and the first breaks off at its end"
        )
        run.console.warn([Notice("W_LINES", f"{message}; `whole` takes the input as one text")])


def _verdicts(options: Options, run: Run, progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield what the artifact says of each text, or token row, of the input."""
    from cdec.core.constraint import no_set, text_verdicts, token_verdicts
    from cdec.core.sets.quotes import quoted_fields

    if options.calling.tools is not None:
        called: Constraint = found_at(CALLS)(options, run)
        if options.token_ids:
            rows = run.clock.reading(_token_rows(options))
            return token_verdicts(called, rows, shown=options.allowed)
        texts = run.clock.reading(_texts(options, is_list=False))
        return text_verdicts(called, texts, shown=options.allowed)
    if options.quoting.spans is not None:
        return _pieces(options, run, options.quoting.spans)
    constraint = _constraint(options, run, run.typed, progress)
    quotes = options.quoting.quotes
    unknown = [name for name in quotes if name not in constraint.set_names]
    if unknown:
        raise no_set(constraint, unknown[0])
    fields = quoted_fields(constraint, quotes)
    if fields:
        refuse_unused(_OF_A_TEXT, run.typed, "where texts quote documents of their records")

        def made(documents: Mapping[str, str]) -> Constraint:
            return _held(_with_documents(constraint, fields, documents), options)

        return verdicts_of_documents(_records(options, run), fields, made, options.allowed)
    held = _held(constraint, options)
    if options.token_ids:
        return token_verdicts(held, run.clock.reading(_token_rows(options)), shown=options.allowed)
    texts = run.clock.reading(_texts(options, is_list=constraint.listed is not None))
    if constraint.listed is not None:
        # Members are texts, so bytes that are none have no place where they are refused.
        texts = (_decoded(text).encode() for text in texts)
    return text_verdicts(held, texts, shown=options.allowed)


def _held(constraint: Constraint, options: Options) -> Constraint:
    """Return a constraint held to the tokens, and to the number of them, that texts may have."""
    from cdec.core.combine.canonical import canonical
    from cdec.core.combine.fitting import fit
    from cdec.core.combine.templated import templated

    held: Constraint = canonical(constraint) if options.canonical else constraint
    held = templated(held) if options.templated else held
    return held if options.max_new_tokens is None else fit(held, options.max_new_tokens)


_RECORD_FORMATS: dict[str, Format] = {
    "auto": "auto",
    "text": "lines",
    "json": "json",
    "jsonl": "jsonl",
    "csv": "csv",
}
"""Formats of texts, and what records are read by."""


def _records(options: Options, run: Run) -> Iterator[ScoreRecord | BadRecord]:
    """Yield the texts of the input with the fields of their records.

    Raises:
        UsageError: They stand in a format that is read for texts alone.
    """
    from cdec.data.prompts.texts import read_scored

    if options.texts.format not in _RECORD_FORMATS:
        raise UsageError(
            f"records with their documents are not read from {options.texts.format}",
            hint=f"give one of {', '.join(_RECORD_FORMATS)}",
        )
    found = read_scored(
        options.input,
        field=options.texts.field or "text",
        format=_RECORD_FORMATS[options.texts.format],
        no_header=options.texts.no_header,
    )
    return run.clock.reading(found)


def _with_documents(
    constraint: StoredConstraint, fields: Mapping[str, SpanField], documents: Mapping[str, str]
) -> StoredConstraint:
    """Return a constraint with the pieces of some documents within it."""
    from cdec.core.sets.quotes import DocumentPieces

    return constraint.with_sets(
        {name: DocumentPieces(document, fields[name]) for name, document in documents.items()}
    )


def _pieces(options: Options, run: Run, of: SpanField) -> Iterator[dict[str, Any]]:
    """Yield what the documents of records say of their texts.

    Raises:
        UsageError: An artifact, or a source in its place, is given as well.
    """
    from cdec.cli.runs.tokenizer import load_vocabulary
    from cdec.core.sets.spans import SpanConstraint

    if options.artifact is not None or options.one_line.flags:
        raise UsageError(
            "--span-of and an artifact each say what texts are held to", hint="give one of them"
        )
    refuse_unused(("sets", "lookahead"), run.typed, "with --span-of")
    vocabulary, _ = load_vocabulary(options.tokenizer, None, None)

    def made(documents: Mapping[str, str]) -> Constraint:
        pieces = SpanConstraint(documents[of.name], vocabulary, of.options, of.name)
        return _held(pieces, options)

    return verdicts_of_documents(_records(options, run), {of.name: of}, made, options.allowed)


@dataclass(frozen=True)
class Explanation:
    """A text's way through a grammar.

    Attributes:
        steps: One a token.
        patterns: Regular expressions of the terminals that are named in it.
    """

    steps: Iterator[dict[str, Any]]
    patterns: Mapping[str, str]


def explanation(options: Options, run: Run) -> Explanation:
    """Return the steps of the input's one text through a grammar.

    Raises:
        UsageError: An artifact without terminals, or an input of no or several texts.
    """
    from cdec.core.tokens.token_trie import longest_tokens

    constraint = _constraint(options, run, run.typed | {"explain"})
    if options.token_ids:
        row = _only(_token_rows(options), "row of token ids")
    else:
        text = _only(_texts(options, is_list=False), "text")
        if options.tokenizer is None:
            row = longest_tokens(constraint.vocabulary, text)
        else:
            (row,) = constraint.vocabulary.encode([_decoded(text)])
    return Explanation(constraint.explain(row, shown=options.allowed), constraint.terminal_patterns)


def _constraint(
    options: Options, run: Run, typed: frozenset[str], progress: Progress = silent
) -> StoredConstraint:
    from cdec.cli.runs.tokenizer import load_vocabulary
    from cdec.core.artifacts.opened import constraint_class

    given = options.one_line.constraint(
        options.artifact,
        is_stdin_read=options.input == "-",
        tokenizer=options.tokenizer,
        compiled_with={"spans": options.quoting.pieces},
    )
    place = found_artifact(run, "cdec check") if given is None else given
    file = read_artifact(place, run, options.copy, progress=progress)
    if not constraint_class(file.kind).of_kind.has_terminals:
        refuse_unused(_TERMINALS_ONLY, typed, f"to a {file.kind} artifact")
    elif "lookahead" in typed:
        require_terminals(file)
    vocabulary = None
    if options.tokenizer is not None:
        vocabulary, _ = load_vocabulary(options.tokenizer, None, None)
    constraint = bind_for(file, vocabulary)
    if options.sets or constraint.set_names:
        constraint = constraint.with_sets(parse_named(options.sets, "--set"))
    if options.lookahead is None:
        return constraint
    return constraint.with_lookahead(options.lookahead)


def _token_rows(options: Options) -> Iterator[Any]:
    from cdec.data.entities.source import read_token_rows

    return (row for batch in read_token_rows(options.input) for row in batch.rows)


def _texts(options: Options, *, is_list: bool) -> Iterator[bytes]:
    """Yield the texts of the input, or all of it as one."""
    if options.whole:
        yield _whole(options.input)
        return
    from cdec.data.entities.source import read_entities

    try:
        for batch in read_entities(
            options.input,
            format=options.texts.format,
            field=options.texts.field,
            no_header=options.texts.no_header,
        ):
            yield from (text.encode() for text in batch.texts)
    except (JsonError, FieldError) as error:
        if options.texts.format == "auto" and not is_list:
            error.hint = f"give --whole to check the input as one text; or {error.hint}"
        raise


def _whole(source: str) -> bytes:
    """Return an input as it is, but for a final newline, which editors put there."""
    from cdec.data.input.source import open_source

    with open_source(source) as stream:
        data = stream.read()
    return data.removesuffix(b"\r\n") if data.endswith(b"\r\n") else data.removesuffix(b"\n")


def _decoded(text: bytes) -> str:
    """Return a text where bytes will not do."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"byte {error.start + 1} of the text is not valid UTF-8",
            hint="save the text as UTF-8",
            byte_offset=error.start + 1,
        ) from None


def _only(items: Iterable[Any], what: str) -> Any:
    """Return the one item there is.

    Raises:
        DataError: None.
        UsageError: More than one.
    """
    iterator = iter(items)
    first, second = next(iterator, None), next(iterator, None)
    if first is None:
        raise DataError(f"the input holds no {what}", hint=f"give one {what} on stdin or with -i")
    if second is not None:
        raise UsageError(
            f"--explain steps through one {what}, and the input holds more",
            hint="give one line, or --whole to take the input as one text",
        )
    return first


_SHOWN_TERMINALS = 4
_WIDEST_TOKEN = 16
_WIDEST_STACK = 22


def explained_lines(
    steps: Sequence[Mapping[str, Any]], patterns: Mapping[str, str]
) -> Iterator[str]:
    """Yield a table of the steps; below it where and why a token is refused, and the terminals.

    Args:
        steps: As ``StoredConstraint.explain`` yields them.
        patterns: Regular expressions of terminals, by name.
    """
    taken = [step for step in steps if step["is_allowed"]]
    rows = [("byte", "token", "allowed", "reading", "stack"), *map(_cells, taken)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    left = sum(widths) + 2 * len(widths)
    room = WIDTH - left - _WIDEST_STACK - 2
    for *cells, reading, stack in rows:
        head = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        first, *more = textwrap.wrap(reading, room, break_on_hyphens=False) or [""]
        yield f"{head}  {first:<{room}}  {stack}".rstrip()
        yield from (f"{'':<{left}}{line}" for line in more)
    named = {name for step in taken for each in step["readings"] for name in each["viable"]}
    if steps and not steps[-1]["is_allowed"]:
        yield ""
        yield from _refusal(steps[-1])
        named |= set(steps[-1]["terminals"])
    shown = [(name, patterns[name]) for name in sorted(named) if name in patterns]
    if shown:
        yield ""
        widest = max(len(escape(name)) for name, _ in shown)
        for name, pattern in shown:
            yield from _wrapped(f"{escape(name):<{widest}}  ", escape(pattern), long_words=True)


def _cells(step: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Return a step as cells: byte, token, how many were allowed, reading, end of the stack."""
    token = f'"{escape(step["token"])}"'
    if len(token) > _WIDEST_TOKEN:
        token = token[: _WIDEST_TOKEN - 4] + '..."'
    allowed = f"{step['allowed_count']:,}" + (" forced" if step["forced"] else "")
    reading = " | ".join(_shown_reading(reading) for reading in step["readings"])
    hidden = step["readings_count"] - len(step["readings"])
    reading += f" | ... {hidden} more" if hidden else ""
    reading += "; may end" if step["may_end"] else ""
    return str(step["byte"]), token, allowed, escape(reading), _end_of(step["stack"])


def _end_of(stack: Sequence[str]) -> str:
    """Return the symbols on top of the parser's stack that have room."""
    whole = escape(" ".join(stack))
    if len(whole) <= _WIDEST_STACK:
        return whole
    return "... " + whole[len(whole) - _WIDEST_STACK + 4 :].partition(" ")[2]


def _refusal(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a token is refused, what was expected there, and the parser's whole stack."""
    place = f"refused at byte {step['refused_byte']}, in the token {step['token']!r}"
    yield from _wrapped("", escape(place))
    yield from _wrapped("  expected  ", escape(" ".join(step["terminals"]) or "the end"))
    if step["allowed"]:
        pieces = ", ".join(f'"{piece}"' for piece in step["allowed"])
        yield from _wrapped("  such as   ", escape(pieces))
    yield from _wrapped("  stack     ", escape(" ".join(step["stack"])))


def _wrapped(label: str, text: str, *, long_words: bool = False) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=long_words,
        break_on_hyphens=False,
    )


def _shown_reading(reading: Mapping[str, Any]) -> str:
    """Return the terminals that a reading may be inside of; those that begin next, if none."""
    names = _unique(reading["under_way"])
    lead = "in" if names else "before"
    names = _unique([name for name in reading["viable"] if not names or name in names])
    more = " ..." if len(names) > _SHOWN_TERMINALS else ""
    return f"{lead} {' '.join(names[:_SHOWN_TERMINALS]) or '(end)'}{more}"


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))

"""One run of ``cdec check``: opens the artifact, reads the texts, says what each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cdec.cli.endings.tally import Tally
from cdec.cli.frame.command import SOME_TEXTS_INVALID
from cdec.cli.frame.tables import print_json
from cdec.cli.options.shared import refuse_unused
from cdec.cli.runs.artifacts import read_artifact, require_terminals
from cdec.cli.runs.found import named_or_found
from cdec.cli.runs.loop import Loop
from cdec.cli.runs.recompile import bind_for
from cdec.core.errors import DataError, EncodingError, FieldError, JsonError, Notice, UsageError
from cdec.core.progress import Progress, silent
from cdec.integrations.records.tasks import Task, batches

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.reading import CheckOptions as Options
    from cdec.core.constraint import Constraint

_TERMINALS_ONLY = ("explain", "lookahead")


def check(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status.

    Raises:
        UsageError: An option that this kind of artifact has no use for.
    """
    from cdec.data.input.count import count_records

    total = None if options.whole else count_records(options.input)
    with run.console.stage(f"opening {options.artifact}") as progress:
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
        tally=tally,
    )
    status = loop.over(batches((Task(None, verdict) for verdict in verdicts), 1), run)
    is_failed = options.fail and tally.verdicts[False] and not status
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
    constraint = _constraint(options, run, run.typed, progress)
    if options.token_ids:
        return constraint.token_verdicts(_token_rows(options), shown=options.allowed)
    texts = _texts(options, constraint)
    if constraint.lists_members:
        # Members are texts, so bytes that are none have no place where they are refused.
        texts = (_decoded(text).encode() for text in texts)
    return constraint.verdicts(texts, shown=options.allowed)


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
    from cdec.core.tokens.longest_tokens import longest_tokens

    constraint = _constraint(options, run, run.typed | {"explain"})
    if options.token_ids:
        row = _only(_token_rows(options), "row of token ids")
    else:
        text = _only(_texts(options, constraint), "text")
        if options.tokenizer is None:
            row = longest_tokens(constraint.vocabulary, text)
        else:
            (row,) = constraint.vocabulary.encode([_decoded(text)])
    return Explanation(constraint.explain(row, shown=options.allowed), constraint.terminal_patterns)


def _constraint(
    options: Options, run: Run, typed: frozenset[str], progress: Progress = silent
) -> Constraint:
    from cdec.cli.runs.models import load_vocabulary
    from cdec.core.artifacts.kinds import constraint_class

    path = named_or_found(options.artifact, run, "cdec check")
    file = read_artifact(path, options.copy, progress=progress)
    if not constraint_class(file.kind).has_terminals:
        refuse_unused(_TERMINALS_ONLY, typed, f"to a {file.kind} artifact")
    elif "lookahead" in typed:
        require_terminals(file)
    vocabulary = None
    if options.tokenizer is not None:
        vocabulary, _ = load_vocabulary(options.tokenizer, None, None)
    constraint = bind_for(file, vocabulary)
    if options.lookahead is None:
        return constraint
    return constraint.with_lookahead(options.lookahead)


def _token_rows(options: Options) -> Iterator[Any]:
    from cdec.data.entities.source import read_token_rows

    return (row for batch in read_token_rows(options.input) for row in batch.rows)


def _texts(options: Options, constraint: Constraint) -> Iterator[bytes]:
    """Yield the texts of the input, or all of it as one."""
    if options.whole:
        yield _whole(options.input)
        return
    from cdec.data.entities.source import read_entities

    try:
        for batch in read_entities(
            options.input, format=options.format, field=options.field, no_header=options.no_header
        ):
            yield from (text.encode() for text in batch.texts)
    except (JsonError, FieldError) as error:
        if options.format == "auto" and not constraint.lists_members:
            error.hint = f"give --whole to check the input as one text; or {error.hint}"
        raise


def _whole(source: str) -> bytes:
    """Return an input as it is, but for a final newline, which editors put there."""
    from cdec.data.input.source import open_source

    with open_source(source) as stream:
        data = stream.read()
    return data.removesuffix(b"\r\n") if data.endswith(b"\r\n") else data.removesuffix(b"\n")


def _decoded(text: bytes) -> str:
    """Return a text where bytes will not do.

    Raises:
        EncodingError: It is no UTF-8.
    """
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

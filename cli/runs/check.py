"""One run of ``cdec check``: opens the artifact, reads the texts, says what each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cdec.cli.options.shared import refuse_unused
from cdec.cli.runs.artifacts import read_artifact
from cdec.cli.texts.verdicts import Checker
from cdec.core.errors import DataError, EncodingError, UsageError

if TYPE_CHECKING:
    from cdec.cli.options.reading import CheckOptions as Options
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.constraint import Constraint

_GRAMMAR_ONLY = ("explain", "lookahead")


def verdicts(options: Options, typed: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield what the artifact says of each text, or token row, of the input.

    Raises:
        UsageError: An option that this kind of artifact has no use for.
    """
    file = read_artifact(options.artifact)
    if file.kind == "set":
        refuse_unused(_GRAMMAR_ONLY, typed, "to a set artifact")
        checker = Checker.open(file, options.allowed)
        if options.token_ids:
            return checker.token_rows(_token_rows(options))
        return checker.texts(_decoded(text) for text in _texts(options))
    from cdec.cli.texts.grammar_verdicts import GrammarChecker

    grammar = GrammarChecker(_constraint(file, options), options.allowed)
    if options.token_ids:
        return grammar.token_rows(_token_rows(options))
    return grammar.texts(_texts(options))


def explanation(options: Options, typed: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the steps of the input's one text through a grammar.

    Raises:
        UsageError: A set artifact, or an input of no or several texts.
    """
    from cdec.cli.texts.explain import explain, longest_tokens

    file = read_artifact(options.artifact)
    if file.kind == "set":
        refuse_unused(_GRAMMAR_ONLY, typed | {"explain"}, "to a set artifact")
    constraint = _constraint(file, options)
    if options.token_ids:
        row = _only(_token_rows(options), "row of token ids")
    else:
        text = _only(_texts(options), "text")
        if options.tokenizer is None:
            row = longest_tokens(constraint.vocabulary, text)
        else:
            (row,) = constraint.vocabulary.encode([_decoded(text)])
    return explain(constraint, row, options.allowed)


def _constraint(file: ArtifactFile, options: Options) -> Constraint:
    from cdec.cli.runs.models import load_vocabulary
    from cdec.core.artifacts.kinds import bind_artifact

    vocabulary = None
    if options.tokenizer is not None:
        vocabulary, _ = load_vocabulary(options.tokenizer, None, None)
    constraint: Any = bind_artifact(file, vocabulary)
    if options.lookahead is not None:
        constraint = constraint.with_lookahead(options.lookahead)
    opened: Constraint = constraint
    return opened


def _token_rows(options: Options) -> Iterator[Any]:
    from cdec.data.entities.source import read_token_rows

    return (row for batch in read_token_rows(options.input) for row in batch.rows)


def _texts(options: Options) -> Iterator[bytes]:
    """Yield the texts of the input, or all of it as one."""
    if options.whole:
        yield _whole(options.input)
        return
    from cdec.data.entities.source import read_entities

    for batch in read_entities(options.input, format=options.format, field=options.field):
        yield from (text.encode() for text in batch.texts)


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

"""Entities, or rows of tokens -> a set artifact or a constraint.

The order of work (``job``): read and check a batch while the tokenizer works on the next
(``encode``), collect and sort rows (``rows``), build the columns, write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cdec.compilers.sets.job import Keep, SetJob, token_batches
from cdec.compilers.sets.options import (
    BadLines,
    LeadingSpace,
    Normalization,
    SetLimits,
    SetOptions,
    SetReport,
    require_texts,
)
from cdec.compilers.sets.token_rows import TokenRowReader
from cdec.core.artifacts.opened import bind_arrays
from cdec.core.artifacts.read import UNNAMED
from cdec.core.artifacts.write import MADE_FROM_KEY, write_artifact
from cdec.core.files.whole import refuse_existing
from cdec.core.progress import Progress, silent
from cdec.core.sets.entities import EntityBatch, TokenBatch

if TYPE_CHECKING:
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.tokens.vocabulary import Vocabulary


def compile_set(
    lines: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    prefix: str = "",
    suffix: str = "",
    leading_space: LeadingSpace = "auto",
    normalize: Normalization = "none",
    deny: Iterable[str] = (),
    bad_lines: BadLines = "error",
    keep_empty: bool = False,
    memory_limit: int | None = None,
    limits: SetLimits | None = None,
    source: str = "",
    made_from: Callable[[], str] | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> SetReport:
    """Compile texts into a set artifact.

    Args:
        lines: Members: strings, mappings with ``text`` and perhaps ``id``, or ``EntityBatch``
            objects, which carry their own line numbers.
        vocabulary: With a tokenizer.
        path: The artifact.
        prefix: Text before every member, tokenised together with it.
        suffix: Text after every member; with one, a member ends there and not with an end token.
        leading_space: Whether a member begins with a space: ``auto`` says ``always`` where the
            vocabulary has tokens that begin with a space and the prefix does not end in white
            space, a bracket or a quote; ``both`` compiles two rows a member.
        normalize: ``none``, ``nfc`` or ``nfkc``, applied to the texts and to ``deny``.
        deny: Texts to leave out.
        bad_lines: ``error`` stops at the first entity that cannot be tokenised, ``skip`` counts it.
        keep_empty: Blank entities (nothing but ASCII white space) are members; the empty one takes
            no leading space.
        memory_limit: Bytes that collecting and sorting rows may take before sorted runs go to
            disk; the artifact is the same, byte for byte.
        limits: Limits.
        source: Name of the source, recorded and shown, never opened.
        made_from: Asked when all lines are read for what the artifact records of its making.
        force: Replace an existing file.
        progress: Called after every batch, and when a stage begins.

    Returns:
        What was done. Cost: about 1.5 times the tokenizer's own time; some 100 bytes of memory an
        entity and 12 a token.

    Raises:
        EmptySetError: No member is left.
        EncodingError, FieldError, UntokenizableError, DataError: A bad entity, with its line.
        LimitError: A limit is passed.
        OutputExistsError, OutputError: The artifact cannot be written.
        UsageError: Options that make no sense, a vocabulary without tokenizer.
    """
    require_texts("lines", lines, vocabulary)
    options = SetOptions(prefix, suffix, leading_space, normalize, bad_lines, keep_empty)
    options = options.resolved(vocabulary)
    keep = _written(path, made_from, force=force)
    job = SetJob(vocabulary, Path(path), options, limits, memory_limit, progress)
    return job.run_texts(lines, deny, source, keep)


def compile_token_set(
    rows: Iterable[Sequence[int] | TokenBatch],
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    deny: Iterable[str] = (),
    bad_lines: BadLines = "error",
    keep_empty: bool = False,
    memory_limit: int | None = None,
    limits: SetLimits | None = None,
    source: str = "",
    made_from: Callable[[], str] | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> SetReport:
    """Compile token rows, as they are, into a set artifact.

    A row's member text is the bytes of its tokens. The tokenizer, if there is one, is not asked:
    any vocabulary with the same token bytes opens the artifact.

    Args:
        rows: Token ids of one member each, or ``TokenBatch`` objects with line numbers.
        vocabulary: Of the ids.
        path: The artifact.
        deny: Texts to leave out.
        bad_lines: ``error`` stops at the first row with an id that is no ordinary token, ``skip``
            counts it.
        keep_empty: An empty row is a member; else it is left out and counted as blank.
        memory_limit: As for ``compile_set``.
        limits: Limits.
        source: Name of the source, recorded and shown, never opened.
        made_from: Asked when all lines are read for what the artifact records of its making.
        force: Replace an existing file.
        progress: Called after every batch, and when a stage begins.

    Returns:
        What was done.

    Raises:
        FieldError: A row has ids that are no ordinary tokens.
        CdecError: As ``compile_set``.
    """
    options = SetOptions(leading_space="never", bad_lines=bad_lines, keep_empty=keep_empty)
    options = options.resolved(vocabulary)
    keep = _written(path, made_from, force=force)
    job = SetJob(vocabulary, Path(path), options, limits, memory_limit, progress)
    reader = TokenRowReader(vocabulary, options, job.limits, list(deny), job.report)
    batches = token_batches(rows, job.batch_size)
    checked = (reader.check(batch) for batch in job.counted(batches))
    return job.run(checked, source, None, int, keep)


def _written(path: str | Path, made_from: Callable[[], str] | None, *, force: bool) -> Keep:
    """Return what writes the artifact; refuse an existing one now."""
    refuse_existing(path, force=force)

    def write(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> int:
        made = {} if made_from is None else {MADE_FROM_KEY: made_from()}
        write_artifact(path, "set", arrays, {**metadata, **made}, force=force)
        return Path(path).stat().st_size

    return write


def set_constraint(
    texts: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    *,
    prefix: str = "",
    suffix: str = "",
    leading_space: LeadingSpace = "auto",
    normalize: Normalization = "none",
    deny: Iterable[str] = (),
    bad_lines: BadLines = "error",
    keep_empty: bool = False,
    limits: SetLimits | None = None,
) -> StoredConstraint:
    """Make a constraint of texts, in memory: what ``compile_set`` would write, opened.

        model = load_model("gpt2")
        colours = set_constraint(["red", "green"], model.vocabulary)

    Args:
        texts: Members: strings, or mappings with ``text`` and perhaps ``id``.
        vocabulary: Of the model that will draw, with a tokenizer.
        prefix, suffix, leading_space, normalize, deny, bad_lines, keep_empty, limits: As in
            ``compile_set``.

    Returns:
        The constraint of that vocabulary. Cost: some milliseconds for a small set, as
        ``compile_set`` for a large one.

    Raises:
        CdecError: As ``compile_set``, but for the file.
    """
    require_texts("texts", texts, vocabulary)
    return compiled_set(
        texts,
        vocabulary,
        prefix=prefix,
        suffix=suffix,
        leading_space=leading_space,
        normalize=normalize,
        deny=deny,
        bad_lines=bad_lines,
        keep_empty=keep_empty,
        limits=limits,
    )[0]


def compiled_set(
    texts: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    *,
    deny: Iterable[str] = (),
    limits: SetLimits | None = None,
    **options: Any,
) -> tuple[StoredConstraint, SetReport]:
    """Return what ``set_constraint`` returns, and the report with its counts and notices.

    Args:
        texts, vocabulary, deny, limits: As in ``set_constraint``.
        options: The others of ``set_constraint``.

    Raises:
        As ``set_constraint``.
    """
    made: list[StoredConstraint] = []

    def bind(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> int:
        made.append(bind_arrays("set", arrays, metadata, vocabulary))
        # The vocabulary's own arrays are shared by all its sets.
        return sum(a.nbytes for name, a in arrays.items() if not name.startswith("vocabulary_"))

    job = SetJob(vocabulary, UNNAMED, SetOptions(**options).resolved(vocabulary), limits)
    report = job.run_texts(texts, deny, "", bind)
    return made[0], report

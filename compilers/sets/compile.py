"""compile_set and compile_token_set: from entities to a set artifact.

The order of work: read and check a batch while the tokenizer works on the next (``source``,
``encode``), collect rows (``runs``), sort them (``sort``), build the columns (``assemble``), write
(``cdec.core.artifacts.write``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.compilers.sets.assemble import assemble_set, set_metadata
from cdec.compilers.sets.encode import SetEncoder, tokenized_ahead
from cdec.compilers.sets.options import SetOptions, resolve_options
from cdec.compilers.sets.report import (
    BadLines,
    LeadingSpace,
    Normalization,
    Phase,
    ProgressCallback,
    SetLimits,
    SetProgress,
    SetReport,
)
from cdec.compilers.sets.runs import RowBatch, RowStore
from cdec.compilers.sets.source import entity_batches, token_batches
from cdec.compilers.sets.token_rows import TokenRowReader
from cdec.core.artifacts.write import refuse_existing, write_artifact
from cdec.core.errors import EmptySetError, LimitError, Notice, UsageError
from cdec.core.sets.entities import EntityBatch, TokenBatch

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

BATCH = 32_768
"""Entities a batch: enough for all cores of the tokenizer, some ten megabytes of its memory."""


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
    force: bool = False,
    progress: ProgressCallback | None = None,
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
        force: Replace an existing file.
        progress: Called after every batch and at every phase.

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
    if vocabulary.tokenization is None:
        raise UsageError(
            "this vocabulary was given by its bytes and has no tokenizer",
            hint="use Vocabulary.from_tokenizer, or compile_token_set with token ids",
        )
    options = resolve_options(
        vocabulary,
        prefix=prefix,
        suffix=suffix,
        leading_space=leading_space,
        normalize=normalize,
        bad_lines=bad_lines,
        keep_empty=keep_empty,
    )
    job = _Job(vocabulary, Path(path), options, limits, memory_limit, force, progress)
    encoder = SetEncoder(vocabulary, options, job.limits, list(deny), job.report)
    batches = entity_batches(lines, job.batch_size)
    prepared = (encoder.prepare(batch) for batch in job.counted(batches))

    def checked() -> Iterator[RowBatch]:
        for batch, tokenized in tokenized_ahead(prepared, encoder, job.report):
            yield from encoder.check(batch, tokenized)

    return job.run(checked(), source, vocabulary.tokenization_hash, encoder.count_members)


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
    force: bool = False,
    progress: ProgressCallback | None = None,
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
        force: Replace an existing file.
        progress: Called after every batch and at every phase.

    Returns:
        What was done.

    Raises:
        As ``compile_set``; FieldError for a row with ids that are no ordinary tokens.
    """
    options = resolve_options(
        vocabulary, leading_space="never", bad_lines=bad_lines, keep_empty=keep_empty
    )
    job = _Job(vocabulary, Path(path), options, limits, memory_limit, force, progress)
    reader = TokenRowReader(vocabulary, options, job.limits, list(deny), job.report)
    batches = token_batches(rows, job.batch_size)
    checked = (reader.check(batch) for batch in job.counted(batches))
    return job.run(checked, source, None, int)


class _Job:
    """One compilation; its source holds texts or token rows."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        path: Path,
        options: SetOptions,
        limits: SetLimits | None,
        memory_limit: int | None,
        force: bool,
        progress: ProgressCallback | None,
    ) -> None:
        refuse_existing(path, force=force)
        self.vocabulary = vocabulary
        self.options = options
        self.limits = limits or SetLimits()
        self.report = SetReport(path, options=options.to_json())
        self._memory_limit = memory_limit
        self._force = force
        self._progress = progress
        self._read = 0
        self._started = time.perf_counter()
        # A small limit means small batches too; an entity takes about two kilobytes on its way.
        self.batch_size = BATCH
        if memory_limit is not None:
            self.batch_size = min(BATCH, max(16, memory_limit // 2048))

    def counted(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Count entities against ``max_entities`` and report progress."""
        for batch in batches:
            self._read += len(batch.lines)
            if self._read > self.limits.max_entities:
                raise LimitError(
                    f"more than {self.limits.max_entities} entities",
                    hint="raise `max_entities`, or split the source",
                    limit=f"max_entities {self.limits.max_entities}",
                )
            yield batch
            self._tell("tokenize", self._read, None)

    def run(
        self,
        batches: Iterable[RowBatch],
        source: str,
        tokenization_hash: str | None,
        count_members: Callable[[int], int],
    ) -> SetReport:
        """Collect, sort, assemble and write."""
        report, digest = self.report, hashlib.sha256()
        with RowStore(report.path, self.vocabulary.size, self._memory_limit) as store:
            entities, n_rows = 0, 0
            for batch in batches:
                store.append(batch)
                entities, n_rows = entities + batch.entities, n_rows + len(batch.lines)
                if batch.entities:
                    digest.update(batch.hashes.tobytes())
            report.seconds["read"] = time.perf_counter() - self._started
            if not n_rows:
                raise self._empty()
            self._start("sort", n_rows)
            started = time.perf_counter()
            rows = store.finish()
            report.seconds["sort"] = time.perf_counter() - started
            arrays = assemble_set(rows, store, self.vocabulary, report, self._start)
            report.entities = count_members(report.rows)
            report.duplicates = entities - report.entities
            self._add_notices()
            self._start("write", report.rows)
            started = time.perf_counter()
            metadata = set_metadata(
                self.vocabulary,
                report,
                source=source,
                source_hash=digest.hexdigest(),
                tokenization_hash=tokenization_hash,
            )
            write_artifact(report.path, "set", arrays, metadata, force=self._force)
            report.seconds["write"] = time.perf_counter() - started
        report.bytes = report.path.stat().st_size
        report.seconds["total"] = time.perf_counter() - self._started
        self._tell("write", report.rows, report.rows)
        return report

    def _start(self, phase: Phase, total: int) -> None:
        self._tell(phase, 0, total)

    def _tell(self, phase: Phase, done: int, total: int | None) -> None:
        if self._progress is not None:
            self._progress(SetProgress(phase, done, total))

    def _empty(self) -> EmptySetError:
        report = self.report
        return EmptySetError(
            f"the set has no members: {self._read} entities read, {report.blank} blank, "
            f"{report.skipped} skipped, {report.denied} denied",
            hint="give at least one entity; `keep_empty` makes the empty string a member",
            read=self._read,
            blank=report.blank,
            skipped=report.skipped,
            denied=report.denied,
        )

    def _add_notices(self) -> None:
        report = self.report
        notes = [
            ("W_BLANK_LINES", report.blank, "blank entities were left out"),
            ("W_SKIPPED", report.skipped, "bad entities were left out"),
            ("W_DUPLICATES", report.duplicates, "entities are duplicates of earlier ones"),
        ]
        report.notices[:0] = [
            Notice(code, f"{count} {text}", {"count": count})
            for code, count, text in notes
            if count
        ]

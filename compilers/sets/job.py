"""One compilation of a set: entities are counted, their rows collected, sorted and assembled.

What becomes of the columns, a file or a constraint in memory, is its caller's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from cdec.compilers.sets.assemble import assemble_set, set_metadata
from cdec.compilers.sets.encode import SetEncoder, tokenized_ahead
from cdec.compilers.sets.options import SetLimits, SetOptions, SetReport
from cdec.compilers.sets.runs import RowBatch, RowStore
from cdec.compilers.sets.source import entity_batches
from cdec.core.errors import EmptySetError, LimitError, Notice, UsageError
from cdec.core.files.remote import public_name
from cdec.core.progress import Progress, Stage, silent

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

BATCH = 32_768
"""Entities a batch: enough for all cores of the tokenizer, some ten megabytes of its memory."""

Keep: TypeAlias = Callable[[Mapping[str, NDArray[Any]], Mapping[str, str]], int]
"""Takes columns and metadata, which may lie in files that go when it returns; returns bytes."""


class SetJob:
    """One compilation; its source holds texts or token rows.

    Args:
        vocabulary: Of the rows.
        path: The artifact, or what stands for it; sorted runs go beside it.
        options: Resolved.
        limits: Limits; None takes the defaults.
        memory_limit: As for ``compile_set``.
        progress: As for ``compile_set``.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        path: Path,
        options: SetOptions,
        limits: SetLimits | None,
        memory_limit: int | None = None,
        progress: Progress = silent,
    ) -> None:
        self.vocabulary = vocabulary
        self.options = options
        self.limits = limits or SetLimits()
        self.report = SetReport(path, options=options.to_json())
        self._memory_limit = memory_limit
        self._progress = progress
        self._read = 0
        self._started = time.perf_counter()
        # A small limit means small batches too; an entity takes about two kilobytes on its way.
        self.batch_size = BATCH
        if memory_limit is not None:
            self.batch_size = min(BATCH, max(16, memory_limit // 2048))

    def run_texts(
        self, lines: Iterable[Any], deny: Iterable[str], source: str, keep: Keep
    ) -> SetReport:
        """Compile texts, as ``compile_set`` takes them.

        Raises:
            UsageError: The vocabulary has no tokenizer.
            CdecError: As ``compile_set``, but for the file.
        """
        if self.vocabulary.tokenization is None:
            raise UsageError(
                "this vocabulary was given by its bytes and has no tokenizer",
                hint="use Vocabulary.from_tokenizer, or compile_token_set with token ids",
            )
        encoder = SetEncoder(self.vocabulary, self.options, self.limits, list(deny), self.report)
        batches = entity_batches(lines, self.batch_size)
        prepared = (encoder.prepare(batch) for batch in self.counted(batches))

        def checked() -> Iterator[RowBatch]:
            for batch, tokenized in tokenized_ahead(prepared, encoder, self.report):
                yield from encoder.check(batch, tokenized)

        splits = self.vocabulary.tokenization_hash
        return self.run(checked(), source, splits, encoder.count_members, keep)

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
            self._progress(Stage("tokenizing", self._read, None, "entities"))

    def run(
        self,
        batches: Iterable[RowBatch],
        source: str,
        tokenization_hash: str | None,
        count_members: Callable[[int], int],
        keep: Keep,
    ) -> SetReport:
        """Collect, sort, assemble, and let ``keep`` write."""
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
            self._begin("sorting")
            started = time.perf_counter()
            rows = store.finish()
            report.seconds["sort"] = time.perf_counter() - started
            arrays = assemble_set(rows, store, self.vocabulary, report, self._begin)
            report.entities = count_members(report.rows)
            report.duplicates = entities - report.entities
            self._add_notices()
            self._begin("writing")
            started = time.perf_counter()
            metadata = set_metadata(
                self.vocabulary,
                report,
                source=public_name(source),
                source_hash=digest.hexdigest(),
                tokenization_hash=tokenization_hash,
            )
            report.bytes = keep(arrays, metadata)
            report.seconds["write"] = time.perf_counter() - started
        report.seconds["total"] = time.perf_counter() - self._started
        return report

    def _begin(self, name: str) -> None:
        self._progress(Stage(name))

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

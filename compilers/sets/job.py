"""One compilation of a set: entities in batches, their rows collected and sorted, its columns.

What becomes of the columns, a file or a constraint in memory, is its caller's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.sets.encode import SetEncoder, tokenized_ahead
from cdec.compilers.sets.options import SetLimits, SetOptions, SetReport
from cdec.compilers.sets.rows import (
    RowBatch,
    Rows,
    RowStore,
    gather,
    gathered,
    offsets_of,
    picked_offsets,
)
from cdec.core.artifacts.write import recorded_metadata
from cdec.core.errors import EmptySetError, FieldError, LimitError, Notice, UsageError
from cdec.core.files.remote import public_name
from cdec.core.native import library
from cdec.core.progress import Progress, Stage, silent
from cdec.core.sets.entities import EntityBatch, TokenBatch
from cdec.core.sets.members import build_text_index
from cdec.core.sets.trie import build_trie

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


MAX_ROWS = 2**31 - 1
BATCH = 32_768
"""Entities a batch: enough for all cores of the tokenizer, some ten megabytes of its memory."""
Keep: TypeAlias = Callable[[Mapping[str, NDArray[Any]], Mapping[str, str]], int]
"""Takes columns and metadata, which may lie in files that go when it returns; returns bytes."""


def entity_batches(lines: Iterable[Any], size: int) -> Iterator[EntityBatch]:
    """Cut a source of entities into batches of at most ``size``.

    Args:
        lines: Strings, mappings with ``text`` and perhaps ``id``, or ``EntityBatch`` objects. The
            first two are numbered from line 1.
        size: Largest batch, entities.

    Yields:
        Batches in the source's order.

    Raises:
        FieldError: A mapping whose ``text`` is no string or whose ``id`` is no string or integer.
        UsageError: Anything else in the source.
    """
    if isinstance(lines, str | bytes | Mapping):
        raise UsageError(
            f"compile_set was given one {type(lines).__name__}, expected many entities",
            hint="give an iterable of strings, for example text.splitlines()",
        )
    items = iter(lines)
    line = 1
    for first in items:
        if isinstance(first, EntityBatch):
            yield from _pieces(first, size)
            line += len(first.texts)
            continue
        # subtle: a source of batches must not be read ahead; one of strings must be, for speed.
        some = [first, *islice(items, size - 1)]
        if set(map(type, some)) == {str}:
            yield EntityBatch(some, range(line, line + len(some)))
        else:
            yield from _from_mixed(some, line, size)
        line += len(some)


def token_batches(rows: Iterable[Any], size: int) -> Iterator[TokenBatch]:
    """Cut token rows, or ``TokenBatch`` objects, into batches of at most ``size``."""
    items = iter(rows)
    line = 1
    for first in items:
        if isinstance(first, TokenBatch):
            for a in range(0, len(first.rows), size):
                yield TokenBatch(first.rows[a : a + size], first.lines[a : a + size])
            line += len(first.rows)
            continue
        some = [first, *islice(items, size - 1)]
        if any(isinstance(row, TokenBatch) for row in some):
            raise UsageError("a source holds both token rows and TokenBatch objects")
        yield TokenBatch(some, range(line, line + len(some)))
        line += len(some)


def _pieces(batch: EntityBatch, size: int) -> Iterator[EntityBatch]:
    if len(batch.lines) != len(batch.texts) or len(batch.ids or batch.texts) != len(batch.texts):
        raise UsageError(
            f"a batch of {len(batch.texts)} texts has {len(batch.lines)} line numbers and "
            f"{len(batch.ids or [])} ids; expected one a text"
        )
    if len(batch.texts) <= size:
        yield batch
        return
    for a in range(0, len(batch.texts), size):
        ids = None if batch.ids is None else batch.ids[a : a + size]
        yield EntityBatch(batch.texts[a : a + size], batch.lines[a : a + size], ids)


def _from_mixed(items: Sequence[Any], line: int, size: int) -> Iterator[EntityBatch]:
    """Make batches of strings and mappings (and of batches that come after them)."""
    texts: list[str] = []
    ids: list[str | None] = []
    for number, item in enumerate(items, line):
        if isinstance(item, EntityBatch):
            raise UsageError("a source holds both single entities and EntityBatch objects")
        text, entity_id = (item, None) if isinstance(item, str) else _from_mapping(item, number)
        texts.append(text)
        ids.append(entity_id)
    named = None
    if any(entity_id is not None for entity_id in ids):
        named = [str(line + i) if name is None else name for i, name in enumerate(ids)]
    yield from _pieces(EntityBatch(texts, range(line, line + len(texts)), named), size)


def _from_mapping(item: Any, line: int) -> tuple[str, str | None]:
    if not isinstance(item, Mapping):
        raise UsageError(
            f"entity {line} is a {type(item).__name__}, expected a string or a mapping with text",
            line=line,
        )
    text, entity_id = item.get("text"), item.get("id")
    if not isinstance(text, str):
        found = f"of type {type(text).__name__}" if "text" in item else "missing"
        raise FieldError(
            f"line {line}: the field 'text' is {found}, expected a string",
            hint="give the text as 'text', and perhaps an 'id'",
            line=line,
            field="text",
        )
    if entity_id is None or isinstance(entity_id, str):
        return text, entity_id
    if isinstance(entity_id, int) and not isinstance(entity_id, bool):
        return text, str(entity_id)
    raise FieldError(
        f"line {line}: the field 'id' is of type {type(entity_id).__name__}, expected a string "
        "or an integer",
        line=line,
        field="id",
    )


def assemble_set(
    rows: Rows,
    store: RowStore,
    vocabulary: Vocabulary,
    report: SetReport,
    begin: Callable[[str], None],
) -> dict[str, NDArray[Any]]:
    """Build all columns of a set artifact.

    Args:
        rows: At least one row.
        store: Gives room for the large results.
        vocabulary: Of the token ids.
        report: Counts, seconds and notices are added to it.
        begin: Called with the name of each stage, for people.

    Returns:
        Arrays by column name. Cost: O(T) and one sort of the text hashes.

    Raises:
        LimitError: More than 2**31 - 1 rows.
    """
    n = len(rows.order)
    first = np.empty(n, np.bool_)
    library.mark_distinct(rows.columns["tokens"], rows.offsets, rows.order, first)
    picked = rows.order[first]
    if len(picked) > MAX_ROWS:
        raise LimitError(f"{len(picked)} rows, more than {MAX_ROWS}", limit=f"rows {MAX_ROWS}")
    row_offsets = picked_offsets(rows.offsets, picked)
    tokens = store.empty(int(row_offsets[-1]), np.int32)
    gather(rows.columns["tokens"], rows.offsets, picked, tokens)
    arrays = _sources(rows, first, report)
    hashes = rows.columns["hashes"][picked]
    rows.columns.clear()
    del rows, first, picked
    begin("building the trie")
    started = time.perf_counter()
    trie = build_trie(tokens, row_offsets, vocabulary.size)
    report.seconds["trie"] = time.perf_counter() - started
    begin("indexing texts")
    started = time.perf_counter()
    text_hash, text_row = build_text_index(hashes)
    report.seconds["index"] = time.perf_counter() - started
    report.rows, report.tokens, report.nodes = trie.n_rows, len(tokens), trie.n_nodes
    report.longest = int(np.diff(row_offsets).max())
    return trie.to_mapping() | {
        "text_hash": text_hash,
        "text_row": text_row,
        **arrays,
        "vocabulary_offsets": vocabulary.byte_offsets,
        "vocabulary_bytes": vocabulary.flat_bytes,
    }


def set_metadata(
    vocabulary: Vocabulary,
    report: SetReport,
    *,
    source: str,
    source_hash: str,
    tokenization_hash: str | None,
) -> dict[str, str]:
    """Return the schema metadata of a set artifact."""
    recorded = recorded_metadata(vocabulary, source, source_hash, report.options, report.counts)
    return recorded | {"cdec.tokenization_hash": tokenization_hash or ""}


def _sources(rows: Rows, first: NDArray[np.bool_], report: SetReport) -> dict[str, NDArray[Any]]:
    """Return the columns that lead from a row to its source lines and entity ids."""
    n = len(first)
    lines = rows.columns["lines"][rows.order]
    id_bytes, id_offsets = _ids(rows)
    originals = rows.columns["originals"]
    if len(originals):
        _note_normalised(originals[rows.order], first, report)
    return {
        "source_offsets": np.append(np.flatnonzero(first), n),
        "source_lines": lines,
        "id_offsets": id_offsets,
        "id_bytes": id_bytes,
    }


def _ids(rows: Rows) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the entity ids in sorted order, both arrays empty where no entity has one."""
    lengths, data = rows.columns["id_lengths"], rows.columns["ids"]
    named = lengths >= 0
    if not named.any():
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    offsets = offsets_of(lengths)
    if not named.all():
        # Some entities have no id: their line numbers are written out in their place.
        lines, flat = rows.columns["lines"].tolist(), data.tobytes()
        bounds = offsets.tolist()
        names = [
            flat[bounds[i] : bounds[i + 1]] if has else str(lines[i]).encode()
            for i, has in enumerate(named.tolist())
        ]
        offsets = offsets_of(np.fromiter(map(len, names), np.int32, len(names)))
        data = np.frombuffer(b"".join(names), np.uint8)
    return gathered(data, offsets, rows.order)


def _note_normalised(
    originals: NDArray[np.uint64], first: NDArray[np.bool_], report: SetReport
) -> None:
    """Warn of members that came from texts which differ before normalisation."""
    differs = (originals[1:] != originals[:-1]) & ~first[1:]
    members = len(np.unique(np.cumsum(first)[1:][differs]))
    if members:
        report.notices.append(
            Notice(
                "W_NORMALISATION",
                f"{members} members came from different texts that are one after normalisation",
                {"members": members},
            )
        )


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

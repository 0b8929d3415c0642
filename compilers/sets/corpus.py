"""A corpus of documents -> an artifact of their pieces: read, sort, make masks, write; and verify.

The artifact holds the documents' text, so that all else of it can be made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.kinds import SourceKind
from cdec.compilers.report import Clock, Comparison, SourceReport
from cdec.compilers.sets.job import entity_batches
from cdec.compilers.sets.options import BadLines, require_texts
from cdec.core.artifacts.opened import bind_arrays, bind_artifact
from cdec.core.artifacts.read import UNNAMED
from cdec.core.artifacts.write import MADE_FROM_KEY, recorded_metadata, write_artifact
from cdec.core.errors import EmptySetError, EncodingError, LimitError, Notice
from cdec.core.files.remote import public_name
from cdec.core.files.whole import refuse_existing
from cdec.core.mask import offsets_of
from cdec.core.progress import Progress, Stage, silent
from cdec.core.sets.corpus import MAX_BYTES, Documents, corpus_columns, recorded_options
from cdec.core.sets.entities import EntityBatch
from cdec.core.sets.spans import (
    SEPARATOR,
    SpanOptions,
    SpanView,
    require_end_ids,
    span_rows,
    with_masks,
)
from cdec.core.tokens.token_trie import TokenTrie

if TYPE_CHECKING:
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary

_BATCH = 1 << 12
MOST_MASKS, FEWEST_ROWS = 4096, 1 << 10
"""States whose masks are made beforehand: the widest, and none of fewer rows."""
_PHASES = {"read": "reading", "sort": "sorting", "masks": "making masks", "write": "writing"}


@dataclass(slots=True)
class CorpusReport(SourceReport):
    """Report of compiling a corpus.

    Attributes:
        options: Which pieces, as recorded in the artifact.
    """

    options: dict[str, Any] = field(default_factory=dict)


def compile_spans(
    documents: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    whole: Literal["words", "sentences"] | None = None,
    shortest: int | None = None,
    longest: int | None = None,
    bad_lines: BadLines = "error",
    source: str = "",
    made_from: Callable[[], str] | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> CorpusReport:
    """Compile documents into an artifact of their pieces, verbatim.

    Args:
        documents: Texts, mappings with ``text`` and perhaps ``id``, or ``EntityBatch`` objects.
        vocabulary: Of the model that will draw; no tokenizer is needed.
        path: The artifact.
        whole: ``words``: pieces begin where a word begins and end where one ends; ``sentences``:
            those of sentences; None: of any characters.
        shortest, longest: Words that a piece touches, at least and at most.
        bad_lines: ``skip`` counts documents that are no text, ``error`` stops at the first.
        source: Name of the source, recorded and shown, never opened.
        made_from: Asked when all is read for what the artifact records of its making.
        force: Replace an existing file.
        progress: Told when a stage begins.

    Returns:
        What was done. Cost: some 15 bytes of memory a byte, and half a microsecond; the artifact
        takes 5 bytes a byte. With ``longest`` for any characters up to 45 bytes of memory.

    Raises:
        EmptySetError: There is no document, or none has such a piece.
        EncodingError, FieldError: A bad document, with its line.
        LimitError: More than 2**31 - 2 bytes.
        OutputExistsError, OutputError: The artifact cannot be written.
        UsageError: Options that make no sense, a vocabulary without an end-of-sequence id.
    """
    refuse_existing(path, force=force)
    options = SpanOptions(whole, shortest, longest)
    report = CorpusReport(Path(path), options=asdict(options))
    clock = Clock(report, _PHASES, progress)
    reader = _Reader(bad_lines, report, progress)
    columns, metadata = _compiled(documents, vocabulary, reader, clock)
    metadata["cdec.source"] = public_name(source).encode("utf-8", "replace").decode()
    metadata |= {} if made_from is None else {MADE_FROM_KEY: made_from()}
    with clock.phase("write"):
        write_artifact(path, "spans", columns, metadata, force=force)
    report.bytes = Path(path).stat().st_size
    report.seconds["total"] = sum(report.seconds.values())
    return report


def corpus_constraint(
    documents: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    *,
    whole: Literal["words", "sentences"] | None = None,
    shortest: int | None = None,
    longest: int | None = None,
) -> StoredConstraint:
    """Make a constraint of the pieces of documents, in memory: what ``compile_spans`` would write.

    Args:
        documents, vocabulary, whole, shortest, longest: As in ``compile_spans``.

    Returns:
        The constraint of that vocabulary.

    Raises:
        CdecError: As ``compile_spans``, but for the file.
    """
    options = SpanOptions(whole, shortest, longest)
    report = CorpusReport(UNNAMED, options=asdict(options))
    clock, reader = Clock(report, _PHASES, silent), _Reader("error", report, silent)
    return bind_arrays("spans", *_compiled(documents, vocabulary, reader, clock), vocabulary)


def _compiled(
    documents: Iterable[Any], vocabulary: Vocabulary, reader: _Reader, clock: Clock[CorpusReport]
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the columns and the metadata of the artifact of an unnamed source."""
    require_texts("documents", documents, vocabulary)
    require_end_ids(vocabulary)
    report = clock.report
    with clock.phase("read"):
        for batch in entity_batches(documents, _BATCH):
            reader.add(batch)
        read = reader.finish()
    with clock.phase("sort"):
        options = SpanOptions(**report.options)
        rows = span_rows(read.text, read.offsets, options)
    if not len(rows["begin"]):
        raise EmptySetError(
            "no document has such a piece", hint="ask for fewer words, or for any characters"
        )
    with clock.phase("masks"):
        columns = _columns(read, rows, vocabulary)
    _count(report, columns)
    digest = hashlib.sha256(read.text.data).hexdigest()
    return columns, recorded_metadata(vocabulary, "", digest, report.options, report.counts)


def _columns(
    documents: Documents, rows: dict[str, NDArray[Any]], vocabulary: Vocabulary
) -> dict[str, NDArray[Any]]:
    """Return the columns of an artifact, masks included."""
    view, trie = SpanView.of(rows, vocabulary), TokenTrie.of(vocabulary)
    known = with_masks(view, trie, MOST_MASKS, FEWEST_ROWS)
    return corpus_columns(documents, rows, known, vocabulary)


def _count(report: CorpusReport, columns: Mapping[str, NDArray[Any]]) -> None:
    documents = len(columns["document_lines"])
    report.counts |= {
        "documents": documents,
        "bytes_of_text": len(columns["text"]) - documents,
        "rows": len(columns["begin"]),
        "masks": len(columns["wide_states"]),
    }


class _Reader:
    """Collects the documents of a corpus.

    Args:
        bad_lines: What to do with a text that has no UTF-8.
        report: Takes counts and notices.
        progress: Told how many documents are read.
    """

    def __init__(self, bad_lines: BadLines, report: CorpusReport, progress: Progress) -> None:
        self._skips, self._report, self._progress = bad_lines == "skip", report, progress
        self._data = bytearray()
        self._lengths: list[int] = []
        self._lines: list[int] = []
        self._ids: list[str] = []
        self._has_ids = False
        self._left_out = {"blank": 0, "skipped": 0}

    def add(self, batch: EntityBatch) -> None:
        """Take the documents of a batch."""
        self._has_ids |= batch.ids is not None
        ids = list(map(str, batch.lines)) if batch.ids is None else batch.ids
        for text, line, name in zip(batch.texts, batch.lines, ids, strict=True):
            if not text.strip():
                self._left_out["blank"] += 1
                continue
            try:
                data = text.encode()
            except UnicodeEncodeError as error:
                self._refuse(line, error)
                continue
            self._data += data
            self._data += SEPARATOR
            self._lengths.append(len(data) + 1)
            self._lines.append(line)
            self._ids.append(name)
        if len(self._data) > MAX_BYTES:
            raise LimitError(
                f"the documents have more than {MAX_BYTES:,} bytes",
                hint="compile parts of the corpus",
                limit=f"bytes {MAX_BYTES}",
            )
        self._progress(Stage("reading", len(self._lines), None, "documents"))

    def _refuse(self, line: int, error: UnicodeEncodeError) -> None:
        if not self._skips:
            raise EncodingError(
                f"line {line}: character {error.start + 1} is half a surrogate pair",
                hint="correct the line, or leave such lines out with `bad_lines` skip",
                line=line,
            )
        self._left_out["skipped"] += 1

    def finish(self) -> Documents:
        """Return the documents.

        Raises:
            EmptySetError: There are none.
        """
        if not self._lines:
            raise EmptySetError("the corpus has no document", hint="give at least one text")
        self._report.counts |= self._left_out
        said = {"blank": "blank documents were left out", "skipped": "bad documents were left out"}
        codes = {"blank": "W_BLANK_LINES", "skipped": "W_SKIPPED"}
        self._report.notices += [
            Notice(codes[name], f"{count} {said[name]}", {"count": count})
            for name, count in self._left_out.items()
            if count
        ]
        ids = [name.encode("utf-8", "replace") for name in self._ids] if self._has_ids else []
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return Documents(
            np.frombuffer(self._data, np.uint8),
            offsets_of(np.array(self._lengths, np.int64)),
            np.array(self._lines, np.int64),
            offsets_of(lengths) if ids else np.empty(0, np.int64),
            np.frombuffer(b"".join(ids), np.uint8),
        )


def verify_spans(file: ArtifactFile, progress: Progress = silent) -> Comparison:
    """Sort the stored documents again and make their masks, and compare.

    Args:
        file: An artifact of spans.
        progress: Told when a stage begins.

    Returns:
        What is the same. Cost: that of compiling.
    """
    vocabulary = bind_artifact(file).vocabulary
    comparison = Comparison(file)
    comparison.hold("cdec.vocabulary_hash", True)
    names = ("document_offsets", "document_lines", "id_offsets", "id_bytes")
    documents = Documents(file.arrays["text"], *(file.arrays[name] for name in names))
    progress(Stage("sorting"))
    rows = span_rows(documents.text, documents.offsets, recorded_options(file.metadata))
    if not len(rows["begin"]):
        comparison.hold("begin", False)
        return comparison
    progress(Stage("making masks"))
    columns = _columns(documents, rows, vocabulary)
    given = {"text", *names, "vocabulary_offsets", "vocabulary_bytes"}
    comparison.columns({name: columns[name] for name in columns if name not in given})
    report = CorpusReport(Path(), counts=json.loads(file.metadata["cdec.counts"]))
    _count(report, columns)
    comparison.entries(
        {
            "cdec.counts": json.dumps(report.counts, sort_keys=True),
            "cdec.source_hash": hashlib.sha256(documents.text.data).hexdigest(),
        }
    )
    return comparison


SPANS: SourceKind[Any] = SourceKind(verify=verify_spans)

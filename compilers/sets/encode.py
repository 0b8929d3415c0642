"""Token rows of texts: normalised, tokenised, and checked to decode to their texts."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.sets.options import SetLimits, SetOptions, SetReport
from cdec.compilers.sets.rows import RowBatch, gathered
from cdec.core.errors import (
    CdecError,
    DataError,
    EncodingError,
    LimitError,
    Notice,
    UntokenizableError,
)
from cdec.core.native import library
from cdec.core.sets.entities import EntityBatch
from cdec.core.sets.members import hash_texts

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


_NOT_ORDINARY = 1
"""Verdict of the library on a row with a token that has no bytes."""
Tokenized = list[tuple[NDArray[np.int32], NDArray[np.int64]]]
"""Flat ids and row offsets of one batch, once for every head."""


@dataclass(slots=True)
class TextBatch:
    """Entities that are to become rows.

    Attributes:
        texts: Normalised texts.
        lines: int64[n] source lines.
        ids: Entity ids, or None.
        data: uint8[...] the texts' UTF-8, one after another.
        offsets: int64[n + 1] of the texts in ``data``.
        originals: uint64[n] hashes before normalisation, or None without it.
    """

    texts: list[str]
    lines: NDArray[np.int64]
    ids: list[str] | None
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    originals: NDArray[np.uint64] | None

    def kept(self, keep: NDArray[np.bool_]) -> TextBatch:
        """Return the entities where ``keep``, bool[n], is true."""
        picked = np.flatnonzero(keep)
        data, offsets = gathered(self.data, self.offsets, picked)
        return TextBatch(
            list(compress(self.texts, keep)),
            self.lines[picked],
            None if self.ids is None else list(compress(self.ids, keep)),
            data,
            offsets,
            None if self.originals is None else self.originals[picked],
        )


def normalized(text: str, form: str) -> str:
    """Return the text in a normal form: ``none``, ``nfc`` or ``nfkc``."""
    if form == "none" or text.isascii():
        return text
    return unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text)


def too_long(line: int, length: int, limit: int) -> LimitError:
    """Return the error of a row with more than ``limit`` tokens."""
    return LimitError(
        f"line {line}: the entity has {length} tokens, more than {limit}",
        hint="raise `max_entry_tokens`, or leave the entity out",
        line=line,
        limit=f"max_entry_tokens {limit}",
    )


def encode_texts(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the texts' UTF-8, uint8[...], and their offsets in it, int64[n + 1].

    Raises:
        UnicodeEncodeError: A lone surrogate.
    """
    data = as_bytes("".join(texts).encode())
    characters = np.fromiter(map(len, texts), np.int64, len(texts))
    offsets = np.empty(len(texts) + 1, np.int64)
    library.text_offsets(data, characters, offsets)
    return data, offsets


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """Return bytes as a uint8 array."""
    return np.frombuffer(data, np.uint8)


def kept_rows(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], keep: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the rows where ``keep``, bool[n], is true, and their offsets."""
    return gathered(tokens, offsets, np.flatnonzero(keep))


def is_valid(text: str) -> bool:
    """Say whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """Return a text for a message: quoted, control characters escaped, shortened."""
    return ascii(text) if len(text) <= 60 else f"{text[:60]!a}..."


class SetEncoder:
    """Turns batches of entities into batches of rows, and counts what it leaves out.

    Args:
        vocabulary: With a tokenizer.
        deny: Normalised texts to leave out.
        report: Counts are added to it.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        options: SetOptions,
        limits: SetLimits,
        deny: Collection[str],
        report: SetReport,
    ) -> None:
        self._vocabulary = vocabulary
        self._options = options
        self._limits = limits
        self._deny = {normalized(text, options.normalize) for text in deny}
        self._report = report
        self.has_empty = False
        self._looked_at_ends = False

    def prepare(self, batch: EntityBatch) -> TextBatch:
        """Normalise a batch and leave out what is no entity.

        Raises:
            EncodingError: A lone surrogate, with ``bad_lines="error"``.
            DataError: A text that begins with a space where both forms are compiled.
        """
        texts, lines = list(batch.texts), np.asarray(batch.lines, np.int64)
        self._note_line_ends(texts)
        prepared = self._without_surrogates(texts, lines, batch.ids)
        if self._options.normalize != "none":
            originals = hash_texts(prepared.data, prepared.offsets)
            texts = [normalized(text, self._options.normalize) for text in prepared.texts]
            data, offsets = encode_texts(texts)
            prepared = TextBatch(texts, prepared.lines, prepared.ids, data, offsets, originals)
        prepared = self._without_blank(prepared)
        if self._deny:
            keep = np.array([text not in self._deny for text in prepared.texts], np.bool_)
            self._report.denied += int((~keep).sum())
            prepared = prepared.kept(keep)
        if self._options.leading_space == "both":
            prepared = self._without_leading_space(prepared)
        return prepared

    def tokenize(self, batch: TextBatch) -> tuple[Tokenized, float]:
        """Tokenise a batch, once for every head; also return the seconds that it took.

        Safe in another thread: it only reads, and mostly without the interpreter lock.
        """
        started = time.perf_counter()
        result = [
            self._vocabulary.encode_flat(self._row_texts(batch.texts, head))
            for head in self._options.heads
        ]
        return result, time.perf_counter() - started

    def check(self, batch: TextBatch, tokenized: Tokenized) -> list[RowBatch]:
        """Check that all rows decode to their texts, and make row batches of them.

        Raises:
            UntokenizableError: The tokenizer loses something, with ``bad_lines="error"``.
            LimitError: A row longer than ``max_entry_tokens``.
        """
        keep = np.ones(len(batch.texts), np.bool_)
        for head, (tokens, offsets) in zip(self._options.heads, tokenized, strict=True):
            self._check_lengths(batch, offsets)
            keep &= self._verdicts(batch, head, tokens, offsets)
        if not keep.all():
            self._report.skipped += int((~keep).sum())
            tokenized = [kept_rows(tokens, offsets, keep) for tokens, offsets in tokenized]
            batch = batch.kept(keep)
        hashes = hash_texts(batch.data, batch.offsets)
        n = len(batch.texts)
        lengths = [np.diff(offsets).astype(np.int32) for _, offsets in tokenized]
        result = [
            RowBatch(
                tokenized[0][0], lengths[0], batch.lines, hashes, batch.originals, batch.ids, n
            )
        ]
        for (tokens, offsets), further in zip(tokenized[1:], lengths[1:], strict=True):
            # An empty member has one row for both forms, which is among the first ones already.
            has_text = np.diff(batch.offsets) > 0
            if not has_text.all():
                self.has_empty = True
                tokens, offsets = kept_rows(tokens, offsets, has_text)
                batch, hashes = batch.kept(has_text), hashes[has_text]
                further = further[has_text]
            result.append(
                RowBatch(tokens, further, batch.lines, hashes, batch.originals, batch.ids, 0)
            )
        return result

    def count_members(self, rows: int) -> int:
        """Return how many members ``rows`` distinct rows are; each has a row for every head."""
        heads = len(self._options.heads)
        return (rows + (heads - 1) * self.has_empty) // heads

    def _row_texts(self, texts: Sequence[str], head: str) -> list[str]:
        suffix, prefix = self._options.suffix, self._options.prefix
        if not head and not suffix:
            return list(texts)
        # An empty member takes no leading space: its row is prefix and suffix alone.
        return [(head + text if text else prefix) + suffix for text in texts]

    def _without_surrogates(
        self, texts: list[str], lines: NDArray[np.int64], ids: Sequence[str] | None
    ) -> TextBatch:
        names = None if ids is None else list(ids)
        try:
            data, offsets = encode_texts(texts)
        except UnicodeEncodeError:
            keep = [is_valid(text) for text in texts]
            if self._options.bad_lines == "error":
                bad = keep.index(False)
                raise EncodingError(
                    f"line {lines[bad]}: the text {shown(texts[bad])} has a lone surrogate, which "
                    "no UTF-8 text can hold",
                    hint="repair the source, or leave such lines out with `bad_lines` skip",
                    line=int(lines[bad]),
                ) from None
            self._report.skipped += keep.count(False)
            texts, lines = list(compress(texts, keep)), lines[np.array(keep)]
            names = None if names is None else list(compress(names, keep))
            data, offsets = encode_texts(texts)
        return TextBatch(texts, lines, names, data, offsets, None)

    def _note_line_ends(self, texts: Sequence[str]) -> None:
        """Warn, once, of members that end in a newline: the lines of a file, passed as they are."""
        if self._looked_at_ends or not texts:
            return
        self._looked_at_ends = True
        if all(text.endswith("\n") for text in texts[:1000]):
            self._report.notices.append(
                Notice("W_LINE_ENDS", "the texts end in a newline, which is part of the members")
            )

    def _without_blank(self, batch: TextBatch) -> TextBatch:
        if self._options.keep_empty:
            return batch
        blank = np.empty(len(batch.texts), np.bool_)
        found = library.find_blank(batch.data, batch.offsets, blank)
        self._report.blank += found
        return batch.kept(~blank) if found else batch

    def _without_leading_space(self, batch: TextBatch) -> TextBatch:
        """Refuse texts that begin with a space: the form with a space would be another text's."""
        keep = np.array([not text.startswith(" ") for text in batch.texts], np.bool_)
        if keep.all():
            return batch
        if self._options.bad_lines == "error":
            bad = int(np.argmin(keep))
            raise DataError(
                f"line {batch.lines[bad]}: the text {shown(batch.texts[bad])} begins with a "
                "space, which cannot be told from the space that `leading_space` both adds",
                hint="strip the text, or choose `leading_space` always or never",
                line=int(batch.lines[bad]),
            )
        self._report.skipped += int((~keep).sum())
        return batch.kept(keep)

    def _check_lengths(self, batch: TextBatch, offsets: NDArray[np.int64]) -> None:
        lengths = np.diff(offsets)
        limit = self._limits.max_entry_tokens
        if lengths.max(initial=0) > limit:
            bad = int(np.argmax(lengths > limit))
            raise too_long(int(batch.lines[bad]), int(lengths[bad]), limit)

    def _verdicts(
        self, batch: TextBatch, head: str, tokens: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which rows are fine, bool[n]; or raise for the first that is not."""
        vocabulary, verdicts = self._vocabulary, np.empty(len(batch.texts), np.int8)
        bad = library.check_rows(
            tokens,
            offsets,
            batch.data,
            batch.offsets,
            as_bytes(head.encode()),
            as_bytes(self._options.prefix.encode()),
            as_bytes(self._options.suffix.encode()),
            vocabulary.flat_bytes,
            vocabulary.byte_offsets,
            verdicts,
        )
        if bad and self._options.bad_lines == "error":
            first = int(np.argmax(verdicts != 0))
            row = tokens[offsets[first] : offsets[first + 1]]
            raise self._untokenizable(batch, first, row, special=verdicts[first] == _NOT_ORDINARY)
        result: NDArray[np.bool_] = verdicts == 0
        return result

    def _untokenizable(
        self, batch: TextBatch, index: int, row: NDArray[np.int32], *, special: bool
    ) -> CdecError:
        line, text = int(batch.lines[index]), shown(batch.texts[index])
        problem = "a special or unknown token" if special else "tokens of another text"
        decoded = shown(self._vocabulary.decode(row.tolist()).decode("utf-8", "replace"))
        return UntokenizableError(
            f"line {line}: the tokenizer gives {problem} for {text}: they decode to {decoded}",
            hint="try `normalize` nfc if the tokenizer normalises text, use the tokenizer of "
            "another model, or leave such lines out with `bad_lines` skip",
            line=line,
        )


def tokenized_ahead(
    prepared: Iterator[TextBatch], encoder: SetEncoder, report: SetReport
) -> Iterator[tuple[TextBatch, Tokenized]]:
    """Tokenise one batch ahead in another thread, while this one reads and checks."""
    report.seconds["tokenize"] = 0.0
    with ThreadPoolExecutor(1, thread_name_prefix="tokenize") as pool:
        waiting = None
        for batch in prepared:
            running = batch, pool.submit(encoder.tokenize, batch)
            if waiting is not None:
                yield _finished(waiting, report)
            waiting = running
        if waiting is not None:
            yield _finished(waiting, report)


def _finished(waiting: tuple[TextBatch, Any], report: SetReport) -> tuple[TextBatch, Tokenized]:
    batch, future = waiting
    tokenized, seconds = future.result()
    report.seconds["tokenize"] += seconds
    return batch, tokenized

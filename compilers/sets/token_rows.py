"""Checks of members that are given as token ids."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, pairwise
from operator import index
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.sets.encode import too_long
from cdec.compilers.sets.options import SetLimits, SetOptions, SetReport
from cdec.compilers.sets.rows import RowBatch, gathered, offsets_of
from cdec.core.errors import FieldError
from cdec.core.native import library
from cdec.core.sets.entities import TokenBatch
from cdec.core.sets.members import hash_texts

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


class TokenRowReader:
    """Checks batches of token rows, and counts what it leaves out.

    Args:
        vocabulary: Of the ids.
        options: Resolved options; ``bad_lines`` and ``keep_empty`` are used.
        deny: Texts to leave out.
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
        self._deny = {text.encode("utf-8", "surrogatepass") for text in deny}
        self._report = report

    def check(self, batch: TokenBatch) -> RowBatch:
        """Return the rows of a batch that are members.

        Raises:
            FieldError: A row that is no sequence of ordinary token ids, with ``bad_lines="error"``.
            LimitError: A row longer than ``max_entry_tokens``.
        """
        lines = np.asarray(batch.lines, np.int64)
        ids, lengths = self._flat(batch, lines)
        limit = self._limits.max_entry_tokens
        if lengths.max(initial=0) > limit:
            bad = int(np.argmax(lengths > limit))
            raise too_long(int(lines[bad]), int(lengths[bad]), limit)
        offsets = offsets_of(lengths)
        verdicts = np.empty(len(lengths), np.int8)
        vocabulary = self._vocabulary
        flat, starts = vocabulary.flat_bytes, vocabulary.byte_offsets
        text_offsets = np.empty(len(offsets), np.int64)
        size = library.spelled_offsets(ids, offsets, starts, verdicts, text_offsets)
        data = np.empty(size, np.uint8)
        library.spell_rows(ids, offsets, flat, starts, text_offsets, data)
        keep = verdicts == 0
        if not keep.all():
            self._refuse(int(np.argmin(keep)), lines, ids, offsets)
            self._report.skipped += int((~keep).sum())
        if not self._options.keep_empty:
            self._report.blank += int((keep & (lengths == 0)).sum())
            keep &= lengths > 0
        if self._deny:
            keep &= self._not_denied(data, text_offsets, keep)
        hashes = hash_texts(data, text_offsets)
        picked = np.flatnonzero(keep)
        tokens = gathered(ids, offsets, picked)[0]
        return RowBatch(
            tokens, lengths[picked], lines[picked], hashes[picked], None, None, len(picked)
        )

    def _flat(
        self, batch: TokenBatch, lines: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Flatten the rows; ids that do not fit into 32 bits become -1, which no vocabulary has."""
        try:
            lengths = np.fromiter(map(len, batch.rows), np.int32, len(batch.rows))
            # subtle: index() refuses 1.5 and "1", which numpy would cut or convert.
            wide = np.fromiter(map(index, chain.from_iterable(batch.rows)), np.int64)
        except (TypeError, OverflowError):
            raise _bad_row(batch, lines) from None
        fits = (wide >= 0) & (wide < 2**31)
        return np.where(fits, wide, -1).astype(np.int32), lengths

    def _refuse(
        self,
        bad: int,
        lines: NDArray[np.int64],
        ids: NDArray[np.int32],
        offsets: NDArray[np.int64],
    ) -> None:
        if self._options.bad_lines == "skip":
            return
        row = ids[offsets[bad] : offsets[bad + 1]].tolist()
        ordinary = self._vocabulary.is_ordinary
        wrong = next(t for t in row if not 0 <= t < len(ordinary) or not ordinary[t])
        raise FieldError(
            f"line {lines[bad]}: token id {wrong} is special, unused or not in [0, "
            f"{self._vocabulary.size}); expected ordinary tokens",
            hint="leave end-of-sequence and other special ids out of the rows",
            line=int(lines[bad]),
            field="token_ids",
        )

    def _not_denied(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], keep: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        flat, bounds = data.tobytes(), offsets.tolist()
        texts = (flat[a:b] for a, b in pairwise(bounds))
        allowed = np.array([text not in self._deny for text in texts], np.bool_)
        self._report.denied += int((keep & ~allowed).sum())
        return allowed


def _bad_row(batch: TokenBatch, lines: NDArray[np.int64]) -> FieldError:
    """Return the error of the first row that is no sequence of 64-bit integers."""
    for line, row in zip(lines.tolist(), batch.rows, strict=True):
        try:
            np.fromiter(map(index, row), np.int64, len(row))
        except (TypeError, OverflowError):
            return FieldError(
                f"line {line}: {ascii(row)[:60]} is no row of token ids, expected integers",
                line=line,
                field="token_ids",
            )
    return FieldError("a row is no sequence of token ids", field="token_ids")

"""Texts, entity ids and source lines of a set's rows, and the index that finds a text's rows.

The index is a sorted array of 64-bit hashes, then an exact comparison; the texts themselves are not
stored, since a row decodes to its text. The hash is FNV-1a (Fowler, Noll, Vo; 64 bits) followed by
the finaliser of MurmurHash3 (Appleby), which spreads the bits of short texts; equal hashes of
different texts cost a comparison and nothing else.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import FieldError
from cdec.core.native import library

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


def hash_texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of every text ``data[offsets[i]:offsets[i + 1]]``, uint64[n]."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    library.hash_texts(data, offsets, hashes)
    return hashes


def build_text_index(
    hashes: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Sort the hashes of the rows' texts.

    Args:
        hashes: uint64[R], hash of the member text of row r.

    Returns:
        text_hash uint64[R] sorted, text_row int32[R] (rows of equal hashes ascending).
        Cost: one sort, O(R log R).
    """
    rows = np.argsort(hashes, kind="stable").astype(np.int32)
    return hashes[rows], rows


class TextIndex:
    """Exact lookup of member texts.

    Args:
        text_hash: uint64[R] sorted hashes.
        text_row: int32[R] row of each hash.
        tokens: int32[T] flat tokens of all rows.
        row_offsets: int64[R + 1].
        vocabulary: Spells the tokens.
        heads: What precedes the member in a row's bytes: prefix and leading space, one entry; or
            two where members were compiled both with and without the space.
        tail: What follows it.
        empty_head: What precedes the empty member, which takes no leading space; default: the
            first head.
    """

    def __init__(
        self,
        text_hash: NDArray[np.uint64],
        text_row: NDArray[np.int32],
        tokens: NDArray[np.int32],
        row_offsets: NDArray[np.int64],
        vocabulary: Vocabulary,
        *,
        heads: Sequence[bytes] = (b"",),
        tail: bytes = b"",
        empty_head: bytes | None = None,
    ) -> None:
        self._text_hash = text_hash
        self._text_row = text_row
        self._tokens = tokens
        self._row_offsets = row_offsets
        self._vocabulary = vocabulary
        self.heads = tuple(heads)
        self.tail = tail
        self.empty_head = self.heads[0] if empty_head is None else empty_head

    def lookup(self, text: bytes) -> NDArray[np.int64]:
        """Return the rows whose member text is exactly ``text``, ascending.

        Args:
            text: The member alone, without prefix, leading space and suffix.

        Returns:
            int64[k]; empty where no member has this text, more than one row where members were
            compiled with and without a leading space, or a token set spells a text twice.
            Cost: O(log R + length), some 20 microseconds.
        """
        data = np.frombuffer(text, np.uint8)
        wanted = hash_texts(data, np.array([0, len(text)], np.int64))
        first = int(np.searchsorted(self._text_hash, wanted[0], "left"))
        last = int(np.searchsorted(self._text_hash, wanted[0], "right"))
        candidates = self._text_row[first:last].tolist()
        heads = self.heads if text else (self.empty_head,)
        spelled = [np.frombuffer(head + text + self.tail, np.uint8) for head in heads]
        rows = [row for row in candidates if any(self._spells(row, full) for full in spelled)]
        return np.array(rows, np.int64)

    def _spells(self, row: int, full: NDArray[np.uint8]) -> bool:
        vocabulary = self._vocabulary
        if not 0 <= row < len(self._row_offsets) - 1:
            return False
        start, stop = int(self._row_offsets[row]), int(self._row_offsets[row + 1])
        flat, offsets = vocabulary.flat_bytes, vocabulary.byte_offsets
        return bool(library.row_spells(self._tokens, start, stop, flat, offsets, full))


_Form = Literal["NFC", "NFKC"]
_SHOWN = 5
"""Unknown candidates that an error names."""


@dataclass(frozen=True, eq=False)
class SetMembers:
    """Texts and entity ids of a set's rows.

    Attributes:
        index: Member text -> rows.
        normalize: ``none``, ``nfc`` or ``nfkc``, as the members were compiled.
        source_offsets: int64[R + 1] row -> range of ``source_lines``.
        source_lines: int64[L] 1-based source lines, row by row.
        id_offsets: int64[L + 1] entity ids by position in ``source_lines``; empty where the source
            had no ids: the line number serves.
        id_bytes: uint8[...] the ids' UTF-8.
    """

    index: TextIndex
    normalize: str
    source_offsets: NDArray[np.int64]
    source_lines: NDArray[np.int64]
    id_offsets: NDArray[np.int64]
    id_bytes: NDArray[np.uint8]

    @classmethod
    def from_mapping(
        cls, arrays: Mapping[str, NDArray[Any]], index: TextIndex, normalize: str
    ) -> SetMembers:
        """Pick the columns out of an artifact's."""
        names = ("source_offsets", "source_lines", "id_offsets", "id_bytes")
        return cls(index, normalize, **{name: arrays[name] for name in names})

    def member_text(self, decoded: bytes) -> bytes:
        """Cut forced prefix (with leading space) and suffix off a row's bytes.

        subtle: compiled with and without a leading space, a text may begin with either head; the
        one that leaves a member is right, and the longest where neither does (unfinished texts).
        """
        tail = self.index.tail
        body = decoded.removesuffix(tail) if tail else decoded
        texts = [body[len(head) :] for head in self.index.heads if body.startswith(head)]
        if not texts:
            # Unfinished within the forced prefix.
            return b""
        if len(texts) > 1:
            for text in texts:
                if len(self.index.lookup(text)):
                    return text
        return min(texts, key=len)

    def content(self, decoded: bytes) -> bytes | None:
        """Return what stands between forced prefix and suffix, both there; else None.

        The leading space of the set is its own, and no part of texts: it may be missing, as it is
        in the empty head.

        subtle: the empty member takes no leading space; and a text may begin with any of several
        heads, of which the one that leaves a member is right.
        """
        index = self.index
        if not decoded.endswith(index.tail):
            return None
        body = decoded[: len(decoded) - len(index.tail)]
        if body == index.empty_head:
            return b""
        heads = dict.fromkeys((*index.heads, index.empty_head))
        texts = [body[len(h) :] for h in heads if body.startswith(h) and body != h]
        members = [text for text in texts if len(index.lookup(text))]
        return min(members or texts, key=len, default=None)

    def text_of(self, text: bytes) -> bytes:
        """Return the member text that ``text`` is, or else holds, as ``Constraint.text_of``."""
        inside = None if len(self.index.lookup(text)) else self.content(text)
        return text if inside is None else inside

    def rows_of_text(self, text: bytes) -> NDArray[np.int64]:
        """Return the rows of a text as a user writes it, normalised as the members were."""
        if self.normalize != "none":
            # Bytes that are no UTF-8 come back as they are.
            spelled = text.decode("utf-8", "surrogateescape")
            spelled = unicodedata.normalize(cast(_Form, self.normalize.upper()), spelled)
            text = spelled.encode("utf-8", "surrogateescape")
        return self.index.lookup(self.text_of(text))

    def rows_of_id(self, entity_id: str) -> NDArray[np.int64]:
        """Return the rows of one entity, ascending; empty for an unknown id.

        Cost: the first call sorts all ids (about a second for 6.4 million), later ones O(log L).
        """
        if len(self.id_offsets):
            positions = self._positions_of_id(entity_id.encode("utf-8", "surrogatepass"))
        elif entity_id.isascii() and entity_id.isdigit() and len(entity_id) < 19:
            lines, order = self._lines
            bounds = np.searchsorted(lines, [int(entity_id), int(entity_id) + 1])
            positions = order[bounds[0] : bounds[1]]
        else:
            positions = np.empty(0, np.int64)
        return np.unique(np.searchsorted(self.source_offsets, positions, side="right") - 1)

    def candidate_rows(
        self, texts_or_ids: Sequence[str], kept: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return the rows of candidates, ascending and distinct int64[k].

        Args:
            texts_or_ids: Member texts, or entity ids where no member has such a text.
            kept: Takes rows of the compiled set, and returns those of a smaller set among them.

        Raises:
            FieldError: No candidates, or some that ``kept`` has no rows of.
        """
        found: list[NDArray[np.int64]] = []
        unknown = []
        for text in texts_or_ids:
            rows = kept(self.rows_of_text(text.encode("utf-8", "surrogatepass")))
            if not len(rows):
                rows = kept(self.rows_of_id(text))
            if len(rows):
                found.append(rows)
            else:
                unknown.append(text)
        if unknown or not found:
            raise _unknown_candidates(unknown)
        return np.unique(np.concatenate(found))

    def entity_ids(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the distinct entity ids of some rows, in the order of their source lines."""
        known = range(len(self.source_lines))
        ranges = [known[slice(*self.source_offsets[row : row + 2])] for row in rows.tolist()]
        positions = sorted(
            (position for part in ranges for position in part), key=self.source_lines.__getitem__
        )
        if not len(self.id_offsets):
            return list(dict.fromkeys(str(self.source_lines[at]) for at in positions))
        return list(dict.fromkeys(self._id(at).decode("utf-8", "replace") for at in positions))

    def _id(self, position: int) -> bytes:
        start, stop = self.id_offsets[position : position + 2].tolist()
        return self.id_bytes[start:stop].tobytes()

    def _positions_of_id(self, wanted: bytes) -> NDArray[np.int64]:
        hashes, order = self._id_hashes
        hashed = hash_texts(np.frombuffer(wanted, np.uint8), np.array([0, len(wanted)]))[0]
        first, stop = (int(np.searchsorted(hashes, hashed, side)) for side in ("left", "right"))
        found = [at for at in order[first:stop].tolist() if self._id(at) == wanted]
        return np.array(found, np.int64)

    @cached_property
    def _lines(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self.source_lines, kind="stable")
        return self.source_lines[order], order

    @cached_property
    def _id_hashes(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        hashes = hash_texts(self.id_bytes, self.id_offsets)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order


def _unknown_candidates(unknown: Sequence[str]) -> FieldError:
    if not unknown:
        return FieldError(
            "candidates is empty, expected at least one member",
            hint="Leave the field out to allow every member.",
            field="candidates",
        )
    names = ", ".join(repr(text) for text in unknown[:_SHOWN])
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    return FieldError(
        f"not members of the set, neither as text nor as entity id: {names}{more}",
        hint="Candidates must be among the entities the set was compiled from.",
        field="candidates",
        unknown=list(unknown),
    )

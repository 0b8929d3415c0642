"""Texts of a set as a trie over their bytes, for constraints that hold sets within them.

A constraint that reads characters, of whatever tokens, has no use for a member's tokenisation:
texts alone matter, so that a set compiled for one tokenizer serves models of any other. Forced
prefixes, suffixes and leading spaces are no part of a text.

A trie is made once for an artifact, and kept in the user's cache as an artifact of its own whose
vocabulary is the 256 bytes: it is mapped, so that processes share it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, takewhile
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.opened import StoredConstraint, bind_artifact, open_artifact, read_artifact
from cdec.core.artifacts.read import ArtifactFile
from cdec.core.artifacts.write import DIGEST_KEY, recorded_metadata, write_artifact
from cdec.core.constraint import Constraint
from cdec.core.errors import (
    ArtifactError,
    EncodingError,
    InputMissingError,
    UsageError,
)
from cdec.core.files.cache import CacheFolder
from cdec.core.mask import offsets_of
from cdec.core.native import library
from cdec.core.sets.byte_trie import byte_trie, bytes_of_rows
from cdec.core.sets.known_rows import KnownRows
from cdec.core.sets.rows import RowFilter, SetRows
from cdec.core.sets.session import TrieView, make_view
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import SetArrays
from cdec.core.sets.within import Adder, MemberTexts, quoted
from cdec.core.tokens.vocabulary import BYTES

_FEW_BYTES = 1 << 20
"""Texts of so many bytes together are sorted anew each time, which costs some hundredth of a
second."""
_MOST_FILES = 32
_NEAREST = 3
"""Members that a message names."""


@dataclass(frozen=True, eq=False)
class SpelledSet(MemberTexts):
    """A set and the trie over the bytes of its texts.

    Attributes:
        members: The set: texts and ids are looked up there, not in the trie.
        arrays: R distinct texts, sorted by bytes, and their trie; tokens are bytes.
        sources: int64[S] rows of ``members`` that have each text, those of one text together.
        source_offsets: int64[R + 1] where those of each text stand.
        row_filter: Texts that are kept; None keeps all.
        known: What was asked of the texts before; sets with the same trie share it.
    """

    members: SetConstraint
    arrays: SetArrays
    sources: NDArray[np.int64]
    source_offsets: NDArray[np.int64]
    row_filter: RowFilter | None = None
    known: KnownRows = field(default_factory=KnownRows)
    noun = "set"

    @classmethod
    def of(cls, members: SetConstraint) -> SpelledSet:
        """Return a set with its trie.

        Cost: a sort of the texts, some 2 seconds for a million; of an artifact it is kept, and
        opened in milliseconds the next time.

        Raises:
            EncodingError: A member is no UTF-8.
        """
        whole = members.rows.compiled is None
        if not whole or len(members.arrays.tokens) < _FEW_BYTES // 4:
            return _filtered(members, *_spelled(members.rows))
        unfiltered = replace(members.rows, row_filter=None)
        digest = members.metadata.get(DIGEST_KEY, "")
        kept = _kept(digest) if digest else None
        if kept is None:
            kept = _spelled(unfiltered)
            if digest:
                _keep(digest, *kept)
        return _filtered(members, *kept)

    def candidates(self, texts_or_ids: Sequence[str]) -> SpelledSet:
        """Return some members alone, as ``SetConstraint.candidates``."""
        return SpelledSet.of(self.members.candidates(texts_or_ids))

    def without(self, texts: Sequence[str]) -> SpelledSet:
        """Return the members but for those of some texts; others are ignored.

        Raises:
            EmptySetError: Nothing is left.
        """
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        left = self.members.deny_texts(encoded)
        kept = _filtered(left, self.arrays, self.sources, self.source_offsets)
        return replace(kept, known=self.known)

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest text of the trie, those that are left out included. O(R) once."""
        return int(np.diff(self.arrays.row_offsets).max())

    @property
    def n_texts(self) -> int | None:
        """Number of texts that are kept."""
        return self.arrays.n_rows if self.row_filter is None else self.row_filter.n_kept

    @property
    def digest(self) -> str:
        """Digest of the set's artifact; of a set in memory, of its columns."""
        return str(self.members.metadata.get(DIGEST_KEY, ""))

    def holds(self, text: bytes) -> bool | None:
        """Say whether a text is a member, by the set's own index and not by the trie."""
        return bool(self.members.rows.of_text(text).size)

    def begins(self, text: bytes) -> bool:
        """Say whether a member begins with a text."""
        near = self.nearest(text, 1)
        return bool(near) and near[0].encode().startswith(text)

    def record(self, text: str) -> dict[str, Any] | None:
        """Return ``text`` and ``id`` of a member; None for another text.

        ``entity_ids`` stand beside where several entities have the text.
        """
        data = text.encode("utf-8", "surrogatepass")
        if not self.holds(data):
            return None
        ids = self.ids_of(data)
        several = {"entity_ids": ids} if len(ids) > 1 else {}
        return {"id": ids[0] if ids else None, **several, "text": text}

    def refusal(self, name: str, text: str, ends: bool) -> str:
        """Return why a text is no member, and the nearest members."""
        near = self.nearest(text.encode("utf-8", "surrogatepass"), _NEAREST)
        return f"no member of {name} {quoted(text, ends)}; nearest: {', '.join(map(repr, near))}"

    def ids_of(self, text: bytes) -> list[str]:
        """Return the entity ids of a member; none for another text."""
        return self.members.rows.entity_ids(self.members.rows.of_text(text))

    def nearest(self, text: bytes, most: int) -> list[str]:
        """Return the members that share the longest beginning with a text, ``most`` of them."""
        rows = range(self.arrays.n_rows)
        at = bisect_left(rows, text, key=self._row)
        near = range(max(at - most, 0), min(at + most, len(rows)))
        kept = None if self.row_filter is None else self.row_filter.kept
        found = [self._row(row) for row in near if kept is None or kept[row]]
        shared = {member: _shared(member, text) for member in found}
        found.sort(key=lambda member: -shared[member])
        alike = [member for member in found if shared[member]] or found
        return [member.decode() for member in alike[:most]]

    def row_of(self, text: bytes) -> int | None:
        """Return the row of a text, one that is left out included; None for another text."""
        rows = range(self.arrays.n_rows)
        at = bisect_left(rows, text, key=self._row)
        return at if at < len(rows) and self._row(at) == text else None

    def _row(self, row: int) -> bytes:
        return self.arrays.row(row).astype(np.uint8).tobytes()

    def add(self, add_trie: Adder, add_document: Adder, *_: Adder) -> object:
        """Add the trie to an engine."""
        held = library.hold_trie(self.view())
        add_trie(held)
        return held

    def view(self) -> TrieView:
        """Return what walks of the trie read."""
        return make_view(self.arrays, BYTES, self.row_filter, ends_itself=False)


def _shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginnings."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def spelled(given: Any) -> MemberTexts:
    """Return member texts: a set's artifact by its path, an opened set, or texts that are such.

    Raises:
        UsageError: It is no set.
        CdecError: The file is missing or damaged, or a member is no UTF-8.
    """
    if isinstance(given, MemberTexts):
        return given
    opened = open_artifact(given) if isinstance(given, str | PathLike) else given
    opened = bind_artifact(opened) if isinstance(opened, ArtifactFile) else opened
    texts = opened.member_texts() if isinstance(opened, StoredConstraint) else None
    if isinstance(texts, MemberTexts):
        return texts
    if not isinstance(opened, SetConstraint):
        what = opened.facts.kind if isinstance(opened, Constraint) else type(opened).__name__
        raise UsageError(
            f"a set is to stand within a constraint, and a {what} is given",
            hint="give the artifact that cdec compile-set or cdec compile-spans made",
        )
    return SpelledSet.of(opened)


def _filtered(
    members: SetConstraint,
    arrays: SetArrays,
    sources: NDArray[np.int64],
    source_offsets: NDArray[np.int64],
) -> SpelledSet:
    """Return a set with a trie of all its rows, of which its own filter keeps some."""
    own, kept = members.row_filter, None
    if own is not None:
        some = np.logical_or.reduceat(own.kept[sources], source_offsets[:-1])
        kept = RowFilter.from_kept(some)
    return SpelledSet(members, arrays, sources, source_offsets, kept)


def _spelled(rows: SetRows) -> tuple[SetArrays, NDArray[np.int64], NDArray[np.int64]]:
    """Return the trie of the texts of all rows, those that are left out included, and its rows.

    Raises:
        EncodingError: A member is no UTF-8.
    """
    data, offsets = _texts(rows)
    _require_texts(data, offsets)
    return byte_trie(data, offsets)


def _texts(rows: SetRows) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of the texts of all rows, and where each begins, int64[R + 1]."""
    offsets = rows.arrays.row_offsets
    data, whole = bytes_of_rows(rows.arrays.tokens, offsets, rows.vocabulary)
    index = rows.members.index
    if not index.tail and not any(index.heads) and not index.empty_head:
        return data, whole
    all_bytes = data.tobytes()
    bounds = whole.tolist()
    texts = [rows.members.member_text(all_bytes[a:b]) for a, b in pairwise(bounds)]
    return np.frombuffer(b"".join(texts), np.uint8), offsets_of([len(text) for text in texts])


def _require_texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    """Refuse members that are no UTF-8.

    subtle: where all together are, and none begins within a character, each is.
    """
    begins = offsets[:-1][np.diff(offsets) > 0]
    try:
        data.tobytes().decode("utf-8")
        is_text = not bool(((data[begins] & 0xC0) == 0x80).any())
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        return
    texts = (data[a:b].tobytes() for a, b in pairwise(offsets))
    wrong = next(text for text in texts if text.decode("utf-8", "replace").encode() != text)
    raise EncodingError(
        f"the member {wrong!r} is no UTF-8, and sets within a constraint are made of texts",
        hint="compile the set of texts",
    )


def _folder() -> CacheFolder:
    return CacheFolder("spelled", most=_MOST_FILES, max_bytes=1 << 40)


def _kept(
    digest: str,
) -> tuple[SetArrays, NDArray[np.int64], NDArray[np.int64]] | None:
    """Return what was kept of an artifact, mapped; None where there is none, or it is damaged."""
    path = _folder().owned(f"{digest}.arrow")
    if path is None:
        return None
    try:
        file = read_artifact(path)
    except (ArtifactError, InputMissingError):
        return None
    if file.metadata.get("cdec.source_hash") != digest or file.kind != "set":
        return None
    arrays = SetArrays.from_mapping(file.arrays)
    return arrays, file.arrays["source_lines"] - 1, file.arrays["source_offsets"]


def _keep(
    digest: str, arrays: SetArrays, sources: NDArray[np.int64], source_offsets: NDArray[np.int64]
) -> None:
    """Keep the trie of an artifact: a set of bytes, whose lines are the rows of the other."""
    options = {"heads": [""], "suffix_bytes": "", "prefix_bytes": ""}
    counts = {"rows": arrays.n_rows, "nodes": arrays.n_nodes, "tokens": len(arrays.tokens)}
    columns = arrays.to_mapping() | {
        "text_hash": np.empty(0, np.uint64),
        "text_row": np.empty(0, np.int32),
        "source_offsets": source_offsets,
        "source_lines": sources + 1,
        "id_offsets": np.empty(0, np.int64),
        "id_bytes": np.empty(0, np.uint8),
        "vocabulary_offsets": BYTES.byte_offsets,
        "vocabulary_bytes": BYTES.flat_bytes,
    }
    metadata = recorded_metadata(BYTES, "", digest, options, counts)
    _folder().keep_by(
        f"{digest}.arrow",
        lambda path: write_artifact(path, "set", columns, metadata, force=True),
    )

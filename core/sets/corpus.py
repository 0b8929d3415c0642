"""The pieces of a corpus's documents, verbatim, as a mapped artifact: retrieval by generation.

A member is every token sequence whose bytes are a piece of one document: it begins and ends with
characters, or with whole words or sentences, in any tokens, and never runs across documents
(Bevilacqua et al. 2022, "Autoregressive Search Engines", with bytes in the place of tokens). What
follows each place where a piece may begin is sorted (``spans``), so that the places of a text are a
range of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import (
    Columns,
    chunks,
    json_object,
    require,
    require_counts,
    require_ends,
    require_length,
    require_range,
    require_rising,
    vocabulary_size,
)
from cdec.core.artifacts.opened import StoredConstraint
from cdec.core.artifacts.read import ArtifactFile, ArtifactKind
from cdec.core.artifacts.write import DIGEST_KEY
from cdec.core.constraint import Facts, NarrowedSet
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, FieldError, UsageError
from cdec.core.mask import mask_words, offsets_of
from cdec.core.native import library
from cdec.core.session import DEAD, Session
from cdec.core.sets.spans import (
    MOST_COMPARED,
    SEPARATOR,
    SpanOptions,
    SpanSearch,
    SpanSession,
    SpanView,
    letters_known,
    require_end_ids,
    span_rows,
    with_masks,
)
from cdec.core.sets.within import Adder, MemberTexts, count_texts, quoted
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import BYTES, Vocabulary

COLUMNS: Mapping[str, str] = {
    "text": "uint8",
    "begin": "int32",
    "length": "int32",
    "least": "int32",
    "ends": "uint8",
    "letters": "uint8",
    "wide_states": "int64",
    "wide_masks": "uint32",
    "document_offsets": "int64",
    "document_lines": "int64",
    "id_offsets": "int64",
    "id_bytes": "uint8",
    "vocabulary_offsets": "int64",
    "vocabulary_bytes": "uint8",
}
"""Column name -> element type.

``text`` is the documents' UTF-8, a byte 255 behind each; ``begin`` to ``ends`` are the rows as
``cdec_spans`` has them, of which those are empty that say nothing more; ``letters`` are the bytes
of the text; ``wide_*`` are states of many rows and their masks. Document m is
``text[document_offsets[m]:document_offsets[m + 1] - 1]``, from line ``document_lines[m]`` of the
source; its id is ``id_bytes[id_offsets[m]:id_offsets[m + 1]]`` (both empty where the source had no
ids: line numbers serve).
"""
MAX_BYTES = 2**31 - 2
"""Bytes of a corpus, one more for each document."""
_FEW = 16
"""How much smaller documents are that are sorted again: others are picked from the sorted rows."""
DOCUMENTS = "documents"
"""What records call the documents that they narrow a corpus to."""
LISTED = 10
"""Documents that a sample names of those in which its text stands."""
_CHUNK = 1 << 22
_ROWS = ("data", "begin", "length", "least", "ends")
"""Of a view, those that are of no vocabulary."""


def recorded_options(metadata: Mapping[str, str]) -> SpanOptions:
    """Return which pieces an artifact holds.

    Raises:
        ArtifactInvalidError: It does not say.
    """
    recorded = json_object(metadata, "cdec.options")
    try:
        options = SpanOptions(**{each.name: recorded[each.name] for each in fields(SpanOptions)})
    except (KeyError, TypeError, UsageError):
        options = None
    require(options is not None and asdict(options) == recorded, "cdec.options", "kinds of pieces")
    assert options is not None
    return options


def check_shape(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check lengths, ends of offsets and options; the same cost for every corpus.

    Raises:
        ArtifactInvalidError: An invariant does not hold.
    """
    words = mask_words(vocabulary_size(arrays, metadata))
    options = recorded_options(metadata)
    require_counts(metadata)
    size, rows, count = (len(arrays[name]) for name in ("text", "begin", "document_lines"))
    require(0 < size <= MAX_BYTES, "text", "at least a document, and bytes that an int32 counts")
    counted = json_object(metadata, "cdec.counts").get("rows")
    require(0 < rows < size and rows == counted, "begin", "as many rows as were counted")
    is_cut = options != SpanOptions()
    require_length(arrays, "length", rows if is_cut else 0, "length a row that is cut")
    require_length(arrays, "least", rows if options.shortest else 0, "end a row that has a least")
    require_length(arrays, "ends", size + 1 if options.whole else 0, "mark a place to end")
    require_ends(arrays, "document_offsets", count, size)
    require(0 < len(arrays["letters"]) < 256, "letters", "the bytes of the text")
    masks = len(arrays["wide_states"])
    require(masks, "wide_states", "at least the state of all rows")
    require_length(arrays, "wide_masks", masks * words, "mask a wide state")
    if len(arrays["id_offsets"]) or len(arrays["id_bytes"]):
        require_ends(arrays, "id_offsets", count, len(arrays["id_bytes"]))


def check(arrays: Columns, metadata: Mapping[str, str]) -> None:
    """Check every index, that documents are texts, and that no row runs across two of them.

    That rows are sorted and masks are theirs is a matter of ``compilers.verify``.

    Raises:
        ArtifactInvalidError: An invariant does not hold. Cost: one read of every column.
    """
    for name in ("document_offsets", "id_offsets", "vocabulary_offsets"):
        require_rising(arrays, name)
    _check_documents(arrays)
    _check_rows(arrays)
    size = len(arrays["text"])
    require_range(arrays, "least", 0, size + 1)
    require_range(arrays, "ends", 0, 2)
    require_range(arrays, "document_lines", 1, 2**62)
    letters, states = arrays["letters"], arrays["wide_states"]
    require((letters[1:] > letters[:-1]).all() and letters[-1] < 255, "letters", "sorted bytes")
    require((states[1:] > states[:-1]).all() and states[0] == 0, "wide_states", "sorted states")
    require(((states & (2**31 - 1)) < len(arrays["begin"])).all(), "wide_states", "rows that exist")
    require((states >> 31 <= size).all(), "wide_states", "texts within the corpus")
    tokens = int(metadata["cdec.vocabulary_size"])
    last = arrays["wide_masks"].reshape(len(states), -1)[:, -1]
    beyond = last >> np.uint32((tokens - 1) % 32) >> np.uint32(1)
    require(not beyond.any(), "wide_masks", "tokens of the vocabulary")


def _check_documents(arrays: Columns) -> None:
    """Documents are UTF-8 and end with the byte that stands nowhere else."""
    text, offsets = arrays["text"], arrays["document_offsets"]
    require((offsets[1:] > offsets[:-1]).all(), "document_offsets", "documents with their end")
    require((text[offsets[1:] - 1] == 255).all(), "text", "a byte 255 behind each document")
    found, first = 0, 0
    while first < len(offsets) - 1:
        most = int(np.searchsorted(offsets, offsets[first] + _CHUNK, "right"))
        behind = min(max(most - 1, first + 1), len(offsets) - 1)
        part = text[offsets[first] : offsets[behind]].tobytes()
        found += part.count(SEPARATOR)
        try:
            part.replace(SEPARATOR, b"\n").decode()
        except UnicodeDecodeError:
            require(False, "text", "UTF-8")
        first = behind
    require(found == len(offsets) - 1, "text", "no other byte 255")


def _check_rows(arrays: Columns) -> None:
    """Rows begin with a character, and end within their document."""
    text, begin, length = arrays["text"], arrays["begin"], arrays["length"]
    require_range(arrays, "begin", 0, len(text))
    for a, b in chunks(len(begin)):
        first = text[begin[a:b]]
        require(((first < 0x80) | (first >= 0xC0)).all(), "begin", "places of characters")
        require((first < 255).all(), "begin", "places within documents")
    offsets = arrays["document_offsets"]
    for a, b in chunks(len(length)):
        document = np.searchsorted(offsets, begin[a:b], "right")
        stops = begin[a:b].astype(np.int64) + length[a:b]
        require((length[a:b] > 0).all(), "length", "at least a byte")
        require((stops < offsets[document]).all(), "length", "rows that end within their document")


@dataclass(frozen=True, eq=False)
class Documents:
    """The documents of a corpus; arrays as in ``COLUMNS``."""

    text: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    lines: NDArray[np.int64]
    id_offsets: NDArray[np.int64]
    id_bytes: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lines)

    def id_of(self, number: int) -> str:
        """Return the id of a document, or the line that it came from."""
        if not len(self.id_offsets):
            return str(self.lines[number])
        first, stop = self.id_offsets[number : number + 2].tolist()
        return self.id_bytes[first:stop].tobytes().decode("utf-8", "replace")

    @cached_property
    def numbers(self) -> Mapping[str, list[int]]:
        """Documents by their ids."""
        found: dict[str, list[int]] = {}
        for number in range(len(self)):
            found.setdefault(self.id_of(number), []).append(number)
        return found

    def some(self, numbers: Sequence[int]) -> Documents:
        """Return some of the documents, in their order here; they are copied."""
        at = np.array(numbers, np.int64)
        text = [self.text[a:b] for a, b in zip(self.offsets[at], self.offsets[at + 1], strict=True)]
        names = [self.id_of(number).encode() for number in numbers]
        return Documents(
            np.concatenate(text),
            offsets_of(self.offsets[at + 1] - self.offsets[at]),
            self.lines[at],
            offsets_of(np.array(list(map(len, names)))),
            np.frombuffer(b"".join(names), np.uint8),
        )

    def content(self, number: int) -> str:
        """Return the text of a document."""
        first, stop = self.offsets[number : number + 2].tolist()
        return self.text[first : stop - 1].tobytes().decode("utf-8", "replace")

    def of(self, places: NDArray[Any]) -> NDArray[np.int64]:
        """Return the documents of places in the text."""
        return np.searchsorted(self.offsets, places, "right") - 1

    def characters(self, number: int, place: int) -> int:
        """Return how many characters of a document stand before a place in the text."""
        return int(np.count_nonzero(self.text[self.offsets[number] : place] & 0xC0 != 0x80))

    def find(self, piece: bytes) -> Iterator[int]:
        """Yield the places where some bytes stand, by plain search."""
        for a in range(0, len(self.text), _CHUNK):
            part = self.text[a : a + _CHUNK + len(piece) - 1].tobytes()
            at = part.find(piece)
            while at >= 0:
                yield a + at
                at = part.find(piece, at + 1)


class CorpusConstraint(StoredConstraint):
    """The pieces of the documents of a corpus.

    Args:
        documents: Of the corpus.
        view: Their rows; it stays.
        letters: uint8, the bytes of the text.
        options: Which pieces are meant.
        metadata: Of the artifact.
    """

    of_kind = Facts(kind="spans", takes_bytes=True)
    artifact = ArtifactKind(COLUMNS, check_shape, check, 1)

    def __init__(
        self,
        documents: Documents,
        view: SpanView,
        letters: NDArray[np.uint8],
        options: SpanOptions,
        vocabulary: Vocabulary,
        metadata: Mapping[str, str],
    ) -> None:
        require_end_ids(vocabulary)
        self.documents, self.options = documents, options
        self.vocabulary, self.metadata = vocabulary, metadata
        self.view, self._letters = view, letters
        self.size_said = f"{len(documents):,} documents"

    @classmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> CorpusConstraint:
        """Open a verified artifact."""
        arrays = file.arrays
        names = ("document_offsets", "document_lines", "id_offsets", "id_bytes")
        documents = Documents(arrays["text"], *(arrays[name] for name in names))
        rows = {name: arrays[name] for name in ("begin", "length", "least")}
        rows |= {"data": arrays["text"], "ends": arrays["ends"].view(np.bool_)}
        words = mask_words(vocabulary.size)
        view = SpanView.of(rows, vocabulary)._replace(
            wide_states=arrays["wide_states"], wide_masks=arrays["wide_masks"].reshape(-1, words)
        )
        options = recorded_options(file.metadata)
        return cls(documents, view, arrays["letters"], options, vocabulary, file.metadata)

    def narrowed(self, sets: Sequence[NarrowedSet]) -> CorpusConstraint:
        """Return the pieces of some documents, which are copied.

        Args:
            sets: Of the name ``documents`` alone: ids of those that are meant, or left out.

        Raises:
            FieldError: Another name, or an id of no document.
            EmptySetError: No document is left, or none has such a piece.

        Cost: a few documents are sorted again, 0.1 s and 16 MB for 1 MB; of many the rows of the
        corpus are picked, O(rows).
        """
        if not sets:
            return self
        kept = self._kept(sets)
        documents = self.documents.some(kept)
        is_small = len(documents.text) * _FEW < len(self.documents.text)
        rows = (
            span_rows(documents.text, documents.offsets, self.options)
            if is_small
            else _picked(self.view, self.documents.offsets, kept, documents)
        )
        if not len(rows["begin"]):
            raise EmptySetError("no document that is left has such a piece", hint="name others")
        view = with_masks(SpanView.of(rows, self.vocabulary), TokenTrie.of(self.vocabulary), 1)
        own = (self._letters, self.options, self.vocabulary, self.metadata)
        return CorpusConstraint(documents, view, *own)

    def _kept(self, sets: Sequence[NarrowedSet]) -> list[int]:
        """Return the documents that are left."""
        kept = set(range(len(self.documents)))
        for name, ids, is_denied in sets:
            unknown = [each for each in ids if each not in self.documents.numbers]
            if name != DOCUMENTS or unknown:
                raise FieldError(
                    f"the corpus has no document {unknown[0]!r}"
                    if name == DOCUMENTS
                    else f"a corpus has {DOCUMENTS!r} to choose from, not {name!r}",
                    hint='name documents by their ids: {"candidates": {"documents": ["d1"]}}',
                    field="candidates",
                )
            meant = {number for each in ids for number in self.documents.numbers[each]}
            kept = kept - meant if is_denied else kept & meant
        if not kept:
            raise EmptySetError("no document is left", hint="name one, or leave out fewer")
        return sorted(kept)

    def of_bytes(self) -> CorpusConstraint:
        """Return the corpus with the 256 bytes for tokens."""
        rows = self.view._asdict()
        view = SpanView.of({name: rows[name] for name in _ROWS}, BYTES)
        own = (self._letters, self.options, BYTES, self.metadata)
        return CorpusConstraint(self.documents, view, *own)

    def member_texts(self) -> CorpusPieces:
        """Return the pieces as texts, whatever tokens spell them."""
        return CorpusPieces(self)

    @cached_property
    def facts(self) -> Facts:
        """Facts of corpora, and of this one: without dead ends where every byte is a token."""
        is_sound = letters_known(self._letters, self.vocabulary)
        return replace(self.of_kind, is_sound=is_sound, metadata=self.metadata)

    @cached_property
    def _walk(self) -> SpanSession:
        return SpanSession(self.view, TokenTrie.of(self.vocabulary))

    def session(self, device: str = "cpu") -> Session:
        """Return the decoding run on ``cpu`` or a torch device; it holds no states."""
        return on_device(self._walk, device)

    def accepts(self, text: bytes) -> bool | None:
        """Look for the text in the documents as they are, without the sorted rows.

        Returns:
            None where more than 512 MiB would have to be compared.
        """
        try:
            piece = text.decode()
        except UnicodeDecodeError:
            return False
        if not piece or self.options == SpanOptions():
            return bool(piece) and next(self.documents.find(text), None) is not None
        compared, number, search = 0, -1, SpanSearch("", self.options)
        for place in self.documents.find(text):
            if self.documents.offsets[number + 1] <= place or number < 0:
                number = int(self.documents.of(np.array([place]))[0])
                search = SpanSearch(self.documents.content(number), self.options)
                compared += len(search.document)
            start = self.documents.characters(number, place)
            if search.fits(start, start + len(piece)):
                return True
            compared += start
            if compared > MOST_COMPARED:
                return None
        return False

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return where a piece stands: at how many places, and in which documents.

        Cost: O(places log documents).
        """
        places = np.sort(self._walk.begins(text))
        if not len(places):
            return {}
        numbers, first, counts = np.unique(
            self.documents.of(places), return_index=True, return_counts=True
        )
        listed = [
            {
                "document": self.documents.id_of(number),
                "offset": self.documents.characters(number, int(places[at])),
                "places": count,
            }
            for number, at, count in zip(
                numbers[:LISTED].tolist(), first.tolist(), counts.tolist(), strict=False
            )
        ]
        found = {"length": len(text.decode()), "places": len(places), "documents": len(numbers)}
        return {"span": {**found, "found": listed}}

    def statistics(self) -> Mapping[str, int | float]:
        """Return sizes: documents, bytes of their text, rows, masks made before."""
        return {
            "documents": len(self.documents),
            "bytes": len(self.documents.text) - len(self.documents),
            "rows": len(self.view.begin),
            "masks": len(self.view.wide_states),
        }


def _picked(
    view: SpanView, offsets: NDArray[np.int64], kept: Sequence[int], documents: Documents
) -> dict[str, NDArray[Any]]:
    """Return the rows that begin in some documents, in their order, as ``span_rows`` of these.

    Args:
        view, offsets: Of the corpus.
        kept: Numbers of the documents. documents: They, with offsets of their own.
    """
    moved = np.full(len(view.data), -1, np.int32)
    for at, number in enumerate(kept):
        first, stop = documents.offsets[at : at + 2]
        moved[offsets[number] : offsets[number + 1]] = np.arange(first, stop, dtype=np.int32)
    picked: dict[str, list[NDArray[Any]]] = {"begin": [], "length": [], "least": []}
    for a, b in chunks(len(view.begin)):
        begin = moved[view.begin[a:b]]
        own = begin >= 0
        picked["begin"].append(begin[own])
        picked["length"].append(view.length[a:b][own] if len(view.length) else view.length)
        least = view.least[a:b] - view.begin[a:b] + begin if len(view.least) else begin
        picked["least"].append(least[own] if len(view.least) else view.least)
    found: dict[str, NDArray[Any]] = {"data": documents.text}
    found |= {name: np.concatenate(parts) for name, parts in picked.items()}
    ends = [view.ends[offsets[number] : offsets[number + 1]] for number in kept]
    return found | {"ends": np.append(np.concatenate(ends), False) if len(view.ends) else view.ends}


class CorpusPieces(MemberTexts):
    """The pieces of a corpus's documents as member texts.

    Args:
        corpus: Of any vocabulary: its rows are of bytes, and are not copied.
    """

    noun = "quote"

    def __init__(self, corpus: CorpusConstraint) -> None:
        self.corpus = corpus.of_bytes()

    @property
    def digest(self) -> str:
        return str(self.corpus.metadata.get(DIGEST_KEY, ""))

    def add(self, add_trie: Adder, add_document: Adder, *_: Adder) -> object:
        held = library.hold_spans(self.corpus.view)
        add_document(held)
        return held

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest piece, or of the longest document. O(rows) once."""
        view = self.corpus.view
        if len(view.length):
            return int(view.length.max())
        return int(np.diff(self.corpus.documents.offsets).max()) - 1

    @cached_property
    def n_texts(self) -> int | None:
        return count_texts(self._each_piece())

    def _each_piece(self) -> Iterator[bytes]:
        """Yield the pieces that begin at each place."""
        view, data, ends = self.corpus.view, self.corpus.view.data, self.corpus.view.ends
        offsets, cut = self.corpus.documents.offsets, len(view.length) > 0
        for row in range(len(view.begin)):
            begin = int(view.begin[row])
            document = int(np.searchsorted(offsets, begin, "right"))
            stop = begin + int(view.length[row]) if cut else int(offsets[document]) - 1
            first = int(view.least[row]) if len(view.least) else begin + 1
            for end in range(first, stop + 1):
                if ends[end] if len(ends) else data[end] & 0xC0 != 0x80:
                    yield data[begin:end].tobytes()

    def holds(self, text: bytes) -> bool | None:
        """Look for the text in the documents as they are. O(bytes of the corpus)."""
        return self.corpus.accepts(text)

    def begins(self, text: bytes) -> bool:
        session = self.corpus.session()
        return int(session.advance_bytes(session.start(1), [text])[0]) != DEAD

    def record(self, text: str) -> dict[str, Any] | None:
        said = self.corpus.annotations(text.encode("utf-8", "surrogatepass"))
        return {**said, "text": text} if said else None

    def refusal(self, name: str, text: str, ends: bool) -> str:
        return f"no piece of {name} {quoted(text, ends)}"

    def candidates(self, texts_or_ids: Sequence[str]) -> CorpusPieces:
        """Return the pieces of some documents, by their ids."""
        chosen = NarrowedSet(DOCUMENTS, tuple(texts_or_ids), False)
        return CorpusPieces(self.corpus.narrowed([chosen]))

    def without(self, texts: Sequence[str]) -> CorpusPieces:
        """Return the pieces of all documents but some, by their ids; others are ignored."""
        known = tuple(each for each in texts if each in self.corpus.documents.numbers)
        if not known:
            return self
        return CorpusPieces(self.corpus.narrowed([NarrowedSet(DOCUMENTS, known, is_denied=True)]))


def corpus_columns(
    documents: Documents, rows: Mapping[str, NDArray[Any]], known: SpanView, vocabulary: Vocabulary
) -> dict[str, NDArray[Any]]:
    """Return the columns of a corpus's artifact.

    Args:
        documents: Of the corpus.
        rows: As ``span_rows`` gives them.
        known: These rows, with masks.
        vocabulary: Of the masks.
    """
    letters = np.zeros(256, np.int64)
    for a, b in chunks(len(documents.text)):
        letters += np.bincount(documents.text[a:b], minlength=256)
    return {
        "text": documents.text,
        **{name: rows[name] for name in ("begin", "length", "least")},
        "ends": rows["ends"].view(np.uint8),
        "letters": np.flatnonzero(letters[:255]).astype(np.uint8),
        "wide_states": known.wide_states,
        "wide_masks": known.wide_masks[:, : mask_words(vocabulary.size)].reshape(-1),
        "document_offsets": documents.offsets,
        "document_lines": documents.lines,
        "id_offsets": documents.id_offsets,
        "id_bytes": documents.id_bytes,
        "vocabulary_offsets": vocabulary.byte_offsets,
        "vocabulary_bytes": vocabulary.flat_bytes,
    }

"""Spans: the pieces of a document, verbatim, as a constraint: quotes that can be checked.

    spans = SpanConstraint(document, vocabulary, SpanOptions(whole="words", longest=20))

What follows each place where a piece may begin, up to where the longest ends, is a row; the rows
are sorted (a suffix array), so those that begin with a text stand together. A state is the first of
them and a number of bytes: equal texts are equal states, and a session holds none.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, EncodingError, LimitError, UsageError
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.native import library
from cdec.core.session import HostSession, Session, integers
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

MAX_DOCUMENT_BYTES = 1 << 27
"""Bytes of a document; it takes some 40 bytes each while it is sorted, 20 afterwards."""
WORDS, SENTENCES = "words", "sentences"

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_LINE = re.compile(r"[^\n]+")
_SENTENCE = re.compile(r"\S.*?(?:[.!?…][\"'”’»)\]]*(?=\s|\Z)|[。！？][」』”’]*|\Z)")
MOST_COMPARED = 1 << 29
"""Bytes compared in search of a place where a text may stand."""
_FEW_EDGES = 256
"""Words or sentences that are tried one by one."""
_MASKS_AT_ONCE = 16
SEPARATOR = b"\xff"
"""Stands behind a document; no text has such a byte."""


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """Which pieces of a document are meant.

    Attributes:
        whole: ``words``: pieces begin where a word begins and end where one ends; ``sentences``:
            those of sentences, which end with their mark, or with a line; None: any characters.
        shortest, longest: Words that a piece touches, at least and at most; None for any number.

    Raises:
        UsageError: Another word for ``whole``, a number below 1, or more at least than at most.
    """

    whole: str | None = None
    shortest: int | None = None
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.whole not in (None, WORDS, SENTENCES):
            raise UsageError(
                f"spans are of whole {WORDS} or whole {SENTENCES}, not of whole {self.whole!r}",
                hint="leave `whole` out for pieces of any characters",
            )
        for name, number in (("shortest", self.shortest), ("longest", self.longest)):
            if number is not None and number < 1:
                raise UsageError(
                    f"`{name}` is {number} words, at least 1 was expected",
                    hint="leave it out for any number of words",
                )
        if self.shortest and self.longest and self.shortest > self.longest:
            raise UsageError(
                f"spans of {self.shortest} words at least have more than {self.longest}",
                hint="exchange `shortest` and `longest`",
            )


class SpanView(NamedTuple):
    """All that a walk reads; ``cdec_spans`` of the compiled library, field by field."""

    data: NDArray[np.uint8]
    begin: NDArray[np.int32]
    length: NDArray[np.int32]
    least: NDArray[np.int32]
    ends: NDArray[np.bool_]
    is_ordinary: NDArray[np.bool_]
    flat: NDArray[np.uint8]
    byte_offsets: NDArray[np.int64]
    end_ids: NDArray[np.int64]
    wide_states: NDArray[np.int64]
    wide_masks: NDArray[np.uint32]
    width: int

    @classmethod
    def of(cls, rows: Mapping[str, NDArray[Any]], vocabulary: Vocabulary) -> SpanView:
        """Return the view of rows, as ``span_rows`` gives them, without known masks."""
        return cls(
            **rows,
            is_ordinary=vocabulary.is_ordinary,
            flat=vocabulary.flat_bytes,
            byte_offsets=vocabulary.byte_offsets,
            end_ids=np.array(vocabulary.eos_token_ids, np.int64),
            wide_states=np.empty(0, np.int64),
            wide_masks=np.empty((0, mask_words(vocabulary.width)), np.uint32),
            width=int(vocabulary.width),
        )

    def begins(self, first: int, stop: int, size: int) -> NDArray[np.int32]:
        """Return where the pieces of so many bytes stand with which some rows begin."""
        begin, is_one = self.begin[first:stop], None
        if len(self.ends):
            is_one = self.ends[begin + size]
        if len(self.least):
            is_late = self.least[first:stop] <= begin + size
            is_one = is_late if is_one is None else is_one & is_late
        return begin if is_one is None else begin[is_one]


class Places(NamedTuple):
    """Where pieces of a text begin and end, in characters.

    Attributes:
        begins: int64[P] where a piece may begin. least, most: int64[P] where one that begins there
            ends at the nearest and at the farthest. ends: int64[E] where a piece may end.
    """

    begins: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    ends: NDArray[np.int64]


def _bounds(what: str, text: str) -> list[tuple[int, int]]:
    """Return where words or sentences begin and end, in characters."""
    if what == WORDS:
        return [match.span() for match in _WORD.finditer(text)]
    found = []
    for line in _LINE.finditer(text):
        # Without the blanks at its end, so that none is looked at twice.
        stop = line.start() + len(line[0].rstrip())
        found += [match.span() for match in _SENTENCE.finditer(text, line.start(), stop)]
    return found


def _table(bounds: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Return bounds as int64[n, 2]."""
    return np.array(bounds, np.int64).reshape(-1, 2)


def _places(text: str, options: SpanOptions) -> Places:
    """Return where pieces begin and end; of each place where one begins, some end is in reach."""
    n = len(text)
    if options.whole is None:
        begins, ends = np.arange(n), np.arange(1, n + 1)
    else:
        bounds = _table(_bounds(options.whole, text))
        begins, ends = bounds[:, 0], bounds[:, 1]
    nearest, farthest = begins + 1, np.full(len(begins), n)
    if options.shortest is not None or options.longest is not None:
        words = _table(_bounds(WORDS, text))
        # Behind the last word nothing begins: n + 1 lies beyond all ends.
        starts = np.append(words[:, 0], n)
        first = np.searchsorted(words[:, 1], begins, "right")
        if options.shortest is not None:
            last = np.minimum(first + options.shortest - 1, len(words))
            nearest = np.maximum(nearest, starts[last] + 1)
        if options.longest is not None:
            farthest = starts[np.minimum(first + options.longest, len(words))]
    low = np.searchsorted(ends, nearest)
    high = np.searchsorted(ends, farthest, "right") - 1
    kept = low <= high
    return Places(begins[kept], ends[low[kept]], ends[high[kept]], ends)


def span_rows(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], options: SpanOptions
) -> dict[str, NDArray[Any]]:
    """Sort what follows the places where pieces of documents may begin.

    Args:
        data: uint8[D] UTF-8 of the documents, a ``SEPARATOR`` behind each.
        offsets: int64[M + 1] where each begins.
        options: Which pieces.

    Returns:
        ``data``, ``begin``, ``length``, ``least`` and ``ends``, as ``cdec_spans`` has them; no row
        where there is no such piece. Cost: O(D), 0.2 s and 15 bytes of memory a byte for 1 MB;
        where pieces are whole or have bounds also what finding words takes.
    """
    none = np.empty(0, np.int32)
    rows: dict[str, NDArray[Any]] = {
        "data": data, "length": none, "least": none, "ends": np.empty(0, np.bool_),
    }  # fmt: skip
    if options == SpanOptions():
        size = int(np.count_nonzero(data & 0xC0 != 0x80)) - (len(offsets) - 1)
        begin = np.empty(size, np.int32)
        library.spans_sort(data, none, begin, none)
        return rows | {"begin": begin}
    until, nearest, ends, size = _marked(data, offsets, options)
    begin, length = np.empty((2, size), np.int32)
    library.spans_sort(data, until, begin, length)
    rows |= {"begin": begin, "length": length}
    rows |= {} if options.shortest is None else {"least": nearest[begin]}
    return rows | ({} if options.whole is None else {"ends": ends})


def _marked(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], options: SpanOptions
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_], int]:
    """Return of each byte where a piece from there ends at the farthest and at the nearest.

    Both are int32[D], -1 where none begins; bool[D + 1] is where pieces end; how many begin.
    """
    until, nearest = np.full(len(data), -1, np.int32), np.full(len(data), -1, np.int32)
    ends, size = np.zeros(len(data) + 1, np.bool_), 0
    for first, behind in pairwise(offsets.tolist()):
        own = data[first : behind - 1]
        places = _places(own.tobytes().decode(), options)
        at = first + np.append(np.flatnonzero(own & 0xC0 != 0x80), len(own)).astype(np.int32)
        until[at[places.begins]], nearest[at[places.begins]] = at[places.most], at[places.least]
        ends[at[places.ends]] = True
        size += len(places.begins)
    return until, nearest, ends, size


def with_masks(view: SpanView, trie: TokenTrie, most: int, rows: int = 0) -> SpanView:
    """Return a view with the masks of its widest states.

    Args:
        view: Of rows, without masks.
        trie: Of the vocabulary.
        most: Most masks; that of all rows is one in any case.
        rows: Fewest rows of the others.

    Returns:
        The view. Cost: a walk of the vocabulary's trie each, by all cores.
    """
    states = np.empty(most, np.int64)
    found = np.sort(states[: library.spans_widest(view, rows, states)])
    masks = np.zeros((len(found), mask_words(view.width)), np.int32)
    session = SpanSession(view, trie)
    parts = range(0, len(found), _MASKS_AT_ONCE)
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        pieces = [slice(a, a + _MASKS_AT_ONCE) for a in parts]
        list(pool.map(lambda part: session.fill_mask(found[part], masks[part]), pieces))
    return view._replace(wide_states=found, wide_masks=masks.view(np.uint32))


def letters_known(letters: NDArray[np.uint8], vocabulary: Vocabulary) -> bool:
    """Say whether each of some bytes is a token of its own: then no piece is a dead end."""
    lengths = np.diff(vocabulary.byte_offsets)
    single = np.flatnonzero((lengths == 1) & vocabulary.is_ordinary)
    return bool(np.isin(letters, vocabulary.flat_bytes[vocabulary.byte_offsets[single]]).all())


def require_end_ids(vocabulary: Vocabulary) -> None:
    """Refuse a vocabulary without an end-of-sequence id.

    Raises:
        UsageError: It has none.
    """
    if not vocabulary.eos_token_ids:
        raise UsageError(
            "spans end with an end-of-sequence id, the vocabulary has none",
            hint="name one with Vocabulary.with_eos",
        )


class SpanConstraint(Constraint):
    """The pieces of a document, verbatim; the empty one is none.

    Args:
        document: Text.
        vocabulary: Of the model that draws.
        options: Which pieces; None for any characters.
        field: Name of the record's field that holds the document, for ``span`` in samples.

    Attributes:
        view: The sorted rows, as walks read them.

    Raises:
        EmptySetError: The document is empty, or has no such piece.
        EncodingError: It holds half a surrogate pair.
        LimitError: It has more than ``MAX_DOCUMENT_BYTES``.
        UsageError: The document is no text, or the vocabulary has no end-of-sequence id.

    Cost: 0.2 s for 1 MB; memory 5 bytes a byte, up to 14 where pieces are whole or have bounds. A
    mask costs a walk of the vocabulary's trie, as far as pieces go on so: microseconds where few
    places are left.
    """

    def __init__(
        self,
        document: str,
        vocabulary: Vocabulary,
        options: SpanOptions | None = None,
        field: str | None = None,
    ) -> None:
        self.document = document
        self._where = {} if field is None else {"field": field}
        self.vocabulary = vocabulary
        self.options = options or SpanOptions()
        self._trie = TokenTrie.of(vocabulary)
        self.view = with_masks(self._sorted(_utf8(document)), self._trie, 1)

    def _sorted(self, data: NDArray[np.uint8]) -> SpanView:
        """Return the rows of the document."""
        require_end_ids(self.vocabulary)
        rows = span_rows(data, np.array([0, len(data)]), self.options)
        if not len(rows["begin"]):
            is_empty = len(data) == len(SEPARATOR)
            raise EmptySetError(
                "the document is empty" if is_empty else "the document has no such piece",
                hint="give one" if is_empty else "ask for fewer words, or for any characters",
            )
        return SpanView.of(rows, self.vocabulary)

    @cached_property
    def facts(self) -> Facts:
        """Its facts: without dead ends where every byte of the document is a token."""
        is_sound = letters_known(np.unique(self.view.data[:-1]), self.vocabulary)
        return Facts(kind="span", is_sound=is_sound, takes_bytes=True)

    def session(self, device: str = "cpu") -> Session:
        """Return a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self.on_host(), device)

    def on_host(self) -> SpanSession:
        """Return a decoding run on the host."""
        return SpanSession(self.view, self._trie)

    def accepts(self, text: bytes) -> bool | None:
        """Look for the text in the document as it is, without the sorted rows.

        Returns:
            None where more than 512 MiB would have to be compared.
        """
        try:
            piece = text.decode()
        except UnicodeDecodeError:
            return False
        return self._search.holds(piece)

    @cached_property
    def _search(self) -> SpanSearch:
        return SpanSearch(self.document, self.options)

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return where a piece stands first, in characters, and at how many places it does."""
        begins = self.on_host().begins(text)
        if not len(begins):
            return {}
        offset = int(np.count_nonzero(self.view.data[: begins.min()] & 0xC0 != 0x80))
        found = {"offset": offset, "length": len(text.decode()), "places": len(begins)}
        return {"span": {**self._where, **found}}


class SpanSearch:
    """A document as it is, in which pieces are looked for without sorted rows.

    Args:
        document: Text.
        options: Which pieces are meant.
    """

    def __init__(self, document: str, options: SpanOptions) -> None:
        self.document, self.options = document, options

    def holds(self, piece: str) -> bool | None:
        """Say whether a text is a piece that is meant.

        Returns:
            None where more than 512 MiB would have to be compared.
        """
        compared = 0
        for start in self._candidates(piece) if piece else ():
            if self.fits(start, start + len(piece)):
                return True
            compared += len(piece)
            if compared > MOST_COMPARED:
                return None
        return False

    def _candidates(self, piece: str) -> Iterator[int]:
        """Yield where a piece stands; of few words or sentences, where it may begin."""
        if self.options.whole is not None and len(self._edges[0]) < _FEW_EDGES:
            yield from (s for s in self._edges[0] if self.document.startswith(piece, s))
            return
        start = self.document.find(piece)
        while start >= 0:
            yield start
            start = self.document.find(piece, start + 1)

    def fits(self, start: int, end: int) -> bool:
        """Say whether the text between two places, in characters, is a piece that is meant."""
        if self.options.whole is not None:
            begins, ends = self._edges
            at = bisect_left(begins, start)
            if begins[at : at + 1] != [start] or end not in ends:
                return False
        if self.options.shortest is None and self.options.longest is None:
            return True
        begins, stops = self._words
        touched = bisect_left(begins, end) - bisect_right(stops, start)
        longest = self.options.longest
        return (self.options.shortest or 0) <= touched and (longest is None or touched <= longest)

    @cached_property
    def _edges(self) -> tuple[list[int], frozenset[int]]:
        found = _bounds(self.options.whole or WORDS, self.document)
        return [begin for begin, _ in found], frozenset(end for _, end in found)

    @cached_property
    def _words(self) -> tuple[list[int], list[int]]:
        found = _bounds(WORDS, self.document)
        return [begin for begin, _ in found], [end for _, end in found]


class SpanSession(HostSession):
    """A walk over the sorted rows; states are integers, so the session itself holds none.

    Args:
        view: The rows.
        trie: Of the vocabulary.
    """

    def __init__(self, view: SpanView, trie: TokenTrie) -> None:
        self._view, self._spans = view, library.hold_spans(view)
        self._trie, self._deepest = library.hold_token_trie(trie.arrays()), trie.max_depth
        self._end_ids = view.end_ids
        self.words = mask_words(view.width)
        self._start = 0

    def rows(self, state: int) -> tuple[int, int]:
        """Return the rows that begin with the text of a state, as a half-open range."""
        found = np.empty(2, np.int64)
        library.spans_rows(self._spans, state, found)
        return int(found[0]), int(found[1])

    def begins(self, text: bytes) -> NDArray[np.int32]:
        """Return where a text stands as a piece that is meant, int32[n] in no order."""
        states = self.advance_bytes(self.start(1), [text])
        if not self.is_complete(states)[0]:
            return np.empty(0, np.int32)
        return self._view.begins(*self.rows(int(states[0])), len(text))

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return allowed_of_masks(self._fill_rows, integers(states, 1, "states"), self.words)

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        at = integers(states, 1, "states")
        return forced_of_masks(self._fill_rows, at, self.words, self._end_ids)

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        library.spans_advance(self._spans, at, tokens, out)

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        mask = packed.view(np.uint32)
        library.spans_fill_mask(self._spans, self._trie, self._deepest, at, mask)

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        library.spans_check(self._spans, at, tokens, out)

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        library.spans_complete(self._spans, at, out)

    def _advance_texts(
        self,
        at: NDArray[np.int64],
        flat: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        out: NDArray[np.int64],
    ) -> None:
        library.spans_advance_bytes(self._spans, at, flat, offsets, out)


def _utf8(document: object) -> NDArray[np.uint8]:
    """Return the bytes of a document, with a ``SEPARATOR`` behind it.

    Raises:
        UsageError, EncodingError, LimitError: It is no text, none of characters, or too long.
    """
    if not isinstance(document, str):
        raise UsageError(
            f"the document is a {type(document).__name__}, a text was expected",
            hint="decode bytes first; of several documents choose one",
        )
    try:
        data = document.encode()
    except UnicodeEncodeError as error:
        raise EncodingError(
            f"character {error.start + 1} of the document is half a surrogate pair",
            hint="replace it",
        ) from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise LimitError(
            f"the document has {len(data):,} bytes, more than {MAX_DOCUMENT_BYTES:,}",
            hint="give the part of it that may be quoted",
        )
    return np.frombuffer(data + SEPARATOR, np.uint8)

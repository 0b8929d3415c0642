"""GrowingTexts: texts handed out piece by piece while they are decoded."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.errors import CdecError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cdec.core.combine.free_text import FreeText
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.request import Request
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.candidates import Grown
    from cdec.samplers.walks.outcome import Outcome

STREAMED = ("masked", "greedy", "speculative")
"""Methods whose draws grow token by token, none of which is taken back."""


def require_streamed(method: str) -> None:
    """Refuse a method that chooses among texts which are done.

    Raises:
        UsageError: The hint has those whose texts grow.
    """
    if method not in STREAMED:
        raise UsageError(
            f"texts of `method` {method!r} are chosen when they are done, and cannot be streamed",
            hint=f"give one of {', '.join(STREAMED)}, whose texts grow token by token",
        )


FREE_TEXT, TEXT = "free_text", "text"
"""Fields of a record that pieces join to: what stands before a constraint, and the text."""


@dataclass(frozen=True)
class Piece:
    """What a text grew by.

    Attributes:
        id: Of the record. index: Number of the draw.
        part: The field that it belongs to.
        text: Whole characters; none in some last ones.
        is_last: Whether the text ends with it.
        is_shown: Whether the same was handed out before, as what stands before a constraint that
            the model never came to.
    """

    id: object
    index: int
    part: str
    text: str
    is_last: bool = False
    is_shown: bool = False


class GrowingTexts:
    """An observer that hands out what texts grow by; pieces joined are the fields of the sample.

    All pieces of ``free_text`` come before those of ``text``; tagged regions are within ``text``,
    with what stands around them. A piece is whole characters; what may turn out to be a suffix of
    the artifact's, or stands behind one of several prefixes, waits for the end. Where a batch is
    drawn anew without a record that failed, no piece comes twice.

    Args:
        method: That draws.
        write: Takes a piece.

    Raises:
        UsageError: A method whose texts do not grow so.
    """

    def __init__(self, method: str, write: Callable[[Piece], None]) -> None:
        require_streamed(method)
        self._write = write
        self._growing: dict[tuple[object, int], _Growing] = {}

    def watched(self, model: LanguageModel) -> LanguageModel:
        """Return the model, of which nothing is asked."""
        return model

    def told(
        self, batch: Batch, request: NDArray[np.int64], draw: NDArray[np.int64], grown: Grown
    ) -> None:
        """Hand out what is new; as ``Observer.told``."""
        tokens, depth = grown
        order = np.argsort(depth, kind="stable")
        rows = zip(request[order].tolist(), draw[order].tolist(), strict=True)
        touched: dict[tuple[object, int], Request] = {}
        for (number, position), place, token in zip(
            rows, depth[order].tolist(), tokens[order].tolist(), strict=True
        ):
            asked = batch.requests[number]
            index = position if asked.indices is None else asked.indices[position]
            key = (asked.id, index)
            if key not in self._growing:
                self._growing[key] = _Growing(batch.model.vocabulary)
            touched[key] = asked
            self._growing[key].put(len(asked.begun) + place, token, asked)
        for (name, index), asked in touched.items():
            for part, text in self._growing[name, index].pieces(asked):
                self._write(Piece(name, index, part, text))

    def note(
        self, batch: Batch, outcome: Outcome, results: Sequence[list[Sample] | CdecError]
    ) -> None:
        """Hand out the rest of every text that has no other part; as ``Observer``."""
        for request, found in zip(batch.requests, results, strict=True):
            if request.part is None:
                self._end(found)

    def note_joined(self, results: Sequence[list[Sample] | CdecError]) -> None:
        """Hand out the rest of every text; as ``Observer``."""
        for found in results:
            self._end(found)

    def _end(self, found: list[Sample] | CdecError) -> None:
        for sample in [] if isinstance(found, CdecError) else found:
            growing = self._growing.pop((sample.id, sample.index), None)
            shown = {p: 0 if growing is None else growing.length(p) for p in (FREE_TEXT, TEXT)}
            free, text = str(sample.diagnostics.get(FREE_TEXT, "")), sample.text or ""
            if rest := free[shown[FREE_TEXT] :]:
                self._write(Piece(sample.id, sample.index, FREE_TEXT, rest))
            # A text that came to no marker is its own free text.
            is_shown = FREE_TEXT in sample.diagnostics and sample.diagnostics["marker"] is None
            rest = text[shown[TEXT] :]
            self._write(Piece(sample.id, sample.index, TEXT, rest, True, is_shown))


@dataclass(slots=True)
class _Field:
    """A field of a record on its way.

    Attributes:
        fed: Bytes of it that were decoded. length: Characters that were handed out.
        is_whole: Whether nothing more comes.
    """

    fed: int = 0
    length: int = 0
    is_whole: bool = False
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def take(self, data: bytes, *, is_last: bool) -> str:
        """Return the whole characters that end in further bytes; all that is left in the last."""
        if self.is_whole:
            return ""
        text = self._decoder.decode(data, is_last)
        self.fed, self.length = self.fed + len(data), self.length + len(text)
        self.is_whole = is_last
        return text


@dataclass(frozen=True, slots=True)
class _Sure:
    """The beginning of a field that no further token changes.

    Attributes:
        part: The field.
        head: Bytes that it begins with.
        start, stop: Those that follow, of all that the tokens spell.
        waiting: Bytes at the end that may still prove to be none of it.
        is_last: Whether that is all of it.
    """

    part: str
    head: bytes = b""
    start: int = 0
    stop: int = 0
    waiting: int = 0
    is_last: bool = False

    def after(self, fed: int, data: bytearray) -> bytes:
        """Return the bytes behind the first ``fed``. Cost: by their number alone."""
        ahead = len(self.head)
        most = max(0, ahead + self.stop - self.start - self.waiting)
        begin = self.start + max(0, fed - ahead)
        return self.head[fed:most] + bytes(data[begin : self.start + max(0, most - ahead)])


@dataclass
class _Growing:
    """One text under way.

    Free text, what follows a marker's token, and members to which each token adds its own text are
    decoded once: a token costs by its own bytes.

    Attributes:
        vocabulary: Of its tokens.
        tokens: So far, of all its parts.
        data: What they spell. ends: Bytes of it up to the end of each.
        shown: What was handed out, by field.
        adds_up: Whether ``data`` is the text of a member but for what it begins with.
    """

    vocabulary: Vocabulary
    tokens: list[int] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)
    shown: dict[str, _Field] = field(default_factory=dict)
    adds_up: bool = False

    def put(self, place: int, token: int, asked: Request) -> None:
        """Take token number ``place``; what stood there and behind it was drawn before."""
        own = None
        if asked.constraint is not None and asked.part is None:
            own = asked.constraint.text_of_token(token)
        self.adds_up = own is not None
        del self.tokens[place:], self.ends[place:]
        del self.data[self._end(len(self.ends)) :]
        self.data += self.vocabulary.decode((token,)) if own is None else own
        self.tokens.append(token)
        self.ends.append(len(self.data))

    def length(self, part: str) -> int:
        """Return how many characters of a field were handed out."""
        return self.shown[part].length if part in self.shown else 0

    def pieces(self, asked: Request) -> Iterator[tuple[str, str]]:
        """Yield what can be handed out now, by field; it counts as handed out."""
        for sure in self._sure(asked):
            shown = self.shown.setdefault(sure.part, _Field())
            if new := shown.take(sure.after(shown.fed, self.data), is_last=sure.is_last):
                yield sure.part, new

    def _end(self, count: int) -> int:
        """Return how many bytes the first tokens spell."""
        return self.ends[count - 1] if count else 0

    def _sure(self, asked: Request) -> Iterator[_Sure]:
        """Yield the beginning of each field that no further token changes."""
        part = asked.part
        if part is None:
            yield self._member(asked)
        elif part.free.end is not None:
            yield _Sure(TEXT, stop=len(self.data))
        elif part.is_free:
            yield _Sure(FREE_TEXT, stop=self._free(part.free))
        else:
            stop = self._end(len(asked.begun)) - len(part.onward)
            yield _Sure(FREE_TEXT, stop=stop, is_last=True)
            yield self._member(asked)

    def _free(self, free: FreeText) -> int:
        """Return where free text ends: before what its last token has behind a marker."""
        stop, last = len(self.data), self._end(len(self.ends) - 1)
        for marker in map(str.encode, free.after):
            at = self.data.find(marker, max(0, last - len(marker) + 1), stop)
            stop = at + len(marker) if at >= 0 else stop
        return stop

    def _member(self, asked: Request) -> _Sure:
        """Return what is sure of a member."""
        constraint, part = asked.constraint, asked.part
        start, stop = self._end(len(asked.begun)), len(self.data)
        if constraint is None:
            return _Sure(TEXT, start=start, stop=stop)
        heads = {head for head, _ in constraint.facts.frames}
        waiting = max((len(tail) for _, tail in constraint.facts.frames), default=0)
        if self.adds_up:
            return _Sure(TEXT, constraint.member_text(()), start, stop, waiting)
        if part is None or (not part.onward and part.free.closing is None):
            tokens = self.tokens[len(asked.begun) :]
            data = b"" if len(heads) > 1 else constraint.member_text(tokens)
            return _Sure(TEXT, data, waiting=waiting)
        if any(heads):
            # What is left out before a member is told only where the member has ended.
            return _Sure(TEXT)
        waiting = max(waiting, len((part.free.closing or "").encode()))
        return _Sure(TEXT, part.onward, start, stop, waiting)
